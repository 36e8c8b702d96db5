/* Collectives with another count for each rank. Rank i has i + 1 numbers, at places of its own. */
#include "parts.h"

enum { ROOM = 5 };

static int *counts, *places, *bytes, *all;
static MPI_Datatype *ints;

static void clear(void) {
  for (int i = 0; i < ranks * ranks * ROOM; i++) all[i] = -1;
}

/* Each part, and nothing beside it. */
static void check_parts(int turn, int to) {
  for (int i = 0; i < ranks; i++)
    for (int j = 0; j < (ranks + ROOM); j++) {
      int at = places[i] + j;
      if (j < counts[i])
        CHECK(all[at] == value(i, turn + to, j));
      else if (i + 1 < ranks && at < places[i + 1])
        CHECK(all[at] == -1);
    }
}

static void gathered(void) {
  int *mine = malloc((size_t)(ranks + 1) * sizeof *mine);
  for (int root = 0; root < ranks; root++) {
    clear();
    for (int j = 0; j <= rank; j++) mine[j] = value(rank, root, j);
    MPI_Gatherv(mine, rank + 1, MPI_INT, all, counts, places, MPI_INT, root, MPI_COMM_WORLD);
    if (rank == root) check_parts(root, 0);
    memset(mine, -1, (size_t)(ranks + 1) * sizeof *mine);
    MPI_Scatterv(all, counts, places, MPI_INT, mine, rank + 1, MPI_INT, root, MPI_COMM_WORLD);
    for (int j = 0; j <= rank; j++) CHECK(mine[j] == value(rank, root, j));
    CHECK(mine[rank + 1 > ranks ? ranks : rank + 1] == -1 || rank + 1 > ranks);
  }
  clear();
  for (int j = 0; j <= rank; j++) mine[j] = value(rank, 40, j);
  MPI_Allgatherv(mine, rank + 1, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  check_parts(40, 0);
  clear();
  memcpy(all + places[rank], mine, (size_t)(rank + 1) * sizeof *mine);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  check_parts(40, 0);
  free(mine);
}

/* Rank r gets i + 1 numbers from rank i, and sends rank + 1 to each. */
static void all_to_all(void) {
  int *out = malloc((size_t)ranks * (size_t)(rank + 1) * sizeof *out), *sent = malloc((size_t)ranks * sizeof *sent);
  int *from = malloc((size_t)ranks * sizeof *from), *from_bytes = malloc((size_t)ranks * sizeof *from_bytes);
  for (int to = 0; to < ranks; to++) {
    sent[to] = rank + 1, from[to] = to * (rank + 1), from_bytes[to] = from[to] * (int)sizeof(int);
    for (int j = 0; j <= rank; j++) out[from[to] + j] = value(rank, 60 + to, j);
  }
  clear();
  MPI_Alltoallv(out, sent, from, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  check_parts(60, rank);
  clear();
  MPI_Alltoallw(out, sent, from_bytes, ints, all, counts, bytes, ints, MPI_COMM_WORLD);
  check_parts(60, rank);
  free(out);
  free(sent);
  free(from);
  free(from_bytes);
}

void vectors(void) {
  size_t numbers = (size_t)ranks * sizeof(int);
  counts = malloc(numbers), places = malloc(numbers), bytes = malloc(numbers);
  ints = malloc((size_t)ranks * sizeof *ints);
  all = malloc((size_t)ranks * (size_t)ranks * ROOM * 2 * sizeof *all);
  for (int i = 0; i < ranks; i++) {
    counts[i] = i + 1, places[i] = i * (ranks + ROOM - 1), bytes[i] = places[i] * (int)sizeof(int);
    ints[i] = MPI_INT;
  }
  gathered();
  all_to_all();
  free(counts), free(places), free(bytes), free(ints), free(all);
}
