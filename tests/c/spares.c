/* Openings with spares, through the library.
 *
 *     spares MODE SPACE
 *
 * "calm": all close in order. "differ": the last rank has other settings. "dies": rank 1 is killed inside the opening.
 * The settings come from the environment. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <mainstay_mpi.h>

static int collectives_left = -1; /* until this process dies in one */

int MPI_Iallreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
  if (collectives_left >= 0 && collectives_left-- == 0) raise(SIGKILL);
  return PMPI_Iallreduce(mine, all, count, type, op, comm, request);
}

int main(int argc, char **argv) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  mainstay_session *session = NULL;
  mainstay_status status;
  int world_rank, world_ranks, rank, ranks, sum;
  MPI_Comm line;
  uint64_t step = 0;
  static char buffer[BUFSIZ];
  setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
  if (argc != 3) return 2;
  if (strcmp(argv[1], "differ") == 0 && world_rank == world_ranks - 1) mainstay_set(&options, "spares", "2");
  if (strcmp(argv[1], "dies") == 0 && world_rank == 1) collectives_left = 5;
  status = mainstay_open_mpi(MPI_COMM_WORLD, argv[2], &options, &session);
  if (status != MAINSTAY_OK) {
    printf("%s: %s\n", mainstay_status_name(status), mainstay_error_message());
    return mainstay_mpi_finalize(status == MAINSTAY_NOT_NEEDED ? 0 : 1);
  }
  MPI_Comm_rank(mainstay_mpi_comm(session), &rank);
  MPI_Comm_size(mainstay_mpi_comm(session), &ranks);
  MPI_Comm_dup(mainstay_mpi_comm(session), &line);
  if (mainstay_mpi_adopt(session, line) != MAINSTAY_OK || mainstay_mpi_has_failed(session))
    printf("WRONG: %s\n", mainstay_error_message());
  MPI_Comm_free(&line); /* it is not asked for any more */
  MPI_Comm_dup(mainstay_mpi_comm(session), &line);
  mainstay_mpi_adopt(session, line); /* outlives the session */
  sum = 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, mainstay_mpi_comm(session));
  if (mainstay_protect(session, "step", &step, sizeof step) || mainstay_checkpoint(session, NULL) || sum != ranks)
    printf("WRONG: %s\n", mainstay_error_message());
  status = mainstay_close(session);
  MPI_Comm_free(&line);
  printf("process %d: rank %d of %d: %s\n", world_rank, rank, ranks, mainstay_status_name(status));
  return mainstay_mpi_finalize(0);
}
