#define _GNU_SOURCE
#include "variables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stop.h"

#define SETTINGS_BYTES 1024
#define VARIABLE_BYTES 128

static void change(const char *settings, int set) {
  char words[SETTINGS_BYTES], variable[VARIABLE_BYTES], *rest = words;
  snprintf(words, sizeof words, "%s", settings);
  for (char *key; (key = strsep(&rest, ",")) && *key;) {
    char *value = strchr(key, '=');
    if (!value) stop("no setting: %s", key);
    *value++ = 0;
    for (char *c = key; *c; c++) *c = (char)toupper((unsigned char)*c);
    snprintf(variable, sizeof variable, "MAINSTAY_%s", key);
    if ((set ? setenv(variable, value, 1) : unsetenv(variable)) != 0) stop_errno("set %s", variable);
  }
}

void variables_set(const char *settings) { change(settings, 1); }

void variables_unset(const char *settings) { change(settings, 0); }
