/* Molecular dynamics in cells, as LeanMD of paper FTC-Charm++ does it: a job that loses ranks goes on with those that
 * are left, and shares the work out among them again. `leanmd --help` says how. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/time.h>

#include "objects.hpp"
#include "options.hpp"

namespace {

/* Ends this process as the options say, at any place. */
void crash_when_told(const options &o, std::uint64_t step) {
  MPI_Comm parent;
  int rank;
  MPI_Comm_get_parent(&parent);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const crash &c : o.crashes) {
    if (parent != MPI_COMM_NULL || c.rank != rank || c.step != step) continue;
    std::signal(SIGALRM, [](int) { raise(SIGKILL); });
    if (c.after_us == 0) raise(SIGKILL);
    itimerval timer = {};
    timer.it_value.tv_sec = c.after_us / 1000000, timer.it_value.tv_usec = c.after_us % 1000000;
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
}

/* Cells in slices, a slice for each rank, and each pair where its lower cell is. */
void create(MPI_Comm comm) {
  const model &m = here.m;
  int rank, ranks;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &ranks);
  for (int low = m.count() * rank / ranks; low < m.count() * (rank + 1) / ranks; low++) {
    const std::array<int, 3> at = {low / (m.cells[1] * m.cells[2]), low / m.cells[2] % m.cells[1], low % m.cells[2]};
    here.cells->create(cell_index(at));
    for (int number = 13; number < 27; number++)
      if (m.has(neighbour(at, number))) here.pairs->create(pair_index(at, number));
  }
  for (std::uint64_t id = 0; id < m.atoms; id++) {
    const atom a = lattice_atom(m, id);
    if (cell *c = here.cells->get(cell_index(m.cell_of(a.position)))) c->atoms.push_back(a);
  }
}

void send_to_cells(std::uint32_t method, const mainstay::parcel &data = {}) {
  for (const std::uint64_t index : here.cells->here()) here.cells->send(index, method, data);
}

/* Steps that are done: the forces of the beginning are one of the objects' steps, and each of ours is two. */
std::uint64_t steps_done(const mainstay::objects &objects) { return (objects.steps() - 1) / 2; }

struct told {
  double potential, kinetic, atoms;
  char mark[40];
};

told look(mainstay::objects &objects) {
  const auto energy = objects.result(ENERGY, 3), mark = objects.result(MARK, 4);
  told t = {energy[0], energy[1], energy[2], ""};
  std::snprintf(t.mark, sizeof t.mark, "%06llx-%06llx-%06llx-%06llx", (unsigned long long)mark[0],
                (unsigned long long)mark[1], (unsigned long long)mark[2], (unsigned long long)mark[3]);
  return t;
}

void run(mainstay::session &session, mainstay::objects &objects, const options &o, std::FILE *trace) {
  MPI_Comm comm = mainstay::comm(session);
  int rank, ranks;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &ranks);
  const double begun = MPI_Wtime();
  const auto came = objects.restore();
  if (came.revision == 0) {
    create(comm);
    send_to_cells(SHOW, mainstay::parcel() << false);
    objects.step();
  } else if (rank == 0) {
    std::printf("revision %llu: step %llu, %llu objects on %d ranks, %llu elsewhere than before, %.1f ms\n",
                (unsigned long long)came.revision, (unsigned long long)steps_done(objects),
                (unsigned long long)came.objects, ranks, (unsigned long long)came.elsewhere,
                1e3 * (MPI_Wtime() - begun));
    std::fflush(stdout);
  }
  here.tested = 0;
  for (std::uint64_t step = steps_done(objects); step < o.steps; step = steps_done(objects)) {
    const double since = MPI_Wtime();
    crash_when_told(o, step);
    if (o.evacuates(step)) objects.evacuate(o.evacuated), objects.checkpoint();
    send_to_cells(MOVE);
    objects.step();
    send_to_cells(SHOW, mainstay::parcel() << true);
    const bool tells = o.tells_every && (step + 1) % o.tells_every == 0;
    objects.step();
    if (trace) {
      /* Of all ranks: the busiest, and the average. */
      const double mine = double(std::exchange(here.tested, 0));
      double most = 0, sum = 0;
      if (MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, comm) ||
          MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm))
        throw mainstay::error(MAINSTAY_GROUP_FAILED, "MPI failed");
      if (rank == 0)
        std::fprintf(trace, "%llu %d %.6f %.0f %.0f\n", (unsigned long long)step, ranks, MPI_Wtime() - since, most,
                     sum / ranks);
      std::fflush(trace);
    }
    if (session.due(step + 1)) objects.checkpoint();
    if (tells && rank == 0) std::printf("step %llu\n", (unsigned long long)step + 1), std::fflush(stdout);
  }
  session.wait();
  send_to_cells(TELL);
  objects.step();
  if (rank != 0) return;
  const told t = look(objects);
  std::printf("%llu steps, %.0f atoms, potential %.12g, kinetic %.12g, total %.12g\nmark %s\n",
              (unsigned long long)o.steps, t.atoms, t.potential, t.kinetic, t.potential + t.kinetic, t.mark);
  std::fflush(stdout);
}

int work(const options &o) {
  mainstay::options settings;
  settings.every_steps = o.every;
  mainstay::session session = mainstay::open(MPI_COMM_WORLD, o.space, settings);
  mainstay::objects_options balancing;
  balancing.strategy = o.strategy.c_str();
  balancing.balance_every = 2 * o.balance_every;
  balancing.balance_after_failure = 2 * o.balance_after;
  /* ANCHOR: goes_on */
  mainstay::objects objects = mainstay::open_objects(session, balancing);
  const auto cells = objects.add<cell>("cell", 3);
  const auto pairs = objects.add<pair>("pair", 1);
  here.cells = &cells, here.pairs = &pairs;
  std::FILE *trace = o.trace.empty() ? nullptr : std::fopen(o.trace.c_str(), "a");
  for (;;) try {
      run(session, objects, o, trace);
      break;
    } catch (const mainstay::error &e) {
      if (e.status() != MAINSTAY_GROUP_FAILED) throw;
      session.recover(); /* without the ranks that failed; then back to the newest revision */
    }
  /* ANCHOR_END: goes_on */
  if (trace) std::fclose(trace);
  objects.close();
  session.close();
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  const options o = options_of(argc, argv, here);
  MPI_Init(&argc, &argv);
  try {
    return mainstay::finalize(work(o));
  } catch (const mainstay::error &e) {
    if (e.status() == MAINSTAY_NOT_NEEDED) return mainstay::finalize(0); /* a spare, and the job has ended */
    std::fprintf(stderr, "leanmd: %s: %s\n", e.status_name(), e.what());
  } catch (const std::exception &e) {
    std::fprintf(stderr, "leanmd: %s\n", e.what());
  }
  MPI_Abort(MPI_COMM_WORLD, 1);
}
