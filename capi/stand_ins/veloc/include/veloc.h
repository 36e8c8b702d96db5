/* VeloC's functions, which save with Mainstay. Licence: MIT OR Apache-2.0.
 *
 * Names and arguments are those of VeloC, so that a program of VeloC can be linked to this library unchanged. Each
 * function returns VELOC_SUCCESS or VELOC_FAILURE unless it says otherwise; a failure prints its reason on standard
 * error. The page "From VeloC" of Mainstay's guide has the settings. */
#ifndef MAINSTAY_VELOC_H
#define MAINSTAY_VELOC_H

#include <mpi.h>
#include <stddef.h>
/* VeloC's header has it, and programs may count on that. */
#include <string.h>

#include "veloc/defs.h"

#ifdef __cplusplus
extern "C" {
#endif
/* The library hides all other functions. */
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* Initializes the library for the ranks of `comm`. Collective. If `cfg_file` is "", the settings come from the
 * variables VELOC_SCRATCH, VELOC_PERSISTENT, VELOC_MODE, … */
int VELOC_Init(MPI_Comm comm, const char *cfg_file);
/* Initializes the library for this process alone. `id` is its number among such processes. */
int VELOC_Init_single(unsigned int id, const char *cfg_file);
/* Waits for the last checkpoint, and closes the library. With `drain` 0 the result does not show a failure of that
 * checkpoint. Collective. */
int VELOC_Finalize(int drain);

/* Names `count` elements of `base_size` bytes at `ptr`. A later call for the same `id` replaces the region. If a
 * checkpoint name has regions of its own, its checkpoints save only these. */
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);
int VELOC_Mem_unprotect(int id);
int VELOC_Region_unprotect(int id, const char *name);
int VELOC_Mem_clear(void);
int VELOC_Region_clear(const char *name);

/* Between VELOC_Checkpoint_begin and _end: the file in `scratch` that this rank writes. Between VELOC_Restart_begin
 * and _end: the file that it reads. There is one for each rank, whatever the `original` name. `routed` has
 * room for VELOC_MAX_NAME bytes. */
int VELOC_Route_file(const char *original, char *routed);
/* Removes the data of `name` in `scratch` when the job ends. */
int VELOC_Cleanup(const char *name);

/* Starts a checkpoint. `name` has letters, digits, _ and . only. Collective, as VELOC_Checkpoint_end. */
int VELOC_Checkpoint_begin(const char *name, int version);
/* Chooses the regions that the checkpoint saves. VELOC_Checkpoint_end copies them. */
int VELOC_Checkpoint_selective(int mode, int *ids, int id_count);
int VELOC_Checkpoint_mem(void);
/* Saves the checkpoint on all ranks, or on none if `success` is 0 on any. Returns after a copy; with `mode = sync`
 * once the checkpoint is durable. */
int VELOC_Checkpoint_end(int success);
/* Waits until the last checkpoint is durable on all ranks, in `persistent` if there is one. Collective. */
int VELOC_Checkpoint_wait(void);
/* 1: this rank's part of the last checkpoint is durable; 0: not yet. */
int VELOC_Checkpoint_finished(void);
int VELOC_Checkpoint(const char *name, int version);

/* The newest version up to `version`, or of all if that is 0; VELOC_FAILURE: none. Before the first checkpoint of this
 * job, one that can be read whole on all ranks. Collective. */
int VELOC_Restart_test(const char *name, int version);
int VELOC_Restart_begin(const char *name, int version);
/* Fills the regions from the version of VELOC_Restart_begin. A region may be larger than the saved one. */
int VELOC_Recover_selective(int mode, int *ids, int id_count);
/* Bytes that were saved under `id`; 0: none; VELOC_FAILURE: more than an int can count. */
int VELOC_Recover_size(int id);
int VELOC_Recover_mem(void);
int VELOC_Restart_end(int success);
int VELOC_Restart(const char *name, int version);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
