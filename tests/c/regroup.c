/* Recovery of a running job, with the table of functions in mainstay_mpi.h, called as the library calls it.
 *
 *     regroup RECOVERY SPARES STEP...
 *
 * In each epoch the workers exchange messages in all ways. Then they take a step of the plan: WAY:RANKS@WHERE, such as
 * kill:2,3@receive. The ranks die in that WAY, and the others notice it WHERE:
 *   receive      in messages of the program's communicator that never come
 *   adopted      in such messages of an adopted communicator
 *   table        in a collective of the group table
 *   collective   in a collective of the program's
 *   working      at work, with a check now and then
 * WAYs are kill, stop, abort and exit. These steps kill a rank in the regrouping; a + joins them to another step:
 *   split, split2       in the first and the second communicator that it makes
 *   spawning, spawn     a second after it began to start processes, and after they have started
 *   hanging             the rank lives, and MPI never returns from the start
 * These steps kill a process that is started:
 *   stillborn           at its first line, once
 *   begun               once MPI has begun in it, once
 *   doomed              once MPI has begun in it, each process
 * Others are:
 *   sleep               kills a waiting spare, by its number in the world
 *   last                kills a rank while the others end */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <mainstay_mpi.h>

enum { WORDS = 1000, LOOKS_MAX = 20000, RANKS_MAX = 64 };

static long me = -1;           /* this rank's number as a worker, from when it has one */
static const char *fatal = ""; /* the call of MPI in which this process dies */
static int splits;
static double failed_at;

static void right(int is_so, const char *what) {
  if (is_so) return;
  printf("WRONG: rank %ld: %s\n", me, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 9);
  abort();
}

static void pause_ms(long ms) {
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now); /* the same in all processes of a machine */
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void dies_in(const char *call) {
  if (strcmp(fatal, call) == 0) raise(SIGKILL);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made) {
  dies_in(strcmp(fatal, "split2") == 0 && splits++ ? "split2" : "split");
  return PMPI_Comm_split(comm, color, key, made);
}

int MPI_Comm_spawn(const char *command, char **arguments, int count, MPI_Info info, int root, MPI_Comm comm,
                   MPI_Comm *made, int *codes) {
  if (strcmp(fatal, "spawning") == 0) alarm(1); /* no handler catches it */
  while (strcmp(fatal, "hanging") == 0) pause();
  const int code = PMPI_Comm_spawn(command, arguments, count, info, root, comm, made, codes);
  dies_in("spawn");
  return code;
}

/* Replaces the library's function: shortens the time-out for a hanging call. */
mainstay_watch *mainstay_process_watch(uint32_t seconds, const char *doing) {
  static mainstay_watch *(*real)(uint32_t, const char *);
  if (!real) *(void **)(&real) = dlsym(RTLD_NEXT, "mainstay_process_watch");
  return real(strcmp(fatal, "hanging") == 0 ? 2 : seconds, doing);
}

/* The tasks of this epoch, from "STEP+STEP"; the function cuts up the list. */
typedef struct step {
  const char *way, *where;
  long ranks[8];
  int count;
} step;

static int steps_of(char *text, step *steps) {
  int count = 0;
  for (char *rest = text, *one; (one = strtok_r(rest, "+", &rest)); count++) {
    step *next = &steps[count];
    char *who;
    next->count = 0;
    next->way = strtok_r(one, ":", &one);
    who = strtok_r(one, "@", &one);
    next->where = one;
    for (char *rank; (rank = strtok_r(who, ",", &who));) next->ranks[next->count++] = strtol(rank, NULL, 10);
  }
  return count;
}

static int is_among(const step *step, long rank) {
  for (int i = 0; i < step->count; i++)
    if (step->ranks[i] == rank) return 1;
  return 0;
}

/* Uses all ways of the table and of the program's communicator. Messages hold the epoch, and more are sent than
 * received: none of them may arrive in a later epoch. */
static void talk(mainstay_group *group, MPI_Comm program, uint64_t epoch) {
  const uint32_t next = (group->rank + 1) % group->ranks, last = (group->rank + group->ranks - 1) % group->ranks;
  const int count = group->shrink ? 2 : 1; /* MPICH ends a program that frees a communicator with messages in it */
  uint64_t words[WORDS], got[WORDS], all[RANKS_MAX], number = group->rank, sum = 0;
  void *sending[2], *receiving;
  int rank, ranks, code = 0;
  MPI_Request requests[2];
  MPI_Comm_rank(program, &rank);
  MPI_Comm_size(program, &ranks);
  right((uint32_t)rank == group->rank && (uint32_t)ranks == group->ranks, "the program's communicator has other ranks");
  right(!group->all_gather(group->context, &number, all, sizeof number), "all_gather");
  for (uint32_t i = 0; i < group->ranks; i++) right(all[i] == i, "all_gather has gathered something else");
  for (int i = 0; i < WORDS; i++) words[i] = epoch;
  for (int i = 0; i < count; i++)
    right(!group->start_send(group->context, next, words, sizeof words, &sending[i]), "start_send");
  right(!group->start_receive(group->context, last, got, sizeof got, &receiving), "start_receive");
  for (int look = 0, is_through = 0; look < LOOKS_MAX && !is_through && !code; look++)
    if (!(code = group->test(group->context, receiving, &is_through)) && !is_through) pause_ms(1);
  right(!code && got[0] == epoch && got[WORDS - 1] == epoch, "a message of another epoch, in the table");
  for (int i = 0; i < count; i++)
    right(MPI_Isend(words, WORDS, MPI_UINT64_T, (int)next, 7, program, &requests[i]) == MPI_SUCCESS, "MPI_Isend");
  right(MPI_Recv(got, WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, 7, program, MPI_STATUS_IGNORE) == MPI_SUCCESS, "MPI_Recv");
  right(got[0] == epoch && got[WORDS - 1] == epoch, "a message of another epoch");
  for (int i = 0; i < count; i++) MPI_Request_free(&requests[i]);
  right(MPI_Allreduce(&number, &sum, 1, MPI_UINT64_T, MPI_SUM, program) == MPI_SUCCESS, "MPI_Allreduce");
  right(sum == (uint64_t)group->ranks * (group->ranks - 1) / 2, "another sum");
}

/* Waits until the rank notices the failure. The rank after the first dead one waits for that one. All others wait for a
 * message of a living rank: they return because the first makes them return. */
static void meet(const mainstay_mpi_job *job, mainstay_group *group, const step *step, MPI_Comm adopted) {
  const int ranks = (int)group->ranks, dead = (int)step->ranks[0];
  int finder = dead;
  uint64_t word = 0;
  while (is_among(step, finder)) finder = (finder + 1) % ranks;
  const int from = (int)group->rank == finder ? dead : finder;
  if (strcmp(step->where, "receive") == 0)
    right(MPI_Recv(&word, 1, MPI_UINT64_T, from, 99, job->program, MPI_STATUS_IGNORE) != MPI_SUCCESS, "MPI_Recv");
  else if (strcmp(step->where, "adopted") == 0)
    right(MPI_Recv(&word, 1, MPI_UINT64_T, from, 99, adopted, MPI_STATUS_IGNORE) != MPI_SUCCESS, "MPI_Recv");
  else if (strcmp(step->where, "table") == 0)
    while (!group->all_max(group->context, &word, 1)) continue;
  else if (strcmp(step->where, "collective") == 0)
    while (MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_UINT64_T, MPI_SUM, job->program) == MPI_SUCCESS) continue;
  else
    for (int look = 0; look < LOOKS_MAX && !mainstay_mpi_has_failed_in(job); look++) pause_ms(1);
  right(mainstay_mpi_has_failed_in(job) || strcmp(step->where, "table") == 0, "nothing is known of a failure");
}

static void die(const char *way) {
  pause_ms(100); /* the others wait already */
  printf("failed at %.6f\n", now_s());
  fflush(stdout);
  if (strcmp(way, "abort") == 0) abort();
  if (strcmp(way, "exit") == 0) _exit(3);
  raise(strcmp(way, "stop") == 0 ? SIGSTOP : SIGKILL);
  printf("WRONG: one that was taken for dead has woken up\n");
}

/* Kills the rank `rank` of the world while it sleeps. */
static void end_spare(const mainstay_mpi_job *job, long rank) {
  right(rank < job->size && job->processes[rank].place < 0, "that is no spare");
  kill((pid_t)job->processes[rank].process.pid, SIGKILL);
}

/* A started process dies if a step says so. `is_once`: not if another has died so, which leaves a file in $DEATHS. */
static void dies_as_told(int argc, char **argv, const char *way, int is_once) {
  char mark[4096];
  snprintf(mark, sizeof mark, "%s/%s", getenv("DEATHS") ? getenv("DEATHS") : ".", way);
  for (int i = 3; getenv("MAINSTAY_RUN_REPLACES") && i < argc; i++)
    if (strstr(argv[i], way) && (!is_once || open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0)) raise(SIGKILL);
}

int main(int argc, char **argv) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  mainstay_mpi_job *job = NULL;
  mainstay_group group, next;
  uint64_t epoch = 0;
  MPI_Comm adopted = MPI_COMM_NULL;
  static char line[BUFSIZ];
  setvbuf(stdout, line, _IOLBF, sizeof line);
  dies_as_told(argc, argv, "stillborn", 1);
  MPI_Init(&argc, &argv);
  dies_as_told(argc, argv, "begun", 1);
  dies_as_told(argc, argv, "doomed", 0);
  right(argc > 2, "arguments");
  right(mainstay_set(&options, "recovery", argv[1]) == MAINSTAY_OK, "recovery");
  right(mainstay_set(&options, "spares", argv[2]) == MAINSTAY_OK, "spares");
  const mainstay_status status = mainstay_mpi_enter(MPI_COMM_WORLD, &options, &job, &group);
  if (status != MAINSTAY_OK) {
    printf("%s: %s\n", mainstay_status_name(status), mainstay_error_message());
    return mainstay_mpi_finalize(status == MAINSTAY_NOT_NEEDED ? 0 : 1);
  }
  for (;; epoch++) {
    step steps[4];
    int count = 0;
    me = group.rank;
    right(!group.all_max(group.context, &epoch, 1), "all_max"); /* some have come later */
    talk(&group, job->program, epoch);
    printf("epoch %d: rank %u of %u\n", (int)epoch, group.rank, group.ranks);
    if ((int)epoch + 3 >= argc) break;
    if (!group.failed || !group.shrink) {
      printf("rank %u: cannot go on after a failure\n", group.rank);
      break;
    }
    if (adopted != MPI_COMM_NULL) MPI_Comm_free(&adopted);
    MPI_Comm_dup(job->program, &adopted);
    MPI_Barrier(adopted); /* Open MPI crashes if a rank fails before all have it */
    right(mainstay_mpi_adopt_in(job, adopted) == MAINSTAY_OK, "adopt");
    count = steps_of(argv[epoch + 3], steps);
    if (strcmp(steps[0].way, "last") == 0) {
      if (is_among(&steps[0], me)) raise(SIGKILL);
      break;
    }
    for (int i = 0; i < count; i++) {
      if (strcmp(steps[i].way, "sleep") == 0 && group.rank == 0)
        end_spare(job, steps[i].ranks[0]);
      else if (strcmp(steps[i].way, "sleep") != 0 && is_among(&steps[i], me) && i > 0)
        fatal = steps[i].way;
    }
    if (is_among(&steps[0], me) && strcmp(steps[0].way, "sleep") != 0) die(steps[0].way);
    if (strcmp(steps[0].way, "sleep") != 0) meet(job, &group, &steps[0], adopted);
    failed_at = now_s();
    const int code = group.shrink(group.context, MAINSTAY_DIVIDED_UNKNOWN, &next);
    if (code) {
      char text[300] = "";
      group.explain(group.context, code, text, sizeof text - 1);
      printf("rank %u: shrink: %s\n", group.rank, text);
      group.release(group.context);
      mainstay_mpi_leave(job, 1);
      return mainstay_mpi_finalize(1);
    }
    printf("formed at %.6f, after %.6f\n", now_s(), now_s() - failed_at);
    right(strcmp(argv[1], "shrink") == 0 || next.rank == group.rank, "another number");
    right(next.rank <= group.rank, "another order");
    group.release(group.context);
    group = next;
  }
  group.release(group.context);
  mainstay_mpi_leave(job, 1);
  printf("rank %ld: done\n", me);
  return mainstay_mpi_finalize(0);
}
