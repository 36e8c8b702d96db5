/* The grid, cut into slabs of planes along z, one a rank, and the exchange between the ranks.
 *
 * A cell holds its five unknowns side by side. A rank stores its planes with a ghost plane below and
 * one above: [size + 2][y][x][5]. For the sweep along z the slabs are turned: a rank then has some
 * rows of all planes, [z][turned_size][x][5]. */
#ifndef ADI_SLAB_H
#define ADI_SLAB_H

#include <mpi.h>
#include <stddef.h>

typedef struct slab {
  MPI_Comm comm;
  int rank, ranks;
  int below, above;                 /* neighbours, MPI_PROC_NULL at the border */
  size_t cells[3];                  /* of the whole grid: x, y, z */
  size_t row, plane;                /* doubles */
  size_t start, size;               /* planes of this rank, without ghosts */
  size_t turned_start, turned_size; /* rows of this rank once turned */
  MPI_Datatype whole_plane;
  MPI_Datatype *upright, *turned; /* the part shared with each rank, in both arrangements */
  int *once, *nowhere;            /* counts and places for MPI_Alltoallw */
} slab;

/* A grid with fewer planes or rows than ranks stops the job. */
slab slab_create(MPI_Comm comm, const size_t cells[3]);
void slab_free(slab *s);

/* Doubles, in both arrangements. */
size_t slab_stored(const slab *s);
size_t slab_stored_turned(const slab *s);

/* Fills the ghost planes. */
void slab_exchange(const slab *s, double *field);

/* From planes to rows, and back; ghost planes are left out. */
void slab_turn(const slab *s, const double *field, double *turned);
void slab_turn_back(const slab *s, const double *turned, double *field);

/* Writes the whole field in global order: the same bytes for any number of ranks. */
void slab_write(const slab *s, const double *field, const char *path);

#endif
