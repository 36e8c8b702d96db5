/* c/adopt.c in C++.
 *
 *     adopt SPACE STEPS [STEP]
 *
 * With a STEP, the last rank kills itself there. The result does not depend on it. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <mainstay_mpi.hpp>

static void run(const char *space, int steps, int fatal) {
  int rank = 0, ranks = 0, step = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<double> field(50000);
  auto session = mainstay::open(MPI_COMM_WORLD, space);
  session.protect("step", step);
  session.protect("field", field);
  session.restore();
  if (rank == 0) std::printf("from step %d\n", step);

  while (step < steps) {
    for (std::size_t i = 0; i < field.size(); i++) field[i] = 0.5 * field[i] + static_cast<double>(i) + rank;
    step++;
    if (step == fatal && rank == ranks - 1) std::raise(SIGKILL);
    if (step % 10 == 0) session.checkpoint();
  }
  session.close();

  double sum = 0;
  for (double value : field) sum += value;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("sum %.17g\n", sum);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  try {
    run(argv[1], std::atoi(argv[2]), argc > 3 ? std::atoi(argv[3]) : 0);
  } catch (const mainstay::error &error) {
    std::fprintf(stderr, "adopt: %s: %s\n", error.status_name(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
