/* The end of the whole job: a measurement that went wrong is none. */
#ifndef STOP_H
#define STOP_H

#include <mainstay.h>

_Noreturn void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void stop_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(mainstay_status status, const char *doing);

#endif
