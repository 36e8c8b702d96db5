/* The kernel's counters and memory of this process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* Resets the highest resident size: the kernel counts it from now on. */
void process_reset_peak(void);
/* A line of /proc/self/status in bytes: "VmRSS", "VmHWM", "RssShmem". */
uint64_t process_memory(const char *line);
/* Bytes that were read from devices for this process. */
uint64_t process_device_reads(void);

/* Seconds, on a clock that all processes of the node share. */
double now(void);
/* Memory of ordinary pages that the kernel has already handed out. */
void *touched(size_t bytes);
/* Touches `bytes` bytes of free memory and gives them back: the kernel hands out the latest freed pages first. The host
 * of a virtual machine may have taken free memory away; the first touch brings it back. Returns the seconds that this
 * took. */
double process_meet_memory(size_t bytes);

#endif
