/* Requests: how they start, end and are freed. Licence: MIT OR Apache-2.0. */
#include "point.h"

const struct outcome empty_outcome = {.source = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG};
const struct outcome no_peer_outcome = {.source = MPI_PROC_NULL, .tag = MPI_ANY_TAG};

/* Requests that the program freed while they were active. */
static struct request **orphans;
static size_t orphan_count;

struct request *request_new(enum request_kind kind, struct comm *comm) {
  struct request *request = object_new(KIND_REQUEST, sizeof *request);
  request->kind = kind;
  request->comm = object_hold(comm);
  request->outcome = empty_outcome;
  return request;
}

struct request *request_finished(MPI_Count bytes) {
  struct request *request = request_new(REQUEST_FINISHED, NULL);
  request->outcome.bytes = bytes;
  request->active = true;
  return request;
}

struct request *request_collective(struct comm *comm, const struct work *work, bool persistent) {
  struct request *request = request_new(REQUEST_COLLECTIVE, comm);
  request->work = take_memory(sizeof *work);
  *request->work = *work;
  request->work->next = NULL;
  request->persistent = persistent;
  return request;
}

/* Returns the error of a general request's free function. */
static int free_request(struct request *request) {
  int error = MPI_SUCCESS;
  if (request->kind == REQUEST_COLLECTIVE) {
    if (request->work->release) request->work->release(request);
    free(request->work);
  }
  if (request->kind == REQUEST_GENERAL) error = general_release(request);
  free(request->buffer.packed);
  if (request->buffer.type) type_release(request->buffer.type);
  comm_release(request->comm);
  object_free(request);
  return error;
}

void send_start(struct request *request) {
  struct buffer *buffer = &request->buffer;
  const void *data = buffer->data;
  request->active = true;
  request->cancelled = false;
  request->message = (struct mainstay_message){.done = 1};
  if (request->peer == MPI_PROC_NULL) return;
  if (request->mode == MODE_BUFFERED) {
    request->outcome.error =
        send_buffered(request->comm, request->peer, request->tag, data, buffer->count, buffer->type);
    return;
  }
  if (!is_dense(buffer->type)) {
    if (!buffer->packed) buffer->packed = take_memory(data_bytes(buffer->count, buffer->type));
    pack_bytes(data, buffer->count, buffer->type, buffer->packed);
    data = buffer->packed;
  }
  request->message = (struct mainstay_message){
      .peer = comm_peers(request->comm)->members[request->peer],
      .tag = request->tag,
      .context = request->comm->context + CONTEXT_MESSAGES,
      .flags = request->mode == MODE_SYNCHRONOUS ? MAINSTAY_SYNCHRONOUS : 0,
      .data = (void *)(uintptr_t)data,
      .bytes = data_bytes(buffer->count, buffer->type),
  };
  mainstay_gate(MAINSTAY_GATE_SEND, &request->message);
}

void receive_start(struct request *request) {
  struct buffer *buffer = &request->buffer;
  void *data = buffer->data;
  request->active = true;
  request->cancelled = false;
  request->message = (struct mainstay_message){.done = 1};
  if (request->peer == MPI_PROC_NULL) return;
  if (!is_dense(buffer->type)) {
    if (!buffer->packed) buffer->packed = take_memory(data_bytes(buffer->count, buffer->type));
    data = buffer->packed;
  }
  request->message = (struct mainstay_message){
      .peer = request->peer == MPI_ANY_SOURCE ? MAINSTAY_ANY_RANK : comm_peers(request->comm)->members[request->peer],
      .tag = request->tag == MPI_ANY_TAG ? MAINSTAY_ANY_TAG : request->tag,
      .context = request->comm->context + CONTEXT_MESSAGES,
      .data = data,
      .bytes = data_bytes(buffer->count, buffer->type),
  };
  mainstay_gate(MAINSTAY_GATE_RECEIVE, &request->message);
}

int request_start(struct request *request) {
  int error = MPI_SUCCESS;
  if (request->active) return MPI_ERR_REQUEST;
  switch (request->kind) {
  case REQUEST_SEND:
    send_start(request);
    break;
  case REQUEST_RECEIVE:
    receive_start(request);
    break;
  case REQUEST_COLLECTIVE:
    request->active = true;
    request->message.done = 0;
    request->outcome = empty_outcome;
    if (request->work->start) error = request->work->start(request);
    collective_activate(request);
    step_collectives();
    break;
  default:
    return MPI_ERR_REQUEST;
  }
  return error;
}

bool request_done(struct request *request) {
  if (!request->active) return true;
  switch (request->kind) {
  case REQUEST_FINISHED:
    return true;
  case REQUEST_GENERAL:
    return general_done(request);
  default:
    return request->message.done;
  }
}

struct outcome message_outcome(struct comm *comm, const struct mainstay_message *message) {
  bool truncated = message->arrived_bytes > message->bytes;
  return (struct outcome){.source = group_place(comm_peers(comm), message->source),
                          .tag = message->arrived_tag,
                          .error = truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS,
                          .bytes = (MPI_Count)(truncated ? message->bytes : message->arrived_bytes)};
}

static struct outcome receive_outcome(struct request *request) {
  struct outcome outcome;
  if (request->cancelled) {
    outcome = empty_outcome;
    outcome.cancelled = true;
    return outcome;
  }
  if (request->peer == MPI_PROC_NULL) return no_peer_outcome;
  outcome = message_outcome(request->comm, &request->message);
  if (request->buffer.packed)
    unpack_bytes(request->buffer.packed, (size_t)outcome.bytes, request->buffer.data, request->buffer.count,
                 request->buffer.type);
  return outcome;
}

/* Of an active request that is done. A send leaves the sender's fields empty. */
static struct outcome outcome_of(struct request *request) {
  struct outcome outcome = empty_outcome;
  switch (request->kind) {
  case REQUEST_RECEIVE:
    return receive_outcome(request);
  case REQUEST_SEND:
    outcome.error = request->outcome.error;
    return outcome;
  default:
    return request->outcome;
  }
}

int request_complete(struct request *request, MPI_Request *handle, MPI_Status *status) {
  int error;
  struct outcome outcome;
  if (request->kind == REQUEST_GENERAL && request->active) {
    outcome.error = general_complete(request, status);
  } else if (request->active) {
    outcome = outcome_of(request);
    set_status(status, &outcome);
  } else {
    outcome = empty_outcome;
    set_empty_status(status);
  }
  request->active = false;
  if (request->persistent) return outcome.error;
  error = free_request(request);
  *handle = MPI_REQUEST_NULL;
  return outcome.error ? outcome.error : error;
}

static void free_orphans(void) {
  size_t kept = 0;
  for (size_t i = 0; i < orphan_count; i++) {
    if (!request_done(orphans[i])) {
      orphans[kept++] = orphans[i];
      continue;
    }
    outcome_of(orphans[i]);
    free_request(orphans[i]);
  }
  orphan_count = kept;
}

int request_release(struct request *request) {
  if (orphan_count) free_orphans();
  if (request_done(request)) {
    if (request->active) outcome_of(request);
    return free_request(request);
  }
  request->freed = true;
  orphans = grow_memory(orphans, (orphan_count + 1) * sizeof *orphans);
  orphans[orphan_count++] = request;
  return MPI_SUCCESS;
}

/* Waits for sends of freed requests, whose bytes must not be lost. Receives that nobody sends to stay behind. */
void requests_finish(void) {
  for (size_t i = 0; i < orphan_count; i++)
    if (orphans[i]->kind == REQUEST_SEND) wait_message(&orphans[i]->message);
}

MPI(Request_free)(MPI_Request *request) {
  struct request *old = request_of(*request);
  if (!old) return fail(NULL, MPI_ERR_REQUEST);
  *request = MPI_REQUEST_NULL;
  return fail(NULL, request_release(old));
}

MPI(Cancel)(MPI_Request *request) {
  static bool is_reported;
  struct request *of = request_of(*request);
  if (!of) return fail(NULL, MPI_ERR_REQUEST);
  if (of->kind == REQUEST_GENERAL) return fail(NULL, general_cancel(of));
  if (!of->active || request_done(of)) return MPI_SUCCESS;
  if (of->kind == REQUEST_SEND)
    return raise_unsupported(of->comm, "MPI_Cancel of a send",
                             "A message that was sent cannot be taken back; let the receiver receive it.",
                             &is_reported);
  if (of->kind != REQUEST_RECEIVE) return fail(of->comm, MPI_ERR_REQUEST);
  if (mainstay_gate(MAINSTAY_GATE_WITHDRAW, &of->message) == 1) {
    of->message.done = 1;
    of->cancelled = true;
  }
  return MPI_SUCCESS;
}

MPI(Start)(MPI_Request *request) {
  struct request *of = request_of(*request);
  int error;
  if (!of || !of->persistent) return fail(NULL, MPI_ERR_REQUEST);
  error = request_start(of);
  return error ? fail(of->comm, error) : MPI_SUCCESS;
}

MPI(Startall)(int count, MPI_Request array_of_requests[]) {
  if (count < 0) return fail(NULL, MPI_ERR_COUNT);
  for (int i = 0; i < count; i++) {
    int error = PMPI_Start(&array_of_requests[i]);
    if (error) return error;
  }
  return MPI_SUCCESS;
}
