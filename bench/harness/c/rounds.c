#define _GNU_SOURCE
#include "rounds.h"

#include <fcntl.h>
#include <ftw.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "stop.h"

#define SETTLE_US 50000
#define MEET_US 200
#define LEAD_S 0.03 /* for the news of the moment to reach all ranks */
#define FOLDERS_OPEN 16
#define VALUES_MAX 16
#define RANKS_MAX 1024

static int my_rank(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void shuffled(size_t *order, size_t count, int round) {
  uint64_t random = (uint64_t)(round + 1000);
  for (size_t i = 0; i < count; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t at = (random >> 33) % (i + 1);
    order[i] = order[at];
    order[at] = i;
  }
}

void meet(void) {
  MPI_Request request;
  int done = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) usleep(MEET_US);
}

static const char *kept; /* how the names of folders end that stay cached */

static bool ends_as_kept(const char *path) {
  size_t length = strlen(path), end = kept ? strlen(kept) : 0;
  return end > 0 && length >= end && strcmp(path + length - end, kept) == 0;
}

static int forget(const char *path, const struct stat *status, int type, struct FTW *position) {
  (void)status, (void)position;
  if (type == FTW_D && ends_as_kept(path)) return FTW_SKIP_SUBTREE;
  int file = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
  if (file >= 0) {
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
  return FTW_CONTINUE;
}

void settle(const char *directory, const char *but) {
  kept = but;
  meet();
  if (my_rank() == 0) {
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || syncfs(folder) != 0) stop_errno("sync the file system of %s", directory);
    close(folder);
    if (nftw(directory, forget, FOLDERS_OPEN, FTW_PHYS | FTW_MOUNT | FTW_ACTIONRETVAL) != 0)
      stop_errno("walk through %s", directory);
    usleep(SETTLE_US);
  }
  meet();
}

double start_together(void) {
  double start = now() + LEAD_S;
  MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  struct timespec at = {.tv_sec = (time_t)start};
  at.tv_nsec = (long)(1e9 * (start - (double)at.tv_sec));
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0);
  return start;
}

void print(const char *side, int round, size_t count, const char *const *names, const double *values) {
  static double all[VALUES_MAX * RANKS_MAX];
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (count > VALUES_MAX || ranks > RANKS_MAX) stop("too much to print");
  MPI_Gather(values, (int)count, MPI_DOUBLE, all, (int)count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (my_rank() != 0) return;
  printf("{\"side\": \"%s\", \"round\": %d", side, round);
  for (size_t i = 0; i < count; i++) {
    printf(", \"%s\": [", names[i]);
    for (size_t rank = 0; rank < (size_t)ranks; rank++) printf("%s%.12g", rank ? ", " : "", all[rank * count + i]);
    printf("]");
  }
  printf("}\n");
}
