/* Finds the MPI that the program has loaded. Licence: MIT OR Apache-2.0.
 *
 * A library such as mpi4py may have loaded MPI for itself alone. Then MPI stands behind the caller's own library. */
#include "mpi.h"

#include <dlfcn.h>

void *mpi_next(const char *name, void *caller) {
  void *found = dlsym(RTLD_NEXT, name);
  Dl_info from;
  if (!found && dladdr(caller, &from) && from.dli_fname) {
    void *library = dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) found = dlsym(library, name);
    if (library) dlclose(library);
  }
  dlerror();
  return found;
}

/* The standard ABI has its own bits; Open MPI and MPICH have those of ROMIO. */
static void find_bits(struct mpi *mpi) {
  Dl_info of;
  bool standard = dladdr((void *)mpi->open, &of) && of.dli_fname && strstr(of.dli_fname, "libmpi_abi.");
  mpi->create = standard ? 2 : 1;
  mpi->read_only = standard ? 16 : 2;
  mpi->exclusive = standard ? 8 : 64;
}

SLOW const struct mpi *mpi_of(void *caller) {
  static struct mpi found;
  static int state; /* 1 once `found` is complete */
  struct mpi mpi;
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE)) return &found;
#define FIND(member, name)                                                                                             \
  mpi.member = (__typeof__(mpi.member))mpi_next(name, caller);                                                         \
  if (!mpi.member) return NULL;
  FIND(open, "PMPI_File_open")
  FIND(close, "PMPI_File_close")
  FIND(sync, "PMPI_File_sync")
  FIND(rank, "PMPI_Comm_rank")
  FIND(size, "PMPI_Comm_size")
  FIND(split, "PMPI_Comm_split")
  FIND(barrier, "PMPI_Barrier")
  FIND(free, "PMPI_Comm_free")
#undef FIND
  find_bits(&mpi);
  found = mpi; /* two threads write the same */
  __atomic_store_n(&state, 1, __ATOMIC_RELEASE);
  return &found;
}
