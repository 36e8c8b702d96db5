/* The functions of the MPI that the program has loaded. Licence: MIT OR Apache-2.0.
 *
 * A handle is an integer or a pointer, and travels in a register in any case. So one library serves each MPI, as long
 * as it uses no constant of MPI's but the bits of `mode`, which two tables in mpi.c have. */
#ifndef MAINSTAY_FILES_MPI_H
#define MAINSTAY_FILES_MPI_H

#include "preload.h"

typedef void *mpi_handle;

struct mpi {
  int (*open)(mpi_handle ranks, const char *name, int mode, mpi_handle info, mpi_handle *file);
  int (*close)(mpi_handle *file);
  int (*sync)(mpi_handle file);
  int (*rank)(mpi_handle ranks, int *rank);
  int (*size)(mpi_handle ranks, int *size);
  int (*split)(mpi_handle ranks, int color, int key, mpi_handle *part);
  int (*barrier)(mpi_handle ranks);
  int (*free)(mpi_handle *ranks);
  int read_only, create, exclusive; /* bits of `mode` */
};

/* The MPI behind a call from CALLER, an address in the code of the program. NULL if no MPI is found. */
const struct mpi *mpi_of(void *caller);
/* The function NAME that a call from CALLER would reach without this library. */
void *mpi_next(const char *name, void *caller);

#endif
