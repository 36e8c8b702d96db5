/* open and its relatives: chooses the file of a new descriptor. Licence: MIT OR Apache-2.0.
 *
 * The program gets a true descriptor of a true file. A descriptor of a staged file is in the table before the program
 * has it. If the helper cannot be reached, the program goes on with the file itself. */
#include "preload.h"

enum { TRIES_MAX = 4 };

static enum course ask_to_write(struct choice *choice, int flags, bool now) {
  char how[6], *at = how;
  bool shared = is_shared_open(&choice->file);
  struct request request;
  if (shared && shared_course() != COURSE_STAGE) return shared_course();
  if (flags & O_TRUNC) *at++ = 't';
  if (flags & O_CREAT) *at++ = 'c';
  if ((flags & O_CREAT) && (flags & O_EXCL)) *at++ = 'x';
  if (now) *at++ = 'n';
  if (shared) *at++ = 's';
  *at = 0;
  request_begin(&request, "write");
  request_add_file(&request, &choice->file);
  request_add(&request, how);
  request_add(&request, settings.options);
  request_send(&request, &choice->answer);
  if (shared && choice->answer.verb == STAGE) shared_opened(choice->answer.id);
  return choice->answer.verb == STAGE ? COURSE_STAGE : choice->answer.verb == BASE_COPY ? COURSE_BASE : COURSE_PASS;
}

static enum course ask_to_read(struct choice *choice, const char *verb) {
  struct request request;
  request_begin(&request, verb);
  request_add_file(&request, &choice->file);
  if (!strcmp(verb, "read")) request_add(&request, settings.options);
  if (!strcmp(verb, "settle")) request_add(&request, "a");
  request_send(&request, &choice->answer);
  return choice->answer.verb == AT || choice->answer.verb == INSTEAD ? COURSE_READ : COURSE_PASS;
}

SLOW enum course choose(struct choice *choice, int dirfd, const char *path, int flags, bool now) {
  bool follow = !(flags & O_NOFOLLOW) && !((flags & O_CREAT) && (flags & O_EXCL));
  enum course course;
  choice->answer.verb = PLAIN;
  if (flags & O_DIRECTORY) return COURSE_PASS; /* O_TMPFILE has this flag, too */
  if (!find_wanted(&choice->file, dirfd, path, follow)) return COURSE_PASS;
  if (is_beside_shared_open(&choice->file)) return COURSE_PASS;
  if (flags & O_PATH) {
    course = ask_to_read(choice, "look");
  } else if (flags & O_TRUNC) {
    /* A new file, though the program may only read it, or append to it. */
    course = ask_to_write(choice, flags, now);
  } else if ((flags & O_ACCMODE) == O_RDONLY) {
    course = ask_to_read(choice, "read");
  } else if (flags & O_APPEND) {
    /* A log is no restart file. But it must not grow beside a publication, or beside a descriptor of the staged file.
     */
    course = ask_to_read(choice, "settle");
    if (course == COURSE_READ) course = ask_to_write(choice, flags, true);
  } else {
    course = ask_to_write(choice, flags, now || is_shared_open(&choice->file) || serves_rank || !is_owner());
  }
  if (choice->answer.verb != ERROR) return course;
  errno = choice->answer.error;
  return COURSE_FAIL;
}

/* Sets the mode that the program asked for: the helper makes files with mode 600. */
static void set_mode(int fd, mode_t mode) {
  char status[4096];
  int saved = errno, from = raw_open(AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
  long length = from < 0 ? -1 : syscall(SYS_read, from, status, sizeof status - 1);
  if (from >= 0) raw_close(from);
  if (length > 0) {
    status[length] = 0;
    const char *at = strstr(status, "\nUmask:");
    if (at) syscall(SYS_fchmod, fd, mode & ~strtoul(at + 7, NULL, 8) & 07777);
  }
  errno = saved;
}

void choice_abandon(const struct choice *choice) {
  int saved = errno;
  tell_closed(choice->answer.id, false);
  errno = saved;
}

SLOW bool choice_enter(const struct choice *choice, int fd, int flags, mode_t mode) {
  if (fd >= DESCRIPTORS) {
    errno = EMFILE;
    return false;
  }
  if (choice->answer.fresh && (flags & O_CREAT) && !choice->file.exists) set_mode(fd, mode);
  if (is_owner()) table_set(fd, KIND_STAGED, choice->answer.id);
  return true;
}

/* NAME, if it is not NULL, gets the absolute name. */
SLOW int open_named(int dirfd, const char *path, int flags, mode_t mode, char *name) {
  const int dropped = O_CREAT | O_EXCL | O_DIRECT | O_NOFOLLOW;
  int fd = -1, saved = errno;
  bool now = false;
  struct choice choice;
  for (int tries = 0; tries < TRIES_MAX; tries++) {
    enum course course = choose(&choice, dirfd, path, flags, now);
    if (course == COURSE_PASS) return errno = saved, PASS;
    if (course == COURSE_FAIL) return -1;
    if (course == COURSE_STAGE) {
      /* A new file is empty, but has its memory: a truncation would free that. */
      fd = NEXT(open)(choice.answer.path, flags & ~(dropped | (choice.answer.fresh ? O_TRUNC : 0)));
      if (fd >= 0 && choice_enter(&choice, fd, flags, mode)) break;
      int error = errno;
      if (fd >= 0) raw_close(fd);
      choice_abandon(&choice);
      return errno = error, -1;
    }
    if (course == COURSE_READ) {
      identity_learn(&choice.answer);
      fd = NEXT(open)(choice.answer.path, flags & ~(dropped | O_TRUNC));
      /* The helper may have moved the file since its answer. */
      if (fd >= 0 || errno != ENOENT) break;
    }
    if (course == COURSE_BASE) {
      identity_learn(&choice.answer);
      fd = NEXT(open)(choice.answer.path, (flags & ~(dropped | O_TRUNC | O_ACCMODE)) | O_RDONLY);
      if (fd >= 0 && base_add(fd, flags & O_ACCMODE, &choice.file)) break;
      if (fd >= 0) raw_close(fd);
      fd = -1;
      now = true;
    }
  }
  if (fd >= 0) errno = saved;
  if (fd >= 0 && name) file_path(&choice.file, name, PATH_MAX);
  return fd;
}

static int open_matching(int dirfd, const char *path, int flags, mode_t mode) {
  return open_named(dirfd, path, flags, mode, NULL);
}

/* A name such as /dev/fd/3 or /dev/stdout: the program may open a file that it has open. */
static bool may_reopen(const char *path) {
  return path && table_end() && (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6));
}

bool before_reopen(const char *path, int flags) {
  if (!may_reopen(path) || (flags & O_ACCMODE) == O_RDONLY) return false;
  base_change_all(false);
  return true;
}

/* CALL opens PATH past the helper. */
#define PASSED(path, flags, call)                                                                                      \
  ({                                                                                                                   \
    bool reopens_ = before_reopen(path, flags);                                                                        \
    int fd_ = (call);                                                                                                  \
    if (reopens_ && fd_ >= 0) enter_reopened(fd_);                                                                     \
    fd_;                                                                                                               \
  })

#define MODE(flags)                                                                                                    \
  mode_t mode = 0;                                                                                                     \
  if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) {                                                     \
    va_list arguments;                                                                                                 \
    va_start(arguments, flags);                                                                                        \
    mode = va_arg(arguments, mode_t);                                                                                  \
    va_end(arguments);                                                                                                 \
  }

EXPORT int open(const char *path, int flags, ...) {
  MODE(flags)
  int fd = may_match(path) ? open_matching(AT_FDCWD, path, flags, mode) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(open)(path, flags, mode)) : fd;
}

EXPORT int open64(const char *path, int flags, ...) {
  MODE(flags)
  int fd = may_match(path) ? open_matching(AT_FDCWD, path, flags, mode) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(open64)(path, flags, mode)) : fd;
}

EXPORT int openat(int dirfd, const char *path, int flags, ...) {
  MODE(flags)
  int fd = may_match(path) ? open_matching(dirfd, path, flags, mode) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(openat)(dirfd, path, flags, mode)) : fd;
}

EXPORT int openat64(int dirfd, const char *path, int flags, ...) {
  MODE(flags)
  int fd = may_match(path) ? open_matching(dirfd, path, flags, mode) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(openat64)(dirfd, path, flags, mode)) : fd;
}

EXPORT int creat(const char *path, mode_t mode) {
  int fd = may_match(path) ? open_matching(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode) : PASS;
  return fd == PASS ? PASSED(path, O_WRONLY, NEXT(creat)(path, mode)) : fd;
}

EXPORT int creat64(const char *path, mode_t mode) {
  int fd = may_match(path) ? open_matching(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode) : PASS;
  return fd == PASS ? PASSED(path, O_WRONLY, NEXT(creat64)(path, mode)) : fd;
}

EXPORT int __open_2(const char *path, int flags) {
  int fd = may_match(path) ? open_matching(AT_FDCWD, path, flags, 0) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(__open_2)(path, flags)) : fd;
}

EXPORT int __open64_2(const char *path, int flags) {
  int fd = may_match(path) ? open_matching(AT_FDCWD, path, flags, 0) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(__open64_2)(path, flags)) : fd;
}

EXPORT int __openat_2(int dirfd, const char *path, int flags) {
  int fd = may_match(path) ? open_matching(dirfd, path, flags, 0) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(__openat_2)(dirfd, path, flags)) : fd;
}

EXPORT int __openat64_2(int dirfd, const char *path, int flags) {
  int fd = may_match(path) ? open_matching(dirfd, path, flags, 0) : PASS;
  return fd == PASS ? PASSED(path, flags, NEXT(__openat64_2)(dirfd, path, flags)) : fd;
}
