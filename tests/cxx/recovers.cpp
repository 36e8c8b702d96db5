// A job that goes on by calls of its own when rank 1 dies: one rank hears of it by check, the others in a checkpoint.
//
//     recovers SPACE STEPS
//
// The first to do step 4 as rank 1 leaves the file "died" beside the space and dies.
#include <mainstay_mpi.hpp>

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <numeric>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::int64_t prime = 1000003;
constexpr int looks_max = 20000, look_us = 1000;

struct program {
  std::string space;
  std::int64_t steps = 0, done = 0;
  std::vector<std::int64_t> field = std::vector<std::int64_t>(1000);
  bool has_recovered = false;
};

bool is_first(const std::string &mark) {
  const int file = open(mark.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

// From the newest revision, or the beginning, to the end.
void work(mainstay::session &session, program &p) {
  int rank = 0;
  MPI_Comm_rank(mainstay::comm(session), &rank);
  if (const auto back = session.restore()) {
    if (rank == 0) std::printf("back at step %lld\n", static_cast<long long>(p.done));
  } else {
    p.done = 0;
    std::iota(p.field.begin(), p.field.end(), 1000 * rank);
  }
  while (p.done < p.steps) {
    if (p.done == 4 && rank == 1 && is_first(p.space + ".died")) std::raise(SIGKILL);
    if (p.done == 4 && rank == 0 && !p.has_recovered) {
      for (int look = 0; look < looks_max; look++) {
        session.check();
        usleep(look_us);
      }
      std::printf("WRONG: check has not heard of a failure\n");
    }
    for (auto &value : p.field) value = (3 * value + p.done) % prime;
    p.done++;
    if (session.due(static_cast<std::uint64_t>(p.done))) session.checkpoint();
  }
  session.wait();
  std::printf("rank %d: %lld\n", rank,
              static_cast<long long>(std::accumulate(p.field.begin(), p.field.end(), std::int64_t{0})));
}

void run(program &p) {
  mainstay::options options;
  options.every_steps = 2;
  auto session = mainstay::open(MPI_COMM_WORLD, p.space, options);
  session.protect("done", p.done);
  session.protect("field", p.field);
  for (bool is_over = false; !is_over;) {
    try {
      work(session, p);
      is_over = true;
    } catch (const mainstay::error &e) {
      if (e.status() != MAINSTAY_GROUP_FAILED) throw;
      session.recover();
      p.has_recovered = true;
    }
  }
  session.close();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  program p;
  p.space = argv[1];
  p.steps = std::stoll(argv[2]);
  MPI_Init(&argc, &argv);
  try {
    run(p);
  } catch (const mainstay::error &e) {
    if (e.status() != MAINSTAY_NOT_NEEDED) {
      std::fprintf(stderr, "WRONG: %s: %s\n", e.status_name(), e.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  std::fflush(stdout);
  return mainstay::finalize(0);
}
