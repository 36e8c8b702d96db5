/* pipeline STEPS: wavefronts over rows of cells, as LU of the NAS benchmarks has them. At nearly every moment messages
 * are in flight: short ones, ones that nobody waits for yet, receives that wait, and long ones whose sender waits.
 *
 * Each rank appends a line to its file in every tenth step, and renames the file in the middle. The sum depends on
 * every message. The clocks never go back. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 40, WIDTH = 64, LONG = 20000, EARLY = 10, WAVE = 5 };

static int rank, ranks;
static double cells[ROWS][WIDTH], far[LONG];

static uint64_t sum_of(const void *bytes, size_t size, uint64_t sum) {
  for (size_t i = 0; i < size; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
  return sum;
}

/* A wave goes from rank `from` on, one row after another; each row is a message, and all are
 * alike but for their order. */
static void wave(int step, int direction) {
  int low = rank - direction, high = rank + direction;
  double edge[WIDTH / 8];
  for (int row = 0; row < ROWS; row++) {
    memset(edge, 0, sizeof edge);
    if (low >= 0 && low < ranks) MPI_Recv(edge, WIDTH / 8, MPI_DOUBLE, low, WAVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < WIDTH; i++)
      cells[row][i] = 0.4 * cells[row][i] + 0.3 * edge[i / 8] + 1e-3 * ((step + rank * 3 + row + i) % 11);
    if (high >= 0 && high < ranks)
      MPI_Send(&cells[row][WIDTH - WIDTH / 8], WIDTH / 8, MPI_DOUBLE, high, WAVE, MPI_COMM_WORLD);
  }
}

/* Messages of 0 to 9 bytes for the step after the next one, and long ones that nobody takes before. */
struct flight {
  MPI_Request sends[EARLY + 1], receive;
  char bytes[EARLY][EARLY];
  double *long_one;
};

static void depart(struct flight *flight, int step) {
  int next = (rank + 1) % ranks;
  for (int i = 0; i < EARLY; i++) {
    for (int j = 0; j < i; j++) flight->bytes[i][j] = (char)(step + rank + i * j);
    MPI_Isend(flight->bytes[i], i, MPI_BYTE, next, 1000 + step % 3, MPI_COMM_WORLD, &flight->sends[i]);
  }
  for (int i = 0; i < LONG; i++) flight->long_one[i] = step + rank * 0.25 + i % 13;
  MPI_Isend(flight->long_one, LONG, MPI_DOUBLE, next, 2000 + step % 3, MPI_COMM_WORLD, &flight->sends[EARLY]);
}

static uint64_t arrive(struct flight *flight, int step, uint64_t sum) {
  int before = (rank + ranks - 1) % ranks, count;
  char bytes[EARLY];
  MPI_Status status;
  MPI_Irecv(far, LONG, MPI_DOUBLE, before, 2000 + step % 3, MPI_COMM_WORLD, &flight->receive);
  for (int i = 0; i < EARLY; i++) {
    MPI_Recv(bytes, EARLY, MPI_BYTE, MPI_ANY_SOURCE, 1000 + step % 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    sum = sum_of(bytes, (size_t)count, sum + (uint64_t)(count * 31 + status.MPI_SOURCE));
  }
  MPI_Wait(&flight->receive, MPI_STATUS_IGNORE);
  sum = sum_of(far, sizeof far / 50, sum);
  MPI_Waitall(EARLY + 1, flight->sends, MPI_STATUSES_IGNORE);
  return sum;
}

/* No clock goes back, and none fails, also over a restart. */
static void look_at_clocks(void) {
  static struct timespec last[2];
  static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID};
  for (int i = 0; i < 2; i++) {
    struct timespec now;
    int failed = clock_gettime(clocks[i], &now);
    if (failed || now.tv_sec < last[i].tv_sec || (now.tv_sec == last[i].tv_sec && now.tv_nsec < last[i].tv_nsec)) {
      fprintf(stderr, "clock %d went back or failed\n", (int)clocks[i]);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
    last[i] = now;
  }
  if (clock() == (clock_t)-1 || time(NULL) < 1) MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int count, char **arguments) {
  static struct flight flights[3];
  uint64_t sum = 14695981039346656037u, *all;
  char name[64], first_name[64];
  MPI_Request ended;
  MPI_Init(&count, &arguments);
  if (count < 2) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int steps = atoi(arguments[1]);
  for (int i = 0; i < 3; i++) flights[i].long_one = malloc(LONG * sizeof(double));
  snprintf(name, sizeof name, "log.%d", rank);
  snprintf(first_name, sizeof first_name, "first.%d", rank);
  fclose(fopen(first_name, "w"));
  FILE *log = fopen(first_name, "a");
  for (int step = 0; step < steps; step++) {
    look_at_clocks();
    depart(&flights[step % 3], step);
    wave(step, 1);
    wave(step, -1);
    if (step >= 2) sum = arrive(&flights[(step - 2) % 3], step - 2, sum);
    sum = sum_of(cells, sizeof cells, sum);
    if (step == steps / 2) rename(first_name, name); /* while it is open */
    if (step % 10 == 0) fprintf(log, "%d %016llx\n", step, (unsigned long long)sum), fflush(log);
  }
  for (int step = steps - 2; step < steps; step++) sum = arrive(&flights[step % 3], step, sum);
  fclose(log);
  all = calloc((size_t)ranks, sizeof *all);
  MPI_Igather(&sum, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD, &ended);
  MPI_Wait(&ended, MPI_STATUS_IGNORE);
  if (rank == 0) printf("sum %016llx of %d ranks\n", (unsigned long long)sum_of(all, (size_t)ranks * 8, 0), ranks);
  MPI_Finalize();
  return 0;
}
