/* fopen and its relatives. Licence: MIT OR Apache-2.0.
 *
 * The C library's streams open, write and close without our functions. So a stream is opened on the path from
 * the helper, and never on a base: the library would not see its first write. */
#include "preload.h"

enum { MODE_MAX = 64, TRIES_MAX = 4 };

/* The flags of open for a stream's mode, or -1. */
static int flags_of(const char *mode) {
  if (!mode || (*mode != 'r' && *mode != 'w' && *mode != 'a')) return -1;
  int flags = *mode == 'r' ? 0 : *mode == 'w' ? O_CREAT | O_TRUNC : O_CREAT | O_APPEND;
  bool both = false;
  for (const char *at = mode + 1; *at && *at != ','; at++) {
    if (*at == '+') both = true;
    if (*at == 'x') flags |= O_EXCL;
    if (*at == 'e') flags |= O_CLOEXEC;
  }
  return flags | (both ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY);
}

/* The helper has handled O_EXCL, and the staged file exists. */
static const char *without_exclusive(char to[MODE_MAX], const char *mode) {
  if (strlen(mode) >= MODE_MAX) return mode;
  char *end = to;
  bool options = false;
  for (; *mode; mode++) {
    if (*mode == ',') options = true;
    if (options || *mode != 'x') *end++ = *mode;
  }
  *end = 0;
  return to;
}

/* A freopen that fails closes its stream. The C library does so if the name does not exist. */
static FILE *abandon(FILE *old) {
  int error = errno;
  if (old) (void)!NEXT(freopen)("", "r", old);
  errno = error;
  return NULL;
}

/* A new file is empty, but has its memory: fopen would truncate it, which frees that. */
static FILE *open_new(const char *path, int flags, const char *mode) {
  int fd = NEXT(open)(path, flags & ~(O_CREAT | O_EXCL | O_TRUNC));
  FILE *stream = fd < 0 ? NULL : NEXT(fdopen)(fd, mode);
  if (fd >= 0 && !stream) raw_close(fd);
  return stream;
}

/* Opens a matching PATH. OLD is a stream for freopen. Sets *PASS if the kernel must get the name unchanged. */
static SLOW FILE *open_matching(const char *path, const char *mode, FILE *old, bool *pass) {
  char plain_mode[MODE_MAX];
  struct choice choice;
  int flags = flags_of(mode), saved = errno;
  FILE *stream = NULL;
  for (int tries = 0; tries < TRIES_MAX; tries++) {
    enum course course = flags < 0 ? COURSE_PASS : choose(&choice, AT_FDCWD, path, flags, true);
    if (course == COURSE_BASE) course = COURSE_PASS;
    if (course == COURSE_PASS) return *pass = true, errno = saved, NULL;
    if (course == COURSE_FAIL) return abandon(old);
    if (course == COURSE_READ) identity_learn(&choice.answer);
    const char *how = without_exclusive(plain_mode, mode);
    stream = old                                             ? NEXT(freopen)(choice.answer.path, how, old)
             : course == COURSE_STAGE && choice.answer.fresh ? open_new(choice.answer.path, flags, how)
                                                             : NEXT(fopen)(choice.answer.path, how);
    if (course == COURSE_READ) {
      if (stream || errno != ENOENT || old) break;
      continue;
    }
    if (stream && choice_enter(&choice, fileno(stream), flags, 0666)) {
      table_set_stream(fileno(stream), stream);
      break;
    }
    int error = errno;
    if (stream) NEXT(fclose)(stream);
    choice_abandon(&choice);
    return errno = error, NULL;
  }
  if (stream) errno = saved;
  return stream;
}

/* CALL opens PATH past the helper. */
#define PASSED(path, mode, call)                                                                                       \
  ({                                                                                                                   \
    bool reopens_ = before_reopen(path, flags_of(mode));                                                               \
    FILE *stream_ = (call);                                                                                            \
    if (reopens_ && stream_) enter_reopened(fileno(stream_));                                                          \
    if (reopens_ && stream_) table_set_stream(fileno(stream_), stream_);                                               \
    stream_;                                                                                                           \
  })

EXPORT FILE *fopen(const char *path, const char *mode) {
  bool pass = false;
  FILE *stream = may_match(path) ? open_matching(path, mode, NULL, &pass) : (pass = true, NULL);
  return pass ? PASSED(path, mode, NEXT(fopen)(path, mode)) : stream;
}

EXPORT FILE *fopen64(const char *path, const char *mode) {
  bool pass = false;
  FILE *stream = may_match(path) ? open_matching(path, mode, NULL, &pass) : (pass = true, NULL);
  return pass ? PASSED(path, mode, NEXT(fopen64)(path, mode)) : stream;
}

/* The C library closes the old file of the stream, and puts the new one under the same number. */
static SLOW FILE *reopen(const char *path, const char *mode, FILE *old, bool matches, __typeof__(freopen) *call) {
  int saved = errno, fd = fileno(old);
  bool ours = kind_of(fd) && is_owner(), pass = !matches;
  struct entry entry = {0};
  errno = saved;
  if (ours) {
    fflush(old);
    entry = table_take(fd);
  }
  FILE *stream = matches ? open_matching(path, mode, old, &pass) : NULL;
  if (pass) stream = call(path, mode, old);
  saved = errno;
  if (ours) entry_closed(entry);
  errno = saved;
  return stream;
}

/* Without a path the C library opens the same file in another mode, and the number stays. */
EXPORT FILE *freopen(const char *path, const char *mode, FILE *old) {
  bool matches = may_match(path);
  if (!path || (!matches && !table_end())) return NEXT(freopen)(path, mode, old);
  return reopen(path, mode, old, matches, NEXT(freopen));
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *old) {
  bool matches = may_match(path);
  if (!path || (!matches && !table_end())) return NEXT(freopen64)(path, mode, old);
  return reopen(path, mode, old, matches, NEXT(freopen64));
}

EXPORT FILE *fdopen(int fd, const char *mode) {
  if (!kind_of(fd)) return NEXT(fdopen)(fd, mode);
  int flags = flags_of(mode);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && is_stuck(fd)) return NULL;
  FILE *stream = NEXT(fdopen)(fd, mode);
  if (stream) table_set_stream(fd, stream);
  return stream;
}

static SLOW int close_ours(FILE *stream, int fd) {
  /* The last bytes must reach the file before its entry goes. */
  int flushed = fflush(stream), flush_error = errno;
  struct entry entry = table_take(fd);
  int result = NEXT(fclose)(stream), error = errno;
  if (entry_closed(entry)) return EOF;
  errno = flushed ? flush_error : error;
  return flushed ? EOF : result;
}

EXPORT int fclose(FILE *stream) {
  if (!table_end()) return NEXT(fclose)(stream);
  int saved = errno, fd = fileno(stream);
  errno = saved;
  if (kind_of(fd) && is_owner()) return close_ours(stream, fd);
  return NEXT(fclose)(stream);
}
