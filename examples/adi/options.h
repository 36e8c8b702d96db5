/* The command line of adi. */
#ifndef ADI_OPTIONS_H
#define ADI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct options {
  size_t cells[3]; /* of the whole grid: x, y, z */
  uint64_t steps;
  uint64_t progress;    /* steps between two progress lines */
  const char *out;      /* where the final field goes, or NULL */
  const char *first;    /* where the field goes that the run begins with, or NULL */
  const char *space;    /* where the checkpoints go; NULL: none are made */
  uint64_t every;       /* steps between two checkpoints */
  uint64_t checkpoints; /* how many there are in a run, none of them at its end; 0: as `every` says */
  bool late;            /* just before the field is written next, instead of just after it was */
} options;

/* Returns -1 if the program should run, or else the exit status to end with. Only the rank that speaks prints. */
int options_parse(options *o, int argc, char **argv, bool speak);

#endif
