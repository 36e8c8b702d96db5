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

static mainstay_status open_space(checkpoint *one) {
  const char *persistent = is_off("persistent_interval") ? NULL : setting("persistent");
  const char *versions = setting("max_versions"), *cached = setting("scratch_versions");
  const int is_memory = stand_in_is_in_memory(setting("scratch"));
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  char *folder = one->scratch, *space;
  mainstay_status status;
  space = persistent ? stand_in_text("%s/%s", persistent, strrchr(folder, '/') + 1) : stand_in_text("%s", folder);
  /* As with VeloC, a job may save without having restarted, and `scratch` may be lost. */
  mainstay_set(&options, "start", "fresh");
  mainstay_set(&options, "keep", versions && strtol(versions, NULL, 10) > 0 ? versions : KEPT);
  if (persistent) {
    mainstay_set(&options, is_memory ? "memory" : "disk", folder);
    mainstay_set(&options, "disk_lost", "accepted");
    if (cached && strtol(cached, NULL, 10) > 0) mainstay_set(&options, is_memory ? "memory_keep" : "disk_keep", cached);
    if (is_off("ec_interval")) mainstay_set(&options, is_memory ? "memory_copies" : "disk_copies", "1");
  }
  if (veloc.comm == MPI_COMM_NULL)
    status = mainstay_open_solo(space, &options, &one->session);
  else
    status = mainstay_open_mpi(veloc.comm, space, &options, &one->session);
  free(space);
  return status;
}

/* The checkpoint name with its space, which is opened on first use. NULL: it could not be; a line says why. */
static checkpoint *find_checkpoint(const char *call, const char *name) {
  checkpoint one;
  size_t i;
  if (!is_name(name)) {
    fail(call, "a name has letters, digits, _ and . only");
    return NULL;
  }
  for (i = 0; i < veloc.checkpoints_count; i++)
    if (!strcmp(veloc.checkpoints[i].name, name)) return &veloc.checkpoints[i];
  memset(&one, 0, sizeof one);
  one.restored = -1;
  one.scratch = veloc.comm == MPI_COMM_NULL ? stand_in_text("%s/%s-%u", setting("scratch"), name, veloc.id)
                                            : stand_in_text("%s/%s", setting("scratch"), name);
  if (open_space(&one) != MAINSTAY_OK) {
    failed(call);
    free(one.scratch);
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
  one = find_checkpoint(call, name);
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
    char *path = stand_in_text("%s/%s-%u-%d.dat", setting("scratch"), one->name, id, veloc.version), *why = NULL;
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
  one = find_checkpoint("VELOC_Cleanup", name);
  if (one) one->is_cleaned = 1;
  return one ? VELOC_SUCCESS : VELOC_FAILURE;
}
