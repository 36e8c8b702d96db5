/* A side: memory of its own, written at the same places as that of the others, and one way to save it. */
#ifndef SIDE_H
#define SIDE_H

#include <stddef.h>
#include <stdint.h>

#include <mainstay.h>

#define PAGE_BYTES ((size_t)4096)
#define SPACE ".space" /* how the names of spaces end */

typedef struct side side;

typedef struct kind {
    const char *name;
    /* Once, before the first save. */
    void (*open)(side *side);
    /* Returns at t2. */
    void (*save)(side *side);
    /* Returns when what was saved is durable: after how many seconds since t1. NULL: at once. */
    double (*wait)(side *side);
    void (*close)(side *side);
} kind;

struct side {
    const kind *kind;
    const char *name;     /* also of its space */
    const char *settings; /* of a session: KEY=VALUE,... */
    const char *directory;
    unsigned char *data; /* until it is opened NULL where Mainstay allocates it */
    int is_allocated; /* by Mainstay, in pages of 2 MiB */
    size_t bytes;
    uint64_t sum; /* of all words, saved with them */
    const uint32_t *dirty; /* the pages that were written since the last save */
    size_t dirty_count;
    mainstay_session *session;
    void *own;
};

/* Copies the pages that were written, into memory touched before: the least that saving them takes. */
extern const kind copy_kind;
/* Has the kernel find the pages that were written and protect them again, and nothing else. */
extern const kind scan_kind;
/* Looks whether each page that was written is zeros, and lists where each stretch goes, and nothing else. */
extern const kind list_kind;
/* Has the kernel clone the address space, and nothing else. */
extern const kind clone_kind;
/* A session of Mainstay with the side's settings. */
extern const kind mainstay_kind;

/* Opens the session of a side, whose memory is protected but not restored yet. */
void session_open(side *side);

#endif
