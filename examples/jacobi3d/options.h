/* The command line of jacobi3d. */
#ifndef JACOBI3D_OPTIONS_H
#define JACOBI3D_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct options {
  const char *dem;   /* elevation model, made by dem.py */
  size_t cells[3];   /* of the whole grid: east, north, up */
  uint64_t steps;    /* each a sweep */
  uint64_t progress; /* steps between two progress lines */
  const char *out;   /* where the final field goes, or NULL */
  const char *first; /* where the field goes that the run begins with, or NULL */
  const char *space; /* where the checkpoints go; NULL: none are made */
  const char *from;  /* a space to begin from where that holds nothing, or NULL */
  uint64_t every;    /* steps between two checkpoints */
  uint32_t keep;     /* these three: 0 takes the value of the environment or mainstay.toml */
  uint32_t stage;
  uint64_t pool_bytes;
  bool timeline; /* when the space is open, and the phases of each checkpoint */
} options;

/* Returns -1 if the program should run, or else the exit status to end with. Only the rank that speaks prints. */
int options_parse(options *o, int argc, char **argv, bool speak);

#endif
