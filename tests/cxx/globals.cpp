/* The program's own variables from C++, where some have constructors, and are left out.
 *
 *     globals SPACE save|restore
 */
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include <mainstay.hpp>

struct point {
  double x, y;
};
static point points[333];
static std::string label = "a text that is too long for the string itself";
static int counter;
namespace deep {
double scale = 1;
}

static int count() {
  static int calls = 0;
  return ++calls;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  auto session = mainstay::open_solo(argv[1]);
  session.leave_out(label);
  session.protect_globals();
  if (std::strcmp(argv[2], "save") == 0) {
    for (auto &point : points) point = {1.5 * counter++, 2};
    deep::scale = 7, count(), count();
    label += " and longer";
    session.checkpoint();
  } else {
    if (!session.restore()) return 3;
    if (counter != 333 || points[332].x != 1.5 * 332 || deep::scale != 7 || count() != 3) return 4;
    if (label != "a text that is too long for the string itself") return 5;
    label += " goes on";
  }
  session.close();
  std::cout << "done" << std::endl;
  return 0;
}
