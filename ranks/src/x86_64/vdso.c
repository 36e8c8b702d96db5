/* The clocks of a rank, without a system call. Licence: MIT OR Apache-2.0.
 *
 * The C library of a rank finds this image through its auxiliary vector, as it would find the kernel's. The kernel's
 * own would not do: its addresses are those of one process, and a rank goes on in another. This one lies in the slot.
 * It reads the clocks of the process through the gate, and adds the time that the rank is ahead. */
#include "gate.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>

/* The nanoseconds that the rank's monotonic clocks are ahead of those of the machine. The host sets it. */
__attribute__((visibility("protected"))) volatile int64_t mainstay_ahead_ns;

enum { SECOND_NS = 1000000000 };

static int read_clock(clockid_t clock, struct timespec *time) {
  return ((const struct mainstay_gate *)MAINSTAY_GATE_ADDRESS)->clock_gettime(clock, time);
}

/* The C library does not ask the kernel itself if we fail. */
static int ask_kernel(long call, long first, void *second) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(call), "D"(first), "S"(second) : "rcx", "r11", "memory");
  return (int)result;
}

__attribute__((visibility("default"))) int __vdso_clock_gettime(clockid_t clock, struct timespec *time) {
  int64_t ns;
  switch (clock) {
  case CLOCK_REALTIME:
  case CLOCK_REALTIME_COARSE:
    return read_clock(clock, time);
  case CLOCK_MONOTONIC:
  case CLOCK_MONOTONIC_RAW:
  case CLOCK_MONOTONIC_COARSE:
  case CLOCK_BOOTTIME:
    if (read_clock(clock, time)) return -EINVAL;
    ns = time->tv_nsec + mainstay_ahead_ns % SECOND_NS;
    time->tv_sec += mainstay_ahead_ns / SECOND_NS;
    if (ns < 0) ns += SECOND_NS, time->tv_sec--;
    if (ns >= SECOND_NS) ns -= SECOND_NS, time->tv_sec++;
    time->tv_nsec = ns;
    return 0;
  default:
    return ask_kernel(SYS_clock_gettime, clock, time); /* the host answers */
  }
}

__attribute__((visibility("default"))) int __vdso_gettimeofday(struct timeval *time, void *zone) {
  struct timespec now;
  if (zone) return ask_kernel(SYS_gettimeofday, (long)time, zone);
  if (!time) return 0;
  read_clock(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

__attribute__((visibility("default"))) time_t __vdso_time(time_t *time) {
  struct timespec now;
  read_clock(CLOCK_REALTIME, &now);
  if (time) *time = now.tv_sec;
  return now.tv_sec;
}
