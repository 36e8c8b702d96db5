#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "field.h"
#include "process.h"
#include "stop.h"

#define PIECES_MAX 65536

image image_open(const char *path, int rank) {
  image image = {.rank = rank, .pieces = malloc(PIECES_MAX * sizeof *image.pieces)};
  FILE *file = fopen(path, "r");
  if (!file || !image.pieces) stop_errno("read the pieces in %s", path);
  for (size_t size; image.count < PIECES_MAX && fscanf(file, "%zu", &size) == 1; image.bytes += size)
    image.pieces[image.count++] = size;
  fclose(file);
  if (image.bytes == 0 || image.bytes % sizeof(uint64_t) != 0)
    stop("%s: pieces of %zu bytes in all are no image", path, image.bytes);
  image.data = touched(image.bytes);
  return image;
}

void image_fill(image *image, uint64_t stamp) {
  image->stamp = stamp;
  field_fill((uint64_t *)image->data, image->bytes / sizeof(uint64_t), image->rank, stamp);
}

void image_clear(image *image) { memset(image->data, 0, image->bytes); }

void image_check(const image *image, uint64_t stamp) {
  field_check((const uint64_t *)image->data, image->bytes / sizeof(uint64_t), image->rank, stamp);
}

void image_close(image *image) {
  munmap(image->data, image->bytes);
  free(image->pieces);
}
