/* File per process (N-N), and one shared file (N-1), segmented and strided. Each time the files are new, as in IOR. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include "file.h"
#include "process.h"
#include "rounds.h"
#include "stop.h"
#include "way.h"

#define STRIDE_BYTES ((size_t)64 << 10)
/* Subfolders, so that each can belong to another metadata server. */
#define FOLDERS 4

static void path_of_own(const way *way, int number, char *path) {
  snprintf(path, PATH_BYTES, "%s/%d/%d-%d", way->directory, way->rank % FOLDERS, number, way->rank);
}

static void path_of_shared(const way *way, int number, char *path) {
  snprintf(path, PATH_BYTES, "%s/%d/%s-%d", way->directory, number % FOLDERS, way->name, number);
}

static double end(int file) {
  file_sync(file);
  if (close(file) != 0) stop_errno("close a file");
  return now();
}

static double save_file(way *way, int number) {
  char path[PATH_BYTES];
  path_of_own(way, number, path);
  int file = file_make(path);
  file_write(file, way->data, way->bytes);
  return end(file);
}

static void forget_file(way *way, int number) {
  char path[PATH_BYTES];
  path_of_own(way, number, path);
  unlink(path);
}

/* As MPI-IO opens a file: the first rank makes it, then all others open it. */
static int open_shared(const way *way, int number) {
  char path[PATH_BYTES];
  path_of_shared(way, number, path);
  int file = way->rank == 0 ? file_make(path) : -1;
  meet();
  if (way->rank != 0) file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) stop_errno("open %s", path);
  return file;
}

static void write_at(int file, const unsigned char *from, size_t bytes, size_t at) {
  while (bytes > 0) {
    ssize_t done = pwrite(file, from, bytes, (off_t)at);
    if (done <= 0) stop_errno("write %zu bytes at %zu", bytes, at);
    from += done;
    at += (size_t)done;
    bytes -= (size_t)done;
  }
}

static double save_segmented(way *way, int number) {
  int file = open_shared(way, number);
  write_at(file, way->data, way->bytes, (size_t)way->rank * way->bytes);
  return end(file);
}

static double save_strided(way *way, int number) {
  int file = open_shared(way, number);
  size_t bytes;
  for (size_t at = 0; at < way->bytes; at += bytes) {
    bytes = way->bytes - at < STRIDE_BYTES ? way->bytes - at : STRIDE_BYTES;
    write_at(file, way->data + at, bytes, at * (size_t)way->ranks + (size_t)way->rank * STRIDE_BYTES);
  }
  return end(file);
}

static void forget_shared(way *way, int number) {
  char path[PATH_BYTES];
  path_of_shared(way, number, path);
  if (way->rank == 0) unlink(path);
}

const kind file_kind = {"file", NULL, save_file, forget_file, NULL};
const kind segmented_kind = {"segmented", NULL, save_segmented, forget_shared, NULL};
const kind strided_kind = {"strided", NULL, save_strided, forget_shared, NULL};
