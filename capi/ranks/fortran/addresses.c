/* Addresses with a meaning: MPI_BOTTOM and its like. Licence: MIT OR Apache-2.0.
 *
 * The common blocks have the names and contents of MPICH's mpif.h, for programs that were compiled with it. */
#include "fortran.h"

#pragma GCC visibility push(default)
extern struct {
  MPI_Fint bottom, in_place, status_ignore[MPI_F_STATUS_SIZE];
} mpipriv1_;
extern struct {
  MPI_Fint statuses_ignore[MPI_F_STATUS_SIZE], errcodes_ignore[1];
} mpipriv2_;
extern struct {
  char argvs_null[1], argv_null[1];
} mpiprivc_;
extern MPI_Fint mpifcmb5_, mpifcmb9_;
void mpirinitf_(void);
#pragma GCC visibility pop

__typeof__(mpipriv1_) mpipriv1_ __attribute__((aligned(64)));
__typeof__(mpipriv2_) mpipriv2_ __attribute__((aligned(64)));
__typeof__(mpiprivc_) mpiprivc_ __attribute__((aligned(64)));
MPI_Fint mpifcmb5_ __attribute__((aligned(64))); /* MPI_UNWEIGHTED */
MPI_Fint mpifcmb9_ __attribute__((aligned(64))); /* MPI_WEIGHTS_EMPTY */

MPI_Fint *MPI_F_STATUS_IGNORE = mpipriv1_.status_ignore;
MPI_Fint *MPI_F_STATUSES_IGNORE = mpipriv2_.statuses_ignore;
MPI_F08_status *MPI_F08_STATUS_IGNORE = (MPI_F08_status *)mpipriv1_.status_ignore;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)mpipriv2_.statuses_ignore;

/* MPICH learns the addresses in this function. Here the dynamic linker has found them before. */
void mpirinitf_(void) {}

void *f_buffer(void *buffer) {
  if (buffer == &mpipriv1_.bottom) return MPI_BOTTOM;
  return buffer == &mpipriv1_.in_place ? MPI_IN_PLACE : buffer;
}

MPI_Status *f_status(MPI_Fint *status) {
  return status == mpipriv1_.status_ignore ? MPI_STATUS_IGNORE : (MPI_Status *)status;
}

MPI_Status *f_statuses(MPI_Fint *statuses) {
  return statuses == mpipriv2_.statuses_ignore ? MPI_STATUSES_IGNORE : (MPI_Status *)statuses;
}

int *f_weights(MPI_Fint *weights) {
  if (weights == &mpifcmb5_) return MPI_UNWEIGHTED;
  return weights == &mpifcmb9_ ? MPI_WEIGHTS_EMPTY : weights;
}
