/* Does the steps that its arguments name, in order: OPERATION:A:B. One program for each way past the C library's
 * symbols: linked statically, or with -DRAW, which calls the system itself. Linked as usual, a library can catch it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef RAW
#define open(path, flags, mode) (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode)
#define stat(path, to) (int)syscall(SYS_newfstatat, AT_FDCWD, path, to, 0)
#define access(path, mode) (int)syscall(SYS_faccessat, AT_FDCWD, path, mode)
#define rename(from, to) (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)
#define link(from, to) (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0)
#define unlink(path) (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0)
#define chmod(path, mode) (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode)
#define write(fd, data, size) (int)syscall(SYS_write, fd, data, size)
#define close(fd) (int)syscall(SYS_close, fd)
#endif

static int fd = -1;
static FILE *stream;
static char *memory;
static size_t size, stored;

static int flags_of(const char *letter) {
  switch (*letter) {
  case 'w':
    return O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  case 'x':
    return O_WRONLY | O_CREAT | O_EXCL;
  case 'a':
    return O_WRONLY | O_CREAT | O_APPEND;
  case 'u':
    return O_RDWR;
  case 'b':
    return O_RDWR | O_CREAT | O_TRUNC;
  default:
    return O_RDONLY;
  }
}

static int show(const char *path) {
  char text[256];
  int from = open(path, O_RDONLY, 0);
  if (from < 0) return -1;
  ssize_t length = read(from, text, sizeof text - 1);
  (void)close(from);
  if (length < 0) return -1;
  text[length] = 0;
  printf("%s is '%s'\n", path, text);
  return 0;
}

static int look(const char *path) {
  struct stat named, opened;
  if (stat(path, &named)) return -1;
  printf("%s has %ld bytes, mode %o", path, (long)named.st_size, named.st_mode & 07777);
  if (fd >= 0 && !fstat(fd, &opened)) printf(", %s", named.st_ino == opened.st_ino ? "the open one" : "another one");
  printf("\n");
  return 0;
}

static int shut(void) {
  int result = close(fd);
  fd = -1;
  return result;
}

/* Maps the open file, with another length. */
static int map(size_t bytes) {
  if (ftruncate(fd, (off_t)bytes)) return -1;
  char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return -1;
  memory = mapped;
  size = bytes;
  return 0;
}

/* Writes behind the text before, without a call. */
static int store(const char *text) {
  memcpy(memory + stored, text, strlen(text));
  stored += strlen(text);
  return 0;
}

/* Waits until PATH exists. */
static int await(const char *path) {
  for (int turn = 0; turn < 30000; turn++, usleep(10000))
    if (!access(path, R_OK)) return 0;
  return errno = ETIMEDOUT, -1;
}

/* The parent waits for its child. */
static int join(void) {
  int status;
  while (wait(&status) > 0) printf("child %s\n", WIFSIGNALED(status) ? "killed" : "ended");
  return 0;
}

static int step(const char *what, const char *a, const char *b) {
  if (!strcmp(what, "open")) return (fd = open(a, flags_of(b), 0640)) < 0 ? -1 : 0;
  if (!strcmp(what, "put")) return write(fd, a, strlen(a)) < 0 ? -1 : 0;
  if (!strcmp(what, "close")) return shut();
  if (!strcmp(what, "show")) return show(a);
  if (!strcmp(what, "stat")) return look(a);
  if (!strcmp(what, "access")) return access(a, R_OK);
  if (!strcmp(what, "rename")) return rename(a, b);
  if (!strcmp(what, "link")) return link(a, b);
  if (!strcmp(what, "unlink")) return unlink(a);
  if (!strcmp(what, "chmod")) return chmod(a, (mode_t)strtoul(b, NULL, 8));
  if (!strcmp(what, "truncate")) return truncate(a, atol(b));
  if (!strcmp(what, "join")) return join();
  if (!strcmp(what, "kill")) return kill(getpid(), SIGKILL);
  if (!strcmp(what, "stop")) return printf("%d\n", (int)getpid()), raise(SIGSTOP);
  if (!strcmp(what, "exit")) exit(atoi(a));
  if (!strcmp(what, "map")) return map((size_t)atol(a));
  if (!strcmp(what, "store")) return store(a);
  if (!strcmp(what, "unmap")) return munmap(memory, size);
  if (!strcmp(what, "stream")) return (stream = fopen(a, "w")) ? 0 : -1;
  if (!strcmp(what, "print")) return fputs(a, stream) < 0 ? -1 : 0;
  if (!strcmp(what, "shut")) return fclose(stream);
  if (!strcmp(what, "system")) return system(a) < 0 ? -1 : 0;
  if (!strcmp(what, "say")) return puts(a) < 0 ? -1 : 0;
  if (!strcmp(what, "await")) return await(a);
  return errno = ENOTSUP, -1;
}

int main(int count, char **words) {
  setvbuf(stdout, NULL, _IONBF, 0);
  int skip = 0;
  for (int i = 1; i < count; i++) {
    char *word = strdup(words[i]), *what = strsep(&word, ":"), *a = strsep(&word, ":");
    if (!strcmp(what, "end")) {
      /* The end of the child's steps. */
      if (!skip) exit(0);
      skip = 0;
    } else if (!skip && !strcmp(what, "fork")) {
      skip = fork() > 0;
    } else if (!skip && step(what, a, word)) {
      printf("%s: %s\n", words[i], strerror(errno));
    }
  }
  return 0;
}
