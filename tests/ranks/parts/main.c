/* parts FOLDER [PART...]: runs the checks of all parts of MPI or of some, and prints their number. */
#include "parts.h"

int rank, ranks, next, before;
const char *folder;
static int checks, failures;

static const struct {
  const char *name;
  void (*run)(void);
} parts[] = {
    {"point", point},           {"waits", waits},
    {"probes", probes},         {"collectives", collectives},
    {"vectors", vectors},       {"communicators", communicators},
    {"topologies", topologies}, {"types", types},
    {"packs", packs},           {"operations", operations},
    {"general", general},       {"nonblocking", nonblocking},
    {"files", files},
};

void check(int holds, const char *condition, const char *file, int line) {
  checks++;
  if (holds) return;
  failures++;
  fprintf(stderr, "%s:%d: rank %d: %s does not hold\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, rank,
          condition);
}

int value(int a, int b, int c) { return (a * 7919 + b * 104729 + c * 1299709) & 0xffffff; }

int main(int count, char **arguments) {
  int all = 0;
  if (count < 2) return 2;
  folder = arguments[1];
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    int is_wanted = count == 2, sums[2];
    for (int j = 2; j < count; j++) is_wanted |= !strcmp(arguments[j], parts[i].name);
    if (!is_wanted) continue;
    checks = failures = 0;
    parts[i].run();
    MPI_Allreduce((int[]){checks, failures}, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%s: %d checks, %d failed\n", parts[i].name, sums[0], sums[1]), fflush(stdout);
    all += sums[1];
  }
  MPI_Finalize();
  return all != 0;
}
