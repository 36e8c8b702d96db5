/* FTI's functions on Mainstay: begin and end, types and variables. Licence: MIT OR Apache-2.0.
 *
 * The space is the directory `mainstay` in glbl_dir, with a level in ckpt_dir before it. A checkpoint is a revision;
 * its variables are regions, or streams in a checkpoint of FTI_InitICP, with their ids as names. */
#define _GNU_SOURCE
#include <limits.h>
#include <strings.h>

#include "types.h"

fti_state mainstay_fti;

MPI_Comm FTI_COMM_WORLD = MPI_COMM_NULL;
fti_id_t FTI_CHAR = 0, FTI_SHRT = 1, FTI_INTG = 2, FTI_LONG = 3, FTI_UCHR = 4, FTI_USHT = 5, FTI_UINT = 6, FTI_ULNG = 7,
         FTI_SFLT = 8, FTI_DBLE = 9, FTI_LDBE = 10;

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

int mainstay_fti_fail(const char *call, const char *why) {
  stand_in_say("%s: %s", call, why);
  return FTI_NSCS;
}

int mainstay_fti_result(const char *call, char *why, int failure) {
  if (why) mainstay_fti_fail(call, why);
  free(why);
  return why ? failure : FTI_SCES;
}

int mainstay_fti_is_closed(const char *call) {
  if (mainstay_fti.is_open) return 0;
  mainstay_fti_fail(call, "FTI is not initialized; call FTI_Init first");
  return 1;
}

char *mainstay_fti_message(void) { return stand_in_text("%s", mainstay_error_message()); }

int mainstay_fti_any(const char *why) {
  int lacks = why != NULL;
  MPI_Allreduce(MPI_IN_PLACE, &lacks, 1, MPI_INT, MPI_MAX, FTI_COMM_WORLD);
  return lacks;
}

/* Settings */

static const char *setting(const char *name) { return stand_in_value(&mainstay_fti.settings, name); }

static long number(const char *name) { return setting(name) ? strtol(setting(name), NULL, 10) : 0; }

/* The shortest interval of FTI_Snapshot, in minutes; 0: none. */
static long interval(void) {
  static const char *const names[] = {"basic:ckpt_l1", "basic:ckpt_l2", "basic:ckpt_l3", "basic:ckpt_l4",
                                      "basic:dcp_l4"};
  long shortest = 0;
  size_t i;
  for (i = 0; i < sizeof names / sizeof names[0]; i++)
    if (number(names[i]) > 0 && (!shortest || number(names[i]) < shortest)) shortest = number(names[i]);
  return shortest;
}

/* The same in seconds. FTI lets time pass faster by a setting. */
static double interval_s(void) {
  const double minute_s = 60, times = (double)number("advanced:fast_forward");
  return minute_s * (double)interval() / (times > 1 ? times : 1);
}

static void say_the_rest(void) {
  if (number("basic:head") > 0)
    stand_in_say("FTI's head has no effect: threads of the program do its work, and all ranks compute");
  if (number("basic:enable_staging") > 0)
    stand_in_say("FTI's enable_staging has no effect: write the file yourself; a restore cuts back outputs");
  if (number("injection:number") > 0)
    stand_in_say("FTI's injection has no effect: `mainstay rehearse` kills a job and compares its end");
}

static char *open_space(void) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  const int is_memory = stand_in_is_in_memory(mainstay_fti.local);
  char *level = stand_in_text("%s/mainstay", mainstay_fti.local),
       *space = stand_in_text("%s/mainstay", mainstay_fti.global);
  char *why = NULL;
  /* As with FTI, a job may save without having recovered, and the local directory may be lost. */
  mainstay_set(&options, "start", "fresh");
  mainstay_set(&options, "keep", "2");
  mainstay_set(&options, is_memory ? "memory" : "disk", level);
  mainstay_set(&options, "disk_lost", "accepted");
  if (number("basic:enable_dcp") > 0) mainstay_set(&options, "capture", "incremental");
  options.every_seconds = interval_s();
  if (mainstay_open_mpi(FTI_COMM_WORLD, space, &options, &mainstay_fti.session) != MAINSTAY_OK)
    why = mainstay_fti_message();
  free(level);
  free(space);
  return why;
}

static char *read_settings(const char *path) {
  const long line = path ? stand_in_read_settings(&mainstay_fti.settings, path) : -1;
  char *why = NULL;
  if (line < 0) return stand_in_text("the configuration file %s cannot be read", path ? path : "");
  if (line > 0) return stand_in_text("line %ld of %s is no `name = value`", line, path);
  if (!setting("basic:ckpt_dir") || !setting("basic:glbl_dir"))
    return stand_in_text("%s has no ckpt_dir or no glbl_dir in its section [basic]", path);
  mainstay_fti.local = stand_in_absolute(setting("basic:ckpt_dir"));
  mainstay_fti.global = stand_in_absolute(setting("basic:glbl_dir"));
  if (stand_in_make_folders(mainstay_fti.local))
    why = stand_in_text("%s cannot be made", mainstay_fti.local);
  else if (stand_in_make_folders(mainstay_fti.global))
    why = stand_in_text("%s cannot be made", mainstay_fti.global);
  return why;
}

static void forget(void) {
  size_t i;
  for (i = 0; i < mainstay_fti.datasets_count; i++) mainstay_fti_forget_saved(&mainstay_fti.datasets[i]);
  stand_in_forget_settings(&mainstay_fti.settings);
  free(mainstay_fti.local);
  free(mainstay_fti.global);
  free(mainstay_fti.variables);
  free(mainstay_fti.datasets);
  memset(&mainstay_fti, 0, sizeof mainstay_fti);
}

/* Takes over the names of variables from the checkpoint. */
static void recover_names(void) {
  const char *at = mainstay_restored_note(mainstay_fti.session, "names");
  while (at && *at) {
    char *name;
    const long id = strtol(at, &name, 10);
    const size_t length = strcspn(name + (*name != 0), "\n");
    fti_variable *one = mainstay_fti_variable((int)id);
    if (*name != ' ') return;
    if (!one) {
      mainstay_fti.variables =
          stand_in_memory(mainstay_fti.variables, (mainstay_fti.variables_count + 1) * sizeof *mainstay_fti.variables);
      one = &mainstay_fti.variables[mainstay_fti.variables_count++];
      memset(one, 0, sizeof *one);
      one->id = (int)id;
      one->dataset = -1;
    }
    snprintf(one->name, sizeof one->name, "%.*s", (int)length, name + 1);
    at = name + 1 + length;
    at += *at == '\n';
  }
}

int FTI_Init(const char *configFile, MPI_Comm globalComm) {
  const char *call = "FTI_Init";
  size_t count = 0;
  char *why;
  if (mainstay_fti.is_open) return FTI_SCES;
  MPI_Comm_dup(globalComm, &FTI_COMM_WORLD);
  MPI_Comm_rank(FTI_COMM_WORLD, &mainstay_fti.rank);
  MPI_Comm_size(FTI_COMM_WORLD, &mainstay_fti.ranks);
  why = read_settings(configFile);
  if (mainstay_fti_any(why)) {
    forget();
    return why ? mainstay_fti_result(call, why, FTI_NSCS) : FTI_NSCS;
  }
  if (mainstay_fti.rank == 0) say_the_rest();
  why = open_space();
  if (why) {
    forget();
    return mainstay_fti_result(call, why, FTI_NSCS);
  }
  mainstay_fti.is_open = 1;
  mainstay_fti.next_id = 1;
  if (mainstay_revisions(mainstay_fti.session, &count) != MAINSTAY_OK || !count) return FTI_SCES;
  if (!mainstay_fti_go_back()) return FTI_NREC;
  recover_names();
  mainstay_fti.recovery = mainstay_fti.is_of_subsets ? 3 : 1;
  return FTI_SCES;
}

int FTI_Status(void) { return mainstay_fti.recovery; }

int FTI_Finalize(void) {
  const int stays = number("basic:keep_last_ckpt") > 0 || number("basic:keep_l4_ckpt") > 0;
  mainstay_status status;
  char *space, *level;
  if (mainstay_fti_is_closed("FTI_Finalize")) return FTI_NSCS;
  status = mainstay_close(mainstay_fti.session);
  if (status != MAINSTAY_OK) mainstay_fti_fail("FTI_Finalize", mainstay_error_message());
  MPI_Barrier(FTI_COMM_WORLD);
  if (!stays && status == MAINSTAY_OK) {
    space = stand_in_text("%s/mainstay", mainstay_fti.global);
    level = stand_in_text("%s/mainstay", mainstay_fti.local);
    if (mainstay_fti.rank == 0) stand_in_remove_folder(space);
    stand_in_remove_folder(level);
    free(space);
    free(level);
    MPI_Barrier(FTI_COMM_WORLD);
  }
  MPI_Comm_free(&FTI_COMM_WORLD);
  forget();
  return status == MAINSTAY_OK ? FTI_SCES : FTI_NSCS;
}

/* Types */

static fti_id_t add_type(const char *call, size_t bytes) {
  if (types_count == TYPES_MAX) return mainstay_fti_fail(call, "there are more than 1024 types");
  types[types_count].bytes = bytes;
  types[types_count].element = MAINSTAY_BYTES;
  return types_count++;
}

static int is_type(const char *call, fti_id_t id) {
  if (id >= 0 && id < types_count) return 1;
  mainstay_fti_fail(call, "there is no such type; call FTI_InitType first");
  return 0;
}

int FTI_InitType(fti_id_t *type, int size) {
  const char *call = "FTI_InitType";
  if (!type || size <= 0) return mainstay_fti_fail(call, "the type is NULL, or its size is not positive");
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
  if (!h5group || !name) return mainstay_fti_fail("FTI_InitGroup", "the group or its name is NULL");
  memset(h5group, 0, sizeof *h5group);
  snprintf(h5group->name, sizeof h5group->name, "%s", name);
  snprintf(h5group->fullName, sizeof h5group->fullName, "%.127s/%.127s", parent ? parent->fullName : "", name);
  return FTI_SCES;
}

int FTI_RenameGroup(FTIT_H5Group *h5group, const char *name) {
  if (!h5group || !name) return mainstay_fti_fail("FTI_RenameGroup", "the group or its name is NULL");
  snprintf(h5group->name, sizeof h5group->name, "%s", name);
  return FTI_SCES;
}

/* Variables */

fti_variable *mainstay_fti_variable(int id) {
  size_t i;
  for (i = 0; i < mainstay_fti.variables_count; i++)
    if (mainstay_fti.variables[i].id == id) return &mainstay_fti.variables[i];
  return NULL;
}

static fti_variable *add_variable(int id) {
  fti_variable *one = mainstay_fti_variable(id);
  if (one) return one;
  mainstay_fti.variables =
      stand_in_memory(mainstay_fti.variables, (mainstay_fti.variables_count + 1) * sizeof *mainstay_fti.variables);
  one = &mainstay_fti.variables[mainstay_fti.variables_count++];
  memset(one, 0, sizeof *one);
  one->id = id;
  one->dataset = -1;
  return one;
}

int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid) {
  const char *call = "FTI_Protect";
  fti_variable *one;
  if (mainstay_fti_is_closed(call) || !is_type(call, tid)) return FTI_NSCS;
  if (count < 0 || (uint64_t)count > INT64_MAX / (types[tid].bytes ? types[tid].bytes : 1))
    return mainstay_fti_fail(call, "a negative count, or more bytes than memory has");
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
  fti_variable *one = mainstay_fti_is_closed(call) ? NULL : mainstay_fti_variable(id);
  if (one && one->is_protected) return one;
  if (mainstay_fti.is_open) mainstay_fti_fail(call, "no variable has this id; call FTI_Protect first");
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
  if (rank < 1 || rank > FTI_DIMENSIONS_MAX || !dimLength)
    return mainstay_fti_fail(call, "a dataset has 1 to 32 dimensions");
  for (i = 0; i < rank; i++) all *= dimLength[i];
  if (all != one->count) return mainstay_fti_fail(call, "the variable has another number of elements");
  one->dimensions = rank;
  for (i = 0; i < rank; i++) one->shape[i] = (uint64_t)dimLength[i];
  return FTI_SCES;
}

int FTI_getIDFromString(const char *name) {
  size_t i;
  if (mainstay_fti_is_closed("FTI_getIDFromString") || !name) return FTI_NSCS;
  for (i = 0; i < mainstay_fti.variables_count; i++)
    if (!strcmp(mainstay_fti.variables[i].name, name)) return mainstay_fti.variables[i].id;
  return FTI_NSCS;
}

int FTI_setIDFromString(const char *name) {
  const char *call = "FTI_setIDFromString";
  fti_variable *one;
  int id;
  if (mainstay_fti_is_closed(call)) return FTI_NSCS;
  if (!name || !*name || strlen(name) >= FTI_BUFS || strchr(name, '\n'))
    return mainstay_fti_fail(call, "a name has 1 to 255 characters, and no line break");
  id = FTI_getIDFromString(name);
  if (id >= 0) return id;
  for (id = 0; mainstay_fti_variable(id); id++);
  one = add_variable(id);
  snprintf(one->name, sizeof one->name, "%s", name);
  return id;
}

/* Global datasets */

fti_dataset *mainstay_fti_dataset(int id) {
  size_t i;
  for (i = 0; i < mainstay_fti.datasets_count; i++)
    if (mainstay_fti.datasets[i].id == id) return &mainstay_fti.datasets[i];
  return NULL;
}

static int set_lengths(const char *call, fti_dataset *of, int rank, const FTIT_hsize_t *lengths) {
  if (!of) return mainstay_fti_fail(call, "no dataset has this id; call FTI_DefineGlobalDataset first");
  if (rank < 1 || rank > FTI_DIMENSIONS_MAX || !lengths)
    return mainstay_fti_fail(call, "a dataset has 1 to 32 dimensions");
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
  if (mainstay_fti_is_closed(call) || !is_type(call, tid)) return FTI_NSCS;
  if (mainstay_fti_dataset(id)) return mainstay_fti_fail(call, "a dataset has this id already");
  one.type = types[tid];
  if (set_lengths(call, &one, rank, dimLength) != FTI_SCES) return FTI_NSCS;
  mainstay_fti.datasets =
      stand_in_memory(mainstay_fti.datasets, (mainstay_fti.datasets_count + 1) * sizeof *mainstay_fti.datasets);
  mainstay_fti.datasets[mainstay_fti.datasets_count++] = one;
  return FTI_SCES;
}

int FTI_UpdateGlobalDataset(int id, int rank, FTIT_hsize_t *dimLength) {
  if (mainstay_fti_is_closed("FTI_UpdateGlobalDataset")) return FTI_NSCS;
  return set_lengths("FTI_UpdateGlobalDataset", mainstay_fti_dataset(id), rank, dimLength);
}

static int place(const char *call, int id, int rank, const FTIT_hsize_t *offset, const FTIT_hsize_t *count, int did) {
  fti_variable *one = find(call, id);
  const fti_dataset *of = mainstay_fti_dataset(did);
  int64_t all = 1;
  int i;
  if (!one) return FTI_NSCS;
  if (!of || of->rank != rank || !offset || !count)
    return mainstay_fti_fail(call, "no dataset has this id and this number of dimensions");
  for (i = 0; i < rank; i++) {
    if (offset[i] < 0 || count[i] < 0) return mainstay_fti_fail(call, "an offset or a length is negative");
    all *= count[i];
  }
  if (all != one->count || one->type.bytes != of->type.bytes)
    return mainstay_fti_fail(call, "the variable has another number of elements, or another type");
  one->dataset = did;
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
  const fti_dataset *of = mainstay_fti_dataset(did);
  return of ? of->rank : mainstay_fti_fail("FTI_GetDatasetRank", "no dataset has this id");
}

FTIT_hsize_t *FTI_GetDatasetSpan(int did, int rank) {
  fti_dataset *of = mainstay_fti_dataset(did);
  if (of && of->rank == rank) return of->lengths;
  mainstay_fti_fail("FTI_GetDatasetSpan", "no dataset has this id and this number of dimensions");
  return NULL;
}

/* What Mainstay does not have */

int FTI_SendFile(const char *lpath, const char *rpath) {
  (void)lpath;
  (void)rpath;
  return mainstay_fti_fail("FTI_SendFile", "Mainstay sends no files; write to the shared file system, and register the "
                                           "file with mainstay_protect_output");
}

int FTI_GetStageDir(char *stageDir, int maxLen) {
  (void)stageDir;
  (void)maxLen;
  return mainstay_fti_fail("FTI_GetStageDir", "Mainstay sends no files; write to the shared file system");
}

int FTI_GetStageStatus(int ID) {
  (void)ID;
  return FTI_SI_NINI;
}

int FTI_BitFlip(int datasetID) {
  (void)datasetID;
  return mainstay_fti_fail("FTI_BitFlip", "Mainstay injects no errors; `mainstay rehearse` kills a job");
}

FTIT_allConfiguration FTI_GetConfig(const char *configFile, MPI_Comm globalComm) {
  const FTIT_allConfiguration none = {1};
  (void)configFile;
  (void)globalComm;
  mainstay_fti_fail("FTI_GetConfig", "Mainstay does not have FTI's structures; read the file itself");
  return none;
}
