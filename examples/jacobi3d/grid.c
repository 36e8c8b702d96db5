#include "grid.h"

#include <string.h>

#include "stop.h"

/* One layer of cells, `layer` along `side`, as MPI sees it in the stored array. */
static MPI_Datatype face(const grid *g, int side, size_t layer) {
  int stored[3], size[3], start[3];
  for (int d = 0; d < 3; d++) {
    stored[d] = (int)g->size[d] + 2;
    size[d] = d == side ? 1 : (int)g->size[d];
    start[d] = d == side ? (int)layer : 1;
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(3, stored, size, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

/* The block of this rank within an array of `whole` cells, from `start` on. */
static MPI_Datatype part(const grid *g, const size_t whole[3], const size_t start[3]) {
  int whole_[3], size[3], start_[3];
  for (int d = 0; d < 3; d++) {
    whole_[d] = (int)whole[d];
    size[d] = (int)g->size[d];
    start_[d] = (int)start[d];
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(3, whole_, size, start_, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

grid grid_create(MPI_Comm world, const size_t cells[3]) {
  grid g = {.comm = MPI_COMM_NULL};
  int bounded[3] = {0, 0, 0}, here[3];
  MPI_Comm_size(world, &g.ranks);
  MPI_Dims_create(g.ranks, 3, g.blocks);
  if (MPI_Cart_create(world, 3, g.blocks, bounded, 0, &g.comm) != MPI_SUCCESS) {
    g.comm = MPI_COMM_NULL;
    return g;
  }
  MPI_Comm_rank(g.comm, &g.rank);
  MPI_Cart_coords(g.comm, g.rank, 3, here);

  size_t stored[3];
  for (int d = 0; d < 3; d++) {
    size_t blocks = (size_t)g.blocks[d], block = (size_t)here[d];
    if (cells[d] < blocks) stop("%zu cells along side %d are too few for %zu ranks", cells[d], d + 1, blocks);
    g.cells[d] = cells[d];
    g.start[d] = cells[d] * block / blocks;
    g.size[d] = cells[d] * (block + 1) / blocks - g.start[d];
    stored[d] = g.size[d] + 2;
    MPI_Cart_shift(g.comm, d, 1, &g.low[d], &g.high[d]);
  }
  for (int d = 0; d < 3; d++) {
    g.low_ghost[d] = face(&g, d, 0);
    g.low_face[d] = face(&g, d, 1);
    g.high_face[d] = face(&g, d, g.size[d]);
    g.high_ghost[d] = face(&g, d, g.size[d] + 1);
  }
  g.block = part(&g, stored, (const size_t[3]){1, 1, 1});
  g.place = part(&g, g.cells, g.start);
  return g;
}

void grid_free(grid *g) {
  for (int d = 0; d < 3; d++) {
    MPI_Type_free(&g->low_ghost[d]);
    MPI_Type_free(&g->low_face[d]);
    MPI_Type_free(&g->high_face[d]);
    MPI_Type_free(&g->high_ghost[d]);
  }
  MPI_Type_free(&g->block);
  MPI_Type_free(&g->place);
  MPI_Comm_free(&g->comm);
}

/* Row `row` of the block in the stored array. */
static size_t row_at(const grid *g, size_t row) { return grid_at(g, row / g->size[1] + 1, row % g->size[1] + 1, 1); }

void grid_put_inside(const grid *g, double *field, const double *inside) {
  for (size_t row = 0; row < g->size[0] * g->size[1]; row++)
    memcpy(field + row_at(g, row), inside + row * g->size[2], g->size[2] * sizeof *field);
}

/* In Open MPI 5, MPI_Sendrecv crashes at the border of the grid, where there is no message to receive, if its other
 * side has failed. A wait for an MPI_Isend can crash, too. */
static void send_receive(const grid *g, double *field, MPI_Datatype sent, int to, MPI_Datatype received, int from,
                         int tag) {
  MPI_Request coming;
  if (MPI_Irecv(field, 1, received, from, tag, g->comm, &coming) == MPI_SUCCESS &&
      MPI_Send(field, 1, sent, to, tag, g->comm) == MPI_SUCCESS)
    MPI_Wait(&coming, MPI_STATUS_IGNORE);
}

void grid_exchange(const grid *g, double *field) {
  for (int d = 0; d < 3; d++) {
    send_receive(g, field, g->low_face[d], g->low[d], g->high_ghost[d], g->high[d], 0);
    send_receive(g, field, g->high_face[d], g->high[d], g->low_ghost[d], g->low[d], 1);
  }
}

/* Files, unlike communicators, return their errors by default. */
static void check(int code, const char *path, const char *doing) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  stop("%s: %s: %s", path, doing, text);
}

void grid_write(const grid *g, const double *field, const char *path) {
  MPI_File file;
  MPI_Offset bytes = (MPI_Offset)sizeof *field;
  for (int d = 0; d < 3; d++) bytes *= (MPI_Offset)g->cells[d];

  check(MPI_File_open(g->comm, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), path, "open");
  check(MPI_File_set_size(file, bytes), path, "resize"); /* an older file may be longer */
  check(MPI_File_set_view(file, 0, MPI_DOUBLE, g->place, "native", MPI_INFO_NULL), path, "view");

  MPI_Status status;
  int written = 0;
  check(MPI_File_write_all(file, field, 1, g->block, &status), path, "write");
  MPI_Get_count(&status, g->block, &written);
  if (written != 1) stop("%s: written only in part", path);
  check(MPI_File_close(&file), path, "close");
}
