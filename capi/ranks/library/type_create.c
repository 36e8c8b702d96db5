/* Constructors of datatypes: contiguous, vectors, indexed, structs, duplicates. Licence: MIT OR Apache-2.0. */
#include "types.h"

/* One part of `repeats` blocks; `unit` is 1 for strides in bytes, or the type's extent. */
static int vector(struct note *note, struct numbers count, struct numbers length, struct numbers stride, bool bytes,
                  MPI_Datatype old, MPI_Datatype *new) {
  struct datatype *of = type_of(old);
  struct part *part;
  if (!of) return MPI_ERR_TYPE;
  if (number_at(count, 0) < 0 || number_at(length, 0) < 0) return MPI_ERR_ARG;
  part = parts_new(1);
  *part =
      (struct part){0, number_at(count, 0), number_at(stride, 0) * (bytes ? 1 : of->extent), number_at(length, 0), of};
  note_numbers(note, count, 1);
  note_numbers(note, length, 1);
  note_numbers(note, stride, 1);
  *new = type_noted(type_build(part, 1, false), note, 1, &old);
  return MPI_SUCCESS;
}

#define VECTOR(name, number, distance, wrap, wrap_distance, combiner_, bytes)                                          \
  MPI(name)(number count, number blocklength, distance stride, MPI_Datatype oldtype, MPI_Datatype * newtype) {         \
    struct note note = {.combiner = combiner_};                                                                        \
    return fail(NULL,                                                                                                  \
                vector(&note, wrap(&count), wrap(&blocklength), wrap_distance(&stride), bytes, oldtype, newtype));     \
  }
VECTOR(Type_vector, int, int, small_numbers, small_numbers, MPI_COMBINER_VECTOR, false)
VECTOR(Type_vector_c, MPI_Count, MPI_Count, large_numbers, large_numbers, MPI_COMBINER_VECTOR, false)
VECTOR(Type_create_hvector, int, MPI_Aint, small_numbers, addresses, MPI_COMBINER_HVECTOR, true)
VECTOR(Type_create_hvector_c, MPI_Count, MPI_Count, large_numbers, large_numbers, MPI_COMBINER_HVECTOR, true)
VECTOR(Type_hvector, int, MPI_Aint, small_numbers, addresses, MPI_COMBINER_HVECTOR, true)

static int contiguous(struct numbers count, MPI_Datatype old, MPI_Datatype *new) {
  struct note note = {.combiner = MPI_COMBINER_CONTIGUOUS};
  struct datatype *of = type_of(old);
  struct part *part;
  if (!of) return MPI_ERR_TYPE;
  if (number_at(count, 0) < 0) return MPI_ERR_COUNT;
  part = parts_new(1);
  *part = (struct part){0, 1, 0, number_at(count, 0), of};
  note_numbers(&note, count, 1);
  *new = type_noted(type_build(part, 1, false), &note, 1, &old);
  return MPI_SUCCESS;
}

MPI(Type_contiguous)(int count, MPI_Datatype oldtype, MPI_Datatype *newtype) {
  return fail(NULL, contiguous(small_numbers(&count), oldtype, newtype));
}
MPI(Type_contiguous_c)(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype) {
  return fail(NULL, contiguous(large_numbers(&count), oldtype, newtype));
}

/* The blocks of an indexed type. All have one length if `one_length`. */
struct blocks {
  struct numbers count, lengths, displacements;
  bool one_length, bytes; /* displacements in bytes */
};

/* Joins blocks that follow each other, which are frequent. */
static MPI_Count join(struct part *parts, MPI_Count used, struct part next) {
  struct part *last = &parts[used - 1];
  if (next.length == 0) return used;
  if (used && last->of == next.of && last->offset + last->length * last->of->extent == next.offset) {
    last->length += next.length;
    return used;
  }
  parts[used] = next;
  return used + 1;
}

static int indexed(int combiner, const struct blocks *blocks, MPI_Datatype old, MPI_Datatype *new) {
  struct note note = {.combiner = combiner};
  struct datatype *of = type_of(old);
  MPI_Count count = number_at(blocks->count, 0), used = 0;
  struct part *parts;
  if (!of) return MPI_ERR_TYPE;
  if (count < 0) return MPI_ERR_COUNT;
  parts = parts_new(count);
  for (MPI_Count i = 0; i < count; i++) {
    MPI_Count length = number_at(blocks->lengths, blocks->one_length ? 0 : i);
    MPI_Aint offset = number_at(blocks->displacements, i) * (blocks->bytes ? 1 : of->extent);
    if (length < 0) {
      free(parts);
      return MPI_ERR_ARG;
    }
    used = join(parts, used, (struct part){offset, 1, 0, length, of});
  }
  note_numbers(&note, blocks->count, 1);
  note_numbers(&note, blocks->lengths, blocks->one_length ? 1 : count);
  note_numbers(&note, blocks->displacements, count);
  *new = type_noted(type_build(parts, used, false), &note, 1, &old);
  return MPI_SUCCESS;
}

#define INDEXED(name, number, place, wrap, wrap_place, combiner, bytes)                                                \
  MPI(name)(number count, const number lengths[], const place displacements[], MPI_Datatype oldtype,                   \
            MPI_Datatype *newtype) {                                                                                   \
    struct blocks blocks = {wrap(&count), wrap(lengths), wrap_place(displacements), false, bytes};                     \
    return fail(NULL, indexed(combiner, &blocks, oldtype, newtype));                                                   \
  }
INDEXED(Type_indexed, int, int, small_numbers, small_numbers, MPI_COMBINER_INDEXED, false)
INDEXED(Type_indexed_c, MPI_Count, MPI_Count, large_numbers, large_numbers, MPI_COMBINER_INDEXED, false)
INDEXED(Type_create_hindexed, int, MPI_Aint, small_numbers, addresses, MPI_COMBINER_HINDEXED, true)
INDEXED(Type_create_hindexed_c, MPI_Count, MPI_Count, large_numbers, large_numbers, MPI_COMBINER_HINDEXED, true)

MPI(Type_hindexed)(int count, int lengths[], MPI_Aint displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype) {
  return PMPI_Type_create_hindexed(count, lengths, displacements, oldtype, newtype);
}

#define INDEXED_BLOCK(name, number, place, wrap, wrap_place, combiner, bytes)                                          \
  MPI(name)(number count, number blocklength, const place displacements[], MPI_Datatype oldtype,                       \
            MPI_Datatype *newtype) {                                                                                   \
    struct blocks blocks = {wrap(&count), wrap(&blocklength), wrap_place(displacements), true, bytes};                 \
    return fail(NULL, indexed(combiner, &blocks, oldtype, newtype));                                                   \
  }
INDEXED_BLOCK(Type_create_indexed_block, int, int, small_numbers, small_numbers, MPI_COMBINER_INDEXED_BLOCK, false)
INDEXED_BLOCK(Type_create_indexed_block_c, MPI_Count, MPI_Count, large_numbers, large_numbers,
              MPI_COMBINER_INDEXED_BLOCK, false)
INDEXED_BLOCK(Type_create_hindexed_block, int, MPI_Aint, small_numbers, addresses, MPI_COMBINER_HINDEXED_BLOCK, true)
INDEXED_BLOCK(Type_create_hindexed_block_c, MPI_Count, MPI_Count, large_numbers, large_numbers,
              MPI_COMBINER_HINDEXED_BLOCK, true)

static int structure(struct numbers numbers, struct numbers lengths, struct numbers displacements,
                     const MPI_Datatype types[], MPI_Datatype *new) {
  struct note note = {.combiner = MPI_COMBINER_STRUCT};
  MPI_Count count = number_at(numbers, 0);
  struct part *parts;
  if (count < 0) return MPI_ERR_COUNT;
  for (MPI_Count i = 0; i < count; i++) {
    if (!type_of(types[i])) return MPI_ERR_TYPE;
    if (number_at(lengths, i) < 0) return MPI_ERR_ARG;
  }
  parts = parts_new(count);
  for (MPI_Count i = 0; i < count; i++)
    parts[i] = (struct part){number_at(displacements, i), 1, 0, number_at(lengths, i), type_of(types[i])};
  note_numbers(&note, numbers, 1);
  note_numbers(&note, lengths, count);
  note_numbers(&note, displacements, count);
  *new = type_noted(type_build(parts, count, true), &note, count, types);
  return MPI_SUCCESS;
}

MPI(Type_create_struct)(int count, const int lengths[], const MPI_Aint displacements[], const MPI_Datatype types[],
                        MPI_Datatype *newtype) {
  return fail(NULL, structure(small_numbers(&count), small_numbers(lengths), addresses(displacements), types, newtype));
}
MPI(Type_create_struct_c)(MPI_Count count, const MPI_Count lengths[], const MPI_Count displacements[],
                          const MPI_Datatype types[], MPI_Datatype *newtype) {
  return fail(NULL,
              structure(large_numbers(&count), large_numbers(lengths), large_numbers(displacements), types, newtype));
}
MPI(Type_struct)(int count, int lengths[], MPI_Aint displacements[], MPI_Datatype types[], MPI_Datatype *newtype) {
  return PMPI_Type_create_struct(count, lengths, displacements, types, newtype);
}

static struct datatype *single(struct datatype *of) {
  struct part *part = parts_new(1);
  *part = (struct part){0, 1, 0, 1, of};
  return type_build(part, 1, false);
}

static int resized(struct numbers lb, struct numbers extent, MPI_Datatype old, MPI_Datatype *new) {
  struct note note = {.combiner = MPI_COMBINER_RESIZED};
  struct datatype *of = type_of(old), *type;
  if (!of) return MPI_ERR_TYPE;
  type = single(of);
  type_bound(type, number_at(lb, 0), number_at(extent, 0));
  note_numbers(&note, lb, 1);
  note_numbers(&note, extent, 1);
  *new = type_noted(type, &note, 1, &old);
  return MPI_SUCCESS;
}

MPI(Type_create_resized)(MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *newtype) {
  return fail(NULL, resized(addresses(&lb), addresses(&extent), oldtype, newtype));
}
MPI(Type_create_resized_c)(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype *newtype) {
  return fail(NULL, resized(large_numbers(&lb), large_numbers(&extent), oldtype, newtype));
}

MPI(Type_dup)(MPI_Datatype oldtype, MPI_Datatype *newtype) {
  struct note note = {.combiner = MPI_COMBINER_DUP};
  struct datatype *of = type_of(oldtype), *type;
  int error;
  if (!of) return fail(NULL, MPI_ERR_TYPE);
  type = single(of);
  type->lb = of->lb;
  type->extent = of->extent;
  type->dense = of->dense;
  type->flags = of->flags;
  *newtype = type_noted(type, &note, 1, &oldtype);
  error = attributes_copy(of->attributes, &type->attributes, (uintptr_t)oldtype);
  if (!error) return MPI_SUCCESS;
  type_release(type);
  *newtype = MPI_DATATYPE_NULL;
  return fail(NULL, error);
}
