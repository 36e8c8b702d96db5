/* What the kernel counts for this process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdint.h>

/* Has the highest resident size count anew from now on. */
void process_reset_peak(void);
/* A line of /proc/self/status in bytes: "VmRSS", "VmHWM". */
uint64_t process_memory(const char *line);
/* Bytes that were read from devices for this process. */
uint64_t process_device_reads(void);

#endif
