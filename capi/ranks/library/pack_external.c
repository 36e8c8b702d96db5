/* The representation `external32`: big-endian, with fixed sizes of the basic types. Licence: MIT OR Apache-2.0. */
#include "file.h"

struct external {
  char *at;
  bool packing;
};

/* Bytes of a basic type in `external32`: of most the machine's. `long` has 4, wide characters have 2. */
static size_t external_size(const struct datatype *type) {
  if (type->object.predefined && (type == type_of(MPI_LONG) || type == type_of(MPI_UNSIGNED_LONG))) return 4;
  return type->basic == BASIC_WCHAR ? 2 : (size_t)type->size;
}

/* The bytes of the numbers that a basic type consists of; pairs and complex numbers have two. */
static size_t unit(const struct datatype *type) {
  switch (type->basic) {
  case BASIC_FLOAT_COMPLEX:
  case BASIC_DOUBLE_COMPLEX:
  case BASIC_LONG_DOUBLE_COMPLEX:
  case BASIC_FLOAT16_COMPLEX:
  case BASIC_FLOAT128_COMPLEX:
  case BASIC_INT_INT:
  case BASIC_2REAL:
  case BASIC_2DOUBLE:
  case BASIC_2INTEGER:
    return (size_t)type->size / 2;
  case BASIC_PACKED:
  case BASIC_BYTE:
    return 1;
  default:
    return (size_t)type->size;
  }
}

/* An extended number of 80 bits as one of 128 (IEEE), and back. The compiler knows both. */
static void swap_long_double(const char *from, char *to, bool packing) {
  char bytes[16];
  if (packing) {
    long double value;
    __float128 wide;
    memcpy(&value, from, sizeof value);
    wide = value;
    memcpy(bytes, &wide, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) to[i] = bytes[sizeof bytes - 1 - i];
  } else {
    long double value;
    __float128 wide;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = from[sizeof bytes - 1 - i];
    memcpy(&wide, bytes, sizeof wide);
    value = (long double)wide;
    memset(to, 0, sizeof value);
    memcpy(to, &value, 10);
  }
}

/* Integers that are shorter in `external32`; a value that does not fit loses its upper bits. */
static void convert_narrow(struct external *external, char *data, const struct datatype *type, size_t narrow) {
  size_t wide = (size_t)type->size;
  bool negative = type->basic == BASIC_INT64 && external->at[0] & 0x80;
  for (size_t k = 0; k < narrow; k++) {
    if (external->packing)
      external->at[k] = data[narrow - 1 - k];
    else
      data[k] = external->at[narrow - 1 - k];
  }
  if (!external->packing) memset(data + narrow, negative ? 0xff : 0, wide - narrow);
}

static void convert_one(struct external *external, char *data, const struct datatype *type, size_t one) {
  bool extended = type->basic == BASIC_LONG_DOUBLE || type->basic == BASIC_LONG_DOUBLE_COMPLEX;
  for (size_t part = 0; part < (size_t)type->size; part += one) {
    char *to = external->packing ? external->at + part : data + part;
    const char *from = external->packing ? data + part : external->at + part;
    if (extended)
      swap_long_double(from, to, external->packing);
    else
      for (size_t k = 0; k < one; k++) to[k] = from[one - 1 - k];
  }
}

static void convert(struct external *external, char *data, MPI_Count count, const struct datatype *type) {
  size_t size = external_size(type), one = unit(type);
  for (MPI_Count i = 0; i < count; i++, data += type->extent, external->at += size) {
    if (size < (size_t)type->size)
      convert_narrow(external, data, type, size);
    else
      convert_one(external, data, type, one);
  }
}

static void walk(struct external *external, char *data, MPI_Count count, const struct datatype *type) {
  if (type->part_count == 0) {
    if (type->basic) convert(external, data, count, type);
    return;
  }
  for (MPI_Count element = 0; element < count; element++, data += type->extent)
    for (MPI_Count i = 0; i < type->part_count; i++) {
      const struct part *part = &type->parts[i];
      for (MPI_Count repeat = 0; repeat < part->repeats; repeat++)
        walk(external, data + part->offset + repeat * part->stride, part->length, part->of);
    }
}

/* Bytes of one element in `external32`. */
static size_t bytes_of(const struct datatype *type) {
  size_t bytes = 0;
  if (type->part_count == 0) return type->basic ? external_size(type) : 0;
  for (MPI_Count i = 0; i < type->part_count; i++) {
    const struct part *part = &type->parts[i];
    if (part->repeats > 0 && part->length > 0) bytes += (size_t)(part->repeats * part->length) * bytes_of(part->of);
  }
  return bytes;
}

size_t external_bytes(MPI_Count count, const struct datatype *type) { return (size_t)count * bytes_of(type); }

void external_convert(void *data, MPI_Count count, const struct datatype *type, void *packed, bool packing) {
  struct external external = {packed, packing};
  walk(&external, data, count, type);
}

static int check(const char *datarep, MPI_Count count, const struct datatype *type) {
  int error = check_buffer(count, type);
  return error ? error : strcmp(datarep, "external32") ? MPI_ERR_ARG : MPI_SUCCESS;
}

static int external_pack(const char *datarep, char *data, MPI_Count count, const struct datatype *type, char *packed,
                         MPI_Count size, MPI_Count *position, bool packing) {
  struct external external = {packed + *position, packing};
  int error = check(datarep, count, type);
  if (error) return error;
  if (*position < 0 || *position > size || (size_t)count * bytes_of(type) > (size_t)(size - *position))
    return MPI_ERR_TRUNCATE;
  walk(&external, data, count, type);
  *position += (MPI_Count)((size_t)count * bytes_of(type));
  return MPI_SUCCESS;
}

#define EXTERNALS(suffix, number, length)                                                                              \
  MPI(Pack_external##suffix)(const char datarep[], const void *inbuf, number incount, MPI_Datatype datatype,           \
                             void *outbuf, length outsize, length *position) {                                         \
    MPI_Count place = *position;                                                                                       \
    int error =                                                                                                        \
        external_pack(datarep, (char *)(uintptr_t)inbuf, incount, type_of(datatype), outbuf, outsize, &place, true);   \
    *position = place;                                                                                                 \
    return fail(NULL, error);                                                                                          \
  }                                                                                                                    \
  MPI(Unpack_external##suffix)(const char datarep[], const void *inbuf, length insize, length *position, void *outbuf, \
                               number outcount, MPI_Datatype datatype) {                                               \
    MPI_Count place = *position;                                                                                       \
    int error =                                                                                                        \
        external_pack(datarep, outbuf, outcount, type_of(datatype), (char *)(uintptr_t)inbuf, insize, &place, false);  \
    *position = place;                                                                                                 \
    return fail(NULL, error);                                                                                          \
  }                                                                                                                    \
  MPI(Pack_external_size##suffix)(const char datarep[], number incount, MPI_Datatype datatype, length *size) {         \
    struct datatype *type = type_of(datatype);                                                                         \
    int error = check(datarep, incount, type);                                                                         \
    if (error) return fail(NULL, error);                                                                               \
    *size = (length)((size_t)incount * bytes_of(type));                                                                \
    return MPI_SUCCESS;                                                                                                \
  }

EXTERNALS(, int, MPI_Aint)
EXTERNALS(_c, MPI_Count, MPI_Count)
