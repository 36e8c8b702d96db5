/* Datatypes that are parts of arrays: subarrays, and arrays distributed over ranks. Licence: MIT OR Apache-2.0.
 *
 * Both are built one dimension after another, the fastest first. A dimension picks runs of the elements of the
 * dimensions before it, and its extent is that of all its elements. */
#include "types.h"

/* Picks elements of `of` (drops its hold) by the parts, out of `elements`. */
static struct datatype *pick(struct datatype *of, struct part *parts, MPI_Count count, MPI_Count elements) {
  MPI_Aint extent = of->extent * elements;
  struct datatype *type = type_build(parts, count, false);
  type_bound(type, 0, extent);
  type_release(of);
  return type;
}

static int subarray(int dimensions, struct numbers sizes, struct numbers subsizes, struct numbers starts, int order,
                    MPI_Datatype old, struct datatype **made) {
  struct datatype *type = type_of(old);
  if (!type) return MPI_ERR_TYPE;
  if (dimensions < 1 || (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)) return MPI_ERR_ARG;
  for (int i = 0; i < dimensions; i++) {
    MPI_Count size = number_at(sizes, i), part = number_at(subsizes, i), start = number_at(starts, i);
    if (size < 1 || part < 1 || part > size || start < 0 || start > size - part) return MPI_ERR_ARG;
  }
  object_hold(type);
  for (int step = 0; step < dimensions; step++) {
    int i = order == MPI_ORDER_C ? dimensions - 1 - step : step;
    struct part *part = parts_new(1);
    *part = (struct part){number_at(starts, i) * type->extent, 1, 0, number_at(subsizes, i), type};
    type = pick(type, part, 1, number_at(sizes, i));
  }
  *made = type;
  return MPI_SUCCESS;
}

MPI(Type_create_subarray)(int ndims, const int sizes[], const int subsizes[], const int starts[], int order,
                          MPI_Datatype oldtype, MPI_Datatype *newtype) {
  struct note note = {.combiner = MPI_COMBINER_SUBARRAY};
  struct datatype *type;
  int error =
      subarray(ndims, small_numbers(sizes), small_numbers(subsizes), small_numbers(starts), order, oldtype, &type);
  if (error) return fail(NULL, error);
  note_numbers(&note, small_numbers(&ndims), 1);
  note_numbers(&note, small_numbers(sizes), ndims);
  note_numbers(&note, small_numbers(subsizes), ndims);
  note_numbers(&note, small_numbers(starts), ndims);
  note_numbers(&note, small_numbers(&order), 1);
  *newtype = type_noted(type, &note, 1, &oldtype);
  return MPI_SUCCESS;
}

MPI(Type_create_subarray_c)(int ndims, const MPI_Count sizes[], const MPI_Count subsizes[], const MPI_Count starts[],
                            int order, MPI_Datatype oldtype, MPI_Datatype *newtype) {
  struct note note = {.combiner = MPI_COMBINER_SUBARRAY};
  struct datatype *type;
  int error =
      subarray(ndims, large_numbers(sizes), large_numbers(subsizes), large_numbers(starts), order, oldtype, &type);
  if (error) return fail(NULL, error);
  note_numbers(&note, small_numbers(&ndims), 1);
  note_numbers(&note, small_numbers(&order), 1);
  note_numbers(&note, large_numbers(sizes), ndims);
  note_numbers(&note, large_numbers(subsizes), ndims);
  note_numbers(&note, large_numbers(starts), ndims);
  *newtype = type_noted(type, &note, 1, &oldtype);
  return MPI_SUCCESS;
}

/* One dimension of a distributed array, for one place in the grid of processes. */
struct dimension {
  MPI_Count size;
  int distribution, argument, processes, place;
};

/* The length of the blocks that are dealt out in turn; 0: the arguments are wrong. */
static MPI_Count block_length(const struct dimension *dimension) {
  bool given = dimension->argument != MPI_DISTRIBUTE_DFLT_DARG;
  if (dimension->distribution == MPI_DISTRIBUTE_NONE) return dimension->processes == 1 ? dimension->size : 0;
  if (given && dimension->argument < 1) return 0;
  if (dimension->distribution == MPI_DISTRIBUTE_CYCLIC) return given ? dimension->argument : 1;
  if (dimension->distribution != MPI_DISTRIBUTE_BLOCK) return 0;
  if (!given) return (dimension->size + dimension->processes - 1) / dimension->processes;
  return (MPI_Count)dimension->argument * dimension->processes < dimension->size ? 0 : dimension->argument;
}

static struct datatype *distribute(struct datatype *of, const struct dimension *dimension) {
  MPI_Count length = block_length(dimension), round = length * dimension->processes, start = length * dimension->place;
  MPI_Count rest = dimension->size - start;
  MPI_Count whole = rest < length ? 0 : (rest - length) / round + 1;
  MPI_Count tail_start = start + whole * round;
  MPI_Count tail = dimension->size - tail_start;
  struct part *parts = parts_new(2);
  MPI_Count count = 0;
  if (tail > length) tail = length;
  if (whole > 0) parts[count++] = (struct part){start * of->extent, whole, round * of->extent, length, of};
  if (tail > 0) parts[count++] = (struct part){tail_start * of->extent, 1, 0, tail, of};
  return pick(of, parts, count, dimension->size);
}

struct distribution {
  int size, rank, dimensions, order;
  const int *kinds, *arguments, *processes;
  struct numbers sizes;
};

static int darray(const struct distribution *array, MPI_Datatype old, struct datatype **made) {
  struct datatype *type = type_of(old);
  struct dimension *all;
  int rest = array->rank, processes = 1, error = MPI_SUCCESS;
  if (!type) return MPI_ERR_TYPE;
  if (array->dimensions < 1 || array->rank < 0 || array->rank >= array->size ||
      (array->order != MPI_ORDER_C && array->order != MPI_ORDER_FORTRAN))
    return MPI_ERR_ARG;
  all = take_zeroed((size_t)array->dimensions, sizeof *all);
  for (int i = array->dimensions; i-- > 0;) {
    all[i] =
        (struct dimension){number_at(array->sizes, i), array->kinds[i], array->arguments[i], array->processes[i], 0};
    if (all[i].size < 1 || all[i].processes < 1 || block_length(&all[i]) == 0) {
      error = MPI_ERR_ARG;
      continue;
    }
    /* The grid of processes is in the order of C always. */
    all[i].place = rest % all[i].processes;
    rest /= all[i].processes;
    processes *= all[i].processes;
  }
  if (!error && processes != array->size) error = MPI_ERR_ARG;
  if (!error) object_hold(type);
  for (int step = 0; step < array->dimensions && !error; step++)
    type = distribute(type, &all[array->order == MPI_ORDER_C ? array->dimensions - 1 - step : step]);
  free(all);
  *made = type;
  return error;
}

/* `sizes` of the two functions differ, and with them the order of the note. */
static int darray_noted(const struct distribution *array, MPI_Datatype old, MPI_Datatype *new) {
  struct note note = {.combiner = MPI_COMBINER_DARRAY};
  struct datatype *type;
  int error = darray(array, old, &type);
  if (error) return error;
  note_numbers(&note, small_numbers(&array->size), 1);
  note_numbers(&note, small_numbers(&array->rank), 1);
  note_numbers(&note, small_numbers(&array->dimensions), 1);
  note_numbers(&note, array->sizes, array->dimensions);
  note_numbers(&note, small_numbers(array->kinds), array->dimensions);
  note_numbers(&note, small_numbers(array->arguments), array->dimensions);
  note_numbers(&note, small_numbers(array->processes), array->dimensions);
  note_numbers(&note, small_numbers(&array->order), 1);
  *new = type_noted(type, &note, 1, &old);
  return MPI_SUCCESS;
}

#define DARRAY(name, number, wrap)                                                                                     \
  MPI(name)(int size, int rank, int ndims, const number gsizes[], const int distribs[], const int dargs[],             \
            const int psizes[], int order, MPI_Datatype oldtype, MPI_Datatype *newtype) {                              \
    struct distribution array = {size, rank, ndims, order, distribs, dargs, psizes, wrap(gsizes)};                     \
    return fail(NULL, darray_noted(&array, oldtype, newtype));                                                         \
  }
DARRAY(Type_create_darray, int, small_numbers)
DARRAY(Type_create_darray_c, MPI_Count, large_numbers)
