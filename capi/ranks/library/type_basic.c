/* The datatypes that exist from the start. Licence: MIT OR Apache-2.0. */
#include "types.h"

#include <complex.h>
#include <stddef.h>
#include <wchar.h>

struct named {
  MPI_Datatype handle;
  const char *name;
  enum basic basic;
  uint8_t size, align;
};

#define TYPE(name, basic, of) {name, #name, basic, sizeof(of), _Alignof(of)}
#define SIZED(name, basic, size, align) {name, #name, basic, size, align}

static const struct named table[] = {
    /* MPI_CHAR is text, but programs add it up, and MPICH lets them. */
    TYPE(MPI_CHAR, BASIC_INT8, char),
    TYPE(MPI_SIGNED_CHAR, BASIC_INT8, signed char),
    TYPE(MPI_UNSIGNED_CHAR, BASIC_UINT8, unsigned char),
    TYPE(MPI_BYTE, BASIC_BYTE, char),
    TYPE(MPI_PACKED, BASIC_PACKED, char),
    TYPE(MPI_WCHAR, BASIC_WCHAR, wchar_t),
    TYPE(MPI_SHORT, BASIC_INT16, short),
    TYPE(MPI_UNSIGNED_SHORT, BASIC_UINT16, unsigned short),
    TYPE(MPI_INT, BASIC_INT32, int),
    TYPE(MPI_UNSIGNED, BASIC_UINT32, unsigned),
    TYPE(MPI_LONG, BASIC_INT64, long),
    TYPE(MPI_UNSIGNED_LONG, BASIC_UINT64, unsigned long),
    TYPE(MPI_LONG_LONG_INT, BASIC_INT64, long long),
    TYPE(MPI_UNSIGNED_LONG_LONG, BASIC_UINT64, unsigned long long),
    TYPE(MPI_FLOAT, BASIC_FLOAT, float),
    TYPE(MPI_DOUBLE, BASIC_DOUBLE, double),
    TYPE(MPI_LONG_DOUBLE, BASIC_LONG_DOUBLE, long double),
    TYPE(MPI_INT8_T, BASIC_INT8, int8_t),
    TYPE(MPI_INT16_T, BASIC_INT16, int16_t),
    TYPE(MPI_INT32_T, BASIC_INT32, int32_t),
    TYPE(MPI_INT64_T, BASIC_INT64, int64_t),
    TYPE(MPI_UINT8_T, BASIC_UINT8, uint8_t),
    TYPE(MPI_UINT16_T, BASIC_UINT16, uint16_t),
    TYPE(MPI_UINT32_T, BASIC_UINT32, uint32_t),
    TYPE(MPI_UINT64_T, BASIC_UINT64, uint64_t),
    TYPE(MPI_C_BOOL, BASIC_BOOL, bool),
    TYPE(MPI_C_COMPLEX, BASIC_FLOAT_COMPLEX, float complex),
    TYPE(MPI_C_DOUBLE_COMPLEX, BASIC_DOUBLE_COMPLEX, double complex),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, BASIC_LONG_DOUBLE_COMPLEX, long double complex),
    TYPE(MPI_AINT, BASIC_INT64, MPI_Aint),
    TYPE(MPI_OFFSET, BASIC_INT64, MPI_Offset),
    TYPE(MPI_COUNT, BASIC_INT64, MPI_Count),
    TYPE(
        MPI_2INT, BASIC_INT_INT,
        struct {
          int value;
          int place;
        }),
    TYPE(MPI_CXX_BOOL, BASIC_BOOL, bool),
    TYPE(MPI_CXX_FLOAT_COMPLEX, BASIC_FLOAT_COMPLEX, float complex),
    TYPE(MPI_CXX_DOUBLE_COMPLEX, BASIC_DOUBLE_COMPLEX, double complex),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, BASIC_LONG_DOUBLE_COMPLEX, long double complex),
    SIZED(MPI_CHARACTER, BASIC_CHAR, 1, 1),
    SIZED(MPI_INTEGER, BASIC_INT32, 4, 4),
    SIZED(MPI_REAL, BASIC_FLOAT, 4, 4),
    SIZED(MPI_LOGICAL, BASIC_LOGICAL32, 4, 4),
    SIZED(MPI_COMPLEX, BASIC_FLOAT_COMPLEX, 8, 4),
    SIZED(MPI_DOUBLE_PRECISION, BASIC_DOUBLE, 8, 8),
    SIZED(MPI_DOUBLE_COMPLEX, BASIC_DOUBLE_COMPLEX, 16, 8),
    SIZED(MPI_2INTEGER, BASIC_2INTEGER, 8, 4),
    SIZED(MPI_2REAL, BASIC_2REAL, 8, 4),
    SIZED(MPI_2DOUBLE_PRECISION, BASIC_2DOUBLE, 16, 8),
    SIZED(MPI_INTEGER1, BASIC_INT8, 1, 1),
    SIZED(MPI_INTEGER2, BASIC_INT16, 2, 2),
    SIZED(MPI_INTEGER4, BASIC_INT32, 4, 4),
    SIZED(MPI_INTEGER8, BASIC_INT64, 8, 8),
    SIZED(MPI_INTEGER16, BASIC_INT128, 16, 16),
    SIZED(MPI_REAL2, BASIC_FLOAT16, 2, 2),
    SIZED(MPI_REAL4, BASIC_FLOAT, 4, 4),
    SIZED(MPI_REAL8, BASIC_DOUBLE, 8, 8),
    SIZED(MPI_REAL16, BASIC_FLOAT128, 16, 16),
    SIZED(MPI_COMPLEX4, BASIC_FLOAT16_COMPLEX, 4, 2),
    SIZED(MPI_COMPLEX8, BASIC_FLOAT_COMPLEX, 8, 4),
    SIZED(MPI_COMPLEX16, BASIC_DOUBLE_COMPLEX, 16, 8),
    SIZED(MPI_COMPLEX32, BASIC_FLOAT128_COMPLEX, 32, 16),
    SIZED(MPI_LOGICAL1, BASIC_LOGICAL8, 1, 1),
    SIZED(MPI_LOGICAL2, BASIC_LOGICAL16, 2, 2),
    SIZED(MPI_LOGICAL4, BASIC_LOGICAL32, 4, 4),
    SIZED(MPI_LOGICAL8, BASIC_LOGICAL64, 8, 8),
    SIZED(MPI_LOGICAL16, BASIC_LOGICAL128, 16, 16),
#ifdef MPIX_C_FLOAT16
    SIZED(MPIX_C_FLOAT16, BASIC_FLOAT16, 2, 2),
#endif
#ifdef MPI_LB
    SIZED(MPI_LB, BASIC_BOUND, 0, 1),
    SIZED(MPI_UB, BASIC_BOUND, 0, 1),
#endif
};

/* The pairs whose members differ in size may have gaps, so they have parts. */
struct pair {
  struct named named;
  MPI_Datatype value;
  uint8_t place; /* the offset of the int */
};
#define PAIR(handle, basic, value, of)                                                                                 \
  {{handle, #handle, basic, sizeof(struct {                                                                            \
      of a;                                                                                                            \
      int b;                                                                                                           \
    }),                                                                                                                \
    _Alignof(struct {                                                                                                  \
      of a;                                                                                                            \
      int b;                                                                                                           \
    })},                                                                                                               \
   value,                                                                                                              \
   offsetof(                                                                                                           \
       struct {                                                                                                        \
         of a;                                                                                                         \
         int b;                                                                                                        \
       },                                                                                                              \
       b)}

static const struct pair pairs[] = {
    PAIR(MPI_FLOAT_INT, BASIC_FLOAT_INT, MPI_FLOAT, float),
    PAIR(MPI_DOUBLE_INT, BASIC_DOUBLE_INT, MPI_DOUBLE, double),
    PAIR(MPI_LONG_INT, BASIC_LONG_INT, MPI_LONG, long),
    PAIR(MPI_SHORT_INT, BASIC_SHORT_INT, MPI_SHORT, short),
    PAIR(MPI_LONG_DOUBLE_INT, BASIC_LONG_DOUBLE_INT, MPI_LONG_DOUBLE, long double),
};

static struct datatype *make(const struct named *named) {
  struct datatype *type = object_predefined(KIND_TYPE, sizeof *type, (uintptr_t)named->handle);
  type->basic = (uint8_t)named->basic;
  type->flags = TYPE_COMMITTED;
  type->align = named->align;
  type->size = type->extent = type->true_extent = named->size;
  type->dense = true;
  type->name = (char *)(uintptr_t)named->name;
  return type;
}

static void make_pair(const struct pair *pair) {
  struct datatype *type = make(&pair->named);
  struct datatype *value = type_of(pair->value), *place = type_of(MPI_INT);
  type->parts = parts_new(2);
  type->part_count = 2;
  type->parts[0] = (struct part){0, 1, 0, 1, value};
  type->parts[1] = (struct part){pair->place, 1, 0, 1, place};
  type->size = value->size + place->size;
  type->true_extent = pair->place + place->size;
  type->dense = type->size == type->extent;
}

void types_start(void) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) make(&table[i]);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) make_pair(&pairs[i]);
#ifdef MPI_LB
  type_of(MPI_LB)->flags |= TYPE_MARKED_LB;
  type_of(MPI_UB)->flags |= TYPE_MARKED_UB;
#endif
}

MPI(Type_get_value_index)(MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype *pair_type) {
  *pair_type = MPI_DATATYPE_NULL;
  if (!type_of(value_type) || !type_of(index_type)) return fail(NULL, MPI_ERR_TYPE);
  if (index_type != MPI_INT) return MPI_SUCCESS;
  if (value_type == MPI_INT) *pair_type = MPI_2INT;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i].value == value_type) *pair_type = pairs[i].named.handle;
  return MPI_SUCCESS;
}

static MPI_Datatype of_size(int typeclass, int size) {
  static const struct {
    int class, size;
    MPI_Datatype type;
  } sizes[] = {
      {MPI_TYPECLASS_REAL, 2, MPI_REAL2},         {MPI_TYPECLASS_REAL, 4, MPI_REAL4},
      {MPI_TYPECLASS_REAL, 8, MPI_REAL8},         {MPI_TYPECLASS_REAL, 16, MPI_REAL16},
      {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
      {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
      {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16}, {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
      {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},   {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
      {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].class == typeclass && sizes[i].size == size) return sizes[i].type;
  return MPI_DATATYPE_NULL;
}

MPI(Type_match_size)(int typeclass, int size, MPI_Datatype *datatype) {
  *datatype = of_size(typeclass, size);
  return *datatype == MPI_DATATYPE_NULL ? fail(NULL, MPI_ERR_ARG) : MPI_SUCCESS;
}

/* Types of Fortran by precision and range: one object for each pair of arguments, for ever. */
struct chosen {
  int combiner, precision, range;
  struct datatype *type;
};
static struct chosen *chosen;
static size_t chosen_count;

static int choose(int combiner, int precision, int range, MPI_Datatype basic, MPI_Datatype *newtype) {
  struct part *part;
  struct datatype *type;
  struct note note = {.combiner = combiner};
  int arguments[2] = {precision, range};
  int first = combiner == MPI_COMBINER_F90_INTEGER;
  if (basic == MPI_DATATYPE_NULL) return MPI_ERR_ARG;
  for (size_t i = 0; i < chosen_count; i++)
    if (chosen[i].combiner == combiner && chosen[i].precision == precision && chosen[i].range == range) {
      *newtype = type_handle(chosen[i].type);
      return MPI_SUCCESS;
    }
  part = parts_new(1);
  *part = (struct part){0, 1, 0, 1, type_of(basic)};
  type = object_hold(type_build(part, 1, false));
  type->basic = type_of(basic)->basic;
  type->flags |= TYPE_COMMITTED;
  note_numbers(&note, small_numbers(arguments + first), 2 - first);
  chosen = grow_memory(chosen, (chosen_count + 1) * sizeof *chosen);
  chosen[chosen_count++] = (struct chosen){combiner, precision, range, type};
  *newtype = type_noted(type, &note, 0, NULL);
  return MPI_SUCCESS;
}

/* Bytes of the smallest real type with that precision and range, as gfortran chooses; 0: none. */
static int real_size(int precision, int range) {
  if (precision == MPI_UNDEFINED) precision = 0;
  if (range == MPI_UNDEFINED) range = 0;
  if (precision <= 6 && range <= 37) return 4;
  if (precision <= 15 && range <= 307) return 8;
  if (precision <= 33 && range <= 4931) return 16;
  return 0;
}

MPI(Type_create_f90_real)(int p, int r, MPI_Datatype *newtype) {
  int size = real_size(p, r);
  return fail(NULL, choose(MPI_COMBINER_F90_REAL, p, r, of_size(MPI_TYPECLASS_REAL, size), newtype));
}

MPI(Type_create_f90_complex)(int p, int r, MPI_Datatype *newtype) {
  int size = 2 * real_size(p, r);
  return fail(NULL, choose(MPI_COMBINER_F90_COMPLEX, p, r, of_size(MPI_TYPECLASS_COMPLEX, size), newtype));
}

MPI(Type_create_f90_integer)(int r, MPI_Datatype *newtype) {
  int size = r <= 2 ? 1 : r <= 4 ? 2 : r <= 9 ? 4 : r <= 18 ? 8 : r <= 38 ? 16 : 0;
  return fail(NULL, choose(MPI_COMBINER_F90_INTEGER, 0, r, of_size(MPI_TYPECLASS_INTEGER, size), newtype));
}
