/* FTI's functions, which save with Mainstay. Licence: MIT OR Apache-2.0.
 *
 * Names and arguments are those of FTI, so that a program of FTI can be linked to this library unchanged. Functions
 * return FTI_SCES, or FTI_NSCS (FTI_NREC if they recover), unless they say otherwise; a failure prints its reason on
 * standard error. All ranks of FTI_COMM_WORLD call FTI_Init, FTI_Finalize, and the functions that save and recover
 * together. The page "From FTI" of Mainstay's guide has the settings. */
#ifndef MAINSTAY_FTI_H
#define MAINSTAY_FTI_H

/* FTI's header has these, and programs may count on that. */
#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a name, with the zero at its end. */
#define FTI_BUFS 256

/* Results. */
#define FTI_DONE 1  /* a checkpoint was taken */
#define FTI_SCES 0  /* success */
#define FTI_NSCS -1 /* failure */
#define FTI_NREC -2 /* the recovery failed */
#define FTI_HEAD 2  /* a rank of FTI's own; Mainstay has none */
#define FTI_ENDW 995

/* States of FTI_SendFile, which Mainstay does not have: always FTI_SI_NINI. */
#define FTI_SI_FAIL 0x4
#define FTI_SI_SCES 0x3
#define FTI_SI_ACTV 0x2
#define FTI_SI_PEND 0x1
#define FTI_SI_NINI 0x0

#define FTI_WORD 16

/* A macro of FTI that programs use, too. */
#define talloc(type, num) ((type *)malloc(sizeof(type) * ((size_t)(num))))

/* The number of a data type. */
typedef int fti_id_t;
#define FTIT_type fti_id_t

typedef int64_t FTIT_hsize_t;

/* Levels of a checkpoint. Mainstay sends each checkpoint to all of its levels in the background. FTI_L4_H5_SINGLE saves
 * the subsets of global datasets alone, for any number of ranks. */
typedef enum {
  FTI_L1 = 1,
  FTI_L2,
  FTI_L3,
  FTI_L4,
  FTI_L1_DCP,
  FTI_L2_DCP,
  FTI_L3_DCP,
  FTI_L4_DCP,
  FTI_L4_H5_SINGLE,
  FTI_MIN_LEVEL_ID = FTI_L1,
  FTI_MAX_LEVEL_ID = FTI_L4_H5_SINGLE
} FTIT_level;

typedef struct FTIT_dimension {
  int ndims;
  int64_t count[32];
} FTIT_dimension;

typedef struct FTIT_attribute {
  FTIT_dimension dim;
  char name[FTI_BUFS];
} FTIT_attribute;

typedef enum { FTI_ATTRIBUTE_NAME = 1 << 0, FTI_ATTRIBUTE_DIM = 1 << 1 } FTIT_attributeFlag;

/* A group of datasets. Mainstay only keeps its name. */
typedef struct FTIT_H5Group {
  int id;
  char name[FTI_BUFS];
  char fullName[FTI_BUFS];
} FTIT_H5Group;

/* The result of FTI_GetConfig, which Mainstay does not fill. */
typedef struct FTIT_allConfiguration {
  int is_empty;
} FTIT_allConfiguration;

#ifdef __cplusplus
extern "C" {
#endif
/* The library hides all other functions. */
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The ranks of the program: those given to FTI_Init. */
extern MPI_Comm FTI_COMM_WORLD;

extern fti_id_t FTI_CHAR, FTI_SHRT, FTI_INTG, FTI_LONG, FTI_UCHR, FTI_USHT, FTI_UINT, FTI_ULNG, FTI_SFLT, FTI_DBLE,
    FTI_LDBE;

/* Initializes the library. FTI_NREC: there are checkpoints, but none can be read. */
int FTI_Init(const char *configFile, MPI_Comm globalComm);
/* 0: there is nothing to recover from; 1: there is; 3: there is a checkpoint of level FTI_L4_H5_SINGLE. */
int FTI_Status(void);
/* Closes the library. Removes the checkpoints, as the job has done its work, unless keep_last_ckpt or keep_l4_ckpt is
 * set. */
int FTI_Finalize(void);

int FTI_InitType(fti_id_t *type, int size);
/* A type of `size` bytes; -1: a failure. Its fields do not matter to Mainstay. */
fti_id_t FTI_InitCompositeType(const char *name, size_t size, FTIT_H5Group *h5g);
int FTI_AddScalarField(fti_id_t id, const char *name, fti_id_t fid, int64_t offset);
int FTI_AddVectorField(fti_id_t id, const char *name, fti_id_t tid, int64_t offset, int ndims, int64_t *dim_sizes);
int FTI_InitGroup(FTIT_H5Group *h5group, const char *name, FTIT_H5Group *parent);
int FTI_RenameGroup(FTIT_H5Group *h5group, const char *name);

/* Names `count` elements at `ptr`. A later call for the same `id` replaces the variable. */
int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid);
int FTI_SetAttribute(int id, FTIT_attribute attribute, FTIT_attributeFlag flag);
/* Gives a variable the shape of `rank` lengths. */
int FTI_DefineDataset(int id, int rank, int64_t *dimLength, const char *name, FTIT_H5Group *h5group);
/* The id of a name, which gets the next free one at first; -1: a failure, or no variable has the name. */
int FTI_setIDFromString(const char *name);
int FTI_getIDFromString(const char *name);

/* A dataset of all ranks, and subsets of it that are variables. Lengths and offsets have `rank` numbers of elements. */
int FTI_DefineGlobalDataset(int id, int rank, FTIT_hsize_t *dimLength, const char *name, FTIT_H5Group *h5group,
                            fti_id_t tid);
int FTI_AddSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did);
int FTI_UpdateGlobalDataset(int id, int rank, FTIT_hsize_t *dimLength);
int FTI_UpdateSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did);
/* Gives the dataset the lengths that were saved. */
int FTI_RecoverDatasetDimension(int did);
/* The lengths of the dataset, valid until they change; NULL: a failure. */
FTIT_hsize_t *FTI_GetDatasetSpan(int did, int rank);
int FTI_GetDatasetRank(int did);

/* Bytes that were saved of a variable; 0: none. */
int64_t FTI_GetStoredSize(int id);
/* In a recovery: gives memory of malloc the size that was saved of its variable. */
void *FTI_Realloc(int id, void *ptr);

/* Saves all variables as the checkpoint `id`. Returns FTI_DONE after a copy. */
int FTI_Checkpoint(int id, int level);
/* The first call recovers if there is something to recover from. Later ones take a checkpoint (FTI_DONE) if the
 * shortest of the intervals ckpt_l1 to ckpt_l4 is over. */
int FTI_Snapshot(void);
/* Fills all variables from the newest checkpoint that can be read whole. Local in a recovery; collective after a
 * checkpoint of this run. */
int FTI_Recover(void);
int FTI_RecoverVarInit(void);
int FTI_RecoverVar(int id);
int FTI_RecoverVarFinalize(void);
/* A checkpoint of variables that the program adds one by one; each is copied when it is added. */
int FTI_InitICP(int id, int level, bool activate);
int FTI_AddVarICP(int varID);
int FTI_FinalizeICP(void);

/* Functions without a counterpart: they fail, and print an alternative. */
int FTI_SendFile(const char *lpath, const char *rpath);
int FTI_GetStageDir(char *stageDir, int maxLen);
int FTI_GetStageStatus(int ID);
int FTI_BitFlip(int datasetID);
FTIT_allConfiguration FTI_GetConfig(const char *configFile, MPI_Comm globalComm);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
