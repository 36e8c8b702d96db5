/* Calls about a file by name: stat, access, chmod, utimes, attributes, truncate. Licence: MIT OR Apache-2.0.
 *
 * The helper says where the file is now, and the real call goes there. So stat of the name and fstat of a descriptor
 * agree, as cp and HDF5 check. The helper may move the file after its answer: then the call asks again. */
#include "preload.h"

enum { TRIES_MAX = 4 };

struct place {
  const char *asked;
  char *where; /* room for PATH_MAX bytes */
  int tries;
  bool staged;
};

/* The path for the real call, or NULL with errno. */
static SLOW const char *find_place(struct place *place, const char *verb, int dirfd, bool follow) {
  struct request request;
  struct file file;
  struct answer answer;
  place->staged = false;
  if (!find_wanted(&file, dirfd, place->asked, follow)) return place->asked;
  request_begin(&request, verb);
  request_add_file(&request, &file);
  request_send(&request, &answer);
  if (answer.verb == ERROR) return errno = answer.error, NULL;
  if (answer.verb != AT || strlen(answer.path) >= PATH_MAX) return place->asked;
  place->staged = true;
  identity_learn(&answer);
  return strcpy(place->where, answer.path);
}

static bool is_moved(struct place *place, int result) {
  return result == -1 && place->staged && errno == ENOENT && ++place->tries < TRIES_MAX;
}

/* CALL uses the variable PATH. Only names that may match take room for a path: see preload.h. */
#define PLACED(verb, dirfd, path, follow, call)                                                                        \
  ({                                                                                                                   \
    int result_ = -1;                                                                                                  \
    if (may_match(path)) {                                                                                             \
      struct place place_ = {path, alloca(PATH_MAX), 0, false};                                                        \
      do {                                                                                                             \
        path = find_place(&place_, verb, dirfd, follow);                                                               \
        result_ = path ? (call) : -1;                                                                                  \
      } while (is_moved(&place_, result_));                                                                            \
    } else {                                                                                                           \
      result_ = (call);                                                                                                \
    }                                                                                                                  \
    result_;                                                                                                           \
  })
#define LOOK(dirfd, path, follow, call) PLACED("look", dirfd, path, follow, call)
/* A stat, in STATUS. */
#define STAT(dirfd, path, follow, call)                                                                                \
  ({                                                                                                                   \
    int looked_ = LOOK(dirfd, path, follow, call);                                                                     \
    if (!looked_) identity_show(&status->st_dev, &status->st_ino);                                                     \
    looked_;                                                                                                           \
  })
#define SETTLE(dirfd, path, follow, call) PLACED("settle", dirfd, path, follow, call)
#define FOLLOWS(flags) (!((flags) & AT_SYMLINK_NOFOLLOW))

EXPORT int stat(const char *path, struct stat *status) { return STAT(AT_FDCWD, path, true, NEXT(stat)(path, status)); }

EXPORT int stat64(const char *path, struct stat64 *status) {
  return STAT(AT_FDCWD, path, true, NEXT(stat64)(path, status));
}

EXPORT int lstat(const char *path, struct stat *status) {
  return STAT(AT_FDCWD, path, false, NEXT(lstat)(path, status));
}

EXPORT int lstat64(const char *path, struct stat64 *status) {
  return STAT(AT_FDCWD, path, false, NEXT(lstat64)(path, status));
}

EXPORT int fstatat(int dirfd, const char *path, struct stat *status, int flags) {
  return STAT(dirfd, path, FOLLOWS(flags), NEXT(fstatat)(dirfd, path, status, flags));
}

EXPORT int fstatat64(int dirfd, const char *path, struct stat64 *status, int flags) {
  return STAT(dirfd, path, FOLLOWS(flags), NEXT(fstatat64)(dirfd, path, status, flags));
}

EXPORT int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *status) {
  int result = LOOK(dirfd, path, FOLLOWS(flags), NEXT(statx)(dirfd, path, flags, mask, status));
  if (result) return result;
  dev_t device = makedev(status->stx_dev_major, status->stx_dev_minor);
  ino_t inode = status->stx_ino;
  identity_show(&device, &inode);
  status->stx_dev_major = major(device);
  status->stx_dev_minor = minor(device);
  status->stx_ino = inode;
  return 0;
}

EXPORT int __xstat(int version, const char *path, struct stat *status) {
  return STAT(AT_FDCWD, path, true, NEXT(__xstat)(version, path, status));
}

EXPORT int __xstat64(int version, const char *path, struct stat64 *status) {
  return STAT(AT_FDCWD, path, true, NEXT(__xstat64)(version, path, status));
}

EXPORT int __lxstat(int version, const char *path, struct stat *status) {
  return STAT(AT_FDCWD, path, false, NEXT(__lxstat)(version, path, status));
}

EXPORT int __lxstat64(int version, const char *path, struct stat64 *status) {
  return STAT(AT_FDCWD, path, false, NEXT(__lxstat64)(version, path, status));
}

EXPORT int __fxstatat(int version, int dirfd, const char *path, struct stat *status, int flags) {
  return STAT(dirfd, path, FOLLOWS(flags), NEXT(__fxstatat)(version, dirfd, path, status, flags));
}

EXPORT int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *status, int flags) {
  return STAT(dirfd, path, FOLLOWS(flags), NEXT(__fxstatat64)(version, dirfd, path, status, flags));
}

EXPORT int access(const char *path, int mode) { return LOOK(AT_FDCWD, path, true, NEXT(access)(path, mode)); }

EXPORT int eaccess(const char *path, int mode) { return LOOK(AT_FDCWD, path, true, NEXT(eaccess)(path, mode)); }

EXPORT int euidaccess(const char *path, int mode) { return LOOK(AT_FDCWD, path, true, NEXT(euidaccess)(path, mode)); }

EXPORT int faccessat(int dirfd, const char *path, int mode, int flags) {
  return LOOK(dirfd, path, FOLLOWS(flags), NEXT(faccessat)(dirfd, path, mode, flags));
}

/* The canonical name of a staged file without a published one: that of its folder, and its own name. */
static SLOW char *real_name(const char *path, char *to, size_t size) {
  struct request request;
  struct file file;
  struct answer answer;
  if (!find_wanted(&file, AT_FDCWD, path, true)) return errno = ENOENT, NULL;
  request_begin(&request, "look");
  request_add_file(&request, &file);
  request_send(&request, &answer);
  size_t folder = strlen(file.folder), name = strlen(file.name);
  if (folder == 1) folder = 0;
  if (answer.verb != AT) return errno = ENOENT, NULL;
  if (folder + 1 + name >= size) return errno = ENAMETOOLONG, NULL;
  if (!to && !(to = malloc(folder + name + 2))) return NULL;
  memcpy(to, file.folder, folder);
  to[folder] = '/';
  memcpy(to + folder + 1, file.name, name + 1);
  return to;
}

EXPORT char *realpath(const char *path, char *to) {
  char *result = NEXT(realpath)(path, to);
  return result || errno != ENOENT || !may_match(path) ? result : real_name(path, to, PATH_MAX);
}

EXPORT char *__realpath_chk(const char *path, char *to, size_t size) {
  char *result = NEXT(__realpath_chk)(path, to, size);
  return result || errno != ENOENT || !may_match(path) ? result : real_name(path, to, PATH_MAX);
}

EXPORT char *canonicalize_file_name(const char *path) {
  char *result = NEXT(canonicalize_file_name)(path);
  return result || errno != ENOENT || !may_match(path) ? result : real_name(path, NULL, PATH_MAX);
}

EXPORT int chmod(const char *path, mode_t mode) { return SETTLE(AT_FDCWD, path, true, NEXT(chmod)(path, mode)); }

EXPORT int fchmodat(int dirfd, const char *path, mode_t mode, int flags) {
  return SETTLE(dirfd, path, FOLLOWS(flags), NEXT(fchmodat)(dirfd, path, mode, flags));
}

EXPORT int chown(const char *path, uid_t user, gid_t group) {
  return SETTLE(AT_FDCWD, path, true, NEXT(chown)(path, user, group));
}

EXPORT int lchown(const char *path, uid_t user, gid_t group) {
  return SETTLE(AT_FDCWD, path, false, NEXT(lchown)(path, user, group));
}

EXPORT int fchownat(int dirfd, const char *path, uid_t user, gid_t group, int flags) {
  return SETTLE(dirfd, path, FOLLOWS(flags), NEXT(fchownat)(dirfd, path, user, group, flags));
}

EXPORT int utime(const char *path, const struct utimbuf *times) {
  return SETTLE(AT_FDCWD, path, true, NEXT(utime)(path, times));
}

EXPORT int utimes(const char *path, const struct timeval times[2]) {
  return SETTLE(AT_FDCWD, path, true, NEXT(utimes)(path, times));
}

EXPORT int lutimes(const char *path, const struct timeval times[2]) {
  return SETTLE(AT_FDCWD, path, false, NEXT(lutimes)(path, times));
}

EXPORT int futimesat(int dirfd, const char *path, const struct timeval times[2]) {
  return SETTLE(dirfd, path, true, NEXT(futimesat)(dirfd, path, times));
}

EXPORT int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags) {
  return SETTLE(dirfd, path, FOLLOWS(flags), NEXT(utimensat)(dirfd, path, times, flags));
}

/* The folder of a file that has no name yet, or NULL. */
static SLOW const char *folder_of_new(const char *path, char to[PATH_MAX]) {
  struct file file;
  struct stat status;
  bool is_new = find_wanted(&file, AT_FDCWD, path, true) && !stat(path, &status);
  errno = ENOENT;
  return is_new ? strcpy(to, file.folder) : NULL;
}

/* The file system of a name: a file without one has that of its folder. */
#define FILE_SYSTEM(path, call)                                                                                        \
  ({                                                                                                                   \
    int saved_ = errno, result_ = (call);                                                                              \
    if (result_ && errno == ENOENT && may_match(path) && (path = folder_of_new(path, alloca(PATH_MAX)))) {             \
      errno = saved_;                                                                                                  \
      result_ = (call);                                                                                                \
    }                                                                                                                  \
    result_;                                                                                                           \
  })

EXPORT int statfs(const char *path, struct statfs *status) { return FILE_SYSTEM(path, NEXT(statfs)(path, status)); }

EXPORT int statfs64(const char *path, struct statfs64 *status) {
  return FILE_SYSTEM(path, NEXT(statfs64)(path, status));
}

EXPORT int statvfs(const char *path, struct statvfs *status) { return FILE_SYSTEM(path, NEXT(statvfs)(path, status)); }

EXPORT int statvfs64(const char *path, struct statvfs64 *status) {
  return FILE_SYSTEM(path, NEXT(statvfs64)(path, status));
}

/* Extended attributes are read where the bytes are, and set where they stay. */
EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size) {
  return LOOK(AT_FDCWD, path, true, (int)NEXT(getxattr)(path, name, value, size));
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size) {
  return LOOK(AT_FDCWD, path, false, (int)NEXT(lgetxattr)(path, name, value, size));
}

EXPORT ssize_t listxattr(const char *path, char *names, size_t size) {
  return LOOK(AT_FDCWD, path, true, (int)NEXT(listxattr)(path, names, size));
}

EXPORT ssize_t llistxattr(const char *path, char *names, size_t size) {
  return LOOK(AT_FDCWD, path, false, (int)NEXT(llistxattr)(path, names, size));
}

EXPORT int setxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
  return SETTLE(AT_FDCWD, path, true, NEXT(setxattr)(path, name, value, size, flags));
}

EXPORT int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
  return SETTLE(AT_FDCWD, path, false, NEXT(lsetxattr)(path, name, value, size, flags));
}

EXPORT int removexattr(const char *path, const char *name) {
  return SETTLE(AT_FDCWD, path, true, NEXT(removexattr)(path, name));
}

EXPORT int lremovexattr(const char *path, const char *name) {
  return SETTLE(AT_FDCWD, path, false, NEXT(lremovexattr)(path, name));
}

/* truncate makes a new generation, as any change does. */
static SLOW int truncate_matching(const char *path, off_t size) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = ftruncate(fd, size), error = errno;
  if (close(fd)) return -1;
  errno = error;
  return result;
}

EXPORT int truncate(const char *path, off_t size) {
  return may_match(path) ? truncate_matching(path, size) : NEXT(truncate)(path, size);
}

EXPORT int truncate64(const char *path, off64_t size) {
  return may_match(path) ? truncate_matching(path, size) : NEXT(truncate64)(path, size);
}
