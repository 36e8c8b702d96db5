/* Sends: blocking, nonblocking and persistent, in the four modes. Licence: MIT OR Apache-2.0. */
#include "point.h"

/* Programs pass MPI_DATATYPE_NULL with MPI_PROC_NULL, and MPICH lets them. */
static int look_up(struct call *call, MPI_Count count, MPI_Datatype type, int peer, MPI_Comm comm) {
  call->comm = comm_of(comm);
  if (!call->comm) return MPI_ERR_COMM;
  if (peer == MPI_PROC_NULL && type == MPI_DATATYPE_NULL) type = MPI_BYTE;
  call->type = type_of(type);
  return check_buffer(count, call->type);
}

int check_send(struct call *call, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  int error = look_up(call, count, type, peer, comm);
  if (error) return error;
  if (tag < 0) return MPI_ERR_TAG;
  if (peer != MPI_PROC_NULL && (peer < 0 || peer >= comm_peers(call->comm)->size)) return MPI_ERR_RANK;
  return MPI_SUCCESS;
}

int check_probe(struct comm **found, int peer, int tag, MPI_Comm comm) {
  *found = comm_of(comm);
  if (!*found) return MPI_ERR_COMM;
  if (tag < 0 && tag != MPI_ANY_TAG) return MPI_ERR_TAG;
  if (peer != MPI_PROC_NULL && peer != MPI_ANY_SOURCE && (peer < 0 || peer >= comm_peers(*found)->size))
    return MPI_ERR_RANK;
  return MPI_SUCCESS;
}

int check_receive(struct call *call, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  int error = look_up(call, count, type, peer, comm);
  return error ? error : check_probe(&call->comm, peer, tag, comm);
}

static int send(struct call *call, const void *data, MPI_Count count, int peer, int tag, enum send_mode mode) {
  struct mainstay_message message;
  void *copy;
  if (peer == MPI_PROC_NULL) return MPI_SUCCESS;
  if (mode == MODE_BUFFERED) return send_buffered(call->comm, peer, tag, data, count, call->type);
  data = packed_data(data, count, call->type, &copy);
  message = (struct mainstay_message){
      .peer = comm_peers(call->comm)->members[peer],
      .tag = tag,
      .context = call->comm->context + CONTEXT_MESSAGES,
      .flags = mode == MODE_SYNCHRONOUS ? MAINSTAY_SYNCHRONOUS : 0,
      .data = (void *)(uintptr_t)data,
      .bytes = data_bytes(count, call->type),
  };
  mainstay_gate(MAINSTAY_GATE_SEND, &message);
  wait_message(&message);
  free(copy);
  return MPI_SUCCESS;
}

static struct request *send_request(struct call *call, const void *data, MPI_Count count, int peer, int tag,
                                    enum send_mode mode) {
  struct request *request = request_new(REQUEST_SEND, call->comm);
  request->mode = (uint8_t)mode;
  request->peer = peer;
  request->tag = tag;
  request->buffer.data = (void *)(uintptr_t)data;
  request->buffer.count = count;
  request->buffer.type = object_hold(call->type);
  return request;
}

#define BLOCKING(name, number, mode)                                                                                   \
  MPI(name)(const void *buf, number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {                  \
    struct call call;                                                                                                  \
    int error = check_send(&call, count, datatype, dest, tag, comm);                                                   \
    if (!error) error = send(&call, buf, count, dest, tag, mode);                                                      \
    return error ? fail(call.comm, error) : MPI_SUCCESS;                                                               \
  }
#define NONBLOCKING(name, number, mode)                                                                                \
  MPI(name)(const void *buf, number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,                    \
            MPI_Request *request) {                                                                                    \
    struct call call;                                                                                                  \
    struct request *new;                                                                                               \
    int error = check_send(&call, count, datatype, dest, tag, comm);                                                   \
    if (error) return fail(call.comm, error);                                                                          \
    new = send_request(&call, buf, count, dest, tag, mode);                                                            \
    send_start(new);                                                                                                   \
    *request = request_handle(new);                                                                                    \
    return MPI_SUCCESS;                                                                                                \
  }
#define PERSISTENT(name, number, mode)                                                                                 \
  MPI(name)(const void *buf, number count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,                    \
            MPI_Request *request) {                                                                                    \
    struct call call;                                                                                                  \
    struct request *new;                                                                                               \
    int error = check_send(&call, count, datatype, dest, tag, comm);                                                   \
    if (error) return fail(call.comm, error);                                                                          \
    new = send_request(&call, buf, count, dest, tag, mode);                                                            \
    new->persistent = true;                                                                                            \
    *request = request_handle(new);                                                                                    \
    return MPI_SUCCESS;                                                                                                \
  }
#define ALL(blocking, nonblocking, mode)                                                                               \
  BLOCKING(blocking, int, mode)                                                                                        \
  BLOCKING(blocking##_c, MPI_Count, mode)                                                                              \
  NONBLOCKING(nonblocking, int, mode)                                                                                  \
  NONBLOCKING(nonblocking##_c, MPI_Count, mode)                                                                        \
  PERSISTENT(blocking##_init, int, mode)                                                                               \
  PERSISTENT(blocking##_init_c, MPI_Count, mode)

ALL(Send, Isend, MODE_STANDARD)
ALL(Bsend, Ibsend, MODE_BUFFERED)
ALL(Ssend, Issend, MODE_SYNCHRONOUS)
ALL(Rsend, Irsend, MODE_READY)
