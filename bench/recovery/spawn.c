/* The time of MPI alone to start one more process and to make a communicator of it and all ranks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Comm parent, between, all;
  MPI_Info info;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Info_create(&info);
    MPI_Info_set(info, "map_by", ":OVERSUBSCRIBE");
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime();
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(between, 0, &all);
    took = MPI_Wtime() - took;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) printf("{\"seconds\": %.6f}\n", took);
    MPI_Info_free(&info);
  } else {
    between = parent;
    MPI_Intercomm_merge(between, 1, &all);
  }
  MPI_Barrier(all);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&between);
  MPI_Finalize();
  return 0;
}
