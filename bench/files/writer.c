/* Writes a file by one pattern at each line of input, and prints the seconds that it took. Licence: MIT OR Apache-2.0.
 *
 *   writer PATTERN PATH BYTES SYNC
 *
 * It knows nothing of Mainstay: `mainstay files` catches its file or does not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, OPENS = 20000, ALIGNMENT = 4096 };

static const char *path;
static char *data, *copy;
static size_t bytes;
static int syncs;

static void check(int good, const char *call) {
  if (good) return;
  perror(call);
  exit(1);
}

static void write_stream(size_t piece) {
  FILE *file = fopen(path, "w");
  check(file != NULL, "fopen");
  for (size_t at = 0; at < bytes; at += piece) check(fwrite(data + at, 1, piece, file) == piece, "fwrite");
  check(!fflush(file), "fflush");
  if (syncs) check(!fsync(fileno(file)), "fsync");
  check(!fclose(file), "fclose");
}

static void write_pieces(size_t piece, int at_random, int flags) {
  size_t count = bytes / piece;
  /* Direct writes are the floor: a new file with its room, as each new generation is. */
  if (flags & O_DIRECT) unlink(path);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | flags, 0644);
  check(file >= 0, "open");
  if (flags & O_DIRECT) check(!fallocate(file, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes), "fallocate");
  for (size_t i = 0; i < count; i++) {
    /* An odd step meets each piece of a power of two once. */
    size_t at = (at_random ? i * 40503 % count : i) * piece;
    check(pwrite(file, data + at, piece, (off_t)at) == (ssize_t)piece, "pwrite");
  }
  if (syncs) check(!fsync(file), "fsync");
  check(!close(file), "close");
}

static void open_often(void) {
  for (int i = 0; i < OPENS; i++) {
    int file = open("/etc/passwd", O_RDONLY);
    check(file >= 0, "open");
    close(file);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
  char line[16];
  if (argc != 5) return 2;
  const char *pattern = argv[1];
  path = argv[2];
  bytes = strtoull(argv[3], NULL, 10);
  syncs = atoi(argv[4]);
  data = aligned_alloc(ALIGNMENT, bytes);
  copy = !strcmp(pattern, "copy") ? aligned_alloc(ALIGNMENT, bytes) : NULL;
  check(data != NULL, "aligned_alloc");
  if (copy) memset(copy, 1, bytes);
  for (unsigned char round = 1; fgets(line, sizeof line, stdin); round++) {
    memset(data, round, bytes);
    double before = now();
    if (!strcmp(pattern, "copy"))
      memcpy(copy, data, bytes);
    else if (!strcmp(pattern, "opens"))
      open_often();
    else if (!strcmp(pattern, "fwrite 4 KiB"))
      write_stream(4096);
    else if (!strcmp(pattern, "fwrite whole"))
      write_stream(bytes);
    else if (!strcmp(pattern, "pwrite 64 KiB"))
      write_pieces(64 << 10, 0, 0);
    else if (!strcmp(pattern, "pwrite 64 KiB random"))
      write_pieces(64 << 10, 1, 0);
    else if (!strcmp(pattern, "pwrite 8 MiB"))
      write_pieces(8 * MIB, 0, 0);
    else if (!strcmp(pattern, "direct"))
      write_pieces(8 * MIB, 0, O_DIRECT);
    else
      return 2;
    double after = now();
    if (copy && copy[bytes / 2] != (char)round) return 1;
    printf("%.9f %.9f\n", before, after);
    fflush(stdout);
  }
  return 0;
}
