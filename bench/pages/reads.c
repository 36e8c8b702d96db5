/* The reads of a restart, and the same reads without Mainstay. The program's own pread64 replaces that of the C
 * library, also for Mainstay. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"
#include "reads.h"
#include "stop.h"

#define THREADS 8
#define BLOCK 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static reads *recorded;   /* NULL: nothing is recorded */
static const char *below; /* other files are the session's own, and gone with it */

/* -1: the file is not recorded. */
static int file_of(reads *r, int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  if (strncmp(path, below, strlen(below)) != 0) return -1;
  int flags = fcntl(fd, F_GETFL) & O_DIRECT;
  for (int i = 0; i < r->files; i++)
    if (strcmp(r->paths[i], path) == 0 && r->flags[i] == flags) return i;
  if (r->files == READS_FILES_MAX) stop("a restart reads more than %d files", READS_FILES_MAX);
  r->paths[r->files] = strdup(path);
  r->flags[r->files] = flags;
  return r->files++;
}

static void record(reads *r, int fd, size_t bytes, off_t at) {
  int file = file_of(r, fd);
  if (file < 0) return;
  if (r->count == r->room) {
    r->room = r->room ? 2 * r->room : 1024;
    r->list = realloc(r->list, r->room * sizeof *r->list);
    if (!r->list) stop("no memory");
  }
  r->list[r->count++] = (one_read){file, bytes, at};
}

ssize_t pread64(int fd, void *into, size_t bytes, off64_t at) {
  if (__atomic_load_n(&recorded, __ATOMIC_ACQUIRE)) {
    pthread_mutex_lock(&lock);
    if (recorded) record(recorded, fd, bytes, at);
    pthread_mutex_unlock(&lock);
  }
  return syscall(SYS_pread64, fd, into, bytes, at);
}

void reads_record(reads *into, const char *directory) {
  pthread_mutex_lock(&lock);
  below = directory;
  __atomic_store_n(&recorded, into, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&lock);
}

typedef struct replay {
  const reads *of;
  int fds[READS_FILES_MAX];
  atomic_size_t next;
} replay;

static void *work(void *of) {
  replay *p = of;
  size_t longest = BLOCK;
  for (size_t i = 0; i < p->of->count; i++) longest = p->of->list[i].bytes > longest ? p->of->list[i].bytes : longest;
  void *into;
  if (posix_memalign(&into, BLOCK, longest) != 0) stop("no memory");
  for (size_t i; (i = atomic_fetch_add(&p->next, 1)) < p->of->count;) {
    one_read read = p->of->list[i];
    if (syscall(SYS_pread64, p->fds[read.file], into, read.bytes, read.at) < 0)
      stop_errno("%s", p->of->paths[read.file]);
  }
  free(into);
  return NULL;
}

double reads_again(const reads *r) {
  replay p = {.of = r};
  pthread_t threads[THREADS];
  double begun = now();
  for (int i = 0; i < r->files; i++)
    if ((p.fds[i] = open(r->paths[i], O_RDONLY | O_CLOEXEC | r->flags[i])) < 0) stop_errno("%s", r->paths[i]);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, &p) != 0) stop("no thread");
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  double took = now() - begun;
  for (int i = 0; i < r->files; i++) close(p.fds[i]);
  return took;
}

void reads_forget(reads *r) {
  for (int i = 0; i < r->files; i++) free(r->paths[i]);
  free(r->list);
  memset(r, 0, sizeof *r);
}
