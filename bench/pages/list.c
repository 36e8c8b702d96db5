/* Every way to save changed pages has this cost: it checks each page for zeros, which are not stored, and notes the
 * place of each stretch. */
#include <sys/mman.h>

#include "process.h"
#include "side.h"

typedef struct part {
  uint64_t from, to, bytes, is_stored;
} part;

static void open_list(side *side) { side->own = touched(side->bytes / PAGE_BYTES * sizeof(part)); }

static int has_content(const unsigned char *page) {
  const uint64_t *words = (const uint64_t *)page;
  for (size_t i = 0; i < PAGE_BYTES / sizeof *words; i++)
    if (words[i] != 0) return 1;
  return 0;
}

static void save(side *side) {
  part *next = side->own;
  uint64_t to = 0;
  for (size_t i = 0; i < side->dirty_count;) {
    uint64_t from = side->dirty[i];
    *next = (part){.from = from * PAGE_BYTES, .to = to};
    while (i < side->dirty_count && side->dirty[i] == from + next->bytes / PAGE_BYTES) {
      next->is_stored += (uint64_t)has_content(side->data + side->dirty[i++] * PAGE_BYTES);
      next->bytes += PAGE_BYTES;
    }
    to += next++->bytes;
  }
}

static void close_list(side *side) { munmap(side->own, side->bytes / PAGE_BYTES * sizeof(part)); }

const kind list_kind = {"list", open_list, save, NULL, close_list};
