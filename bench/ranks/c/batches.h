/* Times a short piece of work in batches. */
#ifndef BATCHES_H
#define BATCHES_H

/* Prints a line of JSON with the median of the batches, in seconds for each call of `work`. */
void print_batches(const char *side, int batches, int times, void (*work)(void *), void *context);

#endif
