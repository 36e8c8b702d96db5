/* FTI's functions on Mainstay: checkpoints and recovery. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

/* Notes of a checkpoint. Its kind is SUBSETS, or something else. */
#define KIND "kind"
#define SUBSETS "subsets"
#define NAMES "names"
#define ID "id"
/* Bytes of the name of a variable: an int. */
enum { NAME_BYTES = 12 };

static char *because(mainstay_status status) { return status == MAINSTAY_OK ? NULL : message(); }

static uint64_t bytes_of(const fti_variable *one) { return (uint64_t)one->count * one->type.bytes; }

/* Checkpoints */

/* Sets the notes of the next checkpoint: its id and kind, and the names of variables. */
static char *set_notes(int id, int is_of_subsets) {
  mainstay_session *session = fti.session;
  char *names = stand_in_text("%s", ""), *longer, *why, number[NAME_BYTES];
  size_t i;
  for (i = 0; i < fti.variables_count; i++) {
    const fti_variable *one = &fti.variables[i];
    if (!one->name[0]) continue;
    longer = stand_in_text("%s%d %s\n", names, one->id, one->name);
    free(names);
    names = longer;
  }
  snprintf(number, sizeof number, "%d", id);
  why = because(mainstay_note(session, NAMES, names));
  if (!why) why = because(mainstay_note(session, ID, number));
  if (!why) why = because(mainstay_note(session, KIND, is_of_subsets ? SUBSETS : "variables"));
  free(names);
  return why;
}

/* The variables are protected for this call alone: a program may free their memory after it. Collective. */
static char *save_variables(void) {
  mainstay_session *session = fti.session;
  char name[NAME_BYTES], *why = NULL;
  size_t i;
  for (i = 0; i < fti.variables_count && !why; i++) {
    const fti_variable *one = &fti.variables[i];
    uint64_t bytes = bytes_of(one);
    if (!one->is_protected) continue;
    snprintf(name, sizeof name, "%d", one->id);
    if (one->type.element == MAINSTAY_BYTES)
      why = because(mainstay_protect(session, name, one->data, (size_t)bytes));
    else
      why = because(
          mainstay_protect_array(session, name, one->data, one->type.element, (size_t)one->dimensions, one->shape));
  }
  if (!on_any(why != NULL))
    why = because(mainstay_checkpoint(session, NULL));
  else if (!why)
    why = stand_in_text("another rank could not save its variables; nothing is saved");
  mainstay_unprotect_all(session);
  return why;
}

/* Most bytes of a checkpoint of FTI_InitICP, or of subsets. */
static uint64_t bytes_of_all(int is_of_subsets) {
  uint64_t all = 0;
  size_t i;
  for (i = 0; i < fti.variables_count; i++) {
    const fti_variable *one = &fti.variables[i];
    if (one->is_protected && (!is_of_subsets || one->dataset >= 0))
      all += is_of_subsets ? bytes_of_subset(one) : bytes_of(one);
  }
  return all;
}

/* Opens a checkpoint that the program fills piece by piece. Collective. */
static char *begin(int id, int is_of_subsets) {
  char *why = set_notes(id, is_of_subsets);
  if (on_any(why != NULL)) return why ? why : stand_in_text("another rank could not begin the checkpoint");
  fti.chosen = 0;
  return because(mainstay_begin(fti.session, bytes_of_all(is_of_subsets), NULL));
}

/* Writes a variable to the open checkpoint. */
static char *add(const fti_variable *one, int is_of_subsets) {
  char name[NAME_BYTES];
  if (is_of_subsets && one->dataset < 0)
    return stand_in_text("variable %d is no subset of a global dataset; call FTI_AddSubset first", one->id);
  if (is_of_subsets) return write_subset(one);
  snprintf(name, sizeof name, "%d", one->id);
  return because(mainstay_write(fti.session, name, 0, one->data, (size_t)bytes_of(one)));
}

/* Completes the open checkpoint, or abandons it if a rank has an error, `why`. Frees `why` unless it returns it.
 * Collective. */
static char *complete(char *why) {
  if (!on_any(why != NULL)) return because(mainstay_checkpoint(fti.session, NULL));
  mainstay_abandon(fti.session);
  return why ? why : stand_in_text("another rank could not save its variables; nothing is saved");
}

static char *save_subsets(int id) {
  char *why = begin(id, 1);
  size_t i;
  if (why) return why;
  for (i = 0; i < fti.variables_count && !why; i++)
    if (fti.variables[i].is_protected && fti.variables[i].dataset >= 0) why = add(&fti.variables[i], 1);
  return complete(why);
}

static int is_level(const char *call, int level) {
  if (level >= FTI_MIN_LEVEL_ID && level <= FTI_MAX_LEVEL_ID) return 1;
  fail(call, "there is no such level");
  return 0;
}

int FTI_Checkpoint(int id, int level) {
  const char *call = "FTI_Checkpoint";
  char *why;
  if (is_closed(call) || !is_level(call, level)) return FTI_NSCS;
  if (fti.is_icp_open) return fail(call, "call FTI_FinalizeICP first");
  if (level == FTI_L4_H5_SINGLE) {
    why = save_subsets(id);
  } else {
    why = set_notes(id, 0);
    fti.chosen = 0;
    if (!on_any(why != NULL))
      why = save_variables();
    else if (!why)
      why = stand_in_text("another rank could not begin the checkpoint");
  }
  return why ? result(call, why, FTI_NSCS) : FTI_DONE;
}

int FTI_Snapshot(void) {
  const char *call = "FTI_Snapshot";
  int due = 0, code = FTI_SCES;
  if (is_closed(call)) return FTI_NSCS;
  if (fti.recovery) return FTI_Recover();
  if (mainstay_due(fti.session, ++fti.snapshots, &due) != MAINSTAY_OK) return result(call, message(), FTI_NSCS);
  if (due) code = FTI_Checkpoint(fti.next_id, FTI_L1);
  fti.next_id += code == FTI_DONE;
  return code;
}

int FTI_InitICP(int id, int level, bool activate) {
  const char *call = "FTI_InitICP";
  char *why;
  size_t i;
  if (is_closed(call)) return FTI_NSCS;
  if (fti.is_icp_open) return fail(call, "call FTI_FinalizeICP first");
  if (activate && !is_level(call, level)) return FTI_NSCS;
  fti.is_icp_of_subsets = level == FTI_L4_H5_SINGLE;
  for (i = 0; i < fti.variables_count; i++) fti.variables[i].is_added = 0;
  why = activate ? begin(id, fti.is_icp_of_subsets) : NULL;
  fti.is_icp_open = !why;
  fti.is_active = activate;
  return result(call, why, FTI_NSCS);
}

int FTI_AddVarICP(int varID) {
  const char *call = "FTI_AddVarICP";
  fti_variable *one;
  char *why;
  if (is_closed(call)) return FTI_NSCS;
  if (!fti.is_icp_open) return fail(call, "call FTI_InitICP first");
  if (!fti.is_active) return FTI_SCES;
  one = find_variable(varID);
  if (!one || !one->is_protected) return fail(call, "no variable has this id; call FTI_Protect first");
  why = add(one, fti.is_icp_of_subsets);
  one->is_added = !why;
  return result(call, why, FTI_NSCS);
}

/* Returns an error if a variable was not added: FTI_Recover needs all of them. */
static char *find_missing(void) {
  size_t i;
  for (i = 0; i < fti.variables_count; i++) {
    const fti_variable *one = &fti.variables[i];
    if (one->is_protected && !one->is_added && (!fti.is_icp_of_subsets || one->dataset >= 0))
      return stand_in_text("variable %d was not added; nothing is saved", one->id);
  }
  return NULL;
}

int FTI_FinalizeICP(void) {
  const char *call = "FTI_FinalizeICP";
  if (is_closed(call)) return FTI_NSCS;
  if (!fti.is_icp_open) return fail(call, "call FTI_InitICP first");
  fti.is_icp_open = 0;
  return fti.is_active ? result(call, complete(find_missing()), FTI_NSCS) : FTI_SCES;
}

/* Recovery */

int go_back(void) {
  mainstay_session *session = fti.session;
  mainstay_restored restored;
  const char *kind, *id;
  char *why;
  uint32_t shards = 0;
  if (fti.chosen) return 1;
  if (stand_in_choose(FTI_COMM_WORLD, session, MAINSTAY_NEWEST, &restored, &fti.snapshots) != MAINSTAY_OK) {
    if (fti.rank == 0) stand_in_say("no checkpoint can be read: %s", stand_in_message());
    return 0;
  }
  kind = mainstay_restored_note(session, KIND);
  fti.is_of_subsets = kind && !strcmp(kind, SUBSETS);
  mainstay_shards(session, &shards);
  if (restored.revision && !fti.is_of_subsets && shards != (uint32_t)fti.ranks) {
    if (fti.rank == 0)
      stand_in_say("%u ranks saved the checkpoint, and this job has %d; start it with %u", shards, fti.ranks, shards);
    return 0;
  }
  if (fti.is_of_subsets && (why = bring_subsets())) {
    free(why);
    if (fti.rank == 0) stand_in_say("no subset can be read: %s", stand_in_message());
    return 0;
  }
  fti.chosen = restored.revision;
  id = mainstay_restored_note(session, ID);
  if (id) fti.next_id = (int)strtol(id, NULL, 10) + 1;
  return restored.revision != 0;
}

/* Finds the saved item of a variable. Returns 0 if there is none. */
static int find_item(int id, mainstay_item *item) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%d", id);
  return stand_in_find_item(fti.session, (uint32_t)fti.rank, name, item) >= 0;
}

int64_t FTI_GetStoredSize(int id) {
  const fti_variable *one = find_variable(id);
  mainstay_item item;
  if (is_closed("FTI_GetStoredSize")) return 0;
  if (fti.chosen) return find_item(id, &item) ? (int64_t)item.bytes : 0;
  return one && one->is_protected ? (int64_t)bytes_of(one) : 0;
}

void *FTI_Realloc(int id, void *ptr) {
  const char *call = "FTI_Realloc";
  fti_variable *one = find_variable(id);
  mainstay_item item;
  void *memory;
  if (is_closed(call)) return ptr;
  if (!fti.chosen || !find_item(id, &item) || !one || !one->is_protected || !item.bytes) {
    fail(call, "nothing was saved of this variable, or it is not protected");
    return ptr;
  }
  memory = realloc(ptr, (size_t)item.bytes);
  if (!memory) {
    fail(call, "there is no memory");
    return ptr;
  }
  one->data = memory;
  one->count = (int64_t)(item.bytes / one->type.bytes);
  one->dimensions = 1;
  one->shape[0] = (uint64_t)one->count;
  return memory;
}

static char *fill(const fti_variable *one) {
  char name[NAME_BYTES];
  mainstay_item item;
  size_t got = 0;
  if (!find_item(one->id, &item)) return stand_in_text("nothing was saved of variable %d", one->id);
  if (item.bytes != bytes_of(one))
    return stand_in_text("variable %d has %llu bytes, and %llu were saved; call FTI_Realloc, or protect as many",
                         one->id, (unsigned long long)bytes_of(one), (unsigned long long)item.bytes);
  snprintf(name, sizeof name, "%d", one->id);
  return because(mainstay_read_shard(fti.session, (uint32_t)fti.rank, name, 0, one->data, (size_t)item.bytes, &got));
}

/* Whether as many variables are protected as were saved. */
static char *compare_counts(void) {
  size_t saved = 0, here = 0, i;
  if (mainstay_shard_items(fti.session, (uint32_t)fti.rank, &saved) != MAINSTAY_OK) return message();
  for (i = 0; i < fti.variables_count; i++) here += (size_t)fti.variables[i].is_protected;
  return here == saved ? NULL : stand_in_text("%zu variables were saved, and %zu are protected", saved, here);
}

int FTI_Recover(void) {
  const char *call = "FTI_Recover";
  char *why = NULL;
  size_t i;
  if (is_closed(call)) return FTI_NREC;
  if (!go_back()) return result(call, stand_in_text("there is no checkpoint"), FTI_NREC);
  if (fti.is_of_subsets) {
    why = fill_subsets(NULL);
  } else {
    why = compare_counts();
    for (i = 0; i < fti.variables_count && !why; i++)
      if (fti.variables[i].is_protected) why = fill(&fti.variables[i]);
  }
  if (!why) fti.recovery = 0;
  return result(call, why, FTI_NREC);
}

int FTI_RecoverVarInit(void) {
  const char *call = "FTI_RecoverVarInit";
  if (is_closed(call)) return FTI_NREC;
  return go_back() ? FTI_SCES : result(call, stand_in_text("there is no checkpoint"), FTI_NREC);
}

int FTI_RecoverVar(int id) {
  const char *call = "FTI_RecoverVar";
  const fti_variable *one = find_variable(id);
  char *why = NULL;
  if (is_closed(call)) return FTI_NREC;
  if (!go_back())
    why = stand_in_text("there is no checkpoint");
  else if (!one || !one->is_protected)
    why = stand_in_text("variable %d is not protected; call FTI_Protect first", id);
  else
    why = fti.is_of_subsets ? fill_subsets(&id) : fill(one);
  return result(call, why, FTI_NREC);
}

int FTI_RecoverVarFinalize(void) {
  if (is_closed("FTI_RecoverVarFinalize")) return FTI_NREC;
  fti.recovery = 0;
  return FTI_SCES;
}
