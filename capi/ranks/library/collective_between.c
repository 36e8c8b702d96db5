/* Collectives between the two groups of an inter-communicator. Licence: MIT OR Apache-2.0.
 *
 * A schedule belongs to the inter-communicator. Its messages within a group go through `comm->local`, under the same
 * tag: no other schedule uses that communicator. Rank 0 of each group speaks for its group. */
#include "collective_build.h"

static bool leads(const struct comm *comm) { return comm_rank(comm) == 0; }

/* The leaders of both groups exchange data. */
static void exchange(struct schedule *schedule, struct comm *comm, struct block from, struct block to) {
  if (!leads(comm)) return;
  schedule_fence(schedule);
  schedule_receive(schedule, comm, 0, to);
  schedule_send(schedule, comm, 0, from);
}

void build_barrier_between(struct schedule *schedule, struct comm *comm) {
  struct block nothing = block_bytes(NULL, 0);
  build_barrier(schedule, comm->local);
  exchange(schedule, comm, nothing, nothing);
  schedule_fence(schedule);
  build_bcast(schedule, comm->local, 0, nothing);
}

void build_bcast_between(struct schedule *schedule, struct comm *comm, int root, struct block block) {
  if (root == MPI_PROC_NULL) return;
  if (root == MPI_ROOT) {
    schedule_send(schedule, comm, 0, block);
    return;
  }
  if (leads(comm)) schedule_receive(schedule, comm, root, block);
  schedule_fence(schedule);
  build_bcast(schedule, comm->local, 0, block);
}

/* Reduces within the group. Returns the result of the leader. */
static struct block reduce_group(struct schedule *schedule, struct comm *comm, struct operation *operation,
                                 struct block from) {
  struct block result = leads(comm) ? schedule_room(schedule, from) : (struct block){NULL, from.count, from.type};
  build_reduce(schedule, comm->local, 0, operation, from, result);
  return result;
}

void build_reduce_between(struct schedule *schedule, struct comm *comm, int root, struct operation *operation,
                          struct block from, struct block to) {
  if (root == MPI_PROC_NULL) return;
  if (root == MPI_ROOT) {
    schedule_receive(schedule, comm, 0, to);
    return;
  }
  struct block result = reduce_group(schedule, comm, operation, from);
  schedule_fence(schedule);
  if (leads(comm)) schedule_send(schedule, comm, root, result);
}

void build_allreduce_between(struct schedule *schedule, struct comm *comm, struct operation *operation,
                             struct block from, struct block to) {
  struct block result = reduce_group(schedule, comm, operation, from);
  exchange(schedule, comm, result, to);
  schedule_fence(schedule);
  build_bcast(schedule, comm->local, 0, to);
}

void build_gather_between(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                          const struct layout *layout) {
  if (root == MPI_PROC_NULL) return;
  if (root != MPI_ROOT) {
    schedule_send(schedule, comm, root, mine);
    return;
  }
  for (int peer = 0; peer < comm->remote->size; peer++)
    schedule_receive(schedule, comm, peer, layout_block(layout, peer));
}

void build_scatter_between(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                           struct block mine) {
  if (root == MPI_PROC_NULL) return;
  if (root != MPI_ROOT) {
    schedule_receive(schedule, comm, root, mine);
    return;
  }
  for (int peer = 0; peer < comm->remote->size; peer++) schedule_send(schedule, comm, peer, layout_block(layout, peer));
}

void build_allgather_between(struct schedule *schedule, struct comm *comm, struct block mine,
                             const struct layout *layout) {
  for (int peer = 0; peer < comm->remote->size; peer++)
    schedule_receive(schedule, comm, peer, layout_block(layout, peer));
  for (int peer = 0; peer < comm->remote->size; peer++) schedule_send(schedule, comm, peer, mine);
}

/* Parts without data are not sent. */
void build_alltoall_between(struct schedule *schedule, struct comm *comm, const struct layout *from,
                            const struct layout *to) {
  for (int peer = 0; peer < comm->remote->size; peer++) {
    struct block part = layout_block(to, peer);
    if (block_size(part) > 0) schedule_receive(schedule, comm, peer, part);
  }
  for (int peer = 0; peer < comm->remote->size; peer++) {
    struct block part = layout_block(from, peer);
    if (block_size(part) > 0) schedule_send(schedule, comm, peer, part);
  }
}

void build_reduce_scatter_between(struct schedule *schedule, struct comm *comm, struct operation *operation,
                                  struct block from, const struct layout *counts, struct block to) {
  struct block result = reduce_group(schedule, comm, operation, from);
  struct block all = leads(comm) ? schedule_room(schedule, from) : (struct block){0};
  exchange(schedule, comm, result, all);
  schedule_fence(schedule);
  MPI_Count at = 0;
  for (int peer = 0; peer < comm_size(comm) && leads(comm); peer++) {
    struct block part = {(char *)all.data + at * from.type->extent, layout_count(counts, peer), from.type};
    if (peer == 0)
      schedule_copy(schedule, part, to);
    else
      schedule_send(schedule, comm->local, peer, part);
    at += part.count;
  }
  if (!leads(comm)) schedule_receive(schedule, comm->local, 0, to);
}

void build_maximum(struct schedule *schedule, struct comm *comm, uint32_t *numbers, int count) {
  struct operation *maximum = operation_of(MPI_MAX);
  struct block mine = {numbers, count, type_of(MPI_UINT32_T)};
  if (!comm->remote) {
    build_allreduce(schedule, comm, maximum, mine, mine);
    return;
  }
  struct block theirs = schedule_room(schedule, mine);
  build_reduce(schedule, comm->local, 0, maximum, mine, mine);
  exchange(schedule, comm, mine, theirs);
  schedule_fence(schedule);
  if (leads(comm)) schedule_reduce(schedule, maximum, theirs, mine);
  build_bcast(schedule, comm->local, 0, mine);
}
