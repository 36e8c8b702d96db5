/* Agreements and votes of the world, also while ranks fail. Licence: MIT OR Apache-2.0.
 *
 * Included by mainstay_mpi_recovery.h. */
#ifndef MAINSTAY_MPI_AGREE_H
#define MAINSTAY_MPI_AGREE_H

#include "mainstay_mpi_job.h"

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

/* The same error on all of the world, or none. A rank that fails in a step leaves the others waiting in it: this
 * frees them. */
MAINSTAY_SHIM int mainstay_mpi_agreed(mainstay_mpi_job *job, int code) {
  if (code != MPI_SUCCESS) mainstay_mpi_revoke(job->world);
  return mainstay_mpi_all(job, code == MPI_SUCCESS) ? MPI_SUCCESS : code == MPI_SUCCESS ? MPI_ERR_OTHER : code;
}

#endif /* MAINSTAY_MPI_AGREE_H */
