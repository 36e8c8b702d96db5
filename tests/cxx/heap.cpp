// Containers of C++ in the heap: they come back with all that they point to.
//
//     heap SPACE STEPS
#include <mainstay.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <vector>

namespace {

template <class T> using vector = std::vector<T, mainstay::heap_allocator<T>>;
using row = vector<double>;
using rows = std::map<int, row, std::less<int>, mainstay::heap_allocator<std::pair<const int, row>>>;
struct alignas(64) wide {
  double values[8];
};

rows all;
vector<wide> wides;
int step;

void advance() {
  step++;
  all[step * 7 % 50].push_back(step);
  if (step % 3 == 0) all.erase(step % 50);
  if (step % 10 == 0) all[1].resize(20000 * static_cast<std::size_t>(step), 0.5);
  wides.push_back({{1.0 * step}});
}

double sum() {
  double sum = 0;
  for (const auto &[number, row] : all)
    for (double value : row) sum += number + value;
  for (const auto &one : wides) sum += one.values[0];
  return sum;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  try {
    auto session = mainstay::open_solo(argv[1]);
    session.protect_globals();
    session.protect_heap();
    session.restore();
    std::printf("from step %d\n", step);
    while (step < std::atoi(argv[2])) {
      advance();
      if (reinterpret_cast<std::uintptr_t>(wides.data()) % 64 != 0) return 3;
      if (step % 5 == 0) session.checkpoint();
    }
    std::printf("sum %.17g\n", sum());
    session.unprotect_all();
    session.close();
  } catch (const mainstay::error &e) {
    std::printf("%s: %s\n", e.status_name(), e.what());
    return 4;
  }
  return 0;
}
