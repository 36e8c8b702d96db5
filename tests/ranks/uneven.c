/* uneven STEPS: the first half of the ranks has ten times the work of the others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
  int rank, ranks, step, steps = count > 1 ? atoi(arguments[1]) : 100;
  volatile double state = 1;
  double sum = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (step = 0; step < steps; step++) {
    double mine;
    long work;
    for (work = rank < ranks / 2 ? 500000 : 50000; work > 0; work--) state = state * 1.0000001 + 1e-9;
    mine = state + rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    state = 1 + sum / 1e9;
  }
  if (rank == 0) printf("sum %.17g on %d ranks\n", sum, ranks);
  MPI_Finalize();
  return 0;
}
