/* A program that writes its process image in pieces; the sides take turns in one run. Prints a line of JSON for each
 * measurement, with a value for each rank; staging.py turns them into rows.
 *
 *     staging save|restart|memory DIRECTORY PIECES ROUNDS SIDE...
 *
 * PIECES is a file with their sizes. A SIDE is a kind, copy, disk, buffered, plain, plain_fsync or published, or
 * NAME:KEY=VALUE,... for a session with these settings. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "file.h"
#include "image.h"
#include "process.h"
#include "rounds.h"
#include "side.h"
#include "stop.h"

#define SIDES_MAX 32
#define WARM_UPS 4 /* a space has room for three revisions: after as many, every block has been written before */
#define EXPECTED ((uint64_t)1 << 20) /* the stamp that a restart restores */

typedef struct program {
  image image;
  side sides[SIDES_MAX];
  size_t count;
  const char *directory;
  int rounds;
} program;

static const kind *find_kind(const char *name) {
  static const kind *const kinds[] = {&copy_kind,  &disk_kind,        &buffered_kind,
                                      &plain_kind, &plain_fsync_kind, &published_kind};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
  stop("no side: %s", name);
}

static void add(program *p, char *word, int rank) {
  char *settings = strchr(word, ':');
  if (settings) *settings++ = 0;
  if (p->count == SIDES_MAX) stop("more than %d sides", SIDES_MAX);
  p->sides[p->count++] = (side){.kind = settings ? &mainstay_kind : find_kind(word),
                                .name = word,
                                .settings = settings,
                                .directory = p->directory,
                                .rank = rank};
}

static void open_all(program *p) {
  for (side *side = p->sides; side < p->sides + p->count; side++)
    if (side->kind->open) side->kind->open(side, &p->image);
}

static void close_all(program *p) {
  for (side *side = p->sides; side < p->sides + p->count; side++)
    if (side->kind->close) side->kind->close(side, &p->image);
}

static void save_one(program *p, side *side, int round) {
  static const char *const names[] = {"t1",   "t2",    "t3",     "communication", "buffer_wait",
                                      "copy", "other", "resume", "device_bytes"};
  saved saved = {0};
  if (side->kind->prepare) side->kind->prepare(side);
  /* The content of earlier revisions stays in the page cache, as between the checkpoints of a program. If it were
   * gone, stage direct would read each block that it writes in part. */
  settle(p->directory, SPACE);
  uint64_t before = process_device_reads();
  double start = start_together();
  double t1 = now();
  side->kind->save(side, &p->image, &saved);
  const mainstay_record *r = &saved.record;
  const double values[] = {t1 - start,
                           saved.t2 - start,
                           saved.t3 - start,
                           1e-9 * (double)r->communication_ns,
                           1e-9 * (double)r->buffer_wait_ns,
                           1e-9 * (double)r->copy_ns,
                           1e-9 * (double)r->other_ns,
                           1e-9 * (double)r->resume_ns,
                           (double)(process_device_reads() - before)};
  meet();
  print(side->name, round, sizeof values / sizeof *values, names, values);
}

static void restart_one(program *p, side *side, int round) {
  static const char *const names[] = {"t1", "opened", "rebuilt", "read", "device_bytes"};
  restored restored;
  if (!side->kind->restart) stop("%s: nothing to restart from", side->name);
  image_clear(&p->image);
  settle(p->directory, NULL);
  uint64_t before = process_device_reads();
  double start = start_together();
  double t1 = now();
  side->kind->restart(side, &p->image, &restored);
  const double values[] = {t1 - start, restored.opened - start, restored.rebuilt - start, restored.read - start,
                           (double)(process_device_reads() - before)};
  meet();
  print(side->name, round, sizeof values / sizeof *values, names, values);
  image_check(&p->image, EXPECTED);
  if (side->session) side->kind->close(side, &p->image);
}

/* The memory of the session: the largest resident size without shared memory, and the bytes in the folder of the
 * pools. */
static void memory(program *p) {
  static const char *const names[] = {"own", "pool"};
  process_reset_peak();
  uint64_t before = process_memory("VmRSS"), shared = process_memory("RssShmem");
  open_all(p);
  for (int round = 0; round < p->rounds; round++) {
    image_fill(&p->image, p->image.stamp + 1);
    save_one(p, p->sides, -1);
  }
  double peak = (double)process_memory("VmHWM") - (double)before;
  double seen = (double)process_memory("RssShmem") - (double)shared;
  const double values[] = {peak - seen, (double)file_blocks_below(getenv("MAINSTAY_POOL_DIRECTORY"))};
  print("memory", 0, sizeof values / sizeof *values, names, values);
  close_all(p);
}

static void take_turns(program *p, int round, void (*one)(program *p, side *side, int round)) {
  size_t order[SIDES_MAX];
  shuffled(order, p->count, round);
  for (size_t i = 0; i < p->count; i++) one(p, &p->sides[order[i]], round);
}

static void save_anew(program *p, side *side, int round) {
  /* Only a space changes after its first revisions. */
  if (round < -1 && side->kind != &mainstay_kind) return;
  image_fill(&p->image, p->image.stamp + 1);
  save_one(p, side, round);
}

/* Without rounds: saves only the revisions that a restart needs. */
static void save(program *p) {
  open_all(p);
  if (p->rounds == 0) {
    image_fill(&p->image, EXPECTED);
    take_turns(p, -1, save_one);
  }
  for (int round = -WARM_UPS; p->rounds && round < p->rounds; round++) take_turns(p, round, save_anew);
  close_all(p);
}

static void restarts(program *p) {
  for (side *side = p->sides; side < p->sides + p->count; side++)
    if (side->kind->open && side->kind != &mainstay_kind) side->kind->open(side, &p->image);
  for (int round = -1; round < p->rounds; round++) take_turns(p, round, restart_one);
}

int main(int argc, char **argv) {
  int rank;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the job ends with mpiexec */
  MPI_Init(&argc, &argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 6) stop("usage: staging save|restart|memory DIRECTORY PIECES ROUNDS SIDE...");
  program p = {.image = image_open(argv[3], rank), .directory = argv[2], .rounds = atoi(argv[4])};
  for (int i = 5; i < argc; i++) add(&p, argv[i], rank);

  if (strcmp(argv[1], "save") == 0)
    save(&p);
  else if (strcmp(argv[1], "restart") == 0)
    restarts(&p);
  else if (strcmp(argv[1], "memory") == 0 && p.count == 1)
    memory(&p);
  else
    stop("no mode: %s", argv[1]);

  image_close(&p.image);
  MPI_Finalize();
  return 0;
}
