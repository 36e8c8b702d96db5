/* Kills ranks of a program at given places, and measures how the others go on. It is linked with --wrap for each call,
 * so the program itself is unchanged.
 *
 * $RECOVERY_DEATHS has a word for each death, WAY:RANK:STEP:MICROSECONDS. WAY is `kill` or `stop`. The time counts from
 * the rank's first call of mainstay_due for this step or a later one. Each process is a node with memory below
 * $RECOVERY_FOLDER. With $RECOVERY_WHOLE each checkpoint waits until its copies exist. Prints lines of JSON: for each
 * rank that has gone back to a revision and repeated a step, and for rank 0 at each step. Times are on a clock that all
 * processes share. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <mainstay_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double recover_at, recovered_at, restore_at, restored_at; /* 0: it was not called */
static int goes_on;                                              /* no step is done yet since then */
static int rank = -1;
static int mark = -1, fatal;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Each death happens once, also if another process takes the place. */
static int opened_mark(long of, long step) {
  char path[4096];
  snprintf(path, sizeof path, "%s/death-%ld-%ld", getenv("RECOVERY_FOLDER"), of, step);
  return open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
}

static void die(int number) {
  const double at = now();
  (void)number;
  if (write(mark, &at, sizeof at) == (ssize_t)sizeof at) raise(fatal);
}

static void die_if_told(uint64_t step) {
  const char *words = getenv("RECOVERY_DEATHS");
  for (; words && *words; words = strchr(words, ' ') ? strchr(words, ' ') + 1 : NULL) {
    char way[8];
    long of, at, us;
    int made;
    struct itimerval after = {{0, 0}, {0, 0}};
    if (sscanf(words, "%7[a-z]:%ld:%ld:%ld", way, &of, &at, &us) != 4 || of != rank || (long)step < at ||
        (made = opened_mark(of, at)) < 0)
      continue;
    mark = made;
    fatal = strcmp(way, "stop") == 0 ? SIGSTOP : SIGKILL;
    after.it_value.tv_usec = us % 1000000 + 1;
    after.it_value.tv_sec = us / 1000000;
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &after, NULL);
    return;
  }
}

int MPI_Init(int *argc, char ***argv) {
  const char *folder = getenv("RECOVERY_FOLDER"), *was = getenv("OMPI_COMM_WORLD_RANK");
  char path[4096], name[64];
  glob_t found;
  int is_new;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with mpiexec, however that ends */
  snprintf(path, sizeof path, "%s/death-%s-*", folder, was);
  is_new = getenv("MAINSTAY_RUN_REPLACES") != NULL || glob(path, 0, NULL, &found) == 0;
  /* A job that is started again finds the nodes that are left. */
  snprintf(name, sizeof name, "node-%s", was);
  if (is_new) snprintf(name, sizeof name, "new-node-%ld", (long)getpid());
  snprintf(path, sizeof path, "%s/%s", folder, name);
  mkdir(path, 0700);
  setenv("MAINSTAY_NODE", name, 1);
  setenv("MAINSTAY_POOL_DIRECTORY", path, 1);
  return PMPI_Init(argc, argv);
}

mainstay_status __real_mainstay_recover(mainstay_session *session);
mainstay_status __wrap_mainstay_recover(mainstay_session *session);
mainstay_status __wrap_mainstay_recover(mainstay_session *session) {
  recover_at = now();
  const mainstay_status status = __real_mainstay_recover(session);
  recovered_at = now();
  return status;
}

mainstay_status __real_mainstay_restore(mainstay_session *session, mainstay_restored *restored);
mainstay_status __wrap_mainstay_restore(mainstay_session *session, mainstay_restored *restored);
mainstay_status __wrap_mainstay_restore(mainstay_session *session, mainstay_restored *restored) {
  restore_at = now();
  const mainstay_status status = __real_mainstay_restore(session, restored);
  restored_at = now();
  goes_on = 1;
  MPI_Comm_rank(mainstay_mpi_comm(session), &rank);
  return status;
}

mainstay_status __real_mainstay_due(mainstay_session *session, uint64_t step, int *due);
mainstay_status __wrap_mainstay_due(mainstay_session *session, uint64_t step, int *due);
mainstay_status __wrap_mainstay_due(mainstay_session *session, uint64_t step, int *due) {
  const double at = now();
  if (goes_on)
    printf("{\"rank\": %d, \"recover\": %.6f, \"recovered\": %.6f, \"restore\": %.6f, \"restored\": %.6f, "
           "\"again\": %.6f, \"step\": %llu}\n",
           rank, recover_at, recovered_at, restore_at, restored_at, at, (unsigned long long)step);
  else if (rank == 0)
    printf("{\"step\": %llu, \"at\": %.6f}\n", (unsigned long long)step, at);
  goes_on = 0;
  recover_at = recovered_at = 0;
  die_if_told(step);
  return __real_mainstay_due(session, step, due);
}

mainstay_status __real_mainstay_checkpoint(mainstay_session *session, uint64_t *revision);
mainstay_status __wrap_mainstay_checkpoint(mainstay_session *session, uint64_t *revision);
mainstay_status __wrap_mainstay_checkpoint(mainstay_session *session, uint64_t *revision) {
  const mainstay_status status = __real_mainstay_checkpoint(session, revision);
  return status == MAINSTAY_OK && getenv("RECOVERY_WHOLE") ? mainstay_wait(session) : status;
}
