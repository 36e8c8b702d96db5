/* Point to point: modes, sizes, persistent requests, order, and many messages that nobody waits for. */
#include "parts.h"

enum { LARGE = 1 << 20, UNEXPECTED = 1000 };

static const int sizes[] = {0, 1, 9, 100, 4096, 65536, 65537, LARGE};
static unsigned char sent[LARGE], arrived[LARGE];

static void fill(unsigned char *bytes, int from, int size, int turn) {
  for (int i = 0; i < size; i++) bytes[i] = (unsigned char)value(from, turn, i);
}

static int is_from(const unsigned char *bytes, int from, int size, int turn) {
  for (int i = 0; i < size; i++)
    if (bytes[i] != (unsigned char)value(from, turn, i)) return 0;
  return 1;
}

typedef int blocking(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int started(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* The receive is posted before a message comes, so a ready send may be used, too. */
static void in_each_mode(void) {
  blocking *const sends[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
  started *const starts[] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
  for (int mode = 0; mode < 8; mode++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      int size = sizes[i], turn = mode * 10 + (int)i, count;
      MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
      MPI_Status statuses[2];
      memset(arrived, 0, (size_t)size);
      fill(sent, rank, size, turn);
      MPI_Irecv(arrived, size, MPI_BYTE, before, turn, MPI_COMM_WORLD, &requests[0]);
      MPI_Barrier(MPI_COMM_WORLD);
      if (mode < 4)
        CHECK(sends[mode](sent, size, MPI_BYTE, next, turn, MPI_COMM_WORLD) == MPI_SUCCESS);
      else
        CHECK(starts[mode - 4](sent, size, MPI_BYTE, next, turn, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
      MPI_Waitall(2, requests, statuses);
      MPI_Get_count(&statuses[0], MPI_BYTE, &count);
      CHECK(count == size && statuses[0].MPI_SOURCE == before && statuses[0].MPI_TAG == turn);
      CHECK(is_from(arrived, before, size, turn));
      CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    }
  }
}

static void exchanged(void) {
  int mine[3] = {rank, rank + 1, rank + 2}, theirs[3];
  MPI_Status status;
  MPI_Sendrecv(mine, 3, MPI_INT, next, 1, theirs, 3, MPI_INT, before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  CHECK(theirs[0] == before && theirs[2] == before + 2 && status.MPI_TAG == 1);
  MPI_Sendrecv_replace(mine, 3, MPI_INT, next, 2, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
  CHECK(mine[1] == before + 1 && status.MPI_SOURCE == before);
  /* To itself. */
  theirs[0] = 77;
  MPI_Sendrecv(&rank, 1, MPI_INT, rank, 3, theirs, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &status);
  CHECK(theirs[0] == rank);
  /* To and from nobody. */
  theirs[0] = 77;
  MPI_Send(mine, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD);
  MPI_Recv(theirs, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status);
  CHECK(theirs[0] == 77 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
}

static void persistent(void) {
  int out[4], in[4];
  MPI_Request requests[8];
  MPI_Send_init(&out[0], 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Ssend_init(&out[1], 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Bsend_init(&out[2], 1, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[2]);
  MPI_Rsend_init(&out[3], 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[3]);
  for (int i = 0; i < 4; i++) MPI_Recv_init(&in[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &requests[4 + i]);
  for (int turn = 0; turn < 3; turn++) {
    for (int i = 0; i < 4; i++) out[i] = value(rank, turn, i), in[i] = -1;
    MPI_Startall(4, &requests[4]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) MPI_Start(&requests[i]);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++) CHECK(in[i] == value(before, turn, i) && requests[i] != MPI_REQUEST_NULL);
  }
  for (int i = 0; i < 8; i++) MPI_Request_free(&requests[i]), CHECK(requests[i] == MPI_REQUEST_NULL);
}

/* From each rank messages come in its order, whoever is asked for. */
static void in_order(void) {
  enum { EACH = 100 };
  if (rank != 0) {
    for (int i = 0; i < EACH; i++) MPI_Send(&(int){value(rank, i, 1)}, 1, MPI_INT, 0, i % 7, MPI_COMM_WORLD);
    return;
  }
  int *came = calloc((size_t)ranks, sizeof *came);
  for (int i = 0; i < EACH * (ranks - 1); i++) {
    int got, source;
    MPI_Status status;
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    source = status.MPI_SOURCE;
    CHECK(got == value(source, came[source], 1) && status.MPI_TAG == came[source] % 7);
    came[source]++;
  }
  free(came);
}

/* Their bytes wait at the receiver, which takes them by tag, in another order. */
static void unexpected(void) {
  unsigned char bytes[10];
  MPI_Request *requests = malloc(UNEXPECTED * sizeof *requests);
  unsigned char (*out)[10] = malloc(UNEXPECTED * sizeof *out);
  for (int i = 0; i < UNEXPECTED; i++) {
    fill(out[i], rank, i % 10, i);
    MPI_Isend(out[i], i % 10, MPI_BYTE, next, i / 10, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int tag = UNEXPECTED / 10 - 1; tag >= 0; tag--) {
    for (int i = tag * 10; i < tag * 10 + 10; i++) {
      int count;
      MPI_Status status;
      MPI_Recv(bytes, 10, MPI_BYTE, i % 3 ? MPI_ANY_SOURCE : before, tag, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &count);
      CHECK(count == i % 10 && is_from(bytes, before, count, i));
    }
  }
  MPI_Waitall(UNEXPECTED, requests, MPI_STATUSES_IGNORE);
  free(requests);
  free(out);
}

static void too_long(void) {
  int out[4] = {1, 2, 3, 4}, in[4] = {0}, class;
  MPI_Request request;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Isend(out, 4, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
  MPI_Error_class(MPI_Recv(in, 2, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class);
  CHECK(class == MPI_ERR_TRUNCATE && in[2] == 0);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Error_class(MPI_Send(out, 1, MPI_INT, ranks, 1, MPI_COMM_WORLD), &class);
  CHECK(class == MPI_ERR_RANK);
  MPI_Error_class(MPI_Send(out, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), &class);
  CHECK(class == MPI_ERR_TAG);
  MPI_Error_class(MPI_Send(out, -1, MPI_INT, 0, 5, MPI_COMM_WORLD), &class);
  CHECK(class == MPI_ERR_COUNT);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

void point(void) {
  int bytes = 4 * (LARGE + MPI_BSEND_OVERHEAD);
  void *buffer = malloc((size_t)bytes), *back;
  MPI_Buffer_attach(buffer, bytes);
  in_each_mode();
  exchanged();
  persistent();
  in_order();
  MPI_Barrier(MPI_COMM_WORLD);
  unexpected();
  too_long();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Buffer_detach(&back, &bytes);
  CHECK(back == buffer && bytes == 4 * (LARGE + MPI_BSEND_OVERHEAD));
  free(buffer);
}
