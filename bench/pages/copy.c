#include <string.h>
#include <sys/mman.h>

#include "process.h"
#include "side.h"

static void open_copy(side *side) { side->own = touched(side->bytes); }

static void save(side *side) {
  unsigned char *copy = side->own;
  for (size_t i = 0; i < side->dirty_count; i++) {
    size_t at = side->dirty[i] * PAGE_BYTES;
    memcpy(copy + at, side->data + at, PAGE_BYTES);
  }
}

static void close_copy(side *side) { munmap(side->own, side->bytes); }

const kind copy_kind = {"copy", open_copy, save, NULL, close_copy};
