/* A program that computes, and sends its edges to its neighbours after each step. The first and the last rank are
 * neighbours, and a single rank is its own. Prints the processor time of its process.
 *
 *     neighbours SIDE STEPS BLOCKS
 *
 * Each rank has BLOCKS blocks, one after another: one rank with four has the work and the memory of four ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* There are `side` rows of `side` cells, between two rows of the neighbours. */
static void step(const double *from, double *to, int side) {
  for (int y = 1; y <= side; y++)
    for (int x = 1; x < side - 1; x++) {
      const double *at = from + (size_t)y * (size_t)side + x;
      to[(size_t)y * (size_t)side + x] = 0.2 * (at[0] + at[-1] + at[1] + at[-side] + at[side]) + 1e-6 * at[0] * at[0];
    }
}

static void exchange(double *cells, int side, int rank, int ranks) {
  int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks;
  double *low = cells + side, *high = cells + (size_t)side * (size_t)side;
  MPI_Request requests[4];
  MPI_Irecv(cells, side, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(high + side, side, MPI_DOUBLE, after, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(high, side, MPI_DOUBLE, after, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(low, side, MPI_DOUBLE, before, 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

struct block {
  double *cells, *next;
};

static struct block new_block(int side, int rank) {
  struct block block;
  size_t cells = (size_t)(side + 2) * (size_t)side;
  block.cells = calloc(cells, sizeof *block.cells), block.next = calloc(cells, sizeof *block.next);
  if (!block.cells || !block.next) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < side * side; i++) block.cells[side + i] = 1e-3 * ((i + rank) % 17);
  return block;
}

static void go_on(struct block *block, int side, int rank, int ranks) {
  double *old = block->cells;
  exchange(block->cells, side, rank, ranks);
  step(block->cells, block->next, side);
  block->cells = block->next, block->next = old;
}

int main(int count, char **arguments) {
  int rank, ranks, side, steps, blocks;
  double start, sum = 0, mine = 0;
  struct block *all;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (count < 4) return 2;
  side = atoi(arguments[1]), steps = atoi(arguments[2]), blocks = atoi(arguments[3]);
  all = calloc((size_t)blocks, sizeof *all);
  if (!all) return 2;
  for (int i = 0; i < blocks; i++) all[i] = new_block(side, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  start = cpu();
  for (int i = 0; i < steps; i++) {
    for (int at = 0; at < blocks; at++) go_on(&all[at], side, rank, ranks);
    mine = all[0].cells[(size_t)side * (size_t)(side / 2)];
    if (i % 10 == 9) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  mine = cpu() - start;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("{\"side\": \"cpu\", \"seconds\": %.6f}\n", sum / ranks), fflush(stdout);
  MPI_Finalize();
  return 0;
}
