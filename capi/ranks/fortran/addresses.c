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
/* Variables of MPICH's mpi_f08: of versions up to 4.2, and of later ones. */
extern MPI_Fint MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE;
extern MPI_Fint MPIR_F08_MPI_STATUS_IGNORE_OBJ[MPI_F_STATUS_SIZE], MPIR_F08_MPI_STATUSES_IGNORE_OBJ[MPI_F_STATUS_SIZE];
#define OF_MODULE(name) __mpi_f08_link_constants_MOD_##name
extern MPI_Fint OF_MODULE(mpi_bottom)[1], OF_MODULE(mpi_in_place)[1], OF_MODULE(mpi_unweighted)[1],
    OF_MODULE(mpi_weights_empty)[1], OF_MODULE(mpi_errcodes_ignore)[1];
extern MPI_Fint OF_MODULE(mpi_status_ignore)[MPI_F_STATUS_SIZE], OF_MODULE(mpi_statuses_ignore)[MPI_F_STATUS_SIZE];
extern char OF_MODULE(mpi_argv_null)[1], OF_MODULE(mpi_argvs_null)[1];
#pragma GCC visibility pop

__typeof__(mpipriv1_) mpipriv1_ __attribute__((aligned(64)));
__typeof__(mpipriv2_) mpipriv2_ __attribute__((aligned(64)));
__typeof__(mpiprivc_) mpiprivc_ __attribute__((aligned(64)));
MPI_Fint mpifcmb5_ __attribute__((aligned(64))); /* MPI_UNWEIGHTED */
MPI_Fint mpifcmb9_ __attribute__((aligned(64))); /* MPI_WEIGHTS_EMPTY */

MPI_Fint MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE;
MPI_Fint MPIR_F08_MPI_STATUS_IGNORE_OBJ[MPI_F_STATUS_SIZE], MPIR_F08_MPI_STATUSES_IGNORE_OBJ[MPI_F_STATUS_SIZE];
MPI_Fint OF_MODULE(mpi_bottom)[1], OF_MODULE(mpi_in_place)[1], OF_MODULE(mpi_unweighted)[1],
    OF_MODULE(mpi_weights_empty)[1], OF_MODULE(mpi_errcodes_ignore)[1];
MPI_Fint OF_MODULE(mpi_status_ignore)[MPI_F_STATUS_SIZE], OF_MODULE(mpi_statuses_ignore)[MPI_F_STATUS_SIZE];
char OF_MODULE(mpi_argv_null)[1], OF_MODULE(mpi_argvs_null)[1];

MPI_F08_status *MPI_F08_STATUS_IGNORE = (MPI_F08_status *)mpipriv1_.status_ignore;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)mpipriv2_.statuses_ignore;

/* status.c has these two for a library without Fortran. */
__attribute__((constructor)) static void set_statuses(void) {
  MPI_F_STATUS_IGNORE = mpipriv1_.status_ignore;
  MPI_F_STATUSES_IGNORE = mpipriv2_.statuses_ignore;
}

/* MPICH learns the addresses in this function. Here the dynamic linker has found them before. */
void mpirinitf_(void) {}

static bool is_one(const void *address, const void *ours, const void *of_mpich, const void *of_module) {
  return address == ours || address == of_mpich || address == of_module;
}

void *f_buffer(void *buffer) {
  if (is_one(buffer, &mpipriv1_.bottom, &MPIR_F08_MPI_BOTTOM, OF_MODULE(mpi_bottom))) return MPI_BOTTOM;
  if (is_one(buffer, &mpipriv1_.in_place, &MPIR_F08_MPI_IN_PLACE, OF_MODULE(mpi_in_place))) return MPI_IN_PLACE;
  return buffer;
}

MPI_Status *f_status(MPI_Fint *status) {
  if (is_one(status, mpipriv1_.status_ignore, MPIR_F08_MPI_STATUS_IGNORE_OBJ, OF_MODULE(mpi_status_ignore)))
    return MPI_STATUS_IGNORE;
  return (MPI_Status *)status;
}

MPI_Status *f_statuses(MPI_Fint *statuses) {
  if (is_one(statuses, mpipriv2_.statuses_ignore, MPIR_F08_MPI_STATUSES_IGNORE_OBJ, OF_MODULE(mpi_statuses_ignore)))
    return MPI_STATUSES_IGNORE;
  return (MPI_Status *)statuses;
}

int *f_weights(MPI_Fint *weights) {
  if (weights == &mpifcmb5_ || weights == OF_MODULE(mpi_unweighted)) return MPI_UNWEIGHTED;
  if (weights == &mpifcmb9_ || weights == OF_MODULE(mpi_weights_empty)) return MPI_WEIGHTS_EMPTY;
  return weights;
}
