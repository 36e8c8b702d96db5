// relax.c in C++: messages that fail throw.
#include <mainstay_mpi.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

constexpr std::uint64_t cells_of_all = 3000, steps = 20;

// ANCHOR: throws
// All messages go through here. One that fails leaves the step, from however deep it was sent; session.run recovers.
static void must(int code) {
  if (code != MPI_SUCCESS) throw mainstay::error(MAINSTAY_GROUP_FAILED, "a message failed");
}
// ANCHOR_END: throws

struct part {
  MPI_Comm ring = MPI_COMM_NULL;
  int rank = 0, low = 0, high = 0;
  std::uint64_t start = 0, size = 0;
  std::vector<double> cells, old, next; // with a ghost at both ends

  // Makes the part of this rank ready: at the beginning, and after each failure.
  void lay_out(mainstay::session &session) {
    int ranks = 0, closed = 1;
    MPI_Comm workers = mainstay::comm(session); // a new one after each failure
    end();                                      // the ring of the ranks that there were
    MPI_Comm_size(workers, &ranks);
    must(MPI_Cart_create(workers, 1, &ranks, &closed, 0, &ring));
    mainstay::adopt(session, ring); // its errors are returned from now on
    MPI_Comm_rank(ring, &rank);
    MPI_Cart_shift(ring, 0, 1, &low, &high);
    start = cells_of_all * rank / ranks;
    size = cells_of_all * (rank + 1) / ranks - start;
    for (auto *all : {&cells, &old, &next}) all->assign(size + 2, 0);
    for (std::uint64_t i = 0; i < size; i++) cells[i + 1] = static_cast<double>((start + i) % 1000);
    session.protect_within("cells", cells.data(), {size}, {size + 2}, {1}, {cells_of_all}, {start});
  }

  void end() {
    if (ring != MPI_COMM_NULL) MPI_Comm_free(&ring);
  }

  void exchange() {
    MPI_Request coming[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    must(MPI_Irecv(&cells[size + 1], 1, MPI_DOUBLE, high, 0, ring, &coming[0]));
    must(MPI_Irecv(&cells[0], 1, MPI_DOUBLE, low, 1, ring, &coming[1]));
    must(MPI_Send(&cells[1], 1, MPI_DOUBLE, low, 0, ring));
    must(MPI_Send(&cells[size], 1, MPI_DOUBLE, high, 1, ring));
    must(MPI_Waitall(2, coming, MPI_STATUSES_IGNORE));
  }

  double sweep() {
    double most = 0, of_all = 0;
    exchange();
    for (std::uint64_t i = 1; i <= size; i++) {
      next[i] = (old[i] + cells[i - 1] + cells[i + 1]) / 3;
      most = std::max(most, std::abs(next[i] - cells[i]));
    }
    std::copy(next.begin() + 1, next.end() - 1, cells.begin() + 1);
    must(MPI_Allreduce(&most, &of_all, 1, MPI_DOUBLE, MPI_MAX, ring));
    return of_all;
  }

  void solve() {
    old = cells;
    while (sweep() > 1e-6) {
    }
  }
};

static void run(part &p) {
  mainstay::options options;
  options.every_steps = 5;
  auto session = mainstay::open(MPI_COMM_WORLD, "space", options);
  session.run([&](mainstay::session &now) { p.lay_out(now); },
              [&](mainstay::session &, std::uint64_t number) {
                if (number == steps) return false;
                p.solve();
                return true;
              });
  if (p.rank == 0) std::printf("the first cell is %.12f\n", p.cells[1]);
  session.close();
  p.end();
}

int main(int argc, char **argv) {
  part p;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ); // a rank that is killed has said all that it printed
  MPI_Init(&argc, &argv);
  try {
    run(p);
  } catch (const mainstay::error &e) {
    if (e.status() != MAINSTAY_NOT_NEEDED) { // a spare, and the job has ended
      std::fprintf(stderr, "%s: %s\n", e.status_name(), e.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  return mainstay::finalize(0);
}
