// An MPI program in C++ that knows nothing of Mainstay: slots STEPS HOLD FILE. It keeps its state in containers,
// statics and thread-local memory, and throws exceptions.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

static std::map<int, std::vector<double>> table;
static thread_local double carried = 0;

struct odd : std::runtime_error {
  using std::runtime_error::runtime_error;
};

static double next(int rank, int step) {
  if (step % 3 == rank % 3) throw odd(std::to_string(step));
  return carried + step * 1e-3;
}

static void hold(const char *file, int rank) {
  int goes_on = 0;
  if (rank == 0) std::cout << "hold" << std::endl;
  while (!goes_on) {
    if (rank == 0) goes_on = access(file, F_OK) == 0;
    if (!goes_on) usleep(1000);
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

int main(int count, char **arguments) {
  if (count < 4) return 2;
  MPI_Init(&count, &arguments);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int steps = std::stoi(arguments[1]), at = std::stoi(arguments[2]);
  for (int step = 0; step < steps; step++) {
    double mine = 0, all = 0;
    try {
      mine = next(rank, step);
    } catch (const odd &error) {
      mine = std::stod(error.what()) * 1e-4;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    carried = 0.5 * carried + all;
    table[step % 10].push_back(carried);
    if (step == at) hold(arguments[3], rank);
  }
  double sum = 0, total = 0;
  for (const auto &[key, values] : table)
    for (double value : values) sum += value * (key + 1);
  MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::cout << "sum " << std::setprecision(17) << total << " of " << ranks << " ranks" << std::endl;
  MPI_Finalize();
}
