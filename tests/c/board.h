/* The board: a mapped file in which a rank notes its current phase, up to the moment of its death. */
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdint.h>

/* The phase of the program's own thread. The test has the same lists: test_kills.py. WRITING: in pieces; not every
 * program does that. */
enum { STARTING, COMPUTING, SETTLING, COMMUNICATION, STAGING, WAITING, WRITING };

/* The phase of the revision under way. DATA includes its manifest and catalogue. */
enum { IDLE, FREEING, DATA, DATA_SYNC, SLOT, SLOT_SYNC };

typedef struct cell {
  _Atomic uint32_t program, io;
  _Atomic uint64_t revision;            /* the last that mainstay_checkpoint returned */
  _Atomic uint32_t program_hit, io_hit; /* phases in which a signal came, as bits */
  _Atomic uint32_t writes;              /* since its first checkpoint began */
  char rest[36];                        /* a cache line for each rank */
} cell;

_Static_assert(sizeof(cell) == 64, "one cache line");

extern cell *board; /* this rank's cell */

/* Marks the beginning of a new revision: later writes belong to it. */
void phases_begin(void);

/* From now on signals arrive continuously. Their handler restarts no system call. */
void signals_begin(void);

/* Holds signals while this thread prints: stdio would lose its output. */
void signals_hold(int held);

/* Makes a short phase long enough to be hit. */
void stretch(long microseconds);

#endif
