/* Reads and writes of files: each rank does its own, collective ones too. Licence: MIT OR Apache-2.0. */
#include "file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* One read or write, with its handles looked up. */
struct access {
  struct file *file;
  void *data;
  MPI_Count count;
  struct datatype *type;
  MPI_Offset at; /* bytes of the view */
  bool writing;
};

/* Moves bytes between memory and one run of the file. Returns the bytes moved: fewer at the end of the file. */
static MPI_Count move_run(const struct access *access, char *bytes, MPI_Count length, MPI_Offset place, int *error) {
  MPI_Count done = 0;
  while (done < length) {
    ssize_t moved = access->writing
                        ? pwrite(access->file->descriptor, bytes + done, (size_t)(length - done), place + done)
                        : pread(access->file->descriptor, bytes + done, (size_t)(length - done), place + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) *error = class_of_errno(errno);
    if (moved <= 0) break;
    done += moved;
  }
  return done;
}

static MPI_Count move_runs(const struct access *access, char *bytes, MPI_Count length, int *error) {
  MPI_Count done = 0;
  while (done < length && !*error) {
    MPI_Offset place;
    MPI_Count run = view_run(&access->file->view, access->at + done, length - done, &place);
    MPI_Count moved = move_run(access, bytes + done, run, place, error);
    done += moved;
    if (moved < run) break;
  }
  return done;
}

static int check(const struct access *access) {
  int mode = access->file->mode;
  int error = check_buffer(access->count, access->type);
  if (error) return error;
  if (access->at < 0) return MPI_ERR_ARG;
  if (mode & MPI_MODE_SEQUENTIAL) return MPI_ERR_UNSUPPORTED_OPERATION;
  if (access->writing && mode & MPI_MODE_RDONLY) return MPI_ERR_READ_ONLY;
  if (!access->writing && mode & MPI_MODE_WRONLY) return MPI_ERR_ACCESS;
  if (data_bytes(access->count, access->type) % (size_t)access->file->view.etype->size) return MPI_ERR_IO;
  /* Types that change their size in external32 would not fit into the view. */
  if (access->file->view.external &&
      external_bytes(access->count, access->type) != data_bytes(access->count, access->type))
    return MPI_ERR_CONVERSION;
  return MPI_SUCCESS;
}

static int transfer(const struct access *access, struct outcome *outcome) {
  MPI_Count length;
  char *copy = NULL, *bytes = access->data;
  bool external = access->file->view.external;
  int error = check(access);
  *outcome = (struct outcome){.source = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG};
  if (error) return error;
  length = (MPI_Count)data_bytes(access->count, access->type);
  if (external || !is_dense(access->type)) {
    bytes = copy = take_memory((size_t)length);
    if (access->writing && external)
      external_convert(access->data, access->count, access->type, copy, true);
    else if (access->writing)
      pack_bytes(access->data, access->count, access->type, copy);
  }
  outcome->bytes = move_runs(access, bytes, length, &error);
  if (copy && !access->writing) {
    if (external)
      external_convert(access->data, outcome->bytes / (access->type->size ? access->type->size : 1), access->type, copy,
                       false);
    else
      unpack_bytes(copy, (size_t)outcome->bytes, access->data, access->count, access->type);
  }
  free(copy);
  outcome->error = error;
  return error;
}

/* An access begins at an explicit offset, or at the individual pointer, which it moves. */
struct place {
  MPI_Offset offset; /* in units of the view's etype */
  bool is_explicit;
};

static int access_file(MPI_File fh, struct place place, void *data, MPI_Count count, MPI_Datatype datatype,
                       bool writing, struct outcome *outcome) {
  struct access access = {.file = file_of(fh), .data = data, .count = count, .type = type_of(datatype)};
  int error;
  if (!access.file) return MPI_ERR_FILE;
  access.writing = writing;
  access.at = place.is_explicit ? place.offset * access.file->view.etype->size : access.file->position;
  error = transfer(&access, outcome);
  if (!place.is_explicit) access.file->position += outcome->bytes;
  return error;
}

/* A split collective: the transfer happens at its begin. */
static int begin(MPI_File fh, struct place place, void *data, MPI_Count count, MPI_Datatype datatype, bool writing) {
  struct file *file = file_of(fh);
  struct outcome outcome;
  int error;
  if (file && file->split) return MPI_ERR_OTHER;
  error = access_file(fh, place, data, count, datatype, writing, &outcome);
  if (error) return error;
  file->split = true;
  file->split_outcome = outcome;
  return MPI_SUCCESS;
}

static int end(MPI_File fh, MPI_Status *status) {
  struct file *file = file_of(fh);
  if (!file) return MPI_ERR_FILE;
  if (!file->split) return MPI_ERR_OTHER;
  file->split = false;
  set_status(status, &file->split_outcome);
  return MPI_SUCCESS;
}

/* Parameters of a function that uses the individual pointer, and of one with an explicit offset. */
#define HERE(data, number) MPI_File fh, data *buf, number count, MPI_Datatype datatype
#define AT(data, number) MPI_File fh, MPI_Offset offset, data *buf, number count, MPI_Datatype datatype

/* The functions of one kind of access; `where` is HERE or AT, `place` the offset and whether there is one. */
#define ACCESS(name, number, where, place, data, writing)                                                              \
  MPI(File_##name)(where(data, number), MPI_Status * status) {                                                         \
    struct outcome outcome;                                                                                            \
    int error = access_file(fh, place, (void *)(uintptr_t)buf, count, datatype, writing, &outcome);                    \
    if (error) return fail_file(file_of(fh), error);                                                                   \
    set_status(status, &outcome);                                                                                      \
    return MPI_SUCCESS;                                                                                                \
  }
#define IMMEDIATE(name, number, where, place, data, writing)                                                           \
  MPI(File_##name)(where(data, number), MPI_Request * request) {                                                       \
    struct outcome outcome;                                                                                            \
    int error = access_file(fh, place, (void *)(uintptr_t)buf, count, datatype, writing, &outcome);                    \
    if (error) return fail_file(file_of(fh), error);                                                                   \
    *request = request_handle(request_finished(outcome.bytes));                                                        \
    return MPI_SUCCESS;                                                                                                \
  }
#define BEGIN(name, number, where, place, data, writing)                                                               \
  MPI(File_##name)(where(data, number)) {                                                                              \
    return fail_file(file_of(fh), begin(fh, place, (void *)(uintptr_t)buf, count, datatype, writing));                 \
  }
#define END(name, data)                                                                                                \
  MPI(File_##name)(MPI_File fh, data * buf, MPI_Status * status) {                                                     \
    (void)buf;                                                                                                         \
    return fail_file(file_of(fh), end(fh, status));                                                                    \
  }
#define WIDTHS(shape, name, where, place, data, writing)                                                               \
  shape(name, int, where, place, data, writing) shape(name##_c, MPI_Count, where, place, data, writing)
#define NO_OFFSET ((struct place){0})
#define OFFSET ((struct place){offset, true})
#define DIRECTION(verb, data, writing)                                                                                 \
  WIDTHS(ACCESS, verb, HERE, NO_OFFSET, data, writing)                                                                 \
  WIDTHS(ACCESS, verb##_all, HERE, NO_OFFSET, data, writing)                                                           \
  WIDTHS(ACCESS, verb##_at, AT, OFFSET, data, writing)                                                                 \
  WIDTHS(ACCESS, verb##_at_all, AT, OFFSET, data, writing)                                                             \
  WIDTHS(IMMEDIATE, i##verb, HERE, NO_OFFSET, data, writing)                                                           \
  WIDTHS(IMMEDIATE, i##verb##_all, HERE, NO_OFFSET, data, writing)                                                     \
  WIDTHS(IMMEDIATE, i##verb##_at, AT, OFFSET, data, writing)                                                           \
  WIDTHS(IMMEDIATE, i##verb##_at_all, AT, OFFSET, data, writing)                                                       \
  WIDTHS(BEGIN, verb##_all_begin, HERE, NO_OFFSET, data, writing)                                                      \
  WIDTHS(BEGIN, verb##_at_all_begin, AT, OFFSET, data, writing)                                                        \
  END(verb##_all_end, data)                                                                                            \
  END(verb##_at_all_end, data)

DIRECTION(read, void, false)
DIRECTION(write, const void, true)

MPI(File_seek)(MPI_File fh, MPI_Offset offset, int whence) {
  struct file *file = file_of(fh);
  MPI_Offset unit, from = 0;
  struct stat found;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  unit = file->view.etype->size;
  if (whence == MPI_SEEK_CUR) {
    from = file->position;
  } else if (whence == MPI_SEEK_END) {
    if (fstat(file->descriptor, &found)) return fail_file(file, class_of_errno(errno));
    from = (view_bytes_before(&file->view, found.st_size) + unit - 1) / unit * unit;
  } else if (whence != MPI_SEEK_SET) {
    return fail_file(file, MPI_ERR_ARG);
  }
  if (from + offset * unit < 0) return fail_file(file, MPI_ERR_ARG);
  file->position = from + offset * unit;
  return MPI_SUCCESS;
}

MPI(File_get_position)(MPI_File fh, MPI_Offset *offset) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  *offset = file->position / file->view.etype->size;
  return MPI_SUCCESS;
}
