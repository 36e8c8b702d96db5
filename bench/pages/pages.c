/* A program that writes some pages of its memory between two checkpoints, each side in turns in one run. Prints a
 * line of JSON for each measurement, a value for each rank; pages.py makes rows of them.
 *
 *     pages save|restart DIRECTORY BYTES PART STRETCH ROUNDS SIDE...
 *
 * PART of the pages are written in each round, in stretches of STRETCH pages at random places. If PART is 1, the
 * program sweeps all memory after each save, which may still be under way. A SIDE is copy, scan, list or clone, or
 * NAME:KEY=VALUE,... for a session with these settings. Mainstay allocates the memory of huge_NAME. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "field.h"
#include "process.h"
#include "reads.h"
#include "rounds.h"
#include "side.h"
#include "stop.h"

#define SIDES_MAX 16
#define ALLOCATED "huge_" /* prefix of the sides with memory from Mainstay */
#define WARM_UPS 4        /* a space has room for three revisions: after as many, every block has been written before */

typedef struct program {
  side sides[SIDES_MAX];
  size_t count, bytes;
  double part;
  uint32_t *dirty;
  size_t dirty_count, stretch; /* dirty_count: whole stretches */
  const char *directory;
  int rank, rounds;
} program;

static const kind *find_kind(const char *name) {
  static const kind *const kinds[] = {&copy_kind, &scan_kind, &list_kind, &clone_kind};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
  stop("no side: %s", name);
}

static void add(program *p, char *word) {
  char *settings = strchr(word, ':');
  if (settings) *settings++ = 0;
  if (p->count == SIDES_MAX) stop("more than %d sides", SIDES_MAX);
  side *side = &p->sides[p->count++];
  side->kind = settings ? &mainstay_kind : find_kind(word);
  side->name = word, side->settings = settings, side->directory = p->directory;
  side->bytes = p->bytes, side->dirty = p->dirty, side->dirty_count = p->dirty_count;
  side->is_allocated = strncmp(word, ALLOCATED, strlen(ALLOCATED)) == 0;
  if (!side->is_allocated) side->data = touched(p->bytes);
}

static uint64_t sum(const side *side) {
  uint64_t sum = 0;
  const uint64_t *words = (const uint64_t *)side->data;
  for (size_t i = 0; i < side->bytes / sizeof *words; i++) sum = sum * 31 + words[i];
  return sum;
}

/* Chooses the pages that a round writes: a part of all pages, in stretches. The memory is cut in equal shares, and each
 * stretch has a random place in its share. */
static void choose(program *p, int round) {
  size_t pages = p->bytes / PAGE_BYTES, stretches = p->dirty_count / p->stretch;
  uint64_t random = (uint64_t)(round + 1000) * 2654435761u + (uint64_t)p->rank;
  for (size_t i = 0; i < stretches; i++) {
    size_t from = i * pages / stretches, to = (i + 1) * pages / stretches;
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t first = from + (random >> 33) % (to - from - p->stretch + 1);
    for (size_t k = 0; k < p->stretch; k++) p->dirty[i * p->stretch + k] = (uint32_t)(first + k);
  }
}

/* Writes one word in each chosen page; returns the seconds. */
static double write_some(side *side, int round) {
  double begun = now();
  for (size_t i = 0; i < side->dirty_count; i++)
    *(uint64_t *)(side->data + side->dirty[i] * PAGE_BYTES) = (uint64_t)round * 1000003 + i;
  return now() - begun;
}

/* Writes all words; returns the seconds. */
static double sweep(side *side) {
  uint64_t *words = (uint64_t *)side->data;
  double begun = now();
  for (size_t i = 0; i < side->bytes / sizeof *words; i++) words[i] += 1 + i;
  return now() - begun;
}

/* Bytes that this process has written to disks so far. */
static double stored(void) {
  char line[100];
  unsigned long long bytes = 0;
  FILE *told = fopen("/proc/self/io", "r");
  while (told && fgets(line, sizeof line, told))
    if (sscanf(line, "write_bytes: %llu", &bytes) == 1) break;
  if (told) fclose(told);
  return (double)bytes;
}

static void save_one(program *p, side *side, int round) {
  static const char *const names[] = {"write", "perceived", "sweep", "durable", "stored"};
  bool sweeps = p->part >= 1;
  double written = sweeps ? 0 : write_some(side, round);
  uint64_t all = sum(side); /* gives all sides the same caches before the save */
  if (side->session) side->sum = all;
  settle(p->directory, SPACE);
  double before = stored(), t1 = start_together();
  t1 = now();
  side->kind->save(side);
  double perceived = now() - t1;
  double swept = sweeps ? sweep(side) : 0;
  double durable = side->kind->wait ? side->kind->wait(side) : perceived;
  meet();
  const double values[] = {written, perceived, swept, durable, stored() - before};
  print(side->name, round, sizeof values / sizeof *values, names, values);
}

static void save(program *p) {
  for (side *side = p->sides; side < p->sides + p->count; side++) {
    side->kind->open(side);
    field_fill((uint64_t *)side->data, p->bytes / sizeof(uint64_t), p->rank, 1);
  }
  for (int round = -WARM_UPS; round < p->rounds; round++) {
    size_t order[SIDES_MAX];
    shuffled(order, p->count, round);
    choose(p, round);
    for (size_t i = 0; i < p->count; i++) save_one(p, &p->sides[order[i]], round);
  }
  for (side *side = p->sides; side < p->sides + p->count; side++) side->kind->close(side);
}

static double read_bare(const program *p, const reads *read) {
  settle(p->directory, NULL);
  start_together();
  return reads_again(read);
}

/* Opens and restores each side as a new job does, with an empty page cache. Then reads the same bytes without Mainstay.
 * The first round prints nothing: it records which bytes a restart reads. */
static void restart(program *p) {
  static const char *const names[] = {"opened", "restored", "reads"};
  reads *read = calloc(p->count, sizeof *read);
  if (!read) stop("no memory");
  for (int round = -1; round < p->rounds; round++) {
    size_t order[SIDES_MAX];
    shuffled(order, p->count, round);
    for (size_t i = 0; i < p->count; i++) {
      side *side = &p->sides[order[i]];
      if (side->data) memset(side->data, 0, side->bytes);
      double bare = round % 2 == 1 ? read_bare(p, &read[order[i]]) : 0;
      settle(p->directory, NULL);
      double begun = start_together();
      reads_record(round < 0 ? &read[order[i]] : NULL, p->directory);
      session_open(side);
      double opened = now() - begun;
      mainstay_restored found;
      must(mainstay_restore(side->session, &found), "restore");
      double restored = now() - begun;
      reads_record(NULL, p->directory);
      if (!found.revision || found.skipped || sum(side) != side->sum)
        stop("%s: revision %llu differs from the saved memory", side->name, (unsigned long long)found.revision);
      meet();
      side->kind->close(side);
      /* The second reader finds more of the data in the caches of a remote disk; so the order alternates. */
      if (round >= 0 && round % 2 == 0) bare = read_bare(p, &read[order[i]]);
      const double values[] = {opened, restored, bare};
      if (round >= 0) print(side->name, round, sizeof values / sizeof *values, names, values);
    }
  }
  for (size_t i = 0; i < p->count; i++) reads_forget(&read[i]);
  free(read);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the job ends with mpiexec */
  if (argc < 8) stop("usage: pages save|restart DIRECTORY BYTES PART STRETCH ROUNDS SIDE...");
  program p = {.directory = argv[2],
               .bytes = strtoull(argv[3], NULL, 10),
               .part = atof(argv[4]),
               .stretch = strtoull(argv[5], NULL, 10),
               .rounds = atoi(argv[6])};
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  size_t pages = p.bytes / PAGE_BYTES;
  p.bytes = pages * PAGE_BYTES;
  if (p.stretch == 0) stop("pages: a stretch of %s pages", argv[5]);
  p.dirty_count = (size_t)((double)pages * p.part / (double)p.stretch + 0.5) * p.stretch;
  p.dirty = calloc(pages + 1, sizeof *p.dirty);
  if (!p.dirty || p.dirty_count == 0 || p.dirty_count > pages || p.rounds < 1)
    stop("pages: nothing to measure with %s bytes, a part of %s in stretches of %s pages and %s rounds", argv[3],
         argv[4], argv[5], argv[6]);
  for (int i = 7; i < argc; i++) add(&p, argv[i]);
  if (strcmp(argv[1], "save") == 0)
    save(&p);
  else if (strcmp(argv[1], "restart") == 0)
    restart(&p);
  else
    stop("pages: no mode %s", argv[1]);
  for (size_t i = 0; i < p.count; i++)
    if (!p.sides[i].is_allocated) munmap(p.sides[i].data, p.bytes);
  free(p.dirty);
  MPI_Finalize();
  return 0;
}
