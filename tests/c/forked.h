/* Ranks without an MPI: children of one process, which meet in memory that they share. They start in a millisecond. */
#ifndef FORKED_H
#define FORKED_H

#include <mainstay.h>

/* Forks `ranks` ranks; in each the call returns its number. In the calling process it does not return. When a rank
 * dies, this process kills the others, as mpiexec does, unless they must `survive`: then their next call reports it. It
 * ends with 0 if all ranks have ended with 0. */
uint32_t forked_begin(uint32_t ranks, int survive);

/* The ranks as a group for mainstay_open. */
mainstay_group forked_group(void);

/* Waits for all ranks; 0, or 1 if one of them is gone. */
int forked_meet(void);

/* Whether a rank is gone. */
int forked_is_broken(void);

#endif
