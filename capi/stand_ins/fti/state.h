/* The state of the stand-in for FTI. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_FTI_STATE_H
#define MAINSTAY_FTI_STATE_H

#include "../stand_in.h"
#include "fti.h"

enum { FTI_DIMENSIONS_MAX = 32 };

typedef struct fti_type {
  size_t bytes;
  mainstay_type element;
} fti_type;

/* A protected variable, or a name that waits for its variable. */
typedef struct fti_variable {
  int id;
  char name[FTI_BUFS];
  void *data;
  int64_t count;
  fti_type type;
  int dimensions;
  uint64_t shape[FTI_DIMENSIONS_MAX];
  /* The subset that it is; -1: of no dataset. */
  int dataset, subset_rank;
  int64_t offset[FTI_DIMENSIONS_MAX], extent[FTI_DIMENSIONS_MAX];
  int is_protected, is_added; /* to the checkpoint of FTI_InitICP */
} fti_variable;

typedef struct fti_dataset {
  int id, rank;
  int64_t lengths[FTI_DIMENSIONS_MAX];
  fti_type type;
  /* The subsets of all ranks in the revision `saved_in`, read on first use. */
  struct fti_saved *saved;
  size_t saved_count;
  uint64_t saved_in;
} fti_dataset;

typedef struct fti_state {
  int is_open, rank, ranks;
  mainstay_session *session;
  stand_in_settings settings;
  char *space, *node;
  fti_variable *variables;
  size_t variables_count;
  fti_dataset *datasets;
  size_t datasets_count;
  /* As FTI_Status returns it. */
  int recovery;
  uint64_t chosen; /* the revision that the session has gone back to; 0: none */
  int is_of_subsets;
  /* A checkpoint of FTI_InitICP: whether it has begun, is to be taken, and is one of subsets. */
  int is_icp_open, is_active, is_icp_of_subsets;
  uint64_t snapshots;
  int next_id;
} fti_state;

extern fti_state fti;

int fail(const char *call, const char *why);
/* Prints the reason for a failure of a call and frees it. NULL: the call succeeded. */
int result(const char *call, char *why, int failure);
/* Whether FTI is not initialized. Prints a line if so. */
int is_closed(const char *call);
char *message(void);
/* Whether `is` holds on any rank. Collective. */
int on_any(int is);

/* Whether a setting of the configuration file, such as basic:head, is a positive number. */
int is_on(const char *name);
/* The shortest interval of FTI_Snapshot, in seconds; 0: none. FTI lets time pass faster by a setting. */
double interval_s(void);
/* Reads the configuration file, and prints a line for each setting that has no effect. */
char *read_settings(const char *path);

/* The variable or the dataset of this id; NULL: there is none. */
fti_variable *find_variable(int id);
fti_dataset *find_dataset(int id);
/* Reads the names of variables from the checkpoint. */
void recover_names(void);

/* Chooses the newest checkpoint that can be read whole. Returns 0 if there is none. Collective. */
int go_back(void);
/* Forgets the subsets that were read. */
void forget_saved(fti_dataset *of);
/* Writes a subset, with its place in the dataset, to the checkpoint that has begun. */
char *write_subset(const fti_variable *one);
/* Bytes of that. */
uint64_t bytes_of_subset(const fti_variable *one);
/* Lets this rank read the subsets of all ranks. Collective. */
char *bring_subsets(void);
/* Fills the subsets of all variables, or of the one of this id if it is not NULL. */
char *fill_subsets(const int *id);

#endif
