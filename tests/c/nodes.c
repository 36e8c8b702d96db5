/* A program for jobs on several nodes, which stops where a test wants to lose one.
 *
 *     nodes SPACE STEPS GATE [STEP]...
 *
 * Says where each rank runs, and from which step it goes on. At each STEP the job waits until there is a file
 * GATE.STEP. The result, a hash over all fields, depends on the number of ranks alone. */
#define _POSIX_C_SOURCE 200809L
#include <mainstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CELLS 20000
#define LIMIT 2400 /* of looks, a minute in all */

static void fail(const char *what) {
  fprintf(stderr, "nodes: %s: %s\n", what, mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Waits on rank 0, which the others meet in the next collective. */
static void wait_for(const char *gate, uint64_t step) {
  char path[4096];
  struct timespec look = {0, 25000000};
  int i;

  snprintf(path, sizeof path, "%s.%lu", gate, (unsigned long)step);
  if (access(path, F_OK) == 0) return;
  printf("waiting at step %lu\n", (unsigned long)step);
  fflush(stdout);
  for (i = 0; i < LIMIT && access(path, F_OK) != 0; i++) nanosleep(&look, NULL);
}

int main(int argc, char **argv) {
  static uint64_t field[CELLS];
  uint64_t step = 0, steps, hash = 0;
  int rank, i;
  const char *node = getenv("MAINSTAY_NODE");
  mainstay_session *session;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 4) return 2;
  steps = (uint64_t)atoi(argv[2]);
  printf("rank %d on %s\n", rank, node ? node : "?");
  fflush(stdout);

  if (mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session) != MAINSTAY_OK) fail("open");
  mainstay_protect(session, "step", &step, sizeof step);
  mainstay_protect(session, "field", field, sizeof field);
  if (mainstay_restore(session, NULL) != MAINSTAY_OK) fail("restore");
  if (rank == 0) {
    printf("from step %lu\n", (unsigned long)step);
    fflush(stdout);
  }

  while (step < steps) {
    for (i = 0; i < CELLS; i++) field[i] = field[i] * 6364136223846793005u + (uint64_t)(rank + i) + step;
    step++;
    if (step % 10 == 0 && mainstay_checkpoint(session, NULL) != MAINSTAY_OK) fail("checkpoint");
    for (i = 4; i < argc; i++) {
      if ((uint64_t)atoi(argv[i]) != step) continue;
      /* The earlier revisions are complete, on all of their levels. */
      if (mainstay_wait(session) != MAINSTAY_OK) fail("wait");
      if (rank == 0) wait_for(argv[3], step);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  if (mainstay_close(session) != MAINSTAY_OK) fail("close");

  for (i = 0; i < CELLS; i++) hash = (hash ^ field[i]) * 1099511628211u + (uint64_t)rank;
  MPI_Allreduce(MPI_IN_PLACE, &hash, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  if (rank == 0) printf("hash %016lx\n", (unsigned long)hash);
  MPI_Finalize();
  return 0;
}
