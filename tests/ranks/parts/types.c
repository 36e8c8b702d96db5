/* Derived datatypes: each is sent to the next rank as numbers, and taken from the one before as itself. */
#include "parts.h"

enum { ROOM = 64 };

/* Checks that the type names the numbers at `places` of an array of ints, in that order. */
static void names_ints(MPI_Datatype type, const int *places, int count) {
  int out[ROOM], in[ROOM], packed[ROOM], size;
  MPI_Type_commit(&type);
  MPI_Type_size(type, &size);
  CHECK(size == count * (int)sizeof(int));
  for (int i = 0; i < ROOM; i++) out[i] = value(rank, i, 11), in[i] = packed[i] = -1;
  MPI_Sendrecv(out, 1, type, next, 1, packed, ROOM, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; i++) CHECK(packed[i] == value(before, places[i], 11));
  CHECK(packed[count] == -1);
  MPI_Sendrecv(packed, count, MPI_INT, next, 1, in, 1, type, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int from = (before + ranks - 1) % ranks;
  for (int i = 0; i < ROOM; i++) {
    int is_named = 0;
    for (int j = 0; j < count; j++) is_named |= places[j] == i;
    CHECK(in[i] == (is_named ? value(from, i, 11) : -1));
  }
}

static void has_extent(MPI_Datatype type, MPI_Aint lower, MPI_Aint extent, MPI_Aint true_lower, MPI_Aint true_extent) {
  MPI_Aint got_lower, got;
  MPI_Type_get_extent(type, &got_lower, &got);
  CHECK(got_lower == lower && got == extent);
  MPI_Type_get_true_extent(type, &got_lower, &got);
  CHECK(got_lower == true_lower && got == true_extent);
}

static void of_one_kind(void) {
  const MPI_Aint word = sizeof(int);
  MPI_Datatype type, inner;
  MPI_Type_contiguous(5, MPI_INT, &type);
  names_ints(type, (int[]){0, 1, 2, 3, 4}, 5);
  MPI_Type_free(&type);
  MPI_Type_vector(3, 2, 4, MPI_INT, &type);
  names_ints(type, (int[]){0, 1, 4, 5, 8, 9}, 6);
  has_extent(type, 0, 10 * word, 0, 10 * word);
  MPI_Type_free(&type);
  MPI_Type_create_hvector(2, 1, 7 * word, MPI_INT, &type);
  names_ints(type, (int[]){0, 7}, 2);
  MPI_Type_free(&type);
  MPI_Type_indexed(3, (int[]){1, 0, 2}, (int[]){6, 3, 1}, MPI_INT, &type);
  names_ints(type, (int[]){6, 1, 2}, 3);
  has_extent(type, word, 6 * word, word, 6 * word);
  MPI_Type_free(&type);
  MPI_Type_create_hindexed(2, (int[]){2, 1}, (MPI_Aint[]){8 * word, word}, MPI_INT, &type);
  names_ints(type, (int[]){8, 9, 1}, 3);
  MPI_Type_free(&type);
  MPI_Type_create_indexed_block(3, 2, (int[]){10, 0, 5}, MPI_INT, &type);
  names_ints(type, (int[]){10, 11, 0, 1, 5, 6}, 6);
  MPI_Type_free(&type);
  MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){3 * word, 0}, MPI_INT, &type);
  names_ints(type, (int[]){3, 0}, 2);
  MPI_Type_free(&type);
  /* Of other derived types. */
  MPI_Type_vector(2, 1, 2, MPI_INT, &inner);
  MPI_Type_create_resized(inner, 0, 5 * word, &type);
  has_extent(type, 0, 5 * word, 0, 3 * word);
  MPI_Type_free(&inner);
  MPI_Type_contiguous(3, type, &inner);
  names_ints(inner, (int[]){0, 2, 5, 7, 10, 12}, 6);
  MPI_Type_free(&inner);
  MPI_Type_dup(type, &inner);
  names_ints(inner, (int[]){0, 2}, 2);
  MPI_Type_free(&inner);
  MPI_Type_free(&type);
}

static void of_arrays(void) {
  int sizes[2] = {6, 5}, parts[2] = {2, 3}, starts[2] = {3, 1};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  names_ints(type, (int[]){16, 17, 18, 21, 22, 23}, 6);
  has_extent(type, 0, 30 * (MPI_Aint)sizeof(int), 16 * (MPI_Aint)sizeof(int), 8 * (MPI_Aint)sizeof(int));
  MPI_Type_free(&type);
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
  names_ints(type, (int[]){9, 10, 15, 16, 21, 22}, 6);
  MPI_Type_free(&type);
  int cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  int arguments[2] = {1, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 2};
  MPI_Type_create_darray(4, 3, 2, (int[]){4, 5}, cyclic, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
  names_ints(type, (int[]){8, 9, 18, 19}, 4);
  MPI_Type_free(&type);
}

static void of_several_kinds(void) {
  struct mixed {
    char letter;
    double number;
    short small[3];
    int last;
  } out = {'x', 1.5 * rank, {1, 2, (short)rank}, value(rank, 1, 1)}, in;
  MPI_Datatype kinds[4] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT}, type, whole, inner;
  MPI_Aint places[4], base;
  int integers, addresses, types, combiner, numbers[16];
  MPI_Aint at[16];
  MPI_Datatype of[16];
  MPI_Get_address(&out, &base);
  MPI_Get_address(&out.letter, &places[0]);
  MPI_Get_address(&out.number, &places[1]);
  MPI_Get_address(out.small, &places[2]);
  MPI_Get_address(&out.last, &places[3]);
  for (int i = 0; i < 4; i++) places[i] = MPI_Aint_diff(places[i], base);
  MPI_Type_create_struct(4, (int[]){1, 1, 3, 1}, places, kinds, &type);
  MPI_Type_create_resized(type, 0, sizeof out, &whole);
  MPI_Type_commit(&whole);
  memset(&in, 0, sizeof in);
  MPI_Sendrecv(&out, 1, whole, next, 1, &in, 1, whole, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(in.letter == 'x' && in.number == 1.5 * before && in.small[2] == before && in.last == value(before, 1, 1));
  MPI_Type_get_envelope(whole, &integers, &addresses, &types, &combiner);
  CHECK(combiner == MPI_COMBINER_RESIZED && integers == 0 && addresses == 2 && types == 1);
  MPI_Type_get_contents(whole, 0, 2, 1, numbers, at, &inner);
  CHECK(at[0] == 0 && at[1] == sizeof out);
  MPI_Type_get_envelope(inner, &integers, &addresses, &types, &combiner);
  CHECK(combiner == MPI_COMBINER_STRUCT && integers == 5 && addresses == 4 && types == 4);
  MPI_Type_get_contents(inner, 5, 4, 4, numbers, at, of);
  CHECK(numbers[0] == 4 && numbers[3] == 3 && at[1] == places[1] && of[1] == MPI_DOUBLE);
  MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner);
  CHECK(combiner == MPI_COMBINER_NAMED);
  MPI_Type_free(&inner);
  /* At an absolute address. */
  MPI_Datatype absolute;
  MPI_Get_address(&in.last, &base);
  MPI_Type_create_hindexed(1, (int[]){1}, &base, MPI_INT, &absolute);
  MPI_Type_commit(&absolute);
  MPI_Sendrecv(&rank, 1, MPI_INT, next, 2, MPI_BOTTOM, 1, absolute, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(in.last == before);
  MPI_Type_free(&absolute);
  MPI_Type_free(&type);
  MPI_Type_free(&whole);
}

static int deleted;

static int delete_one(MPI_Datatype type, int key, void *at, void *extra) {
  (void)type, (void)key, (void)at, (void)extra;
  deleted++;
  return MPI_SUCCESS;
}

static void named(void) {
  char name[MPI_MAX_OBJECT_NAME];
  int length, key, flag, place, *got, size;
  MPI_Datatype type;
  MPI_Type_get_name(MPI_DOUBLE, name, &length);
  CHECK(!strcmp(name, "MPI_DOUBLE"));
  MPI_Type_dup(MPI_INT, &type);
  MPI_Type_set_name(type, "mine");
  MPI_Type_get_name(type, name, &length);
  CHECK(!strcmp(name, "mine") && length == 4);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_one, &key, NULL);
  MPI_Type_set_attr(type, key, &place);
  MPI_Type_get_attr(type, key, &got, &flag);
  CHECK(flag && got == &place);
  MPI_Type_free(&type);
  CHECK(deleted == 1);
  MPI_Type_free_keyval(&key);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  MPI_Type_size(type, &size);
  CHECK(size == 8);
  MPI_Type_size(MPIX_C_FLOAT16, &size);
  CHECK(size == 2);
  deleted = 0;
}

/* Basic elements of a message of structs, as the program sets and reads them; of a type with 2^30 blocks, too. */
static void elements(void) {
  int lengths[] = {1, 1, 2}, count, found;
  MPI_Aint places[] = {0, 8, 16};
  MPI_Datatype kinds[] = {MPI_CHAR, MPI_INT, MPI_DOUBLE}, structure, small, large;
  MPI_Count many;
  MPI_Status status;
  MPI_Type_create_struct(3, lengths, places, kinds, &structure);
  MPI_Type_commit(&structure);
  for (int i = 0; i <= 9; i++) {
    MPI_Status_set_elements(&status, structure, i);
    MPI_Get_elements(&status, structure, &found);
    MPI_Get_count(&status, structure, &count);
    CHECK(found == i && count == (i % 4 ? MPI_UNDEFINED : i / 4));
  }
  MPI_Type_contiguous(4, MPI_INT, &small);
  MPI_Type_vector(1 << 30, 1, 3, small, &large);
  MPI_Type_commit(&large);
  MPI_Status_set_elements_x(&status, large, ((MPI_Count)1 << 32) - 3);
  MPI_Get_elements_x(&status, large, &many);
  MPI_Get_elements(&status, large, &found);
  MPI_Get_count(&status, large, &count);
  CHECK(many == ((MPI_Count)1 << 32) - 3 && found == MPI_UNDEFINED && count == MPI_UNDEFINED);
  MPI_Type_free(&structure);
  MPI_Type_free(&small);
  MPI_Type_free(&large);
}

void types(void) {
  elements();
  of_one_kind();
  of_arrays();
  of_several_kinds();
  named();
}
