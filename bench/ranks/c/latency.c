/* Short calls of MPI and of the C library, and messages there and back between two ranks.
 *
 *     latency BATCHES */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batches.h"

enum { SMALL = 8, LARGE = 256 << 10, TAG = 3 };

struct ping {
  char *out, *in;
  char *others_out, *others_in; /* stand for the other rank's in the copies */
  int bytes, rank;
};

static void wtime(void *sum) { *(double *)sum += MPI_Wtime(); }

static void clock_now(void *time) { clock_gettime(CLOCK_MONOTONIC, time); }

static void iprobe(void *status) {
  int found;
  MPI_Iprobe(0, TAG, MPI_COMM_SELF, &found, status);
}

static void copy(void *context) {
  struct ping *ping = context;
  memcpy(ping->others_in, ping->out, (size_t)ping->bytes);
  memcpy(ping->in, ping->others_out, (size_t)ping->bytes);
}

static void there_and_back(void *context) {
  struct ping *ping = context;
  int other = 1 - ping->rank;
  if (ping->rank == 0) MPI_Send(ping->out, ping->bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
  MPI_Recv(ping->in, ping->bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (ping->rank == 1) MPI_Send(ping->out, ping->bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
}

static void calls(int batches) {
  double sum = 0;
  char out[SMALL] = "", in[SMALL];
  struct timespec time;
  MPI_Request request;
  MPI_Status status;
  MPI_Isend(out, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_SELF, &request);
  print_batches("wtime", batches, 1000, wtime, &sum);
  print_batches("clock_gettime", batches, 1000, clock_now, &time);
  print_batches("iprobe", batches, 1000, iprobe, &status);
  MPI_Recv(in, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static char *buffer(void) {
  char *made = malloc(LARGE);
  if (!made) MPI_Abort(MPI_COMM_WORLD, 1);
  return memset(made, 1, LARGE);
}

int main(int count, char **arguments) {
  int ranks, batches;
  struct ping ping = {.bytes = SMALL};
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &ping.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (count < 2) return 2;
  ping.out = buffer(), ping.in = buffer(), ping.others_out = buffer(), ping.others_in = buffer();
  batches = atoi(arguments[1]);
  if (ranks == 2) {
    print_batches("trip_8", batches, 100, there_and_back, &ping);
    ping.bytes = LARGE;
    print_batches("trip_262144", batches, 20, there_and_back, &ping);
    if (ping.rank == 0) print_batches("copy_262144", batches, 20, copy, &ping);
  } else {
    calls(batches);
  }
  MPI_Finalize();
  return 0;
}
