/* The temperature in the ground below a mountain range, saved by Mainstay.
 *
 * All calls that save are in this file: open, protect, restore, checkpoint, recover, close. The grid is in grid.c, the
 * physics in ground.c. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mainstay_mpi.h>

#include "elevation.h"
#include "grid.h"
#include "ground.h"
#include "options.h"
#include "stop.h"

static void must(mainstay_status status, const char *doing) {
  if (status != MAINSTAY_OK) stop("%s: %s", doing, mainstay_error_message());
}

/* Like `must`, but returns false if ranks have failed: the others go on without them. */
static bool done(mainstay_status status, const char *doing) {
  if (status == MAINSTAY_GROUP_FAILED) return false;
  must(status, doing);
  return true;
}

static int failures; /* states that could not be saved */

/* A failed save is no reason to stop: the program's own state is unharmed. */
static bool tried(mainstay_status status, const char *doing, int rank) {
  if (status == MAINSTAY_GROUP_FAILED) return false;
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "jacobi3d: rank %d: %s: %s; going on\n", rank, doing, mainstay_error_message());
    failures++;
  }
  return true;
}

/* The state of the computation on the present ranks. */
typedef struct model {
  grid g; /* without a communicator: empty */
  ground rock;
  double *field, *other;
  uint64_t step;
} model;

/* Returns false if a rank fails meanwhile. */
static bool model_begin(model *m, MPI_Comm workers, const options *o, const elevation *surface) {
  m->g = grid_create(workers, o->cells);
  if (m->g.comm == MPI_COMM_NULL) return false;
  const grid *g = &m->g;
  size_t cells = grid_cells_stored(g);
  m->rock = ground_create(g, surface);
  m->field = allocate(cells, sizeof *m->field);
  m->other = allocate(cells, sizeof *m->other);
  ground_begin(&m->rock, g, surface, m->field);
  memcpy(m->other, m->field, cells * sizeof *m->field); /* the air: no sweep writes it */
  m->step = 0;
  if (g->rank == 0)
    printf("grid %zu x %zu x %zu on %d x %d x %d ranks, %.1f MB a rank, %.1f years a step\n", g->cells[0], g->cells[1],
           g->cells[2], g->blocks[0], g->blocks[1], g->blocks[2], (double)cells * sizeof *m->field / 1e6,
           m->rock.sweep_years);
  return true;
}

static void model_end(model *m) {
  if (m->g.comm == MPI_COMM_NULL) return;
  free(m->field);
  free(m->other);
  ground_free(&m->rock);
  grid_free(&m->g);
  m->g.comm = MPI_COMM_NULL;
}

static void model_step(model *m, const options *o) {
  ground_sweep(&m->rock, &m->g, m->field, m->other);
  double *swept = m->other;
  m->other = m->field;
  m->field = swept;
  m->step++;
  if (m->g.rank == 0 && m->step % o->progress == 0) printf("step %llu\n", (unsigned long long)m->step);
}

/* The block of this rank as a box in the whole field, and as the inside of its array with ghosts. */
typedef struct box {
  uint64_t shape[3], whole[3], start[3], stored[3], ghosts[3];
} box;

static box box_of(const grid *g) {
  box b;
  for (int d = 0; d < 3; d++) {
    b.shape[d] = g->size[d];
    b.whole[d] = g->cells[d];
    b.start[d] = g->start[d];
    b.stored[d] = g->size[d] + 2;
    b.ghosts[d] = 1;
  }
  return b;
}

/* ANCHOR: from */
/* Begins from a revision in another space, saved by any number of ranks: each rank reads its block. */
static void begin_from(const grid *g, const char *path, uint64_t *step, double *field) {
  box block = box_of(g);
  double *inside = allocate(grid_cells_inside(g), sizeof *inside);
  mainstay_reader *reader;
  uint64_t revision = 0;
  if (g->rank == 0) {
    must(mainstay_reader_open(path, MAINSTAY_NEWEST, &reader), "open the revision to begin from");
    revision = mainstay_reader_revision(reader);
  }
  MPI_Bcast(&revision, 1, MPI_UINT64_T, 0, g->comm);
  if (g->rank != 0) must(mainstay_reader_open(path, revision, &reader), "open the revision to begin from");
  must(mainstay_reader_read(reader, 0, "step", 0, step, sizeof *step, NULL), "read the step");
  must(mainstay_reader_read_box(reader, "temperature", 3, block.shape, block.start, inside,
                                grid_cells_inside(g) * sizeof *inside),
       "read the field");
  mainstay_reader_close(reader);
  grid_put_inside(g, field, inside);
  free(inside);
  if (g->rank == 0)
    printf("begun from revision %llu of %s at step %llu\n", (unsigned long long)revision, path,
           (unsigned long long)*step);
}
/* ANCHOR_END: from */

/* A checkpoint with a cost that is not printed yet. */
typedef struct saved {
  uint64_t revision, step; /* 0: none */
} saved;

/* Prints the cost of a checkpoint on this rank, once the checkpoint is durable and the cost is known. */
static void print_cost(mainstay_session *session, saved *last, bool phases) {
  mainstay_record r;
  if (last->revision == 0 || mainstay_last_record(session, &r) != MAINSTAY_OK || r.revision != last->revision ||
      r.durable_ns == 0)
    return;
  printf("checkpoint %llu of step %llu: t1 %.3f s, t2-t1 %.1f ms, t3-t1 %.1f ms\n", (unsigned long long)last->revision,
         (unsigned long long)last->step, (double)r.t1_unix_ns / 1e9, (double)r.perceived_ns / 1e6,
         (double)r.durable_ns / 1e6);
  if (phases)
    printf("  communication %.1f, buffer wait %.1f, copy %.1f, phase 3 %.1f, other %.1f ms; "
           "%llu bytes, %llu chunks, %llu writes\n",
           (double)r.communication_ns / 1e6, (double)r.buffer_wait_ns / 1e6, (double)r.copy_ns / 1e6,
           (double)r.resume_ns / 1e6, (double)r.other_ns / 1e6, (unsigned long long)r.bytes,
           (unsigned long long)r.chunks, (unsigned long long)r.writes);
  last->revision = 0;
}

/* Divides the model among the present ranks, and restores the newest revision. False: ranks have failed. */
static bool begin(model *m, mainstay_session *session, MPI_Comm workers, const options *o, const elevation *surface) {
  if (!model_begin(m, workers, o, surface)) return false;
  if (session) {
    must(mainstay_mpi_adopt(session, m->g.comm), "adopt the grid's communicator");
    box block = box_of(&m->g);
    /* ANCHOR: box */
    must(mainstay_protect_array(session, "step", &m->step, MAINSTAY_U64, 0, NULL), "protect the step");
    /* Without its ghosts, so that any number of ranks can share it out. */
    must(mainstay_protect_within(session, "temperature", m->field, MAINSTAY_F64, 3, block.shape, block.stored,
                                 block.ghosts, block.whole, block.start),
         "protect the field");
    /* ANCHOR_END: box */
    /* ANCHOR: follow */
    /* Saves the field that the pointer points to at a checkpoint: each step swaps it with the other. */
    must(mainstay_follow(session, "temperature", (void **)&m->field), "follow the field");
    /* ANCHOR_END: follow */

    mainstay_restored restored = {0};
    if (!done(mainstay_restore(session, &restored), "restore")) return false;
    if (restored.skipped && m->g.rank == 0) printf("newer revisions are damaged: %s\n", mainstay_report(session));
    if (!restored.revision && o->from) begin_from(&m->g, o->from, &m->step, m->field);
    if (restored.revision && m->g.rank == 0)
      printf("restored revision %llu, continuing at step %llu\n", (unsigned long long)restored.revision,
             (unsigned long long)m->step);
  }
  if (o->first) grid_write(&m->g, m->field, o->first);
  return true;
}

/* Removes the protection of the whole model. */
static void end(model *m, mainstay_session *session) {
  mainstay_unprotect(session, "step"); /* not protected yet if ranks failed early */
  mainstay_unprotect(session, "temperature");
  model_end(m);
}

/* Computes and saves up to the last step. False: ranks have failed. */
static bool go_on(model *m, mainstay_session *session, const options *o) {
  int rank = m->g.rank;
  saved last = {0, 0};
  while (m->step < o->steps) {
    model_step(m, o);
    if (!session) continue;

    int due = 0;
    /* The sweep does not check the results of its messages. */
    if (!done(mainstay_check(session), "look whether a rank has failed") ||
        !done(mainstay_due(session, m->step, &due), "ask whether a checkpoint is due"))
      return false;
    if (due) {
      uint64_t revision = 0;
      if (!tried(mainstay_checkpoint(session, &revision), "checkpoint", rank)) return false;
      if (rank == 0) print_cost(session, &last, o->timeline); /* if this one had to wait for the last */
      last = (saved){revision, m->step};
    }
    if (rank == 0) print_cost(session, &last, o->timeline);
  }
  if (session) {
    if (!tried(mainstay_wait(session), "wait", rank)) return false;
    if (rank == 0) print_cost(session, &last, o->timeline);
  }
  return true;
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
  elevation surface = elevation_read(MPI_COMM_WORLD, o.dem);

  mainstay_session *session = NULL;
  if (o.space) {
    mainstay_options wanted = MAINSTAY_OPTIONS_INIT;
    wanted.keep = o.keep;
    wanted.every_steps = o.every;
    wanted.pool_bytes = o.pool_bytes;
    wanted.stage = o.stage;
    mainstay_status opened = mainstay_open_mpi(MPI_COMM_WORLD, o.space, &wanted, &session);
    if (opened == MAINSTAY_NOT_NEEDED) { /* a spare that was not needed */
      elevation_free(&surface);
      return mainstay_mpi_finalize(0);
    }
    must(opened, "open the space");
    if (o.timeline && rank == 0) printf("opened %s\n", o.space);
  }

  /* ANCHOR: recover */
  model m = {.g = {.comm = MPI_COMM_NULL}};
  for (;;) {
    /* Without the ranks that failed, and with those that took their places, if any. */
    MPI_Comm workers = session ? mainstay_mpi_comm(session) : MPI_COMM_WORLD;
    if (begin(&m, session, workers, &o, &surface) && go_on(&m, session, &o)) break;
    must(mainstay_recover(session), "go on without the ranks that failed");
    end(&m, session);
  }
  /* ANCHOR_END: recover */
  rank = m.g.rank;

  if (session) tried(mainstay_close(session), "close", rank);
  if (o.out) grid_write(&m.g, m.field, o.out);
  if (rank == 0)
    printf("done: %llu steps, %.0f years\n", (unsigned long long)m.step, m.rock.sweep_years * (double)m.step);

  model_end(&m);
  elevation_free(&surface);
  return mainstay_mpi_finalize(failures ? 3 : 0);
}
