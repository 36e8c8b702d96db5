#define _GNU_SOURCE
#include "forked.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 8, PIECE = 64 << 10 };

typedef struct meeting {
  _Atomic uint32_t ranks, round, gone;
  char table[RANKS_MAX][PIECE];
} meeting;

static meeting *shared;
static uint32_t rank, ranks;

/* Until `word` is no more `old`; 1 if a rank is gone. */
static int await(_Atomic uint32_t *word, uint32_t old) {
  for (unsigned looks = 0; atomic_load(word) == old; looks++) {
    struct timespec pause = {0, looks < 100 ? 0 : 50000};
    if (atomic_load(&shared->gone)) return 1;
    nanosleep(&pause, NULL);
  }
  return 0;
}

int forked_meet(void) {
  const uint32_t round = atomic_load(&shared->round);
  if (atomic_load(&shared->gone)) return 1;
  if (atomic_fetch_add(&shared->ranks, 1) + 1 < ranks) return await(&shared->round, round);
  atomic_store(&shared->ranks, 0);
  atomic_fetch_add(&shared->round, 1);
  return 0;
}

int forked_is_broken(void) { return (int)atomic_load(&shared->gone); }

static int all_gather(void *context, const void *mine, void *all, size_t bytes) {
  (void)context;
  for (size_t at = 0; at < bytes; at += PIECE) {
    const size_t here = bytes - at < PIECE ? bytes - at : PIECE;
    memcpy(shared->table[rank], (const char *)mine + at, here);
    if (forked_meet()) return 1;
    for (uint32_t other = 0; other < ranks; other++)
      memcpy((char *)all + other * bytes + at, shared->table[other], here);
    if (forked_meet()) return 1;
  }
  return 0;
}

static int all_max(void *context, uint64_t *values, size_t count) {
  uint64_t *all = malloc(ranks * count * sizeof *values + 1);
  const int code = all ? all_gather(context, values, all, count * sizeof *values) : 2;
  for (size_t i = 0; code == 0 && i < ranks * count; i++)
    if (all[i] > values[i % count]) values[i % count] = all[i];
  free(all);
  return code;
}

static int broadcast(void *context, uint32_t root, void *data, size_t bytes) {
  (void)context;
  for (size_t at = 0; at < bytes; at += PIECE) {
    const size_t here = bytes - at < PIECE ? bytes - at : PIECE;
    if (rank == root) memcpy(shared->table[root], (char *)data + at, here);
    if (forked_meet()) return 1;
    memcpy((char *)data + at, shared->table[root], here);
    if (forked_meet()) return 1;
  }
  return 0;
}

static void explain(void *context, int code, char *text, size_t bytes) {
  (void)context;
  snprintf(text, bytes, code == 1 ? "a rank is gone" : "the ranks do not understand each other (%d)", code);
}

mainstay_group forked_group(void) {
  mainstay_group group;
  memset(&group, 0, sizeof group);
  group.size = sizeof group;
  group.rank = rank;
  group.ranks = ranks;
  group.ranks_here = ranks;
  group.all_max = all_max;
  group.all_gather = all_gather;
  group.broadcast = broadcast;
  group.explain = explain;
  return group;
}

uint32_t forked_begin(uint32_t count, int survive) {
  pid_t children[RANKS_MAX] = {0};
  int status, failed = 0;
  ranks = count;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (ranks < 1 || ranks > RANKS_MAX || shared == MAP_FAILED) exit(2);
  for (rank = 0; rank < ranks; rank++) {
    children[rank] = fork();
    if (children[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      return rank;
    }
    if (children[rank] < 0) exit(2);
  }
  for (pid_t dead; (dead = wait(&status)) > 0;) {
    for (rank = 0; rank < ranks && children[rank] != dead; rank++) continue;
    children[rank] = 0; /* its id may be another's soon */
    if (WIFSIGNALED(status))
      printf("rank %u: signal %d\n", rank, WTERMSIG(status));
    else if (WEXITSTATUS(status))
      printf("rank %u: exit status %d\n", rank, WEXITSTATUS(status));
    if (status == 0) continue;
    failed = 1;
    atomic_store(&shared->gone, 1);
    for (uint32_t other = 0; !survive && other < ranks; other++)
      if (children[other]) kill(children[other], SIGKILL);
  }
  fflush(stdout);
  _exit(failed);
}
