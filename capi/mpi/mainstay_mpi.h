/* Mainstay on MPI. Licence: MIT OR Apache-2.0.
 *
 * Your own mpicc compiles this header as part of your program: libmainstay contains no MPI symbol and works with
 * every MPI. Mainstay calls MPI only inside its collective calls, from the calling thread: MPI_THREAD_FUNNELED (or
 * SINGLE) is enough. */
#ifndef MAINSTAY_MPI_H
#define MAINSTAY_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "mainstay.h"

/* Open MPI from version 5 on can go on without failed ranks, unless it was built without extensions. MPICH has
 * functions of the same names, which end the program. */
#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && defined(OMPI_HAVE_MPIX_COMM_GET_FAILED)
#define MAINSTAY_MPI_SURVIVES
#endif
#endif
#endif

/* Programs call mainstay_open_mpi; the other functions are internal. A program that includes this need not use every
 * function. */
#if defined(__GNUC__)
#define MAINSTAY_SHIM static __attribute__((unused))
#else
#define MAINSTAY_SHIM static
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Data that outlives a table: for mainstay_open_mpi alone. */
typedef struct mainstay_mpi_job mainstay_mpi_job;

typedef struct mainstay_mpi_context {
  MPI_Comm comm; /* Mainstay's own */
  double pause_s_max;
  mainstay_mpi_job *job; /* NULL: no job */
  int has_failed;        /* other ranks may still wait in the communicator */
  int is_eager;          /* MPI waits in its own way */
} mainstay_mpi_context;

/* A session that the program closes too late must not end the program. */
MAINSTAY_SHIM int mainstay_mpi_is_over(void) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized;
}

/* Raw codes differ between MPIs; classes do not. */
MAINSTAY_SHIM int mainstay_mpi_class(int code) {
  int error_class = MPI_ERR_OTHER;
  if (code == MPI_SUCCESS) return 0;
  MPI_Error_class(code, &error_class);
  return error_class == MPI_SUCCESS ? MPI_ERR_OTHER : error_class;
}

/* The longest sleep between two looks for slower ranks: half a millisecond. If ranks share processors, it is a tenth
 * of a millisecond for each of these ranks. At 10 us a look, all waiting ranks then take at most a tenth of the
 * processors. The count is that of the machine's processors, because a rank bound to one processor sees no other. */
MAINSTAY_SHIM double mainstay_mpi_pause_max(int ranks_here) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const double shared_s = 100e-6 * ranks_here / (double)(processors > 0 ? processors : 1);
  return shared_s > 500e-6 ? shared_s : 500e-6;
}

/* Differs from all codes of MPI. */
enum { MAINSTAY_MPI_NOT_YET = -1 };

/* Waits for the other ranks, for `limit_s` at most if that is not negative. The other ranks may still be writing, and
 * MPI's own waiting would take the processors away from them. So after a moment this sleeps between looks, each time
 * for a sixteenth of the time waited so far, `pause_s_max` at most. */
MAINSTAY_SHIM int mainstay_mpi_await_for(MPI_Request *request, MPI_Status *status, double pause_s_max, double limit_s) {
  const double instant_s = 50e-6, since = MPI_Wtime();
  int code, done = 0;
  while ((code = MPI_Test(request, &done, status)) == MPI_SUCCESS && !done) {
    const double waited_s = MPI_Wtime() - since, pause_s = waited_s / 16 < pause_s_max ? waited_s / 16 : pause_s_max;
    struct timeval pause = {0, 0};
    pause.tv_usec = (long)(pause_s * 1e6);
    if (limit_s >= 0 && waited_s > limit_s) return MAINSTAY_MPI_NOT_YET;
    if (waited_s > instant_s) select(0, NULL, NULL, NULL, &pause);
  }
  return code;
}

MAINSTAY_SHIM int mainstay_mpi_await(MPI_Request *request, MPI_Status *status, double pause_s_max) {
  return mainstay_mpi_await_for(request, status, pause_s_max, -1);
}

/* The result of a call in this table. */
MAINSTAY_SHIM int mainstay_mpi_told(void *context, int code) {
  if (code != MPI_SUCCESS) ((mainstay_mpi_context *)context)->has_failed = 1;
  return mainstay_mpi_class(code);
}

MAINSTAY_SHIM int mainstay_mpi_all_max(void *context, uint64_t *values, size_t count) {
  const mainstay_mpi_context *mine = (const mainstay_mpi_context *)context;
  const size_t bytes = count * sizeof *values;
  uint64_t *all;
  MPI_Request request;
  int code;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  if (count > INT_MAX) return MPI_ERR_COUNT;
  all = (uint64_t *)malloc(bytes ? bytes : 1);
  if (!all) return MPI_ERR_NO_MEM;
  memcpy(all, values, bytes);
  if (mine->is_eager) {
    code = MPI_Allreduce(MPI_IN_PLACE, all, (int)count, MPI_UINT64_T, MPI_MAX, mine->comm);
  } else {
    code = MPI_Iallreduce(MPI_IN_PLACE, all, (int)count, MPI_UINT64_T, MPI_MAX, mine->comm, &request);
    if (code == MPI_SUCCESS) code = mainstay_mpi_await(&request, MPI_STATUS_IGNORE, mine->pause_s_max);
  }
  if (code == MPI_SUCCESS) {
    memcpy(values, all, bytes);
    free(all);
  } /* otherwise it stays: Open MPI may still receive data that others sent before a rank failed */
  return mainstay_mpi_told(context, code);
}

MAINSTAY_SHIM void mainstay_mpi_wait_eagerly(void *context, int eagerly) {
  ((mainstay_mpi_context *)context)->is_eager = eagerly;
}

/* Whether MPI's own waiting, the fastest way, is harmless. Open MPI's yields a processor that ranks share; MPICH's
 * does not. */
MAINSTAY_SHIM int mainstay_mpi_may_be_eager(int ranks_here) {
#ifdef OPEN_MPI
  (void)ranks_here;
  return 1;
#else
  return ranks_here <= sysconf(_SC_NPROCESSORS_ONLN);
#endif
}

MAINSTAY_SHIM int mainstay_mpi_all_gather(void *context, const void *mine, void *all, size_t bytes) {
  MPI_Comm comm = ((mainstay_mpi_context *)context)->comm;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  return mainstay_mpi_told(context, MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm));
}

MAINSTAY_SHIM int mainstay_mpi_broadcast(void *context, uint32_t root, void *data, size_t bytes) {
  MPI_Comm comm = ((mainstay_mpi_context *)context)->comm;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  return mainstay_mpi_told(context, MPI_Bcast(data, (int)bytes, MPI_BYTE, (int)root, comm));
}

/* The tag of messages. */
enum { MAINSTAY_MPI_STARTED = 1 };

typedef struct mainstay_mpi_message {
  MPI_Request request;
  int received; /* number of bytes to receive; -1: it is sent */
} mainstay_mpi_message;

MAINSTAY_SHIM int mainstay_mpi_start_send(void *context, uint32_t to, const void *data, size_t bytes, void **message) {
  MPI_Comm comm = ((mainstay_mpi_context *)context)->comm;
  mainstay_mpi_message *started;
  int code;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  started = (mainstay_mpi_message *)malloc(sizeof *started);
  if (!started) return MPI_ERR_NO_MEM;
  started->received = -1;
  code = MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, MAINSTAY_MPI_STARTED, comm, &started->request);
  if (code != MPI_SUCCESS)
    free(started);
  else
    *message = started;
  return mainstay_mpi_told(context, code);
}

MAINSTAY_SHIM int mainstay_mpi_start_receive(void *context, uint32_t from, void *data, size_t bytes, void **message) {
  MPI_Comm comm = ((mainstay_mpi_context *)context)->comm;
  mainstay_mpi_message *started;
  int code;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  started = (mainstay_mpi_message *)malloc(sizeof *started);
  if (!started) return MPI_ERR_NO_MEM;
  started->received = (int)bytes;
  code = MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, MAINSTAY_MPI_STARTED, comm, &started->request);
  if (code != MPI_SUCCESS)
    free(started);
  else
    *message = started;
  return mainstay_mpi_told(context, code);
}

MAINSTAY_SHIM int mainstay_mpi_test(void *context, void *message, int *through) {
  mainstay_mpi_message *started = (mainstay_mpi_message *)message;
  MPI_Status status;
  int code, count = -1;
  *through = 0;
  code = mainstay_mpi_is_over() ? MPI_ERR_OTHER : MPI_Test(&started->request, through, &status);
  if (code == MPI_SUCCESS && !*through) return 0;
  if (code == MPI_SUCCESS && started->received >= 0) {
    code = MPI_Get_count(&status, MPI_BYTE, &count);
    if (code == MPI_SUCCESS && count != started->received) code = MPI_ERR_TRUNCATE;
  }
  free(started);
  return mainstay_mpi_told(context, code);
}

MAINSTAY_SHIM const char *mainstay_mpi_why(const mainstay_mpi_job *job);

MAINSTAY_SHIM void mainstay_mpi_explain(void *context, int code, char *text, size_t bytes) {
  char message[MPI_MAX_ERROR_STRING + 1];
  int length = 0;
  const char *why = mainstay_mpi_why(((mainstay_mpi_context *)context)->job);
  if (bytes == 0) return;
  if (mainstay_mpi_is_over()) {
    strncpy(text, "MPI was finalized; close sessions before MPI_Finalize", bytes - 1);
    text[bytes - 1] = 0;
    return;
  }
  if (why) {
    strncpy(text, why, bytes - 1);
    text[bytes - 1] = 0;
    return;
  }
  if (MPI_Error_string(code, message, &length) != MPI_SUCCESS || length < 0) return;
  if ((size_t)length >= bytes) length = (int)bytes - 1;
  memcpy(text, message, (size_t)length);
  text[length] = 0;
}

MAINSTAY_SHIM void mainstay_mpi_leave(mainstay_mpi_job *job, int tells);

MAINSTAY_SHIM void mainstay_mpi_release(void *context) {
  mainstay_mpi_context *mine = (mainstay_mpi_context *)context;
  int left = 0;
  if (!mainstay_mpi_is_over()) {
#ifdef MAINSTAY_MPI_SURVIVES
    if (mine->job && mine->has_failed) MPIX_Comm_revoke(mine->comm);
#endif
    /* A communicator with messages that nobody has received stays, for instance that of a session abandoned after an
     * error: MPICH ends a program that frees such a communicator. */
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mine->comm, &left, MPI_STATUS_IGNORE) != MPI_SUCCESS || !left)
      MPI_Comm_free(&mine->comm);
  }
  if (mine->job) mainstay_mpi_leave(mine->job, 1);
  free(mine);
}

MAINSTAY_SHIM int mainstay_mpi_table(MPI_Comm comm, mainstay_group *group);

#ifdef MAINSTAY_MPI_SURVIVES
MAINSTAY_SHIM void mainstay_mpi_look(void);
MAINSTAY_SHIM int mainstay_mpi_has_failed_in(const mainstay_mpi_job *job);

MAINSTAY_SHIM int mainstay_mpi_failed(void *context, uint32_t *failed, uint32_t *count) {
  const mainstay_mpi_context *mine = (const mainstay_mpi_context *)context;
  MPI_Comm comm = mine->comm;
  MPI_Group dead, all;
  int code, rank, ranks = 0;
  *count = 0;
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  mainstay_mpi_look();
  code = MPIX_Comm_get_failed(comm, &dead);
  if (code != MPI_SUCCESS) return mainstay_mpi_class(code);
  code = MPI_Comm_group(comm, &all);
  if (code == MPI_SUCCESS) {
    MPI_Group_size(dead, &ranks);
    for (rank = 0; rank < ranks && code == MPI_SUCCESS; rank++) {
      int before = MPI_UNDEFINED;
      code = MPI_Group_translate_ranks(dead, 1, &rank, all, &before);
      if (code == MPI_SUCCESS && before != MPI_UNDEFINED) failed[(*count)++] = (uint32_t)before;
    }
    MPI_Group_free(&all);
  }
  MPI_Group_free(&dead);
  /* Another rank may know the failed ranks, or only the program's messages may show the failure. */
  if (code == MPI_SUCCESS && *count == 0 && mainstay_mpi_has_failed_in(mine->job)) code = MPI_ERR_OTHER;
  return mainstay_mpi_class(code);
}

/* Leaves out a rank that fails meanwhile, too: the surviving ranks agree whether each of them has the new group, and
 * otherwise start again, at most once for each rank. */
MAINSTAY_SHIM int mainstay_mpi_shrink(void *context, uint32_t divided, void *survivors) {
  MPI_Comm comm = ((mainstay_mpi_context *)context)->comm, left;
  int code = MPI_ERR_OTHER, ranks = 0, attempt, agreed;
  (void)divided; /* no process could take a place */
  if (mainstay_mpi_is_over()) return MPI_ERR_OTHER;
  MPI_Comm_size(comm, &ranks);
  MPIX_Comm_revoke(comm);
  for (attempt = 0; attempt < ranks; attempt++) {
    mainstay_group group;
    code = MPIX_Comm_shrink(comm, &left);
    if (code != MPI_SUCCESS) return mainstay_mpi_class(code);
    /* All ranks have made it before one may revoke it: Open MPI 5.0.11 crashes in a rank that learns of a revocation
     * while it makes the communicator. */
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    agreed = 1;
    MPIX_Comm_agree(left, &agreed);
    code = mainstay_mpi_table(left, &group);
    /* The other ranks may still be in the call that this rank has left. */
    if (code != MPI_SUCCESS) MPIX_Comm_revoke(left);
    agreed = code == MPI_SUCCESS;
    if (MPIX_Comm_agree(left, &agreed) == MPI_SUCCESS && agreed) {
      memcpy(survivors, &group, sizeof group);
      return 0;
    }
    if (code == MPI_SUCCESS) free(group.context);
    MPI_Comm_free(&left);
  }
  return mainstay_mpi_class(code == MPI_SUCCESS ? MPI_ERR_OTHER : code);
}

/* Whether this job was started with `mpiexec --with-ft ulfm`, without which a failing rank ends it. */
MAINSTAY_SHIM int mainstay_mpi_survives(void) {
  const char *enabled = getenv("OMPI_MCA_mpi_ft_enable");
  return enabled && (enabled[0] == '1' || enabled[0] == 't' || enabled[0] == 'T');
}
#else
MAINSTAY_SHIM int mainstay_mpi_survives(void) { return 0; }
#endif

/* Makes the table for the ranks of `comm`, `ranks_here` of which share a machine. The table owns `comm` from then on.
 * Returns 0, or the class of an error, which leaves `comm` to the caller. Local. */
MAINSTAY_SHIM int mainstay_mpi_table_of(MPI_Comm comm, int ranks_here, mainstay_group *group) {
  mainstay_mpi_context *context = (mainstay_mpi_context *)calloc(1, sizeof *context);
  int rank = 0, ranks = 0;
  if (!context) return MPI_ERR_NO_MEM;
  /* Errors come back to Mainstay, whatever the program does with its own errors. */
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  context->comm = comm;
  context->pause_s_max = mainstay_mpi_pause_max(ranks_here);
  memset(group, 0, sizeof *group);
  group->size = sizeof *group;
  group->context = context;
  group->rank = (uint32_t)rank;
  group->ranks = (uint32_t)ranks;
  group->ranks_here = (uint32_t)ranks_here;
  group->all_max = mainstay_mpi_all_max;
  group->all_gather = mainstay_mpi_all_gather;
  group->broadcast = mainstay_mpi_broadcast;
  group->explain = mainstay_mpi_explain;
  group->release = mainstay_mpi_release;
  group->start_send = mainstay_mpi_start_send;
  group->start_receive = mainstay_mpi_start_receive;
  group->test = mainstay_mpi_test;
  /* A rank may never return from a blocking call in which another rank fails. */
  if (!mainstay_mpi_survives() && mainstay_mpi_may_be_eager(ranks_here))
    group->wait_eagerly = mainstay_mpi_wait_eagerly;
#ifdef MAINSTAY_MPI_SURVIVES
  if (mainstay_mpi_survives()) {
    group->failed = mainstay_mpi_failed;
    group->shrink = mainstay_mpi_shrink;
  }
#endif
  return 0;
}

/* The same, but finds out by itself which ranks share a machine. Collective. */
MAINSTAY_SHIM int mainstay_mpi_table(MPI_Comm comm, mainstay_group *group) {
  MPI_Comm here;
  int code, rank = 0, ranks_here = 0;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  if (code != MPI_SUCCESS) return mainstay_mpi_class(code);
  MPI_Comm_size(here, &ranks_here);
  MPI_Comm_free(&here);
  return mainstay_mpi_table_of(comm, ranks_here, group);
}

#include "mainstay_mpi_recovery.h"

/* Opens the space in the directory `path` for the ranks of `comm`, any communicator of one group. Mainstay duplicates
 * it, and you may free it after the call. An intercommunicator is MAINSTAY_INVALID_ARGUMENT. Collective. `options`
 * may be NULL.
 *
 * With the setting `recovery` the job goes on when ranks fail, if the MPI supports that (Open MPI from 5 on, started
 * with `mpiexec --with-ft ulfm`). The program then calls mainstay_recover, and works on mainstay_mpi_comm(session).
 * The last `spares` ranks sleep inside this call until they replace a failed rank. The call then returns in the
 * spare, with a session of that rank's number. If the job ends first, it returns MAINSTAY_NOT_NEEDED. If no spare is
 * left, Mainstay starts this program anew, with the same arguments, and its first opening takes the failed rank's
 * place. If a rank fails in the opening, the others repeat the opening without it. A program has one session with
 * recovery at a time. */
MAINSTAY_SHIM mainstay_status mainstay_open_mpi(MPI_Comm comm, const char *path, const mainstay_options *options,
                                                mainstay_session **session) {
  const int attempts = 8;
  mainstay_mpi_job *job;
  mainstay_group group;
  mainstay_status status;
  int attempt, code, joins_two = 0;
  if (session) *session = NULL;
  /* mainstay_open refuses it, with a message. */
  if (comm == MPI_COMM_NULL) return mainstay_open(NULL, path, options, session);
  if (MPI_Comm_test_inter(comm, &joins_two) == MPI_SUCCESS && joins_two)
    return mainstay_adapter_error(MAINSTAY_INVALID_ARGUMENT, "comm: an intercommunicator, of two groups; merge it "
                                                             "(MPI_Intercomm_merge), or give each group a space");
  status = mainstay_mpi_enter(comm, options, &job, &group);
  if (status != MAINSTAY_OK) return status;
  status = mainstay_open(&group, path, options, session);
  for (attempt = 0; status == MAINSTAY_GROUP_FAILED && job->survives && attempt < attempts; attempt++) {
    code = mainstay_mpi_again(job, MAINSTAY_DIVIDED_UNKNOWN, &group);
    if (code) break;
    status = mainstay_open(&group, path, options, session);
  }
  mainstay_mpi_leave(job, 1);
  /* It belongs to this run, if the program's variables come back from another. */
  if (status == MAINSTAY_OK) status = mainstay_leave_out(*session, &mainstay_mpi_here, sizeof mainstay_mpi_here);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif /* MAINSTAY_MPI_H */
