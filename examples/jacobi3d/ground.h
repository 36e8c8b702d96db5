/* The physics: heat that moves through rock, below air of a fixed temperature. */
#ifndef JACOBI3D_GROUND_H
#define JACOBI3D_GROUND_H

#include "elevation.h"
#include "grid.h"

typedef struct ground {
  size_t *columns; /* cells of rock in each column of the block: [size[0]][size[1]] */
  double bottom_m, cell_m[3];
  double weight[3], itself; /* of the neighbours along each side, and of the cell itself */
  double below;             /* the temperature difference to one cell below the lowest */
  double sweep_years;
} ground;

ground ground_create(const grid *g, const elevation *e);
void ground_free(ground *r);

/* The field at the start, ghosts included. */
void ground_begin(const ground *r, const grid *g, const elevation *e, double *field);

/* One Jacobi sweep: fills the ghosts of the field `from`, then computes the field `to` from it. */
void ground_sweep(const ground *r, const grid *g, double *from, double *to);

/* The sweep of one block. Its ghosts that are cells of other blocks must be filled before. */
void ground_sweep_block(const ground *r, const grid *g, double *from, double *to);

#endif
