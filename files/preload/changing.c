/* Base descriptors: open for update, but read-only until the program changes the file. Licence: MIT OR Apache-2.0.
 *
 * Many programs open a file for update only to look at it. So such a descriptor reads the published file, and costs no
 * copy. The first call that changes the file asks the helper for a staged copy, and puts it under the same number, with
 * the offset, the flags and the lock of the old one. Two threads may come at once, so a mutex with signals blocked
 * guards the list. No process is forked with the mutex held, and none gets a base from its parent. */
#include "preload.h"

#include <pthread.h>

enum { BASES_MAX = 64 };

static struct base {
  bool used;
  int fd, access, lock;
  struct file file;
} bases[BASES_MAX];
static int bases_used;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void list_lock(uint64_t *signals) {
  signals_block(signals);
  pthread_mutex_lock(&mutex);
}

static void list_unlock(const uint64_t *signals) {
  pthread_mutex_unlock(&mutex);
  signals_restore(signals);
}

/* Adds a base descriptor to the list. False: the list is full. */
SLOW bool base_add(int fd, int access, const struct file *file) {
  uint64_t signals;
  int place = 0;
  if (fd >= DESCRIPTORS) return false;
  list_lock(&signals);
  while (place < BASES_MAX && bases[place].used) place++;
  if (place < BASES_MAX) {
    struct base *base = &bases[place];
    base->used = true;
    base->fd = fd;
    base->access = access;
    base->lock = 0;
    memcpy(&base->file, file, sizeof *file);
    __atomic_add_fetch(&bases_used, 1, __ATOMIC_RELAXED);
    table_set(fd, KIND_BASE, (uint64_t)place);
  }
  list_unlock(&signals);
  return place < BASES_MAX;
}

static void drop(struct base *base) {
  base->used = false;
  __atomic_sub_fetch(&bases_used, 1, __ATOMIC_RELAXED);
}

SLOW void base_drop(uint64_t place) {
  uint64_t signals;
  list_lock(&signals);
  if (bases[place].used) drop(&bases[place]);
  list_unlock(&signals);
}

int base_access(int fd) {
  struct entry entry = table_get(fd);
  return entry.kind == KIND_BASE ? bases[entry.id].access : O_RDONLY;
}

/* Opens the file that replaces the base: without a helper, the published file itself. */
static int open_changed(const struct base *base, bool locks, struct answer *answer) {
  struct request request;
  request_begin(&request, "change");
  request_add_file(&request, &base->file);
  request_add(&request, settings.options);
  request_add(&request, locks ? "lock" : "write");
  request_send(&request, answer);
  if (answer->verb == STAGE) return raw_open(AT_FDCWD, answer->path, base->access | O_CLOEXEC);
  if (answer->verb == ERROR) return errno = answer->error, -1;
  int folder = raw_open(AT_FDCWD, base->file.folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  int fd = raw_open(folder, base->file.name, base->access | O_CLOEXEC), error = errno;
  raw_close(folder);
  errno = error;
  return fd;
}

/* Gives NEW the state and the number of FD. */
static bool exchange(struct base *base, int fd, int new) {
  int flags = raw_fcntl(fd, F_GETFL, 0), cloexec = raw_fcntl(fd, F_GETFD, 0);
  long offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
  if (flags < 0 || cloexec < 0 || offset < 0 || syscall(SYS_lseek, new, offset, SEEK_SET) < 0) return false;
  /* tmpfs of older kernels has no O_DIRECT. */
  raw_fcntl(new, F_SETFL, flags & ~(O_ACCMODE | O_DIRECT));
  if (base->lock) syscall(SYS_flock, new, base->lock | LOCK_NB);
  return syscall(SYS_dup3, new, fd, cloexec & FD_CLOEXEC ? O_CLOEXEC : 0) >= 0;
}

static bool change(struct base *base, int fd, bool locks) {
  struct answer answer;
  int new = open_changed(base, locks, &answer);
  bool changed = new >= 0 && exchange(base, fd, new);
  int error = errno;
  if (new >= 0) raw_close(new);
  if (changed && answer.verb == STAGE) {
    table_set(fd, KIND_STAGED, answer.id);
  } else if (changed) {
    table_take(fd);
  } else if (answer.verb == STAGE) {
    tell_closed(answer.id, false);
  }
  if (changed) drop(base);
  errno = error;
  return changed;
}

static SLOW bool change_now(int fd, bool locks) {
  if (!is_owner()) return errno = EBADF, false;
  int saved = errno;
  bool changed = true;
  uint64_t signals;
  list_lock(&signals);
  struct entry entry = table_get(fd);
  /* Another thread may have changed it first. */
  if (entry.kind == KIND_BASE) changed = change(&bases[entry.id], fd, locks);
  int error = errno;
  list_unlock(&signals);
  errno = changed ? saved : error;
  return changed;
}

bool base_change(int fd) { return change_now(fd, false); }

bool base_lock(int fd) { return change_now(fd, true); }

/* Changes all base descriptors before fork; before exec only those without FD_CLOEXEC. */
SLOW void base_change_all(bool inherited_only) {
  int saved = errno;
  if (!__atomic_load_n(&bases_used, __ATOMIC_RELAXED) || !is_owner()) return;
  for (int fd = table_end(); fd-- > 0;)
    if (kind_of(fd) == KIND_BASE && !(inherited_only && (raw_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC))) base_change(fd);
  errno = saved;
}

/* Before the name of FILE changes: its descriptors go on with it, whatever name it gets. */
SLOW void base_change_named(const struct file *file) {
  int saved = errno;
  if (!__atomic_load_n(&bases_used, __ATOMIC_RELAXED) || !is_owner()) return;
  for (int fd = table_end(); fd-- > 0;) {
    struct entry entry = table_get(fd);
    const struct file *of = entry.kind == KIND_BASE ? &bases[entry.id].file : NULL;
    if (of && !strcmp(of->name, file->name) && !strcmp(of->inode, file->inode) && !strcmp(of->device, file->device))
      base_change(fd);
  }
  errno = saved;
}

/* Resets the list in a child: another thread of the parent may have held the mutex. */
void base_forked(void) { mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

/* Exchanges a base before an exclusive lock: two programs must lock one file, not two generations of it. */
EXPORT int flock(int fd, int operation) {
  if ((operation & LOCK_EX) && is_unlockable(fd)) return -1;
  int result = NEXT(flock)(fd, operation);
  if (!result && kind_of(fd) == KIND_BASE && is_owner()) {
    struct entry entry = table_get(fd);
    int lock = operation & ~LOCK_NB;
    if (entry.kind == KIND_BASE) bases[entry.id].lock = lock == LOCK_UN ? 0 : lock;
  }
  return result;
}
