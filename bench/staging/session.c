#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include <mainstay_mpi.h>

#include "file.h"
#include "process.h"
#include "rounds.h"
#include "side.h"
#include "stop.h"
#include "variables.h"

#define POLL_US 1000
#define STREAM "image"

static void open_session(side *side, const image *image) {
  char path[PATH_BYTES];
  (void)image;
  snprintf(path, sizeof path, "%s/%s" SPACE, side->directory, side->name);
  variables_set(side->settings);
  must(mainstay_open_mpi(MPI_COMM_WORLD, path, NULL, &side->session), "open the space");
  variables_unset(side->settings);
}

static void save(side *side, const image *image, saved *saved) {
  int durable = 0;
  must(mainstay_begin(side->session, image->bytes, NULL), "begin");
  for (size_t at = 0, piece = 0; piece < image->count; at += image->pieces[piece++])
    must(mainstay_write(side->session, STREAM, at, image->data + at, image->pieces[piece]), "write");
  must(mainstay_checkpoint(side->session, NULL), "checkpoint");
  saved->t2 = now();
  /* Sleeps: other ranks that still copy, and the I/O threads, need the processors. */
  while (must(mainstay_poll(side->session, &durable), "poll"), !durable) usleep(POLL_US);
  must(mainstay_last_record(side->session, &saved->record), "the record");
  saved->t3 = saved->t2 + 1e-9 * ((double)saved->record.durable_ns - (double)saved->record.perceived_ns);
  meet();
  must(mainstay_wait(side->session), "wait");
}

static void restart(side *side, image *image, restored *restored) {
  mainstay_restored found;
  uint64_t bytes;
  open_session(side, image);
  restored->opened = now();
  must(mainstay_restore(side->session, &found), "restore");
  restored->rebuilt = now();
  must(mainstay_stream_bytes(side->session, STREAM, &bytes), "the stream's size");
  if (!found.revision || found.skipped || bytes != image->bytes)
    stop("revision %llu was restored with %llu bytes, %llu were passed over", (unsigned long long)found.revision,
         (unsigned long long)bytes, (unsigned long long)found.skipped);
  for (size_t at = 0, got; at < image->bytes; at += got) {
    size_t asked = file_transfer(image->bytes - at);
    must(mainstay_read(side->session, STREAM, at, image->data + at, asked, &got), "read");
    if (got != asked) stop("%zu bytes of %zu were read at %zu", got, asked, at);
  }
  restored->read = now();
}

static void close_session(side *side, const image *image) {
  (void)image;
  must(mainstay_close(side->session), "close");
  side->session = NULL;
}

const kind mainstay_kind = {"mainstay", open_session, NULL, save, restart, close_session};
