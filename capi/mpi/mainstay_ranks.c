/* The host of ranks in slots, on MPI. Licence: MIT OR Apache-2.0.
 *
 * `mainstay run --virtual` compiles this file with your own mpicc and puts the program before yours:
 *
 *   mpiexec -n 4 mainstay-ranks --virtual 16 --space SPACE --library FOLDER -- PROGRAM ARGUMENTS...
 *   ... --balance refine:300: every 300 s ranks move from busy processes to others
 *   ... --with-libraries yes: saves the bytes of the files that ranks map, such as libraries
 *
 * Messages between hosts go through MPI, on the session's communicator, with one tag. */
#include "mainstay_mpi.h"
#include "mainstay_ranks.h"

#include <stdio.h>

enum { TAG = 32766 };

/* A message on its way. The bytes are ours until MPI has sent them. */
struct leaving {
  struct leaving *next;
  MPI_Request request;
  char bytes[];
};

struct hosts {
  mainstay_session *session;
  MPI_Comm comm; /* that of the messages on their way */
  struct leaving *leaving;
  char *arrived;
  size_t room;
};

static MPI_Comm comm_of(struct hosts *hosts) {
  MPI_Comm comm = mainstay_mpi_is_over() ? MPI_COMM_NULL : mainstay_mpi_comm(hosts->session);
  if (comm != hosts->comm) {
    hosts->comm = comm;
    hosts->leaving = NULL; /* MPI may still read them: they stay */
  }
  return comm;
}

static int processes(void *context, uint32_t *process, uint32_t *all) {
  MPI_Comm comm = comm_of(context);
  int mine = 0, size = 0;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  MPI_Comm_rank(comm, &mine);
  MPI_Comm_size(comm, &size);
  *process = (uint32_t)mine, *all = (uint32_t)size;
  return 0;
}

/* Frees the messages that MPI has sent. */
static int sweep(struct hosts *hosts) {
  struct leaving **at = &hosts->leaving, *one;
  while ((one = *at)) {
    int done = 0, code = MPI_Test(&one->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    if (done) {
      *at = one->next;
      free(one);
    } else {
      at = &one->next;
    }
  }
  return MPI_SUCCESS;
}

static int send_parts(void *context, uint32_t to, const void *head, size_t head_bytes, const void *body,
                      size_t body_bytes) {
  struct hosts *hosts = context;
  MPI_Comm comm = comm_of(hosts);
  struct leaving *one;
  int code = sweep(hosts);
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  if (code != MPI_SUCCESS) return mainstay_mpi_class(code);
  if (head_bytes + body_bytes > INT_MAX) return MPI_ERR_COUNT;
  one = malloc(sizeof *one + head_bytes + body_bytes);
  if (!one) return MPI_ERR_NO_MEM;
  memcpy(one->bytes, head, head_bytes);
  if (body_bytes) memcpy(one->bytes + head_bytes, body, body_bytes);
  code = MPI_Isend(one->bytes, (int)(head_bytes + body_bytes), MPI_BYTE, (int)to, TAG, comm, &one->request);
  if (code != MPI_SUCCESS) return mainstay_mpi_class(code);
  one->next = hosts->leaving;
  hosts->leaving = one;
  return 0;
}

static int receive_one(void *context, uint32_t *from, const void **data, size_t *bytes) {
  struct hosts *hosts = context;
  MPI_Comm comm = comm_of(hosts);
  MPI_Message message;
  MPI_Status status;
  int there = 0, count = 0, code;
  *data = NULL;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  code = MPI_Improbe(MPI_ANY_SOURCE, TAG, comm, &there, &message, &status);
  if (code != MPI_SUCCESS || !there) return mainstay_mpi_class(code == MPI_SUCCESS ? sweep(hosts) : code);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if ((size_t)count > hosts->room) {
    char *more = realloc(hosts->arrived, (size_t)count);
    if (!more) return MPI_ERR_NO_MEM;
    hosts->arrived = more, hosts->room = (size_t)count;
  }
  code = MPI_Mrecv(hosts->arrived, count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return mainstay_mpi_class(code);
  *from = (uint32_t)status.MPI_SOURCE, *data = hosts->arrived, *bytes = (size_t)count;
  return 0;
}

static int sum_words(void *context, uint64_t *words, size_t count) {
  struct hosts *hosts = context;
  MPI_Comm comm = comm_of(hosts);
  uint64_t *all;
  MPI_Request request;
  int code;
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  all = malloc(2 * count * sizeof *all + 1);
  if (!all) return MPI_ERR_NO_MEM;
  memcpy(all, words, count * sizeof *all);
  code = MPI_Iallreduce(all, all + count, (int)count, MPI_UINT64_T, MPI_SUM, comm, &request);
  if (code == MPI_SUCCESS) code = mainstay_mpi_await(&request, MPI_STATUS_IGNORE, mainstay_mpi_pause_max(1));
  if (code == MPI_SUCCESS) {
    memcpy(words, all + count, count * sizeof *all);
    free(all);
  } /* otherwise it stays: MPI may still write to it */
  return mainstay_mpi_class(code);
}

static void release(void *context) {
  struct hosts *hosts = context;
  free(hosts->arrived);
  free(hosts);
}

static int usage(const char *what) {
  fprintf(stderr,
          "mainstay-ranks: %s\n"
          "usage: mainstay-ranks [--virtual RANKS] [--balance STRATEGY:SECONDS] [--with-libraries yes] --space SPACE "
          "--library FOLDER -- "
          "PROGRAM [ARGUMENT...]\n",
          what);
  return 2;
}

static int failed(const char *doing, mainstay_status status) {
  fprintf(stderr, "mainstay: %s: %s: %s\n", doing, mainstay_status_name(status), mainstay_error_message());
  return 1;
}

int main(int count, char **arguments) {
  const char *space = NULL, *library = NULL, *balance = NULL;
  unsigned long ranks = 0;
  int at = 1, code = 0, aborted = 0, with_libraries = 0, threads;
  mainstay_session *session = NULL;
  mainstay_ranks_wire wire;
  mainstay_status status;
  struct hosts *hosts;
  for (; at + 1 < count && strcmp(arguments[at], "--") != 0; at += 2) {
    if (!strcmp(arguments[at], "--virtual"))
      ranks = strtoul(arguments[at + 1], NULL, 10);
    else if (!strcmp(arguments[at], "--space"))
      space = arguments[at + 1];
    else if (!strcmp(arguments[at], "--balance"))
      balance = arguments[at + 1];
    else if (!strcmp(arguments[at], "--with-libraries"))
      with_libraries = !strcmp(arguments[at + 1], "yes");
    else if (!strcmp(arguments[at], "--library"))
      library = arguments[at + 1];
    else
      return usage("an option is unknown");
  }
  if (!space || !library || at + 1 >= count) return usage("an option or the program is missing");
  status = mainstay_ranks_reserve();
  if (status != MAINSTAY_OK) return failed("starting", status);
  /* Open MPI's PMIx maps a segment where its launcher has free addresses, which may be those of slots. Not with this.
   */
  setenv("PMIX_MCA_gds", "hash", 0);
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS) return 1;
  status = mainstay_open_mpi(MPI_COMM_WORLD, space, NULL, &session);
  if (status == MAINSTAY_NOT_NEEDED) return mainstay_mpi_finalize(0);
  if (status != MAINSTAY_OK) {
    failed("opening the space", status);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  hosts = calloc(1, sizeof *hosts);
  if (!hosts) MPI_Abort(MPI_COMM_WORLD, 1);
  hosts->session = session;
  hosts->comm = MPI_COMM_NULL;
  memset(&wire, 0, sizeof wire);
  wire.size = sizeof wire;
  wire.context = hosts;
  wire.processes = processes;
  wire.send = send_parts;
  wire.receive = receive_one;
  wire.sum = sum_words;
  wire.release = release;
  status = mainstay_ranks_run(session, &wire, (uint32_t)ranks, balance, with_libraries, library,
                              (const char *const *)&arguments[at + 1], &code, &aborted);
  if (status != MAINSTAY_OK) {
    failed("running", status);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (aborted) MPI_Abort(MPI_COMM_WORLD, code);
  status = mainstay_close(session);
  /* The program has ended, whether or not the space says so. Without that, the next start goes on from the last
   * revision. */
  if (status != MAINSTAY_OK) failed("closing the space", status);
  return mainstay_mpi_finalize(code);
}
