/* Parts that the stand-ins for other checkpoint libraries share. Licence: MIT OR Apache-2.0.
 *
 * A stand-in has the functions of another library and saves with Mainstay. Your own mpicc compiles it: `mainstay
 * stand-in`. It talks to Mainstay by mainstay_mpi.h alone. */
#ifndef MAINSTAY_STAND_IN_H
#define MAINSTAY_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#include "mainstay_mpi.h"

/* The settings of a configuration file: `name = value` lines, in sections `[section]` as `section:name`. Capital
 * letters do not matter. */
typedef struct stand_in_setting {
  char *name, *value;
} stand_in_setting;

typedef struct stand_in_settings {
  stand_in_setting *all;
  size_t count;
} stand_in_settings;

/* Adds the settings of the file at `path`. Returns 0; the number of the first line that is no setting; or -1 if the
 * file cannot be read. */
long stand_in_read_settings(stand_in_settings *settings, const char *path);
/* Sets `name`, or removes it if `value` is NULL. */
void stand_in_set(stand_in_settings *settings, const char *name, const char *value);
/* The value of `name`; NULL if it has none. */
const char *stand_in_value(const stand_in_settings *settings, const char *name);
void stand_in_forget_settings(stand_in_settings *settings);

/* As malloc and realloc. If there is no memory, it prints a line and ends the program. */
void *stand_in_memory(void *old, size_t bytes);
/* Formats a text as printf does. The caller frees it. */
char *stand_in_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a line "mainstay: " and the text on standard error. */
void stand_in_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The absolute path without "." and "..", in memory of malloc. */
char *stand_in_absolute(const char *path);
/* Makes a folder and those above it. Returns 0, or an errno. */
int stand_in_make_folders(const char *path);
/* Removes a folder and its contents, as far as possible. */
void stand_in_remove_folder(const char *path);
/* Whether `value` is true, yes, on, or a number other than 0. */
int stand_in_is_true(const char *value);

/* Whether `value` is a number and nothing else. NULL, a missing value, counts as one. */
int stand_in_is_number(const char *value);
/* A hash of the text. */
uint64_t stand_in_hash(const char *text);

/* Whether `is` holds on any rank; MPI_COMM_NULL: on this process. Collective. */
int stand_in_on_any(MPI_Comm comm, int is);

/* A space, and the job's folder on a node: for a level before the space, or for files alone. A NULL field leaves the
 * choice to Mainstay. */
typedef struct stand_in_space {
  char *path;
  char *node; /* as of stand_in_on_node */
  int has_level;
  const char *keep, *pfs_every, *capture; /* Mainstay's settings of these names */
  const char *level_keep, *level_copies;  /* memory_keep or disk_keep, memory_copies or disk_copies */
  double every_seconds;                   /* 0: Mainstay's own rules say when a checkpoint is due */
  /* The user's settings for the fields above, for messages. NULL: no setting of the user gives the field. */
  const char *of_keep, *of_pfs_every, *of_level_keep, *of_every_seconds;
} stand_in_space;

/* The message of Mainstay's last error, valid until the next call. A user of another library cannot make Mainstay's
 * calls, so advice to make one is replaced. */
const char *stand_in_message(void);

/* The path of a space's folder in `base`, a directory of the node. Each user and each space has a folder of its own.
 * The caller frees the path. */
char *stand_in_on_node(const char *base, const char *space);
/* Makes the folder on the node, and opens the space, for the ranks of `comm`, or for this process alone if it is
 * MPI_COMM_NULL. A job may save without having restarted, and the level may be lost, as with the other libraries.
 * Returns as stand_in_save_file. Collective. */
char *stand_in_open(MPI_Comm comm, const stand_in_space *space, mainstay_session **session);

/* Chooses a revision, or the newest if it is MAINSTAY_NEWEST, for a restart. `steps` gets the count of steps at that
 * revision, the same on all ranks: mainstay_due must count on from there. Collective. */
mainstay_status stand_in_choose(MPI_Comm comm, mainstay_session *session, uint64_t revision,
                                mainstay_restored *restored, uint64_t *steps);

/* Writes the file at `path` to the stream `name` of the open checkpoint. Returns NULL, or the reason for a failure,
 * which the caller frees. */
char *stand_in_save_file(mainstay_session *session, const char *name, const char *path);
/* Writes the item `name` of a shard to a new file at `path`. Returns as stand_in_save_file. */
char *stand_in_bring_file(mainstay_session *session, uint32_t shard, const char *name, const char *path);
/* The bytes of the file at `path`; -1 if there is none. */
int64_t stand_in_file_bytes(const char *path);
/* The index of the item `name` of a shard in `item`; -1 if there is none. */
long stand_in_find_item(mainstay_session *session, uint32_t shard, const char *name, mainstay_item *item);

#endif /* MAINSTAY_STAND_IN_H */
