/* The board: a mapped file through which a rank says what it is doing, up to the moment it is killed. */
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdint.h>

/* What the program's own thread does. The test has the same lists: test_kills.py. WRITING: in pieces, which not
 * every program does. */
enum { STARTING, COMPUTING, SETTLING, COMMUNICATION, STAGING, WAITING, WRITING };

/* What becomes of the revision that is on its way; DATA: its manifest and catalogue too. */
enum { IDLE, FREEING, DATA, DATA_SYNC, SLOT, SLOT_SYNC };

typedef struct cell {
    _Atomic uint32_t program, io;
    _Atomic uint64_t revision; /* the last that mainstay_checkpoint returned */
    _Atomic uint32_t program_hit, io_hit; /* phases in which a signal came, a bit each */
    _Atomic uint32_t writes; /* since its first checkpoint began */
    char rest[36];           /* a cache line for each rank */
} cell;

_Static_assert(sizeof(cell) == 64, "one cache line");

extern cell *board; /* this rank's cell */

/* A new revision begins: what is written from now on belongs to it. */
void phases_begin(void);

/* Has signals come all the time from now on, with a handler that restarts no system call. */
void signals_begin(void);

/* Not while this thread prints: stdio loses what it was writing. */
void signals_hold(int held);

/* Makes a short phase long enough to be hit. */
void stretch(long microseconds);

#endif
