/* Sessions on other groups than all ranks.
 *
 *     groups MODE DIRECTORY STEPS [STEP]
 *
 * With a STEP, the last rank kills itself there, after the checkpoint of that step. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <mainstay_mpi.h>

enum { CELLS = 30000 };

/* One code: a state of its own, saved in a space of its own. */
typedef struct code {
  char name[64];
  mainstay_session *session;
  uint64_t step, every, cells[CELLS];
} code;

static int rank, ranks;

static void must(mainstay_status status, const char *doing) {
  if (status == MAINSTAY_OK) return;
  printf("WRONG: rank %d: %s: %s\n", rank, doing, mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static uint64_t cell(const code *c, uint64_t index) {
  return (c->step * 64 + (uint64_t)rank) * CELLS + index + (uint64_t)c->name[0] * UINT64_C(1000000007);
}

static void advance(code *c) {
  c->step++;
  for (uint64_t i = 0; i < CELLS; i++) c->cells[i] = cell(c, i);
}

/* Opens the space DIRECTORY/NAME on a communicator that is freed at once, and restores. */
static void code_open(code *c, MPI_Comm comm, const char *directory, const char *name, uint64_t every) {
  char path[4096];
  MPI_Comm passing;
  mainstay_restored restored = {0};
  snprintf(c->name, sizeof c->name, "%s", name);
  snprintf(path, sizeof path, "%s/%s", directory, name);
  c->step = 0;
  c->every = every;
  MPI_Comm_dup(comm, &passing);
  must(mainstay_open_mpi(passing, path, NULL, &c->session), "open");
  MPI_Comm_free(&passing);
  must(mainstay_protect(c->session, "step", &c->step, sizeof c->step), "protect");
  must(mainstay_protect_array(c->session, "cells", c->cells, MAINSTAY_U64, 1, &(uint64_t){CELLS}), "protect");
  must(mainstay_restore(c->session, &restored), "restore");
  for (uint64_t i = 0; i < CELLS && restored.revision; i++)
    if (c->cells[i] != cell(c, i)) {
      printf("WRONG: rank %d: %s: cell %" PRIu64 " is not of step %" PRIu64 "\n", rank, name, i, c->step);
      MPI_Abort(MPI_COMM_WORLD, 9);
    }
  printf("rank %d: %s: revision %" PRIu64 ", step %" PRIu64 "\n", rank, name, restored.revision, c->step);
}

static void code_step(code *c) {
  advance(c);
  if (c->step % c->every == 0) must(mainstay_checkpoint(c->session, NULL), "checkpoint");
}

static void die_at(uint64_t step, const code *c) {
  if (c->step == step && rank == ranks - 1) raise(SIGKILL);
}

int main(int argc, char **argv) {
  static code one, two;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  static char line[BUFSIZ]; /* of its own: else a line is written in pieces, and those of the ranks mix */
  setvbuf(stdout, line, _IOLBF, sizeof line);
  if (argc < 4) return 2;
  const char *mode = argv[1], *directory = argv[2];
  const uint64_t steps = strtoull(argv[3], NULL, 10), fatal = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
  bool both = false;

  if (strcmp(mode, "coupled") == 0) {
    /* Two codes on half of the ranks each; the order of ranks is turned round. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, 2 * rank / ranks, -rank, &half);
    code_open(&one, half, directory, 2 * rank / ranks ? "air" : "sea", 5);
    MPI_Comm_free(&half);
  } else if (strcmp(mode, "self") == 0) {
    char name[32];
    snprintf(name, sizeof name, "rank-%d", rank);
    code_open(&one, MPI_COMM_SELF, directory, name, 5);
  } else if (strcmp(mode, "two") == 0) {
    both = true;
    code_open(&one, MPI_COMM_WORLD, directory, "often", 2);
    code_open(&two, MPI_COMM_WORLD, directory, "seldom", 5);
  } else if (strcmp(mode, "reopen") == 0) {
    code_open(&one, MPI_COMM_WORLD, directory, "again", 5);
    while (one.step < steps / 2) code_step(&one);
    must(mainstay_close(one.session), "close");
    memset(one.cells, 0, sizeof one.cells);
    code_open(&one, MPI_COMM_WORLD, directory, "again", 5);
  } else {
    return 2;
  }

  while (one.step < steps || (both && two.step < steps)) {
    if (one.step < steps) code_step(&one);
    if (both && two.step < steps) code_step(&two);
    die_at(fatal, &one);
  }
  must(mainstay_wait(one.session), "wait");
  must(mainstay_close(one.session), "close");
  if (both) must(mainstay_close(two.session), "close the other");
  MPI_Finalize();
  return 0;
}
