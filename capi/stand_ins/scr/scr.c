/* SCR's functions on Mainstay: libscr, its begin and its end. Licence: MIT OR Apache-2.0.
 *
 * The space is the directory `.scr/mainstay` in SCR_PREFIX. A dataset that is a checkpoint is a revision, with its name
 * and flags as notes. Each file is a stream, and the stream NAMES has their paths below the prefix, each ended by a
 * zero byte. Ranks write files in SCR_CACHE_BASE, or, if the dataset is output, beside the final file. A
 * folder in SCR_CACHE_BASE has the level before the space, and these files. */
#define _GNU_SOURCE
#include "state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

scr_state scr;

int fail(const char *call, const char *why) {
  stand_in_say("%s: %s", call, why);
  return SCR_FAILURE;
}

int failed(const char *call) { return fail(call, stand_in_message()); }

int result(const char *call, char *why) {
  const int code = why ? fail(call, why) : SCR_SUCCESS;
  free(why);
  return code;
}

char *message(void) { return stand_in_text("%s", stand_in_message()); }

int on_any(int is) { return stand_in_on_any(scr.comm, is); }

int is_refused(const char *call, enum phase needed) {
  static const char *const first[] = {"end it with SCR_Complete_output or SCR_Complete_restart first",
                                      "call SCR_Start_output first", "call SCR_Start_restart first"};
  if (!scr.is_open) return fail(call, "SCR is not initialized; call SCR_Init first");
  if (scr.phase != needed) return fail(call, first[needed]);
  return 0;
}

static char *open_space(void) {
  const char *base = parameter("SCR_CACHE_BASE"), *copies = parameter("SCR_COPY_TYPE");
  char *whole = stand_in_absolute(base ? base : "/dev/shm"), *why;
  stand_in_space space = {
      .path = of_prefix("mainstay"),
      .has_level = 1,
      .keep = "2",
      .pfs_every = parameter("SCR_FLUSH"),
      .level_keep = parameter("SCR_CACHE_SIZE"),
      .of_pfs_every = "SCR_FLUSH",
      .of_level_keep = "SCR_CACHE_SIZE",
  };
  space.node = scr.node = stand_in_on_node(whole, space.path);
  if (copies) space.level_copies = strcmp(copies, "SINGLE") ? "2" : "1";
  why = stand_in_open(scr.comm, &space, &scr.session);
  free(space.path);
  free(whole);
  return why;
}

/* The absolute path of SCR_PREFIX, which rank 0 gives to all. */
static char *find_prefix(void) {
  char prefix[PATH_MAX] = "";
  if (scr.rank == 0) {
    char *whole = stand_in_absolute(parameter("SCR_PREFIX") ? parameter("SCR_PREFIX") : ".");
    snprintf(prefix, sizeof prefix, "%s", whole);
    free(whole);
  }
  MPI_Bcast(prefix, sizeof prefix, MPI_CHAR, 0, scr.comm);
  return stand_in_text("%s", prefix);
}

static void forget(void) {
  MPI_Comm_free(&scr.comm);
  free(scr.prefix);
  free(scr.node);
  free(scr.cache);
  free(scr.name);
  free(scr.wrong);
  memset(&scr, 0, sizeof scr);
}

int SCR_Init(void) {
  char *why;
  if (scr.is_open) return SCR_SUCCESS;
  MPI_Comm_dup(MPI_COMM_WORLD, &scr.comm);
  MPI_Comm_rank(scr.comm, &scr.rank);
  MPI_Comm_size(scr.comm, &scr.ranks);
  why = read_parameters();
  scr.prefix = find_prefix();
  if (on_any(why != NULL)) {
    if (!why) why = stand_in_text("another rank has a wrong parameter");
  } else {
    why = open_space();
  }
  if (why) {
    forget();
    return result("SCR_Init", why);
  }
  scr.cache = stand_in_text("%s/rank.%d", scr.node, scr.rank);
  stand_in_remove_folder(scr.cache); /* a killed job may have left it */
  scr.is_open = 1;
  scr.saved = MPI_Wtime();
  /* As with SCR, a missing checkpoint is no error. */
  if (parameter("SCR_CURRENT")) SCR_Current(parameter("SCR_CURRENT"));
  return SCR_SUCCESS;
}

int SCR_Finalize(void) {
  int code;
  if (!scr.is_open) return fail("SCR_Finalize", "SCR is not initialized");
  if (scr.phase == OUTPUT) stand_in_say("SCR_Finalize: the dataset %s was not completed, and is not saved", scr.name);
  forget_routes();
  code = mainstay_close(scr.session) == MAINSTAY_OK ? SCR_SUCCESS : failed("SCR_Finalize");
  stand_in_remove_folder(scr.cache);
  rmdir(scr.node); /* empty for the last rank of a node, unless the level stays on a disk */
  forget();
  return code;
}

char *SCR_Get_version(void) { return SCR_VERSION; }
