/* A program with large tables. Each step changes a part of them. After each step the program holds until it may go on.
 *
 *     tables MIB PART STEPS FOLDER
 *
 * PART is from 0 to 1. The program prints a line when it holds. It goes on from step 3 when the file FOLDER/3 exists.
 */
#include "tables.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void change(double *tables, size_t cells, double part, int step) {
  size_t changed = (size_t)(part * (double)cells);
  for (size_t i = 0; i < changed; i++) tables[((size_t)step * changed + i) % cells] += 1e-3 * (double)(i % 1000) + step;
}

/* Sends a message to itself: a single rank makes no other call that needs its host. */
static void look(int *goes_on, int rank) {
  MPI_Request request;
  int arrived;
  MPI_Isend(goes_on, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &request);
  MPI_Recv(&arrived, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Bcast(goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

/* Returns the longest time between two looks. If there was a checkpoint, this is its time. */
static double hold(const char *folder, int rank, int step) {
  char file[4096];
  int goes_on = 0;
  double longest = 0, last = MPI_Wtime();
  snprintf(file, sizeof file, "%s/%d", folder, step);
  if (rank == 0) printf("{\"side\": \"hold\", \"step\": %d}\n", step), fflush(stdout);
  while (!goes_on) {
    double now;
    if (rank == 0) goes_on = access(file, F_OK) == 0;
    look(&goes_on, rank);
    tables_pause();
    now = MPI_Wtime();
    if (now - last > longest) longest = now - last;
    last = now;
    usleep(500);
  }
  return longest;
}

int main(int count, char **arguments) {
  int rank, steps, step = 0;
  size_t cells;
  double *tables;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (count < 5) return 2;
  cells = (size_t)(atof(arguments[1]) * 1048576 / sizeof *tables), steps = atoi(arguments[3]);
  tables = malloc(cells * sizeof *tables + 1);
  if (!tables) return 2;
  if (!tables_begin(tables, cells * sizeof *tables, &step))
    for (size_t i = 0; i < cells; i++) tables[i] = (double)(i * 2654435761u % 1000003 + (size_t)rank);
  for (; step < steps; step++) {
    double longest;
    change(tables, cells, atof(arguments[2]), step);
    longest = hold(arguments[4], rank, step);
    if (rank == 0) printf("{\"side\": \"went_on\", \"seconds\": %.9f}\n", longest), fflush(stdout);
  }
  tables_end();
  MPI_Finalize();
  free(tables);
  return 0;
}
