#include "solver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "line.h"
#include "stop.h"

typedef void cell_values(const model *m, size_t x, size_t y, size_t z, double u[UNKNOWNS]);

/* Gives every stored cell a value, ghosts included. Cells outside the grid keep theirs. */
static void fill(const solver *v, cell_values *values, double *u) {
  const slab *s = v->s;
  for (size_t k = 0; k < s->size + 2; k++) {
    size_t z = s->start + k; /* one more than the plane: the first stored plane is a ghost */
    if (z == 0 || z > s->cells[2]) continue;
    for (size_t y = 0; y < s->cells[1]; y++)
      for (size_t x = 0; x < s->cells[0]; x++) values(&v->m, x, y, z - 1, u + k * s->plane + y * s->row + x * UNKNOWNS);
  }
}

/* The stored planes with cells that change: all planes of this rank except walls. */
static void inner_planes(const slab *s, size_t *first, size_t *end) {
  *first = s->start == 0 ? 2 : 1;
  *end = s->start + s->size == s->cells[2] ? s->size : s->size + 1;
}

/* du/dt without f in all inner cells. */
static void rates(const solver *v, const double *u, double *rate) {
  const slab *s = v->s;
  const size_t next[3] = {UNKNOWNS, s->row, s->plane};
  size_t first, end;
  inner_planes(s, &first, &end);
  for (size_t k = first; k < end; k++)
    for (size_t y = 1; y + 1 < s->cells[1]; y++)
      for (size_t x = 1; x + 1 < s->cells[0]; x++) {
        size_t at = k * s->plane + y * s->row + x * UNKNOWNS;
        model_rate(&v->m, u + at, next, rate + at);
      }
}

solver solver_create(const slab *s) {
  solver v = {.s = s, .m = model_create(s->cells)};
  size_t stored = slab_stored(s), turned = slab_stored_turned(s), longest = 0;
  for (int d = 0; d < 3; d++) longest = s->cells[d] > longest ? s->cells[d] : longest;
  v.forcing = allocate(stored, sizeof *v.forcing);
  v.delta = allocate(stored, sizeof *v.delta);
  v.u_turned = allocate(turned, sizeof *v.u_turned);
  v.delta_turned = allocate(turned, sizeof *v.delta_turned);
  v.work = allocate(longest, sizeof *v.work);
  memset(v.delta, 0, stored * sizeof *v.delta);
  memset(v.forcing, 0, stored * sizeof *v.forcing);

  /* f cancels the effect of the equations on the steady state. `delta` holds a field for a moment. */
  fill(&v, model_steady, v.delta);
  rates(&v, v.delta, v.forcing);
  for (size_t i = 0; i < stored; i++) v.forcing[i] = -v.forcing[i];
  memset(v.delta, 0, stored * sizeof *v.delta); /* at the walls it stays 0 */
  return v;
}

void solver_free(solver *v) {
  free(v->forcing);
  free(v->delta);
  free(v->u_turned);
  free(v->delta_turned);
  free(v->work);
}

void solver_begin(const solver *v, double *u) {
  memset(u, 0, slab_stored(v->s) * sizeof *u); /* ghosts beyond the grid are saved too */
  fill(v, model_begin, u);
}

/* Lines along one side of the grid, and their places in an array. */
typedef struct lines {
  size_t begin;             /* the first cell of the first line, in doubles */
  size_t next;              /* from cell to cell of a line */
  size_t rows, row_next;    /* lines are in rows, */
  size_t columns, col_next; /* which follow each other in columns */
} lines;

static void sweep(const solver *v, int d, const double *u, double *delta, lines l) {
  for (size_t c = 0; c < l.columns; c++)
    for (size_t r = 0; r < l.rows; r++) {
      size_t at = l.begin + c * l.col_next + r * l.row_next;
      line_solve(&v->m, d, u + at, delta + at, l.next, v->work);
    }
}

/* Turns the slab, so that each line along z is on one rank. */
static void sweep_z(const solver *v, const double *u, double *delta) {
  const slab *s = v->s;
  size_t turned_plane = s->turned_size * s->row;
  size_t first = s->turned_start == 0 ? 1 : 0;
  size_t end = s->turned_start + s->turned_size == s->cells[1] ? s->turned_size - 1 : s->turned_size;
  slab_turn(s, u, v->u_turned);
  slab_turn(s, delta, v->delta_turned);
  sweep(v, 2, v->u_turned, v->delta_turned,
        (lines){first * s->row + UNKNOWNS, turned_plane, s->cells[0] - 2, UNKNOWNS, end - first, s->row});
  slab_turn_back(s, v->delta_turned, delta);
}

void solver_change(const solver *v, double *u) {
  const slab *s = v->s;
  double *delta = v->delta;
  size_t first, end;
  inner_planes(s, &first, &end);

  slab_exchange(s, u);
  rates(v, u, delta);
  for (size_t i = first * s->plane; i < end * s->plane; i++) delta[i] = v->m.step * (delta[i] + v->forcing[i]);

  size_t begin = first * s->plane, planes = end - first;
  sweep(v, 0, u, delta, (lines){begin + s->row, UNKNOWNS, s->cells[1] - 2, s->row, planes, s->plane});
  sweep(v, 1, u, delta, (lines){begin + UNKNOWNS, s->row, s->cells[0] - 2, UNKNOWNS, planes, s->plane});
  sweep_z(v, u, delta);
}

void solver_add(const solver *v, double *u) {
  const slab *s = v->s;
  size_t first, end;
  inner_planes(s, &first, &end);
  for (size_t i = first * s->plane; i < end * s->plane; i++) u[i] += v->delta[i];
}

double solver_error(const solver *v, const double *u) {
  const slab *s = v->s;
  double sum = 0, all = 0;
  for (size_t k = 1; k <= s->size; k++)
    for (size_t y = 0; y < s->cells[1]; y++)
      for (size_t x = 0; x < s->cells[0]; x++) {
        const double *here = u + k * s->plane + y * s->row + x * UNKNOWNS;
        double steady[UNKNOWNS];
        model_steady(&v->m, x, y, s->start + k - 1, steady);
        for (int i = 0; i < UNKNOWNS; i++) sum += (here[i] - steady[i]) * (here[i] - steady[i]);
      }
  MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, s->comm);
  return sqrt(all / ((double)s->cells[2] * (double)s->plane));
}
