/* SCR's functions, which save with Mainstay. Licence: MIT OR Apache-2.0.
 *
 * Names and arguments are those of SCR, so that a program of SCR can be linked to this library unchanged. Each function
 * returns SCR_SUCCESS or another number; a failure prints its reason on standard error. The ranks are those of
 * MPI_COMM_WORLD, and call all functions but SCR_Route_file and SCR_Get_version together. The page "From SCR" of
 * Mainstay's guide has the settings. */
#ifndef MAINSTAY_SCR_H
#define MAINSTAY_SCR_H

#ifdef __cplusplus
extern "C" {
#endif
/* The library hides all other functions. */
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The version of SCR that these functions follow. */
#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"

#define SCR_SUCCESS (0)

/* Bytes of a path or a name, with the zero at its end. */
#define SCR_MAX_FILENAME 1024

/* Kinds of a dataset: any sum of them. */
#define SCR_FLAG_NONE (0 << 0)
#define SCR_FLAG_CHECKPOINT (1 << 0) /* the job can restart from it */
#define SCR_FLAG_OUTPUT (1 << 1)     /* its files get their own names in the prefix directory */

int SCR_Init(void);
/* Waits for the last checkpoint, and closes the library. */
int SCR_Finalize(void);

/* Sets a parameter, "SCR_FLUSH=5"; removes it, "SCR_FLUSH="; or returns its value in memory of malloc, "SCR_FLUSH".
 * NULL: it has none. Parameters count from SCR_Init on, except those that SCR_Need_checkpoint reads. */
const char *SCR_Config(const char *config);
const char *SCR_Configf(const char *format, ...);

/* The file that this rank writes or reads for the file `name` of the dataset. `file` has room for SCR_MAX_FILENAME
 * bytes. Outside of a dataset it is `name` itself. */
int SCR_Route_file(const char *name, char *file);

/* Whether there is a checkpoint to restart from, and its name. The ranks have verified it. */
int SCR_Have_restart(int *flag, char *name);
int SCR_Start_restart(char *name);
/* If `valid` is 0 on any rank, all get a failure, and SCR_Have_restart offers the previous checkpoint. */
int SCR_Complete_restart(int valid);

/* Whether to checkpoint now: by SCR_CHECKPOINT_INTERVAL, _SECONDS or _OVERHEAD, or, if none is set, by a rule of
 * Mainstay; or because the job should exit. */
int SCR_Need_checkpoint(int *flag);
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);

int SCR_Start_output(const char *name, int flags);
/* Saves the dataset on all ranks, or on none if `valid` is 0 on any. Returns after a copy into memory. */
int SCR_Complete_output(int valid);

/* Chooses the checkpoint `name` for the restart. */
int SCR_Current(const char *name);
/* Hides the checkpoint `name` from restarts. Mainstay reuses its room. */
int SCR_Drop(const char *name);
int SCR_Delete(const char *name);

char *SCR_Get_version(void);
/* Whether the job should end: by SCR_HALT_SECONDS before the time of SCR_END_TIME or SCR_EXIT_BEFORE, or after
 * SCR_EXIT_AFTER, in seconds since 1970; or if the file `halt` is in the directory `.scr`. */
int SCR_Should_exit(int *flag);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
