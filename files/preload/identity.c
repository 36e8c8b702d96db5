/* Device and inode of a file that is on its way to its name. Licence: MIT OR Apache-2.0.
 *
 * cp, rm and Python's shutil compare a name with the descriptor that they have opened by it: other numbers mean that
 * somebody has replaced the file. The bytes of a closed file are in the stage at first. The file that gets the name has
 * its numbers by then, so stat and fstat show these from the close on. A stage on a disk may use an inode again for
 * another file, so this holds for memory alone. */
#include "preload.h"

#include <linux/magic.h>

enum { KNOWN_MAX = 256 };

/* An INODE of 0 is a place that nobody may read. The oldest file gives its place to a new one. */
static struct known {
  uint64_t inode, device, shown_inode, shown_device;
} known[KNOWN_MAX];
static unsigned count;

static bool find(uint64_t device, uint64_t inode, struct known *found) {
  for (int i = 0; i < KNOWN_MAX && inode; i++) {
    if (__atomic_load_n(&known[i].inode, __ATOMIC_ACQUIRE) != inode) continue;
    *found = known[i];
    /* Another thread may have taken the place meanwhile. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&known[i].inode, __ATOMIC_RELAXED) == inode && found->device == device) return true;
  }
  return false;
}

static bool is_in_memory(const char *path) {
  struct statfs system;
  return !syscall(SYS_statfs, path, &system) && (unsigned long)system.f_type == TMPFS_MAGIC;
}

SLOW void identity_learn(const struct answer *answer) {
  struct stat staged;
  struct known other;
  int saved = errno;
  /* A rank in a slot calls fstat past this library. */
  bool is_told = (answer->verb == AT || answer->verb == BASE_COPY) && answer->inode && !serves_rank;
  bool fits = is_told && is_in_memory(answer->path) && !raw_stat(AT_FDCWD, answer->path, &staged, 0);
  errno = saved;
  if (!fits || find(staged.st_dev, staged.st_ino, &other)) return;
  struct known *place = &known[__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % KNOWN_MAX];
  __atomic_store_n(&place->inode, 0, __ATOMIC_RELEASE);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  place->device = staged.st_dev;
  place->shown_inode = answer->inode;
  place->shown_device = answer->device;
  __atomic_store_n(&place->inode, staged.st_ino, __ATOMIC_RELEASE);
}

static SLOW void show(dev_t *device, ino_t *inode) {
  struct known found;
  if (!find(*device, *inode, &found)) return;
  *device = found.shown_device;
  *inode = found.shown_inode;
}

void identity_show(dev_t *device, ino_t *inode) {
  if (__atomic_load_n(&count, __ATOMIC_RELAXED)) show(device, inode);
}

#define SHOWN(call)                                                                                                    \
  ({                                                                                                                   \
    int result_ = (call);                                                                                              \
    if (!result_) identity_show(&status->st_dev, &status->st_ino);                                                     \
    result_;                                                                                                           \
  })

EXPORT int fstat(int fd, struct stat *status) { return SHOWN(NEXT(fstat)(fd, status)); }

EXPORT int fstat64(int fd, struct stat64 *status) { return SHOWN(NEXT(fstat64)(fd, status)); }

EXPORT int __fxstat(int version, int fd, struct stat *status) { return SHOWN(NEXT(__fxstat)(version, fd, status)); }

EXPORT int __fxstat64(int version, int fd, struct stat64 *status) {
  return SHOWN(NEXT(__fxstat64)(version, fd, status));
}
