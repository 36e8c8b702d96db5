/* Many ranks save a field each, in several ways, in turns. Prints a line of JSON before each save, and one with the
 * values of every rank after it. After each line the program waits for a line of input: meanwhile its caller can count
 * the operations of the servers.
 *
 *     space PLACES BYTES ROUNDS WAY...
 *
 * PLACES is a list of folders, separated by commas: mounts of the same folder. Each mount serves the same number of
 * ranks, and is a node to them. Several lists are separated by semicolons. A WAY is file, segmented or strided, or
 * NAME@LIST:KEY=VALUE,... for a session with these settings, in the list with this number. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "field.h"
#include "process.h"
#include "rounds.h"
#include "stop.h"
#include "way.h"

#define WAYS_MAX 16
#define PLACES_MAX 64
#define WARM_UPS 3 /* a space has room for 3 revisions; later ones overwrite them */

static int rank, ranks;

static const kind *find_kind(const char *name) {
  static const kind *const kinds[] = {&file_kind, &segmented_kind, &strided_kind};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
  stop("no way: %s", name);
}

/* The folder of a list for this rank, and the name of its node. */
static const char *place_of(const char *lists, long list) {
  char *rest = strdup(lists), *places = strsep(&rest, ";");
  for (; list > 0 && places; list--) places = strsep(&rest, ";");
  if (!places) stop("no such list of places");
  char *all[PLACES_MAX], node[16];
  int count = 0;
  for (char *place; (place = strsep(&places, ",")); all[count++] = place)
    if (count == PLACES_MAX) stop("more than %d places", PLACES_MAX);
  int mine = (int)((long)rank * count / ranks);
  snprintf(node, sizeof node, "%d", mine);
  setenv("MAINSTAY_NODE", node, 1);
  return all[mine];
}

static void wait_for_line(void) {
  int byte = 0;
  if (rank == 0)
    while ((byte = getchar()) != '\n')
      if (byte == EOF) stop("no line of input to go on");
  meet();
}

static void save_one(way *way, int round) {
  static const char *const names[] = {"perceived", "durable"};
  const int number = round + WARM_UPS;
  field_fill((uint64_t *)(void *)way->data, way->bytes / sizeof(uint64_t), rank, (uint64_t)number);
  if (way->kind->forget && number > 0) way->kind->forget(way, number - 1);
  meet();
  if (rank == 0) printf("{\"next\": \"%s\"}\n", way->name);
  wait_for_line();
  double start = start_together();
  double goes_on = way->kind->save(way, number);
  double end = now();
  meet();
  const double values[] = {goes_on - start, end - start};
  print(way->name, round, 2, names, values);
  wait_for_line();
}

int main(int argc, char **argv) {
  way ways[WAYS_MAX];
  size_t order[WAYS_MAX], count = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the job ends with mpiexec */
  MPI_Init(&argc, &argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 5 || argc - 4 > WAYS_MAX) stop("usage: space PLACES BYTES ROUNDS WAY...");
  size_t bytes = strtoull(argv[2], NULL, 10);
  int rounds = atoi(argv[3]);
  unsigned char *data = touched(bytes);
  for (int i = 4; i < argc; i++) {
    char *settings = strchr(argv[i], ':'), *list = strchr(argv[i], '@');
    if (settings) *settings++ = 0;
    if (list) *list++ = 0;
    ways[count++] = (way){.kind = settings ? &delegated_kind : find_kind(argv[i]),
                          .name = argv[i],
                          .settings = settings,
                          .directory = place_of(argv[1], list ? atol(list) : 0),
                          .data = data,
                          .bytes = bytes,
                          .rank = rank,
                          .ranks = ranks};
  }

  for (way *way = ways; way < ways + count; way++)
    if (way->kind->open) way->kind->open(way);
  for (int round = -WARM_UPS; round < rounds; round++) {
    shuffled(order, count, round);
    for (size_t i = 0; i < count; i++) save_one(&ways[order[i]], round);
  }
  for (way *way = ways; way < ways + count; way++) {
    if (way->kind->forget) way->kind->forget(way, WARM_UPS + rounds - 1);
    if (way->kind->close) way->kind->close(way);
  }
  MPI_Finalize();
  return 0;
}
