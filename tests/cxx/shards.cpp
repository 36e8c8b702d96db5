/* c/shards.c in C++. */
#include <cstdio>
#include <string>
#include <vector>

#include <mainstay_mpi.hpp>

static int rank, size;

static void hold(bool good, const char *what) {
  if (good) return;
  std::printf("WRONG: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 4);
}

template <class Call> static bool refused(Call &&call) {
  try {
    call();
  } catch (const mainstay::error &error) {
    return error.status() == MAINSTAY_INVALID_ARGUMENT;
  }
  return false;
}

static std::vector<double> particles(int of) {
  std::vector<double> all(1000 * static_cast<std::size_t>(of + 1));
  for (std::size_t i = 0; i < all.size(); i++) all[i] = 1000000.0 * of + static_cast<double>(i);
  return all;
}

static void save(mainstay::session &session) {
  auto own = particles(rank);
  std::vector<int> table(100, 7);
  session.protect("particles", own);
  session.protect("table", table);
  session.same_on_all_ranks("table");
  session.any_number_of_ranks();
  session.note("kind", "particles");
  session.begin(100);
  session.write("log", 0, std::string("rank"));
  session.checkpoint();
  session.wait();
}

static void read_shard(mainstay::session &session, std::uint32_t shard) {
  const auto expected = particles(static_cast<int>(shard));
  const auto items = session.shard_items(shard);
  hold(items.size() == 3 && items[1].name == "particles" && items[1].kind == 0, "the region");
  hold(items[1].type == MAINSTAY_F64 && items[1].shape == std::vector<std::uint64_t>{expected.size()}, "its shape");
  hold(items[1].global_shape.empty() && items[1].bytes == expected.size() * sizeof(double), "its size");
  std::vector<double> some(expected.size());
  hold(session.read_shard(shard, "particles", 8, some.data() + 1, 8 * some.size()) == 8 * (some.size() - 1),
       "all but one");
  session.read_shard(shard, "particles", 0, some.data(), 8);
  hold(some == expected, "the particles");
  std::vector<char> text(4);
  hold(session.read_shard(shard, "log", 0, text) == 4 && std::string(text.begin(), text.end()) == "rank", "the stream");
  double sum = 0;
  for (double one : some) sum += one;
  std::printf("shard %u: %zu particles, sum %.0f\n", shard, some.size(), sum);
}

static void divide(mainstay::session &session) {
  hold(session.shards() == 0 && refused([&] { session.bring_shards(); }), "no shards before a restore");
  std::vector<int> table(100);
  session.protect("table", table);
  const auto listed = session.revisions();
  hold(listed.size() == 1 && listed[0].revision == 1 && session.revision_note(0, "kind") == "particles", "the list");
  hold(!session.revision_note(0, "none") && session.choose(1).revision == 1 && table[99] == 0,
       "the region is as it was");
  session.restore();
  hold(table == std::vector<int>(100, 7), "what is the same on all ranks");
  session.unprotect("table");
  const std::uint32_t shards = session.shards();
  std::vector<std::uint32_t> mine;
  for (auto shard = static_cast<std::uint32_t>(rank); shard < shards; shard += static_cast<std::uint32_t>(size))
    mine.push_back(shard);
  hold(refused([&] { session.bring_shards({shards}); }), "no such shard");
  session.bring_shards(mine);
  for (auto shard : mine) read_shard(session, shard);
}

static void put(mainstay::session &session, bool again) {
  std::vector<int> state(5000, again ? 0 : 7), extra = {rank, 7}, back(2);
  session.protect("state", state);
  const auto restored = session.restore();
  hold(again == static_cast<bool>(restored), "what came back");
  if (!again) {
    session.put("extra", extra);
    return;
  }
  hold(state[4999] == 7, "the region");
  hold(session.get(MAINSTAY_NEWEST, "extra", back).revision == restored.revision && back == extra, "the buffer");
  session.checkpoint();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3) return 2;
  const std::string mode = argv[2];
  try {
    auto session = mainstay::open(MPI_COMM_WORLD, argv[1]);
    if (mode == "save")
      save(session);
    else if (mode == "read")
      divide(session);
    else
      put(session, mode == "again");
    session.close();
  } catch (const mainstay::error &error) {
    std::printf("WRONG: %s: %s\n", error.status_name(), error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
