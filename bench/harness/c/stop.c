#define _GNU_SOURCE
#include "stop.h"

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Noreturn void end(const char *why, const char *format, va_list arguments) {
  fprintf(stderr, "%s: ", program_invocation_short_name);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "%s%s\n", why ? ": " : "", why ? why : "");
  MPI_Abort(MPI_COMM_WORLD, 1);
  __builtin_unreachable();
}

void stop(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  end(NULL, format, arguments);
}

void stop_errno(const char *format, ...) {
  const char *why = strerror(errno);
  va_list arguments;
  va_start(arguments, format);
  end(why, format, arguments);
}

void must(mainstay_status status, const char *doing) {
  if (status != MAINSTAY_OK) stop("%s: %s", doing, mainstay_error_message());
}
