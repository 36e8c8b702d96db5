/* Ranks that make no calls of MPI: rank 1 dies, and the others only ask, once a second, whether one has failed. */
#define _GNU_SOURCE
#include <mainstay_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ASKED_MAX 20

int main(int argc, char **argv) {
  mainstay_session *session;
  mainstay_restored restored;
  uint64_t one = 1, whole, at;
  double x = 0;
  int rank, ranks, asked = 0;
  const char *died = argv[2];
  (void)argc;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  whole = ranks, at = rank;
  if (mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session) ||
      mainstay_protect_box(session, "x", &x, MAINSTAY_F64, 1, &one, &whole, &at) ||
      mainstay_restore(session, &restored))
    MPI_Abort(MPI_COMM_WORLD, 1);
  while (asked < ASKED_MAX && mainstay_check(session) == MAINSTAY_OK) {
    if (rank == 1) {
      sleep(1);
      fclose(fopen(died, "w"));
      raise(SIGKILL);
    }
    sleep(1);
    asked += access(died, F_OK) == 0;
  }
  printf("rank %d has heard of it at check %d\n", rank, asked);
  if (mainstay_recover(session) || mainstay_close(session)) MPI_Abort(MPI_COMM_WORLD, 1);
  return mainstay_mpi_finalize(0);
}
