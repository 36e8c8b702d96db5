/* SCR's functions on Mainstay: the list of checkpoints, and restarts. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Whether a revision was dropped: the file `dropped` has lines of its number and name. Rank 0 alone reads it. */
static int is_dropped(uint64_t revision, const char *name) {
  char *path, *line = NULL, *wanted;
  size_t room = 0;
  int is = 0;
  FILE *file;
  if (scr.rank) return 0;
  path = of_prefix("dropped");
  file = fopen(path, "r");
  free(path);
  if (!file) return 0;
  wanted = stand_in_text("%llu %s\n", (unsigned long long)revision, name);
  while (!is && getline(&line, &room, file) >= 0) is = !strcmp(line, wanted);
  free(line);
  free(wanted);
  fclose(file);
  return is;
}

static int is_wrong(uint64_t revision) {
  size_t i;
  for (i = 0; i < scr.wrong_count; i++)
    if (scr.wrong[i] == revision) return 1;
  return 0;
}

/* The name of listed revision `index`, if it is a checkpoint that may be restarted; else NULL. */
static const char *listed(size_t index, uint64_t *revision) {
  const char *name = mainstay_revision_note(scr.session, index, DATASET);
  const char *flags = mainstay_revision_note(scr.session, index, FLAGS);
  mainstay_listed_revision found;
  if (!name || !flags || !(strtol(flags, NULL, 10) & SCR_FLAG_CHECKPOINT)) return NULL;
  if (mainstay_revision(scr.session, index, &found) != MAINSTAY_OK) return NULL;
  *revision = found.revision;
  return is_wrong(found.revision) || is_dropped(found.revision, name) ? NULL : name;
}

/* Chooses the newest checkpoint that can be read whole, or the one of this name. Returns 0 if there is none.
 * Collective.
 */
static int go_back(const char *name) {
  size_t count = 0, i;
  uint32_t shards = 0;
  mainstay_restored restored;
  if (mainstay_revisions(scr.session, &count) != MAINSTAY_OK) {
    if (scr.rank == 0) stand_in_say("the checkpoints cannot be listed: %s", stand_in_message());
    return 0;
  }
  for (i = 0; i < count; i++) {
    uint64_t revision = 0;
    const char *found = listed(i, &revision);
    if (on_any(!found) || (name && strcmp(found, name))) continue;
    if (stand_in_choose(scr.comm, scr.session, revision, &restored, &scr.steps) != MAINSTAY_OK) {
      if (scr.rank == 0) stand_in_say("checkpoint %s cannot be read: %s", found, stand_in_message());
      continue;
    }
    mainstay_shards(scr.session, &shards);
    if (shards != (uint32_t)scr.ranks) {
      if (scr.rank == 0)
        stand_in_say("%u ranks saved checkpoint %s, and this job has %d; start it with %u", shards, found, scr.ranks,
                     shards);
      continue;
    }
    free(scr.name);
    scr.name = stand_in_text("%s", found);
    found = mainstay_revision_note(scr.session, i, NUMBER);
    if (found) scr.datasets = strtoull(found, NULL, 10);
    scr.chosen = revision;
    return 1;
  }
  return 0;
}

int SCR_Current(const char *name) {
  if (is_refused("SCR_Current", IDLE)) return SCR_FAILURE;
  if (!name || !go_back(name)) return fail("SCR_Current", "there is no checkpoint of this name that can be read");
  return SCR_SUCCESS;
}

int SCR_Drop(const char *name) {
  const char *call = "SCR_Drop";
  char *path, *why = NULL;
  size_t count = 0, i;
  FILE *file;
  if (is_refused(call, IDLE)) return SCR_FAILURE;
  if (!name) return fail(call, "the name is NULL");
  if (mainstay_revisions(scr.session, &count) != MAINSTAY_OK) return failed(call);
  if (scr.rank == 0) {
    path = of_prefix("dropped");
    file = fopen(path, "a");
    for (i = 0; i < count && file; i++) {
      uint64_t revision = 0;
      const char *found = listed(i, &revision);
      if (found && !strcmp(found, name)) fprintf(file, "%llu %s\n", (unsigned long long)revision, name);
    }
    if (!file || fflush(file) || fsync(fileno(file)))
      why = stand_in_text("%s cannot be written: %s", path, strerror(errno));
    if (file) fclose(file);
    free(path);
  }
  if (scr.name && !strcmp(scr.name, name)) scr.chosen = 0;
  return on_any(why != NULL) && !why ? SCR_FAILURE : result(call, why);
}

int SCR_Delete(const char *name) { return SCR_Drop(name); }

int SCR_Have_restart(int *flag, char *name) {
  const char *fetch = parameter("SCR_FETCH");
  if (flag) *flag = 0;
  if (is_refused("SCR_Have_restart", IDLE)) return SCR_FAILURE;
  if (!flag) return fail("SCR_Have_restart", "flag is NULL");
  if (fetch && !stand_in_is_true(fetch)) return SCR_SUCCESS;
  if (!scr.chosen) go_back(NULL);
  *flag = scr.chosen != 0;
  if (*flag && name) snprintf(name, SCR_MAX_FILENAME, "%s", scr.name);
  return SCR_SUCCESS;
}

/* Reads the names of this rank's files. */
static char *read_names(void) {
  mainstay_item item;
  char *names, *at, *end;
  size_t got = 0;
  if (stand_in_find_item(scr.session, (uint32_t)scr.rank, NAMES, &item) < 0) return NULL;
  if (item.bytes > NAMES_MAX) return stand_in_text("the list of files has %llu bytes", (unsigned long long)item.bytes);
  names = stand_in_memory(NULL, (size_t)item.bytes + 1);
  if (mainstay_read_shard(scr.session, (uint32_t)scr.rank, NAMES, 0, names, (size_t)item.bytes, &got) != MAINSTAY_OK) {
    free(names);
    return message();
  }
  names[got] = 0;
  for (at = names; at < names + got; at = end + 1) {
    end = at + strlen(at);
    add_route(at);
  }
  free(names);
  return NULL;
}

int SCR_Start_restart(char *name) {
  const char *call = "SCR_Start_restart";
  char *why;
  if (is_refused(call, IDLE)) return SCR_FAILURE;
  if (!scr.chosen) return fail(call, "there is no checkpoint; call SCR_Have_restart first");
  if (name) snprintf(name, SCR_MAX_FILENAME, "%s", scr.name);
  scr.phase = RESTART;
  why = read_names();
  return result(call, why);
}

int SCR_Complete_restart(int valid) {
  if (is_refused("SCR_Complete_restart", RESTART)) return SCR_FAILURE;
  forget_routes();
  scr.phase = IDLE;
  if (on_any(!valid)) {
    scr.wrong = stand_in_memory(scr.wrong, (scr.wrong_count + 1) * sizeof *scr.wrong);
    scr.wrong[scr.wrong_count++] = scr.chosen;
    scr.chosen = 0;
    return SCR_FAILURE;
  }
  scr.chosen = 0;
  return SCR_SUCCESS;
}

char *bring(const char *below, const char **file) {
  char stream[STREAM_BYTES], *why = NULL;
  size_t i, found = scr.routes_count;
  for (i = 0; i < scr.routes_count; i++)
    if (!strcmp(scr.routes[i].original, below)) found = i;
  for (i = 0; i < scr.routes_count && found == scr.routes_count; i++)
    if (!strcmp(base_of(scr.routes[i].original), base_of(below))) found = i;
  if (found == scr.routes_count) return stand_in_text("this rank saved no file %s in checkpoint %s", below, scr.name);
  if (!scr.routes[found].path) {
    char *path = cached(found, scr.routes[found].original);
    snprintf(stream, sizeof stream, "file/%zu", found);
    why = stand_in_bring_file(scr.session, (uint32_t)scr.rank, stream, path);
    if (why)
      free(path);
    else
      scr.routes[found].path = path;
  }
  *file = scr.routes[found].path;
  return why;
}
