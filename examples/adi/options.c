#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: adi --space DIR [options]\n"
    "\n"
    "Five unknowns in a cube that find their steady state, by the alternating direction\n"
    "implicit method: block-tridiagonal systems along x, y and z, as in BT of the NAS\n"
    "parallel benchmarks.\n"
    "\n"
    "  --nx N, --ny N, --nz N\n"
    "                    cells of the whole grid, its walls included (64, 64, 64)\n"
    "  --steps N         steps (40)\n"
    "  --out FILE        write the final field: doubles [nz][ny][nx][5]\n"
    "  --first FILE      write the field that the run begins with, restored or not\n"
    "  --progress N      print a line every N steps (10)\n"
    "\n"
    "  --space DIR       save the state to this space, and restore it if there is any\n"
    "  --every N         checkpoint every N steps (10)\n"
    "  --checkpoints N   instead: this many, at equal intervals, none at the end\n"
    "  --late            checkpoint just before the next step writes the field, not just after\n"
    "                    the last one did: meanwhile it can be saved early\n"
    "  --no-checkpoint   leave --space alone: nothing is restored, nothing saved\n"
    "\n"
    "  --help            print this\n"
    "\n"
    "Mainstay's settings come from MAINSTAY_... variables or mainstay.toml.\n";

enum { NX = 1, NY, NZ, STEPS, OUT, FIRST, PROGRESS, SPACE, EVERY, CHECKPOINTS, LATE, NO_CHECKPOINT, HELP };

static const struct option known[] = {
    {"nx", required_argument, NULL, NX},
    {"ny", required_argument, NULL, NY},
    {"nz", required_argument, NULL, NZ},
    {"steps", required_argument, NULL, STEPS},
    {"out", required_argument, NULL, OUT},
    {"first", required_argument, NULL, FIRST},
    {"progress", required_argument, NULL, PROGRESS},
    {"space", required_argument, NULL, SPACE},
    {"every", required_argument, NULL, EVERY},
    {"checkpoints", required_argument, NULL, CHECKPOINTS},
    {"late", no_argument, NULL, LATE},
    {"no-checkpoint", no_argument, NULL, NO_CHECKPOINT},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
  if (text[0] < '0' || text[0] > '9') /* strtoull takes a minus sign */
    return false;
  char *end = NULL;
  errno = 0;
  unsigned long long read = strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || read < least || read > most) return false;
  *value = read;
  return true;
}

static int refuse(bool speak, const char *what, const char *value) {
  if (speak) fprintf(stderr, "adi: %s%s%s\nTry adi --help.\n", what, value ? ": " : "", value ? value : "");
  return 2;
}

int options_parse(options *o, int argc, char **argv, bool speak) {
  *o = (options){.cells = {64, 64, 64}, .steps = 40, .progress = 10, .every = 10};
  bool no_checkpoint = false;
  const uint64_t cells_max = 8192; /* MPI counts the doubles of a plane in an int */

  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    uint64_t n = 0;
    bool good = true;
    switch (option) {
    case NX:
    case NY:
    case NZ:
      good = number(optarg, 3, cells_max, &n); /* a cell between two walls */
      o->cells[option - NX] = (size_t)n;
      break;
    case STEPS:
      good = number(optarg, 0, UINT64_MAX, &o->steps);
      break;
    case OUT:
      o->out = optarg;
      break;
    case FIRST:
      o->first = optarg;
      break;
    case PROGRESS:
      good = number(optarg, 1, UINT64_MAX, &o->progress);
      break;
    case SPACE:
      o->space = optarg;
      break;
    case EVERY:
      good = number(optarg, 1, UINT64_MAX, &o->every);
      break;
    case CHECKPOINTS:
      good = number(optarg, 1, UINT32_MAX, &o->checkpoints);
      break;
    case LATE:
      o->late = true;
      break;
    case NO_CHECKPOINT:
      no_checkpoint = true;
      break;
    case HELP:
      if (speak) fputs(usage, stdout);
      return 0;
    default:
      return refuse(speak, "unknown option, or one without its value", argv[optind - 1]);
    }
    if (!good) {
      char what[64];
      snprintf(what, sizeof what, "--%s does not take this value", known[option - 1].name);
      return refuse(speak, what, optarg);
    }
  }
  if (optind < argc) return refuse(speak, "unexpected argument", argv[optind]);
  if (!o->space && !no_checkpoint)
    return refuse(speak, "give --space DIR for the checkpoints, or --no-checkpoint", NULL);
  if (no_checkpoint) o->space = NULL;
  if (o->checkpoints) {
    if (o->steps % (o->checkpoints + 1) != 0 || o->steps == 0)
      return refuse(speak, "--checkpoints N needs --steps that N + 1 divides", NULL);
    o->every = o->steps / (o->checkpoints + 1);
  }
  return -1;
}
