/* The main function of a program of calls: it makes one call for each argument, and prints its result on rank 0. */
#include <mpi.h>
#include <stdio.h>

static int rank;

/* The result of the call that a word names. */
static int call(const char *word);

static int make_calls(int count, char **words) {
  int i;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (i = 0; i < count; i++) {
    const int result = call(words[i]);
    if (rank == 0) printf("%s %d\n", words[i], result);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
