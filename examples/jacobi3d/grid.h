/* The grid, cut into one block a rank, and the exchange between the blocks.
 *
 * A rank stores its block with one layer of ghost cells around it, upward
 * neighbours side by side: [size[0] + 2][size[1] + 2][size[2] + 2]. */
#ifndef JACOBI3D_GRID_H
#define JACOBI3D_GRID_H

#include <mpi.h>
#include <stddef.h>

typedef struct grid {
  MPI_Comm comm;
  int rank, ranks;
  int blocks[3];            /* ranks along east, north, up */
  int low[3], high[3];      /* neighbours, MPI_PROC_NULL at the border */
  size_t cells[3];          /* of the whole grid */
  size_t start[3], size[3]; /* of this rank's block, without ghosts */
  MPI_Datatype low_ghost[3], low_face[3], high_face[3], high_ghost[3];
  MPI_Datatype block, place; /* the block within its ghosts, and within the whole grid */
} grid;

/* A grid with fewer cells than ranks along a side stops the job. Its communicator is MPI_COMM_NULL, and there is
 * nothing to free, where a rank has failed meanwhile. */
grid grid_create(MPI_Comm world, const size_t cells[3]);
void grid_free(grid *g);

/* The place of a cell in the array of a rank; 0 is the low ghost. */
static inline size_t grid_at(const grid *g, size_t east, size_t north, size_t up) {
  return (east * (g->size[1] + 2) + north) * (g->size[2] + 2) + up;
}

static inline size_t grid_cells_stored(const grid *g) { return grid_at(g, g->size[0] + 2, 0, 0); }

static inline size_t grid_cells_inside(const grid *g) { return g->size[0] * g->size[1] * g->size[2]; }

/* Copies the block into the array of a rank from one without ghosts. */
void grid_put_inside(const grid *g, double *field, const double *inside);

/* Fills the ghosts that are cells of another rank. */
void grid_exchange(const grid *g, double *field);

/* Writes the whole field in global order: the same bytes for any number of ranks. */
void grid_write(const grid *g, const double *field, const char *path);

#endif
