/* Recovery of an MPI job while it runs. Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay_mpi.h. A job with recovery has a *world*: the workers, which are the ranks of the session, and
 * the spares, which sleep inside the opening. After a failure all surviving ranks *regroup*. They leave the calls in
 * which they wait, remove the dead from the world, and fill the empty places. Then they make Mainstay's and the
 * program's communicators anew. If a rank fails meanwhile, they start again.
 *
 * Invariants: All ranks agree whether a step is finished before any of them begins the next. No rank revokes a
 * communicator before all ranks have it, because Open MPI 5.0.11 crashes in a rank that learns of the revocation
 * while it makes the communicator. */
#ifndef MAINSTAY_MPI_RECOVERY_H
#define MAINSTAY_MPI_RECOVERY_H

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

#ifdef MAINSTAY_MPI_SURVIVES
/* Sends a message without waiting; `data` and the request belong to MPI from then on. The request is not freed: Open
 * MPI 5.0.11 ends a process whose send fails after that, for instance a first send over TCP to a dead rank. */
MAINSTAY_SHIM void mainstay_mpi_post(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  MPI_Request request;
  MPI_Isend(data, count, type, to, tag, comm, &request);
}

/* Sends the outcome of an agreement in which ranks were lost to all others: see mainstay_mpi_hears. */
MAINSTAY_SHIM void mainstay_mpi_tell(MPI_Comm world, int number, const int *outcome) {
  int size = 0, mine = 0, rank;
  MPI_Comm_size(world, &size);
  MPI_Comm_rank(world, &mine);
  for (rank = 0; rank < size; rank++)
    if (rank != mine) mainstay_mpi_post(outcome, 1, MPI_INT, rank, number, world);
}

/* Whether another rank has sent the outcome of an agreement. In Open MPI 5.0.11 a rank can wait forever for an
 * agreement that the others have finished, if the rank that was to pass it on has failed. */
MAINSTAY_SHIM int mainstay_mpi_hears(MPI_Comm world, int number, int *outcome) {
  int size = 0, rank, is_told;
  MPI_Comm_size(world, &size);
  for (rank = 0; rank < size; rank++)
    if (MPI_Iprobe(rank, number, world, &is_told, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_told &&
        MPI_Recv(outcome, 1, MPI_INT, rank, number, world, MPI_STATUS_IGNORE) == MPI_SUCCESS)
      return 1;
  return 0;
}

/* Deaf ranks. In Open MPI 5.0.11, suppose a rank is killed at the moment at which it returns a fragment of shared
 * memory to another rank. That other rank is then deaf: it receives nothing that is sent the same way, agreements
 * included, and all wait forever. So ranks that wait for long ask each other, by a message that is sent this way. A
 * rank that asks, and does not answer, is deaf. */
enum {
  MAINSTAY_MPI_ASKS = 0x10000,
  MAINSTAY_MPI_ANSWERS = 0x20000, /* added to the number of the agreement: the tags */
  MAINSTAY_MPI_QUESTION = 2048    /* bytes: more than Open MPI sends in any other way */
};

typedef struct mainstay_mpi_ears {
  double asked;      /* when this rank has asked all others; 0: not yet */
  double *came;      /* by rank: when its question came; 0: it did not */
  char *is_answered; /* by rank: it has answered */
  int has_told;      /* has named the ranks that have not come */
} mainstay_mpi_ears;

/* Ends a deaf process, if it is on this machine, and prints a line. */
MAINSTAY_SHIM void mainstay_mpi_end_deaf(const mainstay_mpi_job *job, int rank) {
  if (job->processes[rank].process.host != job->processes[job->rank].process.host) return;
  fprintf(
      stderr,
      "mainstay: process %llu hears no other rank any more, as can happen in Open MPI when one is killed; it is ended, "
      "and counts as failed\n",
      (unsigned long long)job->processes[rank].process.pid);
  mainstay_process_end(&job->processes[rank].process);
}

/* Prints the ranks that the others wait for, once, on the lowest waiting rank. They may compute for long, or be deaf
 * inside a call of the program's own; this rank cannot tell the difference. */
MAINSTAY_SHIM void mainstay_mpi_tell_missing(const mainstay_mpi_job *job, const mainstay_mpi_ears *ears,
                                             double waited_s) {
  int rank, is_told;
  for (rank = 0; rank < job->rank; rank++)
    if (ears->came[rank] > 0 && job->processes[rank].place >= 0) return;
  for (rank = 0; rank < job->size; rank++)
    if (rank != job->rank && ears->came[rank] <= 0 && !ears->is_answered[rank] &&
        MPI_Iprobe(rank, 0, job->world, &is_told, MPI_STATUS_IGNORE) == MPI_SUCCESS)
      fprintf(stderr,
              "mainstay: for %.0f s the others have waited for process %llu to take part in a recovery; if it does not "
              "compute for so long, end it (SIGKILL), and the others go on without it\n",
              waited_s, (unsigned long long)job->processes[rank].process.pid);
}

/* Answers questions, asks, and ends ranks that do not answer. Never waits. */
MAINSTAY_SHIM void mainstay_mpi_listen(mainstay_mpi_job *job, int number, double since, mainstay_mpi_ears *ears) {
  static const char question[MAINSTAY_MPI_QUESTION] = {0};
  const double now = MPI_Wtime(), patience_s = mainstay_mpi_here.patience_s > 0 ? mainstay_mpi_here.patience_s : 15;
  char heard[MAINSTAY_MPI_QUESTION];
  int size = 0, rank, is_told;
  MPI_Comm_size(job->world, &size);
  if (!job->processes || size != job->size) return; /* the processes are unknown now */
  if (!ears->came) ears->came = (double *)calloc((size_t)size, sizeof *ears->came);
  if (!ears->is_answered) ears->is_answered = (char *)calloc((size_t)size, 1);
  if (!ears->came || !ears->is_answered) return;
  for (rank = 0; rank < size; rank++) {
    if (rank == job->rank) continue;
    if (MPI_Iprobe(rank, number | MAINSTAY_MPI_ASKS, job->world, &is_told, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
        is_told &&
        MPI_Recv(heard, sizeof heard, MPI_CHAR, rank, number | MAINSTAY_MPI_ASKS, job->world, MPI_STATUS_IGNORE) ==
            MPI_SUCCESS) {
      ears->came[rank] = now;
      mainstay_mpi_post(question, 1, MPI_CHAR, rank, number | MAINSTAY_MPI_ANSWERS, job->world);
    }
    if (MPI_Iprobe(rank, number | MAINSTAY_MPI_ANSWERS, job->world, &is_told, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
        is_told &&
        MPI_Recv(heard, 1, MPI_CHAR, rank, number | MAINSTAY_MPI_ANSWERS, job->world, MPI_STATUS_IGNORE) == MPI_SUCCESS)
      ears->is_answered[rank] = 1;
    if (ears->asked > 0 && now - ears->asked > patience_s && ears->came[rank] > 0 &&
        now - ears->came[rank] > patience_s && !ears->is_answered[rank]) {
      mainstay_mpi_end_deaf(job, rank);
      ears->is_answered[rank] = 1;
    }
  }
  if (now - since > 4 * patience_s && !ears->has_told && job->processes[job->rank].place >= 0) {
    ears->has_told = 1;
    mainstay_mpi_tell_missing(job, ears, now - since);
  }
  if (ears->asked > 0 || now - since < patience_s) return;
  ears->asked = now;
  for (rank = 0; rank < size; rank++)
    if (rank != job->rank)
      mainstay_mpi_post(question, sizeof question, MPI_CHAR, rank, number | MAINSTAY_MPI_ASKS, job->world);
}

/* Combines `flag` on all live ranks of the world, bit by bit: it becomes the bits that all have in common. An error,
 * on all ranks, means that ranks are lost, and `flag` counts. MAINSTAY_MPI_NOT_YET: some have not come within
 * `limit_s`. */
MAINSTAY_SHIM int mainstay_mpi_agree(mainstay_mpi_job *job, int *flag, double pause_s_max, double limit_s) {
  const double listen_s = 0.5, since = MPI_Wtime();
  const int number = job->agreements++ & 0x7fff; /* a tag, which MPI limits to this many */
  int *lent = (int *)malloc(sizeof *lent), code, is_over = 0;
  mainstay_mpi_ears ears = {0, NULL, NULL, 0};
  MPI_Request request;
  if (lent) *lent = *flag;
  *flag = 0;
  code = lent ? MPIX_Comm_iagree(job->world, lent, &request) : MPI_ERR_NO_MEM;
  if (code != MPI_SUCCESS) return code;
  for (;;) {
    const double left_s = limit_s - (MPI_Wtime() - since);
    const int is_last = limit_s >= 0 && left_s < listen_s;
    code = mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, pause_s_max,
                                  !is_last     ? listen_s
                                  : left_s > 0 ? left_s
                                               : 0);
    is_over = code != MAINSTAY_MPI_NOT_YET;
    if (is_over) break;
    if (mainstay_mpi_hears(job->world, number, flag)) {
      code = MPI_ERR_OTHER;
      break;
    }
    if (is_last) break;
    mainstay_mpi_listen(job, number, since, &ears);
  }
  free(ears.came);
  free(ears.is_answered);
  if (!is_over) return code; /* the lent memory stays MPI's */
  *flag = *lent;
  if (code == MPI_SUCCESS)
    free(lent);
  else
    mainstay_mpi_tell(job->world, number, lent); /* which lends the memory again */
  return code;
}
#endif

/* Whether `is_so` holds on all of the world, none of which has failed. */
MAINSTAY_SHIM int mainstay_mpi_all(mainstay_mpi_job *job, int is_so) {
#ifdef MAINSTAY_MPI_SURVIVES
  if (mainstay_mpi_survives()) return mainstay_mpi_agree(job, &is_so, 500e-6, -1) == MPI_SUCCESS && is_so;
#endif
  return MPI_Allreduce(MPI_IN_PLACE, &is_so, 1, MPI_INT, MPI_LAND, job->world) == MPI_SUCCESS && is_so;
}

/* The common vote of all live ranks, whenever they come. MAINSTAY_MPI_GOES_ON, MAINSTAY_MPI_ENDS, MAINSTAY_MPI_EITHER
 * if only spares are left, 0 if they disagree, and MAINSTAY_MPI_NOT_YET if some have not come within `limit_s`. */
MAINSTAY_SHIM int mainstay_mpi_vote(mainstay_mpi_job *job, int vote, uint32_t divided, double pause_s_max,
                                    double limit_s) {
  int code;
  vote |= (divided == MAINSTAY_DIVIDED_UNKNOWN ? MAINSTAY_MPI_NO_STATE : 0) |
          (divided == MAINSTAY_DIVIDED_INTO_BOXES ? 0 : MAINSTAY_MPI_NO_BOXES);
#ifdef MAINSTAY_MPI_SURVIVES
  if (job->survives) {
    code = mainstay_mpi_agree(job, &vote, pause_s_max, limit_s);
  } else
#endif
  {
    MPI_Request request;
    job->vote = vote;
    code = MPI_Iallreduce(MPI_IN_PLACE, &job->vote, 1, MPI_INT, MPI_BAND, job->world, &request);
    if (code != MPI_SUCCESS) return 0;
    code = mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, pause_s_max, limit_s);
    vote = job->vote;
  }
  if (code == MAINSTAY_MPI_NOT_YET) return code;
  if (code != MPI_SUCCESS) job->has_lost = 1;
  /* An error reports the dead ranks, and the vote counts. */
  job->divided = !(vote & MAINSTAY_MPI_NO_BOXES) ? MAINSTAY_DIVIDED_INTO_BOXES
                 : vote & MAINSTAY_MPI_NO_STATE  ? MAINSTAY_DIVIDED_UNKNOWN
                                                 : MAINSTAY_DIVIDED_BY_RANKS;
  return vote & MAINSTAY_MPI_EITHER;
}

/* Whether this rank is the first of the world on its machine. */
MAINSTAY_SHIM int mainstay_mpi_is_first(const mainstay_mpi_job *job) {
  int i;
  for (i = 0; i < job->rank; i++)
    if (job->processes[i].process.host == job->processes[job->rank].process.host) return 0;
  return 1;
}

/* Ends processes on this machine that were started for this job and did not join it in time. */
MAINSTAY_SHIM void mainstay_mpi_end_late(const mainstay_mpi_job *job) {
  mainstay_process *kept;
  int i;
  if (!job->launches || !mainstay_mpi_is_first(job)) return;
  kept = (mainstay_process *)malloc((size_t)job->size * sizeof *kept);
  for (i = 0; kept && i < job->size; i++) kept[i] = job->processes[i].process;
  if (kept) mainstay_process_end_siblings(job->mark, kept, (size_t)job->size);
  free(kept);
}

/* Ends processes of `dead` that hang on this machine, if this rank is the first one left there. A process that the
 * others count as failed must not wake up, and it holds locks. */
MAINSTAY_SHIM void mainstay_mpi_end(const mainstay_mpi_job *job, const mainstay_mpi_process *dead, int count) {
  int i;
  if (!mainstay_mpi_is_first(job)) return;
  for (i = 0; i < count; i++) mainstay_process_end(&dead[i].process);
}

/* All processes exchange their identities. Collective over the world. */
MAINSTAY_SHIM int mainstay_mpi_introduce(mainstay_mpi_job *job) {
  mainstay_mpi_process mine = job->processes[job->rank];
  mainstay_process_here(&mine.process);
  return MPI_Allgather(&mine, 4, MPI_UINT64_T, job->processes, 4, MPI_UINT64_T, job->world);
}

/* The same error on all of the world, or none. A rank that fails in a step leaves the others waiting in it: this
 * frees them. */
MAINSTAY_SHIM int mainstay_mpi_agreed(mainstay_mpi_job *job, int code) {
  if (code != MPI_SUCCESS) mainstay_mpi_revoke(job->world);
  return mainstay_mpi_all(job, code == MPI_SUCCESS) ? MPI_SUCCESS : code == MPI_SUCCESS ? MPI_ERR_OTHER : code;
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

#ifdef MAINSTAY_MPI_SURVIVES
static const char mainstay_mpi_regrouping[] = "making a communicator without the ranks that have failed";

/* A communicator of the surviving ranks of `comm`. All of them are there by then, and it takes milliseconds. If one
 * were deaf (see mainstay_mpi_ears), the others would wait in it forever. */
MAINSTAY_SHIM int mainstay_mpi_shrunk(MPI_Comm comm, MPI_Comm *left) {
  mainstay_watch *watch = mainstay_process_watch(MAINSTAY_MPI_REGROUPING_S_MAX, mainstay_mpi_regrouping);
  const int code = MPIX_Comm_shrink(comm, left);
  mainstay_process_unwatch(watch);
  return code;
}

/* Replaces the world by one of its surviving ranks, which all of them have. */
MAINSTAY_SHIM int mainstay_mpi_shrink_world(mainstay_mpi_job *job) {
  MPI_Comm left, before = job->world;
  const int code = mainstay_mpi_shrunk(before, &left);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
  job->world = left;
  job->agreements = 0;
  mainstay_mpi_all(job, 1); /* the next step notices another failure */
  MPI_Comm_free(&before);
  return MPI_SUCCESS;
}

/* Removes the dead from the world, and ends those that hang. */
MAINSTAY_SHIM int mainstay_mpi_leave_out(mainstay_mpi_job *job, int *lost) {
  const int size = job->size;
  mainstay_mpi_process *dead = (mainstay_mpi_process *)malloc(2 * (size_t)size * sizeof *dead), *left = dead + size;
  int *ranks = (int *)malloc(2 * (size_t)size * sizeof *ranks), *before = ranks + size;
  MPI_Group old_group, new_group;
  int code = dead && ranks ? MPI_Comm_group(job->world, &old_group) : MPI_ERR_NO_MEM, i, count = 0, known = 0;
  *lost = 0;
  if (code == MPI_SUCCESS) {
    /* Twice, to give the world a lower number in Open MPI 5.0.11 than the communicators made from it. Open MPI never
     * makes a communicator out of one with a higher number than the last one with which it failed. */
    code = mainstay_mpi_shrink_world(job);
    if (code == MPI_SUCCESS) code = mainstay_mpi_shrink_world(job);
  }
  if (code == MPI_SUCCESS) {
    MPI_Comm_size(job->world, &count);
    MPI_Comm_rank(job->world, &job->rank);
    for (i = 0; i < count; i++) ranks[i] = i;
    MPI_Comm_group(job->world, &new_group);
    MPI_Group_translate_ranks(new_group, count, ranks, old_group, before);
    MPI_Group_free(&old_group);
    MPI_Group_free(&new_group);
    for (i = 0; i < count; i++) {
      left[i] = job->processes[before[i]];
      job->processes[before[i]].process.pid = 0;
    }
    /* A started process that failed before it had identified itself cannot be ended. */
    *lost = size - count;
    for (i = 0; i < size; i++)
      if (job->processes[i].process.pid) dead[known++] = job->processes[i];
    memcpy(job->processes, left, (size_t)count * sizeof *left);
    job->size = count;
    mainstay_mpi_end(job, dead, known);
  }
  free(dead);
  free(ranks);
  return code;
}

/* By place: the rank of the world that has it; below 0: none. The caller frees it; NULL: no memory. */
MAINSTAY_SHIM int *mainstay_mpi_holders(const mainstay_mpi_job *job) {
  int *holders = (int *)malloc((size_t)job->workers * sizeof *holders), i;
  for (i = 0; holders && i < job->workers; i++) holders[i] = -1;
  for (i = 0; holders && i < job->size; i++)
    if (job->processes[i].place >= 0) holders[job->processes[i].place] = i;
  return holders;
}

/* Spares take the places of the dead, as far as there are spares; `empty` receives the number of places left. With
 * shrink, the surviving ranks close up, in their old order, unless the state needs the old number of ranks. */
MAINSTAY_SHIM int mainstay_mpi_fill(mainstay_mpi_job *job, int *empty) {
  int *holders = mainstay_mpi_holders(job), place, spare = 0, next = 0;
  *empty = 0;
  if (!holders) return MPI_ERR_NO_MEM;
  for (place = 0; place < job->workers; place++) {
    if (holders[place] >= 0) continue;
    while (spare < job->size && job->processes[spare].place >= 0) spare++;
    if (spare < job->size)
      job->processes[holders[place] = spare].place = place;
    else
      ++*empty;
  }
  if (*empty && job->recovery == MAINSTAY_RECOVERY_SHRINK && job->divided != MAINSTAY_DIVIDED_BY_RANKS) {
    for (place = 0; place < job->workers; place++)
      if (holders[place] >= 0) job->processes[holders[place]].place = next++;
    job->workers = next;
    *empty = 0;
  }
  free(holders);
  return 0;
}

/* Makes one world of the two sides of `between`, the new processes after the others. */
MAINSTAY_SHIM int mainstay_mpi_merge(MPI_Comm *between, int is_new, MPI_Comm *world) {
  int code;
  MPI_Comm_set_errhandler(*between, MPI_ERRORS_RETURN);
  code = MPI_Intercomm_merge(*between, is_new, world);
  if (code == MPI_SUCCESS)
    MPI_Comm_set_errhandler(*world, MPI_ERRORS_RETURN);
  else
    *world = MPI_COMM_NULL;
  MPI_Comm_free(between);
  return code;
}

/* Limit of failed attempts to start processes in one recovery. */
enum { MAINSTAY_MPI_STARTS_MAX = 3 };

/* The message by which a started process reports that it has reached its opening. */
enum { MAINSTAY_MPI_HAS_COME = 1 };

/* Waits until all started processes have reached their opening; an error if one of them ends before. The world waits
 * for this rank outside of MPI's joint operations: in Open MPI 5.0.11 no rank returns from those. */
MAINSTAY_SHIM int mainstay_mpi_await_started(MPI_Comm started, int count, const mainstay_launch *start) {
  const double look_s = 50e-3;
  int *word = (int *)malloc(sizeof *word), rank, code = word ? MPI_SUCCESS : MPI_ERR_NO_MEM;
  for (rank = 0; code == MPI_SUCCESS && rank < count; rank++) {
    MPI_Request request;
    code = MPI_Irecv(word, 1, MPI_INT, rank, MAINSTAY_MPI_HAS_COME, started, &request);
    if (code != MPI_SUCCESS) break;
    while ((code = mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, 500e-6, look_s)) == MAINSTAY_MPI_NOT_YET)
      if (mainstay_launch_has_lost(start)) return MPI_ERR_SPAWN; /* the handle stays MPI's */
  }
  free(word);
  return code;
}

/* The first rank of the world starts processes, and makes the port at which they meet the world. They take some
 * seconds, in which any other rank may fail, and each of them. */
MAINSTAY_SHIM int mainstay_mpi_launch(const mainstay_mpi_job *job, int count, MPI_Comm *started, char *port) {
  mainstay_launch *start = mainstay_launch_begin();
  const char *const *command = mainstay_launch_command(start);
  char folder[4096] = "";
  MPI_Info info = MPI_INFO_NULL;
  MPI_Errhandler theirs;
  int code;
  if (!command || !getcwd(folder, sizeof folder)) {
    mainstay_launch_end(start);
    return MPI_ERR_SPAWN;
  }
  mainstay_mpi_hush(MPI_COMM_SELF, &theirs);
  MPI_Info_create(&info);
  MPI_Info_set(info, "wdir", folder);
  MPI_Info_set(info, "map_by", ":OVERSUBSCRIBE");
  MPI_Info_set(info, "PMIX_ENVAR", job->mark);
  /* MPI declares these arguments as mutable, but does not change them. */
  code = MPI_Comm_spawn((char *)(uintptr_t)command[0], (char **)(uintptr_t)(command + 1), count, info, 0, MPI_COMM_SELF,
                        started, MPI_ERRCODES_IGNORE);
  mainstay_launch_is_through(start);
  MPI_Info_free(&info);
  if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(*started, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = mainstay_mpi_await_started(*started, count, start);
  mainstay_launch_end(start);
  if (code == MPI_SUCCESS) code = MPI_Open_port(MPI_INFO_NULL, port);
  mainstay_mpi_unhush(MPI_COMM_SELF, &theirs);
  return code;
}

/* A start takes a second or two, and longer if the program is on a slow file system. */
enum { MAINSTAY_MPI_LAUNCHING_S_MAX = 120, MAINSTAY_MPI_MEETING_S_MAX = 60 };
static const char mainstay_mpi_launching[] = "starting processes in the places of others";
static const char mainstay_mpi_meeting[] = "joining ranks with those that were started in the places of others";

/* Started processes take the empty places. Collective over the world, which they join. */
MAINSTAY_SHIM int mainstay_mpi_spawn(mainstay_mpi_job *job, int empty) {
  MPI_Comm started = MPI_COMM_NULL, between = MPI_COMM_NULL, world = MPI_COMM_NULL;
  char port[MPI_MAX_PORT_NAME] = "";
  uint64_t told[4];
  int code, place, is_launched, *holders;
  mainstay_watch *watch;
  job->launches++;
  /* With a broken mpiexec, MPI_Comm_spawn waits forever, and would on every rank that tried next. */
  watch = mainstay_process_watch(MAINSTAY_MPI_LAUNCHING_S_MAX, mainstay_mpi_launching);
  code = job->rank == 0 ? mainstay_mpi_launch(job, empty, &started, port) : MPI_SUCCESS;
  /* In Open MPI 5.0.11, a rank that fails while the two sides meet can leave the others waiting forever. Meeting is
   * short, and no rank begins it before all have come. */
  is_launched = mainstay_mpi_all(job, code == MPI_SUCCESS);
  mainstay_process_unwatch(watch);
  if (!is_launched) {
    mainstay_mpi_free(&started);
    return MPI_ERR_SPAWN;
  }
  watch = mainstay_process_watch(MAINSTAY_MPI_MEETING_S_MAX, mainstay_mpi_meeting);
  for (place = 0; job->rank == 0 && place < empty; place++) MPI_Send(port, sizeof port, MPI_CHAR, place, 0, started);
  code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, job->world, &between);
  if (code == MPI_SUCCESS) code = mainstay_mpi_merge(&between, 0, &world);
  if (job->rank == 0) MPI_Close_port(port);
  mainstay_process_unwatch(watch);
  code = mainstay_mpi_agreed(job, code);
  mainstay_mpi_free(&started);
  if (code != MPI_SUCCESS) {
    mainstay_mpi_revoke(world);
    mainstay_mpi_free(&world);
    return code;
  }
  holders = mainstay_mpi_holders(job);
  for (place = 0; holders && place < job->workers; place++)
    if (holders[place] < 0) {
      /* The array has room for these processes, because no spare is left. */
      memset(&job->processes[job->size], 0, sizeof *job->processes);
      job->processes[job->size++].place = place;
    }
  MPI_Comm_free(&job->world);
  job->world = world;
  job->agreements = 0;
  told[0] = job->recovery, told[1] = (uint64_t)job->workers, told[2] = (uint64_t)job->size, told[3] = job->divided;
  code = holders ? MPI_Bcast(told, 4, MPI_UINT64_T, 0, world) : MPI_ERR_NO_MEM;
  free(holders);
  if (code == MPI_SUCCESS) code = MPI_Bcast(job->processes, 4 * job->size, MPI_UINT64_T, 0, world);
  if (code == MPI_SUCCESS) code = mainstay_mpi_introduce(job);
  return mainstay_mpi_agreed(job, code);
}

/* This process was started to take a place: joins the world. An error concerns no other process. */
MAINSTAY_SHIM int mainstay_mpi_join(mainstay_mpi_job *job, MPI_Comm parent) {
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Request request;
  MPI_Errhandler theirs;
  const double limit_s = MAINSTAY_MPI_LAUNCHING_S_MAX; /* the message is sent when all have come */
  static const int word = 0;
  mainstay_watch *watch;
  char port[MPI_MAX_PORT_NAME] = "";
  uint64_t told[4] = {0, 0, 0, 0};
  int code;
  mainstay_mpi_post(&word, 1, MPI_INT, 0, MAINSTAY_MPI_HAS_COME, parent);
  code = MPI_Irecv(port, sizeof port, MPI_CHAR, 0, 0, parent, &request);
  if (code == MPI_SUCCESS) code = mainstay_mpi_await_for(&request, MPI_STATUS_IGNORE, 500e-6, limit_s);
  watch = mainstay_process_watch(MAINSTAY_MPI_MEETING_S_MAX, mainstay_mpi_meeting);
  mainstay_mpi_hush(MPI_COMM_WORLD, &theirs);
  if (code == MPI_SUCCESS) code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
  if (code == MPI_SUCCESS) code = mainstay_mpi_merge(&between, 1, &job->world);
  mainstay_mpi_unhush(MPI_COMM_WORLD, &theirs);
  mainstay_process_unwatch(watch);
  if (code == MPI_SUCCESS) code = MPI_Bcast(told, 4, MPI_UINT64_T, 0, job->world);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_rank(job->world, &job->rank);
  job->recovery = (uint32_t)told[0], job->divided = (uint32_t)told[3], job->workers = (int)told[1],
  job->size = (int)told[2];
  job->processes = (mainstay_mpi_process *)calloc((size_t)job->workers, sizeof *job->processes);
  if (!job->processes) return MPI_ERR_NO_MEM;
  code = MPI_Bcast(job->processes, 4 * job->size, MPI_UINT64_T, 0, job->world);
  if (code == MPI_SUCCESS) code = mainstay_mpi_introduce(job);
  return mainstay_mpi_agreed(job, code);
}
#endif

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
