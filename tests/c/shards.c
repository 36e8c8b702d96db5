/* Data that each rank keeps for itself, read by any number of ranks; and a buffer that is put beside a region.
 *
 *     shards SPACE save|read|put|again
 *
 * `save`: each rank has its own number of particles, in a region and in a stream. `read`: the ranks divide the shards,
 * and print `shard S: N particles, sum X` for each. `put`: each rank puts a buffer beside its region. `again`: no rank
 * puts, and each gets the buffer after a restore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mainstay_mpi.h"

enum { FEW = 1000 };

static int rank, size;

static void must(mainstay_status status, const char *what) {
  if (status == MAINSTAY_OK) return;
  printf("WRONG: %s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void hold(int good, const char *what) {
  if (good) return;
  printf("WRONG: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 4);
}

static double *particles(int of, size_t *count) {
  size_t i;
  double *all = malloc((*count = (size_t)FEW * (size_t)(of + 1)) * sizeof *all);
  for (i = 0; all && i < *count; i++) all[i] = 1000000.0 * of + (double)i;
  return all;
}

static void save(mainstay_session *session) {
  size_t count;
  double *own = particles(rank, &count);
  int table[100];
  must(mainstay_protect_array(session, "particles", own, MAINSTAY_F64, 1, &(uint64_t){count}), "protect");
  for (int i = 0; i < 100; i++) table[i] = 3 * i;
  must(mainstay_protect(session, "table", table, sizeof table), "protect the table");
  must(mainstay_same_on_all_ranks(session, "table"), "say that all ranks have it");
  must(mainstay_any_number_of_ranks(session), "say that it divides the particles anew");
  must(mainstay_note(session, "kind", "particles"), "note");
  must(mainstay_begin(session, 100, NULL), "begin");
  must(mainstay_write(session, "log", 0, "rank", 4), "write");
  must(mainstay_checkpoint(session, NULL), "checkpoint");
  must(mainstay_wait(session), "wait");
  free(own);
}

static void read_shard(mainstay_session *session, uint32_t shard) {
  size_t count, items, got, i;
  double *expected = particles((int)shard, &count), *some = calloc(count, sizeof *some), sum = 0;
  char text[4];
  mainstay_item item;
  must(mainstay_shard_items(session, shard, &items), "items");
  hold(items == 3, "three items");
  /* The first item is the one that was written in pieces. */
  must(mainstay_shard_item(session, shard, 1, &item), "item");
  hold(strcmp(item.name, "particles") == 0 && item.kind == 0 && item.type == MAINSTAY_F64, "the region");
  hold(item.dimensions == 1 && item.shape[0] == count && item.bytes == count * sizeof *some, "its shape");
  hold(mainstay_shard_item(session, shard, 3, &item) == MAINSTAY_INVALID_ARGUMENT, "a fourth item");
  /* Reads all but the first, and then the first; asks for more than there is. */
  must(mainstay_read_shard(session, shard, "particles", sizeof *some, some + 1, count * sizeof *some, &got), "read");
  hold(got == (count - 1) * sizeof *some, "all but one");
  must(mainstay_read_shard(session, shard, "particles", 0, some, sizeof *some, NULL), "read the first");
  hold(memcmp(some, expected, count * sizeof *some) == 0, "the particles");
  must(mainstay_read_shard(session, shard, "log", 0, text, 4, &got), "read the stream");
  hold(got == 4 && memcmp(text, "rank", 4) == 0, "the stream");
  for (i = 0; i < count; i++) sum += some[i];
  printf("shard %u: %zu particles, sum %.0f\n", (unsigned)shard, count, sum);
  free(expected);
  free(some);
}

/* The revision is listed with its note, and chosen without filling the region. */
static void choose(mainstay_session *session, const int *table) {
  mainstay_listed_revision listed;
  mainstay_restored restored;
  size_t count = 0;
  must(mainstay_revisions(session, &count), "revisions");
  hold(count == 1 && mainstay_revision(session, 1, &listed) == MAINSTAY_INVALID_ARGUMENT, "one revision");
  must(mainstay_revision(session, 0, &listed), "revision");
  hold(listed.revision == 1 && listed.step == 0, "its number");
  hold(!strcmp(mainstay_revision_note(session, 0, "kind"), "particles"), "its note");
  hold(!mainstay_revision_note(session, 0, "none") && !mainstay_revision_note(session, 1, "kind"), "other notes");
  hold(mainstay_choose(session, 7, &restored) == MAINSTAY_REVISION_MISSING, "no such revision");
  must(mainstay_choose(session, MAINSTAY_NEWEST, &restored), "choose");
  hold(restored.revision == 1 && table[99] == 0, "the region is as it was");
}

static void divide(mainstay_session *session) {
  uint32_t shards = 7, mine[64], count = 0, shard;
  mainstay_restored restored;
  int table[100] = {0};
  must(mainstay_protect(session, "table", table, sizeof table), "protect the table");
  must(mainstay_shards(session, &shards), "shards");
  hold(shards == 0, "no shards before a restore");
  hold(mainstay_bring_shards(session, NULL, 0) == MAINSTAY_INVALID_ARGUMENT, "nothing to bring");
  choose(session, table);
  must(mainstay_restore(session, &restored), "restore");
  hold(table[99] == 297, "what is the same on all ranks");
  must(mainstay_unprotect(session, "table"), "unprotect");
  must(mainstay_shards(session, &shards), "shards");
  for (shard = (uint32_t)rank; shard < shards; shard += (uint32_t)size) mine[count++] = shard;
  hold(mainstay_bring_shards(session, NULL, 1) == MAINSTAY_INVALID_ARGUMENT, "no shards are given");
  hold(mainstay_bring_shards(session, &shards, 1) == MAINSTAY_INVALID_ARGUMENT, "no such shard");
  must(mainstay_bring_shards(session, mine, count), "bring");
  for (shard = 0; shard < count; shard++) read_shard(session, mine[shard]);
}

static void put(mainstay_session *session, int again) {
  static int state[5000];
  mainstay_restored restored;
  mainstay_got got;
  int extra[2] = {rank, 7}, back[2] = {0, 0}, i;
  for (i = 0; i < 5000; i++) state[i] = again ? 0 : i;
  must(mainstay_protect(session, "state", state, sizeof state), "protect");
  must(mainstay_restore(session, &restored), "restore");
  hold(!again == (restored.revision == 0), "what came back");
  if (!again) {
    must(mainstay_put(session, "extra", extra, sizeof extra, NULL), "put");
    return;
  }
  hold(state[4999] == 4999, "the region");
  must(mainstay_get(session, MAINSTAY_NEWEST, "extra", back, sizeof back, &got), "get");
  hold(got.revision == restored.revision && memcmp(back, extra, sizeof back) == 0, "the buffer");
  must(mainstay_checkpoint(session, NULL), "checkpoint");
}

int main(int argc, char **argv) {
  mainstay_session *session;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3) return 2;
  must(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session), "open");
  if (strcmp(argv[2], "save") == 0)
    save(session);
  else if (strcmp(argv[2], "read") == 0)
    divide(session);
  else
    put(session, strcmp(argv[2], "again") == 0);
  must(mainstay_close(session), "close");
  MPI_Finalize();
  return 0;
}
