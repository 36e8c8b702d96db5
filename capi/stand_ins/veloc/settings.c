/* VeloC's functions on Mainstay: settings. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

const char *setting(const char *name) {
  char variable[64];
  const char *value;
  size_t i;
  snprintf(variable, sizeof variable, "VELOC_%s", name);
  for (i = 0; variable[i]; i++)
    if (variable[i] >= 'a' && variable[i] <= 'z') variable[i] = (char)(variable[i] - 'a' + 'A');
  value = getenv(variable);
  if (!value || !*value) value = stand_in_value(&veloc.settings, name);
  return value && *value ? value : NULL;
}

int is_off(const char *name) {
  const char *value = setting(name);
  return value && strtol(value, NULL, 10) < 0;
}

/* Prints a line for each setting of the file that has no effect. */
static void warn_of_ignored(void) {
  static const struct {
    const char *name, *instead; /* NULL: it has an effect, or Mainstay always does it */
  } known[] = {
      {"scratch", NULL},
      {"persistent", NULL},
      {"mode", NULL},
      {"max_versions", NULL},
      {"scratch_versions", NULL},
      {"failure_domain", NULL},
      {"chksum", NULL},
      {"meta", NULL},
      {"threaded", NULL},
      {"aggregated", NULL},
      {"persistent_interval", "set pfs_every, in revisions, in mainstay.toml"},
      {"ec_interval", "set memory_copies, the number of copies on other nodes, in mainstay.toml"},
      {"watchdog_interval", "`mainstay run` starts a job again"},
      {"axl_type", "the persistent path is a directory"},
      {"daos_pool", "name a directory in `persistent`"},
      {"daos_cont", "name a directory in `persistent`"},
      {"log_prefix", "lines go to standard error"},
  };
  size_t i, k;
  for (i = 0; i < veloc.settings.count; i++) {
    const char *name = veloc.settings.all[i].name, *instead = "it is not a setting of VeloC that Mainstay knows";
    for (k = 0; k < sizeof known / sizeof known[0]; k++)
      if (!strcasecmp(name, known[k].name)) instead = known[k].instead;
    if (instead && !is_off(name)) stand_in_say("VeloC's %s has no effect: %s", name, instead);
  }
}

/* Returns an error if the value of a numeric setting is no number, else NULL. */
static char *find_wrong_number(void) {
  static const char *const numbers[] = {"max_versions", "scratch_versions", "persistent_interval", "ec_interval"};
  size_t i;
  for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!stand_in_is_number(setting(numbers[i])))
      return stand_in_text("%s = %s is no number", numbers[i], setting(numbers[i]));
  return NULL;
}

/* Makes the folder of a setting. It must fail in VELOC_Init: a program may take a failure of VELOC_Restart_test for no
 * version, and start anew. */
static char *make_base(const char *path) {
  int code = stand_in_make_folders(path);
  if (!code && access(path, W_OK | X_OK)) code = errno;
  return code ? stand_in_text("%s cannot be used: %s", path, strerror(code)) : NULL;
}

int read_settings(const char *call, const char *path) {
  const long line = path && *path ? stand_in_read_settings(&veloc.settings, path) : 0;
  const char *mode;
  char *why = NULL;
  if (line) {
    why = line < 0 ? stand_in_text("the configuration file %s cannot be read", path)
                   : stand_in_text("line %ld of %s is no `name = value`", line, path);
    return result(call, why);
  }
  mode = setting("mode");
  if (!mode || (strcmp(mode, "sync") && strcmp(mode, "async"))) return fail(call, "mode is neither sync nor async");
  why = find_wrong_number();
  if (why) return result(call, why);
  if (!setting("scratch")) return fail(call, "scratch is missing; name a directory of the node");
  veloc.scratch = stand_in_absolute(setting("scratch"));
  if (setting("persistent") && !is_off("persistent_interval"))
    veloc.persistent = stand_in_absolute(setting("persistent"));
  why = make_base(veloc.scratch);
  if (!why && veloc.persistent) why = make_base(veloc.persistent);
  if (why) return result(call, why);
  if (veloc.rank == 0) warn_of_ignored();
  if (setting("failure_domain")) setenv("MAINSTAY_DOMAIN", setting("failure_domain"), 0);
  return VELOC_SUCCESS;
}
