/* FTI's functions for its Fortran module, fti.f90. Licence: MIT OR Apache-2.0. */
#include <ISO_Fortran_binding.h>

#include "fti.h"

#pragma GCC visibility push(default)

/* `comm` is Fortran's number of a communicator: that of the program, and then that of FTI. */
int mainstay_fti_init(const char *file, int *comm) {
  const int code = FTI_Init(file, MPI_Comm_f2c((MPI_Fint)*comm));
  if (FTI_COMM_WORLD != MPI_COMM_NULL) *comm = (int)MPI_Comm_c2f(FTI_COMM_WORLD);
  return code;
}

/* A type of `bytes` bytes; -1: a failure. */
fti_id_t mainstay_fti_type(size_t bytes) {
  fti_id_t type;
  return FTI_InitType(&type, (int)bytes) == FTI_SCES ? type : FTI_NSCS;
}

/* FTI's type of a number of C. Other elements, such as complex numbers, get a type of their size. */
static fti_id_t type_of(const CFI_cdesc_t *data) {
  static fti_id_t by_bytes[FTI_BUFS];
  if (data->type == CFI_type_float) return FTI_SFLT;
  if (data->type == CFI_type_double) return FTI_DBLE;
  if (data->type == CFI_type_int32_t) return FTI_INTG;
  if (data->type == CFI_type_int64_t) return FTI_LONG;
  if (data->elem_len >= FTI_BUFS) return mainstay_fti_type(data->elem_len);
  if (!by_bytes[data->elem_len]) by_bytes[data->elem_len] = mainstay_fti_type(data->elem_len);
  return by_bytes[data->elem_len];
}

/* Protects a scalar, or an array that is contiguous in memory. */
int mainstay_fti_protect(int id, const CFI_cdesc_t *data) {
  int64_t count = 1;
  int i;
  for (i = 0; i < data->rank; i++) count *= data->dim[i].extent;
  if (!data->base_addr || count < 0 || (data->rank && !CFI_is_contiguous(data))) {
    fprintf(stderr, "mainstay: FTI_Protect: variable %d is not allocated, or not contiguous; pass the whole array\n",
            id);
    return FTI_NSCS;
  }
  return FTI_Protect(id, data->base_addr, count, type_of(data));
}

#pragma GCC visibility pop
