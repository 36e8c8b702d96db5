#include "batches.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static double batch(int times, void (*work)(void *), void *context) {
  double start = MPI_Wtime();
  for (int i = 0; i < times; i++) work(context);
  return (MPI_Wtime() - start) / times;
}

void print_batches(const char *side, int batches, int times, void (*work)(void *), void *context) {
  int rank;
  double *took = calloc((size_t)batches, sizeof *took);
  if (!took) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  batch(times, work, context); /* warms up */
  for (int i = 0; i < batches; i++) took[i] = batch(times, work, context);
  qsort(took, (size_t)batches, sizeof *took, by_size);
  if (rank == 0) printf("{\"side\": \"%s\", \"seconds\": %.10f}\n", side, took[batches / 2]), fflush(stdout);
  free(took);
}
