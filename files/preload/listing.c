/* Folders as programs expect them: a listing shows each closed file, and nothing of Mainstay's. Licence: MIT OR
 * Apache-2.0. */
#include "preload.h"

static const char own[] = ".mainstay";

/* Sends VERB for Mainstay's own folder in the folder PATH. Returns the answer, or PLAIN if there is none. Sets errno
 * only if the answer is ERROR. */
static SLOW enum verb ask(const char *verb, int dirfd, const char *path) {
  char name[PATH_MAX];
  struct file file;
  struct request request;
  struct answer answer;
  size_t length = strlen(path);
  if (length + 1 + sizeof own > sizeof name) return PLAIN;
  memcpy(name, path, length);
  name[length] = '/';
  memcpy(name + length + 1, own, sizeof own);
  if (!find_file(&file, dirfd, name, false) || !S_ISDIR(file.mode)) return PLAIN;
  request_begin(&request, verb);
  request_add_file(&request, &file);
  request_send(&request, &answer);
  if (answer.verb == ERROR) errno = answer.error;
  return answer.verb;
}

/* Waits until all closed files of the folder have their names. */
static void settle(int dirfd, const char *path) {
  if (path && *path && is_on()) ask("list", dirfd, path);
}

EXPORT DIR *opendir(const char *path) {
  settle(AT_FDCWD, path);
  return NEXT(opendir)(path);
}

EXPORT DIR *fdopendir(int fd) {
  settle(fd, ".");
  return NEXT(fdopendir)(fd);
}

static bool is_hidden(const char *name) { return *name == '.' && !strcmp(name, own) && is_on(); }

EXPORT struct dirent *readdir(DIR *folder) {
  struct dirent *entry;
  do entry = NEXT(readdir)(folder);
  while (entry && is_hidden(entry->d_name));
  return entry;
}

EXPORT struct dirent64 *readdir64(DIR *folder) {
  struct dirent64 *entry;
  do entry = NEXT(readdir64)(folder);
  while (entry && is_hidden(entry->d_name));
  return entry;
}

/* Removes Mainstay's own folder from the COUNT entries of scandir. Returns the new count. */
#define WITHOUT_OWN(entries, count)                                                                                    \
  ({                                                                                                                   \
    int count_ = (count), left_ = 0;                                                                                   \
    for (int i_ = 0; i_ < count_; i_++)                                                                                \
      if (is_hidden((*(entries))[i_]->d_name))                                                                         \
        free((*(entries))[i_]);                                                                                        \
      else                                                                                                             \
        (*(entries))[left_++] = (*(entries))[i_];                                                                      \
    count_ < 0 ? count_ : left_;                                                                                       \
  })

EXPORT int scandir(const char *path, struct dirent ***entries, int (*select)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **)) {
  settle(AT_FDCWD, path);
  return WITHOUT_OWN(entries, NEXT(scandir)(path, entries, select, compare));
}

EXPORT int scandir64(const char *path, struct dirent64 ***entries, int (*select)(const struct dirent64 *),
                     int (*compare)(const struct dirent64 **, const struct dirent64 **)) {
  settle(AT_FDCWD, path);
  return WITHOUT_OWN(entries, NEXT(scandir64)(path, entries, select, compare));
}

EXPORT int scandirat(int dirfd, const char *path, struct dirent ***entries, int (*select)(const struct dirent *),
                     int (*compare)(const struct dirent **, const struct dirent **)) {
  settle(dirfd, path);
  return WITHOUT_OWN(entries, NEXT(scandirat)(dirfd, path, entries, select, compare));
}

EXPORT int scandirat64(int dirfd, const char *path, struct dirent64 ***entries, int (*select)(const struct dirent64 *),
                       int (*compare)(const struct dirent64 **, const struct dirent64 **)) {
  settle(dirfd, path);
  return WITHOUT_OWN(entries, NEXT(scandirat64)(dirfd, path, entries, select, compare));
}

static void *open_folder(const char *path) { return opendir(path); }

static void close_folder(void *folder) { closedir(folder); }

static struct dirent *read_entry(void *folder) { return readdir(folder); }

static struct dirent64 *read_entry64(void *folder) { return readdir64(folder); }

/* The C library takes functions for folders from the program. Without these it would call none of ours. */
#define WITH_OURS(name, read, look, look_link)                                                                         \
  ({                                                                                                                   \
    bool ours_ = found && is_on() && !(flags & GLOB_ALTDIRFUNC);                                                       \
    if (ours_) {                                                                                                       \
      found->gl_opendir = open_folder;                                                                                 \
      found->gl_closedir = close_folder;                                                                               \
      found->gl_readdir = read;                                                                                        \
      found->gl_stat = look;                                                                                           \
      found->gl_lstat = look_link;                                                                                     \
    }                                                                                                                  \
    int result_ = NEXT(name)(pattern, flags | (ours_ ? GLOB_ALTDIRFUNC : 0), failed, found);                           \
    if (ours_) found->gl_flags &= ~GLOB_ALTDIRFUNC;                                                                    \
    result_;                                                                                                           \
  })

EXPORT int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found) {
  return WITH_OURS(glob, read_entry, stat, lstat);
}

EXPORT int glob64(const char *pattern, int flags, int (*failed)(const char *, int), glob64_t *found) {
  return WITH_OURS(glob64, read_entry64, stat64, lstat64);
}

/* A closed file without its name yet counts as a file: to open it as a folder fails with ENOTDIR. */
static void find_file_at(int dirfd, const char *path) {
  struct stat status;
  errno = !fstatat(dirfd, path, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode) ? ENOTDIR : ENOENT;
}

int folder_removed(int dirfd, const char *path, int result) {
  if (result == -1 && errno == ENOENT && may_match(path)) find_file_at(dirfd, path);
  if (result != -1 || (errno != ENOTEMPTY && errno != EEXIST) || !is_on()) return result;
  return ask("remove-folder", dirfd, path) == OK ? 0 : -1;
}
