/* FTI's functions on Mainstay: subsets of global datasets, for any number of ranks. Licence: MIT OR Apache-2.0.
 *
 * A subset is the stream `dataset/D/V` of the shard of its rank. It begins with 64-bit numbers: the number of
 * dimensions N, the bytes of an element, N lengths of the dataset, N offsets, N lengths of the subset. The elements
 * follow. */
#define _GNU_SOURCE
#include "state.h"

enum { HEADER_MAX = 2 + 3 * FTI_DIMENSIONS_MAX };

/* A subset that a rank saved. */
typedef struct fti_saved {
  uint32_t shard;
  char *stream;
  int64_t header[HEADER_MAX];
} saved;

static size_t header_numbers(int rank) { return 2 + 3 * (size_t)rank; }

static const int64_t *lengths_of(const saved *one) { return one->header + 2; }
static const int64_t *offset_of(const saved *one) { return lengths_of(one) + one->header[0]; }
static const int64_t *extent_of(const saved *one) { return offset_of(one) + one->header[0]; }

static char *stream_of(int dataset, int variable) { return stand_in_text("dataset/%d/%d", dataset, variable); }

uint64_t bytes_of_subset(const fti_variable *one) {
  const fti_dataset *of = find_dataset(one->dataset);
  return header_numbers(of->rank) * sizeof(int64_t) + (uint64_t)one->count * one->type.bytes;
}

/* Whether the subset has as many elements as its variable: FTI_Protect and FTI_UpdateGlobalDataset change one of both.
 */
static char *compare_lengths(const fti_variable *one) {
  const fti_dataset *of = find_dataset(one->dataset);
  int64_t all = one->subset_rank == of->rank;
  int i;
  for (i = 0; i < one->subset_rank; i++) all *= one->extent[i];
  return all == one->count ? NULL
                           : stand_in_text("variable %d does not fit its subset; call FTI_UpdateSubset", one->id);
}

char *write_subset(const fti_variable *one) {
  const fti_dataset *of = find_dataset(one->dataset);
  const size_t rank = (size_t)of->rank, bytes = header_numbers(of->rank) * sizeof(int64_t);
  int64_t header[HEADER_MAX];
  char *stream, *why = compare_lengths(one);
  if (why) return why;
  stream = stream_of(one->dataset, one->id);
  header[0] = of->rank;
  header[1] = (int64_t)one->type.bytes;
  memcpy(header + 2, of->lengths, rank * sizeof *header);
  memcpy(header + 2 + rank, one->offset, rank * sizeof *header);
  memcpy(header + 2 + 2 * rank, one->extent, rank * sizeof *header);
  if (mainstay_write(fti.session, stream, 0, header, bytes) != MAINSTAY_OK ||
      mainstay_write(fti.session, stream, bytes, one->data, (size_t)one->count * one->type.bytes) != MAINSTAY_OK)
    why = message();
  free(stream);
  return why;
}

/* Reads the header of a subset. Returns whether it is one. */
static int read_header(saved *one) {
  const size_t bytes = sizeof one->header;
  size_t got = 0, i;
  if (mainstay_read_shard(fti.session, one->shard, one->stream, 0, one->header, bytes, &got) != MAINSTAY_OK) return 0;
  if (got < 2 * sizeof(int64_t) || one->header[0] < 1 || one->header[0] > FTI_DIMENSIONS_MAX || one->header[1] < 1)
    return 0;
  if (got < header_numbers((int)one->header[0]) * sizeof(int64_t)) return 0;
  for (i = 2; i < header_numbers((int)one->header[0]); i++)
    if (one->header[i] < 0 || one->header[i] > INT64_MAX / 2) return 0;
  return 1;
}

char *bring_subsets(void) {
  uint32_t shards = 0, shard, *numbers;
  char *why = NULL;
  mainstay_shards(fti.session, &shards);
  numbers = stand_in_memory(NULL, shards * sizeof *numbers);
  for (shard = 0; shard < shards; shard++) numbers[shard] = shard;
  if (mainstay_bring_shards(fti.session, numbers, shards) != MAINSTAY_OK) why = message();
  free(numbers);
  return why;
}

void forget_saved(fti_dataset *of) {
  size_t i;
  for (i = 0; i < of->saved_count; i++) free(of->saved[i].stream);
  free(of->saved);
  of->saved = NULL;
  of->saved_count = 0;
  of->saved_in = 0;
}

/* Adds the subsets of a shard. */
static char *add_shard(fti_dataset *of, uint32_t shard, const char *prefix) {
  size_t items = 0, i;
  char *why = NULL;
  if (mainstay_shard_items(fti.session, shard, &items) != MAINSTAY_OK) return message();
  for (i = 0; i < items && !why; i++) {
    mainstay_item item;
    saved one = {.shard = shard};
    if (mainstay_shard_item(fti.session, shard, i, &item) != MAINSTAY_OK) return message();
    if (strncmp(item.name, prefix, strlen(prefix))) continue;
    one.stream = stand_in_text("%s", item.name);
    if (!read_header(&one)) why = stand_in_text("%s of shard %u is no subset", item.name, shard);
    of->saved = stand_in_memory(of->saved, (of->saved_count + 1) * sizeof *of->saved);
    of->saved[of->saved_count++] = one;
  }
  return why;
}

/* Finds the saved subsets of a dataset, of all ranks. */
static char *find_saved(fti_dataset *of) {
  uint32_t shards = 0, shard;
  char *prefix, *why = NULL;
  if (of->saved_in == fti.chosen) return NULL;
  forget_saved(of);
  prefix = stand_in_text("dataset/%d/", of->id);
  mainstay_shards(fti.session, &shards);
  for (shard = 0; shard < shards && !why; shard++) why = add_shard(of, shard, prefix);
  free(prefix);
  if (!why) of->saved_in = fti.chosen;
  return why;
}

int FTI_RecoverDatasetDimension(int did) {
  const char *call = "FTI_RecoverDatasetDimension";
  fti_dataset *of = find_dataset(did);
  char *why = NULL;
  if (is_closed(call)) return FTI_NSCS;
  if (!go_back())
    why = stand_in_text("there is no checkpoint");
  else if (of)
    why = find_saved(of);
  if (!why && (!of || !of->saved_count)) why = stand_in_text("dataset %d is not defined, or was not saved", did);
  if (!why) {
    of->rank = (int)of->saved[0].header[0];
    memcpy(of->lengths, lengths_of(&of->saved[0]), (size_t)of->rank * sizeof *of->lengths);
  }
  return result(call, why, FTI_NSCS);
}

/* Copies the elements that a variable and a saved subset share, one row at a time, and marks them in `filled`. */
static char *copy_shared(const fti_variable *to, const saved *from, char *filled) {
  const int rank = (int)from->header[0];
  const size_t element = to->type.bytes;
  const uint64_t data = header_numbers(rank) * sizeof(int64_t);
  int64_t begin[FTI_DIMENSIONS_MAX], end[FTI_DIMENSIONS_MAX], at[FTI_DIMENSIONS_MAX];
  int i;
  for (i = 0; i < rank; i++) {
    const int64_t to_end = to->offset[i] + to->extent[i], from_end = offset_of(from)[i] + extent_of(from)[i];
    begin[i] = to->offset[i] > offset_of(from)[i] ? to->offset[i] : offset_of(from)[i];
    end[i] = to_end < from_end ? to_end : from_end;
    if (begin[i] >= end[i]) return NULL;
    at[i] = begin[i];
  }
  for (;;) {
    const size_t row = (size_t)(end[rank - 1] - begin[rank - 1]) * element;
    uint64_t there = 0, here = 0; /* wrong lengths in a file may wrap `there`; the read then fails */
    size_t got = 0;
    for (i = 0; i < rank; i++) {
      there = there * (uint64_t)extent_of(from)[i] + (uint64_t)(at[i] - offset_of(from)[i]);
      here = here * (uint64_t)to->extent[i] + (uint64_t)(at[i] - to->offset[i]);
    }
    if (mainstay_read_shard(fti.session, from->shard, from->stream, data + there * element,
                            (char *)to->data + (size_t)here * element, row, &got) != MAINSTAY_OK)
      return message();
    if (got != row) return stand_in_text("%s of shard %u is too short", from->stream, from->shard);
    memset(filled + here, 1, row / element);
    for (i = rank - 2; i >= 0 && ++at[i] == end[i]; i--) at[i] = begin[i];
    if (i < 0) return NULL;
  }
}

/* Fills a variable from the saved subsets. */
static char *fill(const fti_variable *to) {
  fti_dataset *of = find_dataset(to->dataset);
  int64_t missing = 0, k;
  char *why = compare_lengths(to), *filled; /* for each element; subsets may overlap */
  size_t i;
  if (!why) why = find_saved(of);
  if (why) return why;
  filled = stand_in_memory(NULL, (size_t)to->count);
  memset(filled, 0, (size_t)to->count);
  for (i = 0; i < of->saved_count && !why; i++) {
    if (of->saved[i].header[0] != of->rank || of->saved[i].header[1] != (int64_t)to->type.bytes)
      why = stand_in_text("dataset %d was saved with other dimensions, or of another type", of->id);
    else
      why = copy_shared(to, &of->saved[i], filled);
  }
  for (k = 0; k < to->count; k++) missing += !filled[k];
  free(filled);
  if (!why && missing)
    why = stand_in_text("variable %d: %lld of its %lld elements were not saved", to->id, (long long)missing,
                        (long long)to->count);
  return why;
}

char *fill_subsets(const int *id) {
  char *why = NULL;
  size_t i;
  for (i = 0; i < fti.variables_count && !why; i++) {
    const fti_variable *one = &fti.variables[i];
    if (one->is_protected && one->dataset >= 0 && (!id || one->id == *id)) why = fill(one);
  }
  return why;
}
