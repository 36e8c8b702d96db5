/* SCR's functions on Mainstay: libscr, its begin and its end. Licence: MIT OR Apache-2.0.
 *
 * The space is the directory `.scr/mainstay` in SCR_PREFIX. A dataset that is a checkpoint is a revision, with its name
 * and flags as notes. Each file is a stream, and the stream NAMES has their paths below the prefix, each ended by a
 * zero byte. Ranks write files in SCR_CACHE_BASE, or, if the dataset is output, beside the final file. */
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

int failed(const char *call) { return fail(call, mainstay_error_message()); }

int result(const char *call, char *why) {
  const int code = why ? fail(call, why) : SCR_SUCCESS;
  free(why);
  return code;
}

char *message(void) { return stand_in_text("%s", mainstay_error_message()); }

int on_any(int is) {
  MPI_Allreduce(MPI_IN_PLACE, &is, 1, MPI_INT, MPI_LOR, scr.comm);
  return is;
}

int is_refused(const char *call, enum phase needed) {
  static const char *const first[] = {"end it with SCR_Complete_output or SCR_Complete_restart first",
                                      "call SCR_Start_output first", "call SCR_Start_restart first"};
  if (!scr.is_open) return fail(call, "SCR is not initialized; call SCR_Init first");
  if (scr.phase != needed) return fail(call, first[needed]);
  return 0;
}

static char *open_space(void) {
  const char *size = parameter("SCR_CACHE_SIZE"), *flush = parameter("SCR_FLUSH"), *copies = parameter("SCR_COPY_TYPE");
  const int is_memory = stand_in_is_in_memory(scr.cache);
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  char *level = stand_in_text("%s/mainstay", parameter("SCR_CACHE_BASE") ? parameter("SCR_CACHE_BASE") : "/dev/shm");
  char *space = of_prefix("mainstay"), *why = NULL;
  /* As with SCR, a job may save without having restarted, and the cache may be lost. */
  mainstay_set(&options, "start", "fresh");
  mainstay_set(&options, "keep", "2");
  mainstay_set(&options, is_memory ? "memory" : "disk", level);
  mainstay_set(&options, "disk_lost", "accepted");
  if (size) mainstay_set(&options, is_memory ? "memory_keep" : "disk_keep", size);
  if (copies) mainstay_set(&options, is_memory ? "memory_copies" : "disk_copies", strcmp(copies, "SINGLE") ? "2" : "1");
  if (flush) mainstay_set(&options, "pfs_every", flush);
  if (mainstay_open_mpi(scr.comm, space, &options, &scr.session) != MAINSTAY_OK) why = message();
  free(space);
  free(level);
  return why;
}

/* A folder of this rank that no other job uses. */
static char *cache_folder(void) {
  const char *base = parameter("SCR_CACHE_BASE");
  unsigned long hash = 5381;
  size_t i;
  for (i = 0; scr.prefix[i]; i++) hash = hash * 33 + (unsigned char)scr.prefix[i];
  return stand_in_text("%s/mainstay-scr-%u-%lx/rank.%d", base ? base : "/dev/shm", (unsigned)getuid(), hash, scr.rank);
}

int SCR_Init(void) {
  const char *call = "SCR_Init";
  char prefix[PATH_MAX] = "", *why = NULL, *folder;
  int code;
  if (scr.is_open) return SCR_SUCCESS;
  MPI_Comm_dup(MPI_COMM_WORLD, &scr.comm);
  MPI_Comm_rank(scr.comm, &scr.rank);
  MPI_Comm_size(scr.comm, &scr.ranks);
  read_parameters();
  if (scr.rank == 0) {
    char *whole = stand_in_absolute(parameter("SCR_PREFIX") ? parameter("SCR_PREFIX") : ".");
    snprintf(prefix, sizeof prefix, "%s", whole);
    free(whole);
  }
  MPI_Bcast(prefix, sizeof prefix, MPI_CHAR, 0, scr.comm);
  scr.prefix = stand_in_text("%s", prefix);
  scr.cache = cache_folder();
  /* A killed job has left its files. */
  stand_in_remove_folder(scr.cache);
  code = stand_in_make_folders(scr.cache);
  if (code) why = stand_in_text("%s cannot be made: %s", scr.cache, strerror(code));
  folder = stand_in_text("%s/.scr", scr.prefix);
  code = stand_in_make_folders(folder);
  if (code && !why) why = stand_in_text("%s cannot be made: %s", folder, strerror(code));
  free(folder);
  if (on_any(why != NULL)) return why ? result(call, why) : SCR_FAILURE;
  why = open_space();
  if (why) return result(call, why);
  scr.is_open = 1;
  scr.saved = MPI_Wtime();
  return parameter("SCR_CURRENT") ? SCR_Current(parameter("SCR_CURRENT")) : SCR_SUCCESS;
}

int SCR_Finalize(void) {
  mainstay_status status;
  if (!scr.is_open) return fail("SCR_Finalize", "SCR is not initialized");
  if (scr.phase == OUTPUT) stand_in_say("SCR_Finalize: the dataset %s was not completed, and is not saved", scr.name);
  forget_routes();
  status = mainstay_close(scr.session);
  stand_in_remove_folder(scr.cache);
  *strrchr(scr.cache, '/') = 0;
  rmdir(scr.cache); /* unless another rank of this node is still there */
  MPI_Comm_free(&scr.comm);
  free(scr.prefix);
  free(scr.cache);
  free(scr.name);
  free(scr.wrong);
  memset(&scr, 0, sizeof scr);
  return status == MAINSTAY_OK ? SCR_SUCCESS : failed("SCR_Finalize");
}

char *SCR_Get_version(void) { return SCR_VERSION; }
