/* Bytes between two ranks, and waiting. Licence: MIT OR Apache-2.0. */
#include "internal.h"

/* Active nonblocking collectives; see `struct work`. */
static struct request *active;
static bool stepping;

void start_send(struct mainstay_message *message, struct comm *comm, int context, int peer, int tag, const void *data,
                size_t bytes) {
  *message = (struct mainstay_message){.peer = comm_peers(comm)->members[peer],
                                       .tag = tag,
                                       .context = comm->context + (uint32_t)context,
                                       .data = (void *)(uintptr_t)data,
                                       .bytes = bytes};
  mainstay_gate(MAINSTAY_GATE_SEND, message);
}

void start_receive(struct mainstay_message *message, struct comm *comm, int context, int peer, int tag, void *data,
                   size_t bytes) {
  *message = (struct mainstay_message){.peer = comm_peers(comm)->members[peer],
                                       .tag = tag,
                                       .context = comm->context + (uint32_t)context,
                                       .data = data,
                                       .bytes = bytes};
  mainstay_gate(MAINSTAY_GATE_RECEIVE, message);
}

void wait_message(struct mainstay_message *message) {
  while (!message->done) wait_event();
}

void send_bytes(struct comm *comm, int context, int peer, int tag, const void *data, size_t bytes) {
  struct mainstay_message message;
  start_send(&message, comm, context, peer, tag, data, bytes);
  wait_message(&message);
}

size_t receive_bytes(struct comm *comm, int context, int peer, int tag, void *data, size_t bytes) {
  struct mainstay_message message;
  start_receive(&message, comm, context, peer, tag, data, bytes);
  wait_message(&message);
  return message.arrived_bytes;
}

void collective_activate(struct request *request) {
  struct request **end = &active;
  while (*end) end = &(*end)->work->next;
  request->work->next = NULL;
  *end = request;
}

/* Returns true if one was completed. A step may wait for a message in a user's function, or start collectives; it must
 * not come back here. */
static bool step_all(void) {
  struct request **link = &active;
  bool completed = false;
  if (!active || stepping) return false;
  stepping = true;
  while (*link) {
    struct request *request = *link;
    if (request->work->step(request)) {
      *link = request->work->next;
      request->work->next = NULL;
      request->message.done = 1;
      completed = true;
    } else {
      link = &request->work->next;
    }
  }
  stepping = false;
  return completed;
}

void step_collectives(void) { step_all(); }

/* A collective that was just completed may be the one that the caller waits for. An event of the host cannot be lost:
 * the gate's WAIT returns at once if something happened since the WAIT before. */
void wait_event(void) {
  if (step_all()) return;
  mainstay_gate(MAINSTAY_GATE_WAIT, NULL);
  step_all();
}

void let_others_run(void) {
  mainstay_gate(MAINSTAY_GATE_YIELD, NULL);
  step_collectives();
}
