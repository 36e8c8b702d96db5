/* A step in time, by the alternating direction implicit method of Beam and Warming, as in BT: the right-hand side, a
 * sweep along x, one along y, one along z; the result is added. */
#ifndef ADI_SOLVER_H
#define ADI_SOLVER_H

#include "model.h"
#include "slab.h"

typedef struct solver {
  const slab *s;
  model m;
  double *forcing, *delta; /* f; the right-hand side, then the change: both laid out as the field */
  double *u_turned, *delta_turned;
  block *work; /* of one line */
} solver;

solver solver_create(const slab *s);
void solver_free(solver *v);

/* The field that a run begins with, ghosts and walls included. */
void solver_begin(const solver *v, double *u);

/* A step, in two halves. The first finds by how much the field changes and writes nothing of it but its ghosts, which
 * thus need not be saved; the second adds that. */
void solver_change(const solver *v, double *u);
void solver_add(const solver *v, double *u);

/* How far the field is from the steady state: the root of the mean square, the same on all ranks. */
double solver_error(const solver *v, const double *u);

#endif
