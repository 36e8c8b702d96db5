/* Calls the functions in the table that mainstay_mpi.h makes from a communicator, as the library does.
 *
 *     ranks MODE
 *
 * "messages": rounds of messages in both directions. "unread": the table is freed with short and long messages that no
 * rank has received. "refuses": prints the functions that the table lacks. "shrink": rank 0 kills itself, then the last
 * rank; the others go on. "shrink_twice": the same, and one rank gets an error while the new group is made, as after
 * one more failure. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <mainstay_mpi.h>

enum { PIECES = 20, BYTES = 1 << 20, LOOKS_MAX = 20000 };

static unsigned world; /* this rank's number at the start */

static void right(int is_so, const char *what) {
  if (is_so) return;
  printf("WRONG: rank %u: %s\n", world, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 9);
  abort();
}

/* Replaces a function of MPI: this number of times it returns an error at once, while the other ranks wait in it. */
static int leaves;

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *here) {
  if (leaves) {
    leaves--;
    return MPI_ERR_OTHER;
  }
  return PMPI_Comm_split_type(comm, type, key, info, here);
}

static void pause_ms(long ms) {
  const struct timespec pause = {0, ms * 1000000};
  nanosleep(&pause, NULL);
}

/* The result of the message: 0, or the class of the error. */
static int through(mainstay_group *group, void *message) {
  for (int look = 0; look < LOOKS_MAX; look++) {
    int is_through = 0;
    const int code = group->test(group->context, message, &is_through);
    if (code || is_through) return code;
    pause_ms(1);
  }
  right(0, "a message never ends");
  return 1;
}

/* Messages to the next rank and from the last, all under way at once. */
static void exchange(mainstay_group *group) {
  const uint32_t next = (group->rank + 1) % group->ranks, last = (group->rank + group->ranks - 1) % group->ranks;
  static unsigned char sent[PIECES][BYTES], got[PIECES][BYTES];
  void *sending[PIECES], *receiving[PIECES];
  for (int i = 0; i < PIECES; i++) {
    memset(sent[i], (int)(group->rank * PIECES) + i, BYTES);
    right(!group->start_receive(group->context, last, got[i], BYTES - (size_t)i, &receiving[i]), "start_receive");
  }
  for (int i = 0; i < PIECES; i++)
    right(!group->start_send(group->context, next, sent[i], BYTES - (size_t)i, &sending[i]), "start_send");
  for (int i = PIECES - 1; i >= 0; i--) {
    right(!through(group, receiving[i]) && !through(group, sending[i]), "through");
    right(got[i][0] == (unsigned char)(last * PIECES + (unsigned)i), "another message");
    right(!memcmp(got[i], got[i] + 1, (size_t)(BYTES - i - 1)), "a torn message");
  }
}

/* A message shorter than expected is an error, and the group stays usable. */
static void odd_length(mainstay_group *group) {
  char bytes[8] = "";
  void *message;
  if (group->rank == 0) {
    right(!group->start_send(group->context, 1, bytes, 7, &message) && !through(group, message), "a short one");
  } else if (group->rank == 1) {
    right(!group->start_receive(group->context, 0, bytes, 8, &message), "start_receive");
    right(through(group, message) == MPI_ERR_TRUNCATE, "a short message passed");
  }
}

/* A group without the rank that failed; `dead` is its number in `group`. */
static mainstay_group shrunk(mainstay_group *group, uint32_t dead) {
  uint32_t failed[64], count = 0;
  mainstay_group left;
  void *awaited, *never = NULL;
  char byte;
  const uint32_t living = group->ranks - 1 - dead ? group->ranks - 1 : 0;
  /* From a failed rank, and from a living rank that never sends. */
  if (!group->start_receive(group->context, dead, &byte, 1, &awaited))
    right(through(group, awaited) != 0, "a message from the dead");
  if (group->rank != living && group->start_receive(group->context, living, &byte, 1, &never)) never = NULL;
  for (int look = 0; look < LOOKS_MAX && count == 0; look++) {
    right(!group->failed(group->context, failed, &count), "failed");
    if (count == 0) pause_ms(1);
  }
  right(count == 1 && failed[0] == dead, "another rank has failed");
  right(!group->shrink(group->context, MAINSTAY_DIVIDED_UNKNOWN, &left), "shrink");
  right(left.size == sizeof left && left.ranks == group->ranks - 1, "another number of ranks");
  right(left.rank == group->rank - (group->rank > dead), "another order of ranks");
  if (never) right(through(group, never) != 0, "a message in a group that is over");
  group->release(group->context);
  return left;
}

/* Dies after its messages have arrived. */
static void dies(void) {
  pause_ms(300);
  raise(SIGKILL);
}

/* Sends to the next rank, which has received the messages, or news of them, before it frees the group. That rank sends
 * nothing: a communicator is not freed while its rank is sending. */
static void send_unread(const mainstay_group *group) {
  static char bytes[BYTES];
  const uint32_t next = (group->rank + 1) % group->ranks;
  int through, look, any;
  void *message;
  if (group->rank % 2 == 0) {
    right(!group->start_send(group->context, next, bytes, 1, &message), "start_send");
    for (through = look = 0; look < LOOKS_MAX && !through; look++)
      right(!group->test(group->context, message, &through), "test");
    right(!group->start_send(group->context, next, bytes, sizeof bytes, &message), "start_send");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  /* MPI takes in messages of any communicator. */
  for (look = 0; look < 1000; look++) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Comm own;
  mainstay_group group, left;
  uint64_t highest;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  static char line[BUFSIZ];
  setvbuf(stdout, line, _IOLBF, sizeof line);
  world = (unsigned)rank;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  right(argc == 2 && ranks > 1 && !mainstay_mpi_table(own, &group), "the table");
  if (strcmp(argv[1], "refuses") == 0) {
    printf("rank %d: %s\n", rank, group.failed || group.shrink ? "can shrink" : "cannot shrink");
  } else if (strcmp(argv[1], "messages") == 0) {
    exchange(&group);
    odd_length(&group);
    exchange(&group);
  } else if (strcmp(argv[1], "unread") == 0) {
    send_unread(&group);
  } else {
    right(group.failed && group.shrink, "cannot shrink");
    exchange(&group);
    if (rank == 0) dies();
    leaves = rank == 2 && strcmp(argv[1], "shrink_twice") == 0;
    left = shrunk(&group, 0);
    right(!leaves, "nothing was left");
    exchange(&left);
    if (rank == ranks - 1) dies();
    group = shrunk(&left, left.ranks - 1);
    exchange(&group);
    highest = (uint64_t)rank;
    right(!group.all_max(group.context, &highest, 1) && highest == (uint64_t)ranks - 2, "all_max");
    printf("rank %d: %u of %u\n", rank, group.rank, group.ranks);
  }
  group.release(group.context);
  printf("rank %d: done\n", rank);
  MPI_Finalize();
  return 0;
}
