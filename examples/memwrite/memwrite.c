/* MEMWRITE scans its memory from beginning to end, again and again. A scan writes each byte. (Speculative
 * checkpointing, Figure 6.) MAINSTAY_CAPTURE=incremental and a MAINSTAY_PREDICTOR save early. A tick finds the written
 * blocks. They are saved before the checkpoint.
 *
 *     mpicc memwrite.c -o memwrite $(pkg-config --cflags --libs mainstay)
 *     mpiexec -n 2 ./memwrite space --mb 300 --rounds 2 --checkpoints 8 --ticks 1 --seconds 30 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mainstay_mpi.h>

typedef struct options {
  const char *space;
  unsigned long mb, rounds, checkpoints, ticks; /* ticks between two checkpoints */
  double seconds;                               /* the least time of the scans, without checkpoints */
} options;

static void must(mainstay_status status, const char *doing) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "memwrite: %s: %s\n", doing, mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static bool parse(options *o, int argc, char **argv) {
  *o = (options){.mb = 300, .rounds = 2, .checkpoints = 8, .ticks = 1};
  if (argc < 2 || argc % 2 != 0) return false;
  o->space = argv[1];
  for (int at = 2; at < argc; at += 2) {
    double value = strtod(argv[at + 1], NULL);
    unsigned long whole = strtoul(argv[at + 1], NULL, 10);
    if (strcmp(argv[at], "--mb") == 0)
      o->mb = whole;
    else if (strcmp(argv[at], "--rounds") == 0)
      o->rounds = whole;
    else if (strcmp(argv[at], "--checkpoints") == 0)
      o->checkpoints = whole;
    else if (strcmp(argv[at], "--ticks") == 0)
      o->ticks = whole;
    else if (strcmp(argv[at], "--seconds") == 0)
      o->seconds = value;
    else
      return false;
  }
  return o->mb > 0 && o->rounds > 0 && o->checkpoints > 0 && o->mb < 1ul << 30;
}

/* Whether every byte has the value of that number of finished parts of the scan. */
static bool is_right(const uint8_t *memory, uint64_t bytes, uint64_t part, uint64_t parts_done) {
  uint64_t written = parts_done * part;
  for (uint64_t at = 0; at < bytes; at++) {
    uint8_t expected = (uint8_t)(written / bytes + (at < written % bytes));
    if (memory[at] != expected) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* shows each line at once */
  options o;
  if (!parse(&o, argc, argv)) {
    if (rank == 0)
      fprintf(stderr, "usage: memwrite SPACE [--mb N] [--rounds N] [--checkpoints N] [--ticks N] [--seconds S]\n");
    MPI_Finalize();
    return 2;
  }
  /* A checkpoint comes after a fixed number of parts. So do the ticks between two checkpoints. */
  uint64_t parts = o.checkpoints * (o.ticks + 1), part = (o.mb << 20) * o.rounds / parts, bytes = o.mb << 20;
  if (part == 0 || part * parts != bytes * o.rounds) {
    if (rank == 0)
      fprintf(stderr, "memwrite: the rounds do not fall into %llu equal parts\n", (unsigned long long)parts);
    MPI_Finalize();
    return 2;
  }
  uint8_t *memory = NULL;
  uint64_t done = 0, revision = 0;
  if (posix_memalign((void **)&memory, 4096, bytes) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  memset(memory, 0, bytes);

  mainstay_session *session = NULL;
  must(mainstay_open_mpi(MPI_COMM_WORLD, o.space, NULL, &session), "open the space");
  must(mainstay_protect(session, "done", &done, sizeof done), "protect");
  must(mainstay_protect(session, "memory", memory, bytes), "protect");
  mainstay_restored restored = {0};
  must(mainstay_restore(session, &restored), "restore");
  if (!is_right(memory, bytes, part, done)) {
    fprintf(stderr, "memwrite: rank %d: other bytes came back than were saved\n", rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0 && restored.revision)
    printf("restored revision %llu, part %llu\n", (unsigned long long)restored.revision, (unsigned long long)done);

  double saving = 0;
  while (done < parts) {
    double begun = MPI_Wtime();
    uint64_t from = done * part % bytes;
    for (uint64_t at = 0; at < part; at++) memory[(from + at) % bytes]++;
    done++;
    double left = o.seconds / (double)parts - (MPI_Wtime() - begun);
    if (left > 0) nanosleep(&(struct timespec){(time_t)left, (long)(1e9 * (left - (double)(time_t)left))}, NULL);
    if (done % (o.ticks + 1) != 0) {
      must(mainstay_tick(session), "tick");
      continue;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    begun = MPI_Wtime();
    must(mainstay_checkpoint(session, &revision), "checkpoint");
    must(mainstay_wait(session), "wait");
    saving += MPI_Wtime() - begun;
    if (rank == 0) printf("checkpoint %llu: %.3f s in all\n", (unsigned long long)revision, saving);
  }
  mainstay_speculation early = {0};
  must(mainstay_speculated(session, &early), "ask what was saved early");
  must(mainstay_close(session), "close");
  if (rank == 0)
    printf("done: checkpoints %.3f s, %llu of %llu blocks early, %llu in vain\n", saving,
           (unsigned long long)early.early, (unsigned long long)early.dirty, (unsigned long long)early.wasted);
  free(memory);
  MPI_Finalize();
  return 0;
}
