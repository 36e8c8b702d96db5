/* SCR's functions on Mainstay: libscr, its begin and its end. Licence: MIT OR Apache-2.0.
 *
 * The space is the directory `.scr/mainstay` in SCR_PREFIX. A dataset that is a checkpoint is a revision, with its name
 * and flags as notes. Each file is a stream, and the stream NAMES has their paths below the prefix, each ended by a
 * zero byte. Ranks write files in SCR_CACHE_BASE, or, if the dataset is output, beside the final file. A folder in
 * SCR_CACHE_BASE that is the user's own has these files and the level before the space. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

scr_state scr;

int fail(const char *call, const char *why) {
  stand_in_say("%s: %s", call, why);
  return SCR_FAILURE;
}

int failed(const char *call) { return fail(call, mainstay_error_message()); }

int result(const char *call, char *why) {
  const int code = why ? fail(call, why) : SCR_SUCCESS;
  free(why);
  return code;
}

char *message(void) { return stand_in_text("%s", mainstay_error_message()); }

int on_any(int is) { return stand_in_on_any(scr.comm, is); }

int is_refused(const char *call, enum phase needed) {
  static const char *const first[] = {"end it with SCR_Complete_output or SCR_Complete_restart first",
                                      "call SCR_Start_output first", "call SCR_Start_restart first"};
  if (!scr.is_open) return fail(call, "SCR is not initialized; call SCR_Init first");
  if (scr.phase != needed) return fail(call, first[needed]);
  return 0;
}

static char *open_space(void) {
  const char *copies = parameter("SCR_COPY_TYPE");
  stand_in_space space = {
      .path = of_prefix("mainstay"),
      .level = scr.level,
      .keep = "2",
      .pfs_every = parameter("SCR_FLUSH"),
      .level_keep = parameter("SCR_CACHE_SIZE"),
  };
  char *why;
  if (copies) space.level_copies = strcmp(copies, "SINGLE") ? "2" : "1";
  why = stand_in_open(scr.comm, &space, &scr.session);
  free(space.path);
  return why;
}

/* Sets the prefix, which rank 0 gives to all, and the folders on the node. */
static void name_folders(void) {
  const char *base = parameter("SCR_CACHE_BASE");
  char prefix[PATH_MAX] = "", *whole;
  unsigned long hash = 5381;
  size_t i;
  if (scr.rank == 0) {
    whole = stand_in_absolute(parameter("SCR_PREFIX") ? parameter("SCR_PREFIX") : ".");
    snprintf(prefix, sizeof prefix, "%s", whole);
    free(whole);
  }
  MPI_Bcast(prefix, sizeof prefix, MPI_CHAR, 0, scr.comm);
  for (i = 0; prefix[i]; i++) hash = hash * 33 + (unsigned char)prefix[i];
  whole = stand_in_absolute(base ? base : "/dev/shm");
  scr.prefix = stand_in_text("%s", prefix);
  scr.node = stand_in_text("%s/mainstay-scr-%u-%lx", whole, (unsigned)geteuid(), hash);
  scr.level = stand_in_text("%s/mainstay", scr.node);
  scr.cache = stand_in_text("%s/rank.%d", scr.node, scr.rank);
  free(whole);
}

/* Makes the folders. A job that was killed has left files in this rank's own. */
static char *make_folders(void) {
  char *space = stand_in_text("%s/.scr", scr.prefix), *why = NULL;
  int code = stand_in_make_folders(space);
  if (code) why = stand_in_text("%s cannot be made: %s", space, strerror(code));
  free(space);
  if (why) return why;
  code = stand_in_make_own_folder(scr.node);
  if (code == EPERM)
    return stand_in_text("%s can be changed by another user; remove it, or set SCR_CACHE_BASE", scr.node);
  if (!code) stand_in_remove_folder(scr.cache);
  if (!code) code = stand_in_make_folders(scr.cache);
  return code ? stand_in_text("%s cannot be made: %s", scr.cache, strerror(code)) : NULL;
}

static void forget(void) {
  MPI_Comm_free(&scr.comm);
  free(scr.prefix);
  free(scr.node);
  free(scr.level);
  free(scr.cache);
  free(scr.name);
  free(scr.wrong);
  memset(&scr, 0, sizeof scr);
}

int SCR_Init(void) {
  const char *call = "SCR_Init";
  char *why;
  if (scr.is_open) return SCR_SUCCESS;
  MPI_Comm_dup(MPI_COMM_WORLD, &scr.comm);
  MPI_Comm_rank(scr.comm, &scr.rank);
  MPI_Comm_size(scr.comm, &scr.ranks);
  read_parameters();
  name_folders();
  why = make_folders();
  if (on_any(why != NULL)) {
    if (!why) why = stand_in_text("another rank cannot make its folders");
  } else {
    why = open_space();
  }
  if (why) {
    forget();
    return result(call, why);
  }
  scr.is_open = 1;
  scr.saved = MPI_Wtime();
  return parameter("SCR_CURRENT") ? SCR_Current(parameter("SCR_CURRENT")) : SCR_SUCCESS;
}

int SCR_Finalize(void) {
  int code;
  if (!scr.is_open) return fail("SCR_Finalize", "SCR is not initialized");
  if (scr.phase == OUTPUT) stand_in_say("SCR_Finalize: the dataset %s was not completed, and is not saved", scr.name);
  forget_routes();
  code = mainstay_close(scr.session) == MAINSTAY_OK ? SCR_SUCCESS : failed("SCR_Finalize");
  stand_in_remove_folder(scr.cache);
  /* The last rank of a node finds these empty, unless the level stays on a disk. */
  rmdir(scr.level);
  rmdir(scr.node);
  forget();
  return code;
}

char *SCR_Get_version(void) { return SCR_VERSION; }
