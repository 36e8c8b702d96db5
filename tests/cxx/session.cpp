/* Every part of mainstay.hpp, in one process without MPI.
 *
 *     session SPACE OUTPUT
 *
 * Saves a value of each kind, changes it, and restores it in a later session. Then it makes mistakes. */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include <mainstay.hpp>

#define MUST(what) ((what) ? void() : wrong(#what, __LINE__))

static void wrong(const char *what, int line) {
  std::printf("WRONG: line %d: %s\n", line, what);
  std::exit(1);
}

enum class phase : std::int16_t { melt = 3, freeze = -7 };
struct particle {
  double place[3];
  int charge;
};

/* One value of each kind that can be protected. */
struct state {
  bool flag = true;
  signed char i8 = -8;
  unsigned char u8 = 8;
  std::int16_t i16 = -16;
  std::uint16_t u16 = 16;
  std::int32_t i32 = -32;
  std::uint32_t u32 = 32;
  std::int64_t i64 = -64;
  std::uint64_t u64 = 64;
  float f32 = 0.25f;
  double f64 = 0.125;
  std::complex<float> c64 = {1, 2};
  std::complex<double> c128 = {3, 4};
  std::byte byte = std::byte{0xa5};
  phase kind = phase::freeze;
  particle one = {{1, 2, 3}, -1};
  int plain[2][3] = {{1, 2, 3}, {4, 5, 6}};
  std::array<std::array<float, 2>, 3> grid = {{{1, 2}, {3, 4}, {5, 6}}};
  std::vector<double> vector = std::vector<double>(1000, 1.5);
  std::vector<double> spanned = std::vector<double>(20, 2.5);
  std::vector<std::array<double, 3>> points = {{{1, 2, 3}}, {{4, 5, 6}}};
  std::vector<particle> particles = std::vector<particle>(5, particle{{7, 8, 9}, 2});
  std::vector<int> empty;
  std::unique_ptr<std::uint32_t[]> block = std::make_unique<std::uint32_t[]>(4 * 5);
  char text[8] = "bytes";

  void protect(mainstay::session &session) {
    session.protect("flag", flag);
    session.protect("i8", i8);
    session.protect("u8", u8);
    session.protect("i16", i16);
    session.protect("u16", u16);
    session.protect("i32", i32);
    session.protect("u32", u32);
    session.protect("i64", i64);
    session.protect("u64", u64);
    session.protect("f32", f32);
    session.protect("f64", f64);
    session.protect("c64", c64);
    session.protect("c128", c128);
    session.protect("byte", byte);
    session.protect("kind", kind);
    session.protect("one", one);
    session.protect("plain", plain);
    session.protect("grid", grid);
    session.protect("vector", vector);
    session.protect("points", points);
    session.protect("particles", particles);
    session.protect("empty", empty);
    session.protect("block", block.get(), {4, 5});
    session.protect_bytes("text", text, sizeof text);
#if __cplusplus >= 202002L
    session.protect("span", std::span(spanned).first(10));
#else
    session.protect("span", spanned.data(), std::vector<std::size_t>{10});
#endif
  }
};

/* The status with which `call` throws. */
static mainstay_status thrown(const std::function<void()> &call, const char *words) {
  try {
    call();
  } catch (const mainstay::error &error) {
    if (std::string(error.what()).find(words) == std::string::npos) {
      std::printf("WRONG: \"%s\" is not in \"%s\"\n", words, error.what());
      std::exit(1);
    }
    MUST(std::string(error.status_name()) == mainstay_status_name(error.status()));
    return error.status();
  }
  return MAINSTAY_OK;
}

static void save(const std::string &space, const std::string &output) {
  mainstay::options options;
  options.pool_bytes = 8 << 20;
  options.every_steps = 5;
  auto session = mainstay::open_solo(space, options);
  state now;
  for (int i = 0; i < 20; i++) now.block[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(i * i);
  now.protect(session);
  session.protect_output(output);
  MUST(!session.restore());
  MUST(session.due(5) && !session.due(6));
  session.note("step", "5");
  std::ofstream(output) << "five\n";
  MUST(session.checkpoint() == 1);
  session.wait();
  MUST(session.poll());
  const auto r = session.last_record();
  MUST(r.revision == 1 && r.resume_ns > 0);
  MUST(r.communication_ns + r.buffer_wait_ns + r.copy_ns + r.other_ns + r.resume_ns == r.perceived_ns);
  session.close();
  MUST(!session.is_open());
  session.close(); /* a second time: nothing */
}

static void come_back(const std::string &space, const std::string &output) {
  std::ofstream(output, std::ios::app) << "six, which is not saved\n";
  auto session = mainstay::open_solo(space);
  const state then;
  state now;
  now.flag = false, now.i8 = 0, now.u8 = 0, now.i16 = 0, now.u16 = 0, now.i32 = 0, now.u32 = 0;
  now.i64 = 0, now.u64 = 0;
  now.f32 = 0, now.f64 = 0, now.c64 = 0, now.c128 = 0, now.byte = std::byte{0}, now.kind = phase::melt;
  now.one = {}, now.grid = {}, now.plain[1][2] = 0, now.vector.assign(1000, 0), now.spanned.assign(20, 2.5),
  now.spanned[3] = 0, now.points.assign(2, {});
  now.text[0] = 0;
  now.particles.assign(5, particle{});
  now.protect(session);
  session.protect_output(output);
  MUST(thrown([&] { session.due(1); }, "push out revision 1") == MAINSTAY_NOT_RESTORED);
  MUST(thrown([&] { session.restore(9); }, "revision 9 has not been written yet") == MAINSTAY_REVISION_MISSING);
  mainstay::restored restored = session.restore(1);
  MUST(restored && restored.revision == 1 && restored.skipped == 0 && restored.report.empty());
  MUST(restored.step == 6);
  MUST(session.restored_note("step") == "5" && !session.restored_note("stop"));
  MUST(now.flag && now.i8 == then.i8 && now.u8 == then.u8 && now.i16 == then.i16 && now.u16 == then.u16);
  MUST(now.i32 == then.i32 && now.u32 == then.u32 && now.i64 == then.i64 && now.u64 == then.u64);
  MUST(now.f32 == then.f32 && now.f64 == then.f64 && now.c64 == then.c64 && now.c128 == then.c128);
  MUST(now.byte == then.byte && now.kind == then.kind && now.one.place[2] == 3 && now.one.charge == -1);
  MUST(now.plain[1][2] == 6 && now.grid == then.grid && now.vector == then.vector && now.spanned == then.spanned &&
       now.points == then.points);
  MUST(now.particles[4].place[2] == 9 && now.particles[4].charge == 2);
  MUST(now.block[19] == 361 && now.text[0] == 'b');
  std::string written;
  std::ifstream(output) >> written;
  MUST(written == "five" && std::ifstream(output, std::ios::ate).tellg() == 5);
}

/* A session can be moved but not copied; a moved-from session is closed. */
static void move(const std::string &space) {
  static_assert(!std::is_copy_constructible_v<mainstay::session> && !std::is_copy_assignable_v<mainstay::session>);
  static_assert(std::is_nothrow_move_constructible_v<mainstay::session>);
  int value = 1;
  mainstay::session first = mainstay::open_solo(space + "-a"), second = mainstay::open_solo(space + "-b");
  second.protect("value", value);
  first = std::move(second); /* closes a, which can be opened again */
  MUST(first.is_open() && !second.is_open() && second.get() == nullptr);
  MUST(first.checkpoint() == 1);
  mainstay::open_solo(space + "-a").close();
  MUST(thrown([&] { mainstay::open_solo(space + "-b"); }, "-b") == MAINSTAY_IN_USE);
  MUST(thrown([&] { second.checkpoint(); }, "session") == MAINSTAY_INVALID_ARGUMENT);
  mainstay::session third(std::move(first));
  third.close();
}

static void fail(const std::string &space) {
  int value = 0;
  std::vector<double> other(3);
  auto session = mainstay::open_solo(space + "-f");
  session.protect("value", value);
  MUST(thrown([&] { session.protect("value", value); }, "value") == MAINSTAY_DUPLICATE_NAME);
  MUST(thrown([&] { session.protect("a b", value); }, "a b") == MAINSTAY_INVALID_NAME);
  MUST(thrown([&] { session.protect(std::string("a\0b", 3), value); }, "zero byte") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.protect("rows", other.data(), {-1, 3}); }, "-1") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.unprotect("nobody"); }, "nobody") == MAINSTAY_REGION_MISSING);
  MUST(thrown([&] { session.note("", "x"); }, "") != MAINSTAY_OK);
  session.unprotect("value");
  session.protect("value", other); /* may be protected again, at another address */
  MUST(session.checkpoint() == 1);
  session.close();

  mainstay::options options;
  MUST(thrown([&] { options.set("chunk_bytes", "1"); }, "chunk_bytes") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { options.set("chunk", "1"); }, "did you mean chunk_bytes?") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { options.set("disk", std::string("/a\0b", 4)); }, "zero byte") == MAINSTAY_INVALID_ARGUMENT);
  options.set("keep", "3").set("chunk_bytes", "8 KiB");
  mainstay::open_solo(space + "-f", options).close();
  MUST(thrown([&] { mainstay::open_solo("/dev/null"); }, "/dev/null") != MAINSTAY_OK);

  session = mainstay::open_solo(space + "-f");
  session.protect("value", value);
  MUST(thrown([&] { session.restore(); }, "value") == MAINSTAY_REGION_CHANGED);
  session.unprotect_all();
  session.protect("other", other);
  MUST(thrown([&] { session.restore(); }, "value") == MAINSTAY_REGION_MISSING);
}

/* Every way to write a piece and to read it back. */
static void pieces(const std::string &space) {
  const std::vector<double> vector = {1, 2, 3};
  const std::array<short, 2> array = {{4, 5}};
  const std::string text = "six";
  const int value = 7;
  auto session = mainstay::open_solo(space + "-p");
  MUST(thrown([&] { session.write("all", 0, vector); }, "begin") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.abandon(); }, "no checkpoint has begun") == MAINSTAY_INVALID_ARGUMENT);
  MUST(session.begin(1000) == 1);
  session.write("given-up", 0, vector);
  session.abandon();
  MUST(session.begin(1000) == 2);
  session.write("all", 31, &value, sizeof value);
  session.write("all", 0, vector);
  session.write("all", 24, array);
  session.write("all", 28, text);
  session.write("none", 0, nullptr, 0);
  session.write("none", 0, std::vector<int>());
  MUST(session.checkpoint() == 2);
  session.close();

  session = mainstay::open_solo(space + "-p");
  MUST(thrown([&] { session.stream_bytes("all"); }, "restore first") == MAINSTAY_INVALID_ARGUMENT);
  MUST(session.restore().revision == 2);
  MUST((session.streams() == std::map<std::string, std::uint64_t>{{"all", 35}, {"none", 0}}));
  MUST(session.stream_bytes("all") == 35 && session.stream_bytes("none") == 0);
  std::vector<double> numbers(3);
  std::array<short, 2> shorts = {};
  std::string letters(3, ' ');
  int seven = 0;
  MUST(session.read("all", 0, numbers) == 24 && numbers == vector);
  MUST(session.read("all", 24, shorts) == 4 && shorts == array);
  MUST(session.read("all", 28, letters) == 3 && letters == text);
  MUST(session.read("all", 31, &seven, sizeof seven) == 4 && seven == value);
#if __cplusplus >= 202002L
  numbers.assign(3, 0);
  MUST(session.read("all", 8, std::span(numbers).first(2)) == 16 && numbers == std::vector<double>({2, 3, 0}));
#endif
  MUST(session.read("all", 33, numbers) == 2 && session.read("none", 0, numbers) == 0);
  MUST(thrown([&] { session.read("nobody", 0, numbers); }, "all, none") == MAINSTAY_INVALID_ARGUMENT);
  /* A piece that is refused fails the checkpoint. */
  session.begin(1000);
  MUST(thrown([&] { session.write("a b", 0, text); }, "a b") == MAINSTAY_INVALID_NAME);
  MUST(thrown([&] { session.checkpoint(); }, "a b") == MAINSTAY_INVALID_NAME);
}

/* Whole buffers. */
static void buffers(const std::string &space) {
  const std::vector<double> vector = {1, 2, 3};
  std::vector<double> numbers(4, 9.0);
  auto session = mainstay::open_solo(space + "-w");
  MUST(session.get(MAINSTAY_NEWEST, "buffer", numbers).revision == 0 && numbers[0] > 8.0);
  MUST(session.put("buffer", vector) == 1 && session.put("buffer", vector.data(), 8) == 2);
  MUST(session.get_bytes(MAINSTAY_NEWEST, "buffer") == 8 && session.get_bytes(1, "buffer") == 24);
  const auto saved = session.saved("buffer"), older = session.saved("buffer", 1);
  MUST(!session.saved("nobody") && saved && saved->bytes == 8 && older->shape == std::vector<std::uint64_t>{24});
  MUST(session.get(1, "buffer", numbers).bytes == 24 && numbers == std::vector<double>({1, 2, 3, 9}));
  MUST(session.get(MAINSTAY_NEWEST, "buffer", numbers.data(), 8).revision == 2);
  MUST(thrown([&] { session.get(3, "buffer", numbers); }, "1, 2") == MAINSTAY_REVISION_MISSING);
  MUST(thrown([&] { session.get(1, "buffer", numbers.data(), 23); }, "saved 24") == MAINSTAY_INVALID_ARGUMENT);
}

/* A box of a global array, and readers. */
static void boxes(const std::string &space) {
  std::vector<double> cells(6);
  std::vector<std::array<float, 2>> pairs(3);
  for (std::size_t i = 0; i < 6; i++) cells[i] = static_cast<double>(i), pairs[i / 2][i % 2] = static_cast<float>(i);
  auto session = mainstay::open_solo(space + "-boxes");
  const int rows = 2;
  const std::size_t columns = 3;
  session.protect_box("cells", cells.data(), {rows, columns}, {4, 5}, std::vector<int>{1, 2});
  MUST(thrown([&] { session.protect_box("odd", cells.data(), {rows, columns}, {4, 5}, {-1, 2}); }, "negative") ==
       MAINSTAY_INVALID_ARGUMENT);
  session.protect_box("pairs", pairs.data(), {3}, {9}, {4});
  MUST(thrown([&] { session.protect_box("odd", cells.data(), {2, 3}, {4, 5}, {3, 2}); }, "along side 0") ==
       MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.protect_box("odd", cells.data(), {6}, {6, 1}, {0}); }, "as many numbers") ==
       MAINSTAY_INVALID_ARGUMENT);
  std::vector<std::array<int, 2>> ghosts(4 * 5, {-1, -1});
  session.protect_within("within", ghosts.data(), {2, 3}, {4, 5}, {1, 1}, {2, 9}, {0, 6});
  std::vector<std::array<int, 2>> loose(4 * 5, {-1, -1});
  session.protect_within("free", loose.data(), {2, 3}, {4, 5}, {1, 1});
  MUST(thrown([&] { session.protect_within("odd", ghosts.data(), {2, 3}, {4, 5}, {3, 1}); }, "array in memory has 4") ==
       MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.protect_within("odd", ghosts.data(), {2, 3}, {4, 5}, {1}); }, "as many numbers") ==
       MAINSTAY_INVALID_ARGUMENT);
  for (int i = 0; i < 6; i++) ghosts[static_cast<std::size_t>(6 + i / 3 * 5 + i % 3)] = {i, -i};
  const auto filled = ghosts;
  session.checkpoint();
  session.wait();
  for (int i = 0; i < 6; i++) ghosts[static_cast<std::size_t>(6 + i / 3 * 5 + i % 3)] = {-2, -2};
  MUST(ghosts != filled && session.restore() && ghosts == filled);
  {
    mainstay::reader beside(space + "-boxes"); /* lets go of the revision at its end */
    MUST(beside.read(0, "cells", 0, cells) == 48);
  }
  session.close();

  mainstay::reader reader(space + "-boxes");
  MUST(reader.revision() == 1 && reader.shards() == 1 && reader.items(0).size() == 4 && reader.items(1).empty());
  const auto first = reader.items(0)[0], second = reader.items(0)[1];
  using numbers = std::vector<std::uint64_t>;
  MUST(first.name == "cells" && first.kind == 0 && first.type == MAINSTAY_F64 && first.bytes == 48);
  MUST(first.shape == numbers({2, 3}) && first.global_shape == numbers({4, 5}) && first.offset == numbers({1, 2}));
  MUST(second.shape == numbers({3, 2}) && second.global_shape == numbers({9, 2}) && second.offset == numbers({4, 0}));
  const auto third = reader.items(0)[2], fourth = reader.items(0)[3];
  MUST(third.shape == numbers({2, 3, 2}) && third.global_shape == numbers({2, 9, 2}) && fourth.global_shape.empty());
  std::vector<std::array<int, 2>> row(3);
  MUST(reader.read(0, "within", 24, row) == 24 && row[2][0] == 5 && row[2][1] == -5);
  std::vector<double> some(2);
  MUST(reader.read(0, "cells", 8, some) == 16 && some == std::vector<double>({1, 2}));
  MUST(reader.read(0, "cells", 40, some) == 8 && some[0] == 5);
  reader.read_box("cells", {2, 1}, {1, 3}, some);
  MUST(some == std::vector<double>({1, 4}));
  MUST(thrown([&] { reader.read_box("cells", {2, 1}, {0, 3}, some); }, "[0..1, 3..4]") == MAINSTAY_REGION_MISSING);
  MUST(thrown([&] { reader.read_box("cells", {2, 1}, {1}, some); }, "as many numbers") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { reader.read(0, "nobody", 0, some); }, "cells, pairs, within, free") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { reader.read(1, "cells", 0, some); }, "shards 0 to 0") == MAINSTAY_INVALID_ARGUMENT);
  mainstay::reader other = std::move(reader);
  MUST(other.revision() == 1);
  MUST(thrown([&] { mainstay::reader(space + "-boxes", 9); }, "no revision 9") == MAINSTAY_REVISION_MISSING);
}

/* Regions that follow variables, and regions that are moved. */
static void follow(const std::string &space) {
  auto session = mainstay::open_solo(space + "-follow");
  std::vector<std::array<double, 2>> points(3, {1, 2}), others(3, {3, 4});
  auto owned = std::make_unique<float[]>(4), second = std::make_unique<float[]>(4);
  int some[2][3] = {{1, 2, 3}, {4, 5, 6}}, more[2][3] = {{7, 8, 9}, {1, 2, 3}};
  int *pointer = some[0], *elsewhere = more[0];
  session.protect("points", points);
  session.protect("owned", owned.get(), {4});
  session.protect("some", pointer, {2, 3});
  MUST(thrown([&] { session.follow("some", elsewhere); }, "does not point to the region") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.follow("none", pointer); }, "not protected") == MAINSTAY_REGION_MISSING);
  session.follow("points", points);
  session.follow("owned", owned);
  session.follow("some", pointer);

  std::swap(points, others), std::swap(owned, second), std::swap(pointer, elsewhere);
  points.push_back({5, 6}), owned[3] = 9;
  session.checkpoint();
  std::swap(pointer, elsewhere), std::swap(owned, second), std::swap(points, others);
  points.assign(4, {0, 0}), owned[3] = 0, some[1][2] = 0, more[1][2] = 0;
  MUST(session.restore());
  MUST(points[0][0] == 3 && points[3][1] == 6 && owned[3] == 9 && some[0][0] == 7 && some[1][2] == 3 &&
       more[1][2] == 0);
  second = std::move(owned);
  MUST(thrown([&] { session.checkpoint(); }, "\"owned\": a null pointer") == MAINSTAY_INVALID_ARGUMENT);
  MUST(thrown([&] { session.restore(); }, "\"owned\": a null pointer") == MAINSTAY_INVALID_ARGUMENT);
  session.unprotect("owned");
  MUST(session.checkpoint() == 2);

  std::vector<int> list = {1, 2, 3}, longer = {4, 5, 6, 7};
  session.protect("list", list);
  session.move("list", longer);
  session.move("list", longer.data(), {2, 2});
  session.move("list", longer.data(), std::vector<int>{4});
  MUST(thrown([&] { session.move("none", list); }, "not protected") == MAINSTAY_REGION_MISSING);
  MUST(thrown([&] { session.move("list", others); }, "protected as i32 4") == MAINSTAY_INVALID_ARGUMENT);
  MUST(session.checkpoint() == 3);
  longer.assign(4, 0);
  session.restore();
  MUST(longer[3] == 7 && list[0] == 1);
  session.close();
}

/* An exception closes the session: saved data is complete, and the space is free. */
static void unwind(const std::string &space) {
  int value = 7;
  try {
    auto session = mainstay::open_solo(space + "-u");
    session.protect("value", value);
    session.checkpoint();
    throw std::runtime_error("out of luck");
  } catch (const std::runtime_error &error) {
    MUST(std::string(error.what()) == "out of luck");
  }
  value = 0;
  auto session = mainstay::open_solo(space + "-u");
  session.protect("value", value);
  MUST(session.restore().revision == 1 && value == 7);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const std::string space = argv[1];
  save(space, argv[2]);
  come_back(space, argv[2]);
  move(space);
  fail(space);
  buffers(space);
  pieces(space);
  boxes(space);
  follow(space);
  unwind(space);
  std::printf("done\n");
  return 0;
}
