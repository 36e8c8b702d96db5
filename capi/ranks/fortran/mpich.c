/* Names of MPICH's mpi_f08, for programs that gfortran compiled with it. Licence: MIT OR Apache-2.0.
 *
 * These programs name procedures and data of MPICH's modules. Buffers come as gfortran's own descriptors: gfortran uses
 * them in procedures without bind(C). The generated files define such a procedure beside each function. */
#include "fortran.h"

/* ---- descriptors of gfortran, from version 8 on */

enum { RANK_MAX = 15, TYPES = 12 };

const struct section *section_from(union section_room *room, const struct gfortran_array *array, const char *function) {
  if (array->version != 0 || array->rank < 0 || array->rank > RANK_MAX || array->type < 0 || array->type >= TYPES)
    end_job("%s: the program was compiled with MPICH's mpi_f08, and not by gfortran. Compile it with mainstay mpifort.",
            function);
  struct section *section = &room->section;
  const ptrdiff_t step = array->span > 0 ? array->span : (ptrdiff_t)array->bytes;
  section->base = array->base;
  section->bytes = array->bytes;
  section->rank = array->rank;
  for (int i = 0; i < array->rank; i++) {
    section->dimensions[i].extent = array->dimensions[i].upper - array->dimensions[i].lower + 1;
    section->dimensions[i].stride = array->dimensions[i].stride * step;
    if (section->dimensions[i].extent < 0) section->dimensions[i].extent = 0;
  }
  return section;
}

const struct section *section_of_text(union section_room *room, char *text, size_t length) {
  room->section.base = text;
  room->section.bytes = length;
  room->section.rank = 0;
  return &room->section;
}

/* ---- comparisons of handles, each in three forms: two handles, a handle and an integer, an integer and a handle */

#define PROCEDURE(type, module, name, arguments)                                                                       \
  SEEN type __##module##_MOD_##name arguments;                                                                         \
  type __##module##_MOD_##name arguments
#define COMPARISON(name, sign)                                                                                         \
  PROCEDURE(MPI_Fint, mpi_f08_types, name, (const MPI_Fint *left, const MPI_Fint *right)) { return *left sign * right; }
#define HANDLE(type)                                                                                                   \
  COMPARISON(mpi_##type##_eq, ==)                                                                                      \
  COMPARISON(mpi_##type##_neq, !=)                                                                                     \
  COMPARISON(mpi_##type##_f08_eq_f, ==)                                                                                \
  COMPARISON(mpi_##type##_f08_neq_f, !=)                                                                               \
  COMPARISON(mpi_##type##_f_eq_f08, ==)                                                                                \
  COMPARISON(mpi_##type##_f_neq_f08, !=)
HANDLE(comm)
HANDLE(datatype)
HANDLE(errhandler)
HANDLE(file)
HANDLE(group)
HANDLE(info)
HANDLE(message)
HANDLE(op)
HANDLE(request)
HANDLE(session)
HANDLE(win)

/* ---- statuses and sizes */

#define STATUS_COPY(name)                                                                                              \
  PROCEDURE(void, mpi_f08_types, name, (const MPI_Fint *from, MPI_Fint *to, MPI_Fint *ierror)) {                       \
    memcpy(to, from, sizeof(MPI_Status));                                                                              \
    if (ierror) *ierror = MPI_SUCCESS;                                                                                 \
  }
STATUS_COPY(mpi_status_f082f)
STATUS_COPY(mpi_status_f2f08)

#define SIZE_OF(module, name, bytes)                                                                                   \
  PROCEDURE(void, module, mpi_sizeof_##name, (void *variable, MPI_Fint *size, MPI_Fint *ierror)) {                     \
    (void)variable;                                                                                                    \
    *size = bytes;                                                                                                     \
    if (ierror) *ierror = MPI_SUCCESS;                                                                                 \
  }
SIZE_OF(mpi_f08_types, character, 1)
SIZE_OF(mpi_f08_types, logical, 4)
SIZE_OF(mpi_f08_types, xint8, 1)
SIZE_OF(mpi_f08_types, xint16, 2)
SIZE_OF(mpi_f08_types, xint32, 4)
SIZE_OF(mpi_f08_types, xint64, 8)
SIZE_OF(mpi_f08_types, xreal32, 4)
SIZE_OF(mpi_f08_types, xreal64, 8)
SIZE_OF(mpi_f08_types, xreal128, 16)
SIZE_OF(mpi_f08_types, xcomplex32, 8)
SIZE_OF(mpi_f08_types, xcomplex64, 16)
SIZE_OF(mpi_f08_types, xcomplex128, 32)
/* Those of the module mpi: a scalar, and an array. */
#define SIZE_OF_BOTH(name, bytes) SIZE_OF(mpi_sizeofs, name, bytes) SIZE_OF(mpi_sizeofs, name##v, bytes)
SIZE_OF_BOTH(ch, 1)
SIZE_OF_BOTH(l, 4)
SIZE_OF_BOTH(i1, 1)
SIZE_OF_BOTH(i2, 2)
SIZE_OF_BOTH(i, 4)
SIZE_OF_BOTH(i8, 8)
SIZE_OF_BOTH(r, 4)
SIZE_OF_BOTH(d, 8)
SIZE_OF_BOTH(cx, 8)

/* ---- functions for attributes */

#define COPY_ARGUMENTS                                                                                                 \
  (MPI_Fint * object, MPI_Fint * keyval, MPI_Aint * extra_state, MPI_Aint * in, MPI_Aint * out, MPI_Fint * flag,       \
   MPI_Fint * ierror)
#define DELETE_ARGUMENTS                                                                                               \
  (MPI_Fint * object, MPI_Fint * keyval, MPI_Aint * value, MPI_Aint * extra_state, MPI_Fint * ierror)
#define KEY_FUNCTIONS(type)                                                                                            \
  SEEN void mpi_##type##_null_copy_fn_ COPY_ARGUMENTS;                                                                 \
  SEEN void mpi_##type##_dup_fn_ COPY_ARGUMENTS;                                                                       \
  SEEN void mpi_##type##_null_delete_fn_ DELETE_ARGUMENTS;                                                             \
  PROCEDURE(void, mpi_f08_callbacks, mpi_##type##_null_copy_fn, COPY_ARGUMENTS) {                                      \
    mpi_##type##_null_copy_fn_(object, keyval, extra_state, in, out, flag, ierror);                                    \
  }                                                                                                                    \
  PROCEDURE(void, mpi_f08_callbacks, mpi_##type##_dup_fn, COPY_ARGUMENTS) {                                            \
    mpi_##type##_dup_fn_(object, keyval, extra_state, in, out, flag, ierror);                                          \
  }                                                                                                                    \
  PROCEDURE(void, mpi_f08_callbacks, mpi_##type##_null_delete_fn, DELETE_ARGUMENTS) {                                  \
    mpi_##type##_null_delete_fn_(object, keyval, value, extra_state, ierror);                                          \
  }
KEY_FUNCTIONS(comm)
KEY_FUNCTIONS(type)
KEY_FUNCTIONS(win)
