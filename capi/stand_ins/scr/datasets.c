/* SCR's functions on Mainstay: datasets. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int SCR_Route_file(const char *name, char *file) {
  const char *call = "SCR_Route_file", *routed = NULL;
  char *below, *why = NULL;
  size_t i;
  if (!name || !*name || !file) return fail(call, "a name is NULL or empty");
  if (strlen(name) >= SCR_MAX_FILENAME) return fail(call, "the name is longer than SCR_MAX_FILENAME");
  if (!scr.is_open || scr.phase == IDLE) {
    strcpy(file, name);
    return SCR_SUCCESS;
  }
  below = below_prefix(name);
  if (!below) {
    why = stand_in_text("%s is not below SCR_PREFIX, %s", name, scr.prefix);
  } else if (scr.phase == RESTART) {
    why = bring(below, &routed);
  } else {
    for (i = 0; i < scr.routes_count && strcmp(scr.routes[i].original, below); i++);
    if (i == scr.routes_count) {
      route *one = add_route(below);
      if (scr.flags & SCR_FLAG_OUTPUT) {
        char *folder;
        one->final = stand_in_text("%s/%s", scr.prefix, below);
        folder = folder_of(one->final);
        one->path = stand_in_text("%s/.%s.mainstay~", folder, base_of(below));
        stand_in_make_folders(folder);
        free(folder);
      } else {
        one->path = cached(i, below);
      }
    }
    routed = scr.routes[i].path;
  }
  free(below);
  if (!why && strlen(routed) >= SCR_MAX_FILENAME) why = stand_in_text("%s is longer than SCR_MAX_FILENAME", routed);
  if (!why) strcpy(file, routed);
  return result(call, why);
}

int SCR_Start_output(const char *name, int flags) {
  if (is_refused("SCR_Start_output", IDLE)) return SCR_FAILURE;
  scr.phase = OUTPUT;
  scr.flags = flags;
  scr.chosen = 0;
  scr.datasets++;
  free(scr.name);
  scr.name =
      name && *name ? stand_in_text("%s", name) : stand_in_text("scr.dataset.%llu", (unsigned long long)scr.datasets);
  scr.saving_began = MPI_Wtime();
  MPI_Barrier(scr.comm);
  return SCR_SUCCESS;
}

int SCR_Start_checkpoint(void) { return SCR_Start_output(NULL, SCR_FLAG_CHECKPOINT); }

static int compare(const void *one, const void *other) {
  const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

/* Whether two ranks have a file of the same path. Collective. */
static int is_shared(void) {
  int *counts = stand_in_memory(NULL, 2 * (size_t)scr.ranks * sizeof *counts), *begins = counts + scr.ranks, rank;
  int mine = (int)scr.routes_count, all = 0, is = 0;
  uint64_t *hashes, *own = stand_in_memory(NULL, scr.routes_count * sizeof *own);
  size_t i;
  for (i = 0; i < scr.routes_count; i++) own[i] = stand_in_hash(scr.routes[i].original);
  MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, scr.comm);
  for (rank = 0; rank < scr.ranks; rank++) {
    begins[rank] = all;
    all += counts[rank];
  }
  hashes = stand_in_memory(NULL, (size_t)all * sizeof *hashes);
  MPI_Allgatherv(own, mine, MPI_UINT64_T, hashes, counts, begins, MPI_UINT64_T, scr.comm);
  qsort(hashes, (size_t)all, sizeof *hashes, compare);
  for (rank = 1; rank < all; rank++) is |= hashes[rank] == hashes[rank - 1];
  free(hashes);
  free(own);
  free(counts);
  return is;
}

/* The bytes of this rank's files and their names; -1: one is missing. */
static int64_t bytes_of_files(char **why) {
  int64_t all = 0;
  size_t i;
  for (i = 0; i < scr.routes_count; i++) {
    const int64_t bytes = stand_in_file_bytes(scr.routes[i].path);
    if (bytes < 0) {
      *why = stand_in_text("this rank has not written %s", scr.routes[i].path);
      return -1;
    }
    all += bytes + (int64_t)strlen(scr.routes[i].original) + 1;
  }
  return all;
}

/* Writes the files and their names to the open checkpoint. */
static char *write_streams(void) {
  char stream[STREAM_BYTES], *why = NULL;
  uint64_t at = 0;
  size_t i;
  for (i = 0; i < scr.routes_count && !why; i++) {
    const size_t length = strlen(scr.routes[i].original) + 1;
    snprintf(stream, sizeof stream, "file/%zu", i);
    why = stand_in_save_file(scr.session, stream, scr.routes[i].final ? scr.routes[i].final : scr.routes[i].path);
    if (!why && mainstay_write(scr.session, NAMES, at, scr.routes[i].original, length) != MAINSTAY_OK) why = message();
    at += length;
  }
  return why;
}

/* Makes a file, or the names in a folder, durable. Returns 0, or -1 with errno. */
static int sync_path(const char *path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC), code = file < 0 ? -1 : fsync(file);
  if (file >= 0) close(file);
  return code;
}

/* Gives the files of an output their names, durably. */
static char *name_files(void) {
  int code = 0;
  size_t i;
  for (i = 0; i < scr.routes_count && !code; i++) {
    const route *one = &scr.routes[i];
    char *folder = folder_of(one->final);
    code = sync_path(one->path) || rename(one->path, one->final) || sync_path(folder) ? errno : 0;
    free(folder);
  }
  return code ? stand_in_text("%s cannot be written: %s", scr.routes[i - 1].final, strerror(code)) : NULL;
}

/* Saves the dataset as a revision. Collective. */
static char *save(int64_t bytes) {
  char flags[STREAM_BYTES], number[STREAM_BYTES], *why = NULL;
  snprintf(flags, sizeof flags, "%d", scr.flags);
  snprintf(number, sizeof number, "%llu", (unsigned long long)scr.datasets);
  if (mainstay_note(scr.session, DATASET, scr.name) != MAINSTAY_OK ||
      mainstay_note(scr.session, FLAGS, flags) != MAINSTAY_OK ||
      mainstay_note(scr.session, NUMBER, number) != MAINSTAY_OK)
    why = message();
  if (on_any(why != NULL)) return why ? why : stand_in_text("another rank could not save it");
  if (mainstay_begin(scr.session, (uint64_t)bytes, NULL) != MAINSTAY_OK) return message();
  why = write_streams();
  if (on_any(why != NULL)) {
    mainstay_abandon(scr.session);
    return why ? why : stand_in_text("another rank could not save it");
  }
  return mainstay_checkpoint(scr.session, NULL) == MAINSTAY_OK ? NULL : message();
}

int SCR_Complete_output(int valid) {
  const char *call = "SCR_Complete_output";
  const int is_checkpoint = scr.flags & SCR_FLAG_CHECKPOINT, is_output = scr.flags & SCR_FLAG_OUTPUT;
  char *why = NULL;
  int64_t bytes;
  if (is_refused(call, OUTPUT)) return SCR_FAILURE;
  bytes = valid ? bytes_of_files(&why) : -1;
  if (on_any(bytes < 0)) {
    if (!why) why = stand_in_text("a rank could not write its files; the dataset %s is not saved", scr.name);
  } else if (is_shared()) {
    why = stand_in_text("ranks write one file together, and the dataset %s is not saved; give each rank its own file",
                        scr.name);
  } else {
    /* A checkpoint must have its output: a restarted program would not write it again. */
    if (is_output) why = name_files();
    if (is_checkpoint && !on_any(why != NULL)) why = save(bytes);
  }
  forget_routes();
  scr.phase = IDLE;
  if (is_checkpoint) {
    scr.saved = MPI_Wtime();
    scr.cost += scr.saved - scr.saving_began;
    scr.saved_count++;
  }
  return on_any(why != NULL) && !why ? SCR_FAILURE : result(call, why);
}

int SCR_Complete_checkpoint(int valid) { return SCR_Complete_output(valid); }
