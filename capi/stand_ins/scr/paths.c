/* SCR's functions on Mainstay: the files of a dataset, and their places. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <unistd.h>

const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *folder_of(const char *path) { return stand_in_text("%.*s", (int)(base_of(path) - path - 1), path); }

char *below_prefix(const char *path) {
  char *whole = stand_in_absolute(path), *below = NULL;
  const size_t length = strcmp(scr.prefix, "/") ? strlen(scr.prefix) : 0;
  if (!strncmp(whole, scr.prefix, length) && whole[length] == '/') below = stand_in_text("%s", whole + length + 1);
  free(whole);
  return below;
}

void forget_routes(void) {
  size_t i;
  for (i = 0; i < scr.routes_count; i++) {
    if (scr.routes[i].path) unlink(scr.routes[i].path);
    free(scr.routes[i].original);
    free(scr.routes[i].path);
    free(scr.routes[i].final);
  }
  free(scr.routes);
  scr.routes = NULL;
  scr.routes_count = 0;
}

route *add_route(const char *original) {
  route *one;
  scr.routes = stand_in_memory(scr.routes, (scr.routes_count + 1) * sizeof *scr.routes);
  one = &scr.routes[scr.routes_count++];
  memset(one, 0, sizeof *one);
  one->original = stand_in_text("%s", original);
  return one;
}

char *cached(size_t index, const char *original) {
  char *folder = stand_in_text("%s/%zu", scr.cache, index), *path;
  stand_in_make_folders(folder);
  path = stand_in_text("%s/%s", folder, base_of(original));
  free(folder);
  return path;
}

char *of_prefix(const char *name) { return stand_in_text("%s/.scr/%s", scr.prefix, name); }
