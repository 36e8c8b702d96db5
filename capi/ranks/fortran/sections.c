/* Buffers of mpi_f08: any array, also one with gaps between its elements. Licence: MIT OR Apache-2.0.
 *
 * A call that has used the buffer when it returns gets a copy without gaps. A call with one buffer that uses it later
 * gets a datatype with the places of the elements. A call with two such buffers refuses gaps. */
#include "fortran.h"

enum { RANK_MAX = 15 };

/* True if the elements follow one another. The last dimension of an array of unknown size has no extent. */
static bool is_contiguous(const struct section *section) {
  ptrdiff_t next = (ptrdiff_t)section->bytes;
  bool has_gaps = false;
  for (int i = 0; i < section->rank; i++) {
    const struct dimension *dimension = &section->dimensions[i];
    if (dimension->extent == 0) return true;
    if (dimension->extent != 1 && dimension->stride != next) has_gaps = true;
    next *= dimension->extent;
  }
  return !has_gaps;
}

static size_t bytes_of(const struct section *section) {
  size_t bytes = section->bytes;
  for (int i = 0; i < section->rank; i++) bytes *= (size_t)section->dimensions[i].extent;
  return bytes;
}

/* Copies the elements below dimension `i` from or to `data`, and returns the place behind them. */
static char *copy(const struct section *section, int i, char *place, char *data, bool to_data) {
  if (i < 0) {
    memcpy(to_data ? data : place, to_data ? place : data, section->bytes);
    return data + section->bytes;
  }
  for (ptrdiff_t j = 0; j < section->dimensions[i].extent; j++)
    data = copy(section, i - 1, place + j * section->dimensions[i].stride, data, to_data);
  return data;
}

void *section_packed(const struct section *section) {
  if (is_contiguous(section)) return section->base;
  char *data = f_allocate(bytes_of(section));
  copy(section, section->rank - 1, section->base, data, true);
  return data;
}

void section_unpack(const struct section *section, void *data) {
  if (data == section->base) return;
  copy(section, section->rank - 1, section->base, data, false);
  free(data);
}

void section_drop(const struct section *section, void *data) {
  if (data != section->base) free(data);
}

void *section_kept(const struct section *section, const char *function) {
  if (!is_contiguous(section))
    end_job("%s: the buffer is a section of an array with gaps. Pass a contiguous array, or use a derived datatype.",
            function);
  return section->base;
}

/* A type for one element: some items of `type`, or the bytes of a part of an item. */
static MPI_Datatype element_type(const struct section *section, MPI_Datatype type, MPI_Count size,
                                 const char *function) {
  const MPI_Count bytes = (MPI_Count)section->bytes;
  MPI_Datatype element = MPI_DATATYPE_NULL;
  if (bytes % size == 0)
    MPI_Type_contiguous((int)(bytes / size), type, &element);
  else if (size % bytes == 0)
    MPI_Type_contiguous((int)bytes, MPI_BYTE, &element);
  else
    end_job("%s: the items do not fit into the elements of the buffer, which has gaps", function);
  return element;
}

/* The places of the first `count` elements, from the section's base. */
static MPI_Aint *places_of(const struct section *section, MPI_Count count) {
  MPI_Aint *places = f_allocate((size_t)count * sizeof *places);
  ptrdiff_t index[RANK_MAX] = {0};
  for (MPI_Count j = 0; j < count; j++) {
    for (int i = 0; i < section->rank; i++) places[j] += index[i] * section->dimensions[i].stride;
    for (int i = 0; i < section->rank && ++index[i] == section->dimensions[i].extent; i++) index[i] = 0;
  }
  return places;
}

struct typed section_typed(const struct section *section, MPI_Count count, MPI_Datatype type, const char *function) {
  struct typed typed = {count, type, false};
  MPI_Count size = 0, lower = 0, extent = 0;
  if (count <= 0 || is_contiguous(section) || MPI_Type_size_x(type, &size) || size == 0) return typed;
  MPI_Type_get_extent_x(type, &lower, &extent);
  if (lower != 0 || extent != size)
    end_job("%s: the datatype has gaps, and so has the buffer. Pass a contiguous array.", function);
  const MPI_Count elements = count * size / (MPI_Count)section->bytes;
  if (count * size % (MPI_Count)section->bytes != 0 || count * size > (MPI_Count)bytes_of(section) ||
      elements > INT32_MAX)
    end_job("%s: the items do not fit into the elements of the buffer, which has gaps", function);
  MPI_Datatype element = element_type(section, type, size, function);
  MPI_Aint *places = places_of(section, elements);
  MPI_Type_create_hindexed_block((int)elements, 1, places, element, &typed.type);
  MPI_Type_commit(&typed.type);
  MPI_Type_free(&element);
  free(places);
  typed.count = 1;
  typed.is_new = true;
  return typed;
}

void section_untyped(struct typed *typed) {
  if (typed->is_new) MPI_Type_free(&typed->type);
}
