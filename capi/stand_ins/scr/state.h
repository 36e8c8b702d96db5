/* The state of the stand-in for SCR. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_SCR_STATE_H
#define MAINSTAY_SCR_STATE_H

#include "../stand_in.h"
#include "scr.h"

enum { SCR_FAILURE = 1 };
#define DATASET "dataset"
#define FLAGS "flags"
#define NUMBER "number"
#define NAMES "names"
/* Bytes of the stream NAMES at most. */
enum { NAMES_MAX = 64 << 20 };
/* Bytes of a stream's name. */
enum { STREAM_BYTES = 32 };

/* A file of the dataset. */
typedef struct route {
  char *original; /* below the prefix */
  char *path;     /* the rank's own file; NULL: not brought yet */
  char *final;    /* the name that it gets, or has, if the dataset is output; else NULL */
} route;

enum phase { IDLE, OUTPUT, RESTART };

typedef struct scr_state {
  int is_open, rank, ranks;
  MPI_Comm comm;
  mainstay_session *session;
  char *prefix, *node, *cache; /* the job's folder on the node, and in it this rank's for files */
  enum phase phase;
  int flags;
  char *name; /* of the dataset, or of the checkpoint to restart from */
  route *routes;
  size_t routes_count;
  /* The revision to restart from; 0: none. */
  uint64_t chosen;
  /* Revisions that the program has rejected by SCR_Complete_restart(0). */
  uint64_t *wrong;
  size_t wrong_count;
  uint64_t datasets, asked;         /* numbers of datasets, and of calls of SCR_Need_checkpoint */
  uint64_t steps;                   /* number of these calls since the first start of the job */
  double saving_began, saved, cost; /* times of the last checkpoint, and the sum of all costs, in seconds */
  uint64_t saved_count;
} scr_state;

extern scr_state scr;

/* Prints the reason for a failure of a call. */
int fail(const char *call, const char *why);
/* The same, with the message of Mainstay's last error. */
int failed(const char *call);
/* Prints the reason for a failure of a call and frees it. NULL: the call succeeded. */
int result(const char *call, char *why);
/* The message of Mainstay's last error, in memory of malloc. */
char *message(void);
/* Whether `is` holds on any rank. Collective. */
int on_any(int is);
/* Whether SCR is not initialized, or in another phase. Prints a line if so. */
int is_refused(const char *call, enum phase needed);

/* A parameter: the environment comes before SCR_Config and files. NULL: none. */
const char *parameter(const char *name);
double number(const char *name);
/* Adds the parameters of the file in SCR_CONF_FILE, and prints a line for each without effect. Returns the reason for a
 * failure, which the caller frees, or NULL. */
char *read_parameters(void);

const char *base_of(const char *path);
/* The folder of a file, in memory of malloc. */
char *folder_of(const char *path);
/* The part of `path` below the prefix, in memory of malloc; NULL: `path` is elsewhere. */
char *below_prefix(const char *path);
/* The path of a file in the directory `.scr`, in memory of malloc. */
char *of_prefix(const char *name);
/* The rank's own file for a file of the dataset: its folder has the number of the file. */
char *cached(size_t index, const char *original);
route *add_route(const char *original);
/* Forgets the files of the dataset, and removes those of this rank. */
void forget_routes(void);

/* Copies a file of the checkpoint to the cache: the file with this path, or else with this name. */
char *bring(const char *below, const char **file);

#endif
