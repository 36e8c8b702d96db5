/* A program with addresses of the current run in its variables.
 *
 *     points SPACE [wrong]
 *
 * With `wrong` a part of its state is lost in a restart. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mainstay_mpi.h"

#define STEPS 60
#define CELLS 50

static mainstay_session *session;
/* It is protected by a name, and both point to it. */
static double *block, *inside;
/* Set in each start: memory that is not saved, a library's function, a variable of the program. */
static char *scratch;
static int (*written)(const char *, FILE *);
static long step, *counter;
int (*print)(const char *) = puts;
static double total;
/* Left out. */
static double forgotten;

static void check(mainstay_status status) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "%s\n", mainstay_error_message());
  exit(1);
}

int main(int argc, char **argv) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  int due, wrong = argc > 2;
  MPI_Init(&argc, &argv);
  options.every_steps = 10;
  block = calloc(CELLS, sizeof *block);
  check(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], &options, &session));
  check(mainstay_protect(session, "block", block, CELLS * sizeof *block));
  check(mainstay_leave_out(session, &forgotten, sizeof forgotten));
  check(mainstay_protect_globals(session));
  check(mainstay_restore(session, NULL));
  inside = block + 7, counter = &step, written = fputs;
  /* Large enough for a mapping of its own, and elsewhere where a start is not the first. */
  scratch = malloc((size_t)(1 << 20) + (size_t)step * 4096);
  while (step < STEPS) {
    block[step % CELLS] += 1.0 / (double)(1 + step);
    total += *block + (wrong ? forgotten : 0);
    forgotten++, ++*counter;
    usleep(4000);
    check(mainstay_due(session, (uint64_t)step, &due));
    if (due) check(mainstay_checkpoint(session, NULL));
  }
  print(scratch && *inside > 0 && written("", stdout) >= 0 ? "done" : "WRONG");
  check(mainstay_close(session));
  free(scratch), free(block);
  MPI_Finalize();
  return 0;
}
