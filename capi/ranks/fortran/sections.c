/* Buffers of mpi_f08: any array, also one with gaps between its elements. Licence: MIT OR Apache-2.0. */
#include "fortran.h"

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
