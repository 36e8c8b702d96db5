/* The cost of opening a space, by ranks, items and revisions kept: the program of the benchmark `opening`. Prints a
 * line of JSON for each measurement, with a value for each rank; opening.py turns them into rows.
 *
 *     opening empty
 *     opening open KEEP ITEMS ROUNDS DIRECTORY */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <mainstay_mpi.h>

#include "process.h"
#include "rounds.h"
#include "stop.h"

#define ITEM_BYTES 64
#define NAME_BYTES 32
#define REDUCTIONS 32
#define REDUCED 8 /* words */

typedef struct program {
  const char *directory;
  uint32_t keep;
  size_t items;
  char *names;
  unsigned char *bytes;
  mainstay_session *session;
} program;

/* Returns when the space was open, of the clock now(). */
static double open_space(program *p) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  options.keep = p->keep;
  must(mainstay_open_mpi(MPI_COMM_WORLD, p->directory, &options, &p->session), "open the space");
  double opened = now();
  for (size_t item = 0; item < p->items; item++)
    must(mainstay_protect(p->session, p->names + item * NAME_BYTES, p->bytes + item * ITEM_BYTES, ITEM_BYTES),
         "protect an item");
  return opened;
}

static void close_space(program *p) { must(mainstay_close(p->session), "close the space"); }

/* As many revisions as are kept. */
static void save(program *p) {
  open_space(p);
  for (uint32_t revision = 0; revision < p->keep; revision++) {
    memset(p->bytes, (int)revision + 1, p->items * ITEM_BYTES);
    must(mainstay_checkpoint(p->session, NULL), "checkpoint");
    must(mainstay_wait(p->session), "wait");
  }
  close_space(p);
}

static void reduce(int round) {
  static const char *const names[] = {"seconds"};
  uint64_t words[REDUCED] = {0};
  double started = start_together();
  for (int i = 0; i < REDUCTIONS; i++)
    MPI_Allreduce(MPI_IN_PLACE, words, REDUCED, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  double seconds = now() - started;
  print("allreduces", round, 1, names, &seconds);
}

static void come_back(program *p, int round) {
  static const char *const names[] = {"seconds", "restore"};
  mainstay_restored restored;
  double started = start_together();
  double opened = open_space(p);
  meet();
  double restoring = now();
  must(mainstay_restore(p->session, &restored), "restore");
  const double values[] = {opened - started, now() - restoring};
  if (restored.revision != p->keep || p->bytes[0] != p->keep)
    stop("revision %llu was restored", (unsigned long long)restored.revision);
  close_space(p);
  print("open", round, sizeof values / sizeof *values, names, values);
}

int main(int argc, char **argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the job ends with mpiexec */
  MPI_Init(&argc, &argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc == 6 && strcmp(argv[1], "open") == 0) {
    program p = {.keep = (uint32_t)atoi(argv[2]), .items = (size_t)atol(argv[3]), .directory = argv[5]};
    p.names = touched(p.items * NAME_BYTES);
    p.bytes = touched(p.items * ITEM_BYTES);
    for (size_t item = 0; item < p.items; item++) snprintf(p.names + item * NAME_BYTES, NAME_BYTES, "item-%zu", item);
    save(&p);
    for (int round = -1; round < atoi(argv[4]); round++) {
      meet();
      reduce(round);
      come_back(&p, round);
    }
  } else if (argc != 2 || strcmp(argv[1], "empty") != 0) {
    stop("usage: opening empty | open KEEP ITEMS ROUNDS DIRECTORY");
  }
  MPI_Finalize();
  return 0;
}
