/* The cost of a checkpoint and of a restart, compared with the limits of the machine. The sides of the benchmark `path`
 * take turns in one run. Prints a line of JSON for each measurement, with a value for each rank; path.py turns them
 * into rows.
 *
 *     path save|restart|first|often KEY=NUMBER... DIRECTORY */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <mainstay_mpi.h>

#include "field.h"
#include "process.h"
#include "raw.h"
#include "rounds.h"
#include "stop.h"

#define SIDES_MAX 8
#define REDUCED 64 /* numbers of an all-reduce */

typedef struct settings {
  const char *directory;
  size_t bytes, pool_bytes, chunk_bytes, io_threads, direct, rounds, warm_ups;
} settings;

/* The program: its memory and its references. */
typedef struct program {
  settings set;
  int rank;
  char space[4096];
  uint64_t *field, *copy; /* ordinary pages, touched */
  uint64_t stamp;         /* identifies the content of the field */
  uint64_t expected;      /* the stamp that a restart brings back */
  raw_file raw;
  mainstay_session *session;
} program;

typedef void side(program *p, int round);

static void print_seconds(const char *name, int round, double seconds) {
  static const char *const names[] = {"seconds"};
  print(name, round, 1, names, &seconds);
}

static void rewrite(program *p, uint64_t stamp) {
  p->stamp = stamp;
  field_fill(p->field, p->set.bytes / sizeof *p->field, p->rank, stamp);
}

static void check(const program *p) {
  if (p->stamp != p->expected)
    stop("stamp %llu was restored, %llu was saved", (unsigned long long)p->stamp, (unsigned long long)p->expected);
  field_check(p->field, p->set.bytes / sizeof *p->field, p->rank, p->stamp);
}

static void set_number(mainstay_options *options, const char *key, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  if (number) must(mainstay_set(options, key, text), key);
}

static void open_session(program *p) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  options.stage = p->set.direct ? MAINSTAY_STAGE_DIRECT : MAINSTAY_STAGE_POOL;
  options.pool_bytes = p->set.pool_bytes;
  set_number(&options, "chunk_bytes", p->set.chunk_bytes);
  set_number(&options, "io_threads", (uint64_t)p->set.io_threads);
  must(mainstay_open_mpi(MPI_COMM_WORLD, p->space, &options, &p->session), "open the space");
  uint64_t shape = p->set.bytes / sizeof *p->field;
  must(mainstay_protect(p->session, "stamp", &p->stamp, sizeof p->stamp), "protect the stamp");
  must(mainstay_protect_array(p->session, "field", p->field, MAINSTAY_U64, 1, &shape), "protect the field");
}

static void copy(program *p, int round) {
  double started = now();
  memcpy(p->copy, p->field, p->set.bytes);
  double seconds = now() - started;
  print_seconds("copy", round, seconds);
}

/* Writes past the caches, because the copy is not read again soon: the fastest way to copy much memory. */
static void copy_streaming(program *p, int round) {
  double started = now();
#ifdef __SSE2__
  const __m128i *from = (const __m128i *)p->field;
  __m128i *to = (__m128i *)p->copy;
  for (size_t i = 0; i < p->set.bytes / sizeof *to; i++) _mm_stream_si128(to + i, _mm_load_si128(from + i));
  _mm_sfence();
#else
  memcpy(p->copy, p->field, p->set.bytes);
#endif
  double seconds = now() - started;
  print_seconds("copy_streaming", round, seconds);
}

/* The least time of an agreement of all ranks. */
static void all_reduce(program *p, int round) {
  (void)p;
  uint64_t facts[REDUCED] = {0};
  double started = now();
  MPI_Allreduce(MPI_IN_PLACE, facts, REDUCED, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  double seconds = now() - started;
  print_seconds("all_reduce", round, seconds);
}

static void checkpoint(program *p, int round) {
  static const char *const names[] = {"perceived", "durable",       "communication", "buffer_wait",
                                      "copy",      "other",         "resume",        "chunks",
                                      "writes",    "written_bytes", "own_perceived", "own_durable"};
  mainstay_record r;
  double t1 = now();
  must(mainstay_checkpoint(p->session, NULL), "checkpoint");
  double t2 = now();
  must(mainstay_wait(p->session), "wait");
  double t3 = now();
  must(mainstay_last_record(p->session, &r), "the record");
  const double values[] = {t2 - t1,
                           t3 - t1,
                           1e-9 * (double)r.communication_ns,
                           1e-9 * (double)r.buffer_wait_ns,
                           1e-9 * (double)r.copy_ns,
                           1e-9 * (double)r.other_ns,
                           1e-9 * (double)r.resume_ns,
                           (double)r.chunks,
                           (double)r.writes,
                           (double)r.written_bytes,
                           1e-9 * (double)r.perceived_ns,
                           1e-9 * (double)r.durable_ns};
  print("checkpoint", round, sizeof values / sizeof *values, names, values);
}

static void write_raw(program *p, int round, int in_flight, const char *name) {
  double started = now();
  raw_write(&p->raw, in_flight);
  double seconds = now() - started;
  print_seconds(name, round, seconds);
}

static void write_1(program *p, int round) { write_raw(p, round, 1, "raw_write_1"); }

static void write_2(program *p, int round) { write_raw(p, round, 2, "raw_write_2"); }

static void read_raw(program *p, int round, int in_flight, const char *name) {
  memset(p->raw.buffer, 0, p->set.bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  double started = now();
  raw_read(&p->raw, in_flight);
  double seconds = now() - started;
  print_seconds(name, round, seconds);
}

static void read_1(program *p, int round) { read_raw(p, round, 1, "raw_read_1"); }

static void read_2(program *p, int round) { read_raw(p, round, 2, "raw_read_2"); }

static void restart(program *p, int round) {
  static const char *const names[] = {"open", "restore", "restart", "device_bytes"};
  mainstay_restored restored;
  uint64_t before = process_device_reads();
  double started = now();
  open_session(p);
  double opened = now();
  must(mainstay_restore(p->session, &restored), "restore");
  double ended = now();
  uint64_t reads = process_device_reads() - before;
  if (!restored.revision || restored.skipped)
    stop("revision %llu was restored, %llu were passed over", (unsigned long long)restored.revision,
         (unsigned long long)restored.skipped);
  check(p);
  const double values[] = {opened - started, ended - opened, ended - started, (double)reads};
  print("restart", round, sizeof values / sizeof *values, names, values);
  must(mainstay_close(p->session), "close");
}

static void run_round(program *p, int round, side *const *sides, size_t count) {
  size_t order[SIDES_MAX];
  shuffled(order, count, round);
  for (size_t i = 0; i < count; i++) {
    rewrite(p, p->stamp + 1);
    settle(p->set.directory, NULL);
    sides[order[i]](p, round);
  }
}

static void print_memory(uint64_t before) {
  static const char *const names[] = {"bytes"};
  double grown = (double)process_memory("VmHWM") - (double)before;
  print("memory", 0, 1, names, &grown);
}

static uint64_t memory_before(void) {
  process_reset_peak();
  return process_memory("VmRSS");
}

static void write_new(program *p, int round) {
  double started = now();
  raw_preallocate(&p->raw);
  raw_write(&p->raw, 2);
  double seconds = now() - started;
  print_seconds("raw_write_new", round, seconds);
}

static void checkpoint_new(program *p, int round) {
  open_session(p);
  must(mainstay_restore(p->session, NULL), "restore");
  checkpoint(p, round);
  must(mainstay_close(p->session), "close");
}

/* A checkpoint right after its space is opened, and the same bytes written to new files. The number of warm-ups gives
 * the order. */
static void first(program *p) {
  side *const sides[] = {write_new, checkpoint_new};
  rewrite(p, 1);
  memcpy(p->raw.buffer, p->field, p->set.bytes);
  for (size_t i = 0; i < 2; i++) {
    settle(p->set.directory, NULL);
    start_together();
    double new_memory = process_meet_memory(p->set.bytes);
    process_meet_memory(2 * p->set.bytes);
    if (i == 0) print_seconds("new_memory", 0, new_memory);
    start_together();
    sides[(i + p->set.warm_ups) % 2](p, 0);
  }
}

/* Space and raw file are new: the first writes allocate their extents. */
static void save(program *p) {
  side *const sides[] = {copy, copy_streaming, all_reduce, checkpoint, write_1, write_2};
  uint64_t before = memory_before();
  open_session(p);
  rewrite(p, 1);
  memcpy(p->raw.buffer, p->field, p->set.bytes);
  settle(p->set.directory, NULL);
  write_new(p, -1);
  /* A space has room for three revisions. After three, every block was written before. */
  for (int warm_up = -(int)p->set.warm_ups; warm_up < 0; warm_up++) {
    rewrite(p, p->stamp + 1);
    settle(p->set.directory, NULL);
    checkpoint(p, warm_up);
  }
  run_round(p, -1, sides, sizeof sides / sizeof *sides);
  for (int round = 0; round < (int)p->set.rounds; round++) run_round(p, round, sides, sizeof sides / sizeof *sides);
  rewrite(p, p->expected);
  settle(p->set.directory, NULL);
  must(mainstay_checkpoint(p->session, NULL), "checkpoint");
  must(mainstay_wait(p->session), "wait");
  print_memory(before);
  must(mainstay_close(p->session), "close");
}

/* Checkpoints that are due faster than they become durable; the environment chooses the answer. Measures the longest
 * call of due and checkpoint, and the sum of all calls. */
static void often(program *p) {
  enum { CHECKPOINTS = 10 };
  static const char *const names[] = {"longest", "inside"};
  const double step_s = 0.01;
  uint64_t step = 0;
  open_session(p);
  for (int warm_up = -(int)p->set.warm_ups; warm_up < 0; warm_up++) {
    rewrite(p, p->stamp + 1);
    checkpoint(p, warm_up);
  }
  for (int round = 0; round < (int)p->set.rounds; round++) {
    double values[2] = {0, 0};
    settle(p->set.directory, NULL);
    start_together();
    for (int taken = 0; taken < CHECKPOINTS;) {
      int due = 0;
      double begun = now();
      while (now() - begun < step_s);
      begun = now();
      must(mainstay_due(p->session, ++step, &due), "due");
      if (due) must(mainstay_checkpoint(p->session, NULL), "checkpoint");
      taken += due;
      double took = now() - begun;
      values[0] = took > values[0] ? took : values[0];
      values[1] += took;
    }
    must(mainstay_wait(p->session), "wait");
    print("often", round, 2, names, values);
  }
  must(mainstay_close(p->session), "close");
}

static void restarts(program *p) {
  side *const sides[] = {restart, read_1, read_2};
  uint64_t before = memory_before();
  for (int round = -1; round < (int)p->set.rounds; round++) run_round(p, round, sides, sizeof sides / sizeof *sides);
  print_memory(before);
}

static void parse(settings *set, char **arguments, int count) {
  struct {
    const char *name;
    size_t *value;
  } known[] = {{"bytes", &set->bytes},           {"pool_bytes", &set->pool_bytes}, {"chunk_bytes", &set->chunk_bytes},
               {"io_threads", &set->io_threads}, {"direct", &set->direct},         {"rounds", &set->rounds},
               {"warm_ups", &set->warm_ups}};
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

int main(int argc, char **argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* the job ends with mpiexec */
  MPI_Init(&argc, &argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  program p = {.set = {.chunk_bytes = 4 << 20, .rounds = 1, .warm_ups = 4}, .expected = 1 << 20};
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  if (argc < 3) stop("usage: path save|restart|first|often KEY=NUMBER... DIRECTORY");
  parse(&p.set, argv + 2, argc - 3);
  p.set.directory = argv[argc - 1];
  snprintf(p.space, sizeof p.space, "%s/space", p.set.directory);

  p.field = touched(p.set.bytes);
  p.copy = touched(p.set.bytes);
  p.raw = raw_open(p.set.directory, p.rank, p.set.bytes, p.set.chunk_bytes);
  if (strcmp(argv[1], "save") == 0)
    save(&p);
  else if (strcmp(argv[1], "restart") == 0)
    restarts(&p);
  else if (strcmp(argv[1], "first") == 0)
    first(&p);
  else if (strcmp(argv[1], "often") == 0)
    often(&p);
  else
    stop("no mode: %s", argv[1]);

  raw_close(&p.raw);
  munmap(p.copy, p.set.bytes);
  munmap(p.field, p.set.bytes);
  MPI_Finalize();
  return 0;
}
