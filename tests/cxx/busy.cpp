/* busy SPACE FILE: an object on rank 1 is at work while rank 0 sends it a long message, and has done with that: its
 * next message makes FILE. */
#include <chrono>
#include <cstdio>
#include <fstream>
#include <mainstay_objects_mpi.hpp>
#include <thread>

namespace {

const char *file;
enum { LONG, NOTE, WORK };

struct thing {
  bool has_seen = false, has_come = false;

  void pup(mainstay::pup &p) { p | has_seen | has_come; }
  void receive(mainstay::objects &, std::uint32_t method, mainstay::contents) {
    if (method == LONG) has_come = true;
    if (method == NOTE) std::ofstream(file) << "rank 0 goes on\n";
    if (method != WORK || has_seen) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    has_seen = std::ifstream(file).good();
  }
};

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  file = argv[2];
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    auto session = mainstay::open(MPI_COMM_WORLD, argv[1]);
    auto objects = mainstay::open_objects(session);
    const auto things = objects.add<thing>("thing");
    objects.restore();
    things.create(std::uint64_t(rank));
    objects.step();
    if (rank == 0) {
      things.send(1, LONG, mainstay::parcel() << std::vector<double>(1 << 21));
      things.send(0, NOTE);
    } else {
      for (int piece = 0; piece < 2000; piece++) things.send(1, WORK);
    }
    objects.step();
    if (rank == 1)
      std::printf("%s, %s\n", things.get(1)->has_seen ? "in time" : "too late",
                  things.get(1)->has_come ? "come" : "lost");
  }
  MPI_Finalize();
}
