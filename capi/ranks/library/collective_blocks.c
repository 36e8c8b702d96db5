/* Collectives that move a part for each rank: gather, scatter, all-gather, all-to-all. Licence: MIT OR Apache-2.0. */
#include "collective_build.h"

enum {
  /* From so many bytes in all, an all-gather goes round a ring: rank 0 does not carry all of them. */
  RING_BYTES_MIN = 256 << 10,
  /* Parts of at most so many bytes, of at least so many ranks, are gathered and scattered along a tree. */
  TREE_BYTES_MAX = 1024,
  TREE_RANKS_MIN = 8,
};

MPI_Count layout_count(const struct layout *layout, int part) {
  if (!layout->counts) return layout->count;
  return layout->wide_counts ? ((const MPI_Count *)layout->counts)[part] : ((const int *)layout->counts)[part];
}

static MPI_Aint layout_place(const struct layout *layout, int part) {
  return layout->wide_places ? ((const MPI_Aint *)layout->places)[part] : ((const int *)layout->places)[part];
}

struct block layout_block(const struct layout *layout, int part) {
  struct datatype *type = layout->type ? layout->type : type_of(layout->types[part]);
  MPI_Count count = layout_count(layout, part);
  if (layout->same) return (struct block){layout->data, count, type};
  MPI_Aint place = layout->places ? layout_place(layout, part) : (MPI_Aint)part * (MPI_Aint)count;
  if (layout->type) place *= type->extent;
  return (struct block){layout->data + place, count, type};
}

struct layout layout_even(const void *data, MPI_Count count, struct datatype *type) {
  return (struct layout){.data = (char *)data, .type = type, .count = count};
}

void build_gather(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                  const struct layout *layout) {
  int rank = comm_rank(comm), size = comm_size(comm);
  if (rank != root) {
    schedule_send(schedule, comm, root, mine);
    return;
  }
  for (int peer = 0; peer < size; peer++) {
    if (peer != rank)
      schedule_receive(schedule, comm, peer, layout_block(layout, peer));
    else if (mine.type)
      schedule_copy(schedule, mine, layout_block(layout, peer));
  }
}

void build_scatter(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                   struct block mine) {
  int rank = comm_rank(comm), size = comm_size(comm);
  if (rank != root) {
    schedule_receive(schedule, comm, root, mine);
    return;
  }
  for (int peer = 0; peer < size; peer++) {
    if (peer != rank)
      schedule_send(schedule, comm, peer, layout_block(layout, peer));
    else if (mine.type)
      schedule_copy(schedule, layout_block(layout, peer), mine);
  }
}

/* A rank's place in a tree, and the ranks below it: `parts` ranks from `place` on, itself included. */
struct branch {
  int place, span, parts;
};

/* Places count from the root on. The parent of a place lies `span` before it. */
static struct branch branch_of(const struct comm *comm, int root) {
  int size = comm_size(comm), place = (comm_rank(comm) - root + size) % size, span = 1;
  while (span < size && !(place & span)) span *= 2;
  return (struct branch){place, span, span < size - place ? span : size - place};
}

static int rank_at(const struct comm *comm, int root, int place) { return (place + root) % comm_size(comm); }

/* The packed parts of the branch that lies `offset` below. */
static struct block branch_block(char *packed, size_t bytes, struct branch branch, int offset) {
  int parts = offset < branch.parts - offset ? offset : branch.parts - offset;
  return block_bytes(packed + (size_t)offset * bytes, (size_t)parts * bytes);
}

static void gather_tree(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                        const struct layout *layout, size_t bytes) {
  struct branch branch = branch_of(comm, root);
  int parent = rank_at(comm, root, branch.place - branch.span);
  if (branch.parts == 1) {
    schedule_send(schedule, comm, parent, mine);
    return;
  }
  char *packed = schedule_memory(schedule, (size_t)branch.parts * bytes);
  for (int offset = 1; offset < branch.parts; offset *= 2)
    schedule_receive(schedule, comm, rank_at(comm, root, branch.place + offset),
                     branch_block(packed, bytes, branch, offset));
  if (branch.place > 0) schedule_copy(schedule, mine, block_bytes(packed, bytes));
  schedule_fence(schedule);
  if (branch.place > 0) {
    schedule_send(schedule, comm, parent, block_bytes(packed, (size_t)branch.parts * bytes));
    return;
  }
  if (mine.type) schedule_copy(schedule, mine, layout_block(layout, root));
  for (int place = 1; place < branch.parts; place++)
    schedule_copy(schedule, block_bytes(packed + (size_t)place * bytes, bytes),
                  layout_block(layout, rank_at(comm, root, place)));
}

static void scatter_tree(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                         struct block mine, size_t bytes) {
  struct branch branch = branch_of(comm, root);
  int parent = rank_at(comm, root, branch.place - branch.span);
  if (branch.parts == 1) {
    schedule_receive(schedule, comm, parent, mine);
    return;
  }
  char *packed = schedule_memory(schedule, (size_t)branch.parts * bytes);
  if (branch.place > 0) schedule_receive(schedule, comm, parent, block_bytes(packed, (size_t)branch.parts * bytes));
  for (int place = 1; place < branch.parts && branch.place == 0; place++)
    schedule_copy(schedule, layout_block(layout, rank_at(comm, root, place)),
                  block_bytes(packed + (size_t)place * bytes, bytes));
  schedule_fence(schedule);
  for (int offset = branch.span / 2; offset > 0; offset /= 2)
    if (offset < branch.parts)
      schedule_send(schedule, comm, rank_at(comm, root, branch.place + offset),
                    branch_block(packed, bytes, branch, offset));
  if (mine.type)
    schedule_copy(schedule, branch.place > 0 ? block_bytes(packed, bytes) : layout_block(layout, root), mine);
}

/* All ranks decide alike, as they agree on the bytes of a part. */
static bool use_tree(const struct comm *comm, struct block mine, const struct layout *layout, size_t *bytes) {
  *bytes = mine.type ? block_size(mine) : data_bytes(layout->count, layout->type);
  return *bytes <= TREE_BYTES_MAX && comm_size(comm) >= TREE_RANKS_MIN;
}

void build_gather_even(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                       const struct layout *layout) {
  size_t bytes;
  if (use_tree(comm, mine, layout, &bytes))
    gather_tree(schedule, comm, root, mine, layout, bytes);
  else
    build_gather(schedule, comm, root, mine, layout);
}

void build_scatter_even(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                        struct block mine) {
  size_t bytes;
  if (use_tree(comm, mine, layout, &bytes))
    scatter_tree(schedule, comm, root, layout, mine, bytes);
  else
    build_scatter(schedule, comm, root, layout, mine);
}

static void allgather_ring(struct schedule *schedule, struct comm *comm, const struct layout *layout) {
  int rank = comm_rank(comm), size = comm_size(comm);
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (int step = 0; step < size - 1; step++) {
    schedule_fence(schedule);
    schedule_send(schedule, comm, right, layout_block(layout, (rank + size - step) % size));
    schedule_receive(schedule, comm, left, layout_block(layout, (left + size - step) % size));
  }
}

/* Gathers all parts at rank 0, packed, and broadcasts them. */
static void allgather_packed(struct schedule *schedule, struct comm *comm, struct block mine,
                             const struct layout *layout, size_t bytes) {
  int rank = comm_rank(comm), size = comm_size(comm);
  char *packed = schedule_memory(schedule, bytes);
  size_t at = 0;
  for (int peer = 0; peer < size && rank == 0; peer++) {
    struct block part = layout_block(layout, peer);
    struct block place = block_bytes(packed + at, block_size(part));
    if (peer == 0)
      schedule_copy(schedule, mine, place);
    else
      schedule_receive(schedule, comm, peer, place);
    at += block_size(part);
  }
  if (rank != 0) schedule_send(schedule, comm, 0, mine);
  schedule_fence(schedule);
  build_bcast(schedule, comm, 0, block_bytes(packed, bytes));
  schedule_fence(schedule);
  at = 0;
  for (int peer = 0; peer < size; peer++) {
    struct block part = layout_block(layout, peer);
    schedule_copy(schedule, block_bytes(packed + at, block_size(part)), part);
    at += block_size(part);
  }
}

void build_allgather(struct schedule *schedule, struct comm *comm, struct block mine, const struct layout *layout) {
  int rank = comm_rank(comm), size = comm_size(comm);
  struct block own = layout_block(layout, rank);
  bool in_place = !mine.type, joined = !layout->places && is_dense(layout->type);
  if (in_place) mine = own;
  size_t bytes = 0;
  for (int peer = 0; peer < size; peer++) bytes += data_bytes(layout_count(layout, peer), layout->type);
  if (bytes >= RING_BYTES_MIN || size == 1) {
    if (!in_place) schedule_copy(schedule, mine, own);
    allgather_ring(schedule, comm, layout);
  } else if (joined) {
    build_gather_even(schedule, comm, 0, in_place && rank == 0 ? (struct block){0} : mine, layout);
    schedule_fence(schedule);
    build_bcast(schedule, comm, 0, block_bytes(layout->data, bytes));
  } else {
    allgather_packed(schedule, comm, mine, layout, bytes);
  }
}

/* Parts without data are not sent. */
void build_alltoall(struct schedule *schedule, struct comm *comm, const struct layout *from, const struct layout *to) {
  int rank = comm_rank(comm), size = comm_size(comm);
  struct block *packed = from ? NULL : schedule_memory(schedule, (size_t)size * sizeof *packed);
  for (int peer = 0; peer < size && packed; peer++) {
    struct block part = layout_block(to, peer);
    if (peer == rank || block_size(part) == 0) continue;
    packed[peer] = schedule_packed(schedule, part);
    schedule_copy(schedule, part, packed[peer]);
  }
  for (int step = 1; step < size; step++) {
    int peer = (rank + size - step) % size;
    struct block part = layout_block(to, peer);
    if (block_size(part) > 0) schedule_receive(schedule, comm, peer, part);
  }
  for (int step = 1; step < size; step++) {
    int peer = (rank + step) % size;
    struct block part = layout_block(from ? from : to, peer);
    if (block_size(part) > 0) schedule_send(schedule, comm, peer, packed ? packed[peer] : part);
  }
  if (from) schedule_copy(schedule, layout_block(from, rank), layout_block(to, rank));
}

void build_reduce_scatter(struct schedule *schedule, struct comm *comm, struct operation *operation, struct block from,
                          const struct layout *counts, struct block to) {
  struct block all = comm_rank(comm) == 0 ? schedule_room(schedule, from) : (struct block){0};
  build_reduce(schedule, comm, 0, operation, from, all);
  schedule_fence(schedule);
  /* The parts lie one behind the other, in the order of ranks. */
  if (comm_rank(comm) != 0) {
    schedule_receive(schedule, comm, 0, to);
    return;
  }
  char *part = all.data;
  for (int peer = 0; peer < comm_size(comm); peer++) {
    struct block block = {part, layout_count(counts, peer), from.type};
    if (peer == 0)
      schedule_copy(schedule, block, to);
    else
      schedule_send(schedule, comm, peer, block);
    part += block.count * from.type->extent;
  }
}
