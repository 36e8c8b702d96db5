/* Goes back to a revision by its number: twice to the same one, which stays, and from later revisions. went_back SPACE
 * DISK: DISK is the level before the space, and keeps one revision; the space keeps three. */

#include <mainstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char state[1 << 18];
static int rank;

static void check(mainstay_status status) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "%s: %s\n", mainstay_status_name(status), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void save(mainstay_session *session, char filled) {
  uint64_t revision;
  memset(state, filled + rank, sizeof state);
  check(mainstay_checkpoint(session, &revision));
  check(mainstay_wait(session));
  check(mainstay_wait_for(session, "pfs"));
  if (revision != (uint64_t)filled) {
    fprintf(stderr, "revision %llu is saved as %d\n", (unsigned long long)revision, filled);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static void go_back(mainstay_session *session, uint64_t revision, char filled) {
  mainstay_restored restored;
  memset(state, 0, sizeof state);
  check(mainstay_restore_revision(session, revision, &restored));
  if (restored.revision == (uint64_t)filled && state[0] == filled + rank && state[sizeof state - 1] == state[0]) return;
  fprintf(stderr, "revision %llu has come back as %d\n", (unsigned long long)restored.revision, state[0]);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  mainstay_session *session;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  char bytes[24];
  if (argc != 3) return 2;
  options.keep = 3;
  snprintf(bytes, sizeof bytes, "%zu", 4 * sizeof state);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(mainstay_set(&options, "disk", argv[2]));
  check(mainstay_set(&options, "shard_bytes", bytes));
  check(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], &options, &session));
  check(mainstay_protect(session, "state", state, sizeof state));
  check(mainstay_restore(session, NULL));
  for (char filled = 1; filled <= 6; filled++) save(session, filled);
  go_back(session, 4, 4);
  go_back(session, MAINSTAY_NEWEST, 6);
  go_back(session, 4, 4);
  save(session, 7);
  go_back(session, 4, 4);
  go_back(session, MAINSTAY_NEWEST, 7);
  if (mainstay_restore_revision(session, 6, NULL) != MAINSTAY_REVISION_MISSING) {
    fprintf(stderr, "revision 6 is there, from which nothing goes on\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  check(mainstay_close(session));
  MPI_Finalize();
  return 0;
}
