/* FTI's functions on Mainstay: settings. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <string.h>

static const char *setting(const char *name) { return stand_in_value(&fti.settings, name); }

static double number(const char *name) { return setting(name) ? strtod(setting(name), NULL) : 0; }

int is_on(const char *name) { return number(name) > 0; }

static const char *const intervals[] = {"basic:ckpt_l1", "basic:ckpt_l2", "basic:ckpt_l3", "basic:ckpt_l4",
                                        "basic:dcp_l4"};
enum { INTERVALS = sizeof intervals / sizeof intervals[0] };

/* The shortest interval of FTI_Snapshot, in minutes; 0: none. */
static double interval(void) {
  double shortest = 0;
  size_t i;
  for (i = 0; i < INTERVALS; i++)
    if (number(intervals[i]) > 0 && (!shortest || number(intervals[i]) < shortest)) shortest = number(intervals[i]);
  return shortest;
}

/* Returns an error if the value of a numeric setting is no number, else NULL. */
static char *find_wrong_number(void) {
  static const char *const others[] = {"basic:keep_last_ckpt", "basic:keep_l4_ckpt",   "basic:enable_dcp",
                                       "basic:head",           "basic:enable_staging", "advanced:fast_forward"};
  size_t i;
  for (i = 0; i < INTERVALS + sizeof others / sizeof others[0]; i++) {
    const char *name = i < INTERVALS ? intervals[i] : others[i - INTERVALS];
    if (!stand_in_is_number(setting(name)))
      return stand_in_text("%s = %s is no number", strchr(name, ':') + 1, setting(name));
  }
  return NULL;
}

double interval_s(void) {
  const double minute_s = 60, times = number("advanced:fast_forward");
  return minute_s * interval() / (times > 1 ? times : 1);
}

/* Prints a line for each setting that has no effect. */
static void warn_of_ignored(void) {
  if (is_on("basic:head"))
    stand_in_say("FTI's head has no effect: threads of the program do its work, and all ranks compute");
  if (is_on("basic:enable_staging"))
    stand_in_say("FTI's enable_staging has no effect: write files to the shared file system");
  if (is_on("injection:number"))
    stand_in_say("FTI's injection has no effect: `mainstay rehearse` kills a job and compares the results");
}

char *read_settings(const char *path) {
  const long line = path ? stand_in_read_settings(&fti.settings, path) : -1;
  char *global, *local, *why;
  if (line < 0) return stand_in_text("the configuration file %s cannot be read", path ? path : "");
  if (line > 0) return stand_in_text("line %ld of %s is no `name = value`", line, path);
  if (!setting("basic:ckpt_dir") || !setting("basic:glbl_dir"))
    return stand_in_text("%s has no ckpt_dir or no glbl_dir in its section [basic]", path);
  why = find_wrong_number();
  if (why) return why;
  global = stand_in_absolute(setting("basic:glbl_dir"));
  local = stand_in_absolute(setting("basic:ckpt_dir"));
  fti.space = stand_in_text("%s/mainstay", global);
  fti.node = stand_in_on_node(local, fti.space);
  free(global);
  free(local);
  if (fti.rank == 0) warn_of_ignored();
  return NULL;
}
