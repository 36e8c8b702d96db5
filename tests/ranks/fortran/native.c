/* Lets the functions for Fortran run with a native MPI of MPICH's ABI: the two functions of the rank's library that
 * they call. Licence: MIT OR Apache-2.0. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../capi/ranks/fortran/fortran.h"

void end_job(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(9);
}

void refuse(const char *function, const char *advice) { end_job("%s is not supported. %s", function, advice); }
