#include <mainstay_mpi.hpp>                                         // +
#include <cstdio>
#include <cstdlib>
#include <vector>

static void tell(const mainstay::error &error) {                    // +
  std::fprintf(stderr, "%s: %s\n", error.status_name(), error.what());
}

static void run(int steps) {
  std::vector<double> field(1000000);
  int step = 0;

  mainstay::options options;                                        // +
  options.every_steps = 100;                                        // + or every_seconds, mtbf_seconds
  auto session = mainstay::open(MPI_COMM_WORLD, "space", options);  // + closes itself where its scope ends
  session.protect("step", step);                                    // +
  session.protect("field", field);                                  // + the elements that it has now
  if (auto restored = session.restore())                            // + nothing there: nothing done
    std::printf("restored revision %llu at step %d\n", static_cast<unsigned long long>(restored.revision), step);

  while (step < steps) {
    for (std::size_t i = 0; i < field.size(); i++) field[i] += 1.0 / static_cast<double>(1 + i + step);
    step++;
    if (session.due(step)) try {                                    // + the same on all ranks
        session.checkpoint();                                       // + returns after a copy
      } catch (const mainstay::error &error) {                      // +
        tell(error);                                                // + the program goes on
      }
  }
  std::printf("step %d, field[1] = %.17g\n", step, field[1]);

  session.close();                                                  // + throws what went wrong
}

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  MPI_Init(&argc, &argv);
  try {
    run(argc > 1 ? std::atoi(argv[1]) : 1000);
  } catch (const mainstay::error &error) {                          // +
    tell(error);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
