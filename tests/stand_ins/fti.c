/* A program of FTI: each rank counts, and has a list that grows.
 *
 *     fti CONFIGURATION STEPS WAY [DEATH]     rank 1 kills itself after step DEATH
 *
 * Ways: all (FTI_Checkpoint, FTI_Recover), names (FTI_setIDFromString, FTI_Realloc, FTI_RecoverVar), pieces
 * (FTI_InitICP, and then all variables), snapshot (FTI_Snapshot; FTI's intervals are minutes, so it saves nothing).
 * Prints "from step N" and "sum X" on rank 0. */
#include <fti.h>
#include <signal.h>

enum { CELLS = 5000, EVERY = 10 };

static double cells[CELLS];
static int step, rank, level;
static long *list, listed;

static void check(int is_good, const char *what) {
  if (is_good) return;
  printf("%s failed on rank %d\n", what, rank);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static int id_of(const char *name, int number, int has_names) { return has_names ? FTI_setIDFromString(name) : number; }

static void protect(int has_names) {
  check(FTI_Protect(id_of("step", 0, has_names), &step, 1, FTI_INTG) == FTI_SCES, "FTI_Protect");
  check(FTI_Protect(id_of("cells", 1, has_names), cells, CELLS, FTI_DBLE) == FTI_SCES, "FTI_Protect");
  check(FTI_Protect(id_of("list", 2, has_names), list, listed, FTI_LONG) == FTI_SCES, "FTI_Protect");
}

static void grow(void) {
  list = realloc(list, (size_t)(listed + 1) * sizeof *list);
  list[listed++] = step * 10 + rank;
}

static void save(char way) {
  int id;
  protect(way == 'n');
  level = level % 4 + 1;
  if (way != 'p') {
    check(FTI_Checkpoint(step, level) == FTI_DONE, "FTI_Checkpoint");
    return;
  }
  check(FTI_InitICP(step, level, 1) == FTI_SCES, "FTI_InitICP");
  for (id = 2; id >= 0; id--) check(FTI_AddVarICP(id) == FTI_SCES, "FTI_AddVarICP");
  check(FTI_FinalizeICP() == FTI_SCES, "FTI_FinalizeICP");
}

static void recover(char way) {
  const int has_names = way == 'n', id = has_names ? FTI_getIDFromString("list") : 2;
  check(FTI_GetStoredSize(id) % (int64_t)sizeof *list == 0, "FTI_GetStoredSize");
  protect(has_names);
  listed = FTI_GetStoredSize(id) / (int64_t)sizeof *list;
  list = FTI_Realloc(id, list);
  if (!has_names) {
    check(FTI_Recover() == FTI_SCES, "FTI_Recover");
    return;
  }
  check(FTI_RecoverVarInit() == FTI_SCES, "FTI_RecoverVarInit");
  check(FTI_RecoverVar(id) == FTI_SCES, "FTI_RecoverVar");
  check(FTI_RecoverVar(FTI_getIDFromString("cells")) == FTI_SCES, "FTI_RecoverVar");
  check(FTI_RecoverVar(FTI_getIDFromString("step")) == FTI_SCES, "FTI_RecoverVar");
  check(FTI_RecoverVarFinalize() == FTI_SCES, "FTI_RecoverVarFinalize");
}

int main(int argc, char **argv) {
  const int steps = atoi(argv[2]), death = argc > 4 ? atoi(argv[4]) : -1;
  const char way = *argv[3];
  double sum = 0, all;
  long i;
  MPI_Init(&argc, &argv);
  check(FTI_Init(argv[1], MPI_COMM_WORLD) == FTI_SCES, "FTI_Init");
  MPI_Comm_rank(FTI_COMM_WORLD, &rank);
  for (i = 0; i < CELLS; i++) cells[i] = rank * CELLS + i;
  list = malloc(sizeof *list);
  if (FTI_Status() && way != 's') recover(way);
  if (rank == 0) printf("from step %d\n", step);
  fflush(stdout);
  while (step < steps) {
    protect(way == 'n');
    if (way == 's') check(FTI_Snapshot() == FTI_SCES, "FTI_Snapshot");
    for (i = 0; i < CELLS; i++) cells[i] = cells[i] * 0.99 + i % 11;
    step++;
    grow();
    if (step == death) {
      MPI_Barrier(FTI_COMM_WORLD);
      if (rank == 1) raise(SIGKILL);
    }
    if (step % EVERY == 0) save(way);
  }
  for (i = 0; i < CELLS; i++) sum += cells[i] * (i % 7);
  for (i = 0; i < listed; i++) sum += (double)list[i];
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, FTI_COMM_WORLD);
  if (rank == 0) printf("sum %.17g\n", all);
  free(list);
  check(FTI_Finalize() == FTI_SCES, "FTI_Finalize");
  MPI_Finalize();
  return 0;
}
