/* Saves often on several levels, and prints by how many KiB the program has grown without shared memory.
 *
 *     resident SPACE MIB CHECKPOINTS */
#include <mainstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_kib(void) {
  char line[256];
  long kib = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && kib < 0 && fgets(line, sizeof line, status))
    if (sscanf(line, "RssAnon: %ld", &kib) != 1) kib = -1;
  if (status) fclose(status);
  return kib;
}

static void must(int error) {
  if (error) {
    fprintf(stderr, "%s\n", mainstay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char **argv) {
  size_t bytes = argc == 4 ? strtoull(argv[2], NULL, 10) << 20 : 0;
  char *state = bytes ? malloc(bytes) : NULL;
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  mainstay_session *session;
  MPI_Init(&argc, &argv);
  if (!state) MPI_Abort(MPI_COMM_WORLD, 2);
  memset(state, 1, bytes);
  long before = resident_kib();
  must(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], &options, &session));
  must(mainstay_protect(session, "state", state, bytes));
  must(mainstay_restore(session, NULL));
  for (int checkpoint = 0; checkpoint < atoi(argv[3]); checkpoint++) {
    for (size_t at = 0; at < bytes; at += 512) state[at]++;
    must(mainstay_checkpoint(session, NULL));
    must(mainstay_wait(session));
  }
  printf("grown by %ld KiB\n", resident_kib() - before);
  must(mainstay_close(session));
  MPI_Finalize();
  free(state);
  return 0;
}
