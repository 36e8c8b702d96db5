#include "elevation.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stop.h"

/* The file: this header, then the heights, all little-endian. */
typedef struct header {
  char magic[8];
  uint32_t columns, rows;
  double width_m, length_m;
} header;
_Static_assert(sizeof(header) == 32, "dem.py writes 32 bytes");

static const uint32_t columns_max = 1u << 14; /* so that one broadcast carries all heights */

static header read_header(FILE *file, const char *path) {
  header h;
  if (fread(&h, sizeof h, 1, file) != 1) stop("%s: too short for an elevation model", path);
  if (memcmp(h.magic, "ELEVAT01", sizeof h.magic) != 0) stop("%s: not an elevation model; make one with dem.py", path);
  if (h.columns < 2 || h.rows < 2 || h.columns > columns_max || h.rows > columns_max)
    stop("%s: %u x %u heights; 2 to %u each way are possible", path, h.columns, h.rows, columns_max);
  if (!(h.width_m > 0 && h.width_m < 1e8 && h.length_m > 0 && h.length_m < 1e8))
    stop("%s: covers %g x %g m, which cannot be", path, h.width_m, h.length_m);
  return h;
}

static void read_heights(FILE *file, const char *path, float *heights, size_t count) {
  errno = 0;
  if (fread(heights, sizeof *heights, count, file) != count)
    stop("%s: %s", path, errno ? strerror(errno) : "cut short");
  if (fgetc(file) != EOF) stop("%s: longer than its header says", path);
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(heights[i]) < 1e4f)) /* false for a NaN too */
      stop("%s: height %zu is %g m", path, i, (double)heights[i]);
}

elevation elevation_read(MPI_Comm comm, const char *path) {
  int rank;
  MPI_Comm_rank(comm, &rank);

  FILE *file = NULL;
  header h = {{0}, 0, 0, 0, 0};
  if (rank == 0) {
    file = fopen(path, "rb");
    if (!file) stop("%s: %s", path, strerror(errno));
    h = read_header(file, path);
  }
  MPI_Bcast(&h, sizeof h, MPI_BYTE, 0, comm);

  size_t count = (size_t)h.columns * h.rows;
  float *heights = allocate(count, sizeof *heights);
  if (rank == 0) {
    read_heights(file, path, heights, count);
    fclose(file);
  }
  MPI_Bcast(heights, (int)count, MPI_FLOAT, 0, comm);

  elevation e = {h.columns, h.rows, h.width_m, h.length_m, heights[0], heights[0], heights};
  for (size_t i = 1; i < count; i++) {
    e.lowest_m = fmin(e.lowest_m, heights[i]);
    e.highest_m = fmax(e.highest_m, heights[i]);
  }
  return e;
}

/* Splits a place into the sample before it and the weight of the one after. */
static uint32_t locate(double fraction, uint32_t samples, double *weight) {
  double place = fmin(fmax(fraction * samples - 0.5, 0.0), samples - 1.0);
  uint32_t before = (uint32_t)fmin(place, samples - 2.0);
  *weight = place - before;
  return before;
}

double elevation_at(const elevation *e, double east, double north) {
  double u, v;
  uint32_t column = locate(east, e->columns, &u);
  uint32_t row = locate(north, e->rows, &v);
  const float *south_side = e->heights_m + (size_t)row * e->columns + column;
  const float *north_side = south_side + e->columns;
  return (1 - v) * ((1 - u) * south_side[0] + u * south_side[1]) + v * ((1 - u) * north_side[0] + u * north_side[1]);
}

void elevation_free(elevation *e) {
  free(e->heights_m);
  e->heights_m = NULL;
}
