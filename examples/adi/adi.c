/* Solves for the steady state of five unknowns in a cube, saved by Mainstay.
 *
 * All calls that save are in this file: open, protect, restore, due, tick, checkpoint, close. The grid is in slab.c,
 * the equations in model.c, the method in solver.c and line.c. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <mainstay_mpi.h>

#include "options.h"
#include "slab.h"
#include "solver.h"
#include "stop.h"

static void must(mainstay_status status, const char *doing) {
  if (status != MAINSTAY_OK) stop("%s: %s", doing, mainstay_error_message());
}

/* A failed save is no reason to stop: the program's own state is unharmed. */
static int tried(mainstay_status status, const char *doing, int rank) {
  if (status == MAINSTAY_OK) return 0;
  fprintf(stderr, "adi: rank %d: %s: %s; going on\n", rank, doing, mainstay_error_message());
  return 1;
}

/* A checkpoint with a cost that is not printed yet. */
typedef struct saved {
  uint64_t revision, step; /* 0: none */
} saved;

/* Prints the cost of a checkpoint on this rank, once the checkpoint is durable and the cost is known. */
static void print_cost(mainstay_session *session, saved *last) {
  mainstay_record r;
  if (last->revision == 0 || mainstay_last_record(session, &r) != MAINSTAY_OK || r.revision != last->revision ||
      r.durable_ns == 0)
    return;
  printf("checkpoint %llu of step %llu: t1 %.3f s, t2-t1 %.1f ms, t3-t1 %.1f ms\n", (unsigned long long)last->revision,
         (unsigned long long)last->step, (double)r.t1_unix_ns / 1e9, (double)r.perceived_ns / 1e6,
         (double)r.durable_ns / 1e6);
  last->revision = 0;
}

/* Saves the field after `step`, if a checkpoint is due; returns whether that failed. */
static int save_if_due(mainstay_session *session, const options *o, int rank, uint64_t step, saved *last) {
  int due = 0, failed = 0;
  must(mainstay_due(session, step, &due), "ask whether a checkpoint is due");
  if (due && !(o->checkpoints && step == o->steps)) {
    uint64_t revision = 0;
    failed = tried(mainstay_checkpoint(session, &revision), "checkpoint", rank);
    if (rank == 0) print_cost(session, last); /* if this one had to wait for the last */
    *last = (saved){revision, step};
  }
  if (rank == 0) print_cost(session, last);
  return failed;
}

/* Prints how many of the blocks written between checkpoints were saved before the checkpoints asked for them. */
static void print_early(mainstay_session *session, int rank) {
  mainstay_speculation early = {0};
  if (rank == 0 && mainstay_speculated(session, &early) == MAINSTAY_OK && early.dirty > 0)
    printf("early: %llu of %llu blocks, %llu in vain\n", (unsigned long long)early.early,
           (unsigned long long)early.dirty, (unsigned long long)early.wasted);
}

/* Opens the space and fills `u` and `step` from it, if it has a revision. */
static mainstay_session *open_space(const options *o, const slab *s, double *u, uint64_t *step) {
  mainstay_session *session = NULL;
  mainstay_options wanted = MAINSTAY_OPTIONS_INIT;
  wanted.every_steps = o->every;
  must(mainstay_open_mpi(s->comm, o->space, &wanted, &session), "open the space");

  /* Without the ghost planes, which each step fills anew. */
  uint64_t shape[4] = {s->size, s->cells[1], s->cells[0], UNKNOWNS};
  must(mainstay_protect_array(session, "step", step, MAINSTAY_U64, 0, NULL), "protect the step");
  must(mainstay_protect_array(session, "u", u + s->plane, MAINSTAY_F64, 4, shape), "protect the field");

  mainstay_restored restored = {0};
  must(mainstay_restore(session, &restored), "restore");
  if (restored.skipped && s->rank == 0) printf("newer revisions are damaged: %s\n", mainstay_report(session));
  if (restored.revision && s->rank == 0)
    printf("restored revision %llu, continuing at step %llu\n", (unsigned long long)restored.revision,
           (unsigned long long)*step);
  return session;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  static char line[BUFSIZ];                   /* one write for a line, so that lines of ranks do not mix */
  setvbuf(stdout, line, _IOLBF, sizeof line); /* shows each line at once */

  options o;
  int ended = options_parse(&o, argc, argv, rank == 0);
  if (ended >= 0) {
    MPI_Finalize();
    return ended;
  }

  slab s = slab_create(MPI_COMM_WORLD, o.cells);
  solver v = solver_create(&s);
  double *u = allocate(slab_stored(&s), sizeof *u);
  solver_begin(&v, u);
  if (rank == 0)
    printf("grid %zu x %zu x %zu on %d ranks, %.1f MB a rank\n", s.cells[0], s.cells[1], s.cells[2], s.ranks,
           (double)(s.size * s.plane * sizeof *u) / 1e6);

  uint64_t step = 0;
  int failures = 0;
  saved last = {0, 0};
  mainstay_session *session = o.space ? open_space(&o, &s, u, &step) : NULL;
  if (o.first) slab_write(&s, u, o.first);

  while (step < o.steps) {
    solver_change(&v, u);
    if (session && o.late && step > 0) failures += save_if_due(session, &o, rank, step, &last);
    solver_add(&v, u);
    step++;
    if (step % o.progress == 0) {
      double error = solver_error(&v, u);
      if (rank == 0) printf("step %llu: error %.3e\n", (unsigned long long)step, error);
    }
    if (session && o.late)
      must(mainstay_tick(session), "tick");
    else if (session)
      failures += save_if_due(session, &o, rank, step, &last);
  }

  if (session) {
    failures += tried(mainstay_wait(session), "wait", rank);
    if (rank == 0) print_cost(session, &last);
    print_early(session, rank);
    failures += tried(mainstay_close(session), "close", rank);
  }
  if (o.out) slab_write(&s, u, o.out);
  double error = solver_error(&v, u);
  if (rank == 0) printf("done: %llu steps, error %.3e\n", (unsigned long long)step, error);

  free(u);
  solver_free(&v);
  slab_free(&s);
  MPI_Finalize();
  return failures ? 3 : 0;
}
