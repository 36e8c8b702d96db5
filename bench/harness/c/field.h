/* The data that the programs save. Each word holds its rank, place and time; no two words are alike, so nothing can
 * compress or share them. */
#ifndef FIELD_H
#define FIELD_H

#include <stddef.h>
#include <stdint.h>

void field_fill(uint64_t *words, size_t count, int rank, uint64_t stamp);
/* Stops the job at the first word that differs from the one that field_fill wrote. */
void field_check(const uint64_t *words, size_t count, int rank, uint64_t stamp);

#endif
