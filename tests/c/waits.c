/* Waits for one level while another is held up.
 *
 *     waits SPACE HELD
 *
 * The program makes and removes the file HELD; while it exists, writes to the space are held. The program waits for the
 * second revision in memory while the file exists, and in the space afterwards. Then the job ends without closing, with
 * 5. */
#include <stdio.h>
#include <unistd.h>

#include "mainstay_mpi.h"

static void check(mainstay_status status, const char *what) {
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "waits: %s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
}

int main(int argc, char **argv) {
  static double state[30000];
  int rank;
  mainstay_session *session;
  FILE *file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) return 2;
  check(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session), "open");
  check(mainstay_protect(session, "state", state, sizeof state), "protect");
  check(mainstay_checkpoint(session, NULL), "checkpoint");
  check(mainstay_wait(session), "wait");
  if (rank == 0 && (file = fopen(argv[2], "w"))) fclose(file);
  MPI_Barrier(MPI_COMM_WORLD);
  state[7] = 1;
  check(mainstay_checkpoint(session, NULL), "checkpoint");
  check(mainstay_progress(session), "progress");
  check(mainstay_wait_for(session, "memory"), "wait for memory");
  if (access(argv[2], F_OK) != 0) MPI_Abort(MPI_COMM_WORLD, 4);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) remove(argv[2]);
  check(mainstay_wait_for(session, "space"), "wait for pfs");
  MPI_Abort(MPI_COMM_WORLD, mainstay_wait_for(session, "disk") == MAINSTAY_INVALID_ARGUMENT ? 5 : 6);
  return 0;
}
