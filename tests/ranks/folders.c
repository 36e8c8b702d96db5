/* Each rank writes a file in a folder, and renames the folder while the file is open. */
#include <mpi.h>
#include <stdio.h>
#include <sys/stat.h>

int main(int count, char **words) {
  int rank;
  char new[32], done[32], name[64];
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(new, sizeof new, "new.%d", rank);
  snprintf(done, sizeof done, "done.%d", rank);
  snprintf(name, sizeof name, "%s/restart", new);
  if (mkdir(new, 0755)) return 1;
  FILE *file = fopen(name, "w");
  if (!file || fputs("first ", file) < 0 || fflush(file)) return 2;
  if (rename(new, done)) return 3;
  if (fputs("and last", file) < 0 || fclose(file)) return 4;
  MPI_Finalize();
  return 0;
}
