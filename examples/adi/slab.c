#include "slab.h"

#include <stdlib.h>

#include "model.h"
#include "stop.h"

/* Where the share of `rank` begins; that of rank + 1 begins where it ends. */
static size_t share(size_t cells, int rank, int ranks) { return cells * (size_t)rank / (size_t)ranks; }

/* `planes` planes and `rows` rows of an array that has as many as `stored` says. */
static MPI_Datatype part(const slab *s, const size_t stored[2], const size_t start[2], const size_t size[2]) {
  int row = (int)s->row;
  int stored_[3] = {(int)stored[0], (int)stored[1], row};
  int start_[3] = {(int)start[0], (int)start[1], 0};
  int size_[3] = {(int)size[0], (int)size[1], row};
  MPI_Datatype type;
  MPI_Type_create_subarray(3, stored_, size_, start_, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

slab slab_create(MPI_Comm comm, const size_t cells[3]) {
  slab s = {.comm = comm};
  MPI_Comm_rank(comm, &s.rank);
  MPI_Comm_size(comm, &s.ranks);
  for (int d = 0; d < 3; d++) s.cells[d] = cells[d];
  if (cells[1] < (size_t)s.ranks || cells[2] < (size_t)s.ranks)
    stop("%zu rows and %zu planes are too few for %d ranks", cells[1], cells[2], s.ranks);

  s.below = s.rank == 0 ? MPI_PROC_NULL : s.rank - 1;
  s.above = s.rank == s.ranks - 1 ? MPI_PROC_NULL : s.rank + 1;
  s.row = cells[0] * UNKNOWNS;
  s.plane = cells[1] * s.row;
  s.start = share(cells[2], s.rank, s.ranks);
  s.size = share(cells[2], s.rank + 1, s.ranks) - s.start;
  s.turned_start = share(cells[1], s.rank, s.ranks);
  s.turned_size = share(cells[1], s.rank + 1, s.ranks) - s.turned_start;
  MPI_Type_contiguous((int)s.plane, MPI_DOUBLE, &s.whole_plane);
  MPI_Type_commit(&s.whole_plane);

  size_t ranks = (size_t)s.ranks;
  s.upright = allocate(ranks, sizeof *s.upright);
  s.turned = allocate(ranks, sizeof *s.turned);
  s.once = allocate(ranks, sizeof *s.once);
  s.nowhere = allocate(ranks, sizeof *s.nowhere);
  const size_t upright[2] = {s.size + 2, cells[1]}, turned[2] = {cells[2], s.turned_size};
  for (int r = 0; r < s.ranks; r++) {
    size_t rows = share(cells[1], r, s.ranks), planes = share(cells[2], r, s.ranks);
    s.upright[r] = part(&s, upright, (const size_t[2]){1, rows},
                        (const size_t[2]){s.size, share(cells[1], r + 1, s.ranks) - rows});
    s.turned[r] = part(&s, turned, (const size_t[2]){planes, 0},
                       (const size_t[2]){share(cells[2], r + 1, s.ranks) - planes, s.turned_size});
    s.once[r] = 1;
    s.nowhere[r] = 0; /* the types know where they begin */
  }
  return s;
}

void slab_free(slab *s) {
  for (int r = 0; r < s->ranks; r++) {
    MPI_Type_free(&s->upright[r]);
    MPI_Type_free(&s->turned[r]);
  }
  MPI_Type_free(&s->whole_plane);
  free(s->upright);
  free(s->turned);
  free(s->once);
  free(s->nowhere);
}

size_t slab_stored(const slab *s) { return (s->size + 2) * s->plane; }

size_t slab_stored_turned(const slab *s) { return s->cells[2] * s->turned_size * s->row; }

void slab_exchange(const slab *s, double *field) {
  double *first = field + s->plane, *last = field + s->size * s->plane;
  MPI_Sendrecv(first, 1, s->whole_plane, s->below, 0, last + s->plane, 1, s->whole_plane, s->above, 0, s->comm,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(last, 1, s->whole_plane, s->above, 1, field, 1, s->whole_plane, s->below, 1, s->comm, MPI_STATUS_IGNORE);
}

void slab_turn(const slab *s, const double *field, double *turned) {
  MPI_Alltoallw(field, s->once, s->nowhere, s->upright, turned, s->once, s->nowhere, s->turned, s->comm);
}

void slab_turn_back(const slab *s, const double *turned, double *field) {
  MPI_Alltoallw(turned, s->once, s->nowhere, s->turned, field, s->once, s->nowhere, s->upright, s->comm);
}

/* Files, unlike communicators, return their errors by default. */
static void check(int code, const char *path, const char *doing) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  stop("%s: %s: %s", path, doing, text);
}

void slab_write(const slab *s, const double *field, const char *path) {
  MPI_File file;
  MPI_Offset plane = (MPI_Offset)(s->plane * sizeof *field);
  check(MPI_File_open(s->comm, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), path, "open");
  /* An older file may be longer. */
  check(MPI_File_set_size(file, plane * (MPI_Offset)s->cells[2]), path, "resize");

  MPI_Status status;
  int written = 0;
  check(MPI_File_write_at_all(file, plane * (MPI_Offset)s->start, field + s->plane, (int)s->size, s->whole_plane,
                              &status),
        path, "write");
  MPI_Get_count(&status, s->whole_plane, &written);
  if (written != (int)s->size) stop("%s: written only in part", path);
  check(MPI_File_close(&file), path, "close");
}
