/* `tables` with calls of Mainstay, in the space BENCH_SPACE. Prints the time of a restore. */
#include "tables.h"

#include <mainstay_mpi.h>
#include <stdio.h>

static mainstay_session *session;
static int *step_of;

static void must(mainstay_status status, const char *doing) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "%s: %s: %s\n", doing, mainstay_status_name(status), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int tables_begin(double *tables, size_t bytes, int *step) {
  mainstay_restored restored;
  double start;
  int rank;
  step_of = step;
  must(mainstay_open_mpi(MPI_COMM_WORLD, getenv("BENCH_SPACE"), NULL, &session), "open the space");
  must(mainstay_protect(session, "step", step, sizeof *step), "protect the step");
  must(mainstay_protect(session, "tables", tables, bytes), "protect the tables");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  start = MPI_Wtime();
  must(mainstay_restore(session, &restored), "restore");
  if (!restored.revision) return 0;
  if (rank == 0) printf("{\"side\": \"restored\", \"seconds\": %.9f}\n", MPI_Wtime() - start), fflush(stdout);
  return 1;
}

void tables_pause(void) {
  int due = 0;
  must(mainstay_due(session, (uint64_t)*step_of, &due), "ask whether a checkpoint is due");
  if (due) must(mainstay_checkpoint(session, NULL), "save");
}

/* Saves the end, as ranks in slots do. */
void tables_end(void) {
  must(mainstay_checkpoint(session, NULL), "save the end");
  must(mainstay_close(session), "close");
}
