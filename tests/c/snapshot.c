/* A program that writes to all of its memory as soon as a checkpoint returns: by itself, by messages that come in, by
 * read(), while it forks and handles its own SIGSEGV. It carries a sum of its memory, and compares it after a restore.
 *
 *     snapshot SPACE STEPS [DEATH]
 *
 * Prints the step that it began at, and its sum. Rank 1 kills itself after the checkpoint of step DEATH. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mainstay_mpi.h"

#define WORDS (1 << 19)
#define MESSAGE (1 << 17)
#define EVERY 4

static struct {
  uint64_t step, sum;
} state;
static uint64_t *field, *own;
static char *guarded;
static volatile sig_atomic_t faults;
static int rank, ranks;

static void check(int status) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "mainstay: %s: %s\n", mainstay_status_name(status), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 4);
}

static void handle(int number) {
  (void)number;
  faults++;
  mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

static uint64_t sum_of_all(void) {
  uint64_t sum = state.step;
  for (int i = 0; i < WORDS; i++) sum = (sum ^ (field[i] + 3 * own[i])) * 1099511628211u;
  return sum;
}

static void compute(void) {
  for (int i = 0; i < WORDS; i++) {
    field[i] = field[i] * 6364136223846793005u + state.step + (uint64_t)(rank + i);
    own[i] += field[i] >> 17;
  }
}

/* Writes while the copy goes on. */
static void disturb(void) {
  pid_t child = fork();
  if (child == 0) _exit(own[5] == 77 ? 1 : 0);
  for (int i = 0; i < WORDS; i += 64) own[i]++;
  MPI_Sendrecv(own, MESSAGE, MPI_UINT64_T, (rank + 1) % ranks, 0, field, MESSAGE, MPI_UINT64_T,
               (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int zeros = open("/dev/zero", O_RDONLY);
  if (read(zeros, field + MESSAGE, 1 << 20) != 1 << 20) puts("WRONG: read");
  close(zeros);
  mprotect(guarded, 4096, PROT_NONE);
  guarded[0]++;
  int status;
  if (waitpid(child, &status, 0) != child) puts("WRONG: waitpid");
  if (waitpid(-1, &status, 0) != -1) puts("WRONG: a child that is not this program's");
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  uint64_t steps = strtoull(argv[2], NULL, 10), death = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  signal(SIGSEGV, handle);
  guarded = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  field = calloc(WORDS, sizeof *field);
  mainstay_session *session;
  check(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session));
  check(mainstay_protect(session, "field", field, WORDS * sizeof *field));
  check(mainstay_protect(session, "state", &state, sizeof state));
  void *memory;
  check(mainstay_alloc(session, "own", WORDS * sizeof *own, MAINSTAY_ALLOC_FLAG_SAME_ADDRESS, &memory));
  own = memory;
  mainstay_restored restored;
  check(mainstay_restore(session, &restored));
  if (state.step > 0 && state.sum != sum_of_all()) puts("WRONG: other memory than at the checkpoint");
  if (rank == 0) printf("from step %llu\n", (unsigned long long)state.step);
  fflush(stdout);
  uint64_t disturbances = 0;
  if (state.step > 0) {
    /* Writes that came after that checkpoint. */
    disturb();
    disturbances++;
  }
  while (state.step < steps) {
    state.step++;
    compute();
    if (state.step % EVERY == 0) {
      state.sum = sum_of_all();
      check(mainstay_checkpoint(session, NULL));
      if (rank == 1 && state.step == death) kill(getpid(), SIGKILL);
      disturb();
      disturbances++;
      if ((uint64_t)faults != disturbances) puts("WRONG: the handler of SIGSEGV");
    }
  }
  /* Its memory goes with the session. */
  uint64_t sum = sum_of_all();
  check(mainstay_close(session));
  printf("sum of rank %d: %llx\n", rank, (unsigned long long)sum);
  MPI_Finalize();
  return 0;
}
