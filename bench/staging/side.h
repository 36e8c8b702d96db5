/* A side: one way to save the image and to bring it back. */
#ifndef SIDE_H
#define SIDE_H

#include <mainstay.h>

#include "image.h"

/* Times on the clock now(): the program goes on, and the data is durable or in the kernel. A session adds its
 * record. */
typedef struct saved {
  double t2, t3;
  mainstay_record record;
} saved;

/* Times on the same clock: after opening, and after the steps that must precede reading the image. */
typedef struct restored {
  double opened, rebuilt, read;
} restored;

#define SPACE ".space" /* suffix of the spaces */

typedef struct side side;

typedef struct kind {
  const char *name;
  /* Once, before the first save; NULL: nothing to do. */
  void (*open)(side *side, const image *image);
  /* Before each save, not measured; or NULL. */
  void (*prepare)(side *side);
  /* Called at t1. */
  void (*save)(side *side, const image *image, saved *saved);
  /* NULL: a restart is impossible. */
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
/* The same number of bytes to an existing file for each rank, with O_DIRECT and a sync: the limit of the disk. */
extern const kind disk_kind;
/* The image to a new file a rank, in pieces of 4 MiB, and one fsync. */
extern const kind buffered_kind;
/* Each piece by a write(2) to a new file for each rank; then an fsync. */
extern const kind plain_kind, plain_fsync_kind;
/* The published layout of WAG-DBI: a synced file for each chunk of 4 MiB. */
extern const kind published_kind;

#endif
