/* MPI_File_open and MPI_File_close, mainly for jobs on several nodes. Licence: MIT OR Apache-2.0.
 *
 * All ranks write through to one file beside the target. The first rank has its helper make that file; then all ranks
 * open it, each through its own helper. At the end each rank syncs and closes its part. After a barrier the first rank
 * reports to its helper, which publishes the file. A killed rank never reaches the barrier. A second barrier follows:
 * once a rank returns from its close, each program finds the new file.
 *
 * If the first rank gets no file from its helper, the others learn it from the size of a communicator: each MPI has its
 * own constants for types and operations, but these calls need none.
 *
 * Fortran's functions and tools call the functions with a P, so the library catches these, too. */
#include "mpi.h"

enum { FILES_MAX = 1024 };

/* The running MPI_File_open of this thread. */
struct opening {
  const struct file *file;
  uint64_t id;
  enum course course; /* STAGE: all ranks share a file; PASS: they go on without us; FAIL: errno is `error` */
  int error;
};
static __thread struct opening *opening __attribute__((tls_model("initial-exec")));
/* MPI_File_open may call PMPI_File_open, which is ours, too. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* ROMIO creates a file, closes it, and opens it again. The file must not get its name in between, so the
 * end of MPI_File_open reports this thread's closes. */
enum { LATE_MAX = 4 };
static __thread struct entry late[LATE_MAX] __attribute__((tls_model("initial-exec")));
static __thread int late_count __attribute__((tls_model("initial-exec")));

bool shared_closes_late(struct entry entry) {
  if (!inside || late_count == LATE_MAX) return false;
  late[late_count++] = entry;
  return true;
}

static void tell_late(void) {
  int saved = errno;
  while (late_count) entry_closed(late[--late_count]);
  errno = saved;
}

/* Open files, by their handle. A handle of 0 is a free place. */
static struct shared {
  mpi_handle file, ranks;
  uint64_t id;
  bool first;
} files[FILES_MAX];

static bool is_opened(const struct file *file) {
  return !strcmp(opening->file->name, file->name) && !strcmp(opening->file->inode, file->inode) &&
         !strcmp(opening->file->device, file->device);
}

bool is_shared_open(const struct file *file) { return opening && is_opened(file); }

bool is_beside_shared_open(const struct file *file) { return opening && !is_opened(file); }

enum course shared_course(void) {
  if (opening->course == COURSE_FAIL) errno = opening->error;
  return opening->course;
}

void shared_opened(uint64_t id) { opening->id = id; }

/* Takes a free place. NULL if there is none. */
static struct shared *reserve(void) {
  for (int i = 0; i < FILES_MAX; i++) {
    mpi_handle none = NULL, taken = &files[i];
    if (__atomic_compare_exchange_n(&files[i].file, &none, taken, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return &files[i];
  }
  return NULL;
}

/* Removes the entry of a handle, and returns it. */
static bool leave(mpi_handle file, struct shared *shared) {
  for (int i = 0; i < FILES_MAX && file; i++) {
    if (__atomic_load_n(&files[i].file, __ATOMIC_ACQUIRE) != file) continue;
    *shared = files[i];
    __atomic_store_n(&files[i].file, NULL, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

/* ROMIO and OMPIO take "ufs:/folder/name". */
static const char *without_kind(const char *name) {
  size_t kind = strcspn(name, ":/");
  return kind > 1 && name[kind] == ':' ? name + kind + 1 : name;
}

/* The first rank's request for a new file. */
static SLOW void make_shared(const struct mpi *mpi, struct opening *opened, int mode) {
  struct request request;
  struct answer answer;
  char how[3], *at = how;
  if (mode & mpi->create) *at++ = 'c';
  if (mode & mpi->exclusive) *at++ = 'x';
  *at = 0;
  request_begin(&request, "share");
  request_add_file(&request, opened->file);
  request_add(&request, how);
  request_add(&request, settings.options);
  request_send(&request, &answer);
  if (answer.verb == STAGE) opened->id = answer.id;
  opened->course = answer.verb == STAGE ? COURSE_STAGE : answer.verb == ERROR ? COURSE_FAIL : COURSE_PASS;
  opened->error = answer.error;
}

static int size_of(const struct mpi *mpi, mpi_handle ranks) {
  int size = 0;
  return mpi->size(ranks, &size) ? 0 : size;
}

/* Either all ranks come here, or none: name, mode and settings are the same on all. */
static SLOW int open_shared(const struct mpi *mpi, __typeof__(mpi->open) next_open, mpi_handle ranks, const char *name,
                            int mode, mpi_handle info, mpi_handle *file) {
  struct shared *place = reserve(), shared = {NULL, NULL, 0, false};
  struct file named;
  struct opening here = {&named, 0, COURSE_STAGE, 0};
  int rank = -1, error = mpi->rank(ranks, &rank);
  shared.first = rank == 0;
  bool ours = find_wanted(&named, AT_FDCWD, without_kind(name), true);
  if (!place) say("too many files are open by MPI: ", name, " is not protected");
  if (!ours || !place) here.course = COURSE_PASS;
  if (shared.first && here.course == COURSE_STAGE) make_shared(mpi, &here, mode);
  /* The ranks wait here for the first one, so all find its claim. */
  if (!error) error = mpi->split(ranks, here.course != COURSE_STAGE, 0, &shared.ranks);
  bool all = !error && size_of(mpi, shared.ranks) == size_of(mpi, ranks);
  if (here.course == COURSE_STAGE && !all) {
    if (shared.first) tell_shared(here.id, "unused");
    here.course = COURSE_PASS;
  }
  shared.id = here.id;
  if (ours) opening = &here;
  if (!error) error = next_open(ranks, name, mode, info, file);
  opening = NULL;
  if (here.course == COURSE_STAGE) {
    if (!shared.first) shared.id = here.id;
    if (!error) {
      place->ranks = shared.ranks;
      place->id = shared.id;
      place->first = shared.first;
      __atomic_store_n(&place->file, *file, __ATOMIC_RELEASE);
      return 0;
    }
    if (shared.first) tell_shared(shared.id, "unused");
  }
  if (place) __atomic_store_n(&place->file, NULL, __ATOMIC_RELEASE);
  if (shared.ranks) mpi->free(&shared.ranks);
  return error;
}

static SLOW int close_shared(const struct mpi *mpi, __typeof__(mpi->close) next_close, struct shared *shared,
                             mpi_handle *file) {
  /* The parts of all nodes are durable before the file gets its name. */
  int failed = mpi->sync(*file), error = next_close(file);
  if ((failed || error) && shared->id) tell_shared(shared->id, "failed");
  mpi->barrier(shared->ranks);
  if (shared->first && shared->id) tell_shared(shared->id, "whole");
  mpi->barrier(shared->ranks);
  mpi->free(&shared->ranks);
  return error;
}

static int file_open(const char *own, void *caller, mpi_handle ranks, const char *name, int mode, mpi_handle info,
                     mpi_handle *file) {
  __typeof__(((struct mpi *)0)->open) next_open = (__typeof__(next_open))mpi_next(own, caller);
  const struct mpi *mpi = NULL;
  if (!next_open) return errno = ENOSYS, -1;
  if (!inside && name && may_match(without_kind(name)) && settings.several_nodes) mpi = mpi_of(caller);
  bool outer = inside;
  inside = true;
  int result = mpi && !(mode & mpi->read_only) && size_of(mpi, ranks) > 1
                   ? open_shared(mpi, next_open, ranks, name, mode, info, file)
                   : next_open(ranks, name, mode, info, file);
  inside = outer;
  if (!inside) tell_late();
  return result;
}

static int file_close(const char *own, void *caller, mpi_handle *file) {
  __typeof__(((struct mpi *)0)->close) next_close = (__typeof__(next_close))mpi_next(own, caller);
  struct shared shared;
  if (!next_close) return errno = ENOSYS, -1;
  const struct mpi *mpi = is_on() && settings.several_nodes && file ? mpi_of(caller) : NULL;
  return mpi && leave(*file, &shared) ? close_shared(mpi, next_close, &shared, file) : next_close(file);
}

EXPORT int MPI_File_open(mpi_handle ranks, const char *name, int mode, mpi_handle info, mpi_handle *file) {
  return file_open("MPI_File_open", __builtin_return_address(0), ranks, name, mode, info, file);
}

EXPORT int PMPI_File_open(mpi_handle ranks, const char *name, int mode, mpi_handle info, mpi_handle *file) {
  return file_open("PMPI_File_open", __builtin_return_address(0), ranks, name, mode, info, file);
}

EXPORT int MPI_File_close(mpi_handle *file) { return file_close("MPI_File_close", __builtin_return_address(0), file); }

EXPORT int PMPI_File_close(mpi_handle *file) {
  return file_close("PMPI_File_close", __builtin_return_address(0), file);
}
