/* Like the program of the README, with a death at a given step: the changes to adopt Mainstay.
 *
 *     adopt SPACE STEPS [STEP [WAITED]]
 *
 * With a STEP, the last rank kills itself there. The checkpoint of the step WAITED is waited for, on all levels. The
 * result does not depend on either. Also valid C++. */
#include <mainstay_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 50000

int main(int argc, char **argv) {
  static double field[CELLS];
  uint64_t step = 0, steps, fatal, waited;
  int rank, ranks, i;
  double sum = 0;
  mainstay_session *session;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3) return 2;
  steps = (uint64_t)atoi(argv[2]);
  fatal = argc > 3 ? (uint64_t)atoi(argv[3]) : 0;
  waited = argc > 4 ? (uint64_t)atoi(argv[4]) : 0;

  if (mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session) != MAINSTAY_OK) {
    fprintf(stderr, "adopt: %s\n", mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3); /* MPICH comes back */
  }
  mainstay_protect(session, "step", &step, sizeof step);
  mainstay_protect(session, "field", field, sizeof field);
  if (mainstay_restore(session, NULL) != MAINSTAY_OK) {
    fprintf(stderr, "adopt: %s\n", mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 4);
    exit(4);
  }
  if (rank == 0) printf("from step %lu\n", (unsigned long)step);

  while (step < steps) {
    for (i = 0; i < CELLS; i++) field[i] = 0.5 * field[i] + (double)(rank + i);
    step++;
    if (step == fatal && rank == ranks - 1) raise(SIGKILL);
    if (step % 10 == 0) mainstay_checkpoint(session, NULL);
    if (step == waited) mainstay_wait(session);
  }
  mainstay_close(session);

  for (i = 0; i < CELLS; i++) sum += field[i];
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %.17g\n", sum);
  MPI_Finalize();
  return 0;
}
