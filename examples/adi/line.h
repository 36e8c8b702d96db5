/* One line of cells: a block-tridiagonal system, solved by the Thomas algorithm. */
#ifndef ADI_LINE_H
#define ADI_LINE_H

#include "model.h"

/* Solves the system of a sweep along side `d` for the line of cells that begins at `u`, each `next`
 * doubles after the one before. `delta`, laid out alike, holds the right-hand side and then the
 * solution; it is 0 at both ends, which do not change. `work` has room for a block for each cell. */
void line_solve(const model *m, int d, const double *u, double *delta, size_t next, block *work);

#endif
