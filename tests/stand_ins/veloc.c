/* A program of VeloC: the ranks smooth an array.
 *
 *     veloc CONFIGURATION STEPS WAY [DEATH]     WAY: mem, file, some; rank 1 kills itself after step DEATH
 *
 * Prints "from step N" and "sum X" on rank 0. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <veloc.h>

enum { CELLS = 20000, EVERY = 10 };

static double old[CELLS + 2], new[CELLS + 2];
static int step, rank, ranks;

static void check(int code, const char *what) {
  if (code == VELOC_SUCCESS) return;
  printf("%s failed on rank %d\n", what, rank);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void smooth(void) {
  const int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  int i;
  MPI_Sendrecv(&old[1], 1, MPI_DOUBLE, left, 0, &old[CELLS + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(&old[CELLS], 1, MPI_DOUBLE, right, 0, &old[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (i = 1; i <= CELLS; i++) new[i] = old[i] + 0.25 * (old[i - 1] - 2 * old[i] + old[i + 1]);
  for (i = 1; i <= CELLS; i++) old[i] = new[i];
}

static void save(const char *way) {
  char path[VELOC_MAX_NAME];
  int ids[] = {0, 2}, ok = 1;
  FILE *file;
  if (*way == 'm') {
    check(VELOC_Checkpoint("heat", step), "VELOC_Checkpoint");
    return;
  }
  check(VELOC_Checkpoint_wait(), "VELOC_Checkpoint_wait");
  check(VELOC_Checkpoint_begin("heat", step), "VELOC_Checkpoint_begin");
  if (*way == 's') {
    check(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 2), "VELOC_Checkpoint_selective");
  } else {
    check(VELOC_Route_file("heat.dat", path), "VELOC_Route_file");
    file = fopen(path, "wb");
    ok = file && fwrite(&step, sizeof step, 1, file) == 1 && fwrite(old, sizeof *old, CELLS + 2, file) == CELLS + 2;
    if (file) fclose(file);
  }
  check(VELOC_Checkpoint_end(ok), "VELOC_Checkpoint_end");
}

static void restore(const char *way, int version) {
  char path[VELOC_MAX_NAME];
  int id = 2, ok = 1;
  FILE *file;
  if (*way == 'm') {
    check(VELOC_Restart("heat", version), "VELOC_Restart");
    return;
  }
  check(VELOC_Restart_begin("heat", version), "VELOC_Restart_begin");
  if (*way == 's') {
    if (VELOC_Recover_size(2) != (int)sizeof old || VELOC_Recover_size(1)) check(VELOC_FAILURE, "VELOC_Recover_size");
    check(VELOC_Recover_selective(VELOC_RECOVER_REST, &id, 1), "VELOC_Recover_selective, the others");
    check(VELOC_Recover_selective(VELOC_RECOVER_SOME, &id, 1), "VELOC_Recover_selective, one");
  } else {
    check(VELOC_Route_file("heat-again.dat", path), "VELOC_Route_file");
    file = fopen(path, "rb");
    ok = file && fread(&step, sizeof step, 1, file) == 1 && fread(old, sizeof *old, CELLS + 2, file) == CELLS + 2;
    if (file) fclose(file);
    if (!ok) check(VELOC_FAILURE, "reading the file");
  }
  check(VELOC_Restart_end(ok), "VELOC_Restart_end");
}

int main(int argc, char **argv) {
  const int steps = atoi(argv[2]), death = argc > 4 ? atoi(argv[4]) : -1;
  double sum = 0, all;
  int i, version;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(VELOC_Init(MPI_COMM_WORLD, argv[1]), "VELOC_Init");
  for (i = 1; i <= CELLS; i++) old[i] = (rank * CELLS + i) % 97;
  check(VELOC_Mem_protect(0, &step, 1, sizeof step), "VELOC_Mem_protect");
  check(VELOC_Mem_protect(1, new, CELLS + 2, sizeof *new), "VELOC_Mem_protect");
  check(VELOC_Mem_protect(2, old, CELLS + 2, sizeof *old), "VELOC_Mem_protect");
  version = VELOC_Restart_test("heat", 0);
  if (version > 0) restore(argv[3], version);
  if (version > 0 && version != step) check(VELOC_FAILURE, "VELOC_Restart_test");
  if (rank == 0) printf("from step %d\n", step);
  fflush(stdout);
  while (step < steps) {
    smooth();
    step++;
    if (step == death) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 1) raise(SIGKILL);
    }
    if (step % EVERY == 0) save(argv[3]);
  }
  for (i = 1; i <= CELLS; i++) sum += old[i] * (i % 7);
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %.17g\n", all);
  check(VELOC_Finalize(1), "VELOC_Finalize");
  MPI_Finalize();
  return 0;
}
