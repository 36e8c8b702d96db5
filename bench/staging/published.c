/* The layout of paper 000 (IV.B): a file for each chunk, named by rank and offset and synced before it is
 * closed; at a restart the chunks of a rank are put together in order, and the image is read from that.
 * Here the process writes its chunks itself. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "process.h"
#include "side.h"
#include "stop.h"

#define CHUNKS_MAX 4096

static void open_published(side *side, const image *image) {
  (void)image;
  side->buffer = touched(CHUNK_BYTES);
}

static void close_published(side *side, const image *image) {
  (void)image;
  munmap(side->buffer, CHUNK_BYTES);
}

static void path_of(const side *side, const char *kind, size_t offset, char *path) {
  snprintf(path, PATH_BYTES, "%s/%s-%s-%d-%zu", side->directory, side->name, kind, side->rank, offset);
}

static int rising(const void *one, const void *other) {
  size_t a = *(const size_t *)one, b = *(const size_t *)other;
  return (a > b) - (a < b);
}

/* The offsets of this rank's chunks in order, as the folder has them. */
static size_t find(const side *side, size_t *offsets) {
  char start[256];
  size_t count = 0;
  size_t length = (size_t)snprintf(start, sizeof start, "%s-chunk-%d-", side->name, side->rank);
  DIR *folder = opendir(side->directory);
  if (!folder) stop_errno("read %s", side->directory);
  for (struct dirent *entry; (entry = readdir(folder));)
    if (strncmp(entry->d_name, start, length) == 0 && count < CHUNKS_MAX)
      offsets[count++] = strtoull(entry->d_name + length, NULL, 10);
  closedir(folder);
  qsort(offsets, count, sizeof *offsets, rising);
  return count;
}

static void prepare(side *side) {
  char path[PATH_BYTES];
  size_t offsets[CHUNKS_MAX];
  size_t count = find(side, offsets);
  for (size_t i = 0; i < count; i++) {
    path_of(side, "chunk", offsets[i], path);
    unlink(path);
  }
}

static void write_chunk(const side *side, size_t offset, size_t bytes) {
  char path[PATH_BYTES];
  path_of(side, "chunk", offset, path);
  int file = file_make(path);
  file_write(file, side->buffer, bytes);
  file_sync(file);
  if (close(file) != 0) stop_errno("close %s", path);
}

static void save(side *side, const image *image, saved *saved) {
  size_t at = 0, filled = 0;
  for (size_t piece = 0; piece < image->count; piece++)
    for (size_t left = image->pieces[piece]; left > 0;) {
      size_t bytes = left < CHUNK_BYTES - filled ? left : CHUNK_BYTES - filled;
      memcpy(side->buffer + filled, image->data + at, bytes);
      at += bytes, filled += bytes, left -= bytes;
      if (filled == CHUNK_BYTES || at == image->bytes) {
        write_chunk(side, at - filled, filled);
        filled = 0;
      }
    }
  saved->t2 = saved->t3 = now();
}

static void append_chunk(const side *side, size_t offset, int whole) {
  char path[PATH_BYTES];
  struct stat status;
  path_of(side, "chunk", offset, path);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) != 0 || (size_t)status.st_size > CHUNK_BYTES)
    stop_errno("open the chunk %s", path);
  file_read(file, side->buffer, (size_t)status.st_size);
  file_write(whole, side->buffer, (size_t)status.st_size);
  close(file);
}

static void restart(side *side, image *image, restored *restored) {
  char path[PATH_BYTES];
  size_t offsets[CHUNKS_MAX];
  path_of(side, "whole", 0, path);
  restored->opened = now();
  int whole = file_make(path);
  size_t count = find(side, offsets);
  for (size_t i = 0; i < count; i++) append_chunk(side, offsets[i], whole);
  close(whole);
  restored->rebuilt = now();
  whole = open(path, O_RDONLY | O_CLOEXEC);
  if (whole < 0) stop_errno("open %s", path);
  for (size_t at = 0; at < image->bytes; at += CHUNK_BYTES)
    file_read(whole, image->data + at, file_transfer(image->bytes - at));
  close(whole);
  restored->read = now();
  unlink(path);
}

const kind published_kind = {"published", open_published, prepare, save, restart, close_published};
