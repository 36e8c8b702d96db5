/* The state of the stand-in for FTI. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_FTI_TYPES_H
#define MAINSTAY_FTI_TYPES_H

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
  int dataset;
  int64_t offset[FTI_DIMENSIONS_MAX], extent[FTI_DIMENSIONS_MAX];
  int is_protected;
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
  char *local, *global;
  fti_variable *variables;
  size_t variables_count;
  fti_dataset *datasets;
  size_t datasets_count;
  /* As FTI_Status returns it. */
  int recovery;
  uint64_t chosen; /* the revision that the session has gone back to; 0: none */
  int is_of_subsets;
  /* A checkpoint of FTI_InitICP: whether it has begun, is to be taken, and is one of subsets. */
  int has_begun, is_active, begun_of_subsets;
  uint64_t snapshots;
  int next_id;
} fti_state;

extern fti_state mainstay_fti;

int mainstay_fti_fail(const char *call, const char *why);
/* Takes over the reason; NULL: there is none. */
int mainstay_fti_result(const char *call, char *why, int failure);
/* Whether FTI is not initialized; says so. */
int mainstay_fti_is_closed(const char *call);
fti_variable *mainstay_fti_variable(int id);
fti_dataset *mainstay_fti_dataset(int id);
char *mainstay_fti_message(void);
/* Whether any rank has a reason. Collective. */
int mainstay_fti_any(const char *why);

/* Goes back to the newest checkpoint that can be read whole. Returns 0 if there is none. Collective. */
int mainstay_fti_go_back(void);
/* The name of the stream of a subset. */
char *mainstay_fti_stream(int dataset, int variable);
/* Forgets the subsets that were read. */
void mainstay_fti_forget_saved(fti_dataset *of);
/* Writes a subset, with its place in the dataset, to the checkpoint that has begun. */
char *mainstay_fti_write_subset(const fti_variable *one);
/* Bytes of that. */
uint64_t mainstay_fti_subset_bytes(const fti_variable *one);
/* Lets this rank read the subsets of all ranks. Collective. */
char *mainstay_fti_bring_subsets(void);
/* Fills the subsets of all variables, or of the one of this id if it is not NULL. */
char *mainstay_fti_fill_subsets(const int *id);

#endif
