#include <stdlib.h>

#include "file.h"
#include "process.h"
#include "raw.h"
#include "side.h"
#include "stop.h"

#define ALIGNMENT ((size_t)4096)

static void open_disk(side *side, const image *image) {
  size_t bytes = (image->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  side->raw = malloc(sizeof *side->raw);
  if (!side->raw) stop("no memory");
  *side->raw = raw_open(side->directory, side->rank, bytes, CHUNK_BYTES);
  raw_preallocate(side->raw);
  raw_write(side->raw, 1); /* the first writes make its extents */
}

static void save(side *side, const image *image, saved *saved) {
  (void)image;
  raw_write(side->raw, 1);
  saved->t2 = saved->t3 = now();
}

static void close_disk(side *side, const image *image) {
  (void)image;
  raw_close(side->raw);
  free(side->raw);
}

const kind disk_kind = {"disk", open_disk, NULL, save, NULL, close_disk};
