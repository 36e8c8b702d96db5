/* The state of the stand-in for VeloC. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_VELOC_STATE_H
#define MAINSTAY_VELOC_STATE_H

#include "../stand_in.h"
#include "veloc.h"

#define VERSION "version"
#define FILE_STREAM "file"
/* Revisions to keep if max_versions is 0 or missing. */
#define KEPT "3"
/* Bytes of a region's name: an int. */
enum { ID_BYTES = 12 };

typedef struct region {
  int id;
  void *data;
  size_t bytes;
  int is_chosen;
} region;

/* The regions of one checkpoint name, or those of all other names. */
typedef struct regions {
  char *name;
  region *all;
  size_t count;
} regions;

/* A checkpoint name, and its space. */
typedef struct checkpoint {
  char *name, *node; /* the folder in `scratch` that has the level and the routed files */
  mainstay_session *session;
  /* The version that the session has chosen for a restart; -1: none, or the program has started a checkpoint since. */
  int restored;
  int has_saved, is_cleaned;
} checkpoint;

enum phase { IDLE, SAVING, RESTORING };

typedef struct veloc_state {
  int is_open;
  MPI_Comm comm; /* MPI_COMM_NULL: this process alone */
  int rank, ranks;
  unsigned id;
  stand_in_settings settings;
  char *scratch, *persistent; /* absolute paths; NULL: no persistent one */
  regions *regions;           /* the first: those without a checkpoint name */
  size_t regions_count;
  checkpoint *checkpoints;
  size_t checkpoints_count;
  stand_in_settings missed; /* names with a space that VELOC_Restart_test could not open */
  enum phase phase;
  size_t current; /* index in `checkpoints` */
  int version;
  char *file; /* the file of VELOC_Route_file */
} veloc_state;

extern veloc_state veloc;

/* Prints the reason for a failure of a call. */
int fail(const char *call, const char *why);
/* The same, with the message of Mainstay's last error. */
int failed(const char *call);
/* Prints the reason for a failure of a call and frees it. NULL: the call succeeded. */
int result(const char *call, char *why);
/* Whether VeloC is not initialized. Prints a line if so. */
int is_closed(const char *call);

/* A setting, from the environment or the file; NULL: none. */
const char *setting(const char *name);
/* Whether a setting is negative. */
int is_off(const char *name);
/* Reads the file at `path`, unless `path` is "", and checks the settings. */
int read_settings(const char *call, const char *path);

/* Whether `scratch` has a level before the space. */
int has_level(void);

/* The regions that a checkpoint of this name saves. */
regions *regions_of(const char *name);
region *find_region(const regions *of, int id);
/* Chooses the regions of a list, or all, or all others. */
void choose(regions *of, int mode, const int *ids, int count);

/* Enters a phase of this name and version. On failure prints the reason and returns NULL. Collective on the first use
 * of a name. */
checkpoint *enter(const char *call, const char *name, int version, enum phase phase);
/* Leaves the phase, and removes the routed file. */
void leave(void);

#endif
