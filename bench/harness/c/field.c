#include "field.h"

#include "stop.h"

static uint64_t word(int rank, uint64_t stamp, size_t at) {
  uint64_t x = (at + 1) * 0x9e3779b97f4a7c15u ^ (stamp << 8 | (uint64_t)rank) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 29;
}

void field_fill(uint64_t *words, size_t count, int rank, uint64_t stamp) {
  for (size_t at = 0; at < count; at++) words[at] = word(rank, stamp, at);
}

void field_check(const uint64_t *words, size_t count, int rank, uint64_t stamp) {
  for (size_t at = 0; at < count; at++)
    if (words[at] != word(rank, stamp, at)) stop("rank %d: word %zu was not restored", rank, at);
}
