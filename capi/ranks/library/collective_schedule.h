/* A collective as a schedule of steps. Licence: MIT OR Apache-2.0.
 *
 * The functions that build a schedule add steps to it; nothing happens before it runs. Steps between two fences start
 * together: a step that needs the result of a message stands behind a fence. A blocking collective runs its schedule to
 * the end. A nonblocking one hangs it on a request, and each call that waits or tests moves it on. */
#ifndef MAINSTAY_COLLECTIVE_SCHEDULE_H
#define MAINSTAY_COLLECTIVE_SCHEDULE_H

#include "internal.h"

/* `count` elements of a datatype at an address. */
struct block {
  void *data;
  MPI_Count count;
  struct datatype *type;
};

struct schedule;

/* A function within a schedule. It may move the schedule back by `schedule_restart`. */
typedef void schedule_call(struct schedule *schedule, void *argument);

/* An empty schedule of the next collective of a communicator. */
struct schedule *schedule_new(struct comm *comm);
/* Frees what belongs to it. */
void schedule_free(struct schedule *schedule);

void schedule_send(struct schedule *schedule, struct comm *comm, int peer, struct block from);
void schedule_receive(struct schedule *schedule, struct comm *comm, int peer, struct block to);
void schedule_copy(struct schedule *schedule, struct block from, struct block to);
/* Puts `in operation inout` into `inout`. */
void schedule_reduce(struct schedule *schedule, struct operation *operation, struct block in, struct block inout);
void schedule_do(struct schedule *schedule, schedule_call *call, void *argument);
void schedule_fence(struct schedule *schedule);

/* Memory that lives as long as the schedule. */
void *schedule_memory(struct schedule *schedule, size_t bytes);
/* Memory for as many elements of the type as `like` has. */
struct block schedule_room(struct schedule *schedule, struct block like);
/* Memory for the packed bytes of a block. */
struct block schedule_packed(struct schedule *schedule, struct block like);
struct block block_bytes(void *data, size_t bytes);
static inline size_t block_size(struct block block) { return data_bytes(block.count, block.type); }

/* Makes the schedule begin again from its first step; for a call within it, or before it runs. */
void schedule_restart(struct schedule *schedule);
/* Goes on as far as it can without waiting. Returns true at the end. */
bool schedule_step(struct schedule *schedule);
/* Runs to the end and frees the schedule. Returns MPI_SUCCESS or a class of errors. */
int schedule_run(struct schedule *schedule);
/* A request that runs the schedule. One that is not persistent is started at once. */
struct request *schedule_request(struct schedule *schedule, bool persistent);

#endif /* MAINSTAY_COLLECTIVE_SCHEDULE_H */
