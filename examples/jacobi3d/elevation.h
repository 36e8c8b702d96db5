/* The shape of the surface, from the file that dem.py makes. */
#ifndef JACOBI3D_ELEVATION_H
#define JACOBI3D_ELEVATION_H

#include <mpi.h>
#include <stdint.h>

typedef struct elevation {
  uint32_t columns, rows;   /* west to east, south to north */
  double width_m, length_m; /* west to east, south to north */
  double lowest_m, highest_m;
  float *heights_m; /* [rows][columns] */
} elevation;

/* Rank 0 reads the file for all. A file that dem.py did not write stops the job. */
elevation elevation_read(MPI_Comm comm, const char *path);

/* The height at a place given as fractions of width and length. */
double elevation_at(const elevation *e, double east, double north);

void elevation_free(elevation *e);

#endif
