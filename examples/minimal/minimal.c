#include <mainstay_mpi.h>                                                            /* + */
#include <stdio.h>
#include <stdlib.h>

#define N 1000000

static void check(mainstay_status status, const char *what) {                       /* + */
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char **argv) {
  static double field[N];
  int step = 0;
  mainstay_session *session;                                                         /* + */
  mainstay_restored restored;                                                        /* + */

  MPI_Init(&argc, &argv);
  check(mainstay_open_mpi(MPI_COMM_WORLD, "space", NULL, &session), "open");         /* + */
  check(mainstay_protect(session, "step", &step, sizeof step), "protect step");      /* + */
  check(mainstay_protect(session, "field", field, sizeof field), "protect field");   /* + */
  check(mainstay_restore(session, &restored), "restore");                            /* + nothing there: nothing done */
  if (restored.revision)                                                             /* + */
    printf("restored revision %llu at step %d\n", (unsigned long long)restored.revision, step);

  for (; step < 1000;) {
    for (int i = 0; i < N; i++) field[i] += 1.0 / (1 + i + step);
    step++;
    if (step % 100 == 0) check(mainstay_checkpoint(session, NULL), "checkpoint");    /* + returns after a copy */
  }
  printf("step %d, field[1] = %.17g\n", step, field[1]);

  check(mainstay_close(session), "close");                                           /* + */
  MPI_Finalize();
  return 0;
}
