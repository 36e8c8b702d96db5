/* Nonblocking collectives: many at once, on two communicators, ended in any order. */
#include "parts.h"

enum { TURNS = 8, KINDS = 12 };

struct turn {
  int sum, all[64], from[64], word, part, up_to, below, block, root_sum;
};

/* Starts a collective of each kind, with numbers of this turn. */
static void start(MPI_Comm comm, int turn, struct turn *at, int *out, MPI_Request *requests) {
  int root = turn % ranks, me;
  MPI_Comm_rank(comm, &me);
  for (int i = 0; i < ranks; i++) out[i] = value(me, turn, i);
  at->word = me == root ? value(root, turn, 99) : -1;
  at->all[me] = value(me, turn, 0);
  MPI_Ibarrier(comm, &requests[0]);
  MPI_Iallreduce(out, &at->sum, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
  MPI_Ibcast(&at->word, 1, MPI_INT, root, comm, &requests[2]);
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, at->all, 1, MPI_INT, comm, &requests[3]);
  MPI_Ialltoall(out, 1, MPI_INT, at->from, 1, MPI_INT, comm, &requests[4]);
  MPI_Iscatter(out, 1, MPI_INT, &at->part, 1, MPI_INT, root, comm, &requests[5]);
  MPI_Iscan(out, &at->up_to, 1, MPI_INT, MPI_SUM, comm, &requests[6]);
  MPI_Iexscan(out, &at->below, 1, MPI_INT, MPI_SUM, comm, &requests[7]);
  MPI_Ireduce_scatter_block(out, &at->block, 1, MPI_INT, MPI_SUM, comm, &requests[8]);
  MPI_Ireduce(out, &at->root_sum, 1, MPI_INT, MPI_SUM, root, comm, &requests[9]);
  requests[10] = requests[11] = MPI_REQUEST_NULL;
}

static void check_turn(MPI_Comm comm, int turn, const struct turn *at) {
  int root = turn % ranks, me, sum = 0, up_to = 0, block = 0;
  MPI_Comm_rank(comm, &me);
  for (int of = 0; of < ranks; of++) {
    sum += value(of, turn, 0), block += value(of, turn, me);
    up_to += of <= me ? value(of, turn, 0) : 0;
    CHECK(at->all[of] == value(of, turn, 0) && at->from[of] == value(of, turn, me));
  }
  CHECK(at->sum == sum && at->word == value(root, turn, 99) && at->part == value(root, turn, me));
  CHECK(at->up_to == up_to && (me == 0 || at->below == up_to - value(me, turn, 0)) && at->block == block);
  CHECK(me != root || at->root_sum == sum);
}

/* With counts for each rank, and between neighbours. */
static void uneven(MPI_Comm comm) {
  int me, dims[1] = {ranks}, periods[1] = {1}, near[2] = {-1, -1}, counts[64], places[64], got[64], out[64];
  MPI_Comm ring;
  MPI_Request requests[4];
  MPI_Comm_rank(comm, &me);
  for (int i = 0; i < ranks; i++) counts[i] = i % 2, places[i] = i, got[i] = -1, out[i] = value(me, i, 50);
  MPI_Iallgatherv(out, counts[me], MPI_INT, got, counts, places, MPI_INT, comm, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  for (int i = 0; i < ranks; i++) CHECK(got[i] == (i % 2 ? value(i, 0, 50) : -1));
  int sent[64], from[64];
  for (int i = 0; i < ranks; i++) sent[i] = me % 2, from[i] = i % 2, got[i] = -1;
  MPI_Ialltoallv(out, sent, places, MPI_INT, got, from, places, MPI_INT, comm, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  for (int i = 0; i < ranks; i++) CHECK(got[i] == (i % 2 ? value(i, me, 50) : -1));
  MPI_Igatherv(out, counts[me], MPI_INT, got, counts, places, MPI_INT, 0, comm, &requests[0]);
  MPI_Iscatterv(out, counts, places, MPI_INT, &near[0], counts[me], MPI_INT, 0, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(near[0] == (me % 2 ? value(0, me, 50) : -1));
  for (int i = 1; me == 0 && i < ranks; i += 2) CHECK(got[i] == value(i, 0, 50));
  MPI_Cart_create(comm, 1, dims, periods, 0, &ring);
  MPI_Ineighbor_allgather(&me, 1, MPI_INT, near, 1, MPI_INT, ring, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  CHECK(near[0] == (me + ranks - 1) % ranks && near[1] == (me + 1) % ranks);
  MPI_Comm_free(&ring);
}

void nonblocking(void) {
  static struct turn turns[2][TURNS];
  static int out[2][TURNS][64];
  MPI_Request requests[2 * TURNS * KINDS];
  MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
  for (int turn = 0; turn < TURNS; turn++)
    for (int i = 0; i < 2; i++)
      start(comms[i], turn, &turns[i][turn], out[i][turn], &requests[(i * TURNS + turn) * KINDS]);
  /* Each rank ends them in another order. */
  for (int i = 0; i < 2 * TURNS * KINDS; i++)
    MPI_Wait(&requests[(i * 5 + rank * 7) % (2 * TURNS * KINDS)], MPI_STATUS_IGNORE);
  MPI_Waitall(2 * TURNS * KINDS, requests, MPI_STATUSES_IGNORE);
  for (int turn = 0; turn < TURNS; turn++)
    for (int i = 0; i < 2; i++) check_turn(comms[i], turn, &turns[i][turn]);
  uneven(MPI_COMM_WORLD);
  uneven(comms[1]);
  MPI_Comm_free(&comms[1]);
}
