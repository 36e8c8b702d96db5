/* A wave with three time levels, whose pointers are swapped from step to step, and a list that grows by realloc.
 *
 *     levels SPACE FROM TO follow|address
 *
 * Runs from the step FROM, which it restores unless it is 0, to the step TO. Saves each step, and prints sums at the
 * end. With "address" it saves the memory behind the initial pointers: the mistake that mainstay_follow prevents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mainstay_mpi.h"

enum { CELLS = 30000 };

static void check(mainstay_status status, const char *what) {
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "levels: %s: %s: %s\n", what, mainstay_status_name(status), mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
}

static double *level(void) {
  double *made = (double *)calloc(CELLS, sizeof *made);
  if (!made) MPI_Abort(MPI_COMM_WORLD, 4);
  return made;
}

static double sum(const double *values, int count) {
  double all = 0;
  int i;
  for (i = 0; i < count; i++) all += values[i] * (i % 7 + 1);
  return all;
}

static double *list;
static uint64_t listed; /* numbers in it */

static void grow(uint64_t count) {
  list = (double *)realloc(list, count * sizeof *list + 1);
  if (!list) MPI_Abort(MPI_COMM_WORLD, 4);
  listed = count;
}

static void *where_list(void *context, uint64_t *count) {
  (void)context;
  *count = listed;
  return list;
}

static int resize_list(void *context, size_t dimensions, const uint64_t *shape) {
  (void)context;
  grow(shape[0]);
  return dimensions != 1;
}

int main(int argc, char **argv) {
  double *cur = level(), *prev = level(), *next = level(), *spare;
  uint64_t step = 0, shape = CELLS, from, to;
  mainstay_session *session;
  mainstay_item saved;
  int rank, i, follows;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 5) return 2;
  follows = strcmp(argv[4], "follow") == 0;
  from = strtoull(argv[2], NULL, 0), to = strtoull(argv[3], NULL, 0);
  for (i = 0; i < CELLS; i++) cur[i] = (i * 37 + rank) % 101, prev[i] = (i * 17) % 103;

  check(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session), "open");
  check(mainstay_protect(session, "step", &step, sizeof step), "protect the step");
  check(mainstay_protect_array(session, "cur", cur, MAINSTAY_F64, 1, &shape), "protect cur");
  check(mainstay_protect_array(session, "prev", prev, MAINSTAY_F64, 1, &shape), "protect prev");
  if (follows) {
    check(mainstay_follow(session, "cur", (void **)&cur), "follow cur");
    check(mainstay_follow(session, "prev", (void **)&prev), "follow prev");
  }
  /* It has a number for each step: as many as restored, or as needed before. */
  if (follows) {
    check(mainstay_protect_array(session, "list", list, MAINSTAY_F64, 1, &listed), "protect the list");
    check(mainstay_follow_resize(session, "list", where_list, resize_list, NULL), "follow the list");
  } else {
    check(mainstay_saved(session, MAINSTAY_NEWEST, "list", &saved), "ask for the list");
    if (saved.name && (saved.type != MAINSTAY_F64 || saved.dimensions != 1)) MPI_Abort(MPI_COMM_WORLD, 6);
    grow(saved.name ? saved.shape[0] : 0);
    check(mainstay_protect_array(session, "list", list, MAINSTAY_F64, 1, &listed), "protect the list");
  }
  check(mainstay_restore(session, NULL), "restore");
  if (step != from) MPI_Abort(MPI_COMM_WORLD, 5);

  while (step < to) {
    for (i = 1; i < CELLS - 1; i++) next[i] = 2 * cur[i] - prev[i] + 0.25 * (cur[i - 1] - 2 * cur[i] + cur[i + 1]);
    next[0] = cur[0], next[CELLS - 1] = cur[CELLS - 1];
    spare = prev, prev = cur, cur = next, next = spare;
    step++;
    grow(step);
    if (!follows) check(mainstay_move(session, "list", list, 1, &listed), "move the list");
    list[step - 1] = cur[CELLS / 2];
    check(mainstay_checkpoint(session, NULL), "checkpoint");
  }
  check(mainstay_close(session), "close");
  printf("rank %d: %.17g %.17g %.17g\n", rank, sum(cur, CELLS), sum(prev, CELLS), sum(list, (int)step));
  free(cur), free(prev), free(next), free(list);
  MPI_Finalize();
  return 0;
}
