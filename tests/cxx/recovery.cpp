// A field on a ring of ranks, as steps: rank 1 dies once, and the others go on.
//
//     recovery SPACE STEPS CELLS
//
// The first to do step 4 as rank 1 leaves the file "died" in the folder of the space's name and dies.
#include <mainstay_mpi.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <numeric>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::int64_t prime = 1000003;

bool is_first(const std::string &mark) {
  const int file = open(mark.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const std::string space = argv[1];
  const std::uint64_t steps = std::stoull(argv[2]), cells = std::stoull(argv[3]);
  MPI_Init(&argc, &argv);
  try {
    mainstay::options options;
    options.every_steps = 2;
    auto session = mainstay::open(MPI_COMM_WORLD, space, options);

    std::vector<std::int64_t> part;
    MPI_Comm ring = MPI_COMM_NULL;
    int rank = 0, ranks = 0;
    session.run(
        [&](mainstay::session &lives) {
          if (ring != MPI_COMM_NULL) MPI_Comm_free(&ring);
          if (MPI_Comm_dup(mainstay::comm(lives), &ring) != MPI_SUCCESS)
            throw mainstay::error(MAINSTAY_GROUP_FAILED, "dup");
          mainstay::adopt(lives, ring);
          MPI_Comm_rank(ring, &rank);
          MPI_Comm_size(ring, &ranks);
          const auto first = cells * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(ranks);
          const auto end = cells * static_cast<std::uint64_t>(rank + 1) / static_cast<std::uint64_t>(ranks);
          part.resize(end - first);
          std::iota(part.begin(), part.end(), static_cast<std::int64_t>(first));
          lives.protect_box("part", part.data(), {part.size()}, {cells}, {first});
        },
        [&](mainstay::session &, std::uint64_t step) {
          if (step == steps) return false;
          if (step == 4 && rank == 1 && is_first(space + ".died")) {
            usleep(30000); // the others wait already
            std::raise(SIGKILL);
          }
          std::int64_t before = 0, after = 0;
          MPI_Request messages[4];
          const int low = (rank + ranks - 1) % ranks, high = (rank + 1) % ranks;
          MPI_Irecv(&before, 1, MPI_INT64_T, low, 0, ring, &messages[0]);
          MPI_Irecv(&after, 1, MPI_INT64_T, high, 1, ring, &messages[1]);
          MPI_Isend(&part.back(), 1, MPI_INT64_T, high, 0, ring, &messages[2]);
          MPI_Isend(&part.front(), 1, MPI_INT64_T, low, 1, ring, &messages[3]);
          if (MPI_Waitall(4, messages, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            throw mainstay::error(MAINSTAY_GROUP_FAILED, "a message");
          for (std::size_t i = 0; i < part.size(); i++) {
            const auto mine = part[i];
            part[i] = (before + mine + (i + 1 < part.size() ? part[i + 1] : after)) % prime;
            before = mine;
          }
          return true;
        });

    std::int64_t sum = std::accumulate(part.begin(), part.end(), std::int64_t{0}), all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, 0, ring);
    if (rank == 0) std::printf("sum %lld on %d ranks\n", static_cast<long long>(all), ranks);
    session.close();
  } catch (const mainstay::error &e) {
    if (e.status() != MAINSTAY_NOT_NEEDED) {
      std::fprintf(stderr, "WRONG: %s: %s\n", e.status_name(), e.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  return mainstay::finalize(0);
}
