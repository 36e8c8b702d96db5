/* A program with its state in its own variables: arrays, tables, pointers to each other, and data of the current run.
 *
 *     globals SPACE STEPS [DEATH]
 *
 * Prints the step at which it began, and its sum. Rank 1 kills itself after the step DEATH. If a restore fails, the
 * program prints the name of the error and ends the job with 4. */
#include <signal.h>
#include <stdio.h>

#include "mainstay_mpi.h"

#ifndef FIRST
#define FIRST 1.0
#endif
#define CELLS 20001
#define EVERY 5

/* Shares a page with other variables, and has an odd length. */
static char odd_before[3] = "ab";
static double one[CELLS], two[CELLS];
/* Set once: incremental revisions lead to its first saved copy. */
static double fixed[CELLS];
static char odd_after[5] = "cdef";
/* The compiler initialises these pointers; the program swaps them. */
static double *now = one, *next = two;
static const char *names[] = {"even", "odd"};
int (*print)(const char *) = puts;
/* A table that is never written. Its pointers must lead to the program of this run. */
struct named {
  const char *name;
  double *cells;
} table[] = {{"one", one}, {"two", two}};
static double parameters[] = {FIRST, 0.5, 0.25};
static long step, history[64];
static int rank, ranks;
/* Data of this run alone. */
static MPI_Comm world;
static FILE *file;
static mainstay_session *session, *same;
/* Points to memory that is protected under a name of its own. */
static double *heap;
/* Also protected under a name of its own, and also a variable of the program. */
static double named[100];
double common_block[17];
/* Swapped each step: an odd number of times between two checkpoints. */
static long left[9], right[9], *current = left, *other = right;

static void check(mainstay_status status, const char *what) {
  if (status == MAINSTAY_OK) return;
  printf("%s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 4);
}

static void must(int good, const char *what) {
  if (good) return;
  printf("WRONG: rank %d, step %ld: %s\n", rank, step, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 5);
}

static void advance(void) {
  double from_left, *swapped;
  long *swapped_long;
  int i, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  MPI_Sendrecv(&now[CELLS - 1], 1, MPI_DOUBLE, right, 1, &from_left, 1, MPI_DOUBLE, left, 1, world, MPI_STATUS_IGNORE);
  next[0] = parameters[1] * now[0] + from_left;
  for (i = 1; i < CELLS; i++) next[i] = parameters[1] * now[i] + parameters[2] * now[i - 1] + (double)(i % 7);
  swapped = now, now = next, next = swapped;
  step++;
  history[step % 64] += step;
  heap[step % 50] += now[3];
  named[step % 100] += now[4];
  common_block[step % 17] += now[5];
  swapped_long = current, current = other, other = swapped_long;
  current[0] = step, current[8] = other[8] + step;
  odd_before[step % 2]++, odd_after[step % 4]++;
}

static double sum(void) {
  double all = 0;
  int i;
  for (i = 0; i < CELLS; i++) all += now[i] * (1 + i % 3) + next[i];
  for (i = 0; i < 64; i++) all += (double)history[i];
  for (i = 0; i < 50; i++) all += heap[i];
  for (i = 0; i < 100; i++) all += named[i];
  for (i = 0; i < 17; i++) all += common_block[i];
  all += (double)current[8];
  return all + odd_before[0] + odd_before[1] + odd_after[0] + odd_after[1] + odd_after[2] + odd_after[3];
}

int main(int argc, char **argv) {
  mainstay_restored found;
  long steps = atol(argv[2]), death = argc > 3 ? atol(argv[3]) : -1;
  int i;
  double here, all;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &ranks);
  heap = calloc(50, sizeof *heap);
  now[0] = parameters[0];
  file = tmpfile();

  check(mainstay_open_mpi(world, argv[1], NULL, &session), "open");
  same = session;
  check(mainstay_protect_array(session, "heap", heap, MAINSTAY_F64, 1, (uint64_t[]){50}), "protect");
  check(mainstay_protect_array(session, "named", named, MAINSTAY_F64, 1, (uint64_t[]){100}), "protect");
  check(mainstay_leave_out(session, &world, sizeof world), "leave_out");
  check(mainstay_leave_out(session, &file, sizeof file), "leave_out");
  check(mainstay_protect_globals(session), "protect_globals");
  check(mainstay_restore(session, &found), "restore");
  if (rank == 0) printf("from step %ld\n", step), fflush(stdout);

  for (i = 0; i < CELLS && !found.revision; i++) fixed[i] = 3.0 * i + rank;
  must(same == session, "the session");
  must(table[0].cells == one && table[1].cells == two && strcmp(table[1].name, "two") == 0, "the table");
  must(current != other && current[0] == step && (step == 0 || other[0] == step - 1), "what is swapped");
  must(now == (step % 2 ? two : one) && next == (step % 2 ? one : two), "the pointers");
  must(file && fputs("still open", file) >= 0 && fclose(file) == 0, "the file");
  must(getenv("PATH") != NULL, "the environment");
  while (step < steps) {
    for (i = 0; i < CELLS; i++) must(fixed[i] == 3.0 * i + rank, "what is set once");
    advance();
    if (step == death && rank == 1) raise(SIGKILL);
    if (step % EVERY == 0) check(mainstay_checkpoint(session, NULL), "checkpoint");
  }
  here = sum();
  MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  check(mainstay_close(session), "close");
  if (rank == 0) {
    printf("sum %.17g %s\n", all, names[step % 2]);
    print("done");
  }
  MPI_Comm_free(&world);
  free(heap);
  MPI_Finalize();
  return 0;
}
