/* What a restart reads, and the same reads bare: the least that it takes where a revision lies as it does. */
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

/* Notes what this process reads from here on of files below `directory`, a full path, in `into`, which is empty; NULL: none any
 * more. */
void reads_record(reads *into, const char *directory);
/* Reads all that once more, from several threads: how many seconds that takes. */
double reads_again(const reads *r);
void reads_forget(reads *r);

#endif
