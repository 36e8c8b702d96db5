/* VeloC's functions on Mainstay: restarts. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* The version in a note; -1: it is none. */
static int version_in(const char *note) {
  char *end;
  const long version = note ? strtol(note, &end, 10) : -1;
  return note && *note && !*end && version >= 0 && version <= INT_MAX ? (int)version : -1;
}

/* Goes back to the newest revision of a version up to `version`, or of that version if it is `exact`. 0: of any.
 * Returns the version, or -1. Collective. */
static int go_back(checkpoint *one, int version, int exact) {
  mainstay_listed_revision listed;
  size_t count = 0, i;
  if (mainstay_revisions(one->session, &count) != MAINSTAY_OK) {
    if (veloc.rank == 0) stand_in_say("the versions of %s cannot be listed: %s", one->name, stand_in_message());
    return -1;
  }
  for (i = 0; i < count; i++) {
    const int found = version_in(mainstay_revision_note(one->session, i, VERSION));
    const int fits = exact ? found == version : !version || found <= version;
    if (found < 0 || !fits || mainstay_revision(one->session, i, &listed) != MAINSTAY_OK) continue;
    /* VELOC_Restart_test must not discard revisions that this run has saved. */
    if (one->has_saved && !exact) return found;
    if (one->restored == found) return found;
    if (mainstay_choose(one->session, listed.revision, NULL) == MAINSTAY_OK) return one->restored = found;
    if (veloc.rank == 0) stand_in_say("version %d of %s cannot be read: %s", found, one->name, stand_in_message());
  }
  return -1;
}

int VELOC_Restart_test(const char *name, int version) {
  checkpoint *one = enter("VELOC_Restart_test", name, version, RESTORING);
  int found;
  if (!one) return VELOC_FAILURE;
  found = go_back(one, version, 0);
  leave();
  return found < 0 ? VELOC_FAILURE : found;
}

int VELOC_Restart_begin(const char *name, int version) {
  const char *call = "VELOC_Restart_begin";
  checkpoint *one = enter(call, name, version, RESTORING);
  uint32_t shards = 0;
  char *why = NULL;
  if (!one) return VELOC_FAILURE;
  if (go_back(one, version, 1) < 0)
    why = stand_in_text("there is no version %d of %s that can be read", version, name);
  else if (mainstay_shards(one->session, &shards) != MAINSTAY_OK)
    why = stand_in_text("%s", stand_in_message());
  else if (shards != (uint32_t)veloc.ranks)
    why = stand_in_text("%u ranks saved version %d, and this job has %d; start it with %u", shards, version,
                        veloc.ranks, shards);
  if (why) leave();
  return result(call, why);
}

/* Fills a region from its item. */
static char *recover(checkpoint *one, const region *to, const mainstay_item *item) {
  size_t got = 0;
  if (!to) return stand_in_text("region %s was saved and is not protected; call VELOC_Mem_protect first", item->name);
  if (to->bytes < item->bytes)
    return stand_in_text("region %s has %zu bytes, and %llu were saved; protect as many", item->name, to->bytes,
                         (unsigned long long)item->bytes);
  if (mainstay_read_shard(one->session, (uint32_t)veloc.rank, item->name, 0, to->data, (size_t)item->bytes, &got) !=
      MAINSTAY_OK)
    return stand_in_text("%s", stand_in_message());
  return NULL;
}

int VELOC_Recover_selective(int mode, int *ids, int id_count) {
  const char *call = "VELOC_Recover_selective";
  checkpoint *one;
  size_t count = 0, i;
  char *why = NULL;
  if (is_closed(call)) return VELOC_FAILURE;
  if (veloc.phase != RESTORING) return fail(call, "call VELOC_Restart_begin first");
  one = &veloc.checkpoints[veloc.current];
  if (mainstay_shard_items(one->session, (uint32_t)veloc.rank, &count) != MAINSTAY_OK) return failed(call);
  for (i = 0; i < count && !why; i++) {
    mainstay_item item;
    int is_listed = 0, k, id;
    if (mainstay_shard_item(one->session, (uint32_t)veloc.rank, i, &item) != MAINSTAY_OK) return failed(call);
    if (!strcmp(item.name, FILE_STREAM)) continue;
    id = (int)strtol(item.name, NULL, 10);
    for (k = 0; k < id_count; k++) is_listed |= ids[k] == id;
    if (mode == VELOC_RECOVER_ALL || is_listed == (mode == VELOC_RECOVER_SOME))
      why = recover(one, find_region(regions_of(one->name), id), &item);
  }
  return result(call, why);
}

int VELOC_Recover_mem(void) { return VELOC_Recover_selective(VELOC_RECOVER_ALL, NULL, 0); }

int VELOC_Recover_size(int id) {
  const char *call = "VELOC_Recover_size";
  char name[ID_BYTES];
  mainstay_item item;
  if (is_closed(call)) return VELOC_FAILURE;
  if (veloc.phase != RESTORING) return fail(call, "call VELOC_Restart_begin first");
  snprintf(name, sizeof name, "%d", id);
  if (stand_in_find_item(veloc.checkpoints[veloc.current].session, (uint32_t)veloc.rank, name, &item) < 0) return 0;
  return item.bytes > INT_MAX ? fail(call, "more bytes than an int can count") : (int)item.bytes;
}

int VELOC_Restart_end(int success) {
  (void)success; /* the program may restart from an older version next */
  if (is_closed("VELOC_Restart_end")) return VELOC_FAILURE;
  if (veloc.phase != RESTORING) return fail("VELOC_Restart_end", "call VELOC_Restart_begin first");
  leave();
  return VELOC_SUCCESS;
}

int VELOC_Restart(const char *name, int version) {
  int code = VELOC_Restart_begin(name, version);
  if (code != VELOC_SUCCESS) return code;
  code = VELOC_Recover_mem();
  return VELOC_Restart_end(code == VELOC_SUCCESS) == VELOC_SUCCESS ? code : VELOC_FAILURE;
}
