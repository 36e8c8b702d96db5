/* The same simulation, made of objects that move: the grid is cut into many more blocks than ranks, which send each
 * other their faces. It computes the same bits. Options as jacobi3d, and --objects N: so many blocks in all; --crash
 * R@S+US, again and again: process R is killed US microseconds after step S has begun. */
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/time.h>
#include <unistd.h>

#include <mainstay_objects_mpi.hpp>

extern "C" {
#include "elevation.h"
#include "grid.h"
#include "ground.h"
#include "options.h"
}

namespace {

struct block;

/* Data that the blocks of a rank share. */
struct {
  options o;
  elevation surface;
  std::array<int, 3> blocks = {0, 0, 1}; /* whole columns, as memory has them: 0 is as MPI_Dims_create likes it */
  const mainstay::kind<block> *kind = nullptr;
  mainstay::parcel parcel; /* for one message after the other */
} here;

enum { SWEEP, FACE };

/* Cells of a layer, as a message carries them: written from a field, and read into one. */
struct face {
  const grid &g;
  std::vector<double> &field;
  int side; /* low (even) or high along a dimension */
  size_t layer;

  void pup(mainstay::pup &p) {
    for (size_t at = 1; at <= g.size[side < 2 ? 1 : 0]; at++) {
      const size_t column = side < 2 ? grid_at(&g, layer, at, 1) : grid_at(&g, at, layer, 1);
      p.raw(&field[column], g.size[2] * sizeof(double));
    }
  }
};

struct block {
  grid g = {};
  ground rock;
  std::vector<double> field, other;

  explicit block(std::uint64_t index) {
    const std::uint64_t at[] = {index >> 42, index >> 21 & 0x1fffff, index & 0x1fffff};
    for (int d = 0; d < 3; d++) {
      const auto blocks = size_t(here.blocks[d]);
      g.cells[d] = here.o.cells[d];
      g.start[d] = g.cells[d] * at[d] / blocks;
      g.size[d] = g.cells[d] * (at[d] + 1) / blocks - g.start[d];
      place[d] = int(at[d]);
      g.low[d] = at[d] > 0 ? 0 : MPI_PROC_NULL;
      g.high[d] = at[d] + 1 < blocks ? 0 : MPI_PROC_NULL;
      neighbours += (at[d] > 0) + (at[d] + 1 < blocks);
    }
    rock = ground_create(&g, &here.surface);
    field.resize(grid_cells_stored(&g));
    ground_begin(&rock, &g, &here.surface, field.data());
    other = field; /* its air, which no sweep writes */
  }
  ~block() { ground_free(&rock); }
  block(const block &) = delete;

  /* Without its ghosts, which the next step fills. */
  void pup(mainstay::pup &p) {
    for (size_t i = 1; i <= g.size[0]; i++)
      for (size_t j = 1; j <= g.size[1]; j++) p.raw(&field[grid_at(&g, i, j, 1)], g.size[2] * sizeof(double));
  }

  void receive(mainstay::objects &, std::uint32_t method, mainstay::contents data) {
    if (method == SWEEP) {
      for (int side = 0; side < 4; side++) show(side);
      has_begun = true;
    } else {
      const auto side = data.get<int>();
      face ghosts = {g, field, side, side % 2 ? g.size[size_t(side / 2)] + 1 : 0};
      data >> ghosts;
      arrived++;
    }
    if (!has_begun || arrived < neighbours) return;
    ground_sweep_block(&rock, &g, field.data(), other.data());
    field.swap(other);
    has_begun = false, arrived = 0;
  }

  void write(int file) const {
    for (size_t i = 0; i < g.size[0]; i++)
      for (size_t j = 0; j < g.size[1]; j++) {
        const size_t row = (g.start[0] + i) * g.cells[1] + g.start[1] + j, bytes = g.size[2] * sizeof(double);
        const auto at = off_t((row * g.cells[2] + g.start[2]) * sizeof(double));
        if (pwrite(file, &field[grid_at(&g, i + 1, j + 1, 1)], bytes, at) != ssize_t(bytes))
          throw std::runtime_error("the field cannot be written");
      }
  }

private:
  std::array<int, 3> place;
  int neighbours = 0, arrived = 0;
  bool has_begun = false;

  /* The low (even) or high face along a side to the neighbour there, for which it is the other. */
  void show(int side) {
    const int d = side / 2;
    if ((side % 2 ? g.high[d] : g.low[d]) == MPI_PROC_NULL) return;
    auto to = place;
    to[size_t(d)] += side % 2 ? 1 : -1;
    const face shown = {g, field, side, side % 2 ? g.size[size_t(d)] : 1};
    here.kind->send(mainstay::index(to[0], to[1], to[2]), FACE, here.parcel.clear() << (side ^ 1) << shown);
  }
};

struct crash {
  int rank;
  unsigned long long step;
  long after_us;
};
std::vector<crash> crashes;

/* Ends this process as the options say, at any place. */
void crash_when_told(std::uint64_t step) {
  MPI_Comm parent;
  int rank;
  MPI_Comm_get_parent(&parent);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const crash &c : crashes) {
    if (parent != MPI_COMM_NULL || c.rank != rank || c.step != step) continue;
    std::signal(SIGALRM, [](int) { raise(SIGKILL); });
    if (c.after_us == 0) raise(SIGKILL);
    itimerval timer = {};
    timer.it_value.tv_sec = c.after_us / 1000000, timer.it_value.tv_usec = c.after_us % 1000000;
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
}

void run(mainstay::session &session, mainstay::objects &objects) {
  const options &o = here.o;
  MPI_Comm comm = mainstay::comm(session);
  int rank, ranks;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &ranks);
  if (objects.restore().revision == 0) {
    const int all = here.blocks[0] * here.blocks[1] * here.blocks[2];
    for (int low = all * rank / ranks; low < all * (rank + 1) / ranks; low++)
      here.kind->create(mainstay::index(low / (here.blocks[1] * here.blocks[2]), low / here.blocks[2] % here.blocks[1],
                                        low % here.blocks[2]));
  } else if (rank == 0) {
    std::printf("restored, continuing at step %llu\n", (unsigned long long)objects.steps());
  }
  const double begun = MPI_Wtime();
  const std::uint64_t first = objects.steps();
  while (objects.steps() < o.steps) {
    crash_when_told(objects.steps());
    for (const auto index : here.kind->here()) here.kind->send(index, SWEEP);
    objects.step();
    if (rank == 0 && objects.steps() % o.progress == 0)
      std::printf("step %llu\n", (unsigned long long)objects.steps()), std::fflush(stdout);
    if (session.due(objects.steps())) objects.checkpoint();
  }
  session.wait();
  if (rank == 0)
    std::printf("%llu steps in %.3f s\n", (unsigned long long)(objects.steps() - first), MPI_Wtime() - begun);
  if (!o.out) return;
  const int file = open(o.out, O_CREAT | O_WRONLY, 0644);
  if (file < 0) throw std::runtime_error("the field cannot be written");
  for (const auto index : here.kind->here()) here.kind->get(index)->write(file);
  close(file);
}

int work(int count) {
  /* Before the opening, from which a spare may come much later than the others. */
  here.surface = elevation_read(MPI_COMM_WORLD, here.o.dem);
  mainstay::options settings;
  settings.every_steps = here.o.space ? here.o.every : 0;
  mainstay::session session = mainstay::open(MPI_COMM_WORLD, here.o.space ? here.o.space : "jacobi3d-space", settings);
  MPI_Dims_create(count, 3, here.blocks.data());
  mainstay::objects_options balancing;
  balancing.balance_after_failure = 5;
  mainstay::objects objects = mainstay::open_objects(session, balancing);
  const auto kind = objects.add<block>("block", 3);
  here.kind = &kind;
  for (;;) try {
      run(session, objects);
      break;
    } catch (const mainstay::error &e) {
      if (e.status() != MAINSTAY_GROUP_FAILED) throw;
      session.recover();
    }
  objects.close();
  session.close();
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  int count = 64, rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<char *> others;
  for (int at = 0; at < argc; at++) {
    const std::string name = argv[at];
    crash c = {0, 0, 0};
    if (at + 1 == argc || (name != "--objects" && name != "--crash"))
      others.push_back(argv[at]);
    else if (name == "--objects")
      count = std::max(1, std::atoi(argv[++at]));
    else if (std::sscanf(argv[++at], "%d@%llu+%ld", &c.rank, &c.step, &c.after_us) >= 2)
      crashes.push_back(c);
  }
  others.push_back(nullptr);
  const int status = options_parse(&here.o, int(others.size()) - 1, others.data(), rank == 0);
  if (status >= 0) return MPI_Finalize(), status;
  try {
    return mainstay::finalize(work(count));
  } catch (const mainstay::error &e) {
    if (e.status() == MAINSTAY_NOT_NEEDED) return mainstay::finalize(0);
    std::fprintf(stderr, "jacobi3d: %s: %s\n", e.status_name(), e.what());
  } catch (const std::exception &e) {
    std::fprintf(stderr, "jacobi3d: %s\n", e.what());
  }
  MPI_Abort(MPI_COMM_WORLD, 1);
}
