/* FTI's functions on Mainstay: types, variables, and global datasets. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUILT_IN = 11, TYPES_MAX = 1024 };
static fti_type types[TYPES_MAX] = {
    {sizeof(char), MAINSTAY_I8},           {sizeof(short), MAINSTAY_I16},
    {sizeof(int), MAINSTAY_I32},           {sizeof(long), sizeof(long) == 8 ? MAINSTAY_I64 : MAINSTAY_I32},
    {sizeof(unsigned char), MAINSTAY_U8},  {sizeof(unsigned short), MAINSTAY_U16},
    {sizeof(unsigned), MAINSTAY_U32},      {sizeof(unsigned long), sizeof(long) == 8 ? MAINSTAY_U64 : MAINSTAY_U32},
    {sizeof(float), MAINSTAY_F32},         {sizeof(double), MAINSTAY_F64},
    {sizeof(long double), MAINSTAY_BYTES},
};
static int types_count = BUILT_IN;

static fti_id_t add_type(const char *call, size_t bytes) {
  if (!bytes) return fail(call, "the size of the type is 0");
  if (types_count == TYPES_MAX) return fail(call, "there are more than 1024 types");
  types[types_count].bytes = bytes;
  types[types_count].element = MAINSTAY_BYTES;
  return types_count++;
}

static int is_type(const char *call, fti_id_t id) {
  if (id >= 0 && id < types_count) return 1;
  fail(call, "there is no such type; call FTI_InitType first");
  return 0;
}

int FTI_InitType(fti_id_t *type, int size) {
  const char *call = "FTI_InitType";
  if (!type || size < 0) return fail(call, "the type is NULL, or its size is negative");
  *type = add_type(call, (size_t)size);
  return *type < 0 ? FTI_NSCS : FTI_SCES;
}

fti_id_t FTI_InitCompositeType(const char *name, size_t size, FTIT_H5Group *h5g) {
  (void)name;
  (void)h5g;
  return add_type("FTI_InitCompositeType", size);
}

int FTI_AddScalarField(fti_id_t id, const char *name, fti_id_t fid, int64_t offset) {
  (void)name;
  (void)offset;
  return is_type("FTI_AddScalarField", id) && is_type("FTI_AddScalarField", fid) ? FTI_SCES : FTI_NSCS;
}

int FTI_AddVectorField(fti_id_t id, const char *name, fti_id_t tid, int64_t offset, int ndims, int64_t *dim_sizes) {
  (void)name;
  (void)offset;
  (void)ndims;
  (void)dim_sizes;
  return is_type("FTI_AddVectorField", id) && is_type("FTI_AddVectorField", tid) ? FTI_SCES : FTI_NSCS;
}

int FTI_InitGroup(FTIT_H5Group *h5group, const char *name, FTIT_H5Group *parent) {
  if (!h5group || !name) return fail("FTI_InitGroup", "the group or its name is NULL");
  memset(h5group, 0, sizeof *h5group);
  snprintf(h5group->name, sizeof h5group->name, "%s", name);
  snprintf(h5group->fullName, sizeof h5group->fullName, "%.127s/%.127s", parent ? parent->fullName : "", name);
  return FTI_SCES;
}

int FTI_RenameGroup(FTIT_H5Group *h5group, const char *name) {
  if (!h5group || !name) return fail("FTI_RenameGroup", "the group or its name is NULL");
  snprintf(h5group->name, sizeof h5group->name, "%s", name);
  return FTI_SCES;
}

/* Variables */

fti_variable *find_variable(int id) {
  size_t i;
  for (i = 0; i < fti.variables_count; i++)
    if (fti.variables[i].id == id) return &fti.variables[i];
  return NULL;
}

static fti_variable *add_variable(int id) {
  fti_variable *one = find_variable(id);
  if (one) return one;
  fti.variables = stand_in_memory(fti.variables, (fti.variables_count + 1) * sizeof *fti.variables);
  one = &fti.variables[fti.variables_count++];
  memset(one, 0, sizeof *one);
  one->id = id;
  one->dataset = -1;
  return one;
}

int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid) {
  const char *call = "FTI_Protect";
  fti_variable *one;
  if (is_closed(call) || !is_type(call, tid)) return FTI_NSCS;
  if (count < 0 || (uint64_t)count > INT64_MAX / (types[tid].bytes ? types[tid].bytes : 1))
    return fail(call, "a negative count, or more bytes than memory has");
  one = add_variable(id);
  one->data = ptr;
  one->count = count;
  one->type = types[tid];
  one->dimensions = 1;
  one->shape[0] = (uint64_t)count;
  one->is_protected = 1;
  return FTI_SCES;
}

static fti_variable *find(const char *call, int id) {
  fti_variable *one = is_closed(call) ? NULL : find_variable(id);
  if (one && one->is_protected) return one;
  if (fti.is_open) fail(call, "no variable has this id; call FTI_Protect first");
  return NULL;
}

int FTI_SetAttribute(int id, FTIT_attribute attribute, FTIT_attributeFlag flag) {
  (void)attribute;
  (void)flag;
  return find("FTI_SetAttribute", id) ? FTI_SCES : FTI_NSCS;
}

int FTI_DefineDataset(int id, int rank, int64_t *dimLength, const char *name, FTIT_H5Group *h5group) {
  const char *call = "FTI_DefineDataset";
  fti_variable *one = find(call, id);
  int64_t all = 1;
  int i;
  (void)name;
  (void)h5group;
  if (!one) return FTI_NSCS;
  if (rank < 1 || rank > FTI_DIMENSIONS_MAX || !dimLength) return fail(call, "a dataset has 1 to 32 dimensions");
  for (i = 0; i < rank; i++) all *= dimLength[i];
  if (all != one->count) return fail(call, "the variable has another number of elements");
  one->dimensions = rank;
  for (i = 0; i < rank; i++) one->shape[i] = (uint64_t)dimLength[i];
  return FTI_SCES;
}

/* Reads the names of variables from the checkpoint. */
void recover_names(void) {
  const char *at = mainstay_restored_note(fti.session, "names");
  while (at && *at) {
    char *name;
    const long id = strtol(at, &name, 10);
    const size_t length = strcspn(name + (*name != 0), "\n");
    fti_variable *one;
    if (*name != ' ') return;
    one = add_variable((int)id);
    snprintf(one->name, sizeof one->name, "%.*s", (int)length, name + 1);
    at = name + 1 + length;
    at += *at == '\n';
  }
}

int FTI_getIDFromString(const char *name) {
  size_t i;
  if (is_closed("FTI_getIDFromString") || !name) return FTI_NSCS;
  for (i = 0; i < fti.variables_count; i++)
    if (!strcmp(fti.variables[i].name, name)) return fti.variables[i].id;
  return FTI_NSCS;
}

int FTI_setIDFromString(const char *name) {
  const char *call = "FTI_setIDFromString";
  fti_variable *one;
  int id;
  if (is_closed(call)) return FTI_NSCS;
  if (!name || !*name || strlen(name) >= FTI_BUFS || strchr(name, '\n'))
    return fail(call, "a name has 1 to 255 characters, and no line break");
  id = FTI_getIDFromString(name);
  if (id >= 0) return id;
  for (id = 0; find_variable(id); id++);
  one = add_variable(id);
  snprintf(one->name, sizeof one->name, "%s", name);
  return id;
}

/* Global datasets */

fti_dataset *find_dataset(int id) {
  size_t i;
  for (i = 0; i < fti.datasets_count; i++)
    if (fti.datasets[i].id == id) return &fti.datasets[i];
  return NULL;
}

static int set_lengths(const char *call, fti_dataset *of, int rank, const FTIT_hsize_t *lengths) {
  if (!of) return fail(call, "no dataset has this id; call FTI_DefineGlobalDataset first");
  if (rank < 1 || rank > FTI_DIMENSIONS_MAX || !lengths) return fail(call, "a dataset has 1 to 32 dimensions");
  of->rank = rank;
  memcpy(of->lengths, lengths, (size_t)rank * sizeof *lengths);
  return FTI_SCES;
}

int FTI_DefineGlobalDataset(int id, int rank, FTIT_hsize_t *dimLength, const char *name, FTIT_H5Group *h5group,
                            fti_id_t tid) {
  const char *call = "FTI_DefineGlobalDataset";
  fti_dataset one = {.id = id};
  (void)name;
  (void)h5group;
  if (is_closed(call) || !is_type(call, tid)) return FTI_NSCS;
  if (find_dataset(id)) return fail(call, "a dataset has this id already");
  one.type = types[tid];
  if (set_lengths(call, &one, rank, dimLength) != FTI_SCES) return FTI_NSCS;
  fti.datasets = stand_in_memory(fti.datasets, (fti.datasets_count + 1) * sizeof *fti.datasets);
  fti.datasets[fti.datasets_count++] = one;
  return FTI_SCES;
}

int FTI_UpdateGlobalDataset(int id, int rank, FTIT_hsize_t *dimLength) {
  if (is_closed("FTI_UpdateGlobalDataset")) return FTI_NSCS;
  return set_lengths("FTI_UpdateGlobalDataset", find_dataset(id), rank, dimLength);
}

static int place(const char *call, int id, int rank, const FTIT_hsize_t *offset, const FTIT_hsize_t *count, int did) {
  fti_variable *one = find(call, id);
  const fti_dataset *of = find_dataset(did);
  int64_t all = 1;
  int i;
  if (!one) return FTI_NSCS;
  if (!of || of->rank != rank || !offset || !count)
    return fail(call, "no dataset has this id and this number of dimensions");
  for (i = 0; i < rank; i++) {
    if (offset[i] < 0 || count[i] < 0) return fail(call, "an offset or a length is negative");
    all *= count[i];
  }
  if (all != one->count || one->type.bytes != of->type.bytes)
    return fail(call, "the variable has another number of elements, or another type");
  one->dataset = did;
  one->subset_rank = rank;
  memcpy(one->offset, offset, (size_t)rank * sizeof *offset);
  memcpy(one->extent, count, (size_t)rank * sizeof *count);
  return FTI_SCES;
}

int FTI_AddSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did) {
  return place("FTI_AddSubset", id, rank, offset, count, did);
}

int FTI_UpdateSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did) {
  return place("FTI_UpdateSubset", id, rank, offset, count, did);
}

int FTI_GetDatasetRank(int did) {
  const fti_dataset *of = find_dataset(did);
  return of ? of->rank : fail("FTI_GetDatasetRank", "no dataset has this id");
}

FTIT_hsize_t *FTI_GetDatasetSpan(int did, int rank) {
  fti_dataset *of = find_dataset(did);
  if (of && of->rank == rank) return of->lengths;
  fail("FTI_GetDatasetSpan", "no dataset has this id and this number of dimensions");
  return NULL;
}
