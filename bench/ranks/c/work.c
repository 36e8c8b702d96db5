/* A program of even work: in each step every rank does UNITS units, then all do an all-reduce. Rank 0 prints each step.
 *
 *     work STEPS UNITS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double unit(double state) {
  for (int i = 0; i < 100000; i++) state = state * 1.0000001 + 1e-9;
  return state;
}

int main(int count, char **arguments) {
  int rank, steps, units;
  double state = 1, sum = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (count < 3) return 2;
  steps = atoi(arguments[1]), units = atoi(arguments[2]);
  for (int step = 0; step < steps; step++) {
    for (int i = 0; i < units; i++) state = unit(state);
    MPI_Allreduce(&state, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    state = 1 + sum / 1e9;
    if (rank == 0) printf("{\"side\": \"step\", \"step\": %d, \"sum\": %.17g}\n", step, sum), fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
