/* Finds the file behind a name, and decides if the library protects it. Licence: MIT OR Apache-2.0.
 *
 * A file is the device and the inode of its folder, and its name in it: paths to a folder differ between processes.
 * The last part of a name is compared first, without a system call: nearly all names fail there. */
#include "preload.h"

enum { LINKS_MAX = 16 };

char *text_number(char *to, uint64_t value) {
  char digits[24];
  int count = 0;
  do digits[count++] = (char)('0' + value % 10);
  while (value /= 10);
  for (int i = 0; i < count; i++) to[i] = digits[count - 1 - i];
  to[count] = 0;
  return to;
}

char *text_id(char to[17], uint64_t id) {
  for (int i = 15; i >= 0; i--, id >>= 4) to[i] = "0123456789abcdef"[id & 15];
  to[16] = 0;
  return to;
}

bool text_read_id(const char *text, uint64_t *id) {
  uint64_t value = 0;
  int count = 0;
  for (; text[count]; count++) {
    char c = text[count];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0 || count == 16) return false;
    value = value << 4 | (uint64_t)digit;
  }
  *id = value;
  return count == 16;
}

/* Compares a character with a [set]. The result is the rest after the set, or NULL. *ENDS is false if the set never
 * ends.
 */
static const char *in_set(const char *set, unsigned char c, bool *ends) {
  const char *at = set + 1;
  bool negative = *at == '!' || *at == '^', found = false;
  if (negative) at++;
  *ends = true;
  for (bool first = true; first || *at != ']'; first = false) {
    if (*at == '\\' && at[1]) at++;
    if (!*at) return *ends = false, NULL;
    unsigned char low = (unsigned char)*at++, high = low;
    if (*at == '-' && at[1] && at[1] != ']') {
      at++;
      if (*at == '\\' && at[1]) at++;
      high = (unsigned char)*at++;
    }
    if (low <= c && c <= high) found = true;
  }
  return found != negative ? at + 1 : NULL;
}

/* Compares a character with the first element of PATTERN. The result is the rest of the pattern, or NULL. */
static const char *after_element(const char *pattern, unsigned char c) {
  if (*pattern == '?') return pattern + 1;
  if (*pattern == '[') {
    bool ends;
    const char *rest = in_set(pattern, c, &ends);
    if (ends) return rest;
  }
  if (*pattern == '\\' && pattern[1]) pattern++;
  return (unsigned char)*pattern == c ? pattern + 1 : NULL;
}

/* fnmatch of the C library depends on the locale and may allocate. Here '*' and '?' match a slash as well. */
bool fits(const char *pattern, const char *text) {
  const char *star = NULL, *star_text = NULL;
  for (;;) {
    if (*pattern == '*') {
      star = ++pattern;
      star_text = text;
      continue;
    }
    if (!*text) return !*pattern;
    const char *rest = *pattern ? after_element(pattern, (unsigned char)*text) : NULL;
    if (rest) {
      pattern = rest;
      text++;
    } else if (star) {
      pattern = star;
      text = ++star_text;
    } else {
      return false;
    }
  }
}

bool is_below(const char *path, const char *folder) {
  size_t length = strlen(folder);
  if (length == 1) return true;
  return length && !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

static bool has_tail(const char *name, size_t length, const struct pattern *pattern) {
  return length >= pattern->tail_length &&
         !memcmp(name + length - pattern->tail_length, pattern->tail, pattern->tail_length);
}

/* Names that are never protected: helper files of MPI libraries, hidden files. */
static bool is_reserved(const char *name) {
  static const char *const patterns[] = {".*",       "*.locktest.*",         "*_cid-*.sm", "sem.OMPIO_*",
                                         "*.shfp.*", "*-[0-9]*-[0-9]*.lock", "*\n*"};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    if (fits(patterns[i], name)) return true;
  return false;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool is_candidate(const char *path) {
  if (!path) return false;
  const char *name = last_part(path);
  size_t length = strlen(name);
  if (!length || length > NAME_MAX || *name == '.') return false;
  bool matches = false;
  for (int i = 0; i < settings.match.count && !matches; i++) {
    const struct pattern *pattern = &settings.match.at[i];
    matches = has_tail(name, length, pattern) && (pattern->slash || fits(pattern->text, name));
  }
  if (!matches || is_reserved(name)) return false;
  for (int i = 0; i < settings.exclude.count; i++)
    if (!settings.exclude.at[i].slash && fits(settings.exclude.at[i].text, name)) return false;
  return !is_below(path, "/proc") && !is_below(path, "/dev") && !is_below(path, "/sys");
}

static bool is_foreign(const char *folder) {
  const char *inside = strstr(folder, "/.mainstay");
  return is_below(folder, "/proc") || is_below(folder, "/dev") || is_below(folder, "/sys") ||
         is_below(folder, settings.stage_real) || (inside && (!inside[10] || inside[10] == '/'));
}

bool file_path(const struct file *file, char *to, size_t size) {
  size_t folder = strlen(file->folder), name = strlen(file->name);
  if (folder == 1) folder = 0;
  if (folder + 1 + name >= size) return *to = 0, false;
  memcpy(to, file->folder, folder);
  to[folder] = '/';
  memcpy(to + folder + 1, file->name, name + 1);
  return true;
}

/* Makes PATH absolute, without ".", ".." and double slashes. Follows no links. The result is empty if TO is too short.
 */
static void given_path(char *to, size_t size, int dirfd, const char *path) {
  char link[40] = "/proc/self/fd/";
  size_t length = 0;
  if (*path != '/' && dirfd == AT_FDCWD) {
    if (syscall(SYS_getcwd, to, size) > 0) length = strlen(to);
  } else if (*path != '/') {
    text_number(link + strlen(link), (uint64_t)dirfd);
    if (raw_readlink(AT_FDCWD, link, to, size) > 0) length = strlen(to);
  }
  while (length && to[length - 1] == '/') length--;
  while (*path) {
    const char *end = strchrnul(path, '/');
    size_t part = (size_t)(end - path);
    if (part == 2 && path[0] == '.' && path[1] == '.') {
      while (length && to[--length] != '/') {
      }
    } else if (part && !(part == 1 && *path == '.')) {
      if (length + part + 2 > size) return (void)(*to = 0);
      to[length++] = '/';
      memcpy(to + length, path, part);
      length += part;
    }
    path = *end ? end + 1 : end;
  }
  to[length] = 0;
}

static bool matches_path(const struct patterns *patterns, const char *path) {
  for (int i = 0; i < patterns->count; i++)
    if (patterns->at[i].slash && fits(patterns->at[i].text, path)) return true;
  return false;
}

static bool matches_name(const struct patterns *patterns, const char *name) {
  for (int i = 0; i < patterns->count; i++)
    if (!patterns->at[i].slash && fits(patterns->at[i].text, name)) return true;
  return false;
}

/* Compares the whole path, with links of folders followed, and as the program gives it. FILE has its folder and name.
 */
static bool is_wanted(const struct file *file, int dirfd, const char *given) {
  if (!is_candidate(file->name)) return false;
  char path[PATH_MAX + NAME_MAX + 2], other[PATH_MAX + NAME_MAX + 2];
  file_path(file, path, sizeof path);
  given_path(other, sizeof other, dirfd, given);
  bool temporary = *settings.temporary && is_below(file->folder, settings.temporary);
  if (!(!temporary && matches_name(&settings.match, file->name)) && !matches_path(&settings.match, path) &&
      !matches_path(&settings.match, other))
    return false;
  return !matches_path(&settings.exclude, path) && !matches_path(&settings.exclude, other);
}

/* Opens the folder of PATH, and fills in all but the published name's status. The result is the folder, or -1. */
static int enter(struct file *file, int dirfd, const char *path) {
  const char *name = last_part(path);
  size_t length = (size_t)(name - path), name_length = strlen(name);
  if (!name_length || name_length > NAME_MAX || length >= PATH_MAX) return -1;
  if (!strcmp(name, ".") || !strcmp(name, "..")) return -1;
  memcpy(file->folder, path, length);
  strcpy(file->folder + length, length ? "" : ".");
  memcpy(file->name, name, name_length + 1);
  int fd = raw_open(dirfd, file->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  char link[40] = "/proc/self/fd/";
  struct stat status;
  text_number(link + strlen(link), (uint64_t)fd);
  /* A folder with no links left is deleted. A path without a slash at its start is outside of the process's root. */
  if (syscall(SYS_fstat, fd, &status) || !status.st_nlink ||
      raw_readlink(AT_FDCWD, link, file->folder, sizeof file->folder) <= 0 || *file->folder != '/' ||
      is_foreign(file->folder)) {
    raw_close(fd);
    return -1;
  }
  text_number(file->device, status.st_dev);
  text_number(file->inode, status.st_ino);
  return fd;
}

static void look_at(struct file *file, int folder) {
  struct stat status;
  file->exists = !raw_stat(folder, file->name, &status, AT_SYMLINK_NOFOLLOW);
  file->mode = file->exists ? status.st_mode : 0;
}

SLOW bool find_file(struct file *file, int dirfd, const char *path, bool follow) {
  char target[PATH_MAX];
  int saved = errno, folder = path ? enter(file, dirfd, path) : -1;
  if (folder >= 0) {
    /* The program's own name counts, not the target of a symbolic link. */
    file->wanted = is_wanted(file, dirfd, path);
    look_at(file, folder);
  }
  for (int i = 0; folder >= 0 && follow && S_ISLNK(file->mode); i++) {
    int next_folder = -1;
    if (i < LINKS_MAX && raw_readlink(folder, file->name, target, sizeof target) > 0)
      next_folder = enter(file, folder, target);
    raw_close(folder);
    folder = next_folder;
    if (folder >= 0) look_at(file, folder);
  }
  if (folder >= 0) raw_close(folder);
  errno = saved;
  return folder >= 0;
}

bool find_wanted(struct file *file, int dirfd, const char *path, bool follow) {
  return find_file(file, dirfd, path, follow) && file->wanted && (!file->exists || S_ISREG(file->mode));
}
