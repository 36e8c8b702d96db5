/* Regrouping: makes the communicators and the table of the present workers, and ends the job.
 * Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay_mpi_recovery.h. */
#ifndef MAINSTAY_MPI_REGROUP_H
#define MAINSTAY_MPI_REGROUP_H

#include "mainstay_mpi_world.h"

/* Frees all ranks from the calls in which they wait, and forgets the adopted communicators: the program frees these. */
MAINSTAY_SHIM void mainstay_mpi_interrupt(mainstay_mpi_job *job, MPI_Comm own) {
  mainstay_mpi_revoke(own);
  mainstay_mpi_revoke(job->program);
  while (job->adopted_count) {
    MPI_Comm comm = job->adopted[job->adopted_count - 1];
    mainstay_mpi_revoke(comm);
    MPI_Comm_delete_attr(comm, job->key);
  }
}

MAINSTAY_SHIM int mainstay_mpi_regroup(void *context, uint32_t divided, void *next);

static const char mainstay_mpi_dividing[] = "making a communicator of the ranks that work";

/* A communicator of the workers, in the order of their places, without spares. All ranks get it, or none. */
MAINSTAY_SHIM int mainstay_mpi_workers(mainstay_mpi_job *job, MPI_Comm *made) {
  const int64_t place = job->processes[job->rank].place;
  /* Made from the world, and not from each other: see mainstay_mpi_leave_out. */
  mainstay_watch *watch = mainstay_process_watch(MAINSTAY_MPI_REGROUPING_S_MAX, mainstay_mpi_dividing);
  const int code = MPI_Comm_split(job->world, place < 0 ? MPI_UNDEFINED : 0, place < 0 ? 0 : (int)place, made);
  int agreed;
  mainstay_process_unwatch(watch);
  agreed = mainstay_mpi_agreed(job, code);
  if (code != MPI_SUCCESS) *made = MPI_COMM_NULL; /* MPI may have left any value there */
  if (agreed != MPI_SUCCESS) mainstay_mpi_free(made);
  return agreed;
}

/* Makes Mainstay's and the program's communicators, and the table, for the present workers of the world. */
MAINSTAY_SHIM int mainstay_mpi_begin(mainstay_mpi_job *job, MPI_Comm *program, mainstay_group *group) {
  const mainstay_mpi_process mine = job->processes[job->rank];
  MPI_Comm own = MPI_COMM_NULL;
  int code = mainstay_mpi_workers(job, &own), rank, ranks_here = 0;
  *program = MPI_COMM_NULL;
  if (code != MPI_SUCCESS) return code;
  if ((code = mainstay_mpi_workers(job, program)) != MPI_SUCCESS || mine.place < 0) {
    mainstay_mpi_free(&own);
    return code;
  }
  for (rank = 0; rank < job->size; rank++)
    ranks_here += job->processes[rank].place >= 0 && job->processes[rank].process.host == mine.process.host;
  code = mainstay_mpi_table_of(own, ranks_here, group);
  if (code) {
    mainstay_mpi_free(program);
    mainstay_mpi_free(&own);
    return code;
  }
  ((mainstay_mpi_context *)group->context)->job = job;
  job->references++;
  group->shrink = job->survives ? mainstay_mpi_regroup : NULL;
  if (job->survives) MPI_Comm_set_errhandler(*program, job->noting);
  return 0;
}

/* Makes the next table, after a failure (`is_broken`) or at the start, and starts again if ranks fail meanwhile. */
MAINSTAY_SHIM int mainstay_mpi_form(mainstay_mpi_job *job, int is_broken, mainstay_group *group) {
  MPI_Comm program = MPI_COMM_NULL;
  int code = MPI_ERR_OTHER, attempt, starts = 0; /* starts: failed ones */
  const int attempts = job->size + 3;
  (void)starts;
  memset(group, 0, sizeof *group);
  job->why = NULL;
  for (attempt = 0; attempt < attempts; attempt++) {
#ifdef MAINSTAY_MPI_SURVIVES
    if (is_broken) {
      int lost = 0, empty;
      job->regroupings++;
      code = mainstay_mpi_leave_out(job, &lost);
      if (code != MPI_SUCCESS) break;
      mainstay_mpi_end_late(job);
      if (starts == MAINSTAY_MPI_STARTS_MAX) {
        code = MPI_ERR_SPAWN;
        job->why = "no process could be started in place of a failed one, and no spare is left; the started process "
                   "may have ended before it opened its session";
        break;
      }
      code = mainstay_mpi_fill(job, &empty);
      if (code != MPI_SUCCESS) break;
      if (empty && (code = mainstay_mpi_spawn(job, empty)) != MPI_SUCCESS) {
        starts++;
        continue;
      }
      starts = 0;
    }
#endif
    code = mainstay_mpi_begin(job, &program, group);
    if (code == MPI_SUCCESS) {
      mainstay_mpi_free(&job->program);
      job->program = program;
      job->seen = mainstay_mpi_here.noted;
      return 0;
    }
    if (!job->survives || code == MPI_ERR_NO_MEM) break;
    is_broken = 1;
  }
  (void)is_broken;
  return mainstay_mpi_class(code);
}

/* The next table, made by all surviving ranks; ranks that want to end get none. */
MAINSTAY_SHIM int mainstay_mpi_again(mainstay_mpi_job *job, uint32_t divided, mainstay_group *group) {
  job->why = NULL;
  if (mainstay_mpi_vote(job, MAINSTAY_MPI_GOES_ON, divided, 500e-6, -1) != MAINSTAY_MPI_GOES_ON) {
    job->why = "other ranks have closed their session, and take no part in the recovery";
    return MPI_ERR_OTHER;
  }
  return mainstay_mpi_form(job, 1, group);
}

MAINSTAY_SHIM int mainstay_mpi_regroup(void *context, uint32_t divided, void *next) {
  mainstay_mpi_context *mine = (mainstay_mpi_context *)context;
  mainstay_group group;
  int code;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  mainstay_mpi_interrupt(mine->job, mine->comm);
  code = mainstay_mpi_again(mine->job, divided, &group);
  if (code == 0) memcpy(next, &group, sizeof group);
  return code;
}

/* Whether mpiexec was started with a heartbeat (--mca mpi_ft_detector true). On a busy machine MPI_Finalize of Open
 * MPI 5.0.11 then waits forever for the end of the heartbeat, even if no rank has failed. */
MAINSTAY_SHIM int mainstay_mpi_has_heartbeat(void) {
  const char *asked = getenv("OMPI_MCA_mpi_ft_detector");
  return asked && *asked && !strchr("0fFnNdD", *asked);
}

/* Releases the job. The last release in this process announces the end of the job to the other ranks, and to the
 * spares. */
MAINSTAY_SHIM void mainstay_mpi_leave(mainstay_mpi_job *job, int tells) {
  const double limit_s = 10; /* for ranks that neither end nor regroup */
  if (--job->references > 0) return;
  if (job->processes && tells) mainstay_mpi_end_late(job);
  if (!mainstay_mpi_is_over()) {
    while (job->adopted_count) MPI_Comm_delete_attr(job->adopted[job->adopted_count - 1], job->key);
    if (job->survives) {
      MPI_Errhandler_free(&job->noting);
      MPI_Comm_free_keyval(&job->key);
    }
    mainstay_mpi_free(&job->program);
    if (job->world != MPI_COMM_NULL) {
      if (tells &&
          mainstay_mpi_vote(job, MAINSTAY_MPI_ENDS, MAINSTAY_DIVIDED_UNKNOWN, 500e-6, limit_s) == MAINSTAY_MPI_NOT_YET)
        return;
      if (!job->regroupings && !job->has_lost && !mainstay_mpi_has_heartbeat()) {
        MPI_Comm_free(&job->world);
      } else {
        if (mainstay_mpi_here.has_ended) MPI_Comm_free(&mainstay_mpi_here.last);
        mainstay_mpi_here.has_ended = 1;
        mainstay_mpi_here.last = job->world;
        free(mainstay_mpi_here.last_processes);
        mainstay_mpi_here.last_processes = job->processes;
        job->processes = NULL;
      }
    }
  }
  free(job->adopted);
  free(job->processes);
  free(job);
}

/* Sleeps until the job needs this process, or ends. */
MAINSTAY_SHIM mainstay_status mainstay_mpi_wait(mainstay_mpi_job *job, mainstay_group *group) {
  const double nap_s = 10e-3;
  while (job->processes[job->rank].place < 0) {
    const int voted = mainstay_mpi_vote(job, MAINSTAY_MPI_EITHER, MAINSTAY_DIVIDED_UNKNOWN, nap_s, -1);
    if (voted == MAINSTAY_MPI_ENDS) return mainstay_adapter_error(MAINSTAY_NOT_NEEDED, NULL);
    if (voted != MAINSTAY_MPI_GOES_ON || !job->survives)
      return mainstay_adapter_error(MAINSTAY_GROUP_FAILED,
                                    "all workers have failed, or part of them have ended the job");
    if (mainstay_mpi_form(job, 1, group))
      return mainstay_adapter_error(MAINSTAY_GROUP_FAILED,
                                    job->why ? job->why : "the job could not go on after a failure");
  }
  return MAINSTAY_OK;
}

#endif /* MAINSTAY_MPI_REGROUP_H */
