/* Calls that change a file through a descriptor. Licence: MIT OR Apache-2.0.
 *
 * They exchange a base first. Any other descriptor costs one load. */
#include "preload.h"

EXPORT ssize_t write(int fd, const void *data, size_t size) { return is_stuck(fd) ? -1 : NEXT(write)(fd, data, size); }

EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  return is_stuck(fd) ? -1 : NEXT(pwrite)(fd, data, size, at);
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  return is_stuck(fd) ? -1 : NEXT(pwrite64)(fd, data, size, at);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count) {
  return is_stuck(fd) ? -1 : NEXT(writev)(fd, parts, count);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  return is_stuck(fd) ? -1 : NEXT(pwritev)(fd, parts, count, at);
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
  return is_stuck(fd) ? -1 : NEXT(pwritev64)(fd, parts, count, at);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
  return is_stuck(fd) ? -1 : NEXT(pwritev2)(fd, parts, count, at, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
  return is_stuck(fd) ? -1 : NEXT(pwritev64v2)(fd, parts, count, at, flags);
}

EXPORT int ftruncate(int fd, off_t size) { return is_stuck(fd) ? -1 : NEXT(ftruncate)(fd, size); }

EXPORT int ftruncate64(int fd, off64_t size) { return is_stuck(fd) ? -1 : NEXT(ftruncate64)(fd, size); }

EXPORT int fallocate(int fd, int mode, off_t at, off_t size) {
  return is_stuck(fd) ? -1 : NEXT(fallocate)(fd, mode, at, size);
}

EXPORT int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  return is_stuck(fd) ? -1 : NEXT(fallocate64)(fd, mode, at, size);
}

/* These two return the error, and keep errno. */
EXPORT int posix_fallocate(int fd, off_t at, off_t size) {
  int saved = errno;
  if (!is_stuck(fd)) return NEXT(posix_fallocate)(fd, at, size);
  int error = errno;
  errno = saved;
  return error;
}

EXPORT int posix_fallocate64(int fd, off64_t at, off64_t size) {
  int saved = errno;
  if (!is_stuck(fd)) return NEXT(posix_fallocate64)(fd, at, size);
  int error = errno;
  errno = saved;
  return error;
}

EXPORT ssize_t sendfile(int to, int from, off_t *at, size_t size) {
  return is_stuck(to) ? -1 : NEXT(sendfile)(to, from, at, size);
}

EXPORT ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
  return is_stuck(to) ? -1 : NEXT(sendfile64)(to, from, at, size);
}

EXPORT ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
  return is_stuck(to) ? -1 : NEXT(copy_file_range)(from, from_at, to, to_at, size, flags);
}

EXPORT ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
  return is_stuck(to) ? -1 : NEXT(splice)(from, from_at, to, to_at, size, flags);
}

EXPORT int aio_write(struct aiocb *block) { return is_stuck(block->aio_fildes) ? -1 : NEXT(aio_write)(block); }

EXPORT int aio_write64(struct aiocb64 *block) { return is_stuck(block->aio_fildes) ? -1 : NEXT(aio_write64)(block); }
