/* FTI's functions on Mainstay: settings. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>

static const char *setting(const char *name) { return stand_in_value(&fti.settings, name); }

static long number(const char *name) { return setting(name) ? strtol(setting(name), NULL, 10) : 0; }

int is_on(const char *name) { return number(name) > 0; }

/* The shortest interval of FTI_Snapshot, in minutes; 0: none. */
static long interval(void) {
  static const char *const names[] = {"basic:ckpt_l1", "basic:ckpt_l2", "basic:ckpt_l3", "basic:ckpt_l4",
                                      "basic:dcp_l4"};
  long shortest = 0;
  size_t i;
  for (i = 0; i < sizeof names / sizeof names[0]; i++)
    if (number(names[i]) > 0 && (!shortest || number(names[i]) < shortest)) shortest = number(names[i]);
  return shortest;
}

double interval_s(void) {
  const double minute_s = 60, times = (double)number("advanced:fast_forward");
  return minute_s * (double)interval() / (times > 1 ? times : 1);
}

static void say_the_rest(void) {
  if (is_on("basic:head"))
    stand_in_say("FTI's head has no effect: threads of the program do its work, and all ranks compute");
  if (is_on("basic:enable_staging"))
    stand_in_say("FTI's enable_staging has no effect: write the file yourself; a restore cuts back outputs");
  if (is_on("injection:number"))
    stand_in_say("FTI's injection has no effect: `mainstay rehearse` kills a job and compares its end");
}

char *read_settings(const char *path) {
  const long line = path ? stand_in_read_settings(&fti.settings, path) : -1;
  char *global, *local;
  if (line < 0) return stand_in_text("the configuration file %s cannot be read", path ? path : "");
  if (line > 0) return stand_in_text("line %ld of %s is no `name = value`", line, path);
  if (!setting("basic:ckpt_dir") || !setting("basic:glbl_dir"))
    return stand_in_text("%s has no ckpt_dir or no glbl_dir in its section [basic]", path);
  global = stand_in_absolute(setting("basic:glbl_dir"));
  local = stand_in_absolute(setting("basic:ckpt_dir"));
  fti.space = stand_in_text("%s/mainstay", global);
  fti.node = stand_in_on_node(local, fti.space);
  free(global);
  free(local);
  if (fti.rank == 0) say_the_rest();
  return NULL;
}
