/* A job that goes on when its ranks fail. Its arguments choose the failures.
 *
 *     recovery SPACE STEPS CELLS LOOP [DEATH...]
 *
 * LOOP is
 *   run     mainstay_run
 *   mute    mainstay_run, with steps that do not report failed messages
 *   whole   run, with parts protected as each rank's own, not as boxes
 *   mixed   run, with data of each rank's own beside the boxes
 *   bare    the calls of which mainstay_run consists
 * Each process is a node. Its memory is a folder of its own below $NODES, and is lost with it. The result is in the
 * file $NODES/result. It depends neither on the number of ranks nor on the failures.
 *
 * A DEATH is WAY:RANK@MOMENT[,STEP], and happens once. The rank dies by `kill`, `segv`, `abort`, `exit` or `stop`. It
 * lives with three other WAYs: with `fault` one of its messages fails; with `pipe` it writes to a pipe without a
 * reader, as MPI does; with `deaf` it gets no agreement and no question any more. RANK is its number among the workers
 * (before the opening, in MPI_COMM_WORLD). It dies when it first reaches, at the step STEP or later, a
 *   start       before the opening
 *   layout      in the callback, or at the beginning of the loop
 *   step        at the beginning of a step
 *   receive     where a neighbour waits for its message
 *   collective  where all others wait for it
 *   checkpoint  when the step is done, before it is saved
 *   recovery    when it has noticed a failure
 *   close       before the closing
 *   end         after the closing
 * MOMENT may end with +N: N microseconds later, wherever the rank is then; or with #N: in the Nth message or collective
 * after it. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <mainstay_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEATHS_MAX = 64, PATH_MAX_HERE = 4096 };

static char memory[PATH_MAX_HERE]; /* of this node */
static const char *way_now;
static MPI_Comm workers_now = MPI_COMM_NULL;
static long calls_left; /* until this process dies; 0: it does not */
static int is_deaf;

/* Ways to die */

/* A timer may have interrupted malloc: functions that take a lock, such as nftw and fork, could wait for ever. */
static void remove_memory(void) {
  const pid_t remover = vfork();
  if (remover == 0) {
    execl("/bin/rm", "rm", "-rf", memory, (char *)NULL);
    _exit(127);
  }
  waitpid(remover, NULL, 0);
}

static void die(const char *way) {
  volatile int *nowhere = NULL;
  remove_memory();
  if (strcmp(way, "segv") == 0) *nowhere = 1;
  if (strcmp(way, "abort") == 0) abort();
  if (strcmp(way, "exit") == 0) _exit(3);
  raise(strcmp(way, "stop") == 0 ? SIGSTOP : SIGKILL);
  fprintf(stderr, "WRONG: one that is taken for dead has woken up\n");
  abort();
}

static void die_now(int number) {
  (void)number;
  die(way_now);
}

/* The next call of MPI that waits for others may be the last. */
static void count(void) {
  if (calls_left && --calls_left == 0) die(way_now);
}

int MPI_Isend(const void *data, int size, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
  count();
  return PMPI_Isend(data, size, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int size, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
  count();
  return PMPI_Irecv(data, size, type, from, tag, comm, request);
}

int MPI_Iallreduce(const void *mine, void *all, int size, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
  count();
  return PMPI_Iallreduce(mine, all, size, type, op, comm, request);
}

int MPI_Allgather(const void *mine, int size, MPI_Datatype type, void *all, int each, MPI_Datatype their,
                  MPI_Comm comm) {
  count();
  return PMPI_Allgather(mine, size, type, all, each, their, comm);
}

int MPI_Bcast(void *data, int size, MPI_Datatype type, int root, MPI_Comm comm) {
  count();
  return PMPI_Bcast(data, size, type, root, comm);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made) {
  count();
  return PMPI_Comm_split(comm, color, key, made);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) {
  count();
  return PMPI_Comm_dup(comm, made);
}

#ifdef OMPI_MAJOR_VERSION
/* Shows the effect of Open MPI on a rank if another rank is killed while it returns memory to that rank. */
int MPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request) {
  static int never;
  if (is_deaf) return PMPI_Irecv(&never, 1, MPI_INT, 0, 1, MPI_COMM_SELF, request);
  return PMPIX_Comm_iagree(comm, flag, request);
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *is_told, MPI_Status *status) {
  const int code = PMPI_Iprobe(from, tag, comm, is_told, status);
  if (is_deaf && from != MPI_ANY_SOURCE) *is_told = 0;
  return code;
}
#endif

static void write_to_nobody(void) {
  int ends[2];
  if (pipe(ends) != 0) exit(2);
  close(ends[0]);
  if (write(ends[1], "", 1) >= 0) fprintf(stderr, "WRONG: a pipe without a reader has taken data\n");
  close(ends[1]);
}

/* Moments to die */

static struct death {
  char way[16], moment[16];
  long rank, after_us, calls;
  uint64_t step;
} deaths[DEATHS_MAX];
static int death_count;

static void take_deaths(int count, char **words) {
  for (; death_count < count && death_count < DEATHS_MAX; death_count++) {
    struct death *d = &deaths[death_count];
    char how = 0, *step = strchr(words[death_count], ',');
    long number = 0;
    if (sscanf(words[death_count], "%15[a-z]:%ld@%15[a-z]%c%ld", d->way, &d->rank, d->moment, &how, &number) < 3)
      exit(2);
    d->after_us = how == '+' ? number : 0;
    d->calls = how == '#' ? number : 0;
    d->step = step ? strtoull(step + 1, NULL, 10) : 0;
  }
}

/* A rank that replaces a dead one also comes here, and lives. */
static int is_first(int number) {
  char mark[PATH_MAX_HERE];
  int file;
  snprintf(mark, sizeof mark, "%s/death-%d", getenv("NODES"), number);
  file = open(mark, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

static void moment(const char *name, long rank, uint64_t step) {
  for (int i = 0; i < death_count; i++) {
    const struct death *d = &deaths[i];
    struct itimerval after = {{0, 0}, {0, 0}};
    if (d->rank != rank || step < d->step || strcmp(d->moment, name) != 0 || !is_first(i)) continue;
    way_now = d->way;
    if (strcmp(d->way, "fault") == 0) {
      MPI_Send(NULL, 0, MPI_BYTE, 1 << 20, 0, workers_now); /* to no rank */
    } else if (strcmp(d->way, "pipe") == 0) {
      write_to_nobody();
    } else if (strcmp(d->way, "deaf") == 0) {
      remove_memory(); /* it counts as dead */
      is_deaf = 1;
    } else if (d->calls) {
      calls_left = d->calls;
    } else if (d->after_us) {
      signal(SIGALRM, die_now);
      after.it_value.tv_sec = d->after_us / 1000000;
      after.it_value.tv_usec = d->after_us % 1000000;
      setitimer(ITIMER_REAL, &after, NULL);
    } else {
      usleep(30000); /* the others wait already */
      die(d->way);
    }
  }
}

/* The computation */

typedef struct ring {
  uint64_t cells, steps; /* in all */
  MPI_Comm comm;         /* or MPI_COMM_NULL */
  int rank, low, high, is_whole, is_mixed;
  uint64_t start, size; /* of this rank's part */
  uint64_t *field;      /* with a ghost at both ends */
  uint64_t counter, own;
} ring;

static void ring_free(ring *r) {
  if (r->comm != MPI_COMM_NULL) MPI_Comm_free(&r->comm);
  if (!getenv("ALLOC")) free(r->field);
  r->field = NULL;
}

/* Allocates with Mainstay if ALLOC is set. */
static int field_alloc(mainstay_session *session, ring *r, uint64_t stored) {
  int status;
  if (!getenv("ALLOC")) return (r->field = calloc(stored, sizeof *r->field)) ? MAINSTAY_OK : (exit(2), 0);
  status = mainstay_alloc(session, "field", stored * sizeof *r->field, MAINSTAY_ALLOC_FLAG_PLAIN, (void **)&r->field);
  return status == MAINSTAY_OK ? (int)mainstay_unprotect(session, "field") : status;
}

static int told(int code) { return code == MPI_SUCCESS ? MAINSTAY_OK : MAINSTAY_GROUP_FAILED; }

static int layout(mainstay_session *session, void *context) {
  ring *r = context;
  const MPI_Comm workers = mainstay_mpi_comm(session);
  const int cyclic = 1;
  uint64_t shape, stored, ghosts = 1;
  int ranks, status;
  ring_free(r);
  workers_now = workers;
  MPI_Comm_size(workers, &ranks);
  MPI_Comm_rank(workers, &r->rank);
  moment("layout", r->rank, 0);
  if ((status = told(MPI_Cart_create(workers, 1, &ranks, &cyclic, 0, &r->comm))) != MAINSTAY_OK ||
      (status = mainstay_mpi_adopt(session, r->comm)) != MAINSTAY_OK)
    return status;
  MPI_Cart_shift(r->comm, 0, 1, &r->low, &r->high);
  r->start = r->cells * (uint64_t)r->rank / (uint64_t)ranks;
  r->size = shape = r->cells * ((uint64_t)r->rank + 1) / (uint64_t)ranks - r->start;
  stored = shape + 2;
  if ((status = field_alloc(session, r, stored)) != MAINSTAY_OK) return status;
  for (uint64_t i = 0; i < shape; i++) r->field[i + 1] = (r->start + i) * 0x9e3779b97f4a7c15u;
  r->counter = 0;
  if ((status = mainstay_protect(session, "counter", &r->counter, sizeof r->counter)) != MAINSTAY_OK) return status;
  r->own = (uint64_t)r->rank;
  if (r->is_mixed && (status = mainstay_protect(session, "own", &r->own, sizeof r->own)) != MAINSTAY_OK) return status;
  if (r->is_whole) return mainstay_protect(session, "field", r->field, stored * sizeof *r->field);
  return mainstay_protect_within(session, "field", r->field, MAINSTAY_U64, 1, &shape, &stored, &ghosts, &r->cells,
                                 &r->start);
}

static int exchange(ring *r, uint64_t step) {
  uint64_t *f = r->field;
  int status;
  moment("receive", r->rank, step);
  if ((status = told(MPI_Sendrecv(&f[1], 1, MPI_UINT64_T, r->low, 0, &f[r->size + 1], 1, MPI_UINT64_T, r->high, 0,
                                  r->comm, MPI_STATUS_IGNORE))) != MAINSTAY_OK)
    return status;
  return told(MPI_Sendrecv(&f[r->size], 1, MPI_UINT64_T, r->high, 1, &f[0], 1, MPI_UINT64_T, r->low, 1, r->comm,
                           MPI_STATUS_IGNORE));
}

/* The result is the same on any number of ranks: sums of whole numbers have no order. */
static int finish(mainstay_session *session, const ring *r) {
  uint64_t mine = 0, all = 0, value;
  char path[PATH_MAX_HERE];
  FILE *file;
  int status;
  for (uint64_t i = 0; i < r->size; i++) {
    value = (r->field[i + 1] ^ (r->start + i)) * 0xd6e8feb86659fd93u;
    mine += value ^ (value >> 32);
  }
  if ((status = told(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, mainstay_mpi_comm(session)))) != MAINSTAY_OK)
    return status;
  if (r->rank == 0) {
    snprintf(path, sizeof path, "%s/result", getenv("NODES"));
    file = fopen(path, "w");
    if (!file) return MAINSTAY_IO;
    fprintf(file, "%016llx after %llu steps\n", (unsigned long long)all, (unsigned long long)r->counter);
    fclose(file);
  }
  return MAINSTAY_OK;
}

static int one_step(mainstay_session *session, uint64_t step, int *over, void *context) {
  ring *r = context;
  uint64_t before, most = step;
  int status;
  if (r->counter != step) {
    fprintf(stderr, "WRONG: rank %d goes on from step %llu with data of step %llu\n", r->rank, (unsigned long long)step,
            (unsigned long long)r->counter);
    MPI_Abort(MPI_COMM_WORLD, 9);
  }
  if (step == r->steps) {
    *over = 1;
    return finish(session, r);
  }
  moment("step", r->rank, step);
  if ((status = exchange(r, step)) != MAINSTAY_OK) return status;
  before = r->field[0];
  for (uint64_t i = 1; i <= r->size; i++) {
    const uint64_t mine = r->field[i];
    r->field[i] = 3 * before + 5 * mine + 7 * r->field[i + 1] + step;
    before = mine;
  }
  moment("collective", r->rank, step);
  if ((status = told(MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, mainstay_mpi_comm(session)))) !=
      MAINSTAY_OK)
    return status;
  if (most != step) {
    fprintf(stderr, "WRONG: a message of step %llu has come in step %llu\n", (unsigned long long)most,
            (unsigned long long)step);
    MPI_Abort(MPI_COMM_WORLD, 9);
  }
  r->counter++;
  moment("checkpoint", r->rank, step);
  return MAINSTAY_OK;
}

/* Printed by all ranks that notice a failure. */
static int heard(int status, const ring *r) {
  if (status == MAINSTAY_GROUP_FAILED) moment("recovery", r->rank, 0);
  return status;
}

static int one_step_of_run(mainstay_session *session, uint64_t step, int *over, void *context) {
  return heard(one_step(session, step, over, context), context);
}

static int mute_step(mainstay_session *session, uint64_t step, int *over, void *context) {
  const int status = one_step(session, step, over, context);
  ((ring *)context)->counter = step + (*over == 0);
  return status == MAINSTAY_GROUP_FAILED ? MAINSTAY_OK : status;
}

/* Works from the newest revision to the end, or to a failure. */
static int work(mainstay_session *session, ring *r) {
  mainstay_restored restored;
  int status, over = 0, due;
  memset(&restored, 0, sizeof restored);
  mainstay_unprotect(session, "counter"); /* from the layout before, if any */
  mainstay_unprotect(session, "field");
  if ((status = layout(session, r)) != MAINSTAY_OK || (status = mainstay_restore(session, &restored)) != MAINSTAY_OK)
    return status;
  while ((status = one_step(session, r->counter, &over, r)) == MAINSTAY_OK && !over)
    if ((status = mainstay_due(session, r->counter, &due)) != MAINSTAY_OK ||
        (due && (status = mainstay_checkpoint(session, NULL)) != MAINSTAY_OK))
      return status;
  return status == MAINSTAY_OK ? (int)mainstay_wait(session) : status;
}

static int work_and_recover(mainstay_session *session, ring *r) {
  int status;
  while (heard(status = work(session, r), r) == MAINSTAY_GROUP_FAILED)
    if ((status = mainstay_recover(session)) != MAINSTAY_OK) return status;
  return status;
}

/* Runs before Mainstay reads the variables. A replacement process is on another node. */
static void make_node(int rank) {
  char name[32];
  snprintf(name, sizeof name, getenv("MAINSTAY_RUN_REPLACES") ? "new-%ld" : "%ld",
           getenv("MAINSTAY_RUN_REPLACES") ? (long)getpid() : (long)rank);
  snprintf(memory, sizeof memory, "%s/%s", getenv("NODES"), name);
  mkdir(memory, 0700);
  setenv("MAINSTAY_NODE", name, 1);
  setenv("MAINSTAY_POOL_DIRECTORY", memory, 1);
}

int main(int argc, char **argv) {
  mainstay_session *session = NULL;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  static char line[BUFSIZ];
  ring r = {.comm = MPI_COMM_NULL};
  mainstay_status status;
  int rank;
  setvbuf(stdout, line, _IOLBF, sizeof line);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 5 || !getenv("NODES")) return 2;
  r.steps = strtoull(argv[2], NULL, 10);
  r.cells = strtoull(argv[3], NULL, 10);
  r.is_whole = strcmp(argv[4], "whole") == 0;
  r.is_mixed = strcmp(argv[4], "mixed") == 0;
  take_deaths(argc - 5, argv + 5);
  if (getenv("PATIENCE_S")) mainstay_mpi_here.patience_s = atof(getenv("PATIENCE_S"));
  make_node(rank);
  if (!getenv("MAINSTAY_RUN_REPLACES")) moment("start", rank, 0);
  options.every_steps = 1;
  status = mainstay_open_mpi(MPI_COMM_WORLD, argv[1], &options, &session);
  if (status == MAINSTAY_NOT_NEEDED) return mainstay_mpi_finalize(0);
  if (status == MAINSTAY_OK)
    status = strcmp(argv[4], "mute") == 0   ? mainstay_run(session, layout, mute_step, &r)
             : strcmp(argv[4], "bare") == 0 ? (mainstay_status)work_and_recover(session, &r)
                                            : mainstay_run(session, layout, one_step_of_run, &r);
  if (status != MAINSTAY_OK) {
    fprintf(stderr, "rank %d: %s: %s\n", r.rank, mainstay_status_name(status), mainstay_error_message());
    if (session) mainstay_close(session);
    return mainstay_mpi_finalize(1);
  }
  printf("rank %d is through\n", r.rank);
  moment("close", r.rank, 0);
  ring_free(&r);
  status = mainstay_close(session);
  if (status != MAINSTAY_OK)
    printf("rank %d: closed: %s: %s\n", r.rank, mainstay_status_name(status), mainstay_error_message());
  moment("end", r.rank, 0);
  return mainstay_mpi_finalize(0);
}
