/* The start and the end of MPI, the clock, memory, and the library's name and version. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "point.h"

#include <stdio.h>
#include <time.h>

static enum { NOT_STARTED, STARTED, FINISHED } phase;

void errors_start(void);
void members_start(void);
void types_start(void);
void info_start(void);
void probe_start(void);
void requests_finish(void);

bool running(void) { return phase == STARTED; }

static int start(const char *function) {
  const struct mainstay_gate *gate = (const struct mainstay_gate *)MAINSTAY_GATE_ADDRESS;
  if (phase != NOT_STARTED) return raise_error(NULL, MPI_ERR_OTHER, function);
  if (gate->version != MAINSTAY_GATE_VERSION)
    end_job("the host's gate has version %u, this MPI library needs %u", gate->version, MAINSTAY_GATE_VERSION);
  errors_start();
  members_start();
  types_start();
  operations_start();
  info_start();
  probe_start();
  phase = STARTED;
  return MPI_SUCCESS;
}

MPI(Init)(int *argc, char ***argv) {
  (void)argc, (void)argv;
  return start("MPI_Init");
}

/* A rank has one thread: of more than MPI_THREAD_FUNNELED the program gets that one. */
MPI(Init_thread)(int *argc, char ***argv, int required, int *provided) {
  (void)argc, (void)argv;
  *provided = required < MPI_THREAD_FUNNELED ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED;
  return start("MPI_Init_thread");
}

MPI(Initialized)(int *flag) {
  *flag = phase != NOT_STARTED;
  return MPI_SUCCESS;
}

MPI(Finalized)(int *flag) {
  *flag = phase == FINISHED;
  return MPI_SUCCESS;
}

/* Each rank hears from all others in a number of rounds that grows with the logarithm of their number. */
static void meet(struct comm *comm) {
  int size = comm_size(comm), rank = comm_rank(comm);
  for (int distance = 1; distance < size; distance *= 2) {
    struct mainstay_message in, out;
    start_receive(&in, comm, CONTEXT_LIBRARY, (rank - distance + size) % size, 0, NULL, 0);
    start_send(&out, comm, CONTEXT_LIBRARY, (rank + distance) % size, 0, NULL, 0);
    wait_message(&in);
    wait_message(&out);
  }
}

MPI(Finalize)(void) {
  int error;
  if (phase != STARTED) return fail(NULL, MPI_ERR_OTHER);
  error = attributes_delete(&self->attributes, (uintptr_t)MPI_COMM_SELF);
  if (!error) error = attributes_delete(&world->attributes, (uintptr_t)MPI_COMM_WORLD);
  if (error) return fail(NULL, error);
  finish_buffered();
  requests_finish();
  meet(world);
  phase = FINISHED;
  mainstay_gate(MAINSTAY_GATE_LEAVE, NULL);
  return MPI_SUCCESS;
}

MPI(Abort)(MPI_Comm comm, int errorcode) {
  (void)comm;
  fflush(NULL);
  mainstay_gate(MAINSTAY_GATE_ABORT, (void *)(intptr_t)errorcode);
  abort();
}

MPI(Query_thread)(int *provided) {
  *provided = MPI_THREAD_FUNNELED;
  return MPI_SUCCESS;
}

MPI(Is_thread_main)(int *flag) {
  *flag = 1;
  return MPI_SUCCESS;
}

/* The C library reads the clock through the slot's own vDSO, with the offset that keeps time from running back. */
extern __typeof__(PMPI_Wtime) MPI_Wtime __attribute__((weak, alias("PMPI_Wtime")));
double PMPI_Wtime(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

extern __typeof__(PMPI_Wtick) MPI_Wtick __attribute__((weak, alias("PMPI_Wtick")));
double PMPI_Wtick(void) {
  struct timespec step;
  clock_getres(CLOCK_MONOTONIC, &step);
  return (double)step.tv_sec + 1e-9 * (double)step.tv_nsec;
}

/* No rank was started by another. */
MPI(Comm_get_parent)(MPI_Comm *parent) {
  *parent = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

MPI(Get_processor_name)(char *name, int *resultlen) {
  *resultlen = snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s", rank_info.node_name);
  return MPI_SUCCESS;
}

MPI(Get_version)(int *version, int *subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}

MPI(Get_library_version)(char *version, int *resultlen) {
#ifdef MAINSTAY_ABI_STANDARD
  const char *abi = "the standard ABI of MPI 5";
#else
  const char *abi = "MPICH's ABI";
#endif
  *resultlen = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "Mainstay, ranks in slots, %s", abi);
  return MPI_SUCCESS;
}

MPI(Pcontrol)(const int level, ...) {
  (void)level;
  return MPI_SUCCESS;
}

MPI(Alloc_mem)(MPI_Aint size, MPI_Info info, void *baseptr) {
  (void)info;
  if (size < 0) return fail(NULL, MPI_ERR_ARG);
  if (posix_memalign(baseptr, 64, size ? (size_t)size : 1)) return fail(NULL, MPI_ERR_NO_MEM);
  return MPI_SUCCESS;
}

MPI(Free_mem)(void *base) {
  free(base);
  return MPI_SUCCESS;
}

MPI(Get_hw_resource_info)(MPI_Info *hw_info) { return PMPI_Info_create(hw_info); }

MPI(Abi_get_version)(int *abi_major, int *abi_minor) {
#ifdef MAINSTAY_ABI_STANDARD
  *abi_major = MPI_ABI_VERSION;
  *abi_minor = MPI_ABI_SUBVERSION;
#else
  *abi_major = *abi_minor = -1;
#endif
  return MPI_SUCCESS;
}

MPI(Abi_get_info)(MPI_Info *info) {
  int error = PMPI_Info_create(info);
  if (error) return error;
  PMPI_Info_set(*info, "mpi_aint_size", "8");
  PMPI_Info_set(*info, "mpi_count_size", "8");
  return PMPI_Info_set(*info, "mpi_offset_size", "8");
}

/* The types of gfortran, without options that widen them. */
MPI(Abi_get_fortran_info)(MPI_Info *info) {
  static const char *const pairs[][2] = {
      {"mpi_logical_size", "4"}, {"mpi_integer_size", "4"}, {"mpi_real_size", "4"}, {"mpi_double_precision_size", "8"}};
  static const char *const supported[] = {"logical1", "logical2",  "logical4",  "logical8",      "logical16",
                                          "integer1", "integer2",  "integer4",  "integer8",      "integer16",
                                          "real2",    "real4",     "real8",     "real16",        "complex4",
                                          "complex8", "complex16", "complex32", "double_complex"};
  int error = PMPI_Info_create(info);
  if (error) return error;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) PMPI_Info_set(*info, pairs[i][0], pairs[i][1]);
  for (size_t i = 0; i < sizeof supported / sizeof *supported; i++) {
    char key[64];
    snprintf(key, sizeof key, "mpi_%s_supported", supported[i]);
    PMPI_Info_set(*info, key, "true");
  }
  return MPI_SUCCESS;
}

MPI(Abi_get_fortran_booleans)(int logical_size, void *logical_true, void *logical_false, int *is_set) {
  static const char one[16] = {1}, zero[16];
  if (logical_size < 1 || logical_size > 16) return fail(NULL, MPI_ERR_ARG);
  memcpy(logical_true, one, (size_t)logical_size);
  memcpy(logical_false, zero, (size_t)logical_size);
  *is_set = 1;
  return MPI_SUCCESS;
}
