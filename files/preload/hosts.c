/* Hosts of ranks in slots: processes that make the system calls of whole programs. Licence: MIT OR Apache-2.0.
 *
 * A host uses the functions here for calls of its ranks that name files. This library ignores the host's own calls, and
 * does not see the writes of ranks. So a file that a rank opens to write must be writable at once. */
#include "preload.h"

_Thread_local bool serves_rank;

/* Makes this process a host. True if it has files to protect. */
EXPORT bool mainstay_files_host(void) { return settings_of_host(); }

/* openat of a rank. NAME has room for PATH_MAX bytes. It gets the absolute name if the file is one of ours, else an
 * empty text. */
EXPORT int mainstay_files_open(int dirfd, const char *path, int flags, mode_t mode, char *name) {
  *name = 0;
  serves_rank = true;
  int fd = may_match(path) ? open_named(dirfd, path, flags, mode, name) : PASS;
  serves_rank = false;
  return fd == PASS ? (int)syscall(SYS_openat, dirfd, path, flags, mode) : fd;
}

/* The functions of this library: they redirect the call. */
static int redirected(long number, const long *words) {
  int dirfd = (int)words[0];
  const char *first = (const char *)words[0], *path = (const char *)words[1], *new = (const char *)words[3];
  switch (number) {
  case SYS_newfstatat:
    return fstatat(dirfd, path, (struct stat *)words[2], (int)words[3]);
  case SYS_statx:
    return statx(dirfd, path, (int)words[2], (unsigned)words[3], (struct statx *)words[4]);
  case SYS_faccessat:
    return faccessat(dirfd, path, (int)words[2], 0);
  case SYS_faccessat2:
    return faccessat(dirfd, path, (int)words[2], (int)words[3]);
  case SYS_fchmodat:
    return fchmodat(dirfd, path, (mode_t)words[2], 0);
  case SYS_fchownat:
    return fchownat(dirfd, path, (uid_t)words[2], (gid_t)words[3], (int)words[4]);
  case SYS_utimensat:
    return utimensat(dirfd, path, (const struct timespec *)words[2], (int)words[3]);
  case SYS_futimesat:
    return futimesat(dirfd, path, (const struct timeval *)words[2]);
  case SYS_unlinkat:
    return unlinkat(dirfd, path, (int)words[2]);
  case SYS_renameat:
    return renameat(dirfd, path, (int)words[2], new);
  case SYS_renameat2:
    return renameat2(dirfd, path, (int)words[2], new, (unsigned)words[4]);
  case SYS_linkat:
    return linkat(dirfd, path, (int)words[2], new, (int)words[4]);
  case SYS_truncate:
    return truncate(first, words[1]);
  case SYS_utime:
    return utime(first, (const struct utimbuf *)words[1]);
  case SYS_utimes:
    return utimes(first, (const struct timeval *)words[1]);
  default:
    return errno = ENOSYS, -1;
  }
}

static bool names_ours(long number, const long *words) {
  switch (number) {
  case SYS_truncate:
  case SYS_utime:
  case SYS_utimes:
    return may_match((const char *)words[0]);
  case SYS_renameat:
  case SYS_renameat2:
    return may_rename((int)words[0], (const char *)words[1], (const char *)words[3]);
  case SYS_linkat:
    return may_match((const char *)words[1]) || may_match((const char *)words[3]);
  default:
    return may_match((const char *)words[1]);
  }
}

/* A call of a rank that names files, with its arguments. All names are text. The result is that of syscall. */
EXPORT long mainstay_files_call(long number, const long *words) {
  serves_rank = true;
  bool is_ours = names_ours(number, words);
  long result = is_ours ? redirected(number, words) : 0;
  serves_rank = false;
  return is_ours ? result : syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* Makes the next close of FD give up the file, neither whole nor torn: its rank moves to another process. */
EXPORT void mainstay_files_give_up(int fd) { table_set_given_up(fd); }
