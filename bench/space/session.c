#define _GNU_SOURCE
#include <mainstay_mpi.h>
#include <stdio.h>

#include "file.h"
#include "process.h"
#include "stop.h"
#include "variables.h"
#include "way.h"

static void open_session(way *way) {
  char path[PATH_BYTES];
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  /* The revision of an earlier round is not needed. */
  must(mainstay_set(&options, "start", "fresh"), "set start");
  snprintf(path, sizeof path, "%s/%s.space", way->directory, way->name);
  variables_set(way->settings);
  must(mainstay_open_mpi(MPI_COMM_WORLD, path, &options, &way->session), "open the space");
  variables_unset(way->settings);
  must(mainstay_protect(way->session, "field", way->data, way->bytes), "protect the field");
}

static double save(way *way, int number) {
  (void)number;
  must(mainstay_checkpoint(way->session, NULL), "checkpoint");
  double goes_on = now();
  must(mainstay_wait(way->session), "wait");
  return goes_on;
}

static void close_session(way *way) { must(mainstay_close(way->session), "close"); }

const kind delegated_kind = {"delegated", open_session, save, NULL, close_session};
