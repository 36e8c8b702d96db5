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

/* Ends the program with a line on standard error: there is no memory. Otherwise as malloc and realloc. */
void *stand_in_memory(void *old, size_t bytes);
/* A text in memory of malloc, as of printf. */
char *stand_in_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a line "mainstay: " and the text on standard error. */
void stand_in_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The absolute path without "." and "..", in memory of malloc. */
char *stand_in_absolute(const char *path);
/* Makes a folder and those above it. Returns 0, or an errno. */
int stand_in_make_folders(const char *path);
/* Removes a folder with all that is in it, as far as that is possible. */
void stand_in_remove_folder(const char *path);
/* Whether a folder is in memory. */
int stand_in_is_in_memory(const char *folder);
/* Whether `value` says yes: true, yes, on or a number other than 0. */
int stand_in_is_true(const char *value);

/* Writes the file at `path` to the stream `name` of the checkpoint that has begun. Returns NULL, or the reason for a
 * failure in memory of malloc. */
char *stand_in_save_file(mainstay_session *session, const char *name, const char *path);
/* Writes the item `name` of a shard to a new file at `path`. Returns as stand_in_save_file. */
char *stand_in_bring_file(mainstay_session *session, uint32_t shard, const char *name, const char *path);
/* The bytes of the file at `path`; -1 if there is none. */
int64_t stand_in_file_bytes(const char *path);
/* The index of the item `name` of a shard in `item`; -1 if there is none. */
long stand_in_find_item(mainstay_session *session, uint32_t shard, const char *name, mainstay_item *item);

#endif /* MAINSTAY_STAND_IN_H */
