/* Probes, matched probes, and counts of what came. */
#include "parts.h"

static void seen_first(void) {
  int flag = 0, count, *got;
  MPI_Status status;
  MPI_Request request;
  MPI_Iprobe(MPI_ANY_SOURCE, 555, MPI_COMM_WORLD, &flag, &status);
  CHECK(!flag);
  int *sent = malloc((size_t)(rank + 5) * sizeof *sent);
  for (int i = 0; i < rank + 5; i++) sent[i] = value(rank, i, 9);
  MPI_Isend(sent, rank + 5, MPI_INT, next, 556, MPI_COMM_WORLD, &request);
  MPI_Probe(MPI_ANY_SOURCE, 556, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == before + 5 && status.MPI_SOURCE == before);
  got = malloc((size_t)count * sizeof *got);
  while (!flag) MPI_Iprobe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
  CHECK(status.MPI_TAG == 556);
  MPI_Recv(got, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; i++) CHECK(got[i] == value(before, i, 9));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(sent);
  free(got);
}

/* A matched message belongs to its probe: a later receive gets the one behind it. */
static void matched(void) {
  enum { LONG = 100000 };
  static char first[LONG], got[LONG];
  int flag = 0, second = 0;
  MPI_Message message;
  MPI_Status status;
  MPI_Request requests[2], received;
  memset(first, 'a' + rank, sizeof first);
  MPI_Isend(first, LONG, MPI_CHAR, next, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&rank, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Mprobe(before, 7, MPI_COMM_WORLD, &message, &status);
  MPI_Recv(&second, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(second == before);
  MPI_Imrecv(got, LONG, MPI_CHAR, &message, &received);
  CHECK(message == MPI_MESSAGE_NULL);
  MPI_Wait(&received, &status);
  CHECK(got[0] == 'a' + before && got[LONG - 1] == 'a' + before && status.MPI_TAG == 7);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Improbe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &flag, &message, &status);
  CHECK(!flag);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Isend(&rank, 1, MPI_INT, next, 8, MPI_COMM_WORLD, &requests[0]);
  while (!flag) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
  MPI_Mrecv(&second, 1, MPI_INT, &message, &status);
  CHECK(second == before && status.MPI_SOURCE == before);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
  CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
  MPI_Mrecv(&second, 1, MPI_INT, &message, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && message == MPI_MESSAGE_NULL);
}

static void counted(void) {
  int count, elements, out[5] = {1, 2, 3, 4, 5}, in[6] = {0};
  MPI_Count whole;
  MPI_Datatype pair;
  MPI_Status status;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Sendrecv(out, 5, MPI_INT, next, 1, in, 3, pair, before, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, pair, &count);
  MPI_Get_elements(&status, pair, &elements);
  MPI_Get_elements_x(&status, pair, &whole);
  CHECK(count == MPI_UNDEFINED && elements == 5 && whole == 5 && in[4] == 5);
  MPI_Sendrecv(out, 2, pair, next, 1, in, 6, MPI_INT, before, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 4);
  MPI_Get_count(&status, pair, &count);
  CHECK(count == 2);
  MPI_Type_free(&pair);
  CHECK(pair == MPI_DATATYPE_NULL);
}

void probes(void) {
  seen_first();
  MPI_Barrier(MPI_COMM_WORLD);
  matched();
  counted();
}
