/* A program that goes on when ranks fail.
 *
 *     goes_on SPACE STEPS GATE [RANK@STEP]... [all@STEP] [wait@STEP]
 *
 * At each STEP the RANK kills itself, once: before that it makes the file GATE.RANK.STEP. At the STEP of `all` rank 0
 * makes the file GATE.0.STEP and kills all ranks at one moment, once: no rank is left that could recover. At the STEP
 * of `wait` rank 0 prints that it waits, and goes on once the file GATE.STEP exists. The result, a hash over all
 * fields, depends on the number of ranks alone. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <mainstay_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CELLS 20000
enum { LOOKS_MAX = 60000 };

typedef struct {
  uint64_t field[CELLS], steps;
  int argc;
  char **argv;
} program;

static int failed(const char *what, int status) {
  fprintf(stderr, "goes_on: %s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
  return mainstay_mpi_finalize(3);
}

/* Whether this is the first time that a rank dies at a step. */
static int first_time(const program *mine, int rank, long at) {
  char path[4096];

  snprintf(path, sizeof path, "%s.%d.%ld", mine->argv[3], rank, at);
  return open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
}

static void die_once(const program *mine, uint64_t step, int rank) {
  int i, wanted;
  long at;

  for (i = 4; i < mine->argc; i++)
    if (sscanf(mine->argv[i], "%d@%ld", &wanted, &at) == 2 && wanted == rank && (uint64_t)at == step &&
        first_time(mine, wanted, at))
      raise(SIGKILL);
}

static void all_die_once(const program *mine, uint64_t step, int rank, MPI_Comm comm) {
  int i, other, ranks, own = (int)getpid(), *pids;
  long at;

  for (i = 4; i < mine->argc; i++) {
    if (sscanf(mine->argv[i], "all@%ld", &at) != 1 || (uint64_t)at != step) continue;
    MPI_Comm_size(comm, &ranks);
    pids = malloc((size_t)ranks * sizeof *pids);
    if (pids && MPI_Gather(&own, 1, MPI_INT, pids, 1, MPI_INT, 0, comm) == MPI_SUCCESS && rank == 0 &&
        first_time(mine, 0, at))
      for (other = ranks - 1; other >= 0; other--) kill(pids[other], SIGKILL);
    free(pids);
  }
}

static void wait_at(const program *mine, uint64_t step) {
  const struct timespec pause = {0, 1000000};
  char path[4096];
  int i, look;
  long at;

  for (i = 4; i < mine->argc; i++) {
    if (sscanf(mine->argv[i], "wait@%ld", &at) != 1 || (uint64_t)at != step) continue;
    snprintf(path, sizeof path, "%s.%ld", mine->argv[3], at);
    printf("waiting at step %ld\n", at);
    fflush(stdout);
    for (look = 0; look < LOOKS_MAX && access(path, F_OK) != 0; look++) nanosleep(&pause, NULL);
  }
}

static int layout(mainstay_session *session, void *context) {
  program *mine = context;
  int i;

  for (i = 0; i < CELLS; i++) mine->field[i] = 0;
  return (int)mainstay_protect(session, "field", mine->field, sizeof mine->field);
}

static int step(mainstay_session *session, uint64_t number, int *over, void *context) {
  program *mine = context;
  const struct timespec pause = {0, 2000000};
  int rank, i;

  if (number >= mine->steps) {
    *over = 1;
    return MAINSTAY_OK;
  }
  MPI_Comm_rank(mainstay_mpi_comm(session), &rank);
  die_once(mine, number, rank);
  all_die_once(mine, number, rank, mainstay_mpi_comm(session));
  if (rank == 0) wait_at(mine, number);
  for (i = 0; i < CELLS; i++) mine->field[i] = mine->field[i] * 6364136223846793005u + (uint64_t)(rank + i) + number;
  nanosleep(&pause, NULL);
  return MPI_Barrier(mainstay_mpi_comm(session)) == MPI_SUCCESS ? MAINSTAY_OK : MAINSTAY_GROUP_FAILED;
}

int main(int argc, char **argv) {
  static program mine;
  mainstay_session *session;
  uint64_t hash = 0;
  int rank, i, status;

  MPI_Init(&argc, &argv);
  if (argc < 4) return 2;
  mine.steps = (uint64_t)atoi(argv[2]);
  mine.argc = argc;
  mine.argv = argv;
  status = (int)mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session);
  if (status == MAINSTAY_NOT_NEEDED) return mainstay_mpi_finalize(0);
  if (status != MAINSTAY_OK) return failed("open", status);
  if ((status = (int)mainstay_run(session, layout, step, &mine)) != MAINSTAY_OK) return failed("run", status);
  MPI_Comm_rank(mainstay_mpi_comm(session), &rank);
  for (i = 0; i < CELLS; i++) hash = (hash ^ mine.field[i]) * 1099511628211u + (uint64_t)rank;
  MPI_Allreduce(MPI_IN_PLACE, &hash, 1, MPI_UINT64_T, MPI_BXOR, mainstay_mpi_comm(session));
  if (rank == 0) {
    printf("hash %016lx\n", (unsigned long)hash);
    fflush(stdout);
  }
  if ((status = (int)mainstay_close(session)) != MAINSTAY_OK) return failed("close", status);
  return mainstay_mpi_finalize(0);
}
