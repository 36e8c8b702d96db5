/* The reads of a restart, and the same reads without Mainstay: the least time of a restart from this file layout. */
#ifndef READS_H
#define READS_H

#include <stddef.h>
#include <sys/types.h>

#define READS_FILES_MAX 64

typedef struct one_read {
  int file;
  size_t bytes;
  off_t at;
} one_read;

typedef struct reads {
  char *paths[READS_FILES_MAX];
  int flags[READS_FILES_MAX]; /* O_DIRECT or 0 */
  int files;
  one_read *list;
  size_t count, room;
} reads;

/* From now on records the reads of this process from files below `directory`, a full path, in `into`, which is empty.
 * NULL: stops recording. */
void reads_record(reads *into, const char *directory);
/* Repeats all recorded reads from several threads; returns the seconds. */
double reads_again(const reads *r);
void reads_forget(reads *r);

#endif
