/* Starts the helper of the node. Licence: MIT OR Apache-2.0.
 *
 * The program must not notice: no SIGCHLD, no child that its wait finds, no descriptor of its files in the helper. A
 * child that shares our memory starts the helper and ends; this process waits for that child at once. The helper then
 * is a child of init. Each process sleeps until its child has ended or runs another program. So one piece of memory is
 * enough for the stacks and the list of variables. */
#include "preload.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { STACK_SIZE = 16 << 10, VARIABLES_MAX = 4096, SIGNALS_MAX = 64 };

struct start {
  char parent[STACK_SIZE], helper[STACK_SIZE];
  char *variables[VARIABLES_MAX + 1];
  int error;
};
_Static_assert(offsetof(struct start, variables) % 16 == 0, "stacks end at a multiple of 16");

/* Staged files count as open while the helper has them. */
static void close_all(void) {
  struct rlimit limit = {0, 0};
  if (!syscall(SYS_close_range, 3U, ~0U, 0U)) return;
  syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
  for (int fd = 3; fd < DESCRIPTORS && (rlim_t)fd < limit.rlim_cur; fd++) raw_close(fd);
}

static int become_helper(void *argument) {
  struct start *start = argument;
  struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
  } by_default = {0};
  uint64_t none = 0;
  char *const words[] = {settings.command, "files-helper", settings.stage, NULL};
  syscall(SYS_setsid);
  syscall(SYS_chdir, "/");
  /* The table of handlers is a copy, so this changes no handler of the program. */
  for (int signal = 1; signal <= SIGNALS_MAX; signal++)
    syscall(SYS_rt_sigaction, signal, &by_default, NULL, sizeof by_default.mask);
  int null = raw_open(AT_FDCWD, "/dev/null", O_RDWR);
  for (int fd = 0; fd < 3 && null >= 0; fd++)
    if (fd != null) syscall(SYS_dup3, null, fd, 0);
  close_all();
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
  syscall(SYS_execve, settings.command, words, start->variables);
  start->error = errno;
  syscall(SYS_exit, 127);
  return 127;
}

static int become_parent(void *argument) {
  struct start *start = argument;
  if (clone(become_helper, start->helper + STACK_SIZE, CLONE_VM | CLONE_VFORK, start) < 0) start->error = errno;
  syscall(SYS_exit, 0);
  return 0;
}

static bool is_kept(const char *variable) {
  return strncmp(variable, "LD_PRELOAD=", 11) && strncmp(variable, "MAINSTAY_FILES_", 15);
}

static int run(struct start *start) {
  int count = 0;
  for (char **at = environ; at && *at && count < VARIABLES_MAX; at++)
    if (is_kept(*at)) start->variables[count++] = *at;
  int child = clone(become_parent, start->parent + STACK_SIZE, CLONE_VM | CLONE_VFORK, start);
  if (child < 0) return errno;
  syscall(SYS_wait4, child, NULL, __WALL, NULL);
  return __atomic_load_n(&start->error, __ATOMIC_RELAXED);
}

SLOW bool start_helper(void) {
  if (!*settings.command) return errno = ENOENT, false;
  long memory =
      syscall(SYS_mmap, NULL, sizeof(struct start), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == -1) return false;
  int error = run((struct start *)memory);
  syscall(SYS_munmap, memory, sizeof(struct start));
  errno = error;
  return !error;
}
