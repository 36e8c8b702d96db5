/* Buffered sends. The library copies the bytes into memory of its own, and uses the attached buffer only to know how
 * much a program may have under way. Licence: MIT OR Apache-2.0. */
#include "point.h"

struct copy {
  struct mainstay_message message;
  struct copy *next;
  size_t bytes;
  uint64_t number;
};

static struct copy *copies;
static uint64_t number; /* of the last send */
static void *attached;
static MPI_Count attached_bytes;
static MPI_Count used_bytes; /* of sends under way, with MPI_BSEND_OVERHEAD each */
static bool is_attached;

static void free_done(void) {
  struct copy **link = &copies;
  while (*link) {
    struct copy *copy = *link;
    if (!copy->message.done) {
      link = &copy->next;
      continue;
    }
    *link = copy->next;
    used_bytes -= (MPI_Count)copy->bytes + MPI_BSEND_OVERHEAD;
    free(copy);
  }
}

int send_buffered(struct comm *comm, int peer, int tag, const void *data, MPI_Count count,
                  const struct datatype *type) {
  size_t bytes = data_bytes(count, type);
  struct copy *copy;
  free_done();
  if (!is_attached || used_bytes + (MPI_Count)bytes + MPI_BSEND_OVERHEAD > attached_bytes) return MPI_ERR_BUFFER;
  copy = take_memory(sizeof *copy + bytes);
  copy->bytes = bytes;
  copy->number = ++number;
  copy->next = copies;
  copies = copy;
  used_bytes += (MPI_Count)bytes + MPI_BSEND_OVERHEAD;
  pack_bytes(data, count, type, copy + 1);
  start_send(&copy->message, comm, CONTEXT_MESSAGES, peer, tag, copy + 1, bytes);
  return MPI_SUCCESS;
}

void finish_buffered(void) {
  for (struct copy *copy = copies; copy; copy = copy->next) wait_message(&copy->message);
  free_done();
}

static int attach(void *buffer, MPI_Count size) {
  if (is_attached) return MPI_ERR_BUFFER;
  if (size < 0) return MPI_ERR_ARG;
  attached = buffer;
  /* MPI_BUFFER_AUTOMATIC: the library takes the memory that it needs. */
  attached_bytes = buffer == MPI_BUFFER_AUTOMATIC ? INT64_MAX / 2 : size;
  is_attached = true;
  return MPI_SUCCESS;
}

static int detach(void *buffer_addr, MPI_Count *size) {
  if (!is_attached) return MPI_ERR_BUFFER;
  finish_buffered();
  *(void **)buffer_addr = attached;
  *size = attached == MPI_BUFFER_AUTOMATIC ? 0 : attached_bytes;
  is_attached = false;
  attached = NULL;
  attached_bytes = 0;
  return MPI_SUCCESS;
}

MPI(Buffer_attach)(void *buffer, int size) { return fail(NULL, attach(buffer, size)); }
MPI(Buffer_attach_c)(void *buffer, MPI_Count size) { return fail(NULL, attach(buffer, size)); }

MPI(Buffer_detach)(void *buffer_addr, int *size) {
  MPI_Count bytes = 0;
  int error = detach(buffer_addr, &bytes);
  if (error) return fail(NULL, error);
  *size = (int)bytes;
  return MPI_SUCCESS;
}

MPI(Buffer_detach_c)(void *buffer_addr, MPI_Count *size) { return fail(NULL, detach(buffer_addr, size)); }

MPI(Buffer_flush)(void) {
  finish_buffered();
  return MPI_SUCCESS;
}

/* Done once all sends up to the one whose number is the state are done. */
static bool flush_step(struct request *request) {
  free_done();
  for (struct copy *copy = copies; copy; copy = copy->next)
    if (copy->number <= (uint64_t)(uintptr_t)request->work->state) return false;
  return true;
}

MPI(Buffer_iflush)(MPI_Request *request) {
  struct work work = {.step = flush_step, .state = (void *)(uintptr_t)number};
  struct request *new = request_collective(NULL, &work, false);
  request_start(new);
  *request = request_handle(new);
  return MPI_SUCCESS;
}
