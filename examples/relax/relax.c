/* Heat on a ring, by implicit steps: each iterates until the solution changes no more. The solver looks at no message's
 * errors, and could not go on after one: its sums would be wrong, and its loop might never end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "messages.h"

#define CELLS 3000
#define STEPS 20

typedef struct part {
  int rank, size;
  uint64_t start;
  double *cells, *old, *next; /* with a ghost at both ends */
} part;

static double *array(double *before, int size) {
  free(before);
  return calloc((size_t)size + 2, sizeof *before);
}

/* Makes the part of this rank ready: at the beginning, and after each failure. */
static int layout(mainstay_session *session, void *context) {
  part *p = context;
  uint64_t cells = CELLS, size, stored, ghost = 1;
  int ranks, status = messages_begin(session, &p->rank, &ranks);
  if (status != MAINSTAY_OK) return status;
  p->start = cells * p->rank / ranks;
  size = cells * (p->rank + 1) / ranks - p->start;
  stored = size + 2;
  p->size = (int)size;
  p->cells = array(p->cells, p->size);
  p->old = array(p->old, p->size);
  p->next = array(p->next, p->size);
  for (uint64_t i = 0; i < size; i++) p->cells[i + 1] = (double)((p->start + i) % 1000);
  return mainstay_protect_within(session, "cells", p->cells, MAINSTAY_F64, 1, &size, &stored, &ghost, &cells,
                                 &p->start);
}

/* ANCHOR: solve */
static double sweep(part *p) {
  double most = 0;
  messages_exchange(p->cells, p->size);
  for (int i = 1; i <= p->size; i++) {
    p->next[i] = (p->old[i] + p->cells[i - 1] + p->cells[i + 1]) / 3;
    most = fmax(most, fabs(p->next[i] - p->cells[i]));
  }
  memcpy(p->cells + 1, p->next + 1, p->size * sizeof *p->cells);
  return most;
}

static void solve(part *p) {
  memcpy(p->old, p->cells, (p->size + 2) * sizeof *p->old);
  while (messages_max(sweep(p)) > 1e-6);
}
/* ANCHOR_END: solve */

/* ANCHOR: step */
static int step(mainstay_session *session, uint64_t number, int *over, void *context) {
  (void)session;
  if (number == STEPS) {
    *over = 1;
    return MAINSTAY_OK;
  }
  if (setjmp(messages_failed)) return MAINSTAY_GROUP_FAILED; /* all ranks that are left go back */
  solve(context);
  return MAINSTAY_OK;
}
/* ANCHOR_END: step */

int main(int argc, char **argv) {
  part p = {0};
  mainstay_session *session;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  options.every_steps = 5;

  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a rank that is killed has said all that it printed */
  MPI_Init(&argc, &argv);
  mainstay_status status = mainstay_open_mpi(MPI_COMM_WORLD, "space", &options, &session);
  if (status == MAINSTAY_NOT_NEEDED) return mainstay_mpi_finalize(0); /* a spare, and the job has ended */
  if (status == MAINSTAY_OK) status = mainstay_run(session, layout, step, &p);
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "%s: %s\n", mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (p.rank == 0) printf("the first cell is %.12f\n", p.cells[1]);

  mainstay_close(session);
  messages_end();
  free(p.cells), free(p.old), free(p.next);
  return mainstay_mpi_finalize(0);
}
