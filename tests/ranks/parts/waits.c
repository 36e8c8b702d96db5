/* Waits and tests of many requests, cancelled receives, and requests of the program's own. */
#include "parts.h"

enum { MANY = 12 };

static int in[MANY], out[MANY];
static MPI_Request receives[MANY], sends[MANY];

static void start(void) {
  for (int i = 0; i < MANY; i++) {
    in[i] = -1, out[i] = value(rank, i, 3);
    MPI_Irecv(&in[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &receives[i]);
  }
  for (int i = MANY - 1; i >= 0; i--) MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &sends[i]);
}

static void end(void) {
  MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; i++) CHECK(in[i] == value(before, i, 3) && receives[i] == MPI_REQUEST_NULL);
}

static void one_by_one(void) {
  int index, flag;
  MPI_Status status;
  start();
  for (int left = MANY; left > 0; left--) {
    MPI_Waitany(MANY, receives, &index, &status);
    CHECK(index >= 0 && index < MANY && status.MPI_TAG == index && status.MPI_SOURCE == before);
  }
  MPI_Waitany(MANY, receives, &index, &status);
  CHECK(index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
  end();
  start();
  for (int left = MANY; left > 0; left -= flag) {
    MPI_Testany(MANY, receives, &index, &flag, &status);
    if (flag) CHECK(status.MPI_TAG == index);
  }
  MPI_Testany(MANY, receives, &index, &flag, &status);
  CHECK(flag && index == MPI_UNDEFINED);
  end();
}

static void several(void) {
  int count, indices[MANY], flag = 0, left;
  MPI_Status statuses[MANY];
  start();
  for (left = MANY; left > 0; left -= count) {
    MPI_Waitsome(MANY, receives, &count, indices, statuses);
    if (count <= 0) break;
    for (int i = 0; i < count; i++) CHECK(statuses[i].MPI_TAG == indices[i]);
  }
  CHECK(left == 0);
  end();
  start();
  for (left = MANY; left > 0; left -= count) MPI_Testsome(MANY, receives, &count, indices, statuses);
  MPI_Testsome(MANY, receives, &count, indices, statuses);
  CHECK(left == 0 && count == MPI_UNDEFINED);
  end();
  start();
  while (!flag) MPI_Testall(MANY, receives, &flag, statuses);
  for (int i = 0; i < MANY; i++) CHECK(statuses[i].MPI_TAG == i);
  end();
  start();
  for (int i = 0; i < MANY; i++) {
    for (flag = 0; !flag;) MPI_Request_get_status(receives[i], &flag, &statuses[i]);
    CHECK(receives[i] != MPI_REQUEST_NULL && statuses[i].MPI_TAG == i);
    for (flag = 0; !flag;) MPI_Test(&receives[i], &flag, MPI_STATUS_IGNORE);
  }
  end();
  MPI_Wait(&receives[0], &statuses[0]);
  CHECK(statuses[0].MPI_SOURCE == MPI_ANY_SOURCE);
}

static void cancelled(void) {
  int got = -1, flag;
  MPI_Request request;
  MPI_Status status;
  MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag && request == MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  /* The message after it goes to the next receive. */
  MPI_Send(&rank, 1, MPI_INT, next, 999, MPI_COMM_WORLD);
  MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &status);
  CHECK(got == before);
  MPI_Test_cancelled(&status, &flag);
  CHECK(!flag);
  MPI_Recv_init(&got, 1, MPI_INT, before, 998, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag && request != MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Start(&request);
  MPI_Send(&(int){rank + 50}, 1, MPI_INT, next, 998, MPI_COMM_WORLD);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(!flag && got == before + 50);
  MPI_Request_free(&request);
}

static int queried, freed;

static int query(void *state, MPI_Status *status) {
  queried++;
  MPI_Status_set_elements(status, MPI_INT, *(int *)state);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 5, status->MPI_TAG = 6;
  return MPI_SUCCESS;
}

static int give_back(void *state) {
  freed += *(int *)state;
  return *(int *)state < 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
  (void)state;
  CHECK(!complete);
  return MPI_SUCCESS;
}

static void of_the_program(void) {
  int state = 4, flag, count;
  MPI_Request request;
  MPI_Status status;
  MPI_Grequest_start(query, give_back, cancel, &state, &request);
  MPI_Test(&request, &flag, &status);
  CHECK(!flag);
  MPI_Cancel(&request);
  MPI_Grequest_complete(request);
  MPI_Wait(&request, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 4 && status.MPI_TAG == 6 && queried == 1 && freed == 4 && request == MPI_REQUEST_NULL);
  /* The error of its own free function. */
  state = -1;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Grequest_start(query, give_back, cancel, &state, &request);
  MPI_Grequest_complete(request);
  MPI_Error_class(MPI_Wait(&request, MPI_STATUS_IGNORE), &count);
  CHECK(count == MPI_ERR_BUFFER && freed == 3);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  queried = freed = 0;
}

void waits(void) {
  one_by_one();
  several();
  cancelled();
  of_the_program();
}
