/* SCR's functions on Mainstay: parameters. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A program may set parameters before SCR_Init. */
static stand_in_settings config;

const char *parameter(const char *name) {
  const char *value = getenv(name);
  if (!value || !*value) value = stand_in_value(&config, name);
  return value && *value ? value : NULL;
}

double number(const char *name) {
  const char *value = parameter(name);
  return value && stand_in_is_number(value) ? strtod(value, NULL) : 0;
}

/* Splits the next `key`, `key=` or `key=value` off a text, with blanks around. `value` is NULL without a `=`. Returns 0
 * at the end. */
static int next_pair(char **text, char **key, char **value) {
  static const char blanks[] = " \t";
  char *at = *text + strspn(*text, blanks);
  if (!*at) return 0;
  *key = at;
  at += strcspn(at, " \t=");
  *value = NULL;
  if (at[strspn(at, blanks)] == '=') {
    char *end = at;
    at += strspn(at, blanks) + 1;
    *end = 0;
    at += strspn(at, blanks);
    *value = at;
    at += strcspn(at, blanks);
  }
  *text = at + (*at != 0);
  *at = 0;
  return 1;
}

const char *SCR_Config(const char *text) {
  char *copy, *rest, *key, *value, *group = NULL, *answer = NULL;
  const char *found;
  if (!text) return NULL;
  copy = rest = stand_in_text("%s", text);
  while (next_pair(&rest, &key, &value)) {
    /* Parameters behind the first belong to its value: "STORE=/tmp COUNT=1". */
    char *name = group ? stand_in_text("%s %s", group, key) : stand_in_text("%s", key);
    free(answer);
    answer = NULL;
    if (value) {
      stand_in_set(&config, name, *value ? value : NULL);
      if (!group) group = stand_in_text("%s=%s", key, value);
      if (*value) answer = stand_in_text("%s", value);
    } else if ((found = stand_in_value(&config, name))) {
      answer = stand_in_text("%s", found);
    }
    free(name);
  }
  free(group);
  free(copy);
  return answer;
}

const char *SCR_Configf(const char *format, ...) {
  va_list words;
  char *text = NULL;
  const char *answer;
  va_start(words, format);
  if (vasprintf(&text, format, words) < 0) text = NULL;
  va_end(words);
  answer = SCR_Config(text);
  free(text);
  return answer;
}

/* Prints a line for each parameter that has no effect. */
static void warn_of_ignored(void) {
  static const struct {
    const char *name, *instead;
  } known[] = {
      {"SCR_FLUSH_TYPE", "threads of the program write"},
      {"SCR_SET_SIZE", "copies have no sets"},
      {"SCR_GLOBAL_RESTART", "a restart reads the files that SCR_Route_file returns"},
      {"SCR_CACHE_BYPASS", "files pass through SCR_CACHE_BASE"},
      {"SCR_PREFIX_SIZE", "set keep in mainstay.toml"},
      {"SCR_PREFIX_PURGE", "use `mainstay prune`"},
      {"SCR_WATCHDOG_TIMEOUT", "`mainstay run` starts a job again"},
  };
  const char *copies = parameter("SCR_COPY_TYPE");
  size_t i;
  for (i = 0; i < sizeof known / sizeof known[0]; i++)
    if (parameter(known[i].name)) stand_in_say("%s has no effect: %s", known[i].name, known[i].instead);
  if (copies && (!strcmp(copies, "XOR") || !strcmp(copies, "RS")))
    stand_in_say("SCR_COPY_TYPE=%s: another node has a whole copy of each shard; there are no erasure codes", copies);
}

/* Returns an error if the value of a numeric parameter is no number, else NULL. */
static char *find_wrong_number(void) {
  static const char *const numbers[] = {"SCR_CHECKPOINT_INTERVAL", "SCR_CHECKPOINT_SECONDS", "SCR_CHECKPOINT_OVERHEAD",
                                        "SCR_HALT_SECONDS",        "SCR_END_TIME",           "SCR_EXIT_BEFORE",
                                        "SCR_EXIT_AFTER"};
  size_t i;
  for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!stand_in_is_number(parameter(numbers[i])))
      return stand_in_text("%s=%s is no number", numbers[i], parameter(numbers[i]));
  return NULL;
}

char *read_parameters(void) {
  const char *file = parameter("SCR_CONF_FILE");
  const long wrong = file ? stand_in_read_settings(&config, file) : 0;
  if (scr.rank) return find_wrong_number();
  if (wrong) stand_in_say("the file %s in SCR_CONF_FILE cannot be read, or has lines that are no `name=value`", file);
  warn_of_ignored();
  return find_wrong_number();
}
