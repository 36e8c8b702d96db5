#include <mainstay_mpi.h>
#include <stdio.h>

#define N 100000

/* The state of the program: its own variables. */
static double high[N], speed[N];
static int step;
static struct {
  double most;
  int at;
} seen;
/* Data of one run alone. */
static MPI_Comm world;

static void check(mainstay_status status) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "%s: %s\n", mainstay_status_name(status), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void advance(void) {
  for (int i = 1; i < N - 1; i++) speed[i] += 0.1 * (high[i - 1] - 2 * high[i] + high[i + 1]);
  for (int i = 1; i < N - 1; i++) high[i] += speed[i];
  step++;
  if (high[N / 4] > seen.most) seen.most = high[N / 4], seen.at = step;
}

int main(int argc, char **argv) {
  mainstay_session *session;
  mainstay_restored restored;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  int due, rank;
  options.every_steps = 100;

  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a rank that is killed has said all that it printed */
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(world, &rank);
  for (int i = 0; i < N / 2; i++) high[i] = 1 + rank;
  /* ANCHOR: globals */
  check(mainstay_open_mpi(world, "space", &options, &session));
  check(mainstay_leave_out(session, &world, sizeof world)); /* a handle of this run */
  check(mainstay_protect_globals(session));                 /* all other variables of the program */
  check(mainstay_restore(session, &restored));
  /* ANCHOR_END: globals */
  if (restored.revision && rank == 0)
    printf("restored revision %llu at step %d\n", (unsigned long long)restored.revision, step);

  while (step < 1000) {
    advance();
    check(mainstay_due(session, step, &due));
    if (due) check(mainstay_checkpoint(session, NULL));
  }
  if (rank == 0) printf("step %d: the most was %.15g, at step %d\n", step, seen.most, seen.at);

  check(mainstay_close(session));
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
