/* Info objects: texts by keys, in the order in which they were set. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <stdio.h>

struct entry {
  char *key, *value;
};

struct info {
  struct object object;
  size_t count;
  struct entry *entries;
};

static struct entry *find(const struct info *info, const char *key) {
  for (size_t i = 0; i < info->count; i++)
    if (strcmp(info->entries[i].key, key) == 0) return &info->entries[i];
  return NULL;
}

static char *copy_text(const char *text) {
  size_t bytes = strlen(text) + 1;
  return memcpy(take_memory(bytes), text, bytes);
}

static void set(struct info *info, const char *key, const char *value) {
  struct entry *entry = find(info, key);
  if (entry) {
    free(entry->value);
  } else {
    info->entries = grow_memory(info->entries, (info->count + 1) * sizeof *info->entries);
    entry = &info->entries[info->count++];
    entry->key = copy_text(key);
  }
  entry->value = copy_text(value);
}

const char *info_value(const struct info *info, const char *key) {
  struct entry *entry = info ? find(info, key) : NULL;
  return entry ? entry->value : NULL;
}

struct info *info_copy(const struct info *info) {
  struct info *copy;
  if (!info) return NULL;
  copy = object_new(KIND_INFO, sizeof *copy);
  for (size_t i = 0; i < info->count; i++) set(copy, info->entries[i].key, info->entries[i].value);
  return copy;
}

void info_release(struct info *info) {
  if (!info || !object_drop(info)) return;
  for (size_t i = 0; i < info->count; i++) {
    free(info->entries[i].key);
    free(info->entries[i].value);
  }
  free(info->entries);
  object_free(info);
}

static void set_number(struct info *info, const char *key, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  set(info, key, text);
}

/* A program may ask before MPI_Init. */
static void fill_environment(struct info *info, const char *command) {
  ask_host();
  if (command) set(info, "command", command);
  set_number(info, "maxprocs", rank_info.ranks);
  set(info, "host", rank_info.node_name);
  set(info, "thread_level", "MPI_THREAD_FUNNELED");
}

void info_start(void) {
  fill_environment(object_predefined(KIND_INFO, sizeof(struct info), (uintptr_t)MPI_INFO_ENV), program_invocation_name);
}

static int check_key(const char *key) {
  return key && *key && strlen(key) <= MPI_MAX_INFO_KEY ? MPI_SUCCESS : MPI_ERR_INFO_KEY;
}

/* Looks up the object and checks the key, which may be NULL if there is none. */
static int check(struct info **info, MPI_Info handle, const char *key) {
  *info = info_of(handle);
  return !*info ? MPI_ERR_INFO : key ? check_key(key) : MPI_SUCCESS;
}

MPI(Info_create)(MPI_Info *info) {
  *info = info_handle(object_new(KIND_INFO, sizeof(struct info)));
  return MPI_SUCCESS;
}

MPI(Info_create_env)(int argc, char *argv[], MPI_Info *info) {
  struct info *new = object_new(KIND_INFO, sizeof *new);
  fill_environment(new, argc > 0 && argv ? argv[0] : program_invocation_name);
  *info = info_handle(new);
  return MPI_SUCCESS;
}

MPI(Info_free)(MPI_Info *info) {
  struct info *old = info_of(*info);
  if (!old || old->object.predefined) return fail(NULL, MPI_ERR_INFO);
  info_release(old);
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

MPI(Info_dup)(MPI_Info info, MPI_Info *newinfo) {
  struct info *of = info_of(info);
  if (!of) return fail(NULL, MPI_ERR_INFO);
  *newinfo = info_handle(info_copy(of));
  return MPI_SUCCESS;
}

MPI(Info_set)(MPI_Info info, const char *key, const char *value) {
  struct info *of;
  int error = check(&of, info, key ? key : "");
  if (!error && (!value || strlen(value) > MPI_MAX_INFO_VAL)) error = MPI_ERR_INFO_VALUE;
  if (error) return fail(NULL, error);
  set(of, key, value);
  return MPI_SUCCESS;
}

MPI(Info_delete)(MPI_Info info, const char *key) {
  struct info *of;
  struct entry *entry;
  int error = check(&of, info, key ? key : "");
  if (error) return fail(NULL, error);
  entry = find(of, key);
  if (!entry) return fail(NULL, MPI_ERR_INFO_NOKEY);
  free(entry->key);
  free(entry->value);
  of->count--;
  memmove(entry, entry + 1, (size_t)(&of->entries[of->count] - entry) * sizeof *entry);
  return MPI_SUCCESS;
}

MPI(Info_get)(MPI_Info info, const char *key, int valuelen, char *value, int *flag) {
  struct info *of;
  const char *found;
  int error = check(&of, info, key ? key : "");
  if (!error && valuelen < 0) error = MPI_ERR_ARG;
  if (error) return fail(NULL, error);
  found = info_value(of, key);
  *flag = found != NULL;
  if (found) snprintf(value, (size_t)valuelen + 1, "%s", found);
  return MPI_SUCCESS;
}

MPI(Info_get_string)(MPI_Info info, const char *key, int *buflen, char *value, int *flag) {
  struct info *of;
  const char *found;
  int error = check(&of, info, key ? key : "");
  if (error) return fail(NULL, error);
  found = info_value(of, key);
  *flag = found != NULL;
  if (!found) return MPI_SUCCESS;
  if (*buflen > 0) snprintf(value, (size_t)*buflen, "%s", found);
  *buflen = (int)strlen(found) + 1;
  return MPI_SUCCESS;
}

MPI(Info_get_valuelen)(MPI_Info info, const char *key, int *valuelen, int *flag) {
  struct info *of;
  const char *found;
  int error = check(&of, info, key ? key : "");
  if (error) return fail(NULL, error);
  found = info_value(of, key);
  *flag = found != NULL;
  if (found) *valuelen = (int)strlen(found);
  return MPI_SUCCESS;
}

MPI(Info_get_nkeys)(MPI_Info info, int *nkeys) {
  struct info *of;
  int error = check(&of, info, NULL);
  if (error) return fail(NULL, error);
  *nkeys = (int)of->count;
  return MPI_SUCCESS;
}

MPI(Info_get_nthkey)(MPI_Info info, int n, char *key) {
  struct info *of;
  int error = check(&of, info, NULL);
  if (!error && (n < 0 || (size_t)n >= of->count)) error = MPI_ERR_ARG;
  if (error) return fail(NULL, error);
  strcpy(key, of->entries[n].key);
  return MPI_SUCCESS;
}
