#include "content.h"

#include <string.h>

uint32_t crc32_of(const void *data, size_t bytes) {
  static uint32_t table[256];
  const unsigned char *byte = data;
  uint32_t crc = ~0u;
  if (!table[1])
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
      table[i] = c;
    }
  for (size_t i = 0; i < bytes; i++) crc = table[(crc ^ byte[i]) & 255] ^ crc >> 8;
  return ~crc;
}

static uint64_t word(uint64_t start, uint64_t index) {
  uint64_t x = start + index * 0xd6e8feb86659fd93u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ x >> 32;
}

void content(uint64_t tag, uint64_t salt, const char *name, uint64_t from, void *data, size_t bytes) {
  unsigned char *into = data;
  const uint64_t start = tag * 0x9e3779b97f4a7c15u + salt * 0xc2b2ae3d27d4eb4fu +
                         crc32_of(name, strlen(name)) * (uint64_t)0x165667b19e3779f9u;
  if (tag == 0) {
    memset(data, 0, bytes);
    return;
  }
  while (bytes) {
    uint64_t at = from % 8, here = 8 - at < bytes ? 8 - at : bytes, w = word(start, from / 8);
    memcpy(into, (char *)&w + at, here);
    into += here;
    from += here;
    bytes -= here;
  }
}
