/* Rounds of a benchmark: how its sides take turns, begin from the same state, and are printed. */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stddef.h>

/* The numbers 0 to count-1 in an order that differs from round to round and is the same on all ranks. */
void shuffled(size_t *order, size_t count, int round);

/* Waits for all ranks, asleep: there may be more of them than processors. */
void meet(void);

/* Waits until no transfer is in flight, and removes the files below `directory` from the page cache. Folders with the
 * suffix `but` keep theirs; NULL: none does. */
void settle(const char *directory, const char *but);

/* Has all ranks go on at one moment, from sleep; returns it, of the clock now(). */
double start_together(void);

/* Rank 0 prints a line of JSON: the side, the round, and under each name the value of every rank. Rounds
 * below 0 warm up. */
void print(const char *side, int round, size_t count, const char *const *names, const double *values);

#endif
