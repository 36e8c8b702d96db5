#include "stop.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void stop(const char *format, ...) {
  char line[8192]; /* written at once: output of MPI must not come between */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(stderr, "jacobi3d: %s\n", line);
  fflush(NULL);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort(); /* MPI_Abort does not come back, but is not declared so */
}

void *allocate(unsigned long long count, unsigned long long bytes_each) {
  void *memory = NULL;
  if (count <= SIZE_MAX / bytes_each) memory = malloc((size_t)count * (size_t)bytes_each);
  if (!memory) stop("no memory for %llu x %llu bytes", count, bytes_each);
  return memory;
}
