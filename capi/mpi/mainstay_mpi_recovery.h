/* Recovery of an MPI job while it runs. Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay_mpi.h. A job with recovery has a *world*: the workers, which are the ranks of the session, and
 * the spares, which sleep inside the opening. After a failure all surviving ranks *regroup*. They leave the calls in
 * which they wait, remove the dead from the world, and fill the empty places. Then they make Mainstay's and the
 * program's communicators anew. If a rank fails meanwhile, they start again.
 *
 * This header has the opening of a job, and the calls of programs. Four more have one duty each:
 *   mainstay_mpi_job.h      the types, and the data of the whole program
 *   mainstay_mpi_agree.h    agreements and votes of the world
 *   mainstay_mpi_world.h    removal of the dead, spares and started processes in their places
 *   mainstay_mpi_regroup.h  communicators and tables for the present workers, and the end of the job
 *
 * Invariants: All ranks agree whether a step is finished before any of them begins the next. No rank revokes a
 * communicator before all ranks have it, because Open MPI 5.0.11 crashes in a rank that learns of the revocation
 * while it makes the communicator. */
#ifndef MAINSTAY_MPI_RECOVERY_H
#define MAINSTAY_MPI_RECOVERY_H

#include "mainstay_mpi_regroup.h"

/* Whether this rank's settings ask for recovery. */
MAINSTAY_SHIM int mainstay_mpi_is_asked(const mainstay_options *options) {
  uint32_t recovery, spares;
  return mainstay_recovery_settings(options, &recovery, &spares) == MAINSTAY_OK && recovery != MAINSTAY_RECOVERY_OFF;
}

/* Makes the settings of all ranks those of this job. If they differ, or one cannot be read, it sets nothing, because
 * the opening reports that. Collective. */
MAINSTAY_SHIM int mainstay_mpi_settle(MPI_Comm comm, const mainstay_options *options, uint32_t *recovery,
                                      uint32_t *spares) {
  uint32_t told[5];
  int code;
  told[0] = (uint32_t)mainstay_recovery_settings(options, recovery, spares);
  if (told[0] != MAINSTAY_OK) *recovery = MAINSTAY_RECOVERY_OFF, *spares = 0;
  told[1] = *recovery, told[2] = ~*recovery, told[3] = *spares, told[4] = ~*spares;
  code = MPI_Allreduce(MPI_IN_PLACE, told, 5, MPI_UINT32_T, MPI_MAX, comm);
  if (told[0] != MAINSTAY_OK || told[1] != ~told[2] || told[3] != ~told[4]) *recovery = MAINSTAY_RECOVERY_OFF;
  if (*recovery == MAINSTAY_RECOVERY_OFF) *spares = 0;
  return code;
}

/* The future world: the surviving ranks of `comm`, with the common settings, and their identities. The last `spares`
 * ranks of `comm` are to wait. Ranks that fail meanwhile are left out, if the MPI supports it. Collective. */
MAINSTAY_SHIM int mainstay_mpi_meet(mainstay_mpi_job *job, MPI_Comm comm, const mainstay_options *options,
                                    uint32_t *spares) {
  int code, ranks = 0, rank = 0, attempt;
  const int asked = mainstay_mpi_is_asked(options);
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &rank);
  code = MPI_Comm_dup(comm, &job->world);
#ifdef MAINSTAY_MPI_SURVIVES
  if (mainstay_mpi_survives()) {
    int has_met = code == MPI_SUCCESS;
    /* A failed rank leaves the others waiting in the call: this frees them, if all are to go on. */
    if (code != MPI_SUCCESS && asked) mainstay_mpi_revoke(comm);
    if (MPIX_Comm_agree(comm, &has_met) != MPI_SUCCESS || !has_met) {
      if (code == MPI_SUCCESS) MPI_Comm_free(&job->world);
      job->world = MPI_COMM_NULL;
      if (!asked) return code == MPI_SUCCESS ? MPI_ERR_OTHER : code;
      code = mainstay_mpi_shrunk(comm, &job->world);
      if (code != MPI_SUCCESS) return code;
      MPI_Comm_set_errhandler(job->world, MPI_ERRORS_RETURN);
      mainstay_mpi_all(job, 1);
    }
  }
#endif
  for (attempt = 0; code == MPI_SUCCESS && attempt < ranks; attempt++) {
    code = mainstay_mpi_settle(job->world, options, &job->recovery, spares);
    MPI_Comm_size(job->world, &job->size);
    MPI_Comm_rank(job->world, &job->rank);
    if (code == MPI_SUCCESS && job->recovery != MAINSTAY_RECOVERY_OFF && *spares < (uint32_t)ranks) {
      job->workers = ranks - (int)*spares;
      free(job->processes);
      job->processes = (mainstay_mpi_process *)calloc((size_t)ranks, sizeof *job->processes);
      if (job->processes) {
        job->processes[job->rank].place = rank < job->workers ? rank : -1;
        code = mainstay_mpi_introduce(job);
      } else {
        code = MPI_ERR_NO_MEM;
      }
    }
    if (!mainstay_mpi_survives()) return code;
#ifdef MAINSTAY_MPI_SURVIVES
    code = mainstay_mpi_agreed(job, code);
    if (code == MPI_SUCCESS || code == MPI_ERR_NO_MEM || !asked) return code;
    code = mainstay_mpi_shrink_world(job);
#endif
  }
  (void)asked;
  return code;
}

/* The job of `comm`, the future world, which is duplicated; and the table, for a worker. Collective. */
MAINSTAY_SHIM int mainstay_mpi_start(mainstay_mpi_job *job, MPI_Comm comm, const mainstay_options *options,
                                     mainstay_group *group, char *refusal, size_t bytes) {
  uint32_t spares = 0;
  MPI_Errhandler theirs;
  int code, ranks = 0;
  MPI_Comm_size(comm, &ranks);
  mainstay_mpi_hush(comm, &theirs);
  code = mainstay_mpi_meet(job, comm, options, &spares);
  if (code == MPI_SUCCESS) {
    if (job->recovery != MAINSTAY_RECOVERY_OFF && mainstay_mpi_survives()) mainstay_mpi_prepare(job);
    if (job->recovery != MAINSTAY_RECOVERY_OFF && !job->survives && job->rank == 0 && !mainstay_mpi_here.has_remarked++)
      fputs("mainstay: recovery has no effect here: this MPI does not go on without ranks that have failed, which Open "
            "MPI "
            "does from version 5 on, started with `mpiexec --with-ft ulfm`; a job that loses ranks ends, and is to be "
            "started "
            "again, as `mainstay run` does\n",
            stderr);
    if (spares >= (uint32_t)ranks)
      snprintf(refusal, bytes,
               "spares: %u of %d ranks would wait, with none to work; start more ranks, or set fewer spares",
               (unsigned)spares, ranks);
  }
  if (code == MPI_SUCCESS && !refusal[0] && !job->survives && !spares) {
    /* The group takes the communicator; no other process needs a message. */
    MPI_Comm own = job->world;
    code = MPI_Comm_dup(own, &job->program);
    if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(job->program, theirs);
    if (code == MPI_SUCCESS) code = mainstay_mpi_table(own, group);
    if (code == MPI_SUCCESS) {
      job->world = MPI_COMM_NULL;
      ((mainstay_mpi_context *)group->context)->job = job;
      job->references++;
      group->shrink = NULL;
    }
  } else if (code == MPI_SUCCESS && !refusal[0]) {
    snprintf(job->mark, sizeof job->mark, "%s=%llu-%llu", MAINSTAY_MPI_MARK,
             (unsigned long long)job->processes[0].process.pid, (unsigned long long)job->processes[0].process.start);
    code = mainstay_mpi_form(job, job->size < ranks, group);
    if (code == MPI_SUCCESS && !job->survives && job->program != MPI_COMM_NULL)
      MPI_Comm_set_errhandler(job->program, theirs);
  }
  mainstay_mpi_unhush(comm, &theirs);
  return code;
}

/* The table of a worker, and its job, which the caller must leave. In a spare it returns when the spare is needed, or
 * with the spare's own status. */
MAINSTAY_SHIM mainstay_status mainstay_mpi_enter(MPI_Comm comm, const mainstay_options *options,
                                                 mainstay_mpi_job **entered, mainstay_group *group) {
  mainstay_mpi_job *job = (mainstay_mpi_job *)calloc(1, sizeof *job);
  MPI_Comm parent = MPI_COMM_NULL;
  char refusal[160] = "";
  mainstay_status status = MAINSTAY_OK;
  int code;
  *entered = NULL;
  if (!job) return mainstay_adapter_error(MAINSTAY_IO, "no memory for a few hundred bytes");
  job->references = 1;
  job->world = job->program = MPI_COMM_NULL;
#ifdef MAINSTAY_MPI_SURVIVES
  /* Open MPI 5.0.11 writes over TCP to ranks that have just failed: to ranks on other nodes, and to processes that
   * were started for the job. Without this the system ends the writing process. */
  if (mainstay_mpi_survives() && mainstay_mpi_is_asked(options)) mainstay_process_outlive_connections();
  if (getenv(MAINSTAY_MPI_MARK) && !mainstay_mpi_here.has_joined++) MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    mainstay_mpi_prepare(job);
    snprintf(job->mark, sizeof job->mark, "%s=%.40s", MAINSTAY_MPI_MARK, getenv(MAINSTAY_MPI_MARK));
    job->launches = 1;
    code = mainstay_mpi_join(job, parent);
    /* The other ranks go on without this one. Any other way of ending could hinder them. */
    if (code != MPI_SUCCESS) raise(SIGKILL);
    job->regroupings = 1;
    code = mainstay_mpi_form(job, 0, group);
  } else
#endif
    code = mainstay_mpi_start(job, comm, options, group, refusal, sizeof refusal);
  (void)parent;
  if (refusal[0])
    status = mainstay_adapter_error(MAINSTAY_INVALID_ARGUMENT, refusal);
  else if (code == MPI_ERR_NO_MEM)
    status = mainstay_adapter_error(MAINSTAY_IO, "no memory for the table of processes");
  else if (code)
    status = mainstay_adapter_error(MAINSTAY_GROUP_FAILED,
                                    "MPI failed, or a rank did, before the space was opened; start the job again");
  else if (job->world != MPI_COMM_NULL)
    status = mainstay_mpi_wait(job, group);
  if (status == MAINSTAY_OK) {
    *entered = job;
  } else {
    if (refusal[0] || code) mainstay_mpi_free(&job->world);
    mainstay_mpi_leave(job, 0);
  }
  return status;
}

MAINSTAY_SHIM mainstay_mpi_job *mainstay_mpi_job_of(mainstay_session *session) {
  mainstay_mpi_context *context = (mainstay_mpi_context *)mainstay_group_context(session);
  return context ? context->job : NULL;
}

/* The program's communicator: the ranks of the session by their numbers in it, without spares. After a recovery it is
 * a new one, and the old one is gone. Mainstay frees it with the session. With recovery, MPI returns errors in it,
 * and any error may mean a failed rank: see mainstay_mpi_has_failed. Without recovery, it handles errors like the
 * communicator that you gave to the opening. MPI_COMM_NULL: the session was not opened by mainstay_open_mpi, or its
 * recovery has failed. */
MAINSTAY_SHIM MPI_Comm mainstay_mpi_comm(mainstay_session *session) {
  mainstay_mpi_job *job = mainstay_mpi_job_of(session);
  return job ? job->program : MPI_COMM_NULL;
}

MAINSTAY_SHIM mainstay_status mainstay_mpi_adopt_in(mainstay_mpi_job *job, MPI_Comm comm) {
  MPI_Comm *more;
  if (!job || comm == MPI_COMM_NULL)
    return mainstay_adapter_error(MAINSTAY_INVALID_ARGUMENT, job ? "comm: MPI_COMM_NULL, which this call does not take"
                                                                 : "session: it was not opened by mainstay_open_mpi");
  if (!job->survives) return MAINSTAY_OK;
  more = (MPI_Comm *)realloc(job->adopted, (job->adopted_count + 1) * sizeof *more);
  if (!more) return mainstay_adapter_error(MAINSTAY_IO, "no memory for one communicator more");
  job->adopted = more;
  if (MPI_Comm_set_attr(comm, job->key, job) != MPI_SUCCESS ||
      MPI_Comm_set_errhandler(comm, job->noting) != MPI_SUCCESS)
    return mainstay_adapter_error(MAINSTAY_GROUP_FAILED, "MPI could not take note of the communicator");
  more[job->adopted_count++] = comm;
  return MAINSTAY_OK;
}

/* Adopts a communicator of the program's own, such as a Cartesian one or a part of the ranks. From then on MPI
 * returns its errors, and in a recovery every wait in it ends with an error. The communicator stays the program's:
 * free it yourself, also after a recovery, and then make it anew. Local. Without recovery it does nothing. */
MAINSTAY_SHIM mainstay_status mainstay_mpi_adopt(mainstay_session *session, MPI_Comm comm) {
  return mainstay_mpi_adopt_in(mainstay_mpi_job_of(session), comm);
}

/* Lets MPI learn of failures, which it does only inside its other calls, Open MPI in every eighth. A look is eight
 * calls if they take next to nothing. If ranks share cores, each call yields the core for a whole time slice. A look
 * is then one call, with at most eight calls a second, and at least eight if the program asks often enough. */
MAINSTAY_SHIM void mainstay_mpi_look(void) {
  const double share = 500, slice_s = 500e-6, apart_min_s = 0.005, apart_max_s = 0.125, now = MPI_Wtime();
  const double late_s = now - mainstay_mpi_here.looks_at_s;
  double took_s = 0, apart_s;
  int any, call;
  if (late_s < 0) return;
  for (call = 0; call < 8 && (took_s < slice_s || call * apart_max_s <= late_s); call++) {
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
    took_s = MPI_Wtime() - now;
  }
  apart_s = share * took_s;
  if (apart_s < apart_min_s) apart_s = apart_min_s;
  if (apart_s > apart_max_s) apart_s = apart_max_s;
  mainstay_mpi_here.looks_at_s = now + apart_s;
}

MAINSTAY_SHIM int mainstay_mpi_has_failed_in(const mainstay_mpi_job *job) {
  int has_failed = 0;
  if (!job || !job->survives || mainstay_mpi_is_over()) return 0;
#ifdef MAINSTAY_MPI_SURVIVES
  {
    MPI_Group dead;
    int count = 0;
    mainstay_mpi_look();
    if (MPIX_Comm_is_revoked(job->program, &has_failed) != MPI_SUCCESS) has_failed = 1;
    if (!has_failed && MPIX_Comm_get_failed(job->program, &dead) == MPI_SUCCESS) {
      MPI_Group_size(dead, &count);
      MPI_Group_free(&dead);
      has_failed = count > 0;
    }
  }
#endif
  return has_failed || job->seen != mainstay_mpi_here.noted;
}

/* Whether this rank knows of a rank that has failed since the opening or the last recovery. It knows if MPI has
 * returned an error in the program's own communicators, or has detected a failure, or if another rank recovers
 * already. The program then calls mainstay_recover. Local, and quick. */
MAINSTAY_SHIM int mainstay_mpi_has_failed(mainstay_session *session) {
  return mainstay_mpi_has_failed_in(mainstay_mpi_job_of(session));
}

#ifdef MAINSTAY_MPI_SURVIVES
/* Part of the library through which Open MPI talks to mpiexec; NULL if absent. */
extern int PMIx_Finalize(const void *info, size_t count) __attribute__((weak));

/* Ends processes of the last job on this machine that MPI counts as failed and that hang, such as an unneeded spare:
 * mpiexec would wait for them forever. */
MAINSTAY_SHIM void mainstay_mpi_end_failed(void) {
  MPI_Group dead, all;
  int count = 0, i, rank;
  if (!mainstay_mpi_here.last_processes || MPIX_Comm_get_failed(mainstay_mpi_here.last, &dead) != MPI_SUCCESS) return;
  if (MPI_Comm_group(mainstay_mpi_here.last, &all) == MPI_SUCCESS) {
    MPI_Group_size(dead, &count);
    for (i = 0; i < count; i++)
      if (MPI_Group_translate_ranks(dead, 1, &i, all, &rank) == MPI_SUCCESS && rank != MPI_UNDEFINED)
        mainstay_process_end(&mainstay_mpi_here.last_processes[rank].process);
    MPI_Group_free(&all);
  }
  MPI_Group_free(&dead);
}
#endif

/* Ends a program, in place of MPI_Finalize, after mainstay_close, on all processes, including unneeded spares.
 * `status` is the program's exit status, and is returned. After a recovery, and with a heartbeat, MPI_Finalize of
 * Open MPI 5 can hang or crash. In these cases this call ends the process, once all ranks have come as far. It first
 * writes the buffers of stdio, but calls no function registered with atexit. */
MAINSTAY_SHIM int mainstay_mpi_finalize(int status) {
#ifdef MAINSTAY_MPI_SURVIVES
  if (mainstay_mpi_here.has_ended && !mainstay_mpi_is_over()) {
    MPI_Request request;
    fflush(NULL);
    /* All agree on a variable that is 1 on each, and that outlives this call. */
    if (MPIX_Comm_iagree(mainstay_mpi_here.last, &mainstay_mpi_here.has_ended, &request) == MPI_SUCCESS)
      mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, 500e-6, 10);
    mainstay_mpi_end_failed();
    /* Without this, mpiexec counts the process as failed. */
    if (PMIx_Finalize) PMIx_Finalize(NULL, 0);
    _exit(status);
  }
#endif
  MPI_Finalize();
  return status;
}

#endif /* MAINSTAY_MPI_RECOVERY_H */
