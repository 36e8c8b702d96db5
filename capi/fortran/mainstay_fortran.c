/* C part of mainstay.f90. Licence: MIT OR Apache-2.0.
 *
 * Your own mpicc compiles this file as part of your program. It needs the Fortran compiler's ISO_Fortran_binding.h:
 * for gfortran, let mpicc use gcc.
 *
 * `make header` makes the declarations in Fortran from these functions. A descriptor that is `const` stands for data
 * that the call only reads. A pointer to a number that is neither `const` nor an array receives one number. */
#include <ISO_Fortran_binding.h>
#include <stdint.h>
#include <stdio.h>

#include "mainstay_mpi.h"

/* The limit of the engine. */
enum { DIMENSIONS_MAX = 32 };

/* The reason for which this file refused a call; mainstay_fortran_keep_message takes it right after. */
static char refusal[400];

static mainstay_status refuse(const char *noun, const char *name, const char *why) {
  snprintf(refusal, sizeof refusal, "%s \"%.200s\": %s", noun, name, why);
  return MAINSTAY_INVALID_ARGUMENT;
}

/* The message of the last failed call. One for each thread, because variables of threads are not saved with the
 * program's. */
static _Thread_local char *message;

void mainstay_fortran_keep_message(void) {
  const char *text = refusal[0] ? refusal : mainstay_error_message();
  free(message);
  message = malloc(strlen(text) + 1);
  if (message) strcpy(message, text);
  refusal[0] = 0;
}

const char *mainstay_fortran_message(void) { return message ? message : ""; }

/* An open session would lose its handle, and could no longer be closed. */
static mainstay_status refuse_open(const char *path) {
  return refuse("space", path, "this variable is open already; close that first");
}

/* `comm` is Fortran's integer for a communicator. */
mainstay_status mainstay_fortran_open(int comm, const char *path, const mainstay_options *options,
                                      mainstay_session **session) {
  if (*session) return refuse_open(path);
  return mainstay_open_mpi(MPI_Comm_f2c((MPI_Fint)comm), path, options, session);
}

mainstay_status mainstay_fortran_open_solo(const char *path, const mainstay_options *options,
                                           mainstay_session **session) {
  return *session ? refuse_open(path) : mainstay_open_solo(path, options, session);
}

int mainstay_fortran_comm(mainstay_session *session) { return (int)MPI_Comm_c2f(mainstay_mpi_comm(session)); }

mainstay_status mainstay_fortran_adopt(mainstay_session *session, int comm) {
  return mainstay_mpi_adopt(session, MPI_Comm_f2c((MPI_Fint)comm));
}

void mainstay_fortran_finalize(int status) { mainstay_mpi_finalize(status); }

/* Ends the program, as an error without `stat` does. */
void mainstay_fortran_abort(void) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized && !mainstay_mpi_is_over()) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

/* MAINSTAY_BYTES: a type that the space has no name for, such as a derived type or real(16). */
static mainstay_type type_of(const CFI_cdesc_t *data) {
  static const struct {
    CFI_type_t here;
    mainstay_type there;
  } types[] = {
      {CFI_type_int8_t, MAINSTAY_I8},
      {CFI_type_int16_t, MAINSTAY_I16},
      {CFI_type_int32_t, MAINSTAY_I32},
      {CFI_type_int64_t, MAINSTAY_I64},
      {CFI_type_float, MAINSTAY_F32},
      {CFI_type_double, MAINSTAY_F64},
      {CFI_type_float_Complex, MAINSTAY_C64},
      {CFI_type_double_Complex, MAINSTAY_C128},
      {CFI_type_Bool, MAINSTAY_BOOL},
#ifdef CFI_type_Logical /* gfortran: logicals of more than a byte, which the standard does not name */
      {CFI_type_Logical + (4 << CFI_type_kind_shift), MAINSTAY_I32},
      {CFI_type_Logical + (8 << CFI_type_kind_shift), MAINSTAY_I64},
#endif
  };
  size_t i;
  for (i = 0; i < sizeof types / sizeof types[0]; i++)
    if (types[i].here == data->type) return types[i].there;
  return MAINSTAY_BYTES;
}

/* Data without an address, or without a size. */
static int is_nowhere(const char *noun, const char *name, const CFI_cdesc_t *data) {
  if (!data->base_addr) return refuse(noun, name, "not allocated or associated; do that first");
  if (data->rank > 0 && data->dim[data->rank - 1].extent < 0)
    return refuse(noun, name, "an assumed-size array does not know its size; pass a section with both bounds, a(1:n)");
  return 0;
}

/* The same, or data with gaps. */
static int is_refused(const char *noun, const char *name, const CFI_cdesc_t *data) {
  if (is_nowhere(noun, name, data)) return 1;
  if (data->rank > 0 && !CFI_is_contiguous(data))
    return refuse(noun, name, "not contiguous in memory; pass the whole array, or a section without gaps");
  return 0;
}

/* Refuses data that cannot be a piece of a stream or an item. gfortran gives a substring the length of the whole
 * text, and declares a literal as an integer(1). */
static int is_refused_piece(const char *noun, const char *name, int64_t offset, const CFI_cdesc_t *data) {
  if (is_refused(noun, name, data)) return 1;
  if (data->rank == 0 && (data->type == CFI_type_char || data->elem_len == 1))
    return refuse(noun, name, "a text, or a single byte; some compilers lose its length; pass it as an array, [x]");
  if (offset < 0) return refuse(noun, name, "a negative offset; the first byte has offset 0");
  return 0;
}

static size_t bytes_of(const CFI_cdesc_t *data) {
  size_t bytes = data->elem_len;
  int i;
  for (i = 0; i < data->rank; i++) bytes *= (size_t)data->dim[i].extent;
  return bytes;
}

/* The shape of an array. Returns the number of its dimensions. */
static size_t shape_of(const CFI_cdesc_t *data, uint64_t shape[CFI_MAX_RANK + 1]) {
  size_t dimensions = 0;
  int i;
  /* The space has the slowest dimension first, Fortran the fastest. */
  for (i = data->rank - 1; i >= 0; i--) shape[dimensions++] = (uint64_t)data->dim[i].extent;
  if (type_of(data) == MAINSTAY_BYTES && data->elem_len != 1) shape[dimensions++] = data->elem_len;
  return dimensions;
}

/* Reverses `numbers`, one for each dimension in Fortran's order, into the order of the space. Returns whether none is
 * negative. Fortran has no unsigned numbers: a negative one would become a huge one. */
static int turn(const int64_t *numbers, int count, uint64_t *turned) {
  int i;
  for (i = 0; i < count; i++) {
    if (numbers[i] < 0) return 0;
    turned[count - 1 - i] = (uint64_t)numbers[i];
  }
  return 1;
}

/* The shape of the array that contains a section, as far as its steps reveal it. Returns whether there is one. */
static int memory_of(const CFI_cdesc_t *data, uint64_t memory[CFI_MAX_RANK + 1]) {
  size_t dimensions = shape_of(data, memory);
  ptrdiff_t step = (ptrdiff_t)data->elem_len;
  int i;
  for (i = 0; i < data->rank; i++) {
    /* Number of elements for which the dimension before has room. */
    ptrdiff_t room = step ? data->dim[i].sm / step : 0;
    if (room < 1 || data->dim[i].sm % step || (i == 0 && room > 1)) return 0;
    if (i > 0) memory[data->rank - i] = (uint64_t)room;
    step = data->dim[i].sm;
  }
  return dimensions > 0;
}

/* mainstay_protect_within or mainstay_move_within. */
typedef mainstay_status describe(mainstay_session *session, const char *name, void *data, uint32_t type,
                                 size_t dimensions, const uint64_t *shape, const uint64_t *memory_shape,
                                 const uint64_t *memory_offset, const uint64_t *global_shape, const uint64_t *offset);

/* `global` and `offset` may be NULL. */
static mainstay_status protect(describe *call, mainstay_session *session, const char *name, const CFI_cdesc_t *data,
                               const uint64_t *global, const uint64_t *offset) {
  static const uint64_t from[CFI_MAX_RANK + 1];
  uint64_t shape[CFI_MAX_RANK + 1] = {0}, memory[CFI_MAX_RANK + 1];
  size_t dimensions = shape_of(data, shape);
  if (data->rank == 0 || bytes_of(data) == 0 || CFI_is_contiguous(data))
    memcpy(memory, shape, sizeof memory);
  else if (!memory_of(data, memory))
    return refuse(
        "region", name,
        "neither contiguous in memory nor the inside of a larger array; pass a section without a step in its bounds");
  return call(session, name, data->base_addr, type_of(data), dimensions, shape, memory, from, global, offset);
}

mainstay_status mainstay_fortran_leave_out(mainstay_session *session, const CFI_cdesc_t *data) {
  if (is_refused("variable", "", data)) return MAINSTAY_INVALID_ARGUMENT;
  return mainstay_leave_out(session, data->base_addr, bytes_of(data));
}

mainstay_status mainstay_fortran_protect(mainstay_session *session, const char *name, CFI_cdesc_t *data) {
  if (is_nowhere("region", name, data)) return MAINSTAY_INVALID_ARGUMENT;
  return protect(mainstay_protect_within, session, name, data, NULL, NULL);
}

mainstay_status mainstay_fortran_move(mainstay_session *session, const char *name, CFI_cdesc_t *data) {
  if (is_nowhere("region", name, data)) return MAINSTAY_INVALID_ARGUMENT;
  return protect(mainstay_move_within, session, name, data, NULL, NULL);
}

typedef void *where_function(void);
typedef void resize_function(int dimensions, const int64_t *shape);

/* `context` is the function, copied by its bytes: ISO C does not convert it to a pointer to void. */
static void *ask(void *context, uint64_t *count) {
  where_function *where;
  (void)count;
  memcpy(&where, &context, sizeof where);
  return where();
}

/* Two functions of one region. It stays as long as the program, because nobody reports the end of a followed region. */
typedef struct {
  where_function *where;
  resize_function *resize;
} followed;

static void *ask_followed(void *context, uint64_t *count) {
  (void)count;
  return ((followed *)context)->where();
}

static int resize(void *context, size_t dimensions, const uint64_t *shape) {
  int64_t numbers[DIMENSIONS_MAX];
  if (dimensions > DIMENSIONS_MAX) return 1;
  for (size_t i = 0; i < dimensions; i++) numbers[i] = (int64_t)shape[dimensions - 1 - i];
  ((followed *)context)->resize((int)dimensions, numbers);
  return 0;
}

mainstay_status mainstay_fortran_follow(mainstay_session *session, const char *name, where_function *where,
                                        resize_function *resizes) {
  void *context;
  followed *both;
  mainstay_status status;
  if (!resizes) {
    memcpy(&context, &where, sizeof context);
    return mainstay_follow_call(session, name, ask, context);
  }
  both = malloc(sizeof *both);
  if (!both) return refuse("region", name, "there is no memory to follow it");
  both->where = where;
  both->resize = resizes;
  status = mainstay_follow_resize(session, name, ask_followed, resize, both);
  if (status != MAINSTAY_OK) free(both);
  return status;
}

/* `shape` is in Fortran's order. */
mainstay_status mainstay_fortran_saved(mainstay_session *session, int64_t number, const char *name, int *dimensions,
                                       int64_t shape[DIMENSIONS_MAX], int64_t *bytes, int *is_there) {
  mainstay_item item = {0};
  mainstay_status status = mainstay_saved(session, (uint64_t)number, name, &item);
  if (status != MAINSTAY_OK || !item.name || item.dimensions > DIMENSIONS_MAX) return status;
  *is_there = 1;
  *dimensions = (int)item.dimensions;
  *bytes = (int64_t)item.bytes;
  for (size_t i = 0; i < item.dimensions; i++) shape[i] = (int64_t)item.shape[item.dimensions - 1 - i];
  return status;
}

/* `numbers`: of `global` and of `offset`, one for each dimension of the array, in Fortran's order. */
mainstay_status mainstay_fortran_protect_box(mainstay_session *session, const char *name, CFI_cdesc_t *data,
                                             int numbers, const int64_t *global, const int64_t *offset) {
  uint64_t whole[CFI_MAX_RANK + 1], from[CFI_MAX_RANK + 1] = {0};

  if (is_nowhere("region", name, data)) return MAINSTAY_INVALID_ARGUMENT;
  if (numbers != data->rank)
    return refuse("region", name, "global_shape and offset need a number for each dimension of the array");
  /* The bytes of an element without a name are a dimension that is never cut. */
  shape_of(data, whole);
  if (!turn(global, numbers, whole) || !turn(offset, numbers, from))
    return refuse("region", name, "a negative number in global_shape or offset; the first cell has offset 0");
  return protect(mainstay_protect_within, session, name, data, whole, from);
}

mainstay_status mainstay_fortran_begin(mainstay_session *session, int64_t bytes, int64_t *revision) {
  uint64_t number = 0;
  mainstay_status status;
  /* All ranks refuse a negative number, because the others have made the same call. */
  status = mainstay_begin(session, (uint64_t)bytes, &number);
  *revision = (int64_t)number;
  if (bytes < 0 && status == MAINSTAY_INVALID_ARGUMENT) return refuse("call", "begin", "a negative number of bytes");
  return status;
}

mainstay_status mainstay_fortran_write(mainstay_session *session, const char *name, int64_t offset,
                                       const CFI_cdesc_t *data) {
  if (is_refused_piece("stream", name, offset, data)) return MAINSTAY_INVALID_ARGUMENT;
  return mainstay_write(session, name, (uint64_t)offset, data->base_addr, bytes_of(data));
}

/* `whole`: the program does not ask for the number of bytes. */
static mainstay_status end_read(const char *noun, const char *name, const CFI_cdesc_t *data, mainstay_status status,
                                size_t there, int64_t *got, _Bool whole) {
  *got = (int64_t)there;
  if (status == MAINSTAY_OK && whole && there < bytes_of(data))
    return refuse(noun, name, "it ends before this variable is full; ask for `got`, or read less");
  return status;
}

mainstay_status mainstay_fortran_read(mainstay_session *session, const char *name, int64_t offset, CFI_cdesc_t *data,
                                      int64_t *got, _Bool whole) {
  size_t there = 0;
  mainstay_status status;
  *got = 0;
  if (is_refused_piece("stream", name, offset, data)) return MAINSTAY_INVALID_ARGUMENT;
  status = mainstay_read(session, name, (uint64_t)offset, data->base_addr, bytes_of(data), &there);
  return end_read("stream", name, data, status, there, got, whole);
}

mainstay_status mainstay_fortran_bring_shards(mainstay_session *session, const int *shards, size_t count) {
  uint32_t *wanted = malloc((count ? count : 1) * sizeof *wanted);
  mainstay_status status;
  size_t i;
  int negative = 0;
  /* Without room, as with a negative number, the call asks for a shard that does not exist. The other ranks then
   * get the error. */
  uint32_t none = UINT32_MAX;
  for (i = 0; wanted && i < count; i++) {
    negative = negative || shards[i] < 0;
    wanted[i] = shards[i] < 0 ? none : (uint32_t)shards[i];
  }
  status = wanted ? mainstay_bring_shards(session, wanted, count) : mainstay_bring_shards(session, &none, 1);
  free(wanted);
  if (status == MAINSTAY_INVALID_ARGUMENT && negative)
    return refuse("call", "bring_shards", "a negative number of a shard; the first is 0");
  return status;
}

mainstay_status mainstay_fortran_read_shard(mainstay_session *session, int shard, const char *name, int64_t offset,
                                            CFI_cdesc_t *data, int64_t *got, _Bool whole) {
  size_t there = 0;
  mainstay_status status;
  *got = 0;
  if (is_refused_piece("item", name, offset, data)) return MAINSTAY_INVALID_ARGUMENT;
  if (shard < 0) return refuse("item", name, "a negative number of a shard; the first is 0");
  status =
      mainstay_read_shard(session, (uint32_t)shard, name, (uint64_t)offset, data->base_addr, bytes_of(data), &there);
  return end_read("item", name, data, status, there, got, whole);
}

mainstay_status mainstay_fortran_put(mainstay_session *session, const char *name, const CFI_cdesc_t *data,
                                     int64_t *revision) {
  uint64_t number = 0;
  mainstay_status status;
  *revision = 0;
  if (is_refused_piece("buffer", name, 0, data)) {
    /* The other ranks are in the call already: this tells them that this rank refuses it. */
    (void)mainstay_put(session, name, NULL, 1, NULL);
    (void)is_refused_piece("buffer", name, 0, data);
    return MAINSTAY_INVALID_ARGUMENT;
  }
  status = mainstay_put(session, name, data->base_addr, bytes_of(data), &number);
  *revision = (int64_t)number;
  return status;
}

mainstay_status mainstay_fortran_get(mainstay_session *session, int64_t number, const char *name, CFI_cdesc_t *data,
                                     mainstay_got *got) {
  memset(got, 0, sizeof *got);
  if (is_refused_piece("buffer", name, 0, data)) {
    (void)mainstay_get(session, (uint64_t)number, name, NULL, 1, got);
    (void)is_refused_piece("buffer", name, 0, data);
    return MAINSTAY_INVALID_ARGUMENT;
  }
  return mainstay_get(session, (uint64_t)number, name, data->base_addr, bytes_of(data), got);
}

/* `revision` -1, which is MAINSTAY_NEWEST without a sign, or 0: the newest. */
mainstay_status mainstay_fortran_reader_open(const char *path, int64_t revision, mainstay_reader **reader) {
  if (*reader) return refuse_open(path);
  if (revision < -1) return refuse("space", path, "a negative number of a revision");
  return mainstay_reader_open(path, (uint64_t)revision, reader);
}

mainstay_status mainstay_fortran_reader_read(mainstay_reader *reader, int shard, const char *name, int64_t offset,
                                             CFI_cdesc_t *data, int64_t *got, _Bool whole) {
  size_t there = 0;
  mainstay_status status;
  *got = 0;
  if (is_refused_piece("item", name, offset, data)) return MAINSTAY_INVALID_ARGUMENT;
  if (shard < 0) return refuse("item", name, "a negative number of a shard; the first is 0");
  status =
      mainstay_reader_read(reader, (uint32_t)shard, name, (uint64_t)offset, data->base_addr, bytes_of(data), &there);
  return end_read("item", name, data, status, there, got, whole);
}

/* `numbers`: of `offset`, one for each dimension of the array, in Fortran's order. */
mainstay_status mainstay_fortran_reader_read_box(mainstay_reader *reader, const char *name, int numbers,
                                                 const int64_t *offset, CFI_cdesc_t *data) {
  uint64_t shape[CFI_MAX_RANK + 1], from[CFI_MAX_RANK + 1] = {0};
  size_t dimensions;

  if (is_refused("box", name, data)) return MAINSTAY_INVALID_ARGUMENT;
  if (numbers != data->rank) return refuse("box", name, "offset needs a number for each dimension of the array");
  dimensions = shape_of(data, shape);
  if (!turn(offset, numbers, from))
    return refuse("box", name, "a negative number in offset; the first cell has offset 0");
  return mainstay_reader_read_box(reader, name, dimensions, shape, from, data->base_addr, bytes_of(data));
}
