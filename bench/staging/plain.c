#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "file.h"
#include "process.h"
#include "side.h"
#include "stop.h"

static void path_of(const side *side, char *path) {
  snprintf(path, PATH_BYTES, "%s/%s-%d", side->directory, side->name, side->rank);
}

static void remove_file(side *side) {
  char path[PATH_BYTES];
  path_of(side, path);
  unlink(path);
}

static void write_out(const side *side, const image *image, bool in_pieces, bool sync, saved *saved) {
  char path[PATH_BYTES];
  path_of(side, path);
  int file = file_make(path);
  size_t bytes;
  for (size_t at = 0, piece = 0; at < image->bytes; at += bytes) {
    bytes = in_pieces ? image->pieces[piece++] : file_transfer(image->bytes - at);
    file_write(file, image->data + at, bytes);
  }
  if (sync) file_sync(file);
  if (close(file) != 0) stop_errno("close %s", path);
  saved->t2 = saved->t3 = now();
}

static void save_buffered(side *side, const image *image, saved *saved) { write_out(side, image, false, true, saved); }

static void save_plain(side *side, const image *image, saved *saved) { write_out(side, image, true, false, saved); }

static void save_plain_fsync(side *side, const image *image, saved *saved) {
  write_out(side, image, true, true, saved);
}

static void restart(side *side, image *image, restored *restored) {
  char path[PATH_BYTES];
  path_of(side, path);
  restored->opened = restored->rebuilt = now();
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) stop_errno("open %s", path);
  for (size_t at = 0; at < image->bytes; at += CHUNK_BYTES)
    file_read(file, image->data + at, file_transfer(image->bytes - at));
  close(file);
  restored->read = now();
}

const kind buffered_kind = {"buffered", NULL, remove_file, save_buffered, restart, NULL};
const kind plain_kind = {"plain", NULL, remove_file, save_plain, restart, NULL};
const kind plain_fsync_kind = {"plain_fsync", NULL, remove_file, save_plain_fsync, restart, NULL};
