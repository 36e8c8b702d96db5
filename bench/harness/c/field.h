/* What the programs save: words that tell the rank, the place and the time, no two alike, so that
 * nothing below can shorten them. */
#ifndef FIELD_H
#define FIELD_H

#include <stddef.h>
#include <stdint.h>

void field_fill(uint64_t *words, size_t count, int rank, uint64_t stamp);
/* Stops the job at the first word that is not what field_fill made. */
void field_check(const uint64_t *words, size_t count, int rank, uint64_t stamp);

#endif
