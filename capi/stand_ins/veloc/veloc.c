/* VeloC's functions on Mainstay: libveloc-client, its begin and its end. Licence: MIT OR Apache-2.0.
 *
 * Each checkpoint name has a space of its own in `persistent`, with a level in `scratch` before it. A version is a
 * revision with the note VERSION. A region is a protected region with its id as the name. A routed file becomes the
 * stream FILE_STREAM. */
#include "state.h"

#include <stdlib.h>
#include <unistd.h>

veloc_state veloc;

int fail(const char *call, const char *why) {
  stand_in_say("%s: %s", call, why);
  return VELOC_FAILURE;
}

int failed(const char *call) { return fail(call, stand_in_message()); }

int result(const char *call, char *why) {
  const int code = why ? fail(call, why) : VELOC_SUCCESS;
  free(why);
  return code;
}

int is_closed(const char *call) {
  if (veloc.is_open) return 0;
  fail(call, "VeloC is not initialized; call VELOC_Init first");
  return 1;
}

static void forget(void) {
  size_t i;
  for (i = 0; i < veloc.regions_count; i++) {
    free(veloc.regions[i].name);
    free(veloc.regions[i].all);
  }
  free(veloc.regions);
  free(veloc.checkpoints);
  free(veloc.scratch);
  free(veloc.persistent);
  stand_in_forget_settings(&veloc.settings);
  stand_in_forget_settings(&veloc.missed);
  memset(&veloc, 0, sizeof veloc);
}

static int begin(const char *call, const char *path) {
  int code = read_settings(call, path);
  if (stand_in_on_any(veloc.comm, code != VELOC_SUCCESS)) {
    forget();
    return VELOC_FAILURE;
  }
  veloc.regions = stand_in_memory(NULL, sizeof *veloc.regions);
  memset(veloc.regions, 0, sizeof *veloc.regions);
  veloc.regions_count = 1;
  veloc.is_open = 1;
  return VELOC_SUCCESS;
}

int VELOC_Init(MPI_Comm comm, const char *cfg_file) {
  if (veloc.is_open) return VELOC_SUCCESS;
  veloc.comm = comm;
  MPI_Comm_rank(comm, &veloc.rank);
  MPI_Comm_size(comm, &veloc.ranks);
  return begin("VELOC_Init", cfg_file);
}

int VELOC_Init_single(unsigned int id, const char *cfg_file) {
  if (veloc.is_open) return VELOC_SUCCESS;
  veloc.comm = MPI_COMM_NULL;
  veloc.rank = 0;
  veloc.ranks = 1;
  veloc.id = id;
  return begin("VELOC_Init_single", cfg_file);
}

/* Closes a space, which takes its newest revision to `persistent`. If it was cleaned, its data in `scratch` goes. */
static mainstay_status end(checkpoint *one) {
  const mainstay_status status = mainstay_close(one->session);
  if (status == MAINSTAY_OK && one->is_cleaned && has_level()) stand_in_remove_folder(one->node);
  rmdir(one->node); /* unless it has a level, or is another rank's, too */
  free(one->name);
  free(one->node);
  return status;
}

int VELOC_Finalize(int drain) {
  const char *call = "VELOC_Finalize";
  int code = VELOC_SUCCESS;
  size_t i;
  if (is_closed(call)) return VELOC_FAILURE;
  if (veloc.phase != IDLE) leave();
  if (drain) code = VELOC_Checkpoint_wait();
  for (i = 0; i < veloc.checkpoints_count; i++)
    if (end(&veloc.checkpoints[i]) != MAINSTAY_OK && drain) code = failed(call);
  forget();
  return code;
}
