/* A job that saves itself again and again, made to be killed.
 *
 *     victim SPACE BOARD ACKNOWLEDGED RUN KEEP STAGE STEPS
 *
 * Every byte that it saves follows from (run, step, rank), so a restore that mixes ranks, steps or runs is visible. It
 * checks each restore against the promise of the earlier runs: the last line that one wrote to the file ACKNOWLEDGED
 * after mainstay_wait had returned. With VICTIM_SIGNALS in the environment it gets signals all the time. With
 * VICTIM_SHARES its ranks share a pool that is far too small for them, and write mostly in pieces. A rank with a dead
 * peer then completes its own part of the last revision. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mainstay_mpi.h>

#include "board.h"
#include "pieces.h"

enum { ODD = 1237 }; /* a region that shares its last block */

static const uint64_t PIECES = 1ull << 40; /* the seed of their content */

/* The run, the step and the rank of a revision. */
typedef struct origin {
  uint64_t run, step;
} origin;

static int rank;
static mainstay_session *session;
static bool shares;
static uint64_t words = 16 << 17; /* 16 MiB */
static uint64_t *field, odd[ODD];

static void wrong(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("WRONG: rank %d: ", rank);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

/* A peer is gone. Mainstay still saves the data that this rank has handed over; then the rank ends. */
static void survive(void) {
  int durable = session == NULL;
  mainstay_status status = MAINSTAY_OK;
  while (!durable && status == MAINSTAY_OK) {
    status = mainstay_poll(session, &durable);
    stretch(1000);
  }
  printf("survived: rank %d, %s\n", rank, durable ? "durable" : mainstay_error_message());
  fflush(stdout);
  _exit(0);
}

static void must(mainstay_status status, const char *doing) {
  if (shares && status == MAINSTAY_GROUP_FAILED) survive();
  if (status != MAINSTAY_OK) wrong("%s: %s: %s", doing, mainstay_status_name(status), mainstay_error_message());
}

static bool meets; /* the all-reduce at t1 is under way */

/* The only all-reduce of the program is the one at t1. */
int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                   MPI_Request *request) {
  if (board->program == SETTLING) {
    board->program = COMMUNICATION;
    meets = true;
    stretch(2000);
  }
  return PMPI_Iallreduce(from, to, count, type, operation, comm, request);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
  int code = PMPI_Test(request, done, status);
  if (meets && (*done || code != MPI_SUCCESS)) {
    meets = false;
    stretch(2000);
    phases_begin(); /* the revision before is settled */
    board->program = STAGING;
  }
  return code;
}

static uint64_t word(origin of, uint64_t index) {
  uint64_t x = (of.run << 48 ^ of.step << 28 ^ (uint64_t)rank << 24) + index;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

static void compute(origin of) {
  for (uint64_t i = 0; i < words; i++) field[i] = word(of, i);
  for (uint64_t i = 0; i < ODD; i++) odd[i] = word(of, ~i);
}

static void check(origin of) {
  for (uint64_t i = 0; i < words; i++)
    if (field[i] != word(of, i)) wrong("word %" PRIu64 " is not of run %" PRIu64 ", step %" PRIu64, i, of.run, of.step);
  for (uint64_t i = 0; i < ODD; i++)
    if (odd[i] != word(of, ~i))
      wrong("odd word %" PRIu64 " is not of run %" PRIu64 ", step %" PRIu64, i, of.run, of.step);
}

/* The restored data must be one revision on all ranks, and not older than the last acknowledged one. */
static void judge(const mainstay_restored *restored, origin of, FILE *acknowledged) {
  uint64_t revision = 0, mine[3] = {restored->revision, of.run, of.step}, all[16][3];
  origin promised = {0, 0};
  while (fscanf(acknowledged, "%" SCNu64 "%" SCNu64 "%" SCNu64, &revision, &promised.run, &promised.step) == 3)
    continue;
  if (restored->skipped) wrong("passed over %s", mainstay_report(session));
  if (restored->revision < revision)
    wrong("revision %" PRIu64 " came back, %" PRIu64 " was acknowledged", restored->revision, revision);
  if (restored->revision == revision && (promised.run != of.run || promised.step != of.step))
    wrong("revision %" PRIu64 " is of another run or step", revision);
  if (restored->revision) check(of);
  if (restored->revision && shares && !pieces_hold(session, word(of, PIECES)))
    wrong("pieces are not of run %" PRIu64 ", step %" PRIu64, of.run, of.step);
  MPI_Allgather(mine, 3, MPI_UINT64_T, all, 3, MPI_UINT64_T, MPI_COMM_WORLD);
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < ranks; i++)
    if (memcmp(all[i], mine, sizeof mine) != 0)
      wrong("rank %d has revision %" PRIu64 ", this one %" PRIu64, i, all[i][0], mine[0]);
  signals_hold(1);
  if (rank == 0) printf("restored %" PRIu64 " of run %" PRIu64 " step %" PRIu64 "\n", mine[0], of.run, of.step);
  signals_hold(0);
}

static uint32_t stage_of(const char *name) {
  static const struct {
    const char *name;
    uint32_t stage;
  } stages[] = {
      {"pool", MAINSTAY_STAGE_POOL},
      {"node", MAINSTAY_STAGE_NODE},
      {"rank", MAINSTAY_STAGE_RANK},
      {"direct", MAINSTAY_STAGE_DIRECT},
  };
  for (int i = 0; i < 4; i++)
    if (strcmp(name, stages[i].name) == 0) return stages[i].stage;
  wrong("no stage %s", name);
  return 0;
}

static FILE *must_open(const char *path) {
  FILE *file = fopen(path, "a+");
  if (!file) wrong("cannot open %s", path);
  rewind(file); /* reads from the beginning, writes to the end */
  return file;
}

static cell *map_board(const char *path) {
  int file = open(path, O_RDWR);
  cell *cells = mmap(NULL, 16 * sizeof *cells, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || cells == MAP_FAILED) wrong("cannot map %s", path);
  close(file);
  return cells + rank;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  static char line[BUFSIZ]; /* one write for a line, so that lines of ranks do not mix */
  setvbuf(stdout, line, _IOLBF, sizeof line);
  if (argc != 8) wrong("seven arguments are needed");
  const char *space = argv[1];
  board = map_board(argv[2]);
  FILE *acknowledged = must_open(argv[3]);
  if (getenv("VICTIM_SIGNALS")) signals_begin();
  shares = getenv("VICTIM_SHARES") != NULL;
  if (shares) words = 24 << 10;
  origin now = {0, 0};
  field = malloc(words * sizeof *field);
  if (!field) wrong("no memory");

  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  options.keep = (uint32_t)atoi(argv[5]);
  options.stage = stage_of(argv[6]);
  options.pool_bytes = 2 << 20; /* far smaller than the shard, so that staging waits for the I/O threads */
  if (shares) options.pool_bytes = 5 * (128 << 10); /* as few chunks as four ranks can have */
  must(mainstay_set(&options, "chunk_bytes", shares ? "128 KiB" : "256 KiB"), "set");
  if (shares) {
    must(mainstay_set(&options, "threshold_bytes", "32 KiB"), "set");
    must(mainstay_set(&options, "buffer_bytes", "16 KiB"), "set");
    must(mainstay_set(&options, "flush_seconds", "0.05"), "set");
  }
  must(mainstay_open_mpi(MPI_COMM_WORLD, space, &options, &session), "open");
  must(mainstay_protect(session, "origin", &now, sizeof now), "protect origin");
  must(mainstay_protect(session, "field", field, words * sizeof *field), "protect field");
  must(mainstay_protect(session, "odd", odd, sizeof odd), "protect odd");
  mainstay_restored restored = {0};
  must(mainstay_restore(session, &restored), "restore");
  judge(&restored, now, acknowledged);
  now.run = strtoull(argv[4], NULL, 10);

  const uint64_t last = now.step + strtoull(argv[7], NULL, 10);
  while (now.step < last) {
    uint64_t revision;
    board->program = COMPUTING;
    now.step++;
    compute(now);
    stretch(2000);
    board->program = SETTLING;
    if (shares) {
      must(mainstay_begin(session, pieces_most, NULL), "begin");
      board->program = WRITING;
      must(pieces_write(session, word(now, PIECES)), "write");
      board->program = STAGING;
    }
    must(mainstay_checkpoint(session, &revision), "checkpoint");
    board->revision = revision;
    if (now.step % 2 == 0) {
      board->program = WAITING;
      must(mainstay_wait(session), "wait");
      signals_hold(1);
      if (rank == 0) {
        fprintf(acknowledged, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", revision, now.run, now.step);
        fflush(acknowledged);
      }
      signals_hold(0);
    }
  }
  must(mainstay_close(session), "close");
  signals_hold(1);
  if (rank == 0) printf("done\n");
  fclose(acknowledged);
  free(field);
  MPI_Finalize();
  return 0;
}
