/* An MPI program that writes restart files of its own, and knows nothing of Mainstay.
 *
 *     restarts STEPS GO HOLD...
 *
 * In each step, each rank renames its file restart.RANK to previous.RANK, and writes restart.RANK anew: odd ranks by
 * stdio, even ranks by system calls, with the header last. Meanwhile all have restart.all open, and write their words
 * in it. Rank 0 updates the file restart.table in place. HOLD is STEP:begin, or STEP:middle of the write. There the
 * ranks go round until the file GO.STEP is there. The program ends with 9 if a file is not as it must be. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 20000, BYTES = WORDS * 8 };

static int rank, count_holds;
static char **holds, *go;
static unsigned long words[WORDS], read_back[WORDS];

static void fail(const char *why) {
  printf("rank %d: %s\n", rank, why), fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void hold(int step, const char *place) {
  char here[64], file[4096];
  int goes_on = 0, is_here = 0;
  snprintf(here, sizeof here, "%d:%s", step, place);
  for (int i = 0; i < count_holds; i++) is_here |= !strcmp(holds[i], here);
  if (!is_here) return;
  snprintf(file, sizeof file, "%s.%d", go, step);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("hold %s\n", here), fflush(stdout);
  while (!goes_on) {
    if (rank == 0) goes_on = access(file, F_OK) == 0;
    if (!goes_on) usleep(1000);
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

/* The first word is the sum of the others. */
static void fill(int step) {
  words[0] = 0;
  for (int i = 1; i < WORDS; i++) words[0] += words[i] = (unsigned long)step * 1000003 + (unsigned long)(rank * i);
}

static void write_by_stdio(const char *name, int step) {
  FILE *file = fopen(name, "w");
  if (!file || fwrite(words, BYTES / 2, 1, file) != 1 || fflush(file)) fail("the first half is not written");
  hold(step, "middle");
  if (fwrite((char *)words + BYTES / 2, BYTES / 2, 1, file) != 1 || fclose(file))
    fail("the second half is not written");
}

static void write_by_calls(const char *name, int step) {
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0640);
  if (lseek(file, 8, SEEK_SET) != 8 || write(file, words + 1, BYTES / 2) != BYTES / 2) fail("no first half");
  hold(step, "middle");
  size_t rest = BYTES - 8 - BYTES / 2;
  if (write(file, (char *)(words + 1) + BYTES / 2, rest) != (ssize_t)rest) fail("no second half");
  if (pwrite(file, words, 8, 0) != 8 || close(file)) fail("no header");
}

static void update_table(int step) {
  int file = open("restart.table", O_RDWR | O_CREAT, 0644);
  if (file < 0 || pwrite(file, words, 8, 8L * step) != 8 || close(file)) fail("the table is not updated");
}

/* Each rank writes two words of a common file, and its own file in between. */
static void write_all(const char *name, int step) {
  int file = open("restart.all", O_WRONLY | O_CREAT, 0644);
  if (file < 0 || pwrite(file, words, 8, 16L * rank) != 8) fail("no first word");
  rank % 2 ? write_by_stdio(name, step) : write_by_calls(name, step);
  if (pwrite(file, words, 8, 16L * rank + 8) != 8 || close(file)) fail("no second word");
}

static void check(const char *name) {
  struct stat status;
  int file = open(name, O_RDONLY);
  if (stat(name, &status) || status.st_size != BYTES) fail("the new file has another size");
  if (file < 0 || read(file, read_back, BYTES) != BYTES || close(file)) fail("the new file cannot be read");
  if (memcmp(read_back, words, BYTES)) fail("the new file has other bytes");
}

int main(int count, char **arguments) {
  char name[64], previous[64];
  unsigned long sum = 0, total;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  go = arguments[2], holds = arguments + 3, count_holds = count - 3;
  snprintf(name, sizeof name, "restart.%d", rank);
  snprintf(previous, sizeof previous, "previous.%d", rank);
  for (int step = 0; step < atoi(arguments[1]); step++) {
    fill(step);
    hold(step, "begin");
    if (step > 0 && rename(name, previous)) fail("its file is gone");
    write_all(name, step);
    check(name);
    if (rank == 0) update_table(step);
    sum = sum * 31 + read_back[0];
  }
  MPI_Reduce(&sum, &total, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %lu\n", total), fflush(stdout);
  MPI_Finalize();
  return 0;
}
