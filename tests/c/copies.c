/* A job that loses a node: all its ranks die at a given moment.
 *
 *     copies SPACE STEPS CELLS [WAY [NODE MOMENT STEP]]
 *
 * Each step computes and saves. WAY is `wait`, which waits for each revision, or `on`, which goes on at once, or the
 * name of a call that is repeated for ever after the second step: `progress`, `poll` or `due`. The ranks with NODE as
 * their MAINSTAY_NODE die at STEP: `opened` before the restore, `computed` before its checkpoint, `saved` after it,
 * `moved` after a call that moved its copies on, `waited` after a wait for them, or a number of microseconds after its
 * checkpoint began. The result does not depend on it. */
#define _DEFAULT_SOURCE
#include <mainstay_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static const char *moment = "";
static uint64_t fatal; /* step; 0: this rank lives */
static int dies_soon;

static void die_if(const char *now, uint64_t step) {
  if (fatal && step >= fatal && strcmp(moment, now) == 0) raise(SIGKILL);
}

static void die_soon(uint64_t step) {
  struct itimerval after = {{0, 0}, {0, 0}};
  long us = atol(moment);
  if (!fatal || step < fatal || us == 0 || dies_soon) return;
  dies_soon = 1;
  after.it_value.tv_sec = us / 1000000;
  after.it_value.tv_usec = us % 1000000;
  setitimer(ITIMER_REAL, &after, NULL); /* without a handler the signal ends the process like SIGKILL */
}

static mainstay_session *session;

static void must(mainstay_status status, const char *what) {
  mainstay_status then;
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "WRONG %s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
  /* That a rank is gone stays so. */
  if (status == MAINSTAY_GROUP_FAILED && session && (then = mainstay_progress(session)) != status)
    fprintf(stderr, "WRONG then: %s: %s\n", mainstay_status_name(then), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 3);
  exit(3); /* MPICH returns from that where another rank is gone */
}

/* Repeats one call until the job is ended. */
static void stay(const char *call, uint64_t step) {
  int said;
  printf("stays\n");
  for (;;) {
    if (strcmp(call, "progress") == 0)
      must(mainstay_progress(session), call);
    else if (strcmp(call, "poll") == 0)
      must(mainstay_poll(session, &said), call);
    else
      must(mainstay_due(session, ++step, &said), call);
    usleep(1000);
  }
}

static uint64_t digest(const double *field, long cells, int rank) {
  uint64_t hash = 0xcbf29ce484222325u + (uint64_t)rank, bits;
  long i;
  for (i = 0; i < cells; i++) {
    memcpy(&bits, &field[i], sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
  }
  return hash;
}

int main(int argc, char **argv) {
  uint64_t step = 0, steps, all, mine;
  long cells, i;
  int rank, waits, due;
  const char *node = getenv("MAINSTAY_NODE"), *way;
  double *field;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  mainstay_restored restored;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 4) return 2;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  steps = (uint64_t)atol(argv[2]);
  cells = atol(argv[3]);
  way = argc > 4 ? argv[4] : "wait";
  waits = strcmp(way, "wait") == 0;
  if (argc > 7 && node && strcmp(node, argv[5]) == 0) {
    moment = argv[6];
    fatal = (uint64_t)atol(argv[7]);
  }
  field = calloc((size_t)cells, sizeof *field);
  if (!field) return 2;

  options.every_steps = 1;
  must(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], &options, &session), "open");
  must(mainstay_protect(session, "step", &step, sizeof step), "protect");
  must(mainstay_protect(session, "field", field, (size_t)cells * sizeof *field), "protect");
  die_if("opened", fatal);
  memset(&restored, 0, sizeof restored);
  must(mainstay_restore(session, &restored), "restore");
  if (rank == 0) {
    printf("from %lu\n", (unsigned long)step);
    if (restored.skipped) printf("skipped %s\n", mainstay_report(session));
  }

  while (step < steps) {
    for (i = 0; i < cells; i++) field[i] = 0.5 * field[i] + (double)(rank + i % 1000) / (double)(step + 3);
    step++;
    must(mainstay_due(session, step, &due), "due");
    if (!due) continue;
    die_if("computed", step);
    die_soon(step);
    must(mainstay_checkpoint(session, NULL), "checkpoint");
    /* The copies of the one before are settled. */
    if (rank == 0 && !waits) printf("sure %lu\n", (unsigned long)step - 1);
    die_if("saved", step);
    if (step == 2 && !waits && strcmp(way, "on") != 0) stay(way, step);
    must(mainstay_progress(session), "progress");
    die_if("moved", step);
    if (waits) must(mainstay_wait(session), "wait");
    while (waits && dies_soon) /* however slow the machine is: at this step, and no later one */
      pause();
    if (rank == 0 && waits) printf("sure %lu\n", (unsigned long)step);
    die_if("waited", step);
  }
  must(mainstay_close(session), "close");

  mine = digest(field, cells, rank);
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  if (rank == 0) printf("end %016lx\n", (unsigned long)all);
  free(field);
  MPI_Finalize();
  return 0;
}
