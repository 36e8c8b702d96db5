/* For programs that include the header of MPI-IO by its old name. Licence: MIT OR Apache-2.0. */
#include "mpi.h"
