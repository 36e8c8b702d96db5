#include "line.h"

/* here -= left * right, and delta -= left * delta_before. */
static void eliminate(block here, double *delta, block left, block right, const double *delta_before) {
  for (int i = 0; i < UNKNOWNS; i++)
    for (int k = 0; k < UNKNOWNS; k++) {
      double factor = left[i][k];
      for (int j = 0; j < UNKNOWNS; j++) here[i][j] -= factor * right[k][j];
      delta[i] -= factor * delta_before[k];
    }
}

/* after = here^-1 * after, and delta = here^-1 * delta, by Gauss-Jordan; the diagonal of `here`
 * dominates, so nothing is pivoted. */
static void divide(block here, block after, double *delta) {
  for (int p = 0; p < UNKNOWNS; p++) {
    double inverse = 1 / here[p][p];
    for (int j = p + 1; j < UNKNOWNS; j++) here[p][j] *= inverse;
    for (int j = 0; j < UNKNOWNS; j++) after[p][j] *= inverse;
    delta[p] *= inverse;
    for (int i = 0; i < UNKNOWNS; i++) {
      if (i == p) continue;
      double factor = here[i][p];
      for (int j = p + 1; j < UNKNOWNS; j++) here[i][j] -= factor * here[p][j];
      for (int j = 0; j < UNKNOWNS; j++) after[i][j] -= factor * after[p][j];
      delta[i] -= factor * delta[p];
    }
  }
}

void line_solve(const model *m, int d, const double *u, double *delta, size_t next, block *work) {
  size_t last = m->cells[d] - 2; /* the last inner cell */
  for (size_t i = 1; i <= last; i++) {
    block before, here;
    double *change = delta + i * next;
    model_blocks(m, d, u + i * next, next, before, here, work[i]);
    if (i > 1) eliminate(here, change, before, work[i - 1], change - next);
    divide(here, work[i], change);
  }
  for (size_t i = last - 1; i >= 1; i--) {
    double *change = delta + i * next;
    for (int j = 0; j < UNKNOWNS; j++)
      for (int k = 0; k < UNKNOWNS; k++) change[j] -= work[i][j][k] * change[next + (size_t)k];
  }
}
