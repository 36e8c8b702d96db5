/* Ranks that make different calls, and a session without a restore, get an exception.
 *
 *     refused SPACE
 */
#include <cstdio>
#include <cstring>
#include <functional>

#include <mainstay_mpi.hpp>

static int rank = 0;

static void must(bool good, const char *what) {
  if (good) return;
  std::printf("WRONG: rank %d: %s\n", rank, what);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* `call` throws `status`, under its name, and a message that has `words` in it. */
static void refused(const std::function<void()> &call, mainstay_status status, const char *name, const char *words) {
  try {
    call();
  } catch (const mainstay::error &error) {
    must(error.status() == status && std::strcmp(error.status_name(), name) == 0, error.what());
    must(std::strstr(error.what(), words) != nullptr, error.what());
    return;
  }
  must(false, words);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int step = 1;
  {
    auto session = mainstay::open(MPI_COMM_WORLD, argv[1]);
    session.protect("step", step);
    session.checkpoint();
    session.wait();
    auto different = [&] { rank == 0 ? void(session.checkpoint()) : session.wait(); };
    refused(different, MAINSTAY_CALL_MISMATCH, "CALL_MISMATCH", "rank 0 called checkpoint, rank 1 wait");
    step = 2;
    must(session.checkpoint() == 2, "the job goes on");
    session.close();
  }
  auto session = mainstay::open(MPI_COMM_WORLD, argv[1]);
  session.protect("step", step);
  step = 3;
  refused([&] { session.checkpoint(); }, MAINSTAY_NOT_RESTORED, "NOT_RESTORED", "would push out revision 2");
  must(step == 3 && session.restore() && step == 2, "what was saved is there");
  session.checkpoint();
  session.close();
  if (rank == 0) std::puts("done");
  MPI_Finalize();
  return 0;
}
