/* c/waits.c in C++. */
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include <mainstay_mpi.hpp>

static void run(const char *space, const char *held) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<double> state(30000);
  auto session = mainstay::open(MPI_COMM_WORLD, space);
  session.protect("state", state);
  session.checkpoint();
  session.wait();
  if (rank == 0) std::ofstream{held};
  MPI_Barrier(MPI_COMM_WORLD);
  state[7] = 1;
  session.checkpoint();
  session.progress();
  session.tick();
  session.settled("state", 0, 8);
  if (session.speculation().early != 0) MPI_Abort(MPI_COMM_WORLD, 7);
  session.wait_for("memory");
  if (!std::filesystem::exists(held)) MPI_Abort(MPI_COMM_WORLD, 4);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::filesystem::remove(held);
  session.wait_for("space");
  try {
    session.wait_for("disk");
  } catch (const mainstay::error &error) {
    MPI_Abort(MPI_COMM_WORLD, error.status() == MAINSTAY_INVALID_ARGUMENT ? 5 : 6);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  try {
    run(argv[1], argv[2]);
  } catch (const mainstay::error &error) {
    std::fprintf(stderr, "waits: %s: %s\n", error.status_name(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  return 0;
}
