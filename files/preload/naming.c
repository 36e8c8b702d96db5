/* rename, link, unlink, rmdir, and mkdir and the like. Licence: MIT OR Apache-2.0.
 *
 * The helper does them, in order with the publications. A name that does not match goes to the helper as
 * well if the other name of the call matches. So does the name of a folder that is renamed: files in it may be on their
 * way. Symbolic links and devices are the kernel's. */
#include "preload.h"

static bool is_regular_or_absent(const struct file *file) { return !file->exists || S_ISREG(file->mode); }

/* Turns the helper's answer into the result of the call. Sets *PASS if the call must go to the kernel. */
static int result_of(struct request *request, bool *pass) {
  struct answer answer;
  request_send(request, &answer);
  if (answer.verb == ERROR) return errno = answer.error, -1;
  *pass = answer.verb != OK;
  return 0;
}

/* Cuts off slashes at the end of PATH: a folder's path may have some. False if TO is too short. */
static bool trim(char to[PATH_MAX], const char *path) {
  size_t length = path ? strlen(path) : PATH_MAX;
  if (length >= PATH_MAX) return false;
  while (length > 1 && path[length - 1] == '/') length--;
  memcpy(to, path, length);
  to[length] = 0;
  return true;
}

static SLOW bool find_folders(struct file *from, int old_dirfd, const char *old, struct file *to, int new_dirfd,
                              const char *new) {
  char from_path[PATH_MAX], to_path[PATH_MAX];
  return trim(from_path, old) && trim(to_path, new) && find_file(from, old_dirfd, from_path, false) &&
         S_ISDIR(from->mode) && find_file(to, new_dirfd, to_path, false);
}

static SLOW int rename_matching(int old_dirfd, const char *old, int new_dirfd, const char *new, unsigned flags,
                                bool *pass) {
  struct file from, to;
  struct request request;
  char flags_text[24];
  bool is_folder = find_folders(&from, old_dirfd, old, &to, new_dirfd, new);
  *pass = !is_folder && (!find_file(&from, old_dirfd, old, false) || !find_file(&to, new_dirfd, new, false));
  if (!*pass && !is_folder)
    *pass = !(from.wanted || to.wanted) || !is_regular_or_absent(&from) || S_ISDIR(to.mode) ||
            ((flags & RENAME_EXCHANGE) && !is_regular_or_absent(&to));
  if (*pass) return 0;
  if (is_folder) base_change_all(false);
  base_change_named(&from);
  base_change_named(&to);
  request_begin(&request, is_folder ? "rename-folder" : "rename");
  request_add_file(&request, &from);
  request_add_file(&request, &to);
  request_add(&request, text_number(flags_text, flags));
  request_add(&request, settings.options);
  return result_of(&request, pass);
}

static bool is_folder_at(int dirfd, const char *path) {
  struct stat status;
  int saved = errno;
  bool is_folder = path && !raw_stat(dirfd, path, &status, AT_SYMLINK_NOFOLLOW) && S_ISDIR(status.st_mode);
  errno = saved;
  return is_folder;
}

static bool may_match_either(const char *old, const char *new) { return may_match(old) || may_match(new); }

bool may_rename(int dirfd, const char *old, const char *new) {
  return may_match_either(old, new) || (is_on() && is_folder_at(dirfd, old));
}

EXPORT int rename(const char *old, const char *new) {
  bool pass = true;
  int result = may_rename(AT_FDCWD, old, new) ? rename_matching(AT_FDCWD, old, AT_FDCWD, new, 0, &pass) : 0;
  return pass ? NEXT(rename)(old, new) : result;
}

EXPORT int renameat(int old_dirfd, const char *old, int new_dirfd, const char *new) {
  bool pass = true;
  int result = may_rename(old_dirfd, old, new) ? rename_matching(old_dirfd, old, new_dirfd, new, 0, &pass) : 0;
  return pass ? NEXT(renameat)(old_dirfd, old, new_dirfd, new) : result;
}

EXPORT int renameat2(int old_dirfd, const char *old, int new_dirfd, const char *new, unsigned flags) {
  bool pass = true;
  int result = may_rename(old_dirfd, old, new) ? rename_matching(old_dirfd, old, new_dirfd, new, flags, &pass) : 0;
  return pass ? NEXT(renameat2)(old_dirfd, old, new_dirfd, new, flags) : result;
}

static SLOW int link_matching(int old_dirfd, const char *old, int new_dirfd, const char *new, bool follow, bool *pass) {
  struct file from, to;
  struct request request;
  *pass = !find_file(&from, old_dirfd, old, follow) || !find_file(&to, new_dirfd, new, false) ||
          !(from.wanted || to.wanted) || !is_regular_or_absent(&from);
  if (*pass) return 0;
  request_begin(&request, "link");
  request_add_file(&request, &from);
  request_add_file(&request, &to);
  return result_of(&request, pass);
}

EXPORT int link(const char *old, const char *new) {
  bool pass = true;
  int result = may_match_either(old, new) ? link_matching(AT_FDCWD, old, AT_FDCWD, new, false, &pass) : 0;
  return pass ? NEXT(link)(old, new) : result;
}

EXPORT int linkat(int old_dirfd, const char *old, int new_dirfd, const char *new, int flags) {
  bool pass = true, follow = flags & AT_SYMLINK_FOLLOW;
  int result = may_match_either(old, new) ? link_matching(old_dirfd, old, new_dirfd, new, follow, &pass) : 0;
  return pass ? NEXT(linkat)(old_dirfd, old, new_dirfd, new, flags) : result;
}

static SLOW int unlink_matching(int dirfd, const char *path, bool *pass) {
  struct file file;
  struct request request;
  *pass = !find_wanted(&file, dirfd, path, false);
  if (*pass) return 0;
  base_change_named(&file);
  request_begin(&request, "unlink");
  request_add_file(&request, &file);
  return result_of(&request, pass);
}

EXPORT int unlink(const char *path) {
  bool pass = true;
  int result = may_match(path) ? unlink_matching(AT_FDCWD, path, &pass) : 0;
  return pass ? NEXT(unlink)(path) : result;
}

EXPORT int unlinkat(int dirfd, const char *path, int flags) {
  bool pass = true;
  if (flags & AT_REMOVEDIR) return folder_removed(dirfd, path, NEXT(unlinkat)(dirfd, path, flags));
  int result = may_match(path) ? unlink_matching(dirfd, path, &pass) : 0;
  return pass ? NEXT(unlinkat)(dirfd, path, flags) : result;
}

EXPORT int remove(const char *path) {
  bool pass = true;
  int result = may_match(path) ? unlink_matching(AT_FDCWD, path, &pass) : 0;
  return pass ? folder_removed(AT_FDCWD, path, NEXT(remove)(path)) : result;
}

EXPORT int rmdir(const char *path) { return folder_removed(AT_FDCWD, path, NEXT(rmdir)(path)); }

/* A closed file without its name yet takes the name, too. */
static bool is_taken(int dirfd, const char *path) {
  struct stat status;
  int saved = errno;
  bool taken = may_match(path) && !fstatat(dirfd, path, &status, AT_SYMLINK_NOFOLLOW);
  errno = taken ? EEXIST : saved;
  return taken;
}

EXPORT int mkdir(const char *path, mode_t mode) { return is_taken(AT_FDCWD, path) ? -1 : NEXT(mkdir)(path, mode); }

EXPORT int mkdirat(int dirfd, const char *path, mode_t mode) {
  return is_taken(dirfd, path) ? -1 : NEXT(mkdirat)(dirfd, path, mode);
}

EXPORT int symlink(const char *to, const char *path) { return is_taken(AT_FDCWD, path) ? -1 : NEXT(symlink)(to, path); }

EXPORT int symlinkat(const char *to, int dirfd, const char *path) {
  return is_taken(dirfd, path) ? -1 : NEXT(symlinkat)(to, dirfd, path);
}

EXPORT int mkfifo(const char *path, mode_t mode) { return is_taken(AT_FDCWD, path) ? -1 : NEXT(mkfifo)(path, mode); }

EXPORT int mkfifoat(int dirfd, const char *path, mode_t mode) {
  return is_taken(dirfd, path) ? -1 : NEXT(mkfifoat)(dirfd, path, mode);
}
