/* Ends the job with a message: an error that no rank can repair stops all ranks. */
#ifndef ADI_STOP_H
#define ADI_STOP_H

_Noreturn void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* malloc that never returns NULL. */
void *allocate(unsigned long long count, unsigned long long bytes_each);

#endif
