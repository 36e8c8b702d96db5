/* The main function of a program of calls: it makes one call for each argument, and prints its result on rank 0. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int rank;

/* The result of the call that a word names. */
static int call(const char *word);

/* Makes or removes a file on rank 0, for all words of all programs: touch=PATH, unlink=PATH. */
static int touch_or_unlink(const char *path, int is_touch) {
  int result = 0;
  if (rank == 0) result = is_touch ? close(open(path, O_CREAT | O_WRONLY, 0600)) : unlink(path);
  MPI_Barrier(MPI_COMM_WORLD);
  return result;
}

static int make_call(const char *word) {
  char path[1024];
  int one, begin;
  if (sscanf(word, "touch=%1023s", path) == 1) return touch_or_unlink(path, 1);
  if (sscanf(word, "unlink=%1023s", path) == 1) return touch_or_unlink(path, 0);
  /* A call on one rank alone: on=RANK:WORD. */
  if (sscanf(word, "on=%d:%n", &one, &begin) == 1) return rank == one ? call(word + begin) : 0;
  return call(word);
}

static int make_calls(int count, char **words) {
  int i;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (i = 0; i < count; i++) {
    const int result = make_call(words[i]);
    if (rank == 0) printf("%s %d\n", words[i], result);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
