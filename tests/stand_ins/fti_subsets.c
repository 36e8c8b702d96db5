/* A program of FTI with a global dataset of 24 rows, whose rows the ranks share: it saves on some ranks and recovers on
 * others.
 *
 *     fti_subsets CONFIGURATION COLUMNS WAY     WAY: all (FTI_Checkpoint), pieces (FTI_InitICP)
 *
 * The first start saves, and is stopped. Later ones recover, and check each element. */
#include <fti.h>

enum { ROWS = 24, COLUMNS_MAX = 64 };

typedef struct pair {
  int one;
  short other;
} pair;

static int numbers[ROWS][COLUMNS_MAX];
static pair pairs[ROWS][COLUMNS_MAX];

static void check(int is_good, const char *what) {
  if (is_good) return;
  printf("%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv) {
  FTIT_hsize_t lengths[2] = {ROWS, atoi(argv[2])}, none[2] = {0, 0}, offset[2], extent[2] = {1, lengths[1]}, *span;
  int rank, ranks, row, column, first, rows, wrong = 0;
  FTIT_H5Group group;
  fti_id_t type;
  MPI_Init(&argc, &argv);
  check(FTI_Init(argv[1], MPI_COMM_WORLD) == FTI_SCES, "FTI_Init");
  MPI_Comm_rank(FTI_COMM_WORLD, &rank);
  MPI_Comm_size(FTI_COMM_WORLD, &ranks);
  type = FTI_InitCompositeType("pair", sizeof(pair), NULL);
  check(FTI_AddScalarField(type, "one", FTI_INTG, offsetof(pair, one)) == FTI_SCES, "FTI_AddScalarField");
  check(FTI_InitGroup(&group, "pairs", NULL) == FTI_SCES, "FTI_InitGroup");
  check(FTI_DefineGlobalDataset(0, 2, FTI_Status() ? none : lengths, "numbers", NULL, FTI_INTG) == FTI_SCES, "numbers");
  check(FTI_DefineGlobalDataset(7, 2, lengths, "pairs", &group, type) == FTI_SCES, "pairs");
  if (FTI_Status()) {
    check(FTI_Status() == 3, "FTI_Status");
    check(FTI_RecoverDatasetDimension(0) == FTI_SCES && FTI_GetDatasetRank(0) == 2, "FTI_RecoverDatasetDimension");
    span = FTI_GetDatasetSpan(0, 2);
    check(span && span[0] == lengths[0] && span[1] == lengths[1], "FTI_GetDatasetSpan");
  }
  first = rank * ROWS / ranks;
  rows = (rank + 1) * ROWS / ranks - first;
  for (row = 0; row < rows; row++) {
    offset[0] = first + row;
    offset[1] = 0;
    check(FTI_Protect(row, numbers[row], lengths[1], FTI_INTG) == FTI_SCES, "FTI_Protect");
    check(FTI_Protect(ROWS + row, pairs[row], lengths[1], type) == FTI_SCES, "FTI_Protect");
    check(FTI_AddSubset(row, 2, offset, extent, 0) == FTI_SCES, "FTI_AddSubset");
    check(FTI_AddSubset(ROWS + row, 2, offset, extent, 7) == FTI_SCES, "FTI_AddSubset");
  }
  if (!FTI_Status()) {
    for (row = 0; row < rows; row++)
      for (column = 0; column < lengths[1]; column++) {
        numbers[row][column] = (first + row) * 1000 + column;
        pairs[row][column].one = -numbers[row][column];
        pairs[row][column].other = (short)column;
      }
    if (*argv[3] == 'p') {
      check(FTI_InitICP(1, FTI_L4_H5_SINGLE, 1) == FTI_SCES, "FTI_InitICP");
      for (row = 0; row < rows; row++)
        check(FTI_AddVarICP(row) == FTI_SCES && FTI_AddVarICP(ROWS + row) == FTI_SCES, "FTI_AddVarICP");
      check(FTI_FinalizeICP() == FTI_SCES, "FTI_FinalizeICP");
    } else {
      check(FTI_Checkpoint(1, FTI_L4_H5_SINGLE) == FTI_DONE, "FTI_Checkpoint");
    }
    MPI_Barrier(FTI_COMM_WORLD);
    if (rank == 0) printf("saved\n");
    fflush(stdout);
    /* The checkpoint becomes durable in the background; a job that is stopped keeps it. */
    MPI_Barrier(FTI_COMM_WORLD);
    if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(FTI_COMM_WORLD);
  }
  if (*argv[3] == 'p') {
    check(FTI_RecoverVarInit() == FTI_SCES, "FTI_RecoverVarInit");
    for (row = 0; row < rows; row++)
      check(FTI_RecoverVar(row) == FTI_SCES && FTI_RecoverVar(ROWS + row) == FTI_SCES, "FTI_RecoverVar");
    check(FTI_RecoverVarFinalize() == FTI_SCES, "FTI_RecoverVarFinalize");
  } else {
    check(FTI_Recover() == FTI_SCES, "FTI_Recover");
  }
  for (row = 0; row < rows; row++)
    for (column = 0; column < lengths[1]; column++) {
      wrong += numbers[row][column] != (first + row) * 1000 + column;
      wrong += pairs[row][column].one != -numbers[row][column] || pairs[row][column].other != column;
    }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, FTI_COMM_WORLD);
  if (rank == 0) printf("%d wrong\n", wrong);
  check(FTI_Finalize() == FTI_SCES, "FTI_Finalize");
  MPI_Finalize();
  return 0;
}
