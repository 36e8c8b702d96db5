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
 * it was. KILL_AGAIN_AT and KILL_AGAIN_RANK are the same for a second kill, at an event in or after a recovery of the
 * job; it makes the file KILL_NOTE.again. FULL_AT is FIRST:LAST: the disk of that process is full at these writes.
 * NODES is the node of each process, one letter for each: the process gets this name, and the folder POOLS/NODE for its
 * memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define SLOTS ((void *)0x2c0000000000)

struct kill {
  char what[16], note[4096];
  _Atomic long left;
  int in_recovery;
};

static struct kill kills[2] = {{.left = -1}, {.left = -1, .in_recovery = 1}};
static _Atomic long writes = 0, emptied = -1;
static long first_full = 0, last_full = -1;

static const char *my_rank(void) {
  const char *mine = getenv("OMPI_COMM_WORLD_RANK");
  return mine ? mine : getenv("PMI_RANK");
}

static int is_chosen(const char *variable) {
  const char *wanted = getenv(variable), *mine = my_rank();
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

/* A process that takes the place of a killed one is not killed. */
static void read_event(struct kill *kill, const char *variable, const char *chosen) {
  const char *at = getenv(variable), *colon = at ? strchr(at, ':') : NULL, *note = getenv("KILL_NOTE");
  if (note) snprintf(kill->note, sizeof kill->note, "%s%s", note, kill->in_recovery ? ".again" : "");
  if (!colon || !is_chosen(chosen) || access(kill->note, F_OK) == 0) return;
  memcpy(kill->what, at, (size_t)(colon - at) < sizeof kill->what ? (size_t)(colon - at) : 0);
  kill->left = atol(colon + 1);
}

static void join_node(void) {
  const char *nodes = getenv("NODES"), *pools = getenv("POOLS"), *mine = my_rank();
  if (!nodes || !pools || !mine) return;
  char name[2] = {nodes[(size_t)atol(mine) % strlen(nodes)], 0}, pool[4096];
  snprintf(pool, sizeof pool, "%s/%s", pools, name);
  setenv("MAINSTAY_NODE", name, 1);
  setenv("MAINSTAY_POOL_DIRECTORY", pool, 1);
}

__attribute__((constructor)) static void begin(void) {
  const char *full = getenv("FULL_AT");
  if (!is_host()) return;
  join_node();
  if (full && is_chosen("KILL_RANK")) {
    first_full = atol(full);
    last_full = atol(strchr(full, ':') + 1);
  }
  read_event(&kills[0], "KILL_AT", "KILL_RANK");
  read_event(&kills[1], "KILL_AGAIN_AT", "KILL_AGAIN_RANK");
}

static void happens(const char *event) {
  for (struct kill *kill = kills; kill < kills + 2; kill++) {
    if (kill->left < 0 || (kill->in_recovery && emptied < 1) || strcmp(event, kill->what)) continue;
    if (--kill->left > 0) continue;
    if (kill->note[0]) close(open(kill->note, O_CREAT | O_WRONLY, 0600));
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  }
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

/* The host takes the addresses of all slots at its start, and empties them in a recovery. */
static void *map(void *address, size_t bytes, int protection, int flags, int file, off_t at) {
  happens("map");
  if (address == SLOTS && protection == PROT_NONE && bytes >> 40) emptied++;
  return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, at);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t at) {
  return map(address, bytes, protection, flags, file, at);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off64_t at) {
  return map(address, bytes, protection, flags, file, at);
}
