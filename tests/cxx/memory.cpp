/* Memory from Mainstay, and declarations about other memory: a job that is killed and started again.
 *
 *     memory SPACE STEPS [STEP]
 *
 * With a STEP, the last rank kills itself there. The result does not depend on it. "shared" is written through its
 * file, past the page tables of this process. */
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <mainstay_mpi.hpp>

namespace {

constexpr std::size_t cells = 50000;

void must(bool is_so, const char *what) {
  if (is_so) return;
  std::printf("WRONG: %s\n", what);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 4);
}

void run(const char *space, int steps, int fatal) {
  int rank = 0, ranks = 0, step = 0, own = 7;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  constexpr std::size_t bytes = cells * sizeof(std::int64_t);
  const int file = memfd_create("shared", MFD_CLOEXEC);
  must(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0, "memfd_create");
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  must(mapped != MAP_FAILED, "mmap");
  auto *shared = static_cast<std::int64_t *>(mapped);
  std::vector<std::int64_t> next(cells);
  {
    auto session = mainstay::open(MPI_COMM_WORLD, space);
    auto *field = session.alloc<double>("field", cells);
    session.alloc<double>("gone", 10);
    session.free("gone");
    session.protect("step", step);
    session.protect("shared", shared, {cells});
    session.untrack("shared");
    session.protect("own", own);
    session.unprotect("own");
    must(field[0] == 0 && field[cells - 1] == 0, "memory that was allocated is not of zeros");
    session.restore();
    must(own == 7, "what is not protected was restored");
    if (rank == 0) std::printf("from step %d\n", step);

    while (step < steps) {
      for (std::size_t i = 0; i < cells; i++) {
        field[i] = 0.5 * field[i] + static_cast<double>(i) + rank;
        next[i] = (3 * shared[i] + static_cast<std::int64_t>(i) + step) % 1000003;
      }
      must(pwrite(file, next.data(), bytes, 0) == static_cast<ssize_t>(bytes), "pwrite");
      step++;
      if (step == fatal && rank == ranks - 1) std::raise(SIGKILL);
      if (step % 10 == 0) session.checkpoint();
    }
    double sum = 0;
    for (std::size_t i = 0; i < cells; i++) sum += field[i] + static_cast<double>(shared[i]);
    session.close();
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) std::printf("sum %.17g\n", sum);
  }
  munmap(mapped, bytes);
  close(file);
}

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  try {
    run(argv[1], std::atoi(argv[2]), argc > 3 ? std::atoi(argv[3]) : 0);
  } catch (const mainstay::error &error) {
    std::fprintf(stderr, "memory: %s: %s\n", error.status_name(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
