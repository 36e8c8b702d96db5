/* Generalized requests, and the look at a request that leaves it as it is. Licence: MIT OR Apache-2.0. */
#include "point.h"

struct general {
  MPI_Grequest_query_function *query;
  MPI_Grequest_free_function *release;
  MPI_Grequest_cancel_function *cancel;
  void *extra;
  bool complete;
};

bool general_done(const struct request *request) { return request->general->complete; }

/* The status is the query function's; the free function follows when the request goes. */
int general_complete(struct request *request, MPI_Status *status) {
  MPI_Status own;
  MPI_Status *to = status == MPI_STATUS_IGNORE ? &own : status;
  set_status(to, &empty_outcome);
  return request->general->query ? request->general->query(request->general->extra, to) : MPI_SUCCESS;
}

int general_release(struct request *request) {
  struct general *general = request->general;
  int error = general->release ? general->release(general->extra) : MPI_SUCCESS;
  free(general);
  return error;
}

int general_cancel(struct request *request) {
  struct general *general = request->general;
  return general->cancel ? general->cancel(general->extra, general->complete) : MPI_SUCCESS;
}

MPI(Grequest_start)(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                    MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request) {
  struct request *new = request_new(REQUEST_GENERAL, NULL);
  new->general = take_memory(sizeof *new->general);
  *new->general = (struct general){query_fn, free_fn, cancel_fn, extra_state, false};
  new->active = true;
  *request = request_handle(new);
  return MPI_SUCCESS;
}

MPI(Grequest_complete)(MPI_Request request) {
  struct request *of = request_of(request);
  if (!of || of->kind != REQUEST_GENERAL) return fail(NULL, MPI_ERR_REQUEST);
  of->general->complete = true;
  return MPI_SUCCESS;
}

/* The status that MPI_Wait would give. A receive's bytes are unpacked at its completion only. */
static void look_at(struct request *request, MPI_Status *status) {
  struct outcome outcome;
  if (!request || !request->active) {
    set_empty_status(status);
    return;
  }
  if (request->kind == REQUEST_GENERAL) {
    general_complete(request, status);
    return;
  }
  outcome = request->outcome;
  if (request->kind == REQUEST_RECEIVE && request->peer == MPI_PROC_NULL) outcome = no_peer_outcome;
  if (request->kind == REQUEST_RECEIVE && request->peer != MPI_PROC_NULL) {
    if (!request->cancelled) outcome = message_outcome(request->comm, &request->message);
    outcome.cancelled = request->cancelled;
  }
  set_status(status, &outcome);
}

MPI(Request_get_status)(MPI_Request request, int *flag, MPI_Status *status) {
  struct request *of = request_of(request);
  if (!of && request != MPI_REQUEST_NULL) return fail(NULL, MPI_ERR_REQUEST);
  if (of && !request_done(of)) let_others_run();
  *flag = !of || request_done(of);
  if (*flag) look_at(of, status);
  return MPI_SUCCESS;
}

MPI(Request_get_status_all)(int count, const MPI_Request array_of_requests[], int *flag,
                            MPI_Status array_of_statuses[]) {
  *flag = 1;
  for (int i = 0; i < count && *flag; i++) {
    int error =
        PMPI_Request_get_status(array_of_requests[i], flag,
                                array_of_statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &array_of_statuses[i]);
    if (error) return error;
  }
  return MPI_SUCCESS;
}

/* Done requests among those that are active. */
MPI(Request_get_status_some)(int incount, const MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
                             MPI_Status array_of_statuses[]) {
  bool any_active = false;
  int found = 0;
  for (int round = 0; round < 2 && !found; round++) {
    for (int i = 0; i < incount; i++) {
      struct request *of = request_of(array_of_requests[i]);
      if (!of && array_of_requests[i] != MPI_REQUEST_NULL) return fail(NULL, MPI_ERR_REQUEST);
      if (!of || !of->active) continue;
      any_active = true;
      if (!request_done(of)) continue;
      look_at(of, array_of_statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &array_of_statuses[found]);
      array_of_indices[found++] = i;
    }
    if (!found && any_active && round == 0) let_others_run();
  }
  *outcount = any_active ? found : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

MPI(Request_get_status_any)(int count, const MPI_Request array_of_requests[], int *index, int *flag,
                            MPI_Status *status) {
  bool any_active = false;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < count; i++) {
      struct request *of = request_of(array_of_requests[i]);
      if (!of && array_of_requests[i] != MPI_REQUEST_NULL) return fail(NULL, MPI_ERR_REQUEST);
      if (!of || !of->active) continue;
      any_active = true;
      if (!request_done(of)) continue;
      look_at(of, status);
      *index = i;
      *flag = 1;
      return MPI_SUCCESS;
    }
    if (any_active && round == 0) let_others_run();
  }
  *index = MPI_UNDEFINED;
  *flag = !any_active;
  if (*flag) set_empty_status(status);
  return MPI_SUCCESS;
}
