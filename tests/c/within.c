/* A field with ghost cells, cut among the ranks. Only the inside is saved.
 *
 *     within SPACE GHOSTS save|restore
 *
 * Any number of ranks restores it, with any number of ghosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mainstay_mpi.h>

enum { ROWS = 301, COLUMNS = 517 };
static const double GHOST = -1;

static void must(mainstay_status status, const char *doing) {
  if (status == MAINSTAY_OK) return;
  printf("WRONG: %s: %s\n", doing, mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 9);
}

int main(int argc, char **argv) {
  int rank, ranks;
  mainstay_session *session;
  mainstay_restored restored = {0};
  uint64_t ghosts, shape[2], stored[2], inside[2], whole[2] = {ROWS, COLUMNS}, start[2] = {0, 0};
  double *field;
  long wrong = 0;

  MPI_Init(&argc, &argv);
  if (argc != 4) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ghosts = strtoul(argv[2], NULL, 10);
  start[0] = (uint64_t)(ROWS * rank / ranks);
  shape[0] = (uint64_t)(ROWS * (rank + 1) / ranks) - start[0];
  shape[1] = COLUMNS;
  for (int side = 0; side < 2; side++) {
    stored[side] = shape[side] + 2 * ghosts;
    inside[side] = ghosts;
  }
  field = malloc(stored[0] * stored[1] * sizeof *field);
  if (!field) return 1;

  must(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session), "open");
  must(mainstay_protect_within(session, "field", field, MAINSTAY_F64, 2, shape, stored, inside, whole, start),
       "protect");
  for (int pass = 0; pass < 2; pass++) { /* the content at the start, and the required content at the end */
    int filled = pass == 1 || strcmp(argv[3], "save") == 0;
    for (uint64_t row = 0; row < stored[0]; row++)
      for (uint64_t column = 0; column < stored[1]; column++) {
        uint64_t x = row - ghosts, y = column - ghosts; /* before the inside: huge */
        double cell = x < shape[0] && y < shape[1] ? (double)((start[0] + x) * COLUMNS + y) : GHOST;
        double *here = &field[row * stored[1] + column];
        if (pass == 0)
          *here = filled ? cell : GHOST;
        else
          wrong += *here < cell || *here > cell;
      }
    if (pass == 0 && filled)
      must(mainstay_checkpoint(session, NULL), "checkpoint");
    else if (pass == 0)
      must(mainstay_restore(session, &restored), "restore");
  }
  must(mainstay_close(session), "close");
  if (wrong) printf("WRONG: rank %d: %ld cells\n", rank, wrong);
  if (rank == 0) printf("revision %llu\n", (unsigned long long)restored.revision);
  free(field);
  MPI_Finalize();
  return wrong != 0;
}
