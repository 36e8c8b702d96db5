/* Preloaded into the helper of `mainstay files`: stops it, holds it, or makes its calls fail.
 *
 * HELPER_FAULT is CALL:FAULT:SKIP. CALL is fsync, rename, link, unlink, or any of these. FAULT is the number of an
 * error; `kill`, which kills the helper before the call; or `hold`, which waits as long as the file HELPER_HOLD exists.
 * The first SKIP calls pass, and one has the fault. HELPER_IN is a part of the paths of the calls that count. The file
 * HELPER_MET is made when a call meets the fault. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long calls;

static void meet(void) {
  const char *met = getenv("HELPER_MET");
  const int file = met ? open(met, O_CREAT | O_WRONLY, 0600) : -1;
  if (file >= 0) close(file);
}

/* True with errno if the call fails. */
static int fails(const char *call, const char *path) {
  const char *given = getenv("HELPER_FAULT"), *in = getenv("HELPER_IN"), *hold = getenv("HELPER_HOLD");
  char wanted[16], fault[16];
  long skip = 0;
  if (!given || sscanf(given, "%15[^:]:%15[^:]:%ld", wanted, fault, &skip) < 2) return 0;
  if ((strcmp(wanted, call) != 0 && strcmp(wanted, "any") != 0) || (in && !strstr(path, in))) return 0;
  if (atomic_fetch_add(&calls, 1) != skip) return 0;
  meet();
  if (strcmp(fault, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(fault, "hold") == 0) {
    for (int turn = 0; turn < 60000 && hold && access(hold, F_OK) == 0; turn++) usleep(1000);
    return 0;
  }
  errno = atoi(fault);
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  return fails("fsync", path) ? -1 : NEXT(fsync)(fd);
}

int rename(const char *from, const char *to) { return fails("rename", from) ? -1 : NEXT(rename)(from, to); }

int link(const char *from, const char *to) { return fails("link", from) ? -1 : NEXT(link)(from, to); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  return fails("link", from) ? -1 : NEXT(linkat)(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path) { return fails("unlink", path) ? -1 : NEXT(unlink)(path); }
