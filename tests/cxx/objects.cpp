/* objects SPACE FAULT: the objects make the mistake FAULT, and every rank prints the result. */
#include <cstdio>
#include <mainstay_objects_mpi.hpp>
#include <stdexcept>

namespace {

std::string fault;
const mainstay::kind<struct thing> *things;

struct mark {
  void pup(mainstay::pup &) {}
};

struct thing {
  std::uint64_t id;
  std::vector<double> values = {1, 2, 3};
  std::vector<mark> marks = std::vector<mark>(10);
  int sized = 0;

  explicit thing(std::uint64_t index) : id(index) {}
  bool is_wrong(const char *as) const { return id == 4 && fault == as; }

  void pup(mainstay::pup &p) {
    double more = 0;
    if (is_wrong("packs") && p.is_packing()) p | more;
    if (is_wrong("grows") && ++sized > 1) p | more;
    p | values;
    if (is_wrong("unpacks") && !p.is_unpacking()) p | more;
    if (is_wrong("beyond") && p.is_unpacking()) p | more | more | more;
    if (fault == "marks") p | marks;
  }

  void receive(mainstay::objects &objects, std::uint32_t, mainstay::contents data) {
    const auto step = data.get<int>();
    values[0] += step;
    if (is_wrong("throws")) throw std::runtime_error("no such luck");
    if (is_wrong("nowhere")) things->send(77, 1);
    if (is_wrong("reentered")) objects.step();
    if (is_wrong("closes")) mainstay::detail::check(mainstay_objects_close(objects.get()));
  }
};

void act(mainstay::objects &objects, int rank, int ranks) {
  objects.restore();
  for (std::uint64_t id = 0; id < 9; id++)
    if (int(id) % ranks == rank) things->create(id);
  for (const auto id : things->here()) things->send(id, 1, mainstay::parcel() << 5);
  objects.step();
  if (fault == "unpacks" || fault == "beyond" || fault == "marks") objects.evacuate({1, 2});
  if (fault == "marks" && rank == 0)
    for (std::uint64_t id = 0; id < 9; id++) std::printf("%zu marks\n", things->get(id)->marks.size());
  if (fault == "strategy") objects.balance("best");
  objects.checkpoint();
}

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  fault = argc > 2 ? argv[2] : "";
  {
    auto session = mainstay::open(MPI_COMM_WORLD, argv[1]);
    auto tell = [&](auto &&call) {
      auto objects = mainstay::open_objects(session);
      try {
        call(objects);
      } catch (const mainstay::error &e) {
        std::printf("%s: %s\n", e.status_name(), e.what());
      }
    };
    session.note("step", "40");
    tell([&](mainstay::objects &objects) {
      const auto kind = objects.add<thing>("thing", 1);
      things = &kind;
      act(objects, rank, ranks);
    });
    if (fault == "unknown") tell([&](mainstay::objects &objects) { objects.restore(); });
    if (fault == "noted") {
      tell([&](mainstay::objects &objects) {
        objects.add<thing>("thing", 1);
        objects.restore();
      });
      std::printf("noted %s\n", session.restored_note("step").value_or("nothing").c_str());
    }
    session.close();
  }
  MPI_Finalize();
}
