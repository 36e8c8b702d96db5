/* Start, fork and exit of the process. Licence: MIT OR Apache-2.0.
 *
 * The helper must know each process that can still write a file, and must learn of each exit in order. The
 * kernel is the table that outlives exec: a link in /proc/self/fd to a staged file names its ID. */
#include "preload.h"

#include <dirent.h>
#include <pthread.h>

struct dirent_raw {
  uint64_t inode;
  int64_t offset;
  unsigned short size;
  unsigned char type;
  char name[];
};

/* A staged file is STAGE/files/ID, or FOLDER/.mainstay/writing/ID if the stage has no room for it. */
static bool is_staged_path(const char *path, uint64_t *id) {
  static const char writing[] = "/.mainstay/writing";
  const char *slash = strrchr(path, '/');
  if (!slash || !text_read_id(slash + 1, id)) return false;
  size_t length = (size_t)(slash - path), stage = strlen(settings.stage_real), tail = sizeof writing - 1;
  if (length == stage + 6 && !strncmp(path, settings.stage_real, stage) && !strncmp(path + stage, "/files", 6))
    return true;
  return length >= tail && !strncmp(slash - tail, writing, tail);
}

/* Enters FD, which LINK in the folder of all descriptors shows, if it is a staged file. */
static bool enter(int fd, int folder, const char *link) {
  char path[PATH_MAX];
  uint64_t id;
  if (raw_readlink(folder, link, path, sizeof path) <= 0 || !is_staged_path(path, &id)) return false;
  int flags = raw_fcntl(fd, F_GETFL, 0);
  if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY) return false;
  if (fd >= DESCRIPTORS || kind_of(fd) != KIND_NONE) return false;
  table_set(fd, KIND_STAGED, id);
  return true;
}

static void enter_inherited(int folder, const char *name) {
  if (*name != '.') enter(atoi(name), folder, name);
}

SLOW void enter_reopened(int fd) {
  char link[40] = "/proc/self/fd/";
  int saved = errno;
  text_number(link + strlen(link), (uint64_t)fd);
  if (is_owner() && enter(fd, AT_FDCWD, link)) tell_hold(table_get(fd).id);
  errno = saved;
}

static void enter_all_inherited(void) {
  char list[4096] __attribute__((aligned(8)));
  int folder = raw_open(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  long length;
  while ((length = syscall(SYS_getdents64, folder, list, sizeof list)) > 0)
    for (long at = 0; at < length; at += ((struct dirent_raw *)(list + at))->size)
      enter_inherited(folder, ((struct dirent_raw *)(list + at))->name);
  raw_close(folder);
}

static void before_fork(void) { base_change_all(false); }

/* The child has all descriptors of its parent. */
static void after_fork(void) {
  int saved = errno;
  set_owner();
  base_forked();
  tell_all("hold");
  mappings_inherited();
  errno = saved;
}

static bool may_hold(void) { return is_on() && is_owner() && (table_has_staged() || has_mapped); }

static void leave(int status) {
  if (may_hold()) tell_left(status & 0377);
}

/* The last handler to run, as it is the first that was entered: libraries have closed their files by then. */
static void at_exit(int status, void *unused) {
  (void)unused;
  if (!may_hold()) return;
  table_flush();
  leave(status);
}

__attribute__((constructor)) static void begin(void) {
  struct stat status;
  int saved = errno;
  next_all();
  if (is_on() && !raw_stat(AT_FDCWD, settings.stage, &status, 0)) {
    enter_all_inherited();
    tell_all("holding");
  }
  if (is_on()) {
    pthread_atfork(before_fork, NULL, after_fork);
    on_exit(at_exit, NULL);
  }
  errno = saved;
}

/* If a program ends its own child, the program decides about a file that both have open. */
EXPORT int kill(pid_t process, int signal) {
  if (process > 0 && (signal == SIGTERM || signal == SIGKILL) && is_on() && is_owner() && table_has_staged())
    tell_ends(process);
  return NEXT(kill)(process, signal);
}

EXPORT void _exit(int status) {
  leave(status);
  NEXT(_exit)(status);
  for (;;) syscall(SYS_exit_group, status);
}

/* These of the C library end a process past us. */
EXPORT void quick_exit(int status) {
  leave(status);
  NEXT(quick_exit)(status);
  for (;;) syscall(SYS_exit_group, status);
}

EXPORT int daemon(int stay, int keep) {
  if (!is_on()) return NEXT(daemon)(stay, keep);
  pid_t child = fork();
  if (child > 0) _exit(0);
  if (child < 0 || setsid() < 0 || (!stay && chdir("/"))) return -1;
  int null = keep ? -1 : open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3 && null >= 0; fd++) dup2(null, fd);
  if (null > 2) close(null);
  return keep || null >= 0 ? 0 : -1;
}

EXPORT void _Exit(int status) {
  leave(status);
  NEXT(_Exit)(status);
  for (;;) syscall(SYS_exit_group, status);
}
