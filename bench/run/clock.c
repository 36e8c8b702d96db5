/* Clocks a program and all its calls of Mainstay from outside, so that the program stays as its readers
 * know it: linked with --wrap for each call, and in front of MPI. As the program ends, rank 0 prints a
 * line of JSON: for each clock the seconds of each rank. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <mainstay.h>

enum { RUN, OPEN, RESTORE, DUE, CHECKPOINT, CLOSE, OTHER, APART, CHECKPOINTS, CLOCKS };

static const char *const names[CLOCKS] = {"run",   "open",  "restore", "due",        "checkpoint",
                                          "close", "other", "apart",   "checkpoints"};
static double clocks[CLOCKS]; /* seconds; but CHECKPOINTS counts those that did not fail */

/* If ranks come to these calls at different times, the first waits in them for the last. This wait belongs to the
 * program, and is measured separately. */
static void meet(int clock) {
  if (clock != OPEN && clock != RESTORE && clock != CLOSE) return;
  double begun = MPI_Wtime();
  PMPI_Barrier(MPI_COMM_WORLD);
  clocks[APART] += MPI_Wtime() - begun;
}

/* Defines the function that the program calls in place of mainstay_`call`. */
#define CLOCKED(clock, call, parameters, arguments)                                                                    \
  mainstay_status __real_mainstay_##call parameters;                                                                   \
  mainstay_status __wrap_mainstay_##call parameters;                                                                   \
  mainstay_status __wrap_mainstay_##call parameters {                                                                  \
    meet(clock);                                                                                                       \
    double begun = MPI_Wtime();                                                                                        \
    mainstay_status status = __real_mainstay_##call arguments;                                                         \
    clocks[clock] += MPI_Wtime() - begun;                                                                              \
    if (clock == CHECKPOINT && status == MAINSTAY_OK) clocks[CHECKPOINTS]++;                                           \
    return status;                                                                                                     \
  }

CLOCKED(OPEN, open, (const mainstay_group *g, const char *p, const mainstay_options *o, mainstay_session **s),
        (g, p, o, s))
CLOCKED(OTHER, protect_array, (mainstay_session * s, const char *n, void *d, uint32_t t, size_t k, const uint64_t *e),
        (s, n, d, t, k, e))
CLOCKED(RESTORE, restore, (mainstay_session * s, mainstay_restored *r), (s, r))
CLOCKED(OTHER, check, (mainstay_session * s), (s))
CLOCKED(DUE, due, (mainstay_session * s, uint64_t step, int *due), (s, step, due))
CLOCKED(CHECKPOINT, checkpoint, (mainstay_session * s, uint64_t *r), (s, r))
CLOCKED(OTHER, last_record, (mainstay_session * s, mainstay_record *r), (s, r))
CLOCKED(CLOSE, wait, (mainstay_session * s), (s))
CLOCKED(CLOSE, close, (mainstay_session * s), (s))

/* Only mainstay_open_mpi calls these two, before it calls the library. */
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) {
  double begun = MPI_Wtime();
  int code = PMPI_Comm_dup(comm, made);
  clocks[OPEN] += MPI_Wtime() - begun;
  return code;
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made) {
  double begun = MPI_Wtime();
  int code = PMPI_Comm_split_type(comm, type, key, info, made);
  clocks[OPEN] += MPI_Wtime() - begun;
  return code;
}

int MPI_Init(int *argc, char ***argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with mpiexec, however that ends */
  int code = PMPI_Init(argc, argv);
  PMPI_Barrier(MPI_COMM_WORLD);
  clocks[RUN] = MPI_Wtime();
  return code;
}

int MPI_Finalize(void) {
  clocks[RUN] = MPI_Wtime() - clocks[RUN];
  int rank, ranks;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double *all = malloc((size_t)ranks * sizeof clocks);
  if (!all) PMPI_Abort(MPI_COMM_WORLD, 1);
  PMPI_Gather(clocks, CLOCKS, MPI_DOUBLE, all, CLOCKS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int c = 0; rank == 0 && c < CLOCKS; c++) {
    printf("%s\"%s\": [", c == 0 ? "{" : ", ", names[c]);
    for (int r = 0; r < ranks; r++) printf("%s%.9f", r == 0 ? "" : ", ", all[r * CLOCKS + c]);
    printf("]%s", c + 1 == CLOCKS ? "}\n" : "");
  }
  free(all);
  return PMPI_Finalize();
}
