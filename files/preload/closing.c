/* Keeps the table right when descriptors are closed or copied. Licence: MIT OR Apache-2.0.
 *
 * A close takes the entry out of the table, closes the descriptor in the kernel, and then reports to the helper. So the
 * helper never counts a file as whole that this process can still write, and a number that the kernel gives anew has no
 * entry. The child of vfork reports nothing: the program after its exec reports its descriptors. */
#include "preload.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif

int entry_closed(struct entry entry) {
  if (entry.kind == KIND_BASE) base_drop(entry.id);
  if (entry.kind != KIND_STAGED || shared_closes_late(entry)) return 0;
  int error = entry.given_up ? tell_given_up(entry.id) : tell_closed(entry.id, entry.synced);
  if (!error) return 0;
  errno = error;
  return -1;
}

static SLOW int close_ours(int fd) {
  struct entry entry = table_take(fd);
  int result = NEXT(close)(fd), error = errno;
  if (entry_closed(entry)) return -1;
  errno = error;
  return result;
}

EXPORT int close(int fd) {
  if (kind_of(fd) && is_owner()) return close_ours(fd);
  return NEXT(close)(fd);
}

static void close_ours_between(unsigned first, unsigned last) {
  unsigned end = (unsigned)table_end();
  if (first >= end || !is_owner()) return;
  for (unsigned fd = first; fd < end && fd <= last; fd++)
    if (kind_of((int)fd)) close_ours((int)fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags) {
  if (!((unsigned)flags & CLOSE_RANGE_CLOEXEC) && first <= last) close_ours_between(first, last);
  return NEXT(close_range)(first, last, flags);
}

EXPORT void closefrom(int first) {
  close_ours_between(first > 0 ? (unsigned)first : 0, ~0U);
  NEXT(closefrom)(first);
}

/* Enters COPY, a new descriptor of the file of FROM. */
static int copied(int from, int copy) {
  if (copy < 0 || copy == from) return copy;
  struct entry old = table_take(copy), entry = table_get(from);
  if (entry.kind == KIND_STAGED) {
    int saved = errno;
    if (copy >= DESCRIPTORS) {
      raw_close(copy);
      errno = EMFILE;
      return -1;
    }
    table_set(copy, KIND_STAGED, entry.id);
    tell_hold(entry.id);
    errno = saved;
  }
  int saved = errno;
  entry_closed(old);
  errno = saved;
  return copy;
}

/* A copy shares offset and flags with its original, so a base is changed before it is copied. */
static bool is_ours(int fd) { return kind_of(fd) && is_owner(); }

EXPORT int dup(int fd) {
  if (!is_ours(fd)) return NEXT(dup)(fd);
  if (is_stuck(fd)) return -1;
  return copied(fd, NEXT(dup)(fd));
}

EXPORT int dup2(int from, int to) {
  if (!is_ours(from) && !is_ours(to)) return NEXT(dup2)(from, to);
  if (from != to && is_stuck(from)) return -1;
  return copied(from, NEXT(dup2)(from, to));
}

EXPORT int dup3(int from, int to, int flags) {
  if (!is_ours(from) && !is_ours(to)) return NEXT(dup3)(from, to, flags);
  if (from != to && is_stuck(from)) return -1;
  return copied(from, NEXT(dup3)(from, to, flags));
}

static bool is_write_lock(int command, const void *argument) {
  return (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW) && argument &&
         ((const struct flock *)argument)->l_type == F_WRLCK;
}

static SLOW int fcntl_ours(int fd, int command, void *argument, __typeof__(fcntl) *call) {
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
    if (is_stuck(fd)) return -1;
    return copied(fd, call(fd, command, argument));
  }
  if (is_write_lock(command, argument) && is_unlockable(fd)) return -1;
  int result = call(fd, command, argument);
  if (command == F_GETFL && result >= 0 && kind_of(fd) == KIND_BASE) result = (result & ~O_ACCMODE) | base_access(fd);
  return result;
}

EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return is_ours(fd) ? fcntl_ours(fd, command, argument, NEXT(fcntl)) : NEXT(fcntl)(fd, command, argument);
}

EXPORT int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return is_ours(fd) ? fcntl_ours(fd, command, argument, NEXT(fcntl64)) : NEXT(fcntl64)(fd, command, argument);
}

EXPORT int fsync(int fd) {
  table_set_synced(fd);
  return NEXT(fsync)(fd);
}

EXPORT int fdatasync(int fd) {
  table_set_synced(fd);
  return NEXT(fdatasync)(fd);
}
