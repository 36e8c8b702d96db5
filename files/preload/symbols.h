/* All functions that the library replaces, and declarations that headers lack. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_FILES_SYMBOLS_H
#define MAINSTAY_FILES_SYMBOLS_H

/* Programs call these through inline functions of the headers. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
char *__realpath_chk(const char *path, char *to, size_t size);
/* Programs built for glibc below 2.33 call these. */
int __xstat(int version, const char *path, struct stat *status);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat(int version, const char *path, struct stat *status);
int __lxstat64(int version, const char *path, struct stat64 *status);
int __fxstat(int version, int fd, struct stat *status);
int __fxstat64(int version, int fd, struct stat64 *status);
int __fxstatat(int version, int dirfd, const char *path, struct stat *status, int flags);
int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *status, int flags);
/* glibc has these from 2.34 on. */
int close_range(unsigned int first, unsigned int last, int flags);
void closefrom(int first);
int execveat(int dirfd, const char *path, char *const words[], char *const variables[], int flags);

/* clang-format off */
#define SYMBOLS(X)                                                                                                     \
  X(open) X(open64) X(openat) X(openat64) X(creat) X(creat64) X(__open_2) X(__open64_2) X(__openat_2) X(__openat64_2)  \
  X(fopen) X(fopen64) X(freopen) X(freopen64) X(fdopen) X(fclose)                                                      \
  X(close) X(close_range) X(closefrom) X(dup) X(dup2) X(dup3) X(fcntl) X(fcntl64) X(fsync) X(fdatasync) X(flock)       \
  X(write) X(pwrite) X(pwrite64) X(writev) X(pwritev) X(pwritev64) X(pwritev2) X(pwritev64v2)                          \
  X(ftruncate) X(ftruncate64) X(fallocate) X(fallocate64) X(posix_fallocate) X(posix_fallocate64)                      \
  X(mmap) X(mmap64) X(munmap) X(kill) X(sendfile) X(sendfile64) X(copy_file_range) X(splice) X(aio_write)              \
  X(aio_write64)                                                                                                       \
  X(stat) X(stat64) X(lstat) X(lstat64) X(fstatat) X(fstatat64) X(statx)                                               \
  X(fstat) X(fstat64) X(__fxstat) X(__fxstat64)                                                                         \
  X(__xstat) X(__xstat64) X(__lxstat) X(__lxstat64) X(__fxstatat) X(__fxstatat64)                                      \
  X(access) X(eaccess) X(euidaccess) X(faccessat) X(realpath) X(__realpath_chk) X(canonicalize_file_name)              \
  X(chmod) X(fchmodat) X(chown) X(lchown) X(fchownat) X(utime) X(utimes) X(lutimes) X(utimensat) X(futimesat)          \
  X(statfs) X(statfs64) X(statvfs) X(statvfs64) X(truncate) X(truncate64) X(getxattr) X(lgetxattr) X(listxattr) X(llistxattr) X(setxattr) X(lsetxattr)               \
  X(removexattr) X(lremovexattr)                                                                                       \
  X(rename) X(renameat) X(renameat2) X(link) X(linkat) X(unlink) X(unlinkat) X(remove)                                 \
  X(mkdir) X(mkdirat) X(symlink) X(symlinkat) X(mkfifo) X(mkfifoat)                                                     \
  X(rmdir) X(opendir) X(fdopendir) X(readdir) X(readdir64) X(scandir) X(scandir64) X(scandirat) X(scandirat64) X(glob) X(glob64)         \
  X(_exit) X(_Exit) X(quick_exit) X(daemon) X(execve) X(execvpe) X(fexecve) X(execveat)                                                         \
  X(posix_spawn_file_actions_addopen) X(posix_spawn) X(posix_spawnp) X(system) X(popen)
/* clang-format on */

#endif
