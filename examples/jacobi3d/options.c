#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mainstay.h>

static const char usage[] =
    "usage: jacobi3d --dem FILE [options]\n"
    "\n"
    "The temperature in the ground below a mountain range, by Jacobi sweeps of the\n"
    "heat equation on a 3-D grid that all ranks share.\n"
    "\n"
    "  --dem FILE        elevation model, made by dem.py\n"
    "  --nx N, --ny N, --nz N\n"
    "                    cells of the whole grid: east, north, up (128, 128, 96)\n"
    "  --steps N         steps, of a sweep each (100)\n"
    "  --out FILE        write the final field: doubles [nx][ny][nz]\n"
    "  --first FILE      write the field that the run begins with, restored or not\n"
    "  --progress N      print a line every N steps (10)\n"
    "\n"
    "  --space DIR       save the state to this space, and restore it if there is any\n"
    "  --from DIR        where that holds nothing, begin from the newest revision of this space,\n"
    "                    whatever number of ranks saved it\n"
    "  --every N         checkpoint every N steps (20)\n"
    "  --keep N          complete revisions to keep\n"
    "  --stage NAME      pool: go on before the data is on disk; node, rank: the same for\n"
    "                    small pieces; direct: no buffer\n"
    "  --pool-bytes N    size of the pool of the node, which its ranks share\n"
    "  --timeline        print when the space is open, and the phases of every checkpoint\n"
    "  --no-checkpoint   leave --space alone: nothing is restored, nothing saved\n"
    "\n"
    "  --help            print this\n";

enum {
  DEM = 1,
  NX,
  NY,
  NZ,
  STEPS,
  OUT,
  FIRST,
  PROGRESS,
  SPACE,
  FROM,
  EVERY,
  KEEP,
  STAGE,
  POOL_BYTES,
  TIMELINE,
  NO_CHECKPOINT,
  HELP
};

static const struct option known[] = {
    {"dem", required_argument, NULL, DEM},     {"nx", required_argument, NULL, NX},
    {"ny", required_argument, NULL, NY},       {"nz", required_argument, NULL, NZ},
    {"steps", required_argument, NULL, STEPS}, {"out", required_argument, NULL, OUT},
    {"first", required_argument, NULL, FIRST}, {"progress", required_argument, NULL, PROGRESS},
    {"space", required_argument, NULL, SPACE}, {"from", required_argument, NULL, FROM},
    {"every", required_argument, NULL, EVERY}, {"keep", required_argument, NULL, KEEP},
    {"stage", required_argument, NULL, STAGE}, {"pool-bytes", required_argument, NULL, POOL_BYTES},
    {"timeline", no_argument, NULL, TIMELINE}, {"no-checkpoint", no_argument, NULL, NO_CHECKPOINT},
    {"help", no_argument, NULL, HELP},         {NULL, 0, NULL, 0},
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

static bool stage(const char *name, uint32_t *value) {
  static const struct {
    const char *name;
    mainstay_stage value;
  } stages[] = {{"pool", MAINSTAY_STAGE_POOL},
                {"node", MAINSTAY_STAGE_NODE},
                {"rank", MAINSTAY_STAGE_RANK},
                {"direct", MAINSTAY_STAGE_DIRECT}};
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
    if (strcmp(name, stages[i].name) == 0) {
      *value = stages[i].value;
      return true;
    }
  return false;
}

static int refuse(bool speak, const char *what, const char *value) {
  if (speak) fprintf(stderr, "jacobi3d: %s%s%s\nTry jacobi3d --help.\n", what, value ? ": " : "", value ? value : "");
  return 2;
}

int options_parse(options *o, int argc, char **argv, bool speak) {
  *o = (options){.cells = {128, 128, 96}, .steps = 100, .progress = 10, .every = 20};
  bool no_checkpoint = false;
  const uint64_t cells_max = INT32_MAX - 2; /* MPI counts them, and two ghosts, in an int */

  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    uint64_t n = 0;
    bool good = true;
    switch (option) {
    case DEM:
      o->dem = optarg;
      break;
    case NX:
    case NY:
    case NZ:
      good = number(optarg, 1, cells_max, &n);
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
    case FROM:
      o->from = optarg;
      break;
    case EVERY:
      good = number(optarg, 1, UINT64_MAX, &o->every);
      break;
    case KEEP:
      good = number(optarg, 1, UINT32_MAX, &n);
      o->keep = (uint32_t)n;
      break;
    case STAGE:
      good = stage(optarg, &o->stage);
      break;
    case POOL_BYTES:
      good = number(optarg, 1, UINT64_MAX, &o->pool_bytes);
      break;
    case TIMELINE:
      o->timeline = true;
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
  if (!o->dem) return refuse(speak, "--dem FILE is missing", NULL);
  if (!o->space && !no_checkpoint)
    return refuse(speak, "give --space DIR for the checkpoints, or --no-checkpoint", NULL);
  if (no_checkpoint) o->space = NULL;
  return -1;
}
