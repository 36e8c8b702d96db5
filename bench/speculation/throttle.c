/* Loaded before a program (LD_PRELOAD). All processes together write at most THROTTLE_BYTES a second to files below
 * THROTTLE_BELOW, in the order of their calls. The file THROTTLE_CLOCK holds the time at which the device is free
 * again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *free_at; /* nanoseconds of the monotonic clock; NULL: nothing is held back */
static double ns_a_byte;
static const char *below;

__attribute__((constructor)) static void begin(void) {
  const char *clock = getenv("THROTTLE_CLOCK"), *rate = getenv("THROTTLE_BYTES");
  below = getenv("THROTTLE_BELOW");
  int file = clock && rate && below ? open(clock, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0 || ftruncate(file, sizeof *free_at) != 0) return;
  void *shared = mmap(NULL, sizeof *free_at, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  ns_a_byte = 1e9 / atof(rate);
  free_at = shared == MAP_FAILED ? NULL : shared;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int is_below(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  return strncmp(path, below, strlen(below)) == 0;
}

static void hold_back(int file, size_t bytes) {
  if (!free_at || !is_below(file)) return;
  int64_t from = *free_at, to, cost = (int64_t)(ns_a_byte * (double)bytes);
  do {
    int64_t begin = now();
    to = (from > begin ? from : begin) + cost;
  } while (!__atomic_compare_exchange_n((int64_t *)free_at, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  struct timespec until = {to / 1000000000, to % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0);
}

typedef ssize_t pwrite_call(int, const void *, size_t, off_t);

ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset) {
  static pwrite_call *real;
  if (!real) real = (pwrite_call *)dlsym(RTLD_NEXT, "pwrite64");
  hold_back(file, count);
  return real(file, bytes, count, offset);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) { return pwrite64(file, bytes, count, offset); }
