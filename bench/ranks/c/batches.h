/* Times a short piece of work in batches. */
#ifndef BATCHES_H
#define BATCHES_H

/* Prints a line of JSON: the median of the batches, in seconds for each time that `work` was done. */
void print_batches(const char *side, int batches, int times, void (*work)(void *), void *context);

#endif
