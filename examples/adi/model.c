#include "model.h"

#include <string.h>

static const double viscosity = 0.05;
static const double time_step = 0.2;

/* How the five are carried along x, y and z. */
static const double carried[3][UNKNOWNS] = {
    {0.20, 0.10, -0.05, 0.05, 0.10},
    {-0.05, 0.20, 0.10, 0.05, -0.10},
    {0.10, -0.05, 0.20, 0.10, 0.05},
};

/* The steady state: factors of 1, x, y, z, x*x*y, y*y*z, z*z*x. Polynomials, as in BT, have the same
 * bits wherever they are computed. */
static const double steady[UNKNOWNS][7] = {
    {1.0, 0.3, -0.2, 0.1, 0.5, -0.4, 0.3}, {0.6, -0.1, 0.4, 0.2, -0.3, 0.5, 0.2}, {0.8, 0.2, 0.1, -0.3, 0.4, 0.3, -0.5},
    {0.5, 0.4, 0.3, 0.2, 0.2, -0.1, 0.4},  {1.2, -0.3, 0.2, 0.4, -0.2, 0.3, 0.1},
};

model model_create(const size_t cells[3]) {
  model m = {.step = time_step};
  for (int d = 0; d < 3; d++) {
    m.cells[d] = cells[d];
    m.width[d] = 1 / (double)(cells[d] - 1);
  }
  for (int i = 0; i < UNKNOWNS; i++)
    for (int j = 0; j < UNKNOWNS; j++) m.diffusion[i][j] = viscosity * (i == j ? 1 : 0.1 / (i < j ? j - i : i - j));
  return m;
}

void model_steady(const model *m, size_t ix, size_t iy, size_t iz, double u[UNKNOWNS]) {
  double x = (double)ix * m->width[0], y = (double)iy * m->width[1], z = (double)iz * m->width[2];
  for (int i = 0; i < UNKNOWNS; i++) {
    const double *c = steady[i];
    u[i] = c[0] + c[1] * x + c[2] * y + c[3] * z + c[4] * x * x * y + c[5] * y * y * z + c[6] * z * z * x;
  }
}

void model_begin(const model *m, size_t ix, size_t iy, size_t iz, double u[UNKNOWNS]) {
  double x = (double)ix * m->width[0], y = (double)iy * m->width[1], z = (double)iz * m->width[2];
  double bump = 64 * x * (1 - x) * y * (1 - y) * z * (1 - z); /* 1 in the middle, 0 at the walls */
  model_steady(m, ix, iy, iz, u);
  for (int i = 0; i < UNKNOWNS; i++) u[i] += (i % 2 ? -0.5 : 0.5) * bump;
}

static double square(const double *u) {
  double sum = 0;
  for (int i = 0; i < UNKNOWNS; i++) sum += u[i] * u[i];
  return sum;
}

void model_rate(const model *m, const double *u, const size_t next[3], double rate[UNKNOWNS]) {
  double bend[UNKNOWNS] = {0}; /* the sum of the second differences */
  memset(rate, 0, UNKNOWNS * sizeof *rate);
  for (int d = 0; d < 3; d++) {
    const double *before = u - next[d], *after = u + next[d];
    double flux = (square(after) - square(before)) / (4 * m->width[d]);
    double inverse = 1 / (m->width[d] * m->width[d]);
    for (int i = 0; i < UNKNOWNS; i++) {
      rate[i] -= carried[d][i] * flux;
      bend[i] += (before[i] - 2 * u[i] + after[i]) * inverse;
    }
  }
  for (int i = 0; i < UNKNOWNS; i++)
    for (int j = 0; j < UNKNOWNS; j++) rate[i] += m->diffusion[i][j] * bend[j];
}

void model_blocks(const model *m, int d, const double *u, size_t next, block before, block here, block after) {
  const double *u_before = u - next, *u_after = u + next;
  double flux = m->step / (2 * m->width[d]), spread = m->step / (m->width[d] * m->width[d]);
  for (int i = 0; i < UNKNOWNS; i++) {
    double along = flux * carried[d][i];
    for (int j = 0; j < UNKNOWNS; j++) {
      double diffused = spread * m->diffusion[i][j];
      before[i][j] = -along * u_before[j] - diffused;
      here[i][j] = 2 * diffused;
      after[i][j] = along * u_after[j] - diffused;
    }
    here[i][i] += 1;
  }
}
