/* A side: a way to save, and its own memory. All sides write the same places of their memory. */
#ifndef SIDE_H
#define SIDE_H

#include <stddef.h>
#include <stdint.h>

#include <mainstay.h>

#define PAGE_BYTES ((size_t)4096)
#define SPACE ".space" /* suffix of the spaces */

typedef struct side side;

typedef struct kind {
  const char *name;
  /* Once, before the first save. */
  void (*open)(side *side);
  /* Returns at t2. */
  void (*save)(side *side);
  /* Returns when the saved data is durable, with the seconds since t1. NULL: at once. */
  double (*wait)(side *side);
  void (*close)(side *side);
} kind;

struct side {
  const kind *kind;
  const char *name;     /* also of its space */
  const char *settings; /* of a session: KEY=VALUE,... */
  const char *directory;
  unsigned char *data; /* NULL until it is opened, if Mainstay allocates it */
  int is_allocated;    /* by Mainstay, in pages of 2 MiB */
  size_t bytes;
  uint64_t sum;          /* of all words, saved with them */
  const uint32_t *dirty; /* the pages that were written since the last save */
  size_t dirty_count;
  mainstay_session *session;
  void *own;
};

/* Copies the written pages to memory that was touched before: the least time of a save. */
extern const kind copy_kind;
/* Asks the kernel for the written pages and protects them again. Does nothing else. */
extern const kind scan_kind;
/* Checks each written page for zeros and lists the place of each stretch. Does nothing else. */
extern const kind list_kind;
/* Asks the kernel to clone the address space. Does nothing else. */
extern const kind clone_kind;
/* A session of Mainstay with the side's settings. */
extern const kind mainstay_kind;

/* Opens the session of a side and protects its memory, without a restore. */
void session_open(side *side);

#endif
