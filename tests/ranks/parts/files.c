/* MPI-IO: individual pointers, explicit offsets, views, and what a plain read finds in the file. */
#include "parts.h"

#include <fcntl.h>
#include <unistd.h>

enum { CELLS = 6 };

static char path[4096];

static int plain(int place) {
  int got = -1, file = open(path, O_RDONLY);
  if (pread(file, &got, sizeof got, place * (off_t)sizeof got) != sizeof got) got = -1;
  close(file);
  return got;
}

static void at_offsets(void) {
  int out[CELLS], in[CELLS] = {0}, amode, count;
  MPI_Offset size, at = rank * (MPI_Offset)sizeof out;
  MPI_File file;
  MPI_Request request;
  MPI_Status status;
  for (int i = 0; i < CELLS; i++) out[i] = value(rank, i, 20);
  CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
  MPI_File_get_amode(file, &amode);
  CHECK(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR));
  MPI_File_write_at(file, at, out, CELLS, MPI_INT, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == CELLS);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_get_size(file, &size);
  CHECK(size == ranks * (MPI_Offset)sizeof out);
  for (int of = 0; of < ranks; of++) CHECK(plain(of * CELLS + 2) == value(of, 2, 20));
  MPI_File_read_at(file, next * (MPI_Offset)sizeof in, in, CELLS, MPI_INT, &status);
  for (int i = 0; i < CELLS; i++) CHECK(in[i] == value(next, i, 20));
  MPI_File_read_at_all(file, before * (MPI_Offset)sizeof in, in, CELLS, MPI_INT, MPI_STATUS_IGNORE);
  CHECK(in[3] == value(before, 3, 20));
  /* Behind the end there is less. */
  MPI_File_read_at(file, size - 4, in, CELLS, MPI_INT, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 1 && in[0] == value(ranks - 1, CELLS - 1, 20));
  MPI_Barrier(MPI_COMM_WORLD);
  out[0] = value(rank, 0, 21);
  MPI_File_iwrite_at(file, at, out, 1, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_File_iread_at(file, at, in, 1, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(in[0] == value(rank, 0, 21));
  MPI_File_write_at_all(file, at, out, 2, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_set_size(file, 8);
  MPI_File_get_size(file, &size);
  CHECK(size == 8);
  MPI_File_close(&file);
  CHECK(file == MPI_FILE_NULL);
}

/* The cells of the ranks take turns in the file. */
static void with_views(void) {
  int out[CELLS], in[CELLS] = {0};
  MPI_File file;
  MPI_Datatype cell, got_cell, got_kind;
  MPI_Offset position, bytes, start;
  MPI_Request request;
  char kind[MPI_MAX_DATAREP_STRING];
  for (int i = 0; i < CELLS; i++) out[i] = value(rank, i, 22);
  MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_Type_create_subarray(1, &ranks, (int[]){1}, &rank, MPI_ORDER_C, MPI_INT, &cell);
  MPI_Type_commit(&cell);
  MPI_File_set_view(file, 8, MPI_INT, cell, "native", MPI_INFO_NULL);
  MPI_File_write_all(file, out, CELLS / 2, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_get_position(file, &position);
  CHECK(position == CELLS / 2);
  MPI_File_iwrite(file, out + CELLS / 2, CELLS / 2, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_File_get_byte_offset(file, 2, &bytes);
  CHECK(bytes == 8 + (2 * ranks + rank) * 4);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int of = 0; of < ranks; of++)
    for (int i = 0; i < CELLS; i++) CHECK(plain(2 + i * ranks + of) == value(of, i, 22));
  MPI_File_seek(file, 1, MPI_SEEK_SET);
  MPI_File_read(file, in, 2, MPI_INT, MPI_STATUS_IGNORE);
  CHECK(in[0] == value(rank, 1, 22) && in[1] == value(rank, 2, 22));
  MPI_File_seek(file, -2, MPI_SEEK_CUR);
  MPI_File_iread(file, in, 1, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(in[0] == value(rank, 1, 22));
  MPI_File_read_at_all(file, 4, in, 2, MPI_INT, MPI_STATUS_IGNORE);
  CHECK(in[1] == value(rank, 5, 22));
  MPI_File_get_view(file, &start, &got_cell, &got_kind, kind);
  CHECK(start == 8 && !strcmp(kind, "native"));
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  MPI_File_seek(file, 0, MPI_SEEK_END);
  MPI_File_get_position(file, &position);
  CHECK(position == 8 + ranks * CELLS * 4);
  MPI_Type_free(&cell);
  MPI_File_close(&file);
}

static void opened_otherwise(void) {
  MPI_File file;
  int class, code, got = 0;
  MPI_Offset position;
  char missing[4200];
  code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  CHECK(code != MPI_SUCCESS);
  if (rank == 0) { /* MPICH tells the reason on rank 0 alone */
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_FILE_EXISTS);
  }
  snprintf(missing, sizeof missing, "%s.missing", path);
  MPI_Error_class(MPI_File_open(MPI_COMM_WORLD, missing, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), &class);
  CHECK(class == MPI_ERR_NO_SUCH_FILE);
  MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &file);
  MPI_File_get_position(file, &position);
  CHECK(position == 8 + ranks * CELLS * 4);
  MPI_File_close(&file);
  /* With its own type: each second number. */
  MPI_Datatype pair;
  int out[4] = {1, -1, 2, -1}, in[4] = {0};
  MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  snprintf(missing, sizeof missing, "%s.%d", path, rank);
  MPI_File_open(MPI_COMM_SELF, missing, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                &file);
  MPI_File_write(file, out, 1, pair, MPI_STATUS_IGNORE);
  MPI_File_read_at(file, 0, in, 2, MPI_INT, MPI_STATUS_IGNORE);
  CHECK(in[0] == 1 && in[1] == 2);
  MPI_File_preallocate(file, 100);
  MPI_File_get_size(file, &position);
  CHECK(position == 100);
  MPI_File_close(&file);
  CHECK(access(missing, F_OK) != 0);
  MPI_Type_free(&pair);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(MPI_File_delete(path, MPI_INFO_NULL) == MPI_SUCCESS);
  MPI_Error_class(MPI_File_delete(missing, MPI_INFO_NULL), &got);
  CHECK(got == MPI_ERR_NO_SUCH_FILE);
}

void files(void) {
  snprintf(path, sizeof path, "%s/cells", folder);
  at_offsets();
  with_views();
  opened_otherwise();
}
