/* A side: one way to save the image and to bring it back. */
#ifndef SIDE_H
#define SIDE_H

#include <mainstay.h>

#include "image.h"

/* Moments of the clock now(): the program goes on, and the data is durable or handed to the kernel. With
 * a session, what that has recorded. */
typedef struct saved {
    double t2, t3;
    mainstay_record record;
} saved;

/* The same clock: after opening, and after what must be done before the image can be read. */
typedef struct restored {
    double opened, rebuilt, read;
} restored;

#define SPACE ".space" /* how the names of spaces end */

typedef struct side side;

typedef struct kind {
    const char *name;
    /* Once, before the first save; NULL: nothing to do. */
    void (*open)(side *side, const image *image);
    /* Before each save, not measured; or NULL. */
    void (*prepare)(side *side);
    /* t1 is when it is called. */
    void (*save)(side *side, const image *image, saved *saved);
    /* NULL: nothing is left that one could restart from. */
    void (*restart)(side *side, image *image, restored *restored);
    /* Once, after the last save; or NULL. */
    void (*close)(side *side, const image *image);
} kind;

struct side {
    const kind *kind;
    const char *name;     /* also of its files */
    const char *settings; /* of a session: KEY=VALUE,... */
    const char *directory;
    int rank;
    mainstay_session *session;
    unsigned char *buffer;
    struct raw_file *raw;
};

/* A session of Mainstay with the side's settings. */
extern const kind mainstay_kind;
/* memcpy of the image into memory touched before. */
extern const kind copy_kind;
/* As many bytes to a file a rank that is there already, O_DIRECT, and a sync: what the disk takes. */
extern const kind disk_kind;
/* The image to a new file a rank, in pieces of 4 MiB, and one fsync. */
extern const kind buffered_kind;
/* Each piece by a write(2) to a new file a rank; and an fsync. */
extern const kind plain_kind, plain_fsync_kind;
/* The published layout of WAG-DBI: a synced file for each chunk of 4 MiB. */
extern const kind published_kind;

#endif
