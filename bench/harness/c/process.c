#define _GNU_SOURCE
#include "process.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "stop.h"

static uint64_t find(const char *path, const char *name) {
  char line[256];
  size_t length = strlen(name);
  unsigned long long value;
  FILE *file = fopen(path, "r");
  if (!file) stop_errno("open %s", path);
  while (fgets(line, sizeof line, file))
    if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %llu", &value) == 1) {
      fclose(file);
      return value;
    }
  stop("%s has no line %s", path, name);
}

void process_reset_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file || fputs("5", file) < 0 || fclose(file) != 0)
    stop_errno("reset the peak of memory through /proc/self/clear_refs");
}

uint64_t process_memory(const char *line) { return find("/proc/self/status", line) << 10; }

uint64_t process_device_reads(void) { return find("/proc/self/io", "read_bytes"); }

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *touched(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) stop_errno("map %zu bytes", bytes);
  memset(memory, 1, bytes);
  return memory;
}

double process_meet_memory(size_t bytes) {
  double started = now();
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) stop_errno("map %zu bytes", bytes);
  madvise(memory, bytes, MADV_HUGEPAGE);
  memset(memory, 1, bytes);
  double seconds = now() - started;
  munmap(memory, bytes);
  return seconds;
}
