/* Schedules of collectives: their steps and how they go on. Licence: MIT OR Apache-2.0. */
#include "collective_schedule.h"
#include "operation.h"

enum {
  FIRST_MEMORY = 4096,    /* bytes that each schedule has from the start */
  STEPS_KEPT_MAX = 256,   /* a schedule with more steps is not kept for the next collective */
  SCHEDULES_KEPT_MAX = 4, /* finished schedules that wait for the next collective */
};

enum step_kind { STEP_SEND, STEP_RECEIVE, STEP_COPY, STEP_REDUCE, STEP_CALL, STEP_FENCE };

struct step {
  enum step_kind kind;
  int peer;
  struct comm *comm;
  struct block block; /* of a message its data, of COPY the source, of REDUCE the first operand */
  union {
    struct {
      struct mainstay_message message;
      void *packed; /* the bytes of a message whose type is not dense */
    };
    struct block to;
    struct {
      schedule_call *call;
      void *argument;
    };
  };
};

/* Memory behind its head. */
struct chunk {
  struct chunk *next;
  max_align_t bytes[];
};

struct schedule {
  struct schedule *next; /* of the schedules kept */
  struct comm *comm;
  int tag;
  int error;
  struct operation *operation; /* held; NULL: none */
  struct step *steps;
  size_t count, room;
  size_t first; /* first step of the round, or the first of it that is not done */
  size_t at;    /* next step to start */
  struct chunk *chunks;
  size_t used; /* bytes of `memory` */
  max_align_t memory[FIRST_MEMORY / sizeof(max_align_t)];
};

static struct schedule *kept;
static int kept_count;

struct schedule *schedule_new(struct comm *comm) {
  struct schedule *schedule = kept;
  if (schedule) {
    kept = schedule->next;
    kept_count--;
  } else {
    schedule = take_memory(sizeof *schedule);
    schedule->room = 16;
    schedule->steps = take_memory(schedule->room * sizeof *schedule->steps);
  }
  schedule->comm = comm;
  schedule->tag = (int)(comm->sequence++ & INT32_MAX);
  schedule->error = MPI_SUCCESS;
  schedule->operation = NULL;
  schedule->chunks = NULL;
  schedule->count = schedule->first = schedule->at = schedule->used = 0;
  return schedule;
}

static void hold_type(struct datatype *type) {
  if (!type->object.predefined) object_hold(type);
}

static void drop_type(struct datatype *type) {
  if (!type->object.predefined) type_release(type);
}

void schedule_free(struct schedule *schedule) {
  for (size_t i = 0; i < schedule->count; i++) {
    struct step *step = &schedule->steps[i];
    if (step->kind <= STEP_REDUCE) drop_type(step->block.type);
    if (step->kind == STEP_COPY || step->kind == STEP_REDUCE) drop_type(step->to.type);
  }
  if (schedule->operation) operation_release(schedule->operation);
  while (schedule->chunks) {
    struct chunk *next = schedule->chunks->next;
    free(schedule->chunks);
    schedule->chunks = next;
  }
  if (kept_count < SCHEDULES_KEPT_MAX && schedule->room <= STEPS_KEPT_MAX) {
    schedule->next = kept;
    kept = schedule;
    kept_count++;
  } else {
    free(schedule->steps);
    free(schedule);
  }
}

void *schedule_memory(struct schedule *schedule, size_t bytes) {
  bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (bytes <= sizeof schedule->memory - schedule->used) {
    char *memory = (char *)schedule->memory + schedule->used;
    schedule->used += bytes;
    return memory;
  }
  struct chunk *chunk = take_memory(sizeof *chunk + bytes);
  chunk->next = schedule->chunks;
  schedule->chunks = chunk;
  return chunk->bytes;
}

struct block schedule_room(struct schedule *schedule, struct block like) {
  const struct datatype *type = like.type;
  MPI_Aint last = like.count > 0 ? (like.count - 1) * type->extent : 0;
  MPI_Aint span = last < 0 ? -last : last;
  MPI_Aint low = type->true_lb + (last < 0 ? last : 0);
  char *memory = schedule_memory(schedule, like.count > 0 ? (size_t)(span + type->true_extent) : 0);
  return (struct block){memory - low, like.count, like.type};
}

struct block block_bytes(void *data, size_t bytes) {
  static struct datatype *byte;
  if (!byte) byte = type_of(MPI_BYTE);
  return (struct block){data, (MPI_Count)bytes, byte};
}

struct block schedule_packed(struct schedule *schedule, struct block like) {
  size_t bytes = block_size(like);
  return block_bytes(schedule_memory(schedule, bytes), bytes);
}

static struct step *add(struct schedule *schedule, enum step_kind kind) {
  if (schedule->count == schedule->room) {
    schedule->room *= 2;
    schedule->steps = grow_memory(schedule->steps, schedule->room * sizeof *schedule->steps);
  }
  struct step *step = &schedule->steps[schedule->count++];
  step->kind = kind;
  return step;
}

static void add_message(struct schedule *schedule, enum step_kind kind, struct comm *comm, int peer,
                        struct block block) {
  struct step *step = add(schedule, kind);
  step->comm = comm;
  step->peer = peer;
  step->block = block;
  step->packed = NULL;
  hold_type(block.type);
}

void schedule_send(struct schedule *schedule, struct comm *comm, int peer, struct block from) {
  add_message(schedule, STEP_SEND, comm, peer, from);
}

void schedule_receive(struct schedule *schedule, struct comm *comm, int peer, struct block to) {
  add_message(schedule, STEP_RECEIVE, comm, peer, to);
}

static void add_local(struct schedule *schedule, enum step_kind kind, struct block from, struct block to) {
  struct step *step = add(schedule, kind);
  step->block = from;
  step->to = to;
  hold_type(from.type);
  hold_type(to.type);
}

void schedule_copy(struct schedule *schedule, struct block from, struct block to) {
  add_local(schedule, STEP_COPY, from, to);
}

void schedule_reduce(struct schedule *schedule, struct operation *operation, struct block in, struct block inout) {
  if (!schedule->operation) schedule->operation = object_hold(operation);
  add_local(schedule, STEP_REDUCE, in, inout);
}

void schedule_do(struct schedule *schedule, schedule_call *call, void *argument) {
  struct step *step = add(schedule, STEP_CALL);
  step->call = call;
  step->argument = argument;
}

void schedule_fence(struct schedule *schedule) {
  if (schedule->count > 0 && schedule->steps[schedule->count - 1].kind != STEP_FENCE) add(schedule, STEP_FENCE);
}

void schedule_restart(struct schedule *schedule) { schedule->first = schedule->at = 0; }

static void start_message(struct schedule *schedule, struct step *step) {
  struct block block = step->block;
  size_t bytes = block_size(block);
  bool dense = is_dense(block.type);
  if (step->kind == STEP_SEND) {
    const void *data = packed_data(block.data, block.count, block.type, &step->packed);
    start_send(&step->message, step->comm, CONTEXT_COLLECTIVES, step->peer, schedule->tag, data, bytes);
  } else {
    if (!dense) step->packed = take_memory(bytes);
    start_receive(&step->message, step->comm, CONTEXT_COLLECTIVES, step->peer, schedule->tag,
                  dense ? block.data : step->packed, bytes);
  }
}

static void start_step(struct schedule *schedule, struct step *step) {
  struct block from = step->block, to = step->to;
  switch (step->kind) {
  case STEP_SEND:
  case STEP_RECEIVE:
    start_message(schedule, step);
    break;
  case STEP_COPY: {
    int error = copy_data(from.data, from.count, from.type, to.data, to.count, to.type);
    if (error) schedule->error = error;
    break;
  }
  case STEP_REDUCE:
    operation_apply(schedule->operation, from.data, to.data, to.count, to.type);
    break;
  case STEP_CALL:
    step->call(schedule, step->argument);
    break;
  case STEP_FENCE:
    break;
  }
}

/* True if the step is done. Unpacks the bytes of a message that has arrived. */
static bool end_step(struct schedule *schedule, struct step *step) {
  if (step->kind > STEP_RECEIVE) return true;
  if (!step->message.done) return false;
  if (step->kind == STEP_RECEIVE) {
    size_t bytes = step->message.arrived_bytes;
    if (bytes > step->message.bytes) {
      schedule->error = MPI_ERR_TRUNCATE;
      bytes = step->message.bytes;
    }
    if (step->packed) unpack_bytes(step->packed, bytes, step->block.data, step->block.count, step->block.type);
  }
  free(step->packed);
  step->packed = NULL;
  return true;
}

bool schedule_step(struct schedule *schedule) {
  for (;;) {
    while (schedule->at < schedule->count && schedule->steps[schedule->at].kind != STEP_FENCE) {
      struct step *step = &schedule->steps[schedule->at++];
      start_step(schedule, step);
    }
    for (; schedule->first < schedule->at; schedule->first++)
      if (!end_step(schedule, &schedule->steps[schedule->first])) return false;
    if (schedule->at == schedule->count) return true;
    schedule->first = ++schedule->at;
  }
}

int schedule_run(struct schedule *schedule) {
  while (!schedule_step(schedule)) wait_event();
  int error = schedule->error;
  schedule_free(schedule);
  return error;
}

static int work_start(struct request *request) {
  struct schedule *schedule = request->work->state;
  schedule->error = MPI_SUCCESS;
  schedule_restart(schedule);
  return MPI_SUCCESS;
}

static bool work_step(struct request *request) {
  struct schedule *schedule = request->work->state;
  if (!schedule_step(schedule)) return false;
  request->outcome.error = schedule->error;
  return true;
}

static void work_release(struct request *request) { schedule_free(request->work->state); }

struct request *schedule_request(struct schedule *schedule, bool persistent) {
  struct work work = {work_start, work_step, work_release, schedule, NULL};
  struct request *request = request_collective(schedule->comm, &work, persistent);
  if (!persistent) request_start(request);
  return request;
}
