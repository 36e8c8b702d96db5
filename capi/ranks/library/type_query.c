/* Questions about datatypes: sizes, bounds, how they were made, elements in a message. Licence: MIT OR Apache-2.0. */
#include "types.h"

#define SIZE(name, number)                                                                                             \
  MPI(name)(MPI_Datatype datatype, number * size) {                                                                    \
    struct datatype *type = type_of(datatype);                                                                         \
    if (!type) return fail(NULL, MPI_ERR_TYPE);                                                                        \
    *size =                                                                                                            \
        type->size > (MPI_Count)(sizeof(number) == 4 ? INT32_MAX : INT64_MAX) ? MPI_UNDEFINED : (number)type->size;    \
    return MPI_SUCCESS;                                                                                                \
  }
SIZE(Type_size, int)
SIZE(Type_size_x, MPI_Count)
SIZE(Type_size_c, MPI_Count)

#define BOUNDS(name, number, low, length)                                                                              \
  MPI(name)(MPI_Datatype datatype, number * lb, number * extent) {                                                     \
    struct datatype *type = type_of(datatype);                                                                         \
    if (!type) return fail(NULL, MPI_ERR_TYPE);                                                                        \
    *lb = type->low;                                                                                                   \
    *extent = type->length;                                                                                            \
    return MPI_SUCCESS;                                                                                                \
  }
BOUNDS(Type_get_extent, MPI_Aint, lb, extent)
BOUNDS(Type_get_extent_x, MPI_Count, lb, extent)
BOUNDS(Type_get_extent_c, MPI_Count, lb, extent)
BOUNDS(Type_get_true_extent, MPI_Aint, true_lb, true_extent)
BOUNDS(Type_get_true_extent_x, MPI_Count, true_lb, true_extent)
BOUNDS(Type_get_true_extent_c, MPI_Count, true_lb, true_extent)

/* Names of MPI 1. */
#define OLD(name, value)                                                                                               \
  MPI(name)(MPI_Datatype datatype, MPI_Aint * result) {                                                                \
    struct datatype *type = type_of(datatype);                                                                         \
    if (!type) return fail(NULL, MPI_ERR_TYPE);                                                                        \
    *result = value;                                                                                                   \
    return MPI_SUCCESS;                                                                                                \
  }
OLD(Type_extent, type->extent)
OLD(Type_lb, type->lb)
OLD(Type_ub, type->lb + type->extent)

/* Basic elements in one element of a type. */
static MPI_Count elements_of(const struct datatype *type) {
  MPI_Count found = 0;
  if (type->part_count == 0) return type->basic && type->basic != BASIC_BOUND;
  for (MPI_Count i = 0; i < type->part_count; i++) {
    const struct part *part = &type->parts[i];
    if (part->repeats > 0 && part->length > 0) found += part->repeats * part->length * elements_of(part->of);
  }
  return found;
}

/* The part of `copies` elements of a type that fits into `*left`, in whole basic elements. `*left` counts bytes, or
 * else basic elements. The part is subtracted from it, and returned as the other of these numbers. */
static MPI_Count fitting(const struct datatype *type, MPI_Count copies, bool in_bytes, MPI_Count *left) {
  MPI_Count elements = elements_of(type), bytes = type->size, found;
  MPI_Count each = in_bytes ? bytes : elements, other = in_bytes ? elements : bytes;
  if (each <= 0 || copies <= 0) return 0;
  MPI_Count whole = *left / each < copies ? *left / each : copies;
  *left -= whole * each;
  found = whole * other;
  if (whole == copies || *left == 0) return found;
  for (MPI_Count i = 0; i < type->part_count; i++) {
    const struct part *part = &type->parts[i];
    MPI_Count of_block = part->length * (in_bytes ? part->of->size : elements_of(part->of)), blocks;
    if (of_block <= 0) continue;
    blocks = *left / of_block < part->repeats ? *left / of_block : part->repeats;
    *left -= blocks * of_block;
    found += blocks * part->length * (in_bytes ? elements_of(part->of) : part->of->size);
    if (blocks < part->repeats) return found + fitting(part->of, part->length, in_bytes, left);
  }
  return found;
}

MPI_Count type_bytes_of(const struct datatype *type, MPI_Count elements) {
  return fitting(type, INT64_MAX, false, &elements);
}

static int elements(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count) {
  const struct datatype *type = type_of(datatype);
  MPI_Count bytes = status_bytes(status);
  if (!type) return MPI_ERR_TYPE;
  if (bytes < 0 || (type->size == 0 && bytes)) {
    *count = MPI_UNDEFINED;
    return MPI_SUCCESS;
  }
  *count = fitting(type, INT64_MAX, true, &bytes);
  if (bytes) *count = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

MPI(Get_elements)(const MPI_Status *status, MPI_Datatype datatype, int *count) {
  MPI_Count found = 0;
  int error = elements(status, datatype, &found);
  *count = found > INT32_MAX ? MPI_UNDEFINED : (int)found;
  return fail(NULL, error);
}
MPI(Get_elements_x)(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count) {
  return fail(NULL, elements(status, datatype, count));
}
MPI(Get_elements_c)(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count) {
  return fail(NULL, elements(status, datatype, count));
}

static const struct contents named = {.note = {.combiner = MPI_COMBINER_NAMED}};

static const struct contents *contents_of(MPI_Datatype datatype) {
  const struct datatype *type = type_of(datatype);
  if (!type) return NULL;
  return type->contents ? type->contents : &named;
}

MPI(Type_get_envelope)(MPI_Datatype datatype, int *num_integers, int *num_addresses, int *num_datatypes,
                       int *combiner) {
  const struct contents *contents = contents_of(datatype);
  /* A type that was made with large counts does not fit. */
  if (!contents || contents->note.large_count) return fail(NULL, MPI_ERR_TYPE);
  *num_integers = (int)contents->note.integer_count;
  *num_addresses = (int)contents->note.address_count;
  *num_datatypes = (int)contents->type_count;
  *combiner = contents->note.combiner;
  return MPI_SUCCESS;
}

MPI(Type_get_envelope_c)(MPI_Datatype datatype, MPI_Count *num_integers, MPI_Count *num_addresses,
                         MPI_Count *num_large_counts, MPI_Count *num_datatypes, int *combiner) {
  const struct contents *contents = contents_of(datatype);
  if (!contents) return fail(NULL, MPI_ERR_TYPE);
  *num_integers = (MPI_Count)contents->note.integer_count;
  *num_addresses = (MPI_Count)contents->note.address_count;
  *num_large_counts = (MPI_Count)contents->note.large_count;
  *num_datatypes = contents->type_count;
  *combiner = contents->note.combiner;
  return MPI_SUCCESS;
}

static int get(MPI_Datatype datatype, MPI_Count integers, MPI_Count addresses_room, MPI_Count larges, MPI_Count types,
               int *integer, MPI_Aint *address, MPI_Count *large, MPI_Datatype *type) {
  const struct contents *contents = contents_of(datatype);
  const struct note *note;
  if (!contents || contents == &named) return MPI_ERR_TYPE;
  note = &contents->note;
  if (note->integer_count > (size_t)integers || note->address_count > (size_t)addresses_room ||
      note->large_count > (size_t)larges || contents->type_count > types)
    return MPI_ERR_ARG;
  if (note->integer_count) memcpy(integer, note->integers, note->integer_count * sizeof *integer);
  if (note->address_count) memcpy(address, note->addresses, note->address_count * sizeof *address);
  if (note->large_count) memcpy(large, note->large, note->large_count * sizeof *large);
  for (MPI_Count i = 0; i < contents->type_count; i++) type[i] = type_handle(object_hold(contents->types[i]));
  return MPI_SUCCESS;
}

MPI(Type_get_contents)(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
                       int array_of_integers[], MPI_Aint array_of_addresses[], MPI_Datatype array_of_datatypes[]) {
  return fail(NULL, get(datatype, max_integers, max_addresses, 0, max_datatypes, array_of_integers, array_of_addresses,
                        NULL, array_of_datatypes));
}

MPI(Type_get_contents_c)(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
                         MPI_Count max_large_counts, MPI_Count max_datatypes, int array_of_integers[],
                         MPI_Aint array_of_addresses[], MPI_Count array_of_large_counts[],
                         MPI_Datatype array_of_datatypes[]) {
  return fail(NULL, get(datatype, max_integers, max_addresses, max_large_counts, max_datatypes, array_of_integers,
                        array_of_addresses, array_of_large_counts, array_of_datatypes));
}

MPI(Get_address)(const void *location, MPI_Aint *address) {
  *address = (MPI_Aint)location;
  return MPI_SUCCESS;
}

MPI(Address)(void *location, MPI_Aint *address) { return PMPI_Get_address(location, address); }

extern __typeof__(PMPI_Aint_add) MPI_Aint_add __attribute__((weak, alias("PMPI_Aint_add")));
MPI_Aint PMPI_Aint_add(MPI_Aint base, MPI_Aint disp) { return base + disp; }
extern __typeof__(PMPI_Aint_diff) MPI_Aint_diff __attribute__((weak, alias("PMPI_Aint_diff")));
MPI_Aint PMPI_Aint_diff(MPI_Aint addr1, MPI_Aint addr2) { return addr1 - addr2; }
