/* The data that a victim writes in pieces. */
#ifndef PIECES_H
#define PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include <mainstay.h>

/* The most bytes that `pieces_write` ever writes. */
extern const uint64_t pieces_most;

/* Writes the streams that follow from `seed`, in pieces of all sizes. */
mainstay_status pieces_write(mainstay_session *session, uint64_t seed);

/* Whether the streams that were restored are those of `seed`, each byte of them. */
bool pieces_hold(mainstay_session *session, uint64_t seed);

#endif
