/* Patches of a grid, each as large as it has become: patches STEPS
 *
 * They are written one after another into a stream, and read back from it. */
#include <mainstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATCHES = 4, CELLS_MAX = 10000 };

typedef struct patch {
  uint64_t cells;
  double values[CELLS_MAX];
} patch;

static patch patches[PATCHES];

static void must(mainstay_status status, const char *doing) {
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "patches: %s: %s: %s\n", doing, mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/* One step of the simulation, after which one patch is larger. */
static void advance(uint64_t step, int rank) {
  for (int p = 0; p < PATCHES; p++)
    for (uint64_t i = 0; i < patches[p].cells; i++)
      patches[p].values[i] = 0.5 * patches[p].values[i] + rank + p + (double)i;
  patch *grows = &patches[step % PATCHES];
  for (int i = 0; i < 10 && grows->cells < CELLS_MAX; i++) grows->values[grows->cells++] = (double)step;
}

/* ANCHOR: save */
static void save(mainstay_session *session) {
  uint64_t at = 0, most = sizeof patches; /* that it can ever become: the first checkpoint sizes the space */
  must(mainstay_begin(session, most, NULL), "begin");
  for (int p = 0; p < PATCHES; p++) {
    const patch *it = &patches[p];
    must(mainstay_write(session, "patches", at, &it->cells, sizeof it->cells), "write");
    at += sizeof it->cells;
    must(mainstay_write(session, "patches", at, it->values, it->cells * sizeof *it->values), "write");
    at += it->cells * sizeof *it->values;
  }
  must(mainstay_checkpoint(session, NULL), "checkpoint"); /* adds the protected regions */
}
/* ANCHOR_END: save */

/* ANCHOR: load */
static void load(mainstay_session *session) {
  uint64_t at = 0;
  size_t got;
  for (int p = 0; p < PATCHES; p++) {
    patch *it = &patches[p];
    must(mainstay_read(session, "patches", at, &it->cells, sizeof it->cells, &got), "read");
    at += got;
    must(mainstay_read(session, "patches", at, it->values, it->cells * sizeof *it->values, &got), "read");
    at += got;
  }
}
/* ANCHOR_END: load */

int main(int argc, char **argv) {
  uint64_t step = 0, steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
  int rank;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a rank that is killed has said all that it printed */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  mainstay_session *session;
  mainstay_restored restored;
  must(mainstay_open_mpi(MPI_COMM_WORLD, "space", NULL, &session), "open");
  must(mainstay_protect(session, "step", &step, sizeof step), "protect");
  must(mainstay_restore(session, &restored), "restore");
  if (restored.revision) load(session);
  if (rank == 0) printf("from step %llu\n", (unsigned long long)step);

  while (step < steps) {
    advance(step, rank);
    step++;
    if (step % 10 == 0) save(session);
  }
  must(mainstay_close(session), "close");
  double sum = 0;
  for (int p = 0; p < PATCHES; p++)
    for (uint64_t i = 0; i < patches[p].cells; i++) sum += patches[p].values[i];
  if (rank == 0) printf("step %llu, sum %.17g\n", (unsigned long long)step, sum);
  MPI_Finalize();
  return 0;
}
