/* Structures that the files of MPI-IO share. Licence: MIT OR Apache-2.0.
 *
 * A rank opens the file itself and uses plain system calls, so an open file is saved and brought back as any other open
 * file of the rank is. */
#ifndef MAINSTAY_FILE_H
#define MAINSTAY_FILE_H

#include "internal.h"

/* A run of bytes in one element of the file type. */
struct run {
  MPI_Aint offset;
  MPI_Count bytes;
  MPI_Count before; /* bytes of the runs before it */
};

/* The bytes of the file that the program sees: elements of `filetype`, one after another, from `displacement` on. */
struct view {
  MPI_Offset displacement;
  struct datatype *etype, *filetype; /* held */
  struct run *runs;
  MPI_Count run_count;
  bool external; /* data are in the representation external32 */
  char representation[16];
};

struct file {
  struct object object;
  struct comm *comm; /* the file's own */
  int descriptor;
  int mode; /* MPI_MODE_... */
  bool atomic;
  char *path;
  struct view view;
  MPI_Offset position; /* the individual pointer: bytes of the view */
  struct info *info;   /* NULL: empty */
  struct errhandler *errhandler;
  bool split; /* a split collective is under way, with this outcome: */
  struct outcome split_outcome;
};

/* Calls the error handler of the file (NULL: that of MPI_FILE_NULL), and returns the error. */
int raise_file_error(struct file *file, int error, const char *function);
#define fail_file(file, error) raise_file_error((file), (error), &__func__[1])
/* The class of an errno. */
int class_of_errno(int number);

/* file_view.c */
/* Fills in a view of bytes from the beginning of the file. */
void view_start(struct view *view);
void view_release(struct view *view);
/* A run of the file that begins at the byte `at` of the view. Returns its length, at most `bytes`. */
MPI_Count view_run(const struct view *view, MPI_Offset at, MPI_Count bytes, MPI_Offset *place);
/* Bytes of the view that lie before the byte `end` of the file. */
MPI_Offset view_bytes_before(const struct view *view, MPI_Offset end);

/* pack_external.c */
/* Converts between a buffer and external32; `size` is the number of bytes of the converted data. */
size_t external_bytes(MPI_Count count, const struct datatype *type);
void external_convert(void *data, MPI_Count count, const struct datatype *type, void *packed, bool packing);

#endif /* MAINSTAY_FILE_H */
