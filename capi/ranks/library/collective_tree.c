/* Collectives along a tree of rank numbers: barrier, broadcast, reductions, scans. Licence: MIT OR Apache-2.0.
 *
 * In the tree of reductions, rank r combines r .. r + 2^k - 1 in its k-th round. The tree is the same for each root,
 * and operands stay in the order of ranks unless the operation commutes. */
#include "collective_build.h"
#include "operation.h"

enum {
  /* From so many bytes on, an all-reduce of 2^k ranks halves the data in each round. */
  HALVING_BYTES_MIN = 64 << 10,
  HALVING_RANKS_MIN = 4,
  ROUNDS_MAX = 32,
};

void build_barrier(struct schedule *schedule, struct comm *comm) {
  int rank = comm_rank(comm), size = comm_size(comm), mask = 1;
  struct block nothing = block_bytes(NULL, 0);
  for (; mask < size && !(rank & mask); mask *= 2)
    if (rank + mask < size) schedule_receive(schedule, comm, rank + mask, nothing);
  schedule_fence(schedule);
  if (mask < size) {
    schedule_send(schedule, comm, rank - mask, nothing);
    schedule_receive(schedule, comm, rank - mask, nothing);
    schedule_fence(schedule);
  }
  for (mask /= 2; mask > 0; mask /= 2)
    if (rank + mask < size) schedule_send(schedule, comm, rank + mask, nothing);
}

static void bcast_dense(struct schedule *schedule, struct comm *comm, int root, struct block block) {
  int size = comm_size(comm), place = (comm_rank(comm) - root + size) % size, mask = 1;
  while (mask < size && !(place & mask)) mask *= 2;
  if (mask < size) {
    schedule_receive(schedule, comm, (place - mask + root) % size, block);
    schedule_fence(schedule);
  }
  for (mask /= 2; mask > 0; mask /= 2)
    if (place + mask < size) schedule_send(schedule, comm, (place + mask + root) % size, block);
}

void build_bcast(struct schedule *schedule, struct comm *comm, int root, struct block block) {
  if (comm_size(comm) == 1) return;
  if (is_dense(block.type)) {
    bcast_dense(schedule, comm, root, block);
    return;
  }
  struct block packed = schedule_packed(schedule, block);
  if (comm_rank(comm) == root) {
    schedule_copy(schedule, block, packed);
    bcast_dense(schedule, comm, root, packed);
  } else {
    bcast_dense(schedule, comm, root, packed);
    schedule_fence(schedule);
    schedule_copy(schedule, packed, block);
  }
}

/* Combines the `from` of all ranks up the tree. Returns the block that has the result at rank 0, and may be `from`
 * itself. `room` is memory for results; if it has no address, memory is taken where it is needed. */
static struct block combine(struct schedule *schedule, struct comm *comm, struct operation *operation,
                            struct block from, struct block room) {
  int rank = comm_rank(comm), size = comm_size(comm);
  struct block result = from, spare = {0};
  bool untouched = true; /* `result` is the program's send buffer */
  if (room.data == from.data) untouched = false, room.data = NULL;
  for (int mask = 1; mask < size; mask *= 2) {
    if (rank & mask) {
      schedule_fence(schedule);
      schedule_send(schedule, comm, rank - mask, result);
      schedule_fence(schedule);
      return result;
    }
    if (rank + mask >= size) continue;
    struct block *other = untouched ? &room : &spare;
    if (!other->data) *other = schedule_room(schedule, from);
    schedule_fence(schedule);
    schedule_receive(schedule, comm, rank + mask, *other);
    schedule_fence(schedule);
    if (operation->commutes && !untouched) {
      schedule_reduce(schedule, operation, *other, result);
      continue;
    }
    schedule_reduce(schedule, operation, result, *other);
    struct block combined = *other;
    if (!untouched) *other = result;
    result = combined;
    untouched = false;
  }
  return result;
}

void build_reduce(struct schedule *schedule, struct comm *comm, int root, struct operation *operation,
                  struct block from, struct block to) {
  int rank = comm_rank(comm);
  struct block room = rank == root ? to : (struct block){NULL, from.count, from.type};
  struct block result = combine(schedule, comm, operation, from, room);
  if (rank == 0 && root == 0 && result.data != to.data) schedule_copy(schedule, result, to);
  if (root == 0) return;
  if (rank == 0) {
    schedule_fence(schedule);
    schedule_send(schedule, comm, root, result);
  } else if (rank == root) {
    schedule_fence(schedule);
    schedule_receive(schedule, comm, 0, to);
  }
}

/* Elements `first` to `end` of a block. */
static struct block block_part(struct block block, MPI_Count first, MPI_Count end) {
  return (struct block){(char *)block.data + first * block.type->extent, end - first, block.type};
}

static bool use_halving(const struct comm *comm, const struct operation *operation, struct block from) {
  int size = comm_size(comm);
  return size >= HALVING_RANKS_MIN && (size & (size - 1)) == 0 && operation->commutes && is_dense(from.type) &&
         block_size(from) >= HALVING_BYTES_MIN && from.count >= size;
}

/* In round k, ranks that differ in bit k exchange halves of their elements, and each combines one half. This is the
 * tree of `combine` for each element. Then the results go back the same way. */
static void allreduce_halving(struct schedule *schedule, struct comm *comm, struct operation *operation,
                              struct block from, struct block to) {
  MPI_Count firsts[ROUNDS_MAX], ends[ROUNDS_MAX], first = 0, end = from.count;
  int rank = comm_rank(comm), size = comm_size(comm), round = 0;
  bool in_place = from.data == to.data;
  struct block spare = schedule_room(schedule, block_part(from, 0, in_place ? end - end / 2 : end - end / 4 * 3));
  for (int mask = 1; mask < size; mask *= 2, round++) {
    MPI_Count middle = first + (end - first) / 2;
    bool upper = rank & mask;
    struct block own = round == 0 ? from : to;
    firsts[round] = first;
    ends[round] = end;
    schedule_fence(schedule);
    schedule_send(schedule, comm, rank ^ mask, upper ? block_part(own, first, middle) : block_part(own, middle, end));
    if (upper)
      first = middle;
    else
      end = middle;
    struct block kept = block_part(to, first, end);
    bool direct = round == 0 && !in_place;
    struct block arrived = direct ? kept : block_part(spare, 0, end - first);
    schedule_receive(schedule, comm, rank ^ mask, arrived);
    schedule_fence(schedule);
    schedule_reduce(schedule, operation, direct ? block_part(from, first, end) : arrived, kept);
  }
  while (round-- > 0) {
    int peer = rank ^ 1 << round;
    schedule_fence(schedule);
    schedule_send(schedule, comm, peer, block_part(to, first, end));
    schedule_receive(schedule, comm, peer,
                     first == firsts[round] ? block_part(to, end, ends[round]) : block_part(to, firsts[round], first));
    first = firsts[round];
    end = ends[round];
  }
}

void build_allreduce(struct schedule *schedule, struct comm *comm, struct operation *operation, struct block from,
                     struct block to) {
  if (use_halving(comm, operation, from)) {
    allreduce_halving(schedule, comm, operation, from, to);
    return;
  }
  struct block result = combine(schedule, comm, operation, from, to);
  if (comm_rank(comm) == 0 && result.data != to.data) schedule_copy(schedule, result, to);
  schedule_fence(schedule);
  build_bcast(schedule, comm, 0, to);
}

/* In round k, ranks exchange the results of their blocks of 2^k ranks: a rank puts the block of lower ranks in front of
 * its own result. */
void build_scan(struct schedule *schedule, struct comm *comm, struct operation *operation, struct block from,
                struct block to, bool inclusive) {
  int rank = comm_rank(comm), size = comm_size(comm);
  bool has_result = inclusive;
  struct block partial = schedule_room(schedule, from), arrived = schedule_room(schedule, from);
  schedule_copy(schedule, from, partial);
  if (inclusive && from.data != to.data) schedule_copy(schedule, from, to);
  for (int mask = 1; mask < size; mask *= 2) {
    int peer = rank ^ mask;
    if (peer >= size) continue;
    schedule_fence(schedule);
    schedule_send(schedule, comm, peer, partial);
    schedule_receive(schedule, comm, peer, arrived);
    schedule_fence(schedule);
    if (peer < rank) {
      if (has_result)
        schedule_reduce(schedule, operation, arrived, to);
      else
        schedule_copy(schedule, arrived, to);
      has_result = true;
    }
    if (peer < rank || operation->commutes) {
      schedule_reduce(schedule, operation, arrived, partial);
    } else {
      schedule_reduce(schedule, operation, partial, arrived);
      struct block former = partial;
      partial = arrived;
      arrived = former;
    }
  }
}
