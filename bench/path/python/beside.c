/* The C side of the comparison with Python: sessions in C, in the process of a Python program, on the
 * same memory. Loaded by program.py; each function ends the program on an error. */
#include <stdint.h>
#include <stdio.h>

#include <mainstay_mpi.h>

#include "process.h"
#include "stop.h"

mainstay_session *beside_open(const char *space, uint64_t pool_bytes, uint64_t chunk_bytes) {
  mainstay_session *session;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  char text[24];
  options.pool_bytes = pool_bytes;
  snprintf(text, sizeof text, "%llu", (unsigned long long)chunk_bytes);
  must(mainstay_set(&options, "chunk_bytes", text), "set chunk_bytes");
  must(mainstay_open_mpi(MPI_COMM_WORLD, space, &options, &session), "open the space");
  return session;
}

void beside_protect(mainstay_session *session, const char *name, void *data, uint64_t doubles) {
  must(mainstay_protect_array(session, name, data, MAINSTAY_F64, 1, &doubles), "protect");
}

/* One checkpoint: t2 - t1 and t3 - t1, in seconds. */
void beside_checkpoint(mainstay_session *session, double *perceived, double *durable) {
  double t1 = now();
  must(mainstay_checkpoint(session, NULL), "checkpoint");
  double t2 = now();
  must(mainstay_wait(session), "wait");
  *durable = now() - t1;
  *perceived = t2 - t1;
}

void beside_close(mainstay_session *session) { must(mainstay_close(session), "close"); }
