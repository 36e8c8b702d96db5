/* The equations: five unknowns that diffuse into each other and are carried along, in a unit cube.
 *
 *     du/dt + sum over d of dF_d(u)/dx_d = K (sum over d of d2u/dx_d2) + f
 *
 * F_d(u) = w_d |u|^2 / 2 ties all five together, so that its derivative by u is a full 5 x 5 block, as
 * that of the Navier-Stokes equations is in BT. f is chosen so that a known field is the steady state,
 * of the equations as the grid has them: nothing but rounding is left of the error in the end. */
#ifndef ADI_MODEL_H
#define ADI_MODEL_H

#include <stddef.h>

enum { UNKNOWNS = 5 };

typedef double block[UNKNOWNS][UNKNOWNS];

typedef struct model {
  size_t cells[3]; /* x, y, z; the outermost ones keep the values of the steady state */
  double width[3]; /* from cell to cell */
  double step;     /* in time */
  block diffusion; /* K */
} model;

model model_create(const size_t cells[3]);

/* The steady state at a cell. */
void model_steady(const model *m, size_t x, size_t y, size_t z, double u[UNKNOWNS]);

/* The field at the start of a run: the steady state, except in the middle of the cube. */
void model_begin(const model *m, size_t x, size_t y, size_t z, double u[UNKNOWNS]);

/* du/dt without f at the cell `u`; `next` is the distance to its neighbours along x, y and z. */
void model_rate(const model *m, const double *u, const size_t next[3], double rate[UNKNOWNS]);

/* The row of an inner cell `u` in the system that a sweep along side `d` solves: the blocks that
 * multiply the changes of the cell before, of this one, and of the one after. */
void model_blocks(const model *m, int d, const double *u, size_t next, block before, block here, block after);

#endif
