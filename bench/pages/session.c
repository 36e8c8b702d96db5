#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include <mainstay_mpi.h>

#include "file.h"
#include "side.h"
#include "stop.h"
#include "variables.h"

#define POLL_US 200

void session_open(side *side) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/%s" SPACE, side->directory, side->name);
  variables_set(side->settings);
  must(mainstay_open_mpi(MPI_COMM_WORLD, path, NULL, &side->session), "open the space");
  variables_unset(side->settings);
  if (side->data)
    must(mainstay_protect(side->session, "data", side->data, side->bytes), "protect the memory");
  else
    must(mainstay_alloc(side->session, "data", side->bytes, MAINSTAY_ALLOC_FLAG_PLAIN, (void **)&side->data),
         "allocate the memory");
  must(mainstay_protect(side->session, "sum", &side->sum, sizeof side->sum), "protect the sum");
}

static void open_new(side *side) {
  session_open(side);
  must(mainstay_restore(side->session, NULL), "restore");
}

static void save(side *side) { must(mainstay_checkpoint(side->session, NULL), "checkpoint"); }

static double await_durable(side *side) {
  int durable = 0;
  mainstay_record record;
  while (must(mainstay_poll(side->session, &durable), "poll"), !durable)
    usleep(POLL_US); /* the processors belong to the I/O threads */
  must(mainstay_last_record(side->session, &record), "the record");
  return 1e-9 * (double)record.durable_ns;
}

static void close_session(side *side) {
  must(mainstay_close(side->session), "close");
  if (side->is_allocated) side->data = NULL;
}

const kind mainstay_kind = {"mainstay", open_new, save, await_durable, close_session};
