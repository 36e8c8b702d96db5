// A list that is longer after each step. The session follows it, so a restore resizes it to the saved length.
#include <cstdio>
#include <mainstay.hpp>
#include <numeric>
#include <vector>

int main() try {
  std::uint64_t step = 0;
  std::vector<double> list;
  auto session = mainstay::open_solo("space-cpp");
  session.protect("step", step);
  // ANCHOR: follow
  session.protect("list", list);
  session.follow("list", list);
  session.restore();
  // ANCHOR_END: follow
  for (const auto stop = step + 3; step < stop;) {
    step++;
    list.insert(list.end(), step, static_cast<double>(step));
    session.checkpoint();
  }
  session.close();
  std::printf("step %d: %d values, sum %.0f\n", static_cast<int>(step), static_cast<int>(list.size()),
              std::accumulate(list.begin(), list.end(), 0.0));
} catch (const mainstay::error &error) {
  std::fprintf(stderr, "growing: %s: %s\n", error.status_name(), error.what());
  return 1;
}
