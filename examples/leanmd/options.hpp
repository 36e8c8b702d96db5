/* The command line. */
#ifndef LEANMD_OPTIONS_HPP
#define LEANMD_OPTIONS_HPP

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "objects.hpp"

/* Process number `rank` ends in this step, so many microseconds after that has begun. */
struct crash {
  int rank;
  std::uint64_t step;
  long after_us;
};

struct options {
  std::string space = "leanmd-space", strategy = "graph", trace;
  std::uint64_t steps = 600, every = 10, balance_after = 5, balance_every = 0, tells_every = 0,
                evacuated_at = UINT64_MAX;
  std::vector<crash> crashes;
  std::vector<std::uint32_t> evacuated;

  bool evacuates(std::uint64_t step) const { return step == evacuated_at; }
};

inline const char *usage =
    "usage: mpiexec -n RANKS leanmd [OPTION VALUE]...\n"
    "  --space DIR          where it saves (leanmd-space)\n"
    "  --cells XxYxZ        of the box (7x10x10)\n"
    "  --atoms N            (92224)\n"
    "  --steps N            (600)\n"
    "  --every N            steps between checkpoints (10)\n"
    "  --strategy NAME      none, greedy, refine, orphans or graph (graph)\n"
    "  --balance-after N    steps after a failure (5)\n"
    "  --balance-every N    steps (0: not by steps)\n"
    "  --work time|pairs    what an object's load is: time that it takes, or pairs of atoms (time)\n"
    "  --tell N             a line every so many steps (0: none)\n"
    "  --trace FILE         of rank 0, a line a step: step, ranks, seconds, pairs of atoms of the busiest rank and on "
    "average\n"
    "  --crash R@S[+US]     process R is killed in step S, US microseconds after that has begun; again and again\n"
    "  --evacuate R@S       all objects move off rank R before step S\n";

inline options options_of(int argc, char **argv, world &w) {
  options o;
  auto wrong = [](const std::string &what) {
    std::fprintf(stderr, "leanmd: %s\n%s", what.c_str(), usage);
    std::exit(2);
  };
  if (argc == 2 && std::string(argv[1]) == "--help") std::fputs(usage, stdout), std::exit(0);
  for (int at = 1; at < argc; at += 2) {
    const std::string name = argv[at];
    if (at + 1 == argc) wrong(name + " has no value, or is none of the options");
    const char *value = argv[at + 1];
    const std::uint64_t number = std::strtoull(value, nullptr, 10);
    if (name == "--space")
      o.space = value;
    else if (name == "--cells") {
      auto &c = w.m.cells;
      if (std::sscanf(value, "%dx%dx%d", &c[0], &c[1], &c[2]) != 3 || c[0] < 1 || c[1] < 1 || c[2] < 1)
        wrong("--cells: as 7x10x10");
    } else if (name == "--atoms")
      w.m.atoms = number ? number : (wrong("--atoms: at least one"), 1);
    else if (name == "--steps")
      o.steps = number;
    else if (name == "--every")
      o.every = number;
    else if (name == "--strategy")
      o.strategy = value;
    else if (name == "--balance-after")
      o.balance_after = number;
    else if (name == "--balance-every")
      o.balance_every = number;
    else if (name == "--work")
      w.counts = std::string(value) == "pairs";
    else if (name == "--tell")
      o.tells_every = number;
    else if (name == "--trace")
      o.trace = value;
    else if (name == "--crash") {
      crash c = {0, 0, 0};
      unsigned long long step = 0;
      if (std::sscanf(value, "%d@%llu+%ld", &c.rank, &step, &c.after_us) < 2) wrong("--crash: as 3@17 or 3@17+500");
      c.step = step, o.crashes.push_back(c);
    } else if (name == "--evacuate") {
      unsigned rank = 0;
      unsigned long long step = 0;
      if (std::sscanf(value, "%u@%llu", &rank, &step) != 2) wrong("--evacuate: as 3@17");
      o.evacuated.push_back(rank), o.evacuated_at = step;
    } else
      wrong("no option " + name);
  }
  w.m.settle();
  return o;
}

#endif
