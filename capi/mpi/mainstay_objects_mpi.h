/* Objects that move, on MPI. Licence: MIT OR Apache-2.0.
 *
 * Your own mpicc compiles this header, like mainstay_mpi.h. Messages of objects use the program's communicator
 * (mainstay_mpi_comm), which is a new one after each recovery, with the tag MAINSTAY_OBJECTS_TAG. */
#ifndef MAINSTAY_OBJECTS_MPI_H
#define MAINSTAY_OBJECTS_MPI_H

#include "mainstay_mpi.h"
#include "mainstay_objects.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every MPI allows a tag as large as this. */
#define MAINSTAY_OBJECTS_TAG 32767

/* MPI counts in int: a longer message is sent in pieces, which arrive in order. */
#ifndef MAINSTAY_OBJECTS_PIECE_MAX
#define MAINSTAY_OBJECTS_PIECE_MAX ((size_t)1 << 30)
#endif

typedef struct mainstay_objects_mpi {
  mainstay_session *session;
  MPI_Request *coming;
  size_t count, room, come; /* the first `come` of them are here */
} mainstay_objects_mpi;

/* The session's own wire sleeps in the same way while it waits. */
MAINSTAY_SHIM double mainstay_objects_mpi_pause(const mainstay_objects_mpi *mine) {
  const mainstay_mpi_context *context = (const mainstay_mpi_context *)mainstay_group_context(mine->session);
  return context ? context->pause_s_max : 500e-6;
}

MAINSTAY_SHIM MPI_Comm mainstay_objects_mpi_comm(const mainstay_objects_mpi *mine) {
  return mainstay_mpi_is_over() ? MPI_COMM_NULL : mainstay_mpi_comm(mine->session);
}

MAINSTAY_SHIM int mainstay_objects_mpi_ranks(void *context, uint32_t *rank, uint32_t *ranks) {
  MPI_Comm comm = mainstay_objects_mpi_comm((const mainstay_objects_mpi *)context);
  int mine = 0, all = 0;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  MPI_Comm_rank(comm, &mine);
  MPI_Comm_size(comm, &all);
  *rank = (uint32_t)mine, *ranks = (uint32_t)all;
  return 0;
}

MAINSTAY_SHIM int mainstay_objects_mpi_swap(void *context, const uint64_t *to, uint64_t *from, size_t words) {
  const mainstay_objects_mpi *mine = (const mainstay_objects_mpi *)context;
  MPI_Comm comm = mainstay_objects_mpi_comm(mine);
  MPI_Request request;
  uint64_t *told;
  size_t all;
  int code, ranks;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  MPI_Comm_size(comm, &ranks);
  all = (size_t)ranks * words;
  told = (uint64_t *)malloc(2 * all * sizeof *told + 1);
  if (!told) return MPI_ERR_NO_MEM;
  memcpy(told, to, all * sizeof *told);
  code = MPI_Ialltoall(told, (int)words, MPI_UINT64_T, told + all, (int)words, MPI_UINT64_T, comm, &request);
  if (code == MPI_SUCCESS) code = mainstay_mpi_await(&request, MPI_STATUS_IGNORE, mainstay_objects_mpi_pause(mine));
  if (code == MPI_SUCCESS) {
    memcpy(from, told + all, all * sizeof *told);
    free(told);
  } /* otherwise it stays: Open MPI may still receive data that others sent before a rank failed */
  return mainstay_mpi_class(code);
}

MAINSTAY_SHIM int mainstay_objects_mpi_receive(void *context, uint32_t from, void *data, size_t bytes) {
  mainstay_objects_mpi *mine = (mainstay_objects_mpi *)context;
  MPI_Comm comm = mainstay_objects_mpi_comm(mine);
  size_t at, piece;
  int code = MPI_SUCCESS;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  for (at = 0; at < bytes && code == MPI_SUCCESS; at += piece) {
    piece = bytes - at < MAINSTAY_OBJECTS_PIECE_MAX ? bytes - at : MAINSTAY_OBJECTS_PIECE_MAX;
    if (mine->count == mine->room) {
      const size_t room = mine->room ? 2 * mine->room : 16;
      MPI_Request *more = (MPI_Request *)realloc(mine->coming, room * sizeof *more);
      if (!more) return MPI_ERR_NO_MEM;
      mine->coming = more, mine->room = room;
    }
    code = MPI_Irecv((char *)data + at, (int)piece, MPI_BYTE, (int)from, MAINSTAY_OBJECTS_TAG, comm,
                     &mine->coming[mine->count]);
    if (code == MPI_SUCCESS)
      mine->count++;
    else
      mine->count = 0; /* messages in progress are abandoned, with their memory */
  }
  return mainstay_mpi_class(code);
}

/* Uses MPI_Send, into started receives: MPI_Isend of Open MPI 5.0 can crash in a wait when a rank fails. */
MAINSTAY_SHIM int mainstay_objects_mpi_send(void *context, uint32_t to, const void *data, size_t bytes) {
  mainstay_objects_mpi *mine = (mainstay_objects_mpi *)context;
  MPI_Comm comm = mainstay_objects_mpi_comm(mine);
  size_t at, piece;
  int code = MPI_SUCCESS;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  for (at = 0; at < bytes && code == MPI_SUCCESS; at += piece) {
    piece = bytes - at < MAINSTAY_OBJECTS_PIECE_MAX ? bytes - at : MAINSTAY_OBJECTS_PIECE_MAX;
    code = MPI_Send((const char *)data + at, (int)piece, MPI_BYTE, (int)to, MAINSTAY_OBJECTS_TAG, comm);
  }
  if (code != MPI_SUCCESS) mine->count = 0;
  return mainstay_mpi_class(code);
}

MAINSTAY_SHIM int mainstay_objects_mpi_finish(void *context, double limit_s, int *done) {
  mainstay_objects_mpi *mine = (mainstay_objects_mpi *)context;
  const double pause_s_max = mainstay_objects_mpi_pause(mine);
  int code = MPI_SUCCESS;
  *done = 0;
  for (; mine->come < mine->count; mine->come++) {
    code = mainstay_mpi_await_for(&mine->coming[mine->come], MPI_STATUS_IGNORE, pause_s_max, limit_s);
    if (code == MAINSTAY_MPI_NOT_YET) return 0;
    if (code != MPI_SUCCESS) break;
  }
  mine->come = mine->count = 0;
  *done = code == MPI_SUCCESS;
  return mainstay_mpi_class(code);
}

MAINSTAY_SHIM void mainstay_objects_mpi_release(void *context) {
  free(((mainstay_objects_mpi *)context)->coming);
  free(context);
}

/* Opens the objects of a job, like mainstay_objects_open, for a session of mainstay_open_mpi. Local. */
MAINSTAY_SHIM mainstay_status mainstay_objects_open_mpi(mainstay_session *session,
                                                        const mainstay_objects_options *options,
                                                        mainstay_objects **objects) {
  mainstay_objects_mpi *context = (mainstay_objects_mpi *)calloc(1, sizeof *context);
  mainstay_wire wire;
  memset(&wire, 0, sizeof wire);
  if (!context) return mainstay_adapter_error(MAINSTAY_IO, "no memory for a few bytes");
  context->session = session;
  wire.size = sizeof wire;
  wire.context = context;
  wire.ranks = mainstay_objects_mpi_ranks;
  wire.swap = mainstay_objects_mpi_swap;
  wire.receive = mainstay_objects_mpi_receive;
  wire.send = mainstay_objects_mpi_send;
  wire.finish = mainstay_objects_mpi_finish;
  wire.release = mainstay_objects_mpi_release;
  return mainstay_objects_open(session, &wire, options, objects);
}

#ifdef __cplusplus
}
#endif

#endif /* MAINSTAY_OBJECTS_MPI_H */
