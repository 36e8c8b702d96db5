/* Preloaded into a host of ranks: kills it at an event. KILL_AT is WHAT:NUMBER: the NUMBER-th of
 *
 *     turn    looks at the clock, one for each turn of a rank; messages are in flight
 *     late    the same, once its disk was full
 *     write   writes at a place of a file, in a checkpoint
 *     sync    syncs of a file, in a checkpoint
 *     read    reads from a place of a file, in a restore
 *     map     mappings of memory, of which a restore makes many
 *
 * KILL_RANK names the process of the job that is killed; without a launcher there is one. The file KILL_NOTE says that
 * it was. FULL_AT is FIRST:LAST: the disk of that process is full at these writes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static char what[16];
static _Atomic long left = -1, writes = 0;
static long first_full = 0, last_full = -1;

static int is_chosen(void) {
  const char *wanted = getenv("KILL_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK");
  if (!mine) mine = getenv("PMI_RANK");
  return !mine || !wanted || !strcmp(mine, wanted);
}

/* `mainstay run` and the launcher have the library, too. */
static int is_host(void) {
  char words[4096] = "";
  int file = open("/proc/self/cmdline", O_RDONLY);
  ssize_t count = file < 0 ? -1 : read(file, words, sizeof words - 1);
  if (file >= 0) close(file);
  if (!strcmp(program_invocation_short_name, "mainstay-ranks")) return 1;
  return count > 0 && !strcmp(words + strlen(words) + 1, "host-ranks");
}

__attribute__((constructor)) static void read_event(void) {
  const char *at = getenv("KILL_AT"), *colon = at ? strchr(at, ':') : NULL, *full = getenv("FULL_AT");
  if (!is_host()) return;
  if (full && is_chosen()) {
    first_full = atol(full);
    last_full = atol(strchr(full, ':') + 1);
  }
  if (!colon) return;
  memcpy(what, at, (size_t)(colon - at) < sizeof what ? (size_t)(colon - at) : 0);
  if (is_chosen()) left = atol(colon + 1);
}

static void happens(const char *event) {
  if (left < 0 || strcmp(event, what)) return;
  if (--left > 0) return;
  const char *note = getenv("KILL_NOTE");
  if (note) close(open(note, O_CREAT | O_WRONLY, 0600));
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  happens("turn");
  if (first_full && writes >= first_full) happens("late");
  return (int)syscall(SYS_clock_gettime, clock, time);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
  long number = ++writes;
  happens("write");
  if (number >= first_full && number <= last_full) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_pwrite64, file, bytes, count, at);
}

int fdatasync(int file) {
  happens("sync");
  return (int)syscall(SYS_fdatasync, file);
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t at) {
  happens("read");
  return syscall(SYS_pread64, file, bytes, count, at);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t at) {
  happens("map");
  return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, at);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off64_t at) {
  happens("map");
  return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, at);
}
