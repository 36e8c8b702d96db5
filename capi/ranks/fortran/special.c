/* Functions of MPI that differ between C and Fortran. Licence: MIT OR Apache-2.0. */
#include "fortran.h"

FORTRAN(void, mpi_init, (MPI_Fint * ierror)) {
  const int outcome = MPI_Init(NULL, NULL);
  if (ierror) *ierror = outcome;
}

FORTRAN(void, mpi_init_thread, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *ierror)) {
  const int outcome = MPI_Init_thread(NULL, NULL, *required, provided);
  if (ierror) *ierror = outcome;
}

/* The host ends the process at once. A unit of gfortran may still have text in its buffer. */
extern void _gfortran_flush_i4(MPI_Fint *unit) __attribute__((weak));

FORTRAN(void, mpi_abort, (MPI_Fint * comm, MPI_Fint *code, MPI_Fint *ierror)) {
  if (_gfortran_flush_i4) _gfortran_flush_i4(NULL);
  const int outcome = MPI_Abort(*comm, *code);
  if (ierror) *ierror = outcome;
}

FORTRAN(void, mpi_pcontrol, (MPI_Fint * level)) { MPI_Pcontrol(*level); }

FORTRAN(void, mpi_info_create_env, (MPI_Fint * info, MPI_Fint *ierror)) {
  const int outcome = MPI_Info_create_env(0, NULL, info);
  if (ierror) *ierror = outcome;
}

/* The call alone keeps the compiler from moving the buffer's uses. */
FORTRAN_77(void, mpi_f_sync_reg, (void *buffer)) { (void)buffer; }
SEEN void mpi_f_sync_reg_f08ts(const struct section *buffer);
void mpi_f_sync_reg_f08ts(const struct section *buffer) { (void)buffer; }
SEEN void mpi_f_sync_reg_f08ts_(const void *buffer);
void mpi_f_sync_reg_f08ts_(const void *buffer) { (void)buffer; }

/* The length counts the NUL in C alone. */
FORTRAN(void, mpi_info_get_string,
        (MPI_Fint * info, char *key, MPI_Fint *buflen, char *value, MPI_Fint *flag, MPI_Fint *ierror, size_t key_length,
         size_t value_length)) {
  char *key_text = f_text_stripped(key, key_length), *value_text = f_room(*buflen + 1l);
  int found = 0, length = *buflen > 0 ? *buflen + 1 : 0;
  const int outcome = MPI_Info_get_string(*info, key_text, &length, value_text, &found);
  if (outcome == MPI_SUCCESS) {
    *flag = found != 0;
    if (found && *buflen > 0) f_text_out(value, value_length, value_text);
    if (found) *buflen = length - 1;
  }
  free(key_text);
  free(value_text);
  if (ierror) *ierror = outcome;
}

/* Only mpi_f08 returns the address. */
FORTRAN_77(void, mpi_buffer_detach, (void *buffer, MPI_Fint *size, MPI_Fint *ierror)) {
  (void)buffer;
  void *detached = NULL;
  const int outcome = MPI_Buffer_detach(&detached, size);
  if (ierror) *ierror = outcome;
}

SEEN void mpi_buffer_detach_f08_(void **buffer, MPI_Fint *size, MPI_Fint *ierror);
void mpi_buffer_detach_f08_(void **buffer, MPI_Fint *size, MPI_Fint *ierror) {
  const int outcome = MPI_Buffer_detach(buffer, size);
  if (ierror) *ierror = outcome;
}

FORTRAN(void, mpi_status_f2f08, (MPI_Fint * from, MPI_Fint *to, MPI_Fint *ierror)) {
  memcpy(to, from, sizeof(MPI_Status));
  if (ierror) *ierror = MPI_SUCCESS;
}

FORTRAN(void, mpi_status_f082f, (MPI_Fint * from, MPI_Fint *to, MPI_Fint *ierror)) {
  memcpy(to, from, sizeof(MPI_Status));
  if (ierror) *ierror = MPI_SUCCESS;
}

/* Bytes of a variable, from its descriptor. */
SEEN void mpi_sizeof_f08ts(const struct section *variable, MPI_Fint *size, MPI_Fint *ierror);
void mpi_sizeof_f08ts(const struct section *variable, MPI_Fint *size, MPI_Fint *ierror) {
  *size = (MPI_Fint)variable->bytes;
  if (ierror) *ierror = MPI_SUCCESS;
}

/* The same address as MPI_ALLOC_MEM, MPI_WIN_ALLOCATE and MPI_WIN_SHARED_QUERY, as type(c_ptr). */
#define AS_POINTER(name, arguments, ...)                                                                               \
  FORTRAN_77(void, name##_cptr, arguments) { name##_(__VA_ARGS__); }
SEEN void mpi_alloc_mem_(MPI_Aint *size, MPI_Fint *info, void *base, MPI_Fint *ierror);
SEEN void mpi_win_allocate_(MPI_Aint *size, MPI_Fint *unit, MPI_Fint *info, MPI_Fint *comm, void *base, MPI_Fint *win,
                            MPI_Fint *ierror);
SEEN void mpi_win_allocate_shared_(MPI_Aint *size, MPI_Fint *unit, MPI_Fint *info, MPI_Fint *comm, void *base,
                                   MPI_Fint *win, MPI_Fint *ierror);
SEEN void mpi_win_shared_query_(MPI_Fint *win, MPI_Fint *rank, MPI_Aint *size, MPI_Fint *unit, void *base,
                                MPI_Fint *ierror);
AS_POINTER(mpi_alloc_mem, (MPI_Aint * size, MPI_Fint *info, void *base, MPI_Fint *ierror), size, info, base, ierror)
AS_POINTER(mpi_win_allocate,
           (MPI_Aint * size, MPI_Fint *unit, MPI_Fint *info, MPI_Fint *comm, void *base, MPI_Fint *win,
            MPI_Fint *ierror),
           size, unit, info, comm, base, win, ierror)
AS_POINTER(mpi_win_allocate_shared,
           (MPI_Aint * size, MPI_Fint *unit, MPI_Fint *info, MPI_Fint *comm, void *base, MPI_Fint *win,
            MPI_Fint *ierror),
           size, unit, info, comm, base, win, ierror)
AS_POINTER(mpi_win_shared_query,
           (MPI_Fint * win, MPI_Fint *rank, MPI_Aint *size, MPI_Fint *unit, void *base, MPI_Fint *ierror), win, rank,
           size, unit, base, ierror)

/* Handles of mpi_f08 are compared by == and /=. */
#define COMPARED(type)                                                                                                 \
  SEEN MPI_Fint mainstay_##type##_equal_(const MPI_Fint *left, const MPI_Fint *right);                                 \
  SEEN MPI_Fint mainstay_##type##_differs_(const MPI_Fint *left, const MPI_Fint *right);                               \
  MPI_Fint mainstay_##type##_equal_(const MPI_Fint *left, const MPI_Fint *right) { return *left == *right; }           \
  MPI_Fint mainstay_##type##_differs_(const MPI_Fint *left, const MPI_Fint *right) { return *left != *right; }
COMPARED(comm)
COMPARED(datatype)
COMPARED(errhandler)
COMPARED(file)
COMPARED(group)
COMPARED(info)
COMPARED(message)
COMPARED(op)
COMPARED(request)
COMPARED(session)
COMPARED(win)

/* ---- functions of MPI 1 with default integers, which are too short for an address */

static MPI_Fint short_address(MPI_Aint address, const char *function) {
  if (address != (MPI_Fint)address)
    end_job(
        "%s: the address does not fit into a default integer. Use MPI_GET_ADDRESS and integers of MPI_ADDRESS_KIND.",
        function);
  return (MPI_Fint)address;
}

FORTRAN_77(void, mpi_address, (void *location, MPI_Fint *address, MPI_Fint *ierror)) {
  MPI_Aint wide = 0;
  const int outcome = MPI_Get_address(f_buffer(location), &wide);
  *address = short_address(wide, "MPI_ADDRESS");
  if (ierror) *ierror = outcome;
}

static MPI_Aint *wide(const MPI_Fint *from, int count) {
  MPI_Aint *copy = f_allocate((size_t)(count < 0 ? 0 : count) * sizeof *copy);
  for (int i = 0; i < count; i++) copy[i] = from[i];
  return copy;
}

FORTRAN_77(void, mpi_type_hindexed,
           (MPI_Fint * count, MPI_Fint *blocklengths, MPI_Fint *displacements, MPI_Fint *oldtype, MPI_Fint *newtype,
            MPI_Fint *ierror)) {
  MPI_Aint *places = wide(displacements, *count);
  const int outcome = MPI_Type_create_hindexed(*count, blocklengths, places, *oldtype, newtype);
  free(places);
  if (ierror) *ierror = outcome;
}

FORTRAN_77(void, mpi_type_struct,
           (MPI_Fint * count, MPI_Fint *blocklengths, MPI_Fint *displacements, MPI_Fint *types, MPI_Fint *newtype,
            MPI_Fint *ierror)) {
  MPI_Aint *places = wide(displacements, *count);
  const int outcome = MPI_Type_create_struct(*count, blocklengths, places, types, newtype);
  free(places);
  if (ierror) *ierror = outcome;
}

FORTRAN_77(void, mpi_type_hvector,
           (MPI_Fint * count, MPI_Fint *blocklength, MPI_Fint *stride, MPI_Fint *oldtype, MPI_Fint *newtype,
            MPI_Fint *ierror)) {
  const int outcome = MPI_Type_create_hvector(*count, *blocklength, *stride, *oldtype, newtype);
  if (ierror) *ierror = outcome;
}

/* The lower bound and the extent of a type. */
static int bounds(MPI_Datatype type, MPI_Aint *lower, MPI_Aint *extent) {
  *lower = *extent = 0;
  return MPI_Type_get_extent(type, lower, extent);
}

#define BOUND(name, function, value)                                                                                   \
  FORTRAN_77(void, name, (MPI_Fint * type, MPI_Fint * bound, MPI_Fint * ierror)) {                                     \
    MPI_Aint lower, extent;                                                                                            \
    const int outcome = bounds(*type, &lower, &extent);                                                                \
    (void)lower, (void)extent;                                                                                         \
    if (outcome == MPI_SUCCESS) *bound = short_address(value, function);                                               \
    if (ierror) *ierror = outcome;                                                                                     \
  }
BOUND(mpi_type_extent, "MPI_TYPE_EXTENT", extent)
BOUND(mpi_type_lb, "MPI_TYPE_LB", lower)
BOUND(mpi_type_ub, "MPI_TYPE_UB", lower + extent)
