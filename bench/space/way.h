/* A way for many ranks to save a field each: the subject of the measurement. */
#ifndef WAY_H
#define WAY_H

#include <mainstay.h>
#include <stddef.h>

typedef struct way way;

typedef struct kind {
  const char *name;
  /* Once; NULL: nothing to do. */
  void (*open)(way *way);
  /* Saves durably. Returns the time, on the clock now(), at which the program could go on. */
  double (*save)(way *way, int number);
  /* Removes the result of an earlier save; or NULL. Not measured. */
  void (*forget)(way *way, int number);
  void (*close)(way *way);
} kind;

struct way {
  const kind *kind;
  const char *name, *settings; /* of a session: KEY=VALUE,... */
  const char *directory;       /* as this rank sees it */
  unsigned char *data;
  size_t bytes;
  int rank, ranks;
  mainstay_session *session;
};

/* A new file for each rank and save. */
extern const kind file_kind;
/* A new file for each save, in which every rank has one part; or pieces, in turns with those of the others. */
extern const kind segmented_kind, strided_kind;
/* A session of Mainstay. */
extern const kind delegated_kind;

#endif
