/* A program of SCR: each rank counts, and saves two files.
 *
 *     scr STEPS FLAGS [DEATH [WHERE]]     rank 1 kills itself after step DEATH: in the middle of its file (write),
 * before SCR_Complete_output (complete), or after it (after)
 *
 * Prints "from step N" and "sum X" on rank 0. A checkpoint follows every tenth step. */
#include <mpi.h>
#include <scr.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 30000, EVERY = 10 };

static double cells[CELLS];
static int step, rank, ranks;

static void check(int is_good, const char *what) {
  if (is_good) return;
  printf("%s failed on rank %d\n", what, rank);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void die_at(int is, const char *here, const char *where) {
  if (!is || strcmp(here, where)) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) raise(SIGKILL);
}

/* The path of a file of the dataset, as SCR routes it. */
static void route(const char *dataset, const char *part, char *path) {
  char name[SCR_MAX_FILENAME];
  snprintf(name, sizeof name, "%s/%s.%d", dataset, part, rank);
  check(SCR_Route_file(name, path) == SCR_SUCCESS, "SCR_Route_file");
}

static void save(int flags, int dies, const char *where) {
  char dataset[64], path[SCR_MAX_FILENAME];
  FILE *file;
  int ok;
  snprintf(dataset, sizeof dataset, "step.%d", step);
  check(SCR_Start_output(dataset, flags) == SCR_SUCCESS, "SCR_Start_output");
  route(dataset, "cells", path);
  file = fopen(path, "wb");
  ok = file && fwrite(cells, sizeof *cells, CELLS / 2, file) == CELLS / 2 && !fflush(file);
  die_at(dies, "write", where);
  ok = ok && fwrite(cells + CELLS / 2, sizeof *cells, CELLS / 2, file) == CELLS / 2;
  ok = file && !fclose(file) && ok;
  route(dataset, "step", path);
  file = fopen(path, "w");
  ok = file && fprintf(file, "%d\n", step) > 0 && ok;
  ok = file && !fclose(file) && ok;
  die_at(dies, "complete", where);
  check(SCR_Complete_output(ok) == SCR_SUCCESS, "SCR_Complete_output");
  die_at(dies, "after", where);
}

static int restore(void) {
  char dataset[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
  int have, ok;
  FILE *file;
  check(SCR_Have_restart(&have, dataset) == SCR_SUCCESS, "SCR_Have_restart");
  if (!have) return 0;
  check(SCR_Start_restart(dataset) == SCR_SUCCESS, "SCR_Start_restart");
  route(dataset, "cells", path);
  file = fopen(path, "rb");
  ok = file && fread(cells, sizeof *cells, CELLS, file) == CELLS;
  if (file) fclose(file);
  route(dataset, "step", path);
  file = fopen(path, "r");
  ok = file && fscanf(file, "%d", &step) == 1 && ok;
  if (file) fclose(file);
  check(SCR_Complete_restart(ok) == SCR_SUCCESS, "SCR_Complete_restart");
  return 1;
}

int main(int argc, char **argv) {
  const int steps = atoi(argv[1]), flags = atoi(argv[2]), death = argc > 3 ? atoi(argv[3]) : -1;
  const char *where = argc > 4 ? argv[4] : "after";
  double sum = 0, all;
  int i, flag;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(SCR_Init() == SCR_SUCCESS, "SCR_Init");
  for (i = 0; i < CELLS; i++) cells[i] = rank * CELLS + i;
  restore();
  if (rank == 0) printf("from step %d\n", step);
  fflush(stdout);
  while (step < steps) {
    for (i = 0; i < CELLS; i++) cells[i] = cells[i] * 0.999 + i % 13;
    step++;
    check(SCR_Need_checkpoint(&flag) == SCR_SUCCESS, "SCR_Need_checkpoint");
    if (flag) save(flags, step == death, where);
    check(SCR_Should_exit(&flag) == SCR_SUCCESS, "SCR_Should_exit");
    if (flag) break;
  }
  for (i = 0; i < CELLS; i++) sum += cells[i] * (i % 7);
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("at step %d sum %.17g\n", step, all);
  check(SCR_Finalize() == SCR_SUCCESS, "SCR_Finalize");
  MPI_Finalize();
  return 0;
}
