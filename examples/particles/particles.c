/* Particles on each rank, ever more of them: particles STEPS [REVISION]
 *
 * It saves itself with the interface of PFS-delegation, and goes on from the last valid revision, or from REVISION. */
#include <mainstay_pfs.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 10000, EVERY = 10 };

typedef struct particle {
  double place, speed;
} particle;

static struct state {
  uint64_t step, count;
  particle all[MOST];
} state;

/* One step; now and then a particle is born, on each rank at its own pace. */
static void advance(int rank) {
  for (uint64_t i = 0; i < state.count; i++) {
    state.all[i].speed -= 0.01 * state.all[i].place;
    state.all[i].place += 0.01 * state.all[i].speed;
  }
  state.step++;
  if (state.step % (uint64_t)(rank + 3) == 0 && state.count < MOST) {
    state.all[state.count].place = 1 + rank;
    state.all[state.count++].speed = 0;
  }
}

static void must(int worked, const char *doing) {
  if (worked) return;
  fprintf(stderr, "particles: %s: %s\n", doing, mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
  int rank;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a rank that is killed has said all that it printed */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  /* ANCHOR: open */
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "striping_factor", "4");   /* servers that a new space is spread over, and */
  MPI_Info_set(info, "striping_unit", "65536"); /* bytes on each in turn, where the file system has that */
  MPI_Info_set(info, "mainstay_keep", "2");     /* revisions that can be read back at least */
  PFS_file file;
  must(PFS_open(MPI_COMM_WORLD, "space", sizeof state, info, &file) == MAINSTAY_OK, "open");
  MPI_Info_free(&info);
  /* ANCHOR_END: open */

  /* ANCHOR: read */
  size_t read = argc > 2 ? PFS_read_file_revision(&state, sizeof state, file, atoi(argv[2]))
                         : PFS_read_file(&state, sizeof state, file);
  must(read != PFS_ERROR, "read");
  if (rank == 0 && PFS_revision(file) > 0)
    printf("going on at step %llu, from revision %d\n", (unsigned long long)state.step, PFS_revision(file));
  /* ANCHOR_END: read */

  while (state.step < steps) {
    advance(rank);
    /* ANCHOR: write */
    if (state.step % EVERY == 0) {
      size_t bytes = sizeof state - (MOST - state.count) * sizeof(particle); /* another number on each rank */
      must(PFS_write_file(&state, bytes, file) != PFS_ERROR, "write");       /* durable when it returns */
    }
    /* ANCHOR_END: write */
  }
  must(PFS_close(&file) == MAINSTAY_OK, "close");
  double sum = 0;
  for (uint64_t i = 0; i < state.count; i++) sum += state.all[i].place;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("step %llu, sum %.9f\n", (unsigned long long)state.step, sum);
  MPI_Finalize();
  return 0;
}
