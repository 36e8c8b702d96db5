/* A solver of the kind of LU of the NAS benchmarks, which knows nothing of Mainstay: five fields, swept forth and back
 * in planes that wait for the planes of the neighbours.
 *
 *     sweeps MIB STEPS          MIB of each rank; rank 0 prints a sum of all fields at the end */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIELDS = 5, SIDE = 64 };

static int rank, ranks;

/* A plane goes through all ranks: each takes the edge of the rank before, and gives its own to the next. */
static void sweep(double *field, int planes, int direction) {
  int before = rank - direction, after = rank + direction;
  double edge[SIDE] = {0};
  for (int plane = 0; plane < planes; plane++) {
    double *at = field + (size_t)(direction > 0 ? plane : planes - 1 - plane) * SIDE * SIDE;
    if (before >= 0 && before < ranks) MPI_Recv(edge, SIDE, MPI_DOUBLE, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int row = 0; row < SIDE; row++)
      for (int i = 0; i < SIDE; i++) {
        edge[i] = 0.5 * at[row * SIDE + i] + 0.25 * edge[i] + 0.25 * edge[(i + 1) % SIDE] + 1e-3;
        at[row * SIDE + i] = edge[i];
      }
    if (after >= 0 && after < ranks) MPI_Send(edge, SIDE, MPI_DOUBLE, after, 0, MPI_COMM_WORLD);
  }
}

int main(int count, char **arguments) {
  double *fields[FIELDS], sum = 0, all;
  int planes, steps;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (count < 3) return 2;
  planes = (int)(atof(arguments[1]) * (1 << 20) / (FIELDS * SIDE * SIDE * sizeof(double))), steps = atoi(arguments[2]);
  for (int i = 0; i < FIELDS; i++)
    if (!(fields[i] = calloc((size_t)planes * SIDE * SIDE, sizeof(double)))) return 3;
  for (int step = 0; step < steps; step++)
    for (int i = 0; i < FIELDS; i++) sweep(fields[i], planes, (step + i) % 2 ? -1 : 1);
  for (int i = 0; i < FIELDS; i++)
    for (int at = 0; at < planes * SIDE * SIDE; at++) sum += fields[i][at];
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("{\"side\": \"sum\", \"sum\": %.17g}\n", all);
  MPI_Finalize();
  return 0;
}
