/* VeloC's functions on Mainstay: checkpoints. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>

int VELOC_Checkpoint_begin(const char *name, int version) {
  checkpoint *one = enter("VELOC_Checkpoint_begin", name, version, SAVING);
  regions *of;
  if (!one) return VELOC_FAILURE;
  of = regions_of(name);
  choose(of, VELOC_CKPT_SOME, NULL, 0);
  return VELOC_SUCCESS;
}

int VELOC_Checkpoint_selective(int mode, int *ids, int id_count) {
  const char *call = "VELOC_Checkpoint_selective";
  regions *of;
  size_t i, chosen = 0;
  if (is_closed(call)) return VELOC_FAILURE;
  if (veloc.phase != SAVING) return fail(call, "call VELOC_Checkpoint_begin first");
  of = regions_of(veloc.checkpoints[veloc.current].name);
  choose(of, mode, ids, id_count);
  for (i = 0; i < of->count; i++) chosen += (size_t)of->all[i].is_chosen;
  return chosen ? VELOC_SUCCESS : fail(call, "no region is chosen; protect regions first");
}

int VELOC_Checkpoint_mem(void) { return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0); }

static mainstay_status protect(const checkpoint *one, const regions *of) {
  char name[ID_BYTES];
  mainstay_status status = MAINSTAY_OK;
  size_t i;
  for (i = 0; i < of->count && status == MAINSTAY_OK; i++) {
    snprintf(name, sizeof name, "%d", of->all[i].id);
    if (of->all[i].is_chosen) status = mainstay_protect(one->session, name, of->all[i].data, of->all[i].bytes);
  }
  return status;
}

/* Saves the protected regions, and the routed file if any rank has one. `bytes`: those of the file. Collective. */
static char *save(checkpoint *one, int64_t bytes, int has_files) {
  char *why = NULL;
  if (has_files) {
    if (mainstay_begin(one->session, bytes > 0 ? (uint64_t)bytes : 0, NULL) != MAINSTAY_OK)
      return stand_in_text("%s", stand_in_message());
    if (bytes >= 0) why = stand_in_save_file(one->session, FILE_STREAM, veloc.file);
    if (stand_in_on_any(veloc.comm, why != NULL)) {
      mainstay_abandon(one->session);
      return why ? why : stand_in_text("another rank could not read its file; nothing is saved");
    }
  }
  if (mainstay_checkpoint(one->session, NULL) != MAINSTAY_OK) why = stand_in_text("%s", stand_in_message());
  return why;
}

/* The regions are protected for this call alone: a program of VeloC may free their memory after it. Collective. */
static char *save_version(checkpoint *one, int64_t bytes, int has_files) {
  char version[ID_BYTES], *why = NULL;
  snprintf(version, sizeof version, "%d", veloc.version);
  one->restored = -1;
  one->has_saved = 1;
  if (protect(one, regions_of(one->name)) != MAINSTAY_OK ||
      mainstay_note(one->session, VERSION, version) != MAINSTAY_OK)
    why = stand_in_text("%s", stand_in_message());
  if (!stand_in_on_any(veloc.comm, why != NULL))
    why = save(one, bytes, has_files);
  else if (!why)
    why = stand_in_text("another rank could not save version %d; nothing is saved", veloc.version);
  mainstay_unprotect_all(one->session);
  return why;
}

int VELOC_Checkpoint_end(int success) {
  const char *call = "VELOC_Checkpoint_end";
  checkpoint *one;
  int64_t bytes;
  char *why;
  if (is_closed(call)) return VELOC_FAILURE;
  if (veloc.phase != SAVING) return fail(call, "call VELOC_Checkpoint_begin first");
  one = &veloc.checkpoints[veloc.current];
  bytes = veloc.file ? stand_in_file_bytes(veloc.file) : -1;
  if (stand_in_on_any(veloc.comm, !success))
    why = stand_in_text("a rank reported a failure; version %d is not saved", veloc.version);
  else
    why = save_version(one, bytes, stand_in_on_any(veloc.comm, bytes >= 0));
  leave();
  if (!why && !strcmp(setting("mode"), "sync") && mainstay_wait(one->session) != MAINSTAY_OK)
    why = stand_in_text("%s", stand_in_message());
  return result(call, why);
}

int VELOC_Checkpoint_wait(void) {
  const char *call = "VELOC_Checkpoint_wait";
  int code = VELOC_SUCCESS;
  size_t i;
  if (is_closed(call)) return VELOC_FAILURE;
  if (veloc.phase == SAVING) return fail(call, "a checkpoint has begun; call VELOC_Checkpoint_end first");
  for (i = 0; i < veloc.checkpoints_count; i++) {
    mainstay_session *session = veloc.checkpoints[i].session;
    if (!veloc.checkpoints[i].has_saved) continue;
    if (mainstay_wait(session) != MAINSTAY_OK || mainstay_wait_for(session, "space") != MAINSTAY_OK)
      code = failed(call);
  }
  return code;
}

int VELOC_Checkpoint_finished(void) {
  int durable = 1;
  size_t i;
  if (is_closed("VELOC_Checkpoint_finished")) return VELOC_FAILURE;
  if (veloc.phase == SAVING) return 0;
  for (i = 0; i < veloc.checkpoints_count && durable; i++)
    if (mainstay_poll(veloc.checkpoints[i].session, &durable) != MAINSTAY_OK)
      return failed("VELOC_Checkpoint_finished");
  return durable;
}

int VELOC_Checkpoint(const char *name, int version) {
  int code = VELOC_Checkpoint_begin(name, version);
  if (code != VELOC_SUCCESS) return code;
  code = VELOC_Checkpoint_mem();
  return VELOC_Checkpoint_end(code == VELOC_SUCCESS) == VELOC_SUCCESS ? code : VELOC_FAILURE;
}
