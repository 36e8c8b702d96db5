/* Groups of ranks: the functions of MPI. Licence: MIT OR Apache-2.0. */
#include "internal.h"

MPI(Group_size)(MPI_Group group, int *size) {
  const struct group *members = group_of(group);
  if (!members) return fail(NULL, MPI_ERR_GROUP);
  if (!size) return fail(NULL, MPI_ERR_ARG);
  *size = members->size;
  return MPI_SUCCESS;
}

MPI(Group_rank)(MPI_Group group, int *rank) {
  const struct group *members = group_of(group);
  if (!members) return fail(NULL, MPI_ERR_GROUP);
  if (!rank) return fail(NULL, MPI_ERR_ARG);
  *rank = members->rank;
  return MPI_SUCCESS;
}

MPI(Group_translate_ranks)(MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[]) {
  struct group *from = group_of(group1), *to = group_of(group2);
  if (!from || !to) return fail(NULL, MPI_ERR_GROUP);
  if (n < 0) return fail(NULL, MPI_ERR_ARG);
  if (n > 0 && (!ranks1 || !ranks2)) return fail(NULL, MPI_ERR_ARG);
  for (int i = 0; i < n; i++) {
    if (ranks1[i] != MPI_PROC_NULL && (ranks1[i] < 0 || ranks1[i] >= from->size)) return fail(NULL, MPI_ERR_RANK);
    ranks2[i] = ranks1[i] == MPI_PROC_NULL ? MPI_PROC_NULL : group_place(to, from->members[ranks1[i]]);
  }
  return MPI_SUCCESS;
}

static int compare(struct group *one, struct group *other) {
  if (one->size != other->size) return MPI_UNEQUAL;
  if (memcmp(one->members, other->members, (size_t)one->size * sizeof *one->members) == 0) return MPI_IDENT;
  for (int i = 0; i < one->size; i++)
    if (group_place(other, one->members[i]) == MPI_UNDEFINED) return MPI_UNEQUAL;
  return MPI_SIMILAR;
}

MPI(Group_compare)(MPI_Group group1, MPI_Group group2, int *result) {
  struct group *one = group_of(group1), *other = group_of(group2);
  if (!one || !other) return fail(NULL, MPI_ERR_GROUP);
  if (!result) return fail(NULL, MPI_ERR_ARG);
  *result = compare(one, other);
  return MPI_SUCCESS;
}

/* Gives out a group of the first `size` of `members`, and frees these. */
static int give(int *members, int size, MPI_Group *handle) {
  if (size == 0) {
    *handle = MPI_GROUP_EMPTY;
  } else {
    struct group *group = group_new(size);
    memcpy(group->members, members, (size_t)size * sizeof *members);
    group_finish(group);
    *handle = group_handle(group);
  }
  free(members);
  return MPI_SUCCESS;
}

enum combination { UNION, INTERSECTION, DIFFERENCE };

static int combine(MPI_Group group1, MPI_Group group2, enum combination combination, MPI_Group *result) {
  struct group *one = group_of(group1), *other = group_of(group2);
  if (!one || !other) return MPI_ERR_GROUP;
  if (!result) return MPI_ERR_ARG;
  int *members = take_memory(((size_t)one->size + (size_t)other->size + 1) * sizeof *members), size = 0;
  for (int i = 0; i < one->size; i++) {
    bool in_both = group_place(other, one->members[i]) != MPI_UNDEFINED;
    if (combination == UNION || in_both == (combination == INTERSECTION)) members[size++] = one->members[i];
  }
  for (int i = 0; i < other->size && combination == UNION; i++)
    if (group_place(one, other->members[i]) == MPI_UNDEFINED) members[size++] = other->members[i];
  return give(members, size, result);
}

MPI(Group_union)(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup) {
  int error = combine(group1, group2, UNION, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Group_intersection)(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup) {
  int error = combine(group1, group2, INTERSECTION, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Group_difference)(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup) {
  int error = combine(group1, group2, DIFFERENCE, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

/* A group of the named ranks in their order, or of all others in the order of the old group. */
static int choose(const struct group *old, int count, const int *ranks, bool named, MPI_Group *result) {
  if (!result) return MPI_ERR_ARG;
  bool *marked = take_zeroed((size_t)old->size + 1, sizeof *marked);
  int *members = take_memory(((size_t)old->size + 1) * sizeof *members), size = 0, error = MPI_SUCCESS;
  for (int i = 0; i < count && !error; i++) {
    if (ranks[i] < 0 || ranks[i] >= old->size || marked[ranks[i]]) {
      error = MPI_ERR_RANK;
    } else {
      marked[ranks[i]] = true;
      if (named) members[size++] = old->members[ranks[i]];
    }
  }
  for (int rank = 0; rank < old->size && !named; rank++)
    if (!marked[rank]) members[size++] = old->members[rank];
  free(marked);
  if (!error) return give(members, size, result);
  free(members);
  return error;
}

static int choose_list(MPI_Group group, int n, const int *ranks, bool named, MPI_Group *result) {
  const struct group *old = group_of(group);
  if (!old) return MPI_ERR_GROUP;
  if (n < 0 || (n > 0 && !ranks)) return MPI_ERR_ARG;
  return choose(old, n, ranks, named, result);
}

/* The number of ranks in a range first, last, stride; -1 if the range is not valid. */
static long range_length(const int range[3]) {
  long first = range[0], last = range[1], stride = range[2];
  if (stride == 0) return -1;
  long steps = (last - first) / stride;
  return (last - first) * (stride > 0 ? 1 : -1) < 0 ? -1 : steps + 1;
}

static int choose_ranges(MPI_Group group, int n, int ranges[][3], bool named, MPI_Group *result) {
  const struct group *old = group_of(group);
  if (!old) return MPI_ERR_GROUP;
  if (n < 0 || (n > 0 && !ranges)) return MPI_ERR_ARG;
  size_t count = 0;
  for (int i = 0; i < n; i++) {
    long length = range_length(ranges[i]);
    if (length < 0) return MPI_ERR_ARG;
    if (ranges[i][0] < 0 || ranges[i][0] >= old->size || length > old->size) return MPI_ERR_ARG;
    count += (size_t)length;
  }
  if (count > (size_t)old->size) return MPI_ERR_RANK; /* some rank stands twice */
  int *ranks = take_memory((count + 1) * sizeof *ranks), at = 0;
  for (int i = 0; i < n; i++) {
    long length = range_length(ranges[i]);
    for (long k = 0; k < length; k++) ranks[at++] = (int)(ranges[i][0] + k * ranges[i][2]);
  }
  int error = choose(old, at, ranks, named, result);
  free(ranks);
  return error;
}

MPI(Group_incl)(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup) {
  int error = choose_list(group, n, ranks, true, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Group_excl)(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup) {
  int error = choose_list(group, n, ranks, false, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Group_range_incl)(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup) {
  int error = choose_ranges(group, n, ranges, true, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Group_range_excl)(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup) {
  int error = choose_ranges(group, n, ranges, false, newgroup);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Group_free)(MPI_Group *group) {
  struct group *old = group ? group_of(*group) : NULL;
  if (!old) return fail(NULL, MPI_ERR_GROUP);
  if (!old->object.predefined) group_release(old);
  *group = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}
