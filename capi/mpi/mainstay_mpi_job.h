/* An MPI job with recovery, and the data of the whole program. Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay_mpi_recovery.h. */
#ifndef MAINSTAY_MPI_JOB_H
#define MAINSTAY_MPI_JOB_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>

/* Votes of a process. All of the world vote, and their common bits decide. Two more bits say that a process knows of
 * no state, or of no state that is divided into boxes. */
enum {
  MAINSTAY_MPI_ENDS = 1,
  MAINSTAY_MPI_GOES_ON = 2,
  MAINSTAY_MPI_EITHER = 3,
  MAINSTAY_MPI_NO_STATE = 4,
  MAINSTAY_MPI_NO_BOXES = 8
};

/* A process of the world. */
typedef struct mainstay_mpi_process {
  int64_t place; /* the worker's number; below 0: a spare */
  mainstay_process process;
} mainstay_mpi_process;

/* Time limit for a joint operation of the world once all of it has come. */
enum { MAINSTAY_MPI_REGROUPING_S_MAX = 60 };

/* The variable that marks a process as started to take a place in a job, and names the place. */
#define MAINSTAY_MPI_MARK "MAINSTAY_RUN_REPLACES"

struct mainstay_mpi_job {
  int references;                    /* tables, and an opening in progress */
  uint32_t recovery, divided;        /* divided: as of the last vote */
  int survives, workers, size, rank; /* size and rank: those of the world */
  int has_lost;                      /* ranks have failed since, as far as this rank knows */
  MPI_Comm world, program;           /* program: the program's, without spares */
  int agreements;                    /* that the world has begun */
  mainstay_mpi_process *processes;   /* by rank of the world */
  MPI_Comm *adopted;                 /* communicators of the program */
  size_t adopted_count;
  MPI_Errhandler noting;
  int key;       /* of the attribute of adopted communicators */
  unsigned seen; /* errors that the program got before the last regrouping */
  int regroupings;
  int launches;    /* number of times that processes were started */
  int vote;        /* lent to MPI until all have voted, if no rank survives another */
  char mark[64];   /* a variable of the started processes */
  const char *why; /* of the last regrouping that failed; NULL: MPI knows */
};

/* The reason for which the last regrouping failed, if MPI does not know it. */
MAINSTAY_SHIM const char *mainstay_mpi_why(const mainstay_mpi_job *job) { return job ? job->why : NULL; }

/* Data of the whole program, whichever of its files include this. */
typedef struct mainstay_mpi_program {
  unsigned noted;   /* errors of MPI in the program's own calls */
  int has_ended;    /* a job is over after which MPI_Finalize may not return, and `last` was its world */
  int has_joined;   /* a process that was started for the job has taken its place */
  int has_remarked; /* the user has been told that `recovery` has no effect with this MPI */
  MPI_Comm last;
  mainstay_mpi_process *last_processes; /* of `last`, by their ranks in it; NULL: unknown */
  double looks_at_s;                    /* when MPI next gets time to learn of failures */
  double patience_s; /* how long a rank waits before it asks whether it is heard, and for the answer; 0: the default */
} mainstay_mpi_program;
__attribute__((weak)) mainstay_mpi_program mainstay_mpi_here;

MAINSTAY_SHIM void mainstay_mpi_note(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  mainstay_mpi_here.noted++;
}

/* Called when the program frees an adopted communicator. */
MAINSTAY_SHIM int mainstay_mpi_abandon(MPI_Comm comm, int key, void *value, void *extra) {
  mainstay_mpi_job *job = (mainstay_mpi_job *)value;
  size_t i;
  (void)key, (void)extra;
  for (i = 0; i < job->adopted_count; i++)
    if (job->adopted[i] == comm) {
      job->adopted[i] = job->adopted[--job->adopted_count];
      break;
    }
  return MPI_SUCCESS;
}

/* The job goes on without ranks that fail. */
MAINSTAY_SHIM void mainstay_mpi_prepare(mainstay_mpi_job *job) {
  job->survives = 1;
  mainstay_process_command(); /* before the program changes its arguments, as some do while they read them */
  MPI_Comm_create_errhandler(mainstay_mpi_note, &job->noting);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mainstay_mpi_abandon, &job->key, NULL);
}

MAINSTAY_SHIM void mainstay_mpi_revoke(MPI_Comm comm) {
#ifdef MAINSTAY_MPI_SURVIVES
  if (comm != MPI_COMM_NULL) MPIX_Comm_revoke(comm);
#else
  (void)comm;
#endif
}

MAINSTAY_SHIM void mainstay_mpi_free(MPI_Comm *comm) {
  if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

/* MPI returns errors in `comm` until `theirs` handles them again. */
MAINSTAY_SHIM void mainstay_mpi_hush(MPI_Comm comm, MPI_Errhandler *theirs) {
  MPI_Comm_get_errhandler(comm, theirs);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

MAINSTAY_SHIM void mainstay_mpi_unhush(MPI_Comm comm, MPI_Errhandler *theirs) {
  MPI_Comm_set_errhandler(comm, *theirs);
  MPI_Errhandler_free(theirs);
}

#endif /* MAINSTAY_MPI_JOB_H */
