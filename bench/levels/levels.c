/* The cost of copies in the memory of two nodes, compared with the limits of the machine. The sides of the benchmark
 * `levels` take turns in one run. Prints a line of JSON for each measurement, with a value for each rank; levels.py
 * turns them into rows. Variables of the environment give the node of a rank and the way in which it saves.
 *
 *     levels MODE KEY=NUMBER... DIRECTORY */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <mainstay_mpi.h>

#include "field.h"
#include "file.h"
#include "process.h"
#include "rounds.h"
#include "stop.h"

#define SIDES_MAX 8
#define WINDOW                                                                                                         \
  ((size_t)1 << 18) /* numbers that a sweep goes over: 2 MiB, as a block of a solver that minds its caches */
#define CALIBRATE_S 0.2
#define WATCH_US 1000
#define SAVED 1

typedef struct settings {
  const char *directory;
  size_t bytes, nodes, rounds, warm_ups, steps, step_us;
} settings;

typedef struct program {
  settings set;
  int rank, ranks;
  char space[PATH_BYTES];
  uint64_t *field;          /* ordinary pages, touched, as are all of these */
  uint64_t *copy, *arrived; /* of the floors; NULL if none is measured */
  uint64_t stamp;           /* identifies the content of the field */
  double *from, *to;        /* of the work */
  size_t sweeps;            /* a step */
  mainstay_session *session;
} program;

typedef void side(program *p, int round);

static atomic_bool watched_enough;

static void print_seconds(const char *name, int round, double seconds) {
  static const char *const names[] = {"seconds"};
  print(name, round, 1, names, &seconds);
}

static double processor_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void rewrite(program *p, uint64_t stamp) {
  p->stamp = stamp;
  field_fill(p->field, p->set.bytes / sizeof *p->field, p->rank, stamp);
}

static void open_session(program *p) {
  uint64_t shape = p->set.bytes / sizeof *p->field;
  must(mainstay_open_mpi(MPI_COMM_WORLD, p->space, NULL, &p->session), "open the space");
  must(mainstay_protect(p->session, "stamp", &p->stamp, sizeof p->stamp), "protect the stamp");
  must(mainstay_protect_array(p->session, "field", p->field, MAINSTAY_U64, 1, &shape), "protect the field");
}

/* The rank at the same place on the next node (direction 1) or on the one before (-1). */
static int neighbour(const program *p, int direction) {
  int away = p->ranks / (int)p->set.nodes;
  return (p->rank + direction * away + p->ranks) % p->ranks;
}

static void sweep(program *p) {
  double *from = p->from, *to = p->to;
  for (size_t i = 1; i < WINDOW - 1; i++) to[i] = 0.25 * from[i - 1] + 0.5 * from[i] + 0.25 * from[i + 1];
  p->from = to, p->to = from;
}

/* Finds the number of sweeps that makes a step last as long as the settings ask while all ranks compute. */
static void calibrate(program *p) {
  uint64_t sweeps = 0, least;
  double begun = start_together();
  for (; now() - begun < CALIBRATE_S; sweeps++) sweep(p);
  MPI_Allreduce(&sweeps, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  p->sweeps = 1 + (size_t)((double)least * 1e-6 * (double)p->set.step_us / CALIBRATE_S);
}

static void work(program *p, bool progress) {
  for (size_t step = 0; step < p->set.steps; step++) {
    for (size_t i = 0; i < p->sweeps; i++) sweep(p);
    if (progress) must(mainstay_progress(p->session), "progress");
  }
}

static void copy(program *p, int round) {
  double start = start_together();
  memcpy(p->copy, p->field, p->set.bytes);
  double seconds = now() - start;
  meet();
  print_seconds("copy", round, seconds);
}

/* A copy between two agreements of all ranks: the least time of any checkpoint of a job. */
static void agreed(program *p, int round) {
  uint64_t word = (uint64_t)round;
  double start = start_together();
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  memcpy(p->copy, p->field, p->set.bytes);
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  double seconds = now() - start;
  meet();
  print_seconds("copy_agreed", round, seconds);
}

/* Like `agreed`, without the last agreement: a rank that has copied goes on with the work of `calm` while others still
 * copy. */
static void going_on(program *p, int round) {
  uint64_t word = (uint64_t)round;
  double start = start_together();
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  memcpy(p->copy, p->field, p->set.bytes);
  double seconds = now() - start;
  work(p, false);
  meet();
  print_seconds("copy_going_on", round, seconds);
}

/* Copies the field, sends the copy to a rank on another node, and receives a copy from there. */
static void copy_and_exchange(program *p) {
  MPI_Request both[2];
  memcpy(p->copy, p->field, p->set.bytes);
  MPI_Irecv(p->arrived, (int)p->set.bytes, MPI_BYTE, neighbour(p, -1), 0, MPI_COMM_WORLD, &both[0]);
  MPI_Isend(p->copy, (int)p->set.bytes, MPI_BYTE, neighbour(p, 1), 0, MPI_COMM_WORLD, &both[1]);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void exchange(program *p, int round) {
  double start = start_together();
  copy_and_exchange(p);
  double seconds = now() - start;
  meet();
  print_seconds("copy_exchange", round, seconds);
}

/* Reads each byte once, as a checksum does. */
static uint64_t look_at(const uint64_t *words, size_t bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes / sizeof *words; i++) sum += words[i];
  return sum;
}

/* Like `exchange`, but verified before it counts as saved: both copies are read once, and all ranks learn that the
 * copies have arrived. */
static void exchange_verified(program *p, int round) {
  double start = start_together();
  copy_and_exchange(p);
  uint64_t sum = look_at(p->copy, p->set.bytes) + look_at(p->arrived, p->set.bytes);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  double seconds = now() - start;
  meet();
  print_seconds("copy_exchange_verified", round, seconds);
}

static void calm(program *p, int round) {
  static const char *const names[] = {"seconds", "processor"};
  double start = start_together(), used = processor_seconds();
  work(p, false);
  const double values[] = {now() - start, processor_seconds() - used};
  meet();
  print("calm", round, 2, names, values);
}

/* A checkpoint, the work of `calm` with a call of progress after each step, and a wait for the rest of the save. */
static void save_and(program *p, int round, bool works) {
  static const char *const names[] = {"perceived",   "left", "seconds", "processor", "communication",
                                      "buffer_wait", "copy", "other",   "resume",    "published"};
  mainstay_record r;
  double start = start_together(), used = processor_seconds();
  must(mainstay_checkpoint(p->session, NULL), "checkpoint");
  double goes_on = now();
  if (works) work(p, true);
  double worked = now();
  must(mainstay_wait(p->session), "wait");
  double end = now();
  used = processor_seconds() - used;
  must(mainstay_last_record(p->session, &r), "the record");
  const double values[] = {goes_on - start,
                           end - worked,
                           end - start,
                           used,
                           1e-9 * (double)r.communication_ns,
                           1e-9 * (double)r.buffer_wait_ns,
                           1e-9 * (double)r.copy_ns,
                           1e-9 * (double)r.other_ns,
                           1e-9 * (double)r.resume_ns,
                           1e-9 * (double)r.durable_ns};
  meet();
  print(works ? "working" : "saving", round, sizeof values / sizeof *values, names, values);
}

static void working(program *p, int round) { save_and(p, round, true); }

static void saving(program *p, int round) { save_and(p, round, false); }

static void take_turns(program *p, int round, side *const *sides, size_t count) {
  size_t order[SIDES_MAX];
  shuffled(order, count, round);
  for (size_t i = 0; i < count; i++) {
    rewrite(p, p->stamp + 1);
    meet();
    sides[order[i]](p, round);
  }
}

/* The first revisions, after which all blocks have been written; then all sides, so often. */
static void measure(program *p, side *const *sides, size_t count) {
  open_session(p);
  must(mainstay_restore(p->session, NULL), "restore");
  for (int warm_up = -(int)p->set.warm_ups; warm_up < 0; warm_up++) {
    rewrite(p, p->stamp + 1);
    saving(p, warm_up);
  }
  if (p->set.steps) calibrate(p);
  for (int round = 0; round < (int)p->set.rounds; round++) take_turns(p, round, sides, count);
  must(mainstay_close(p->session), "close");
}

/* The kernel counts no peak of private memory alone: its own peak would contain the mappings of the level, which come
 * and go. */
static void *watch(void *own) {
  for (; !atomic_load(&watched_enough); usleep(WATCH_US)) {
    double now_own = (double)process_memory("RssAnon");
    if (now_own > *(double *)own) *(double *)own = now_own;
  }
  return NULL;
}

/* The memory of the session: the largest resident size without shared memory, and the bytes in the folder. */
static void memory(program *p) {
  static const char *const names[] = {"own", "shared"};
  double own = 0, before = (double)process_memory("RssAnon"), shared = 0;
  pthread_t watcher;
  if (pthread_create(&watcher, NULL, watch, &own) != 0) stop("no thread to watch the memory");
  open_session(p);
  must(mainstay_restore(p->session, NULL), "restore");
  for (size_t round = 0; round < p->set.rounds; round++) {
    rewrite(p, p->stamp + 1);
    must(mainstay_checkpoint(p->session, NULL), "checkpoint");
    for (int look = 0; look < 2; look++) {
      meet();
      double seen = (double)file_blocks_below(getenv("LEVELS_NODES"));
      shared = seen > shared ? seen : shared;
      meet();
      must(mainstay_wait(p->session), "wait");
    }
  }
  atomic_store(&watched_enough, true);
  pthread_join(watcher, NULL);
  const double values[] = {own - before, shared};
  print("memory", 0, 2, names, values);
  must(mainstay_close(p->session), "close");
}

static void save(program *p) {
  open_session(p);
  must(mainstay_restore(p->session, NULL), "restore");
  rewrite(p, SAVED);
  must(mainstay_checkpoint(p->session, NULL), "checkpoint");
  must(mainstay_wait(p->session), "wait");
  must(mainstay_close(p->session), "close");
}

static bool has_lost(const program *p) { return p->rank < p->ranks / (int)p->set.nodes; }

/* Sends the lost data of the ranks of node 0 from another node. */
static void receive_lost(const program *p, void *into) {
  int holder = neighbour(p, 1), ward = neighbour(p, -1);
  if (has_lost(p))
    MPI_Recv(into, (int)p->set.bytes, MPI_BYTE, holder, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else if (ward < p->ranks / (int)p->set.nodes)
    MPI_Send(p->arrived, (int)p->set.bytes, MPI_BYTE, ward, 0, MPI_COMM_WORLD);
}

/* The transfers of a restart: the lost data comes from another node, and is copied. */
static void transfer(program *p, int round) {
  double start = start_together();
  receive_lost(p, p->copy);
  memcpy(p->field, p->copy, p->set.bytes);
  double seconds = now() - start;
  meet();
  print_seconds("copy_transfer", round, seconds);
}

/* Like `transfer`, for a process that has just started and verifies: it maps memory that others have filled, receives
 * the lost data in new memory, and reads all of it once before the copy. */
static void transfer_verified(program *p, int round) {
  size_t bytes = p->set.bytes, part = 256 << 10;
  int file = memfd_create("levels", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) stop("no file in memory");
  if (!has_lost(p)) {
    void *filled = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (filled == MAP_FAILED) stop("no memory");
    memcpy(filled, p->copy, bytes);
    munmap(filled, bytes);
  }
  double start = start_together();
  uint64_t *from = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (from == MAP_FAILED) stop("no memory");
  receive_lost(p, from);
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += part) {
    size_t some = at + part < bytes ? part : bytes - at;
    for (size_t i = at / sizeof sum; i < (at + some) / sizeof sum; i++) sum += from[i];
    memcpy((char *)p->field + at, (char *)from + at, some);
  }
  double seconds = now() - start;
  volatile uint64_t sink = sum;
  (void)sink;
  munmap(from, bytes);
  close(file);
  meet();
  print_seconds("copy_transfer_verified", round, seconds);
}

static void restart(program *p, double begun) {
  static const char *const names[] = {"begun", "opened", "restored", "open", "restore", "restart"};
  mainstay_restored restored;
  double start = start_together();
  open_session(p);
  double opened = now();
  must(mainstay_restore(p->session, &restored), "restore");
  double ended = now();
  if (!restored.revision || p->stamp != SAVED)
    stop("revision %llu with stamp %llu was restored", (unsigned long long)restored.revision,
         (unsigned long long)p->stamp);
  field_check(p->field, p->set.bytes / sizeof *p->field, p->rank, SAVED);
  const double values[] = {begun, opened, ended, opened - start, ended - opened, ended - start};
  meet();
  print("restart", 0, sizeof values / sizeof *values, names, values);
  must(mainstay_close(p->session), "close");
  for (int round = -1; round < 1; round++) {
    transfer(p, round);
    transfer_verified(p, round);
  }
}

static void parse(settings *set, char **arguments, int count) {
  struct {
    const char *name;
    size_t *value;
  } known[] = {{"bytes", &set->bytes},       {"nodes", &set->nodes}, {"rounds", &set->rounds},
               {"warm_ups", &set->warm_ups}, {"steps", &set->steps}, {"step_us", &set->step_us}};
  for (int i = 0; i < count; i++) {
    bool taken = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
      size_t length = strlen(known[k].name);
      if (strncmp(arguments[i], known[k].name, length) == 0 && arguments[i][length] == '=') {
        *known[k].value = strtoull(arguments[i] + length + 1, NULL, 10);
        taken = true;
      }
    }
    if (!taken) stop("no setting: %s", arguments[i]);
  }
}

/* Allocates and frees as much node memory as the portions of a rank take. A job does this once, however often it
 * saves. */
static void portions(program *p) {
  const char *node = getenv("MAINSTAY_POOL_DIRECTORY");
  size_t bytes = p->set.bytes;
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/bare-%d", node ? node : "/dev/shm", p->rank);
  for (int round = 0; round < (int)p->set.rounds; round++) {
    double start = start_together();
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || posix_fallocate(file, 0, (off_t)bytes) != 0) stop("no memory of the node for %s", path);
    unlink(path);
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (all == MAP_FAILED) stop("no mapping of %s", path);
    munmap(all, bytes);
    close(file);
    double seconds = now() - start;
    meet();
    print_seconds("portions", round, seconds);
  }
}

static void measure_mode(program *p, const char *mode) {
  static side *const background[] = {copy, agreed, going_on, exchange, calm, working},
                     *const blocking[] = {copy, exchange, exchange_verified, saving}, *const alone[] = {saving};
  if (strcmp(mode, "background") == 0)
    measure(p, background, sizeof background / sizeof *background);
  else if (strcmp(mode, "blocking") == 0)
    measure(p, blocking, sizeof blocking / sizeof *blocking);
  else if (strcmp(mode, "alone") == 0)
    measure(p, alone, 1);
  else
    stop("no mode: %s", mode);
}

int main(int argc, char **argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the job ends with mpiexec */
  MPI_Init(&argc, &argv);
  double begun = now();
  setvbuf(stdout, NULL, _IOLBF, 0);
  program p = {.set = {.nodes = 2, .rounds = 1, .warm_ups = 4}};
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
  if (argc < 3) stop("usage: levels MODE KEY=NUMBER... DIRECTORY");
  const char *mode = argv[1];
  parse(&p.set, argv + 2, argc - 3);
  if (p.ranks % (int)p.set.nodes != 0) stop("%d ranks on %zu nodes", p.ranks, p.set.nodes);
  p.set.directory = argv[argc - 1];
  snprintf(p.space, sizeof p.space, "%s/space", p.set.directory);

  bool has_floors = strcmp(mode, "background") == 0 || strcmp(mode, "blocking") == 0 || strcmp(mode, "restart") == 0;
  p.field = touched(p.set.bytes);
  p.from = touched(WINDOW * sizeof *p.from), p.to = touched(WINDOW * sizeof *p.to);
  memset(p.from, 0, WINDOW * sizeof *p.from), memset(p.to, 0, WINDOW * sizeof *p.to);
  if (has_floors) p.copy = touched(p.set.bytes), p.arrived = touched(p.set.bytes);
  if (strcmp(mode, "save") == 0)
    save(&p);
  else if (strcmp(mode, "restart") == 0)
    restart(&p, begun);
  else if (strcmp(mode, "memory") == 0)
    memory(&p);
  else if (strcmp(mode, "portions") == 0)
    portions(&p);
  else
    measure_mode(&p, mode);

  if (has_floors) munmap(p.copy, p.set.bytes), munmap(p.arrived, p.set.bytes);
  munmap(p.from, WINDOW * sizeof *p.from), munmap(p.to, WINDOW * sizeof *p.to);
  munmap(p.field, p.set.bytes);
  MPI_Finalize();
  return 0;
}
