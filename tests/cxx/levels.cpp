/* c/levels.c in C++: two time levels in vectors, which are swapped, one behind a std::unique_ptr and one behind a plain
 * pointer, and a vector that grows.
 *
 *     levels SPACE FROM TO follow|address
 */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <mainstay_mpi.hpp>

static constexpr std::size_t cells = 30000;

template <class Field> static double sum(const Field &values, std::size_t count) {
  double all = 0;
  for (std::size_t i = 0; i < count; i++) all += values[i] * static_cast<double>(i % 7 + 1);
  return all;
}

static void run(const char *space, std::uint64_t from, std::uint64_t to, bool follows) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::uint64_t step = 0;
  std::vector<double> cur(cells), prev(cells), next(cells), list;
  auto owned = std::make_unique<double[]>(cells), other = std::make_unique<double[]>(cells);
  std::vector<double> first(cells), second(cells);
  double *plain = first.data(), *spare = second.data();
  for (std::size_t i = 0; i < cells; i++) cur[i] = static_cast<double>((i * 37) % 101 + static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < cells; i++) prev[i] = static_cast<double>((i * 17) % 103);
  if (!follows) list.resize(from); /* a restore resizes a followed list */

  auto session = mainstay::open(MPI_COMM_WORLD, space);
  session.protect("step", step);
  session.protect("cur", cur);
  session.protect("prev", prev);
  session.protect("owned", owned.get(), {cells});
  session.protect("plain", plain, {cells / 4, std::size_t{4}});
  session.protect("list", list);
  if (follows) {
    session.follow("cur", cur);
    session.follow("prev", prev);
    session.follow("owned", owned);
    session.follow("plain", plain);
    session.follow("list", list);
  }
  session.restore();
  if (step != from) MPI_Abort(MPI_COMM_WORLD, 5);

  while (step < to) {
    for (std::size_t i = 1; i < cells - 1; i++)
      next[i] = 2 * cur[i] - prev[i] + 0.25 * (cur[i - 1] - 2 * cur[i] + cur[i + 1]);
    next.front() = cur.front(), next.back() = cur.back();
    std::swap(prev, cur), std::swap(cur, next);
    for (std::size_t i = 0; i < cells; i++) other[i] = owned[i] + cur[i];
    owned.swap(other);
    for (std::size_t i = 0; i < cells; i++) spare[i] = 0.5 * plain[i] + prev[i];
    std::swap(plain, spare);
    step++;
    list.push_back(cur[cells / 2]);
    if (!follows) session.move("list", list);
    session.checkpoint();
  }
  session.close();
  std::printf("rank %d: %.17g %.17g %.17g %.17g %.17g\n", rank, sum(cur, cells), sum(prev, cells), sum(owned, cells),
              sum(plain, cells), sum(list, list.size()));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc < 5) return 2;
  try {
    run(argv[1], std::strtoull(argv[2], nullptr, 0), std::strtoull(argv[3], nullptr, 0),
        argv[4] == std::string("follow"));
  } catch (const mainstay::error &error) {
    std::fprintf(stderr, "levels: %s: %s\n", error.status_name(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
