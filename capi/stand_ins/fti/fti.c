/* FTI's functions on Mainstay: begin and end. Licence: MIT OR Apache-2.0.
 *
 * The space is the directory `mainstay` in glbl_dir, with a level in ckpt_dir before it. A checkpoint is a revision;
 * its variables are regions, or streams in a checkpoint of FTI_InitICP, with their ids as names. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fti_state fti;

MPI_Comm FTI_COMM_WORLD = MPI_COMM_NULL;
fti_id_t FTI_CHAR = 0, FTI_SHRT = 1, FTI_INTG = 2, FTI_LONG = 3, FTI_UCHR = 4, FTI_USHT = 5, FTI_UINT = 6, FTI_ULNG = 7,
         FTI_SFLT = 8, FTI_DBLE = 9, FTI_LDBE = 10;

int fail(const char *call, const char *why) {
  stand_in_say("%s: %s", call, why);
  return FTI_NSCS;
}

int result(const char *call, char *why, int failure) {
  if (why) fail(call, why);
  free(why);
  return why ? failure : FTI_SCES;
}

int is_closed(const char *call) {
  if (fti.is_open) return 0;
  fail(call, "FTI is not initialized; call FTI_Init first");
  return 1;
}

int on_any(int is) { return stand_in_on_any(FTI_COMM_WORLD, is); }

char *message(void) { return stand_in_text("%s", stand_in_message()); }

static char *open_space(void) {
  stand_in_space space = {
      .path = fti.space,
      .node = fti.node,
      .has_level = 1,
      .keep = "2",
      .capture = is_on("basic:enable_dcp") ? "incremental" : NULL,
      .every_seconds = interval_s(),
      .of_every_seconds = "FTI's ckpt_L1 to ckpt_L4, in minutes",
  };
  return stand_in_open(FTI_COMM_WORLD, &space, &fti.session);
}

static void forget(void) {
  size_t i;
  for (i = 0; i < fti.datasets_count; i++) forget_saved(&fti.datasets[i]);
  stand_in_forget_settings(&fti.settings);
  free(fti.space);
  free(fti.node);
  free(fti.variables);
  free(fti.datasets);
  memset(&fti, 0, sizeof fti);
  MPI_Comm_free(&FTI_COMM_WORLD);
}

/* Reads the settings, opens the space, and counts the complete revisions in it. */
static char *begin(const char *path, size_t *revisions) {
  char *why = read_settings(path);
  if (on_any(why != NULL)) return why ? why : stand_in_text("another rank cannot use its configuration file");
  why = open_space();
  if (why || mainstay_revisions(fti.session, revisions) == MAINSTAY_OK) return why;
  why = message();
  mainstay_close(fti.session);
  return why;
}

int FTI_Init(const char *configFile, MPI_Comm globalComm) {
  size_t revisions = 0;
  char *why;
  if (fti.is_open) return FTI_SCES;
  MPI_Comm_dup(globalComm, &FTI_COMM_WORLD);
  MPI_Comm_rank(FTI_COMM_WORLD, &fti.rank);
  MPI_Comm_size(FTI_COMM_WORLD, &fti.ranks);
  why = begin(configFile, &revisions);
  if (why) {
    forget();
    return result("FTI_Init", why, FTI_NSCS);
  }
  fti.is_open = 1;
  fti.next_id = 1;
  if (!revisions) return FTI_SCES;
  if (!go_back()) return FTI_NREC;
  recover_names();
  fti.recovery = fti.is_of_subsets ? 3 : 1;
  return FTI_SCES;
}

int FTI_Status(void) { return fti.recovery; }

int FTI_Finalize(void) {
  const int stays = is_on("basic:keep_last_ckpt") || is_on("basic:keep_l4_ckpt");
  mainstay_status status;
  if (is_closed("FTI_Finalize")) return FTI_NSCS;
  status = mainstay_close(fti.session);
  if (status != MAINSTAY_OK) fail("FTI_Finalize", stand_in_message());
  MPI_Barrier(FTI_COMM_WORLD);
  if (!stays && status == MAINSTAY_OK) {
    if (fti.rank == 0) stand_in_remove_folder(fti.space);
    stand_in_remove_folder(fti.node);
    MPI_Barrier(FTI_COMM_WORLD);
  }
  forget();
  return status == MAINSTAY_OK ? FTI_SCES : FTI_NSCS;
}

/* Functions without a counterpart */

int FTI_SendFile(const char *lpath, const char *rpath) {
  (void)lpath;
  (void)rpath;
  return fail("FTI_SendFile", "Mainstay sends no files; write to the shared file system");
}

int FTI_GetStageDir(char *stageDir, int maxLen) {
  (void)stageDir;
  (void)maxLen;
  return fail("FTI_GetStageDir", "Mainstay sends no files; write to the shared file system");
}

int FTI_GetStageStatus(int ID) {
  (void)ID;
  return FTI_SI_NINI;
}

int FTI_BitFlip(int datasetID) {
  (void)datasetID;
  return fail("FTI_BitFlip", "Mainstay injects no errors; `mainstay rehearse` kills a job");
}

FTIT_allConfiguration FTI_GetConfig(const char *configFile, MPI_Comm globalComm) {
  const FTIT_allConfiguration none = {1};
  (void)configFile;
  (void)globalComm;
  fail("FTI_GetConfig", "Mainstay does not have FTI's structures; read the file itself");
  return none;
}
