/* An oscillator on each rank, and the log that it keeps: logbook STEPS
 *
 * It saves itself when that is due, with notes, and its log goes back with it. */
#include <mainstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct oscillator {
  uint64_t step;
  double place, speed;
} oscillator;

/* One step of the simulation, which takes a while. */
static void advance(oscillator *o) {
  for (int i = 0; i < 100000; i++) {
    o->speed -= 1e-6 * (o->place + 0.1 * o->speed);
    o->place += 1e-6 * o->speed;
  }
  o->step++;
}

static void must(mainstay_status status, const char *doing) {
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "logbook: %s: %s: %s\n", doing, mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char **argv) {
  uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setvbuf(stdout, NULL, _IOLBF, 0); /* shows each line at once */
  oscillator state = {0, 1 + rank, 0};
  char path[40];
  snprintf(path, sizeof path, "log.%d.txt", rank);

  mainstay_session *session;
  must(mainstay_open_mpi(MPI_COMM_WORLD, "space", NULL, &session), "open");
  must(mainstay_protect(session, "oscillator", &state, sizeof state), "protect");
  /* ANCHOR: output */
  must(mainstay_protect_output(session, path), "protect the log");
  must(mainstay_restore(session, NULL), "restore");
  FILE *log = fopen(path, "a"); /* after the restore, which has cut it back */
  /* ANCHOR_END: output */
  if (!log) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  /* ANCHOR: restored */
  const char *step = mainstay_restored_note(session, "step"), *code = mainstay_restored_note(session, "code");
  if (step && code && rank == 0) printf("going on at step %s, which code %s saved\n", step, code);
  must(mainstay_note(session, "code", "1.0"), "note"); /* goes with every revision from now on */
  /* ANCHOR_END: restored */

  while (state.step < steps) {
    advance(&state);
    if (state.step % 10 == 0) fprintf(log, "%llu %.9f\n", (unsigned long long)state.step, state.place);
    /* ANCHOR: due */
    int due;
    must(mainstay_due(session, state.step, &due), "ask whether a checkpoint is due");
    if (due) {
      char text[24];
      snprintf(text, sizeof text, "%llu", (unsigned long long)state.step);
      must(mainstay_note(session, "step", text), "note");
      fflush(log); /* moves the program's buffer to the file */
      uint64_t revision = 0;
      if (mainstay_checkpoint(session, &revision) != MAINSTAY_OK)
        fprintf(stderr, "rank %d goes on without it: %s\n", rank, mainstay_error_message());
      else if (rank == 0)
        printf("revision %llu: step %s\n", (unsigned long long)revision, text);
    }
    /* ANCHOR_END: due */
  }
  fclose(log);
  must(mainstay_close(session), "close");
  if (rank == 0) printf("done: step %llu, place %.9f\n", (unsigned long long)state.step, state.place);
  MPI_Finalize();
  return 0;
}
