#include <mainstay_mpi.h>                                                          /* + */
#include <stdio.h>
#include <stdlib.h>

#define N 1000000

static int failed(mainstay_status status) {                                        /* + */
  if (status == MAINSTAY_OK) return 0;
  fprintf(stderr, "%s: %s\n", mainstay_status_name(status), mainstay_error_message());
  return 1;
}

static void check(mainstay_status status) {                                        /* + */
  if (failed(status)) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  static double field[N];
  int step = 0, steps = argc > 1 ? atoi(argv[1]) : 1000, due;
  mainstay_session *session;                                                       /* + */
  mainstay_restored restored;                                                      /* + */
  mainstay_options options = MAINSTAY_OPTIONS_INIT;                                /* + */
  options.every_steps = 100;                                                       /* + or by time: every_seconds */

  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  MPI_Init(&argc, &argv);
  check(mainstay_open_mpi(MPI_COMM_WORLD, "space", &options, &session));           /* + */
  check(mainstay_protect(session, "step", &step, sizeof step));                    /* + */
  check(mainstay_protect(session, "field", field, sizeof field));                  /* + */
  check(mainstay_restore(session, &restored));                                     /* + nothing there: nothing done */
  if (restored.revision)                                                           /* + */
    printf("restored revision %llu at step %d\n", (unsigned long long)restored.revision, step);

  while (step < steps) {
    for (int i = 0; i < N; i++) field[i] += 1.0 / (1 + i + step);
    step++;
    check(mainstay_due(session, step, &due));                                      /* + the same on all ranks */
    if (due) failed(mainstay_checkpoint(session, NULL));                           /* + returns after a copy */
  }
  printf("step %d, field[1] = %.17g\n", step, field[1]);

  check(mainstay_close(session));                                                  /* + */
  MPI_Finalize();
  return 0;
}
