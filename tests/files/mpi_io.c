/* Writes files from all ranks, by the calls in its arguments: mpi_io FILE CALL...
 *
 * The content of a value is a function of value and offset. The ranks write blocks in turn, so they share pages.
 *
 * - create, update, readonly: MPI_File_open, by all ranks.
 * - write:V: each rank writes its blocks. check:V: each rank reads all blocks and compares them.
 * - size:N: MPI_File_set_size. close: MPI_File_close. delete: MPI_File_delete by rank 0.
 * - halves:V: create, write:V, close by two groups at the same time. Each has ranks of both nodes.
 * - posix:V: open, pwrite, close without MPI. No rank closes before all have opened.
 * - member:V: writes FILE.RANK without MPI. torn:R: the same, but rank R kills itself before its close.
 * - look:V: compares the whole file, read without MPI.
 * - barrier: MPI_Barrier. kill:R: rank R kills itself. pause: waits for the end.
 *
 * Each call prints "RANK CALL ok", or "RANK CALL" with the error. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1000, BLOCKS = 40 };

static int rank, ranks;
static const char *path;
static MPI_File file = MPI_FILE_NULL;

static void content(char *to, int value, long at, long size) {
  for (long i = 0; i < size; i++) to[i] = (char)((at + i) * 7 + value * 31 + (at + i) / BLOCK);
}

static long place(int block) { return ((long)block * ranks + rank) * BLOCK; }

static int open_all(MPI_Comm group, int mode) { return MPI_File_open(group, path, mode, MPI_INFO_NULL, &file); }

static int write_blocks(int value) {
  char block[BLOCK];
  int error = 0;
  for (int i = 0; i < BLOCKS && !error; i++) {
    content(block, value, place(i), BLOCK);
    error = MPI_File_write_at(file, place(i), block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  return error;
}

static int differs(const char *found, int value, long size) {
  char *expected = malloc((size_t)size);
  content(expected, value, 0, size);
  int result = memcmp(expected, found, (size_t)size);
  free(expected);
  return result;
}

static int check(int value) {
  long size = (long)BLOCKS * ranks * BLOCK;
  char *found = malloc((size_t)size);
  MPI_Offset length = 0;
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  int error = MPI_File_get_size(file, &length);
  if (!error && length != size) error = -1;
  if (!error) error = MPI_File_read_at_all(file, 0, found, (int)size, MPI_BYTE, MPI_STATUS_IGNORE);
  if (!error && differs(found, value, size)) error = -1;
  free(found);
  return error;
}

static int look(int value) {
  long size = (long)BLOCKS * ranks * BLOCK;
  char *found = malloc((size_t)size + 1);
  int fd = open(path, O_RDONLY), error = errno;
  if (fd >= 0) {
    error = read(fd, found, (size_t)size + 1) != size ? -1 : differs(found, value, size) ? -2 : 0;
    close(fd);
  }
  free(found);
  return error;
}

static int posix(int value) {
  char block[BLOCK];
  int fd = open(path, O_WRONLY | O_CREAT, 0644), error = errno;
  MPI_Barrier(MPI_COMM_WORLD);
  if (fd < 0) return error;
  for (int i = 0; i < BLOCKS; i++) {
    content(block, value, place(i), BLOCK);
    if (pwrite(fd, block, BLOCK, place(i)) != BLOCK) return errno;
  }
  return close(fd) ? errno : 0;
}

/* The first ranks of the groups are on different nodes. */
static int halves(int value) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank % 2 ? -rank : rank, &half);
  int error = open_all(half, MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!error) error = write_blocks(value);
  if (!error) error = MPI_File_close(&file);
  MPI_Comm_free(&half);
  return error;
}

static int member(int value, int killed) {
  char name[4096], block[BLOCK];
  snprintf(name, sizeof name, "%s.%d", path, rank);
  FILE *stream = fopen(name, "w");
  if (!stream) return errno;
  content(block, value, 0, BLOCK);
  fwrite(block, 1, BLOCK, stream);
  if (rank == killed) raise(SIGKILL);
  return fclose(stream) ? errno : 0;
}

static int call(const char *name, const char *text) {
  int value = text ? atoi(text) : 0;
  if (!strcmp(name, "create")) return open_all(MPI_COMM_WORLD, MPI_MODE_CREATE | MPI_MODE_RDWR);
  if (!strcmp(name, "update")) return open_all(MPI_COMM_WORLD, MPI_MODE_RDWR);
  if (!strcmp(name, "readonly")) return open_all(MPI_COMM_WORLD, MPI_MODE_RDONLY);
  if (!strcmp(name, "write")) return write_blocks(value);
  if (!strcmp(name, "size")) return MPI_File_set_size(file, value);
  if (!strcmp(name, "check")) return check(value);
  if (!strcmp(name, "close")) return MPI_File_close(&file);
  if (!strcmp(name, "delete")) return rank ? 0 : MPI_File_delete(path, MPI_INFO_NULL);
  if (!strcmp(name, "posix")) return posix(value);
  if (!strcmp(name, "member")) return member(value, -1);
  if (!strcmp(name, "torn")) return member(0, value);
  if (!strcmp(name, "halves")) return halves(value);
  if (!strcmp(name, "look")) return look(value);
  if (!strcmp(name, "barrier")) return MPI_Barrier(MPI_COMM_WORLD);
  if (!strcmp(name, "pause")) return pause();
  if (!strcmp(name, "kill")) return rank == value ? raise(SIGKILL) : 0;
  return -1;
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  path = words[1];
  for (int i = 2; i < count; i++) {
    char name[4096];
    snprintf(name, sizeof name, "%s", words[i]);
    char *text = strchr(name, ':');
    if (text) *text++ = 0;
    int error = call(name, text);
    char line[4200];
    int length = error ? snprintf(line, sizeof line, "%d %s %d\n", rank, words[i], error)
                       : snprintf(line, sizeof line, "%d %s ok\n", rank, words[i]);
    if (write(1, line, (size_t)length) != length) return 1;
  }
  MPI_Finalize();
  return 0;
}
