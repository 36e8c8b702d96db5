/* pieces SPACE: objects and messages that are longer than the largest message of MPI, which is small here. */
#define MAINSTAY_OBJECTS_PIECE_MAX ((size_t)4096)
#include <cstdio>
#include <mainstay_objects_mpi.hpp>

#define AT_ONCE 4096

/* Refuses long messages, as an MPI with int counts refuses messages longer than 2 GiB. */
extern "C" int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return tag == MAINSTAY_OBJECTS_TAG && count > AT_ONCE ? MPI_ERR_COUNT : PMPI_Send(data, count, type, to, tag, comm);
}
extern "C" int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                         MPI_Request *request) {
  return tag == MAINSTAY_OBJECTS_TAG && count > AT_ONCE ? MPI_ERR_COUNT
                                                        : PMPI_Irecv(data, count, type, from, tag, comm, request);
}

struct thing {
  std::vector<std::uint64_t> values;
  explicit thing(std::uint64_t index) : values(1000 * (index + 1)) {
    for (std::size_t at = 0; at < values.size(); at++) values[at] = at * at;
  }
  void pup(mainstay::pup &p) { p | values; }
  void receive(mainstay::objects &objects, std::uint32_t, mainstay::contents data) {
    std::vector<std::uint64_t> more;
    data >> more;
    for (std::size_t at = 0; at < values.size(); at++) values[at] += more.at(at);
    std::uint64_t right = 0;
    for (std::size_t at = 0; at < values.size(); at++) right += values[at] == at * at + 3 * at;
    objects.contribute(0, {double(right)});
  }
};

int main(int argc, char **argv) {
  constexpr std::uint64_t count = 12;
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    auto session = mainstay::open(MPI_COMM_WORLD, argv[1]);
    auto objects = mainstay::open_objects(session);
    const auto things = objects.add<thing>("thing");
    objects.restore();
    for (std::uint64_t index = 0; index < count; index++)
      if (int(index) % ranks == rank) things.create(index);
    objects.step();
    const auto moved = objects.evacuate({1}).moved;
    std::vector<std::uint64_t> more(1000 * count);
    for (std::size_t at = 0; at < more.size(); at++) more[at] = 3 * at;
    if (rank == 1)
      for (std::uint64_t index = 0; index < count; index++) things.send(index, 1, mainstay::parcel() << more);
    objects.step();
    if (rank == 0) std::printf("%d moved, %.0f are right\n", int(moved), objects.result(0, 1)[0]);
  } catch (const mainstay::error &e) {
    std::printf("%s: %s\n", e.status_name(), e.what());
  }
  MPI_Finalize();
}
