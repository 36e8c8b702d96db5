/* FTI's functions on Mainstay: checkpoints and recovery. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "types.h"

/* Notes of a checkpoint. Its kind is SUBSETS, or something else. */
#define KIND "kind"
#define SUBSETS "subsets"
#define NAMES "names"
#define ID "id"
/* Bytes of the name of a variable: an int. */
enum { NAME_BYTES = 12 };

static char *because(mainstay_status status) { return status == MAINSTAY_OK ? NULL : mainstay_fti_message(); }

static uint64_t bytes_of(const fti_variable *one) { return (uint64_t)one->count * one->type.bytes; }

/* Checkpoints */

/* Sets the notes of the next checkpoint: its id and kind, and the names of variables. */
static char *set_notes(int id, int is_of_subsets) {
  mainstay_session *session = mainstay_fti.session;
  char *names = stand_in_text("%s", ""), *longer, *why, number[NAME_BYTES];
  size_t i;
  for (i = 0; i < mainstay_fti.variables_count; i++) {
    const fti_variable *one = &mainstay_fti.variables[i];
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
  mainstay_session *session = mainstay_fti.session;
  char name[NAME_BYTES], *why = NULL;
  size_t i;
  for (i = 0; i < mainstay_fti.variables_count && !why; i++) {
    const fti_variable *one = &mainstay_fti.variables[i];
    uint64_t bytes = bytes_of(one);
    if (!one->is_protected) continue;
    snprintf(name, sizeof name, "%d", one->id);
    if (one->type.element == MAINSTAY_BYTES)
      why = because(mainstay_protect(session, name, one->data, (size_t)bytes));
    else
      why = because(
          mainstay_protect_array(session, name, one->data, one->type.element, (size_t)one->dimensions, one->shape));
  }
  if (!mainstay_fti_any(why))
    why = because(mainstay_checkpoint(session, NULL));
  else if (!why)
    why = stand_in_text("another rank could not save its variables; nothing is saved");
  mainstay_unprotect_all(session);
  return why;
}

/* Bytes that a checkpoint of FTI_InitICP, or of subsets, may have. */
static uint64_t bytes_of_all(int is_of_subsets) {
  uint64_t all = 0;
  size_t i;
  for (i = 0; i < mainstay_fti.variables_count; i++) {
    const fti_variable *one = &mainstay_fti.variables[i];
    if (one->is_protected && (!is_of_subsets || one->dataset >= 0))
      all += is_of_subsets ? mainstay_fti_subset_bytes(one) : bytes_of(one);
  }
  return all;
}

/* Begins a checkpoint in pieces. Collective. */
static char *begin(int id, int is_of_subsets) {
  char *why = set_notes(id, is_of_subsets);
  if (mainstay_fti_any(why)) return why ? why : stand_in_text("another rank could not begin the checkpoint");
  mainstay_fti.chosen = 0;
  return because(mainstay_begin(mainstay_fti.session, bytes_of_all(is_of_subsets), NULL));
}

/* Writes a variable to the checkpoint that has begun. */
static char *add(const fti_variable *one, int is_of_subsets) {
  char name[NAME_BYTES];
  if (is_of_subsets && one->dataset < 0)
    return stand_in_text("variable %d is no subset of a global dataset; call FTI_AddSubset first", one->id);
  if (is_of_subsets) return mainstay_fti_write_subset(one);
  snprintf(name, sizeof name, "%d", one->id);
  return because(mainstay_write(mainstay_fti.session, name, 0, one->data, (size_t)bytes_of(one)));
}

/* Completes the checkpoint that has begun, unless a rank has a reason against it. Takes over that. Collective. */
static char *complete(char *why) {
  if (!mainstay_fti_any(why)) return because(mainstay_checkpoint(mainstay_fti.session, NULL));
  mainstay_abandon(mainstay_fti.session);
  return why ? why : stand_in_text("another rank could not save its variables; nothing is saved");
}

static char *save_subsets(int id) {
  char *why = begin(id, 1);
  size_t i;
  if (why) return why;
  for (i = 0; i < mainstay_fti.variables_count && !why; i++)
    if (mainstay_fti.variables[i].is_protected && mainstay_fti.variables[i].dataset >= 0)
      why = add(&mainstay_fti.variables[i], 1);
  return complete(why);
}

static int is_level(const char *call, int level) {
  if (level >= FTI_MIN_LEVEL_ID && level <= FTI_MAX_LEVEL_ID) return 1;
  mainstay_fti_fail(call, "there is no such level");
  return 0;
}

int FTI_Checkpoint(int id, int level) {
  const char *call = "FTI_Checkpoint";
  char *why;
  if (mainstay_fti_is_closed(call) || !is_level(call, level)) return FTI_NSCS;
  if (mainstay_fti.has_begun) return mainstay_fti_fail(call, "call FTI_FinalizeICP first");
  if (level == FTI_L4_H5_SINGLE) {
    why = save_subsets(id);
  } else {
    why = set_notes(id, 0);
    mainstay_fti.chosen = 0;
    if (!mainstay_fti_any(why))
      why = save_variables();
    else if (!why)
      why = stand_in_text("another rank could not begin the checkpoint");
  }
  return why ? mainstay_fti_result(call, why, FTI_NSCS) : FTI_DONE;
}

int FTI_Snapshot(void) {
  const char *call = "FTI_Snapshot";
  int due = 0, code = FTI_SCES;
  if (mainstay_fti_is_closed(call)) return FTI_NSCS;
  if (mainstay_fti.recovery) return FTI_Recover();
  if (mainstay_due(mainstay_fti.session, ++mainstay_fti.snapshots, &due) != MAINSTAY_OK)
    return mainstay_fti_result(call, mainstay_fti_message(), FTI_NSCS);
  if (due) code = FTI_Checkpoint(mainstay_fti.next_id, FTI_L1);
  mainstay_fti.next_id += code == FTI_DONE;
  return code;
}

int FTI_InitICP(int id, int level, bool activate) {
  const char *call = "FTI_InitICP";
  char *why;
  if (mainstay_fti_is_closed(call)) return FTI_NSCS;
  if (mainstay_fti.has_begun) return mainstay_fti_fail(call, "call FTI_FinalizeICP first");
  if (activate && !is_level(call, level)) return FTI_NSCS;
  mainstay_fti.begun_of_subsets = level == FTI_L4_H5_SINGLE;
  why = activate ? begin(id, mainstay_fti.begun_of_subsets) : NULL;
  mainstay_fti.has_begun = !why;
  mainstay_fti.is_active = activate;
  return mainstay_fti_result(call, why, FTI_NSCS);
}

int FTI_AddVarICP(int varID) {
  const char *call = "FTI_AddVarICP";
  const fti_variable *one;
  if (mainstay_fti_is_closed(call)) return FTI_NSCS;
  if (!mainstay_fti.has_begun) return mainstay_fti_fail(call, "call FTI_InitICP first");
  if (!mainstay_fti.is_active) return FTI_SCES;
  one = mainstay_fti_variable(varID);
  if (!one || !one->is_protected) return mainstay_fti_fail(call, "no variable has this id; call FTI_Protect first");
  return mainstay_fti_result(call, add(one, mainstay_fti.begun_of_subsets), FTI_NSCS);
}

int FTI_FinalizeICP(void) {
  const char *call = "FTI_FinalizeICP";
  if (mainstay_fti_is_closed(call)) return FTI_NSCS;
  if (!mainstay_fti.has_begun) return mainstay_fti_fail(call, "call FTI_InitICP first");
  mainstay_fti.has_begun = 0;
  return mainstay_fti.is_active ? mainstay_fti_result(call, complete(NULL), FTI_NSCS) : FTI_SCES;
}

/* Recovery */

int mainstay_fti_go_back(void) {
  mainstay_session *session = mainstay_fti.session;
  mainstay_restored restored;
  const char *kind;
  char *why;
  uint32_t shards = 0;
  if (mainstay_fti.chosen) return 1;
  if (mainstay_choose(session, MAINSTAY_NEWEST, &restored) != MAINSTAY_OK) {
    if (mainstay_fti.rank == 0) stand_in_say("no checkpoint can be read: %s", mainstay_error_message());
    return 0;
  }
  kind = mainstay_restored_note(session, KIND);
  mainstay_fti.is_of_subsets = kind && !strcmp(kind, SUBSETS);
  mainstay_shards(session, &shards);
  if (restored.revision && !mainstay_fti.is_of_subsets && shards != (uint32_t)mainstay_fti.ranks) {
    if (mainstay_fti.rank == 0)
      stand_in_say("%u ranks saved the checkpoint, and this job has %d; start it with %u", shards, mainstay_fti.ranks,
                   shards);
    return 0;
  }
  if (mainstay_fti.is_of_subsets && (why = mainstay_fti_bring_subsets())) {
    free(why);
    if (mainstay_fti.rank == 0) stand_in_say("no subset can be read: %s", mainstay_error_message());
    return 0;
  }
  mainstay_fti.chosen = restored.revision;
  return restored.revision != 0;
}

/* The item that was saved of a variable; 0: there is none. */
static int find_item(int id, mainstay_item *item) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%d", id);
  return stand_in_find_item(mainstay_fti.session, (uint32_t)mainstay_fti.rank, name, item) >= 0;
}

int64_t FTI_GetStoredSize(int id) {
  const fti_variable *one = mainstay_fti_variable(id);
  mainstay_item item;
  if (mainstay_fti_is_closed("FTI_GetStoredSize")) return 0;
  if (mainstay_fti.chosen) return find_item(id, &item) ? (int64_t)item.bytes : 0;
  return one && one->is_protected ? (int64_t)bytes_of(one) : 0;
}

void *FTI_Realloc(int id, void *ptr) {
  const char *call = "FTI_Realloc";
  fti_variable *one = mainstay_fti_variable(id);
  mainstay_item item;
  void *memory;
  if (mainstay_fti_is_closed(call)) return ptr;
  if (!mainstay_fti.chosen || !find_item(id, &item) || !one || !one->is_protected || !item.bytes) {
    mainstay_fti_fail(call, "nothing was saved of this variable, or it is not protected");
    return ptr;
  }
  memory = realloc(ptr, (size_t)item.bytes);
  if (!memory) {
    mainstay_fti_fail(call, "there is no memory");
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
  return because(mainstay_read_shard(mainstay_fti.session, (uint32_t)mainstay_fti.rank, name, 0, one->data,
                                     (size_t)item.bytes, &got));
}

/* Whether as many variables are protected as were saved. */
static char *compare_counts(void) {
  size_t saved = 0, here = 0, i;
  if (mainstay_shard_items(mainstay_fti.session, (uint32_t)mainstay_fti.rank, &saved) != MAINSTAY_OK)
    return mainstay_fti_message();
  for (i = 0; i < mainstay_fti.variables_count; i++) here += (size_t)mainstay_fti.variables[i].is_protected;
  return here == saved ? NULL : stand_in_text("%zu variables were saved, and %zu are protected", saved, here);
}

int FTI_Recover(void) {
  const char *call = "FTI_Recover";
  char *why = NULL;
  size_t i;
  if (mainstay_fti_is_closed(call)) return FTI_NREC;
  if (!mainstay_fti_go_back()) return mainstay_fti_result(call, stand_in_text("there is no checkpoint"), FTI_NREC);
  if (mainstay_fti.is_of_subsets) {
    why = mainstay_fti_fill_subsets(NULL);
  } else {
    why = compare_counts();
    for (i = 0; i < mainstay_fti.variables_count && !why; i++)
      if (mainstay_fti.variables[i].is_protected) why = fill(&mainstay_fti.variables[i]);
  }
  if (!why) mainstay_fti.recovery = 0;
  return mainstay_fti_result(call, why, FTI_NREC);
}

int FTI_RecoverVarInit(void) {
  const char *call = "FTI_RecoverVarInit";
  if (mainstay_fti_is_closed(call)) return FTI_NREC;
  return mainstay_fti_go_back() ? FTI_SCES
                                : mainstay_fti_result(call, stand_in_text("there is no checkpoint"), FTI_NREC);
}

int FTI_RecoverVar(int id) {
  const char *call = "FTI_RecoverVar";
  const fti_variable *one = mainstay_fti_variable(id);
  char *why = NULL;
  if (mainstay_fti_is_closed(call)) return FTI_NREC;
  if (!mainstay_fti_go_back())
    why = stand_in_text("there is no checkpoint");
  else if (!one || !one->is_protected)
    why = stand_in_text("variable %d is not protected; call FTI_Protect first", id);
  else
    why = mainstay_fti.is_of_subsets ? mainstay_fti_fill_subsets(&id) : fill(one);
  return mainstay_fti_result(call, why, FTI_NREC);
}

int FTI_RecoverVarFinalize(void) {
  if (mainstay_fti_is_closed("FTI_RecoverVarFinalize")) return FTI_NREC;
  mainstay_fti.recovery = 0;
  return FTI_SCES;
}
