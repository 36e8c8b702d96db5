#include "messages.h"

jmp_buf messages_failed;
static MPI_Comm ring = MPI_COMM_NULL;
static int low, high;

/* ANCHOR: messages */
static void must(int code) {
  if (code != MPI_SUCCESS) longjmp(messages_failed, 1);
}
/* ANCHOR_END: messages */

int messages_begin(mainstay_session *session, int *rank, int *ranks) {
  int closed = 1;
  MPI_Comm workers = mainstay_mpi_comm(session); /* a new one after each failure */
  messages_end();                                /* the ring of the ranks that there were */
  MPI_Comm_size(workers, ranks);
  if (MPI_Cart_create(workers, 1, ranks, &closed, 0, &ring) != MPI_SUCCESS) return MAINSTAY_GROUP_FAILED;
  MPI_Comm_rank(ring, rank);
  MPI_Cart_shift(ring, 0, 1, &low, &high);
  return mainstay_mpi_adopt(session, ring); /* its errors are returned from now on */
}

void messages_end(void) {
  if (ring != MPI_COMM_NULL) MPI_Comm_free(&ring);
}

void messages_exchange(double *cells, int size) {
  MPI_Request coming[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  must(MPI_Irecv(&cells[size + 1], 1, MPI_DOUBLE, high, 0, ring, &coming[0]));
  must(MPI_Irecv(&cells[0], 1, MPI_DOUBLE, low, 1, ring, &coming[1]));
  must(MPI_Send(&cells[1], 1, MPI_DOUBLE, low, 0, ring));
  must(MPI_Send(&cells[size], 1, MPI_DOUBLE, high, 1, ring));
  must(MPI_Waitall(2, coming, MPI_STATUSES_IGNORE));
}

double messages_max(double value) {
  double most;
  must(MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, ring));
  return most;
}
