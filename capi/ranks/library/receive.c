/* Receives, and sends with a receive. Licence: MIT OR Apache-2.0. */
#include "point.h"

/* Starts a receive whose message lies on the caller's stack. `packed` gets the room for a type that is not dense. */
static void begin(struct mainstay_message *message, struct call *call, void *data, MPI_Count count, int peer, int tag,
                  void **packed) {
  size_t bytes = data_bytes(count, call->type);
  *packed = is_dense(call->type) ? NULL : take_memory(bytes);
  *message = (struct mainstay_message){
      .peer = peer == MPI_ANY_SOURCE ? MAINSTAY_ANY_RANK : comm_peers(call->comm)->members[peer],
      .tag = tag == MPI_ANY_TAG ? MAINSTAY_ANY_TAG : tag,
      .context = call->comm->context + CONTEXT_MESSAGES,
      .data = *packed ? *packed : data,
      .bytes = bytes,
  };
  mainstay_gate(MAINSTAY_GATE_RECEIVE, message);
}

/* Waits for such a receive and stores its bytes and its status. */
static int end(struct mainstay_message *message, struct call *call, void *data, MPI_Count count, void *packed,
               MPI_Status *status) {
  struct outcome outcome;
  wait_message(message);
  outcome = message_outcome(call->comm, message);
  if (packed) unpack_bytes(packed, (size_t)outcome.bytes, data, count, call->type);
  free(packed);
  set_status(status, &outcome);
  return outcome.error;
}

static int receive(struct call *call, void *data, MPI_Count count, int peer, int tag, MPI_Status *status) {
  struct mainstay_message message;
  void *packed;
  if (peer == MPI_PROC_NULL) {
    set_status(status, &no_peer_outcome);
    return MPI_SUCCESS;
  }
  begin(&message, call, data, count, peer, tag, &packed);
  return end(&message, call, data, count, packed, status);
}

static struct request *receive_request(struct call *call, void *data, MPI_Count count, int peer, int tag) {
  struct request *request = request_new(REQUEST_RECEIVE, call->comm);
  request->peer = peer;
  request->tag = tag;
  request->buffer.data = data;
  request->buffer.count = count;
  request->buffer.type = object_hold(call->type);
  return request;
}

#define RECEIVES(suffix, number)                                                                                       \
  MPI(Recv##suffix)(void *buf, number count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,                \
                    MPI_Status *status) {                                                                              \
    struct call call;                                                                                                  \
    int error = check_receive(&call, count, datatype, source, tag, comm);                                              \
    if (!error) error = receive(&call, buf, count, source, tag, status);                                               \
    return error ? fail(call.comm, error) : MPI_SUCCESS;                                                               \
  }                                                                                                                    \
  MPI(Irecv##suffix)(void *buf, number count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,               \
                     MPI_Request *request) {                                                                           \
    struct call call;                                                                                                  \
    struct request *new;                                                                                               \
    int error = check_receive(&call, count, datatype, source, tag, comm);                                              \
    if (error) return fail(call.comm, error);                                                                          \
    new = receive_request(&call, buf, count, source, tag);                                                             \
    receive_start(new);                                                                                                \
    *request = request_handle(new);                                                                                    \
    return MPI_SUCCESS;                                                                                                \
  }                                                                                                                    \
  MPI(Recv_init##suffix)(void *buf, number count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,           \
                         MPI_Request *request) {                                                                       \
    struct call call;                                                                                                  \
    struct request *new;                                                                                               \
    int error = check_receive(&call, count, datatype, source, tag, comm);                                              \
    if (error) return fail(call.comm, error);                                                                          \
    new = receive_request(&call, buf, count, source, tag);                                                             \
    new->persistent = true;                                                                                            \
    *request = request_handle(new);                                                                                    \
    return MPI_SUCCESS;                                                                                                \
  }

RECEIVES(, int)
RECEIVES(_c, MPI_Count)

/* The two halves of a send with a receive. */
struct half {
  void *data;
  MPI_Count count;
  MPI_Datatype type;
  int peer, tag;
};

static int exchange(const struct half *out, const struct half *in, MPI_Comm comm, MPI_Status *status,
                    struct comm **found) {
  struct call send, receive;
  struct mainstay_message outgoing = {.done = 1}, incoming;
  void *copy = NULL, *packed;
  int error = check_send(&send, out->count, out->type, out->peer, out->tag, comm);
  *found = send.comm;
  if (!error) error = check_receive(&receive, in->count, in->type, in->peer, in->tag, comm);
  if (error) return error;
  if (in->peer != MPI_PROC_NULL) begin(&incoming, &receive, in->data, in->count, in->peer, in->tag, &packed);
  if (out->peer != MPI_PROC_NULL)
    start_send(&outgoing, send.comm, CONTEXT_MESSAGES, out->peer, out->tag,
               packed_data(out->data, out->count, send.type, &copy), data_bytes(out->count, send.type));
  if (in->peer != MPI_PROC_NULL)
    error = end(&incoming, &receive, in->data, in->count, packed, status);
  else
    set_status(status, &no_peer_outcome);
  wait_message(&outgoing);
  free(copy);
  return error;
}

/* A nonblocking send with a receive: two requests behind one. */
struct pair {
  struct request *out, *in;
  void *copy;
};

static bool pair_step(struct request *request) {
  struct pair *pair = request->work->state;
  MPI_Request unused;
  MPI_Status status;
  if (!request_done(pair->out) || !request_done(pair->in)) return false;
  request->outcome.error = request_complete(pair->in, &unused, &status);
  request->outcome.source = status.MPI_SOURCE;
  request->outcome.tag = status.MPI_TAG;
  request->outcome.bytes = status_bytes(&status);
  request_complete(pair->out, &unused, MPI_STATUS_IGNORE);
  return true;
}

static void pair_release(struct request *request) {
  struct pair *pair = request->work->state;
  free(pair->copy);
  free(pair);
}

/* `replace`: both halves name the same buffer, so the sent bytes are copied first. */
static int exchange_start(const struct half *out, const struct half *in, bool replace, MPI_Comm comm,
                          MPI_Request *handle, struct comm **found) {
  struct call send, receive;
  struct pair *pair;
  struct work work = {.step = pair_step, .release = pair_release};
  struct request *request;
  int error = check_send(&send, out->count, out->type, out->peer, out->tag, comm);
  *found = send.comm;
  if (!error) error = check_receive(&receive, in->count, in->type, in->peer, in->tag, comm);
  if (error) return error;
  pair = take_zeroed(1, sizeof *pair);
  pair->in = receive_request(&receive, in->data, in->count, in->peer, in->tag);
  pair->out = request_new(REQUEST_SEND, send.comm);
  pair->out->peer = out->peer;
  pair->out->tag = out->tag;
  pair->out->buffer = (struct buffer){.data = out->data, .count = out->count, .type = object_hold(send.type)};
  if (replace) {
    size_t bytes = data_bytes(out->count, send.type);
    pair->copy = take_memory(bytes);
    pack_bytes(out->data, out->count, send.type, pair->copy);
    type_release(send.type);
    pair->out->buffer =
        (struct buffer){.data = pair->copy, .count = (MPI_Count)bytes, .type = object_hold(type_of(MPI_BYTE))};
  }
  receive_start(pair->in);
  send_start(pair->out);
  work.state = pair;
  request = request_collective(send.comm, &work, false);
  request_start(request);
  *handle = request_handle(request);
  return MPI_SUCCESS;
}

#define EXCHANGES(suffix, number)                                                                                      \
  MPI(Sendrecv##suffix)(const void *sendbuf, number sendcount, MPI_Datatype sendtype, int dest, int sendtag,           \
                        void *recvbuf, number recvcount, MPI_Datatype recvtype, int source, int recvtag,               \
                        MPI_Comm comm, MPI_Status *status) {                                                           \
    struct half out = {(void *)(uintptr_t)sendbuf, sendcount, sendtype, dest, sendtag};                                \
    struct half in = {recvbuf, recvcount, recvtype, source, recvtag};                                                  \
    struct comm *found;                                                                                                \
    int error = exchange(&out, &in, comm, status, &found);                                                             \
    return error ? fail(found, error) : MPI_SUCCESS;                                                                   \
  }                                                                                                                    \
  MPI(Isendrecv##suffix)(const void *sendbuf, number sendcount, MPI_Datatype sendtype, int dest, int sendtag,          \
                         void *recvbuf, number recvcount, MPI_Datatype recvtype, int source, int recvtag,              \
                         MPI_Comm comm, MPI_Request *request) {                                                        \
    struct half out = {(void *)(uintptr_t)sendbuf, sendcount, sendtype, dest, sendtag};                                \
    struct half in = {recvbuf, recvcount, recvtype, source, recvtag};                                                  \
    struct comm *found;                                                                                                \
    int error = exchange_start(&out, &in, false, comm, request, &found);                                               \
    return error ? fail(found, error) : MPI_SUCCESS;                                                                   \
  }                                                                                                                    \
  MPI(Isendrecv_replace##suffix)(void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, int source,    \
                                 int recvtag, MPI_Comm comm, MPI_Request *request) {                                   \
    struct half out = {buf, count, datatype, dest, sendtag}, in = {buf, count, datatype, source, recvtag};             \
    struct comm *found;                                                                                                \
    int error = exchange_start(&out, &in, true, comm, request, &found);                                                \
    return error ? fail(found, error) : MPI_SUCCESS;                                                                   \
  }                                                                                                                    \
  MPI(Sendrecv_replace##suffix)(void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, int source,     \
                                int recvtag, MPI_Comm comm, MPI_Status *status) {                                      \
    struct half out = {buf, count, datatype, dest, sendtag}, in = {buf, count, datatype, source, recvtag};             \
    struct comm *found = comm_of(comm);                                                                                \
    struct datatype *type = type_of(datatype);                                                                         \
    int error = found ? check_buffer(count, type) : MPI_ERR_COMM;                                                      \
    if (!error) {                                                                                                      \
      out.count = (MPI_Count)data_bytes(count, type);                                                                  \
      out.data = take_memory((size_t)out.count);                                                                       \
      out.type = MPI_BYTE;                                                                                             \
      pack_bytes(buf, count, type, out.data);                                                                          \
      error = exchange(&out, &in, comm, status, &found);                                                               \
      free(out.data);                                                                                                  \
    }                                                                                                                  \
    return error ? fail(found, error) : MPI_SUCCESS;                                                                   \
  }

EXCHANGES(, int)
EXCHANGES(_c, MPI_Count)
