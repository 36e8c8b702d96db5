/* Three streams: of small, medium and large pieces, of which the stage `node` does something else with each. Their
 * sizes and every byte follow from a seed. */
#include "pieces.h"

#include "board.h"

#include <string.h>

enum { SMALL = 160, MEDIUM = 24, LARGE = 3, PIECES = SMALL + MEDIUM + LARGE };
enum { SMALL_MOST = 500, MEDIUM_MOST = 30000, LARGE_LEAST = 40000, LARGE_MOST = 90000 };

const uint64_t pieces_most = SMALL * SMALL_MOST + MEDIUM * MEDIUM_MOST + LARGE * LARGE_MOST;

typedef struct stream {
  const char *name;
  unsigned pieces, least, most;
} stream;

static const stream streams[] = {
    {"small", SMALL, 1, SMALL_MOST},
    {"medium", MEDIUM, 513, MEDIUM_MOST},
    {"large", LARGE, LARGE_LEAST, LARGE_MOST},
};

static uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t x = (seed + index) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
  return x ^ x >> 29;
}

static uint64_t seed_of(const stream *of, uint64_t seed) {
  return mixed(seed, (uint64_t)(of - streams)) & ~0xffffffffu;
}

static uint64_t piece_bytes(const stream *of, uint64_t seed, unsigned piece) {
  return of->least + mixed(seed_of(of, ~seed), piece) % (of->most - of->least + 1);
}

static uint8_t byte_of(uint64_t seed, uint64_t at) { return (uint8_t)(mixed(seed, at >> 3) >> (at & 7) * 8); }

static mainstay_status write_one(mainstay_session *session, const stream *of, uint64_t seed, unsigned piece) {
  static uint8_t bytes[LARGE_MOST];
  uint64_t offset = 0, count = piece_bytes(of, seed, piece), contents = seed_of(of, seed);
  for (unsigned before = 0; before < piece; before++) offset += piece_bytes(of, seed, before);
  for (uint64_t i = 0; i < count; i++) bytes[i] = byte_of(contents, offset + i);
  return mainstay_write(session, of->name, offset, bytes, count);
}

/* All kinds mixed, and of two neighbours in a stream the second one first. */
mainstay_status pieces_write(mainstay_session *session, uint64_t seed) {
  unsigned done[3] = {0, 0, 0};
  for (unsigned i = 0; i < PIECES; i++) {
    unsigned kind = i % 8 == 7 && done[1] < MEDIUM ? 1 : i % 60 == 30 && done[2] < LARGE ? 2 : 0;
    while (done[kind] == streams[kind].pieces) kind++;
    unsigned piece = done[kind]++ ^ 1;
    if (piece >= streams[kind].pieces) piece--;
    mainstay_status status = write_one(session, &streams[kind], seed, piece);
    if (status) return status;
    if (i % 16 == 0) stretch(200);
  }
  return MAINSTAY_OK;
}

bool pieces_hold(mainstay_session *session, uint64_t seed) {
  static uint8_t bytes[65536];
  size_t count;
  if (mainstay_streams(session, &count)) return false;
  for (const stream *of = streams; of < streams + 3; of++) {
    unsigned times = 0;
    for (size_t i = 0; i < count; i++) {
      const char *name;
      uint64_t length, expected;
      if (mainstay_stream(session, i, &name, &length) || mainstay_stream_bytes(session, name, &expected)) return false;
      times += length == expected && strcmp(name, of->name) == 0;
    }
    if (times != 1) return false;
  }
  for (const stream *of = streams; of < streams + 3; of++) {
    uint64_t expected = 0, found = 0, contents = seed_of(of, seed), at = 0;
    size_t got;
    for (unsigned piece = 0; piece < of->pieces; piece++) expected += piece_bytes(of, seed, piece);
    if (mainstay_stream_bytes(session, of->name, &found) || found != expected) return false;
    for (; at < expected; at += got) {
      if (mainstay_read(session, of->name, at, bytes, sizeof bytes, &got) || got == 0) return false;
      for (uint64_t i = 0; i < got; i++)
        if (bytes[i] != byte_of(contents, at + i)) return false;
    }
  }
  return true;
}
