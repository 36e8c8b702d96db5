/* Blocking collectives, in place and with derived types, on several communicators. */
#include "parts.h"

enum { CELLS = 7 };

static int me, size;
static MPI_Comm comm;
static MPI_Datatype gapped; /* two numbers with a gap behind each */

static void of_roots(void) {
  int *all = malloc((size_t)size * CELLS * sizeof *all), part[CELLS];
  for (int root = 0; root < size; root++) {
    int cells[CELLS];
    for (int i = 0; i < CELLS; i++) cells[i] = me == root ? value(root, i, 0) : -1;
    MPI_Bcast(cells, CELLS, MPI_INT, root, comm);
    for (int i = 0; i < CELLS; i++) CHECK(cells[i] == value(root, i, 0)), part[i] = value(me, root, i);
    /* Together, then apart; the root's own part lies in place in every second turn. */
    memset(all, -1, (size_t)size * CELLS * sizeof *all);
    int in_place = root % 2 == 0 && me == root;
    if (in_place) memcpy(all + me * CELLS, part, sizeof part);
    MPI_Gather(in_place ? MPI_IN_PLACE : part, CELLS, MPI_INT, all, CELLS, MPI_INT, root, comm);
    for (int i = 0; me == root && i < size * CELLS; i++) CHECK(all[i] == value(i / CELLS, root, i % CELLS));
    memset(part, -1, sizeof part);
    MPI_Scatter(all, CELLS, MPI_INT, in_place ? MPI_IN_PLACE : part, CELLS, MPI_INT, root, comm);
    for (int i = 0; !in_place && i < CELLS; i++) CHECK(part[i] == value(me, root, i));
  }
  free(all);
}

static void of_all(void) {
  int *all = malloc((size_t)size * 2 * sizeof *all), *turned = malloc((size_t)size * 2 * sizeof *turned);
  MPI_Allgather((int[]){me, value(me, 1, 1)}, 2, MPI_INT, all, 2, MPI_INT, comm);
  for (int i = 0; i < size; i++) CHECK(all[2 * i] == i && all[2 * i + 1] == value(i, 1, 1));
  for (int i = 0; i < 2 * size; i++) all[i] = i / 2 == me ? value(me, 2, i % 2) : -1;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 2, MPI_INT, comm);
  for (int i = 0; i < 2 * size; i++) CHECK(all[i] == value(i / 2, 2, i % 2));
  for (int i = 0; i < 2 * size; i++) all[i] = value(me, i / 2, i % 2);
  MPI_Alltoall(all, 2, MPI_INT, turned, 2, MPI_INT, comm);
  for (int i = 0; i < 2 * size; i++) CHECK(turned[i] == value(i / 2, me, i % 2));
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 2, MPI_INT, comm);
  for (int i = 0; i < 2 * size; i++) CHECK(all[i] == value(i / 2, me, i % 2));
  free(all);
  free(turned);
}

static void reduced(void) {
  int sum[CELLS], mine[CELLS], expected[CELLS];
  for (int i = 0; i < CELLS; i++) {
    mine[i] = value(me, i, 4), expected[i] = 0;
    for (int of = 0; of < size; of++) expected[i] += value(of, i, 4);
  }
  for (int root = 0; root < size; root++) {
    memcpy(sum, mine, sizeof sum);
    MPI_Reduce(me == root ? MPI_IN_PLACE : mine, sum, CELLS, MPI_INT, MPI_SUM, root, comm);
    CHECK(me != root || !memcmp(sum, expected, sizeof sum));
  }
  MPI_Allreduce(mine, sum, CELLS, MPI_INT, MPI_SUM, comm);
  CHECK(!memcmp(sum, expected, sizeof sum));
  memcpy(sum, mine, sizeof sum);
  MPI_Allreduce(MPI_IN_PLACE, sum, CELLS, MPI_INT, MPI_SUM, comm);
  CHECK(!memcmp(sum, expected, sizeof sum));
  int up_to = 0;
  for (int of = 0; of <= me; of++) up_to += value(of, 0, 4);
  sum[0] = -1;
  MPI_Scan(mine, sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum[0] == up_to);
  sum[0] = mine[0];
  MPI_Scan(MPI_IN_PLACE, sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum[0] == up_to);
  MPI_Exscan(mine, sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(me == 0 || sum[0] == up_to - mine[0]);
}

static void reduced_and_scattered(void) {
  int *mine = malloc((size_t)size * 2 * sizeof *mine), *counts = malloc((size_t)size * sizeof *counts), got[2], all = 0;
  int expected[2] = {0, 0};
  for (int i = 0; i < 2 * size; i++) mine[i] = value(me, i, 5);
  for (int of = 0; of < size; of++)
    for (int i = 0; i < 2; i++) expected[i] += value(of, 2 * me + i, 5);
  MPI_Reduce_scatter_block(mine, got, 2, MPI_INT, MPI_SUM, comm);
  CHECK(!memcmp(got, expected, sizeof got));
  for (int i = 0; i < size; i++) counts[i] = i % 3 == 1 ? 0 : 1, all += counts[i];
  int at = 0, sum = 0;
  for (int i = 0; i < me; i++) at += counts[i];
  for (int of = 0; of < size; of++) sum += value(of, at, 5);
  got[0] = -1;
  MPI_Reduce_scatter(mine, got, counts, MPI_INT, MPI_SUM, comm);
  CHECK(got[0] == (counts[me] ? sum : -1));
  MPI_Reduce_scatter(MPI_IN_PLACE, mine, counts, MPI_INT, MPI_SUM, comm);
  CHECK(!counts[me] || mine[0] == sum);
  free(mine);
  free(counts);
}

/* The numbers that `gapped` names move; those in the gaps stay. */
static void with_gaps(void) {
  int *all = malloc((size_t)size * 4 * sizeof *all), mine[4] = {me, -2, value(me, 0, 6), -3}, packed[2] = {me, 8};
  for (int i = 0; i < 4 * size; i++) all[i] = -9;
  MPI_Allgather(mine, 1, gapped, all, 1, gapped, comm);
  for (int i = 0; i < size; i++) {
    CHECK(all[4 * i] == i && all[4 * i + 2] == value(i, 0, 6));
    CHECK(all[4 * i + 1] == -9 && (all[4 * i + 3] == -9));
  }
  MPI_Gather(packed, 2, MPI_INT, all, 1, gapped, size - 1, comm);
  for (int i = 0; me == size - 1 && i < size; i++)
    CHECK(all[4 * i] == i && all[4 * i + 2] == 8 && all[4 * i + 1] == -9);
  if (me != 0) mine[0] = mine[2] = -1;
  MPI_Bcast(mine, me == 0 ? 1 : 2, me == 0 ? gapped : MPI_INT, 0, comm);
  CHECK(me == 0 || (mine[0] == 0 && mine[1] == value(0, 0, 6)));
  free(all);
}

static void on(MPI_Comm chosen) {
  comm = chosen;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  of_roots();
  of_all();
  reduced();
  reduced_and_scattered();
  with_gaps();
  MPI_Barrier(comm);
}

/* Between two groups: the even ranks and the odd ones. */
static void between(void) {
  MPI_Comm half, both;
  int mine, theirs, sum, expected = 0, is_odd = rank % 2, got[64];
  if (ranks < 2) return;
  MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - is_odd, 12, &both);
  MPI_Comm_rank(both, &mine);
  MPI_Comm_remote_size(both, &theirs);
  for (int of = 1 - is_odd; of < ranks; of += 2) expected += value(of, 3, 3);
  MPI_Allreduce(&(int){value(rank, 3, 3)}, &sum, 1, MPI_INT, MPI_SUM, both);
  CHECK(sum == expected);
  MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, both);
  for (int i = 0; i < theirs; i++) CHECK(got[i] == 2 * i + 1 - is_odd);
  int root = is_odd ? 0 : mine == 0 ? MPI_ROOT : MPI_PROC_NULL, word = is_odd ? -1 : 55;
  MPI_Bcast(&word, 1, MPI_INT, root, both);
  CHECK(word == 55);
  MPI_Gather(&rank, 1, MPI_INT, got, 1, MPI_INT, root, both);
  for (int i = 0; root == MPI_ROOT && i < theirs; i++) CHECK(got[i] == 2 * i + 1);
  MPI_Barrier(both);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

void collectives(void) {
  MPI_Comm turned, part;
  MPI_Datatype two;
  MPI_Type_vector(2, 1, 2, MPI_INT, &two);
  MPI_Type_create_resized(two, 0, 4 * sizeof(int), &gapped);
  MPI_Type_commit(&gapped);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 3, 0, &part);
  on(MPI_COMM_WORLD);
  on(turned);
  on(part);
  on(MPI_COMM_SELF);
  between();
  MPI_Comm_free(&turned);
  MPI_Comm_free(&part);
  MPI_Type_free(&two);
  MPI_Type_free(&gapped);
}
