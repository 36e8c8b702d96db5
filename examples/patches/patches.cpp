// Patches of a grid, each as large as it has become: patches STEPS
//
// They are written one after another into a stream, and read back from it.
#include <mainstay_mpi.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

using patches = std::array<std::vector<double>, 4>;
constexpr std::uint64_t cells_max = 10000;

// One step of the simulation, after which one patch is larger.
static void advance(patches &all, std::uint64_t step, int rank) {
  for (std::size_t p = 0; p < all.size(); p++)
    for (std::size_t i = 0; i < all[p].size(); i++) all[p][i] = 0.5 * all[p][i] + rank + static_cast<double>(p + i);
  auto &grows = all[step % all.size()];
  for (int i = 0; i < 10 && grows.size() < cells_max; i++) grows.push_back(static_cast<double>(step));
}

// ANCHOR: save
static void save(mainstay::session &session, const patches &all) {
  session.begin(all.size() * (1 + cells_max) * 8); // the most that it can ever become: the first one sizes the space
  std::uint64_t at = 0;
  for (const auto &patch : all) {
    const std::uint64_t cells = patch.size();
    session.write("patches", at, &cells, sizeof cells);
    session.write("patches", at + sizeof cells, patch);
    at += sizeof cells + cells * sizeof(double);
  }
  session.checkpoint(); // adds what is protected
}
// ANCHOR_END: save

// ANCHOR: load
static void load(mainstay::session &session, patches &all) {
  std::uint64_t at = 0;
  for (auto &patch : all) {
    std::uint64_t cells = 0;
    at += session.read("patches", at, &cells, sizeof cells);
    patch.resize(cells);
    at += session.read("patches", at, patch);
  }
}
// ANCHOR_END: load

static void run(std::uint64_t steps) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  patches all;
  std::uint64_t step = 0;
  auto session = mainstay::open(MPI_COMM_WORLD, "space");
  session.protect("step", step);
  if (session.restore()) load(session, all);
  if (rank == 0) std::printf("from step %llu\n", static_cast<unsigned long long>(step));

  while (step < steps) {
    advance(all, step, rank);
    step++;
    if (step % 10 == 0) save(session, all);
  }
  session.close();
  double sum = 0;
  for (const auto &patch : all)
    for (double value : patch) sum += value;
  if (rank == 0) std::printf("step %llu, sum %.17g\n", static_cast<unsigned long long>(step), sum);
}

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  MPI_Init(&argc, &argv);
  try {
    run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100);
  } catch (const mainstay::error &error) {
    std::fprintf(stderr, "%s: %s\n", error.status_name(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
