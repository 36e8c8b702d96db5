/* One rank is lost to an exception of its own, or leaves; the others are in a call of MPI that it never makes.
 *
 *     leaves SPACE throw|leave|nothing|both */
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <mainstay_mpi.hpp>

constexpr int LEAVES = 1;

static void run(const char *space, const char *what, int rank) {
  std::vector<double> state(300000, rank);
  auto session = mainstay::open(MPI_COMM_WORLD, space);
  session.protect("state", state);
  const auto restored = session.restore();
  if (rank == 0) std::printf("restored %d, %g\n", static_cast<int>(restored.revision), state.back());
  if (!std::strcmp(what, "nothing")) return;
  for (int i = 0; i < 2; i++) {
    state.back() += 1;
    session.checkpoint();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!std::strcmp(what, "both")) throw std::runtime_error("all");
  if (rank == LEAVES && !std::strcmp(what, "throw")) throw std::runtime_error("alone");
  if (rank == LEAVES) {
    session.leave();
    if (session.is_open()) MPI_Abort(MPI_COMM_WORLD, 4);
    throw std::runtime_error("left");
  }
  int never = 0;
  MPI_Bcast(&never, 1, MPI_INT, LEAVES, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    run(argv[1], argv[2], rank);
  } catch (const std::runtime_error &error) {
    std::printf("caught %s\n", error.what());
    if (std::strcmp(argv[2], "both")) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
