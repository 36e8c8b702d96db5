/* Preloaded before libc: makes the writes, reads, syncs and allocations of a space's files fail.
 *
 * INJECT is CALL:FAULT[:SKIP[:COUNT]]. CALL is write, read, sync or allocate. FAULT is EIO, ENOSPC, short, or hold,
 * which waits as long as the file INJECT_WHEN exists. The first SKIP calls pass, and COUNT calls fail (0: all later
 * calls).
 * INJECT_SPACE is the space. Files elsewhere are left alone. In the space only layouts fail; with INJECT_FILES, the
 * files with that text in their path.
 * INJECT_WHEN, if set, names a file: nothing fails until it exists.
 * INJECT_RANK, if set, is the only rank of an MPI job that has faults.
 * INJECT_HELD, if set, names a file that gets a byte longer whenever a held call begins.
 *
 * INJECT_CLEARED, if set, is a directory. Its pools, and files named like pools, are removed whenever that rank lists
 * it. INJECT_CLEARINGS, if set, limits how often. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int in_space(int fd) {
  const char *space = getenv("INJECT_SPACE"), *files = getenv("INJECT_FILES");
  char link[64], path[PATH_MAX];
  ssize_t length;
  if (!space) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strncmp(path, space, strlen(space)) == 0 && strstr(path, files ? files : "/layout-") != NULL;
}

static void say_held(void) {
  const char *held = getenv("INJECT_HELD");
  const int file = held ? open(held, O_CREAT | O_WRONLY | O_APPEND, 0600) : -1;
  if (file < 0) return;
  if (write(file, "h", 1) != 1) perror(held);
  close(file);
}

static int is_hit(void) {
  const char *only = getenv("INJECT_RANK"), *rank = getenv("PMIX_RANK");
  return !only || (rank && strcmp(only, rank) == 0);
}

/* 0: the call passes; -1: it is shortened; otherwise the number of the error. */
static int fault_of(const char *call, int fd) {
  const char *inject = getenv("INJECT"), *when = getenv("INJECT_WHEN");
  char wanted[16], fault[16];
  long skip = 0, count = 0, n;
  if (!inject || sscanf(inject, "%15[^:]:%15[^:]:%ld:%ld", wanted, fault, &skip, &count) < 2) return 0;
  if (strcmp(wanted, call) != 0 || !in_space(fd)) return 0;
  if (!is_hit()) return 0;
  if (when && access(when, F_OK) != 0) return 0;
  n = atomic_fetch_add(&calls, 1);
  if (n < skip || (count > 0 && n >= skip + count)) return 0;
  if (strcmp(fault, "hold") == 0) {
    say_held();
    while (when && access(when, F_OK) == 0) usleep(1000);
    return 0;
  }
  if (strcmp(fault, "short") == 0) return -1;
  return strcmp(fault, "ENOSPC") == 0 ? ENOSPC : EIO;
}

/* Whole blocks: O_DIRECT refuses others, and the system cuts there too. */
static size_t shortened(size_t bytes) { return bytes > 4096 ? 4096 : bytes; }

/* 32-bit offsets do not exist here: off_t and off64_t are one. */
#define TRANSFER(NAME, CALL, BUFFER)                                                                                   \
  ssize_t NAME(int fd, BUFFER buffer, size_t bytes, off_t offset) {                                                    \
    static ssize_t (*real)(int, BUFFER, size_t, off_t);                                                                \
    int fault = fault_of(CALL, fd);                                                                                    \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #NAME);                                                              \
    if (fault > 0) {                                                                                                   \
      errno = fault;                                                                                                   \
      return -1;                                                                                                       \
    }                                                                                                                  \
    return real(fd, buffer, fault < 0 ? shortened(bytes) : bytes, offset);                                             \
  }

TRANSFER(pwrite64, "write", const void *)
TRANSFER(pwrite, "write", const void *)
TRANSFER(pread64, "read", void *)
TRANSFER(pread, "read", void *)

int fdatasync(int fd) {
  static int (*real)(int);
  int fault = fault_of("sync", fd);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  return real(fd);
}

#define ALLOCATE(NAME)                                                                                                 \
  int NAME(int fd, off_t from, off_t bytes) {                                                                          \
    static int (*real)(int, off_t, off_t);                                                                             \
    int fault = fault_of("allocate", fd);                                                                              \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #NAME);                                                              \
    return fault > 0 ? fault : real(fd, from, bytes);                                                                  \
  }

ALLOCATE(posix_fallocate)
ALLOCATE(posix_fallocate64)

/* Removes files from the directory; returns their number. */
static long clear(DIR *directory) {
  long removed = 0;
  for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
    if (strncmp(entry->d_name, "mainstay-pool-", 14) == 0) removed += unlinkat(dirfd(directory), entry->d_name, 0) == 0;
  rewinddir(directory);
  return removed;
}

DIR *opendir(const char *path) {
  static DIR *(*real)(const char *);
  static atomic_long cleared;
  const char *directory = getenv("INJECT_CLEARED"), *clearings = getenv("INJECT_CLEARINGS");
  DIR *opened;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "opendir");
  opened = real(path);
  if (opened && directory && is_hit() && strcmp(path, directory) == 0 && (!clearings || cleared < atol(clearings)))
    cleared += clear(opened) > 0;
  return opened;
}
