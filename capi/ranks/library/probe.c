/* Probes, and receives of messages that a probe took. Licence: MIT OR Apache-2.0. */
#include "point.h"

/* A message that MPI_Mprobe took out of the queue. The predefined one comes from MPI_PROC_NULL. */
struct message {
  struct object object;
  struct comm *comm;
  struct mainstay_message taken;
};

static struct message *no_proc;

void probe_start(void) { no_proc = object_predefined(KIND_MESSAGE, sizeof *no_proc, (uintptr_t)MPI_MESSAGE_NO_PROC); }

/* Looks once for a message; `call` is MAINSTAY_GATE_PROBE or MAINSTAY_GATE_TAKE. */
static bool look(struct comm *comm, int peer, int tag, enum mainstay_gate_call call, struct mainstay_message *message) {
  *message = (struct mainstay_message){
      .peer = peer == MPI_ANY_SOURCE ? MAINSTAY_ANY_RANK : comm_peers(comm)->members[peer],
      .tag = tag == MPI_ANY_TAG ? MAINSTAY_ANY_TAG : tag,
      .context = comm->context + CONTEXT_MESSAGES,
  };
  mainstay_gate(call, message);
  return message->done;
}

static void found_status(struct comm *comm, struct mainstay_message *message, MPI_Status *status) {
  struct outcome outcome;
  message->bytes = message->arrived_bytes;
  outcome = message_outcome(comm, message);
  set_status(status, &outcome);
}

/* Looks for a message, for as long as it takes if `wait`. */
static bool probe(struct comm *comm, int peer, int tag, enum mainstay_gate_call call, bool wait,
                  struct mainstay_message *message, MPI_Status *status) {
  bool found = look(comm, peer, tag, call, message);
  if (!found && !wait) {
    let_others_run();
    found = look(comm, peer, tag, call, message);
  }
  while (!found && wait) {
    wait_event();
    found = look(comm, peer, tag, call, message);
  }
  if (found) found_status(comm, message, status);
  return found;
}

MPI(Probe)(int source, int tag, MPI_Comm comm, MPI_Status *status) {
  struct comm *of;
  struct mainstay_message message;
  int error = check_probe(&of, source, tag, comm);
  if (error) return fail(of, error);
  if (source == MPI_PROC_NULL)
    set_status(status, &no_peer_outcome);
  else
    probe(of, source, tag, MAINSTAY_GATE_PROBE, true, &message, status);
  return MPI_SUCCESS;
}

MPI(Iprobe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
  struct comm *of;
  struct mainstay_message message;
  int error = check_probe(&of, source, tag, comm);
  if (error) return fail(of, error);
  *flag = 1;
  if (source == MPI_PROC_NULL)
    set_status(status, &no_peer_outcome);
  else
    *flag = probe(of, source, tag, MAINSTAY_GATE_PROBE, false, &message, status);
  return MPI_SUCCESS;
}

static bool take(struct comm *comm, int source, int tag, bool wait, MPI_Message *message, MPI_Status *status) {
  struct mainstay_message taken;
  struct message *new;
  if (source == MPI_PROC_NULL) {
    *message = MPI_MESSAGE_NO_PROC;
    set_status(status, &no_peer_outcome);
    return true;
  }
  *message = MPI_MESSAGE_NULL;
  if (!probe(comm, source, tag, MAINSTAY_GATE_TAKE, wait, &taken, status)) return false;
  new = object_new(KIND_MESSAGE, sizeof *new);
  new->comm = object_hold(comm);
  new->taken = taken;
  *message = message_handle(new);
  return true;
}

MPI(Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  struct comm *of;
  int error = check_probe(&of, source, tag, comm);
  if (error) return fail(of, error);
  take(of, source, tag, true, message, status);
  return MPI_SUCCESS;
}

MPI(Improbe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
  struct comm *of;
  int error = check_probe(&of, source, tag, comm);
  if (error) return fail(of, error);
  *flag = take(of, source, tag, false, message, status);
  return MPI_SUCCESS;
}

/* A request that receives the message; the message's handle is gone after it. */
static int receive_taken(void *data, MPI_Count count, MPI_Datatype datatype, MPI_Message *handle,
                         struct request **made) {
  struct message *message = message_of(*handle);
  struct datatype *type = type_of(datatype);
  struct request *request;
  int error = check_buffer(count, type);
  if (!message) return MPI_ERR_REQUEST;
  if (error) return error;
  request = *made = request_new(REQUEST_RECEIVE, message == no_proc ? self : message->comm);
  request->active = true;
  request->buffer = (struct buffer){.data = data, .count = count, .type = object_hold(type)};
  if (message == no_proc) {
    request->peer = MPI_PROC_NULL;
    request->message.done = 1;
  } else {
    if (!is_dense(type)) request->buffer.packed = take_memory(data_bytes(count, type));
    request->message = message->taken;
    request->message.data = request->buffer.packed ? request->buffer.packed : data;
    request->message.bytes = data_bytes(count, type);
    request->message.done = 0;
    comm_release(message->comm);
    object_free(message);
    mainstay_gate(MAINSTAY_GATE_RECEIVE_TAKEN, &request->message);
  }
  *handle = MPI_MESSAGE_NULL;
  return MPI_SUCCESS;
}

#define RECEIVE_TAKEN(suffix, number)                                                                                  \
  MPI(Mrecv##suffix)(void *buf, number count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status) {       \
    struct request *request;                                                                                           \
    MPI_Request handle;                                                                                                \
    int error = receive_taken(buf, count, datatype, message, &request);                                                \
    if (error) return fail(NULL, error);                                                                               \
    handle = request_handle(request);                                                                                  \
    return PMPI_Wait(&handle, status);                                                                                 \
  }                                                                                                                    \
  MPI(Imrecv##suffix)(void *buf, number count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request) {    \
    struct request *new;                                                                                               \
    int error = receive_taken(buf, count, datatype, message, &new);                                                    \
    if (error) return fail(NULL, error);                                                                               \
    *request = request_handle(new);                                                                                    \
    return MPI_SUCCESS;                                                                                                \
  }

RECEIVE_TAKEN(, int)
RECEIVE_TAKEN(_c, MPI_Count)
