/* VeloC's functions on Mainstay: the space of each checkpoint name, and the file of a rank. Licence: MIT OR Apache-2.0.
 */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <unistd.h>

static int is_name(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  /* "." and ".." are folders. */
  return name && *name && name[strspn(name, allowed)] == 0 && strspn(name, ".") != strlen(name);
}

int has_level(void) { return veloc.persistent && strcmp(veloc.persistent, veloc.scratch) != 0; }

static const char *if_positive(const char *number) { return number && strtol(number, NULL, 10) > 0 ? number : NULL; }

/* Fails if VELOC_Restart_test could not open the versions of this name: the program may have started anew, and its
 * versions would push out the earlier ones. Collective. */
static char *refuse_missed(checkpoint *one, const char *name) {
  size_t count = 0;
  if (!stand_in_value(&veloc.missed, name)) return NULL;
  if (mainstay_revisions(one->session, &count) == MAINSTAY_OK && !count) return NULL;
  mainstay_close(one->session);
  return stand_in_text("%s has versions that this job could not open at its start; start the job again", name);
}

static char *open_space(checkpoint *one, const char *folder) {
  const char *versions = if_positive(setting("max_versions"));
  stand_in_space space = {
      .path = stand_in_text("%s/%s", veloc.persistent ? veloc.persistent : veloc.scratch, folder),
      .has_level = has_level(),
      .keep = versions ? versions : KEPT,
      .level_keep = if_positive(setting("scratch_versions")),
      .level_copies = is_off("ec_interval") ? "1" : NULL,
      .of_keep = "VeloC's max_versions",
      .of_level_keep = "VeloC's scratch_versions",
  };
  char *why;
  space.node = one->node = stand_in_on_node(veloc.scratch, space.path);
  why = stand_in_open(veloc.comm, &space, &one->session);
  free(space.path);
  return why;
}

/* Finds a checkpoint name, and opens its space on first use. On failure prints the reason and returns NULL. */
static checkpoint *find_checkpoint(const char *call, const char *name, enum phase phase) {
  checkpoint one;
  char *folder, *why;
  size_t i;
  if (!is_name(name)) {
    fail(call, "a name has letters, digits, _ and . only");
    return NULL;
  }
  for (i = 0; i < veloc.checkpoints_count; i++)
    if (!strcmp(veloc.checkpoints[i].name, name)) return &veloc.checkpoints[i];
  memset(&one, 0, sizeof one);
  one.restored = -1;
  folder = veloc.comm == MPI_COMM_NULL ? stand_in_text("%s-%u", name, veloc.id) : stand_in_text("%s", name);
  why = open_space(&one, folder);
  free(folder);
  if (why && phase == RESTORING) stand_in_set(&veloc.missed, name, "");
  if (!why && phase == SAVING) why = refuse_missed(&one, name);
  if (result(call, why) != VELOC_SUCCESS) {
    free(one.node);
    return NULL;
  }
  one.name = stand_in_text("%s", name);
  veloc.checkpoints = stand_in_memory(veloc.checkpoints, (i + 1) * sizeof *veloc.checkpoints);
  veloc.checkpoints[i] = one;
  veloc.checkpoints_count++;
  return &veloc.checkpoints[i];
}

checkpoint *enter(const char *call, const char *name, int version, enum phase phase) {
  checkpoint *one;
  if (is_closed(call)) return NULL;
  if (veloc.phase != IDLE) {
    fail(call, veloc.phase == SAVING ? "a checkpoint has begun; call VELOC_Checkpoint_end first"
                                     : "a restart has begun; call VELOC_Restart_end first");
    return NULL;
  }
  if (version < 0) {
    fail(call, "a version is 0 or more");
    return NULL;
  }
  one = find_checkpoint(call, name, phase);
  if (!one) return NULL;
  veloc.phase = phase;
  veloc.current = (size_t)(one - veloc.checkpoints);
  veloc.version = version;
  return one;
}

void leave(void) {
  if (veloc.file) unlink(veloc.file);
  free(veloc.file);
  veloc.file = NULL;
  veloc.phase = IDLE;
}

int VELOC_Route_file(const char *original, char *routed) {
  const char *call = "VELOC_Route_file";
  checkpoint *one;
  if (is_closed(call)) return VELOC_FAILURE;
  if (!original || !routed) return fail(call, "a name is NULL");
  if (veloc.phase == IDLE) return fail(call, "call VELOC_Checkpoint_begin or VELOC_Restart_begin first");
  one = &veloc.checkpoints[veloc.current];
  if (!veloc.file) {
    const unsigned id = veloc.comm == MPI_COMM_NULL ? veloc.id : (unsigned)veloc.rank;
    char *path = stand_in_text("%s/rank.%u.dat", one->node, id), *why = NULL;
    /* A killed job may have left it. */
    unlink(path);
    if (strlen(path) >= VELOC_MAX_NAME) why = stand_in_text("%s is longer than VELOC_MAX_NAME", path);
    if (!why && veloc.phase == RESTORING)
      why = stand_in_bring_file(one->session, (uint32_t)veloc.rank, FILE_STREAM, path);
    if (why) {
      free(path);
      return result(call, why);
    }
    veloc.file = path;
  }
  strcpy(routed, veloc.file);
  return VELOC_SUCCESS;
}

int VELOC_Cleanup(const char *name) {
  checkpoint *one;
  if (is_closed("VELOC_Cleanup")) return VELOC_FAILURE;
  one = find_checkpoint("VELOC_Cleanup", name, IDLE);
  if (one) one->is_cleaned = 1;
  return one ? VELOC_SUCCESS : VELOC_FAILURE;
}
