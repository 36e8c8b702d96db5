/* Datatypes as structures: their sizes and bounds follow from their parts. Licence: MIT OR Apache-2.0. */
#include "types.h"

struct part *parts_new(MPI_Count count) { return take_zeroed((size_t)(count > 0 ? count : 1), sizeof(struct part)); }

/* The bounds found so far; `any` says that there is one. */
struct bound {
  bool any;
  MPI_Aint low, high;
};

static void widen(struct bound *bound, MPI_Aint low, MPI_Aint high) {
  if (!bound->any || low < bound->low) bound->low = low;
  if (!bound->any || high > bound->high) bound->high = high;
  bound->any = true;
}

static MPI_Aint least(MPI_Aint a, MPI_Aint b) { return a < b ? a : b; }
static MPI_Aint most(MPI_Aint a, MPI_Aint b) { return a > b ? a : b; }

struct bounds {
  struct bound all, data, lb_marks, ub_marks;
};

static void add_part(struct bounds *bounds, const struct part *part) {
  const struct datatype *of = part->of;
  MPI_Aint last_block = (part->repeats - 1) * part->stride, last = (part->length - 1) * of->extent;
  MPI_Aint low = part->offset + least(0, last_block) + least(0, last);
  MPI_Aint high = part->offset + most(0, last_block) + most(0, last);
  if (part->repeats <= 0 || part->length <= 0) return;
  widen(&bounds->all, low + of->lb, high + of->lb + of->extent);
  if (of->size) widen(&bounds->data, low + of->true_lb, high + of->true_lb + of->true_extent);
  if (of->flags & TYPE_MARKED_LB) widen(&bounds->lb_marks, low + of->lb, low + of->lb);
  if (of->flags & TYPE_MARKED_UB) widen(&bounds->ub_marks, high + of->lb + of->extent, high + of->lb + of->extent);
}

/* True if the parts are one run of bytes from offset 0, in order. */
static bool is_run(const struct datatype *type) {
  MPI_Aint end = 0;
  for (MPI_Count i = 0; i < type->part_count; i++) {
    const struct part *part = &type->parts[i];
    MPI_Aint bytes = part->length * part->of->size;
    if (part->repeats <= 0 || bytes == 0) continue;
    if (!part->of->dense || part->offset != end) return false;
    if (part->repeats > 1 && part->stride != bytes) return false;
    end += part->repeats * bytes;
  }
  return end == type->size;
}

static void set_dense(struct datatype *type) {
  type->dense = type->lb == 0 && type->extent == type->size && is_run(type);
}

struct datatype *type_build(struct part *parts, MPI_Count count, bool aligned) {
  struct datatype *type = object_new(KIND_TYPE, sizeof *type);
  struct bounds bounds = {0};
  type->parts = parts;
  type->part_count = count;
  type->align = 1;
  for (MPI_Count i = 0; i < count; i++) {
    struct datatype *of = object_hold(parts[i].of);
    add_part(&bounds, &parts[i]);
    if (parts[i].repeats <= 0 || parts[i].length <= 0) continue;
    type->size += parts[i].repeats * parts[i].length * of->size;
    if (of->align > type->align) type->align = of->align;
  }
  type->true_lb = bounds.data.low;
  type->true_extent = bounds.data.high - bounds.data.low;
  type->lb = bounds.lb_marks.any ? bounds.lb_marks.low : bounds.all.low;
  type->extent = (bounds.ub_marks.any ? bounds.ub_marks.high : bounds.all.high) - type->lb;
  if (bounds.lb_marks.any) type->flags |= TYPE_MARKED_LB;
  if (bounds.ub_marks.any) type->flags |= TYPE_MARKED_UB;
  if (aligned && !bounds.ub_marks.any && type->extent % type->align)
    type->extent += type->align - type->extent % type->align;
  set_dense(type);
  return type;
}

void type_bound(struct datatype *type, MPI_Aint lb, MPI_Aint extent) {
  type->lb = lb;
  type->extent = extent;
  type->flags |= TYPE_MARKED_LB | TYPE_MARKED_UB;
  set_dense(type);
}

void note_numbers(struct note *note, struct numbers numbers, MPI_Count count) {
  size_t more = count > 0 ? (size_t)count : 0;
  if (numbers.small) {
    note->integers = grow_memory(note->integers, (note->integer_count + more) * sizeof *note->integers);
    memcpy(note->integers + note->integer_count, numbers.small, more * sizeof *note->integers);
    note->integer_count += more;
  } else if (numbers.addresses) {
    note->addresses = grow_memory(note->addresses, (note->address_count + more) * sizeof *note->addresses);
    memcpy(note->addresses + note->address_count, numbers.addresses, more * sizeof *note->addresses);
    note->address_count += more;
  } else if (numbers.large) {
    note->large = grow_memory(note->large, (note->large_count + more) * sizeof *note->large);
    memcpy(note->large + note->large_count, numbers.large, more * sizeof *note->large);
    note->large_count += more;
  }
}

MPI_Datatype type_noted(struct datatype *type, const struct note *note, MPI_Count types, const MPI_Datatype *of) {
  type->contents = take_zeroed(1, sizeof *type->contents);
  type->contents->note = *note;
  type->contents->type_count = types;
  type->contents->types = take_zeroed((size_t)types, sizeof *type->contents->types);
  for (MPI_Count i = 0; i < types; i++) type->contents->types[i] = object_hold(type_of(of[i]));
  return type_handle(type);
}

void contents_release(struct contents *contents) {
  if (!contents) return;
  for (MPI_Count i = 0; i < contents->type_count; i++) type_release(contents->types[i]);
  free(contents->note.integers);
  free(contents->note.addresses);
  free(contents->note.large);
  free(contents->types);
  free(contents);
}

void type_release(struct datatype *type) {
  if (!type || !object_drop(type)) return;
  if (type->attributes) {
    type->object.uses++; /* for the delete functions, which get the handle */
    attributes_delete(&type->attributes, (uintptr_t)type_handle(type));
  }
  for (MPI_Count i = 0; i < type->part_count; i++) type_release(type->parts[i].of);
  contents_release(type->contents);
  free(type->parts);
  free(type->name);
  object_free(type);
}

const struct datatype *type_uniform(const struct datatype *type) {
  const struct datatype *found = NULL;
  if (type->basic) return type;
  for (MPI_Count i = 0; i < type->part_count; i++) {
    const struct part *part = &type->parts[i];
    const struct datatype *of;
    if (part->repeats <= 0 || part->length <= 0 || part->of->size == 0) continue;
    of = type_uniform(part->of);
    if (!of || (found && found->basic != of->basic)) return NULL;
    found = of;
  }
  return found;
}

int check_buffer(MPI_Count count, const struct datatype *type) {
  if (count < 0) return MPI_ERR_COUNT;
  return type && type->flags & TYPE_COMMITTED ? MPI_SUCCESS : MPI_ERR_TYPE;
}

MPI(Type_commit)(MPI_Datatype *datatype) {
  struct datatype *type = type_of(*datatype);
  if (!type) return fail(NULL, MPI_ERR_TYPE);
  type->flags |= TYPE_COMMITTED;
  return MPI_SUCCESS;
}

MPI(Type_free)(MPI_Datatype *datatype) {
  struct datatype *type = type_of(*datatype);
  if (!type || type->object.predefined) return fail(NULL, MPI_ERR_TYPE);
  if (type->attributes && type->object.uses == 1) {
    int error = attributes_delete(&type->attributes, (uintptr_t)*datatype);
    if (error) return fail(NULL, error);
  }
  type_release(type);
  *datatype = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

MPI(Type_set_name)(MPI_Datatype datatype, const char *type_name) {
  struct datatype *type = type_of(datatype);
  if (!type) return fail(NULL, MPI_ERR_TYPE);
  /* A predefined type's first name is a constant. */
  if (!type->object.predefined) free(type->name);
  type->name = take_zeroed(MPI_MAX_OBJECT_NAME, 1);
  strncpy(type->name, type_name, MPI_MAX_OBJECT_NAME - 1);
  return MPI_SUCCESS;
}

MPI(Type_get_name)(MPI_Datatype datatype, char *type_name, int *resultlen) {
  struct datatype *type = type_of(datatype);
  if (!type && datatype != MPI_DATATYPE_NULL) return fail(NULL, MPI_ERR_TYPE);
  strcpy(type_name, !type ? "MPI_DATATYPE_NULL" : type->name ? type->name : "");
  *resultlen = (int)strlen(type_name);
  return MPI_SUCCESS;
}
