/* Most memory of this program stays as it is: a table that the program reads. Each step writes a small part of it.
 *
 *     constant --mib N --steps N --progress N (--space DIR --every N | --no-checkpoint) */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mainstay_mpi.h>

#define PART 64 /* 1/64 of the table changes in a step, at another place each time */

static void must(mainstay_status status, const char *doing) {
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "constant: %s: %s\n", doing, mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static uint64_t number(int argc, char **argv, const char *option) {
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], option) == 0) return strtoull(argv[i + 1], NULL, 10);
  return 0;
}

static const char *text(int argc, char **argv, const char *option) {
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], option) == 0) return argv[i + 1];
  return NULL;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  uint64_t steps = number(argc, argv, "--steps"), every = number(argc, argv, "--every"), step = 0;
  uint64_t count = (number(argc, argv, "--mib") << 20) / sizeof(double);
  double *table = malloc(count * sizeof *table), sum = 0;
  if (!table || count < PART) MPI_Abort(MPI_COMM_WORLD, 1);
  for (uint64_t i = 0; i < count; i++) table[i] = (double)(i * 2654435761u % 1000003);

  const char *space = text(argc, argv, "--space");
  mainstay_session *session = NULL;
  mainstay_options wanted = MAINSTAY_OPTIONS_INIT;
  wanted.every_steps = every;
  wanted.hints = "mainstay_when_busy=now\n"; /* the same number of checkpoints for each side */
  if (space) {
    must(mainstay_open_mpi(MPI_COMM_WORLD, space, &wanted, &session), "open");
    must(mainstay_protect_array(session, "table", table, MAINSTAY_F64, 1, &count), "protect the table");
    must(mainstay_protect_array(session, "step", &step, MAINSTAY_U64, 0, NULL), "protect the step");
    must(mainstay_restore(session, NULL), "restore");
  }
  while (step < steps) {
    for (uint64_t i = 0; i < count; i++) sum += table[i];
    uint64_t from = step * 7 % PART * (count / PART);
    for (uint64_t i = from; i < from + count / PART; i++) table[i] = table[i] * 0.5 + 1;
    step++;
    int due = 0;
    if (session) must(mainstay_due(session, step, &due), "due");
    if (due) must(mainstay_checkpoint(session, NULL), "checkpoint");
  }
  if (session) {
    must(mainstay_wait(session), "wait");
    must(mainstay_close(session), "close");
  }
  if (sum == 42) /* keeps the compiler from removing the sum */
    puts("");
  free(table);
  MPI_Finalize();
  return 0;
}
