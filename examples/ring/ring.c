#include <mainstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 1000000
#define STEPS 1000

typedef struct part {
  int rank, low, high; /* this rank, and its neighbours */
  uint64_t start, size;
  double *cells; /* with a ghost at both ends */
} part;

/* Makes the part of this rank ready: at the beginning, and after each failure. */
static int layout(mainstay_session *session, void *context) {
  part *p = context;
  uint64_t cells = CELLS, stored, ghost = 1;
  int ranks;
  MPI_Comm workers = mainstay_mpi_comm(session); /* a new one after each failure */
  MPI_Comm_size(workers, &ranks);
  MPI_Comm_rank(workers, &p->rank);
  p->low = (p->rank + ranks - 1) % ranks;
  p->high = (p->rank + 1) % ranks;
  p->start = cells * p->rank / ranks;
  p->size = cells * (p->rank + 1) / ranks - p->start;
  stored = p->size + 2;
  free(p->cells);
  p->cells = calloc(stored, sizeof *p->cells);
  for (uint64_t i = 0; i < p->size; i++) p->cells[i + 1] = (double)((p->start + i) % 1000);
  return mainstay_protect_within(session, "cells", p->cells, MAINSTAY_F64, 1, &p->size, &stored, &ghost, &cells,
                                 &p->start);
}

static int step(mainstay_session *session, uint64_t number, int *over, void *context) {
  part *p = context;
  double *cells = p->cells, before;
  MPI_Request coming[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Comm workers = mainstay_mpi_comm(session);
  if (number == STEPS) {
    *over = 1;
    return MAINSTAY_OK;
  }
  /* Neither by MPI_Sendrecv nor MPI_Isend: those of Open MPI 5.0 can crash in a rank that hears in them that others
   * recover. */
  if (MPI_Irecv(&cells[p->size + 1], 1, MPI_DOUBLE, p->high, 0, workers, &coming[0]) != MPI_SUCCESS ||
      MPI_Irecv(&cells[0], 1, MPI_DOUBLE, p->low, 1, workers, &coming[1]) != MPI_SUCCESS ||
      MPI_Send(&cells[1], 1, MPI_DOUBLE, p->low, 0, workers) != MPI_SUCCESS ||
      MPI_Send(&cells[p->size], 1, MPI_DOUBLE, p->high, 1, workers) != MPI_SUCCESS ||
      MPI_Waitall(2, coming, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
    return MAINSTAY_GROUP_FAILED; /* all ranks that are left go back to the newest revision */
  before = cells[0];
  for (uint64_t i = 1; i <= p->size; i++) {
    double mine = cells[i];
    cells[i] = (before + 2 * mine + cells[i + 1]) / 4;
    before = mine;
  }
  return MAINSTAY_OK;
}

int main(int argc, char **argv) {
  part p = {0};
  mainstay_session *session;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  options.every_steps = 100;

  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a rank that is killed has said all that it printed */
  MPI_Init(&argc, &argv);
  mainstay_status status = mainstay_open_mpi(MPI_COMM_WORLD, "space", &options, &session);
  if (status == MAINSTAY_NOT_NEEDED) return mainstay_mpi_finalize(0); /* a spare, and the job has ended */
  if (status == MAINSTAY_OK) status = mainstay_run(session, layout, step, &p);
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "%s: %s\n", mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (p.rank == 0) printf("the first cell is %.17g\n", p.cells[1]);

  mainstay_close(session);
  free(p.cells);
  return mainstay_mpi_finalize(0);
}
