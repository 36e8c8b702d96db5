#include "ground.h"

#include <stdlib.h>
#include <string.h>

#include "stop.h"

static const double depth_m = 1500;             /* of the grid below the lowest valley */
static const double headroom_m = 60;            /* of air above the highest peak */
static const double sea_level_c = 14;           /* air, over the year */
static const double lapse_c_per_m = 6.5e-3;     /* air, the higher the colder */
static const double heat_flux_w_per_m2 = 65e-3; /* from below */
static const double conductivity_w_per_mk = 2.5;
static const double diffusivity_m2_per_s = 1.1e-6;
static const double damping = 0.9; /* of 1, where a plain Jacobi sweep would let a chequerboard live */
static const double seconds_per_year = 365.25 * 86400;

static double air_c(double height_m) { return sea_level_c - lapse_c_per_m * height_m; }

/* The height of the centre of a cell; 0 is the low ghost of the block. */
static double height_m(const ground *r, const grid *g, size_t up) {
  return r->bottom_m + ((double)g->start[2] + (double)up - 0.5) * r->cell_m[2];
}

/* How many cells of a column of the block have their centre below the surface. */
static size_t rock_cells(const ground *r, const grid *g, double surface_m) {
  size_t up = 0;
  while (up < g->size[2] && height_m(r, g, up + 1) < surface_m) up++;
  return up;
}

ground ground_create(const grid *g, const elevation *e) {
  ground r = {.bottom_m = e->lowest_m - depth_m};
  double top_m = e->highest_m + headroom_m;
  r.cell_m[0] = e->width_m / (double)g->cells[0];
  r.cell_m[1] = e->length_m / (double)g->cells[1];
  r.cell_m[2] = (top_m - r.bottom_m) / (double)g->cells[2];

  double inverse[3], sum = 0;
  for (int d = 0; d < 3; d++) sum += inverse[d] = 1 / (r.cell_m[d] * r.cell_m[d]);
  for (int d = 0; d < 3; d++) r.weight[d] = damping * inverse[d] / (2 * sum);
  r.itself = 1 - damping;
  r.below = heat_flux_w_per_m2 / conductivity_w_per_mk * r.cell_m[2];
  /* Such a sweep is also an explicit step of the heat equation over this time. */
  r.sweep_years = damping / (2 * sum * diffusivity_m2_per_s) / seconds_per_year;

  r.columns = allocate(g->size[0] * g->size[1], sizeof *r.columns);
  for (size_t i = 0; i < g->size[0]; i++)
    for (size_t j = 0; j < g->size[1]; j++) {
      double east = ((double)(g->start[0] + i) + 0.5) / (double)g->cells[0];
      double north = ((double)(g->start[1] + j) + 0.5) / (double)g->cells[1];
      r.columns[i * g->size[1] + j] = rock_cells(&r, g, elevation_at(e, east, north));
    }
  return r;
}

void ground_free(ground *r) {
  free(r->columns);
  r->columns = NULL;
}

/* The start is a plateau as high as the highest peak, warmer with depth, from
 * which the valleys have been cut a moment ago: far from any equilibrium. */
void ground_begin(const ground *r, const grid *g, const elevation *e, double *field) {
  double gradient = r->below / r->cell_m[2];
  for (size_t i = 0; i < g->size[0] + 2; i++)
    for (size_t j = 0; j < g->size[1] + 2; j++) {
      size_t inside_i = i == 0 ? 0 : i > g->size[0] ? g->size[0] - 1 : i - 1;
      size_t inside_j = j == 0 ? 0 : j > g->size[1] ? g->size[1] - 1 : j - 1;
      size_t rock = r->columns[inside_i * g->size[1] + inside_j];
      for (size_t up = 0; up < g->size[2] + 2; up++) {
        double height = height_m(r, g, up);
        field[grid_at(g, i, j, up)] =
            up <= rock ? air_c(e->highest_m) + gradient * (e->highest_m - height) : air_c(height);
      }
    }
}

/* The ghosts outside the whole grid. No heat passes the sides; some comes from
 * below; those above are air, which keeps its temperature. */
static void fill_border(const ground *r, const grid *g, double *field) {
  size_t layer = grid_at(g, 1, 0, 0), column = grid_at(g, 0, 1, 0);
  size_t last_i = g->size[0], last_j = g->size[1];

  if (g->low[0] == MPI_PROC_NULL) memcpy(field, field + layer, layer * sizeof *field);
  if (g->high[0] == MPI_PROC_NULL) memcpy(field + (last_i + 1) * layer, field + last_i * layer, layer * sizeof *field);

  for (size_t i = 1; i <= last_i; i++) {
    double *here = field + grid_at(g, i, 0, 0);
    if (g->low[1] == MPI_PROC_NULL) memcpy(here, here + column, column * sizeof *field);
    if (g->high[1] == MPI_PROC_NULL)
      memcpy(here + (last_j + 1) * column, here + last_j * column, column * sizeof *field);
    if (g->low[2] == MPI_PROC_NULL)
      for (size_t j = 1; j <= last_j; j++) here[j * column] = here[j * column + 1] + r->below;
  }
}

void ground_sweep(const ground *r, const grid *g, double *from, double *to) {
  grid_exchange(g, from);
  ground_sweep_block(r, g, from, to);
}

void ground_sweep_block(const ground *r, const grid *g, double *from, double *to) {
  fill_border(r, g, from);

  double itself = r->itself, wx = r->weight[0], wy = r->weight[1], wz = r->weight[2];
  for (size_t i = 1; i <= g->size[0]; i++)
    for (size_t j = 1; j <= g->size[1]; j++) {
      const double *here = from + grid_at(g, i, j, 0);
      const double *west = from + grid_at(g, i - 1, j, 0);
      const double *east = from + grid_at(g, i + 1, j, 0);
      const double *south = from + grid_at(g, i, j - 1, 0);
      const double *north = from + grid_at(g, i, j + 1, 0);
      double *restrict there = to + grid_at(g, i, j, 0);
      size_t rock = r->columns[(i - 1) * g->size[1] + (j - 1)];
      /* The same sum in the same order for every cell: the bits of the
       * result do not depend on how many ranks share the grid. */
      for (size_t up = 1; up <= rock; up++)
        there[up] = itself * here[up] + wx * (west[up] + east[up]) + wy * (south[up] + north[up]) +
                    wz * (here[up - 1] + here[up + 1]);
    }
}
