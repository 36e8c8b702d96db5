/* A pipelined MPI program that knows nothing of Mainstay.
 *
 *     slots STEPS HOLD FILE [CODE | aCODE]
 *
 * At step HOLD it goes round until FILE is there. It prints a sum of all that the ranks have computed. It ends with
 * CODE, or rank 0 aborts the job with it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CELLS = 4000 };

/* One message is on its way to the next rank while the rank before sends one. */
static void step(double *cells, int rank, int ranks, int number) {
  double edge = number, arrived = 0;
  MPI_Request request;
  if (rank > 0) MPI_Recv(&arrived, 1, MPI_DOUBLE, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < CELLS; i++) {
    cells[i] = 0.5 * cells[i] + 0.25 * arrived + 1e-3 * (rank + i % 7);
    edge += cells[i] / CELLS;
  }
  if (rank + 1 == ranks) return;
  MPI_Isend(&edge, 1, MPI_DOUBLE, rank + 1, 5, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void hold(const char *file, int rank) {
  int goes_on = 0;
  if (rank == 0) puts("hold"), fflush(stdout);
  while (!goes_on) {
    if (rank == 0) goes_on = access(file, F_OK) == 0;
    if (!goes_on) usleep(1000);
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

int main(int count, char **arguments) {
  int rank, ranks, steps, at;
  double *cells = calloc(CELLS, sizeof *cells), sum = 0, total;
  if (count < 4 || !cells) return 2;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steps = atoi(arguments[1]), at = atoi(arguments[2]);
  for (int i = 0; i < steps; i++) {
    step(cells, rank, ranks, i);
    if (i == at) hold(arguments[3], rank);
  }
  for (int i = 0; i < CELLS; i++) sum += cells[i];
  MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %.17g of %d ranks\n", total, ranks), fflush(stdout);
  if (count > 4 && arguments[4][0] == 'a' && rank == 0) MPI_Abort(MPI_COMM_WORLD, atoi(arguments[4] + 1));
  MPI_Finalize();
  free(cells);
  return count > 4 ? atoi(arguments[4]) : 0;
}
