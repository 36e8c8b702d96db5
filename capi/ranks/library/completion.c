/* MPI_Wait, MPI_Test and their kin. Licence: MIT OR Apache-2.0. */
#include "point.h"

/* Looks up a request; a NULL handle gives NULL without an error. */
static int look_up(MPI_Request handle, struct request **found) {
  *found = NULL;
  if (handle == MPI_REQUEST_NULL) return MPI_SUCCESS;
  *found = request_of(handle);
  return *found ? MPI_SUCCESS : MPI_ERR_REQUEST;
}

static MPI_Status *status_at(MPI_Status *statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/* The communicator of a request, for its error handler; the request may be freed by its completion. */
#define END(request, handle, status)                                                                                   \
  do {                                                                                                                 \
    struct comm *comm = object_hold((request)->comm);                                                                  \
    int error = request_complete((request), (handle), (status));                                                       \
    int raised = error ? fail(comm, error) : MPI_SUCCESS;                                                              \
    comm_release(comm);                                                                                                \
    return raised;                                                                                                     \
  } while (0)

MPI(Wait)(MPI_Request *request, MPI_Status *status) {
  struct request *of;
  if (look_up(*request, &of)) return fail(NULL, MPI_ERR_REQUEST);
  if (!of) {
    set_empty_status(status);
    return MPI_SUCCESS;
  }
  while (!request_done(of)) wait_event();
  END(of, request, status);
}

MPI(Test)(MPI_Request *request, int *flag, MPI_Status *status) {
  struct request *of;
  if (look_up(*request, &of)) return fail(NULL, MPI_ERR_REQUEST);
  *flag = 1;
  if (!of) {
    set_empty_status(status);
    return MPI_SUCCESS;
  }
  if (!request_done(of)) let_others_run();
  *flag = request_done(of);
  if (!*flag) return MPI_SUCCESS;
  END(of, request, status);
}

/* Checks all handles before any request is touched. */
static int check_all(int count, const MPI_Request requests[]) {
  struct request *of;
  if (count < 0) return MPI_ERR_COUNT;
  for (int i = 0; i < count; i++)
    if (look_up(requests[i], &of)) return MPI_ERR_REQUEST;
  return MPI_SUCCESS;
}

/* Completes requests that are all done. If one failed, the statuses hold the errors of all. */
static int complete_all(int count, MPI_Request requests[], MPI_Status statuses[], struct comm **failed) {
  int result = MPI_SUCCESS;
  for (int i = 0; i < count; i++) {
    struct request *of = request_of(requests[i]);
    MPI_Status *status = status_at(statuses, i);
    struct comm *comm;
    int error;
    if (!of) {
      set_empty_status(status);
      continue;
    }
    comm = object_hold(of->comm);
    error = request_complete(of, &requests[i], status);
    if (error && !result) {
      result = MPI_ERR_IN_STATUS;
      *failed = object_hold(comm);
      for (int k = 0; k < i; k++)
        if (statuses != MPI_STATUSES_IGNORE) statuses[k].MPI_ERROR = MPI_SUCCESS;
    }
    if (result && status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
    comm_release(comm);
  }
  return result;
}

#define END_ALL(count, requests, statuses)                                                                             \
  do {                                                                                                                 \
    struct comm *failed = NULL;                                                                                        \
    int error = complete_all((count), (requests), (statuses), &failed);                                                \
    int raised = error ? fail(failed, error) : MPI_SUCCESS;                                                            \
    comm_release(failed);                                                                                              \
    return raised;                                                                                                     \
  } while (0)

MPI(Waitall)(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
  int wrong = check_all(count, array_of_requests);
  if (wrong) return fail(NULL, wrong);
  for (int i = 0; i < count; i++) {
    struct request *of = request_of(array_of_requests[i]);
    while (of && !request_done(of)) wait_event();
  }
  END_ALL(count, array_of_requests, array_of_statuses);
}

static bool all_done(int count, const MPI_Request requests[]) {
  for (int i = 0; i < count; i++) {
    struct request *of = request_of(requests[i]);
    if (of && !request_done(of)) return false;
  }
  return true;
}

MPI(Testall)(int count, MPI_Request array_of_requests[], int *flag, MPI_Status array_of_statuses[]) {
  int wrong = check_all(count, array_of_requests);
  if (wrong) return fail(NULL, wrong);
  if (!all_done(count, array_of_requests)) let_others_run();
  *flag = all_done(count, array_of_requests);
  if (!*flag) return MPI_SUCCESS;
  END_ALL(count, array_of_requests, array_of_statuses);
}

enum { NONE_ACTIVE = -1, NONE_DONE = -2 };

/* The first active request that is done, or one of the constants above. */
static int first_done(int count, const MPI_Request requests[]) {
  int found = NONE_ACTIVE;
  for (int i = 0; i < count; i++) {
    struct request *of = request_of(requests[i]);
    if (!of || !of->active) continue;
    if (request_done(of)) return i;
    found = NONE_DONE;
  }
  return found;
}

MPI(Waitany)(int count, MPI_Request array_of_requests[], int *index, MPI_Status *status) {
  int wrong = check_all(count, array_of_requests), place;
  if (wrong) return fail(NULL, wrong);
  while ((place = first_done(count, array_of_requests)) == NONE_DONE) wait_event();
  if (place == NONE_ACTIVE) {
    *index = MPI_UNDEFINED;
    set_empty_status(status);
    return MPI_SUCCESS;
  }
  *index = place;
  END(request_of(array_of_requests[place]), &array_of_requests[place], status);
}

MPI(Testany)(int count, MPI_Request array_of_requests[], int *index, int *flag, MPI_Status *status) {
  int wrong = check_all(count, array_of_requests), place;
  if (wrong) return fail(NULL, wrong);
  place = first_done(count, array_of_requests);
  if (place == NONE_DONE) {
    let_others_run();
    place = first_done(count, array_of_requests);
  }
  *flag = place != NONE_DONE;
  *index = place < 0 ? MPI_UNDEFINED : place;
  if (place == NONE_ACTIVE) set_empty_status(status);
  if (place < 0) return MPI_SUCCESS;
  END(request_of(array_of_requests[place]), &array_of_requests[place], status);
}

/* Completes all active requests that are done. */
static int complete_some(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[],
                         struct comm **failed) {
  int result = MPI_SUCCESS;
  *outcount = 0;
  for (int i = 0; i < count; i++) {
    struct request *of = request_of(requests[i]);
    MPI_Status *status = status_at(statuses, *outcount);
    struct comm *comm;
    int error;
    if (!of || !of->active || !request_done(of)) continue;
    comm = object_hold(of->comm);
    error = request_complete(of, &requests[i], status);
    if (error && !result) {
      result = MPI_ERR_IN_STATUS;
      *failed = object_hold(comm);
      for (int k = 0; k < *outcount; k++)
        if (statuses != MPI_STATUSES_IGNORE) statuses[k].MPI_ERROR = MPI_SUCCESS;
    }
    if (result && status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
    comm_release(comm);
    indices[(*outcount)++] = i;
  }
  return result;
}

#define END_SOME(count, requests, outcount, indices, statuses)                                                         \
  do {                                                                                                                 \
    struct comm *failed = NULL;                                                                                        \
    int error = complete_some((count), (requests), (outcount), (indices), (statuses), &failed);                        \
    int raised = error ? fail(failed, error) : MPI_SUCCESS;                                                            \
    comm_release(failed);                                                                                              \
    return raised;                                                                                                     \
  } while (0)

MPI(Waitsome)(int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
              MPI_Status array_of_statuses[]) {
  int wrong = check_all(incount, array_of_requests), place;
  if (wrong) return fail(NULL, wrong);
  while ((place = first_done(incount, array_of_requests)) == NONE_DONE) wait_event();
  *outcount = MPI_UNDEFINED;
  if (place == NONE_ACTIVE) return MPI_SUCCESS;
  END_SOME(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}

MPI(Testsome)(int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
              MPI_Status array_of_statuses[]) {
  int wrong = check_all(incount, array_of_requests), place;
  if (wrong) return fail(NULL, wrong);
  place = first_done(incount, array_of_requests);
  if (place == NONE_DONE) {
    let_others_run();
    place = first_done(incount, array_of_requests);
  }
  *outcount = place == NONE_ACTIVE ? MPI_UNDEFINED : 0;
  if (place < 0) return MPI_SUCCESS;
  END_SOME(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}
