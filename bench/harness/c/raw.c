#define _GNU_SOURCE
#include "raw.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stop.h"

#define IN_FLIGHT_MAX 8

/* Threads take the next chunk until none is left. */
typedef struct transfer {
  const raw_file *raw;
  bool writes;
  atomic_size_t next;
} transfer;

raw_file raw_open(const char *directory, int rank, size_t bytes, size_t chunk_bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/raw-%d", directory, rank);
  raw_file raw = {.bytes = bytes, .chunk_bytes = chunk_bytes};
  raw.file = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
  if (raw.file < 0) stop_errno("open %s with O_DIRECT", path);
  raw.buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw.buffer == MAP_FAILED) stop_errno("map %zu bytes", bytes);
  madvise(raw.buffer, bytes, MADV_HUGEPAGE);
  for (size_t at = 0; at < bytes; at += 4096) raw.buffer[at] = 1;
  return raw;
}

void raw_preallocate(const raw_file *raw) {
  if (posix_fallocate(raw->file, 0, (off_t)raw->bytes) != 0) stop("no room for %zu bytes on the disk", raw->bytes);
}

static void *carry(void *argument) {
  transfer *t = argument;
  const raw_file *raw = t->raw;
  size_t from;
  while ((from = atomic_fetch_add(&t->next, raw->chunk_bytes)) < raw->bytes) {
    size_t to = from + raw->chunk_bytes < raw->bytes ? from + raw->chunk_bytes : raw->bytes;
    while (from < to) {
      ssize_t done = t->writes ? pwrite(raw->file, raw->buffer + from, to - from, (off_t)from)
                               : pread(raw->file, raw->buffer + from, to - from, (off_t)from);
      if (done <= 0) stop_errno("%s the raw file at %zu", t->writes ? "write" : "read", from);
      from += (size_t)done;
    }
  }
  return NULL;
}

static void run(const raw_file *raw, bool writes, int in_flight) {
  transfer t = {.raw = raw, .writes = writes};
  pthread_t threads[IN_FLIGHT_MAX];
  if (in_flight > IN_FLIGHT_MAX) stop("%d in flight, %d are the most", in_flight, IN_FLIGHT_MAX);
  for (int i = 1; i < in_flight; i++)
    if (pthread_create(&threads[i], NULL, carry, &t) != 0) stop("no thread to be had");
  carry(&t);
  for (int i = 1; i < in_flight; i++) pthread_join(threads[i], NULL);
}

void raw_write(const raw_file *raw, int in_flight) {
  run(raw, true, in_flight);
  if (fdatasync(raw->file) != 0) stop_errno("sync the raw file");
}

void raw_read(const raw_file *raw, int in_flight) { run(raw, false, in_flight); }

void raw_close(raw_file *raw) {
  munmap(raw->buffer, raw->bytes);
  close(raw->file);
}
