/* New communicators from old ones: duplicates, parts, splits. Licence: MIT OR Apache-2.0. */
#include "collective_build.h"
#include "comm.h"

void share_bytes(struct comm *owner, struct comm *comm, int root, void *data, size_t bytes) {
  struct schedule *schedule = schedule_new(owner);
  build_bcast(schedule, comm, root, block_bytes(data, bytes));
  schedule_run(schedule);
}

struct comm *comm_make(struct group *group, struct group *remote, uint32_t context, const struct comm *parent) {
  struct comm *comm = comm_new(group, remote, context, parent);
  if (remote) comm->local = comm_new(object_hold(group), NULL, context + CONTEXTS, parent);
  return comm;
}

struct comm *comm_twin(struct comm *comm) {
  struct group *remote = comm->remote ? object_hold(comm->remote) : NULL;
  return comm_make(object_hold(comm->group), remote, context_agree(comm), comm);
}

/* Gives a duplicate all that it takes over from the original. */
static int inherit(struct comm *comm, struct comm *copy, const struct info *info) {
  copy->info = info_copy(info);
  if (comm->topology) copy->topology = topology_copy(comm->topology);
  return attributes_copy(comm->attributes, &copy->attributes, (uintptr_t)comm_handle(comm));
}

static int duplicate(struct comm *comm, const struct info *info, MPI_Comm *newcomm) {
  struct comm *copy = comm_twin(comm);
  int error = inherit(comm, copy, info);
  if (error) {
    comm_release(copy);
    *newcomm = MPI_COMM_NULL;
    return error;
  }
  *newcomm = comm_handle(copy);
  return MPI_SUCCESS;
}

MPI(Comm_dup)(MPI_Comm comm, MPI_Comm *newcomm) {
  struct comm *old = comm_of(comm);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!newcomm) return fail(old, MPI_ERR_ARG);
  int error = duplicate(old, old->info, newcomm);
  return error ? fail(old, error) : MPI_SUCCESS;
}

MPI(Comm_dup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm) {
  struct comm *old = comm_of(comm);
  const struct info *hints = info_of(info);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!hints && info != MPI_INFO_NULL) return fail(old, MPI_ERR_INFO);
  if (!newcomm) return fail(old, MPI_ERR_ARG);
  int error = duplicate(old, hints, newcomm);
  return error ? fail(old, error) : MPI_SUCCESS;
}

/* The copy exists at once; its context is known when the request is done. */
static void finish_duplicate(struct schedule *schedule, void *argument) {
  struct comm *copy = argument;
  (void)schedule;
  if (copy->local) copy->local->context = copy->context + CONTEXTS;
}

static int duplicate_later(struct comm *comm, const struct info *info, MPI_Comm *newcomm, MPI_Request *request) {
  struct group *remote = comm->remote ? object_hold(comm->remote) : NULL;
  struct comm *copy = comm_make(object_hold(comm->group), remote, 0, comm);
  int error = inherit(comm, copy, info);
  if (error) {
    comm_release(copy);
    return error;
  }
  struct schedule *schedule = schedule_new(comm);
  context_agree_steps(schedule, comm, &copy->context);
  schedule_do(schedule, finish_duplicate, copy);
  *newcomm = comm_handle(copy);
  *request = request_handle(schedule_request(schedule, false));
  return MPI_SUCCESS;
}

MPI(Comm_idup)(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request) {
  struct comm *old = comm_of(comm);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!newcomm || !request) return fail(old, MPI_ERR_ARG);
  int error = duplicate_later(old, old->info, newcomm, request);
  return error ? fail(old, error) : MPI_SUCCESS;
}

MPI(Comm_idup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request) {
  struct comm *old = comm_of(comm);
  const struct info *hints = info_of(info);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!hints && info != MPI_INFO_NULL) return fail(old, MPI_ERR_INFO);
  if (!newcomm || !request) return fail(old, MPI_ERR_ARG);
  int error = duplicate_later(old, hints, newcomm, request);
  return error ? fail(old, error) : MPI_SUCCESS;
}

/* True if all members of one group are in the other. */
static bool is_part(const struct group *part, struct group *whole) {
  for (int i = 0; i < part->size; i++)
    if (group_place(whole, part->members[i]) == MPI_UNDEFINED) return false;
  return true;
}

/* The group that the other side of an inter-communicator passes. */
static struct group *remote_part(struct comm *comm, const struct group *part) {
  int sizes[2] = {part->size, 0};
  struct mainstay_message message;
  bool leads = comm_rank(comm) == 0;
  if (leads) {
    start_send(&message, comm, CONTEXT_LIBRARY, 0, 0, &sizes[0], sizeof sizes[0]);
    receive_bytes(comm, CONTEXT_LIBRARY, 0, 0, &sizes[1], sizeof sizes[1]);
    wait_message(&message);
  }
  share_bytes(comm, comm->local, 0, &sizes[1], sizeof sizes[1]);
  struct group *remote = group_new(sizes[1]);
  size_t bytes = (size_t)sizes[1] * sizeof *remote->members;
  if (leads) {
    start_send(&message, comm, CONTEXT_LIBRARY, 0, 0, part->members, (size_t)part->size * sizeof *part->members);
    receive_bytes(comm, CONTEXT_LIBRARY, 0, 0, remote->members, bytes);
    wait_message(&message);
  }
  share_bytes(comm, comm->local, 0, remote->members, bytes);
  group_finish(remote);
  return remote;
}

MPI(Comm_create)(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm) {
  struct comm *old = comm_of(comm);
  struct group *part = group_of(group);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!part || !is_part(part, old->group)) return fail(old, MPI_ERR_GROUP);
  if (!newcomm) return fail(old, MPI_ERR_ARG);
  uint32_t context = context_agree(old);
  struct group *remote = old->remote ? remote_part(old, part) : NULL;
  *newcomm = MPI_COMM_NULL;
  if (part->rank != MPI_UNDEFINED && (!remote || remote->size > 0))
    *newcomm = comm_handle(comm_make(object_hold(part), remote, context, old));
  else
    group_release(remote);
  return MPI_SUCCESS;
}

/* The members of the group alone agree, along a tree of their ranks in it. */
static uint32_t agree_in_group(struct comm *comm, struct group *part, int tag) {
  uint32_t number = context_offer(), other;
  int rank = part->rank, mask = 1;
  for (; mask < part->size && !(rank & mask); mask *= 2) {
    if (rank + mask >= part->size) continue;
    int peer = group_place(comm->group, part->members[rank + mask]);
    receive_bytes(comm, CONTEXT_LIBRARY, peer, tag, &other, sizeof other);
    if (other > number) number = other;
  }
  if (mask < part->size) {
    int peer = group_place(comm->group, part->members[rank - mask]);
    send_bytes(comm, CONTEXT_LIBRARY, peer, tag, &number, sizeof number);
    receive_bytes(comm, CONTEXT_LIBRARY, peer, tag, &number, sizeof number);
  }
  for (mask /= 2; mask > 0; mask /= 2)
    if (rank + mask < part->size)
      send_bytes(comm, CONTEXT_LIBRARY, group_place(comm->group, part->members[rank + mask]), tag, &number,
                 sizeof number);
  context_take(number);
  return number;
}

MPI(Comm_create_group)(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm) {
  struct comm *old = comm_of(comm);
  struct group *part = group_of(group);
  if (!old || old->remote) return fail(old, MPI_ERR_COMM);
  if (!part || !is_part(part, old->group)) return fail(old, MPI_ERR_GROUP);
  if (tag < 0) return fail(old, MPI_ERR_TAG);
  if (!newcomm) return fail(old, MPI_ERR_ARG);
  *newcomm = MPI_COMM_NULL;
  if (part->rank != MPI_UNDEFINED) {
    uint32_t context = agree_in_group(old, part, tag);
    *newcomm = comm_handle(comm_make(object_hold(part), NULL, context, old));
  }
  return MPI_SUCCESS;
}

/* The wish of one rank in a split. */
struct wish {
  int color, key, number; /* of the job */
};

static int compare_wishes(const void *one, const void *other) {
  const struct wish *a = *(const struct wish *const *)one, *b = *(const struct wish *const *)other;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a < b ? -1 : a > b; /* both lie in one array, in the order of ranks */
}

/* The members of a group that wish a colour, by key and then by rank. NULL if there are none. */
static struct group *chosen(const struct wish *wishes, int size, int color) {
  const struct wish **order = take_memory(((size_t)size + 1) * sizeof *order);
  int count = 0;
  for (int i = 0; i < size; i++)
    if (wishes[i].color == color) order[count++] = &wishes[i];
  qsort(order, (size_t)count, sizeof *order, compare_wishes);
  struct group *group = count > 0 ? group_new(count) : NULL;
  for (int i = 0; i < count; i++) group->members[i] = order[i]->number;
  if (group) group_finish(group);
  free(order);
  return group;
}

struct comm *comm_split_by(struct comm *comm, int color, int key) {
  struct wish mine = {color, key, rank_info.rank};
  struct wish *local = take_memory((size_t)comm_size(comm) * sizeof *local), *remote = NULL;
  struct datatype *type = block_bytes(NULL, 0).type;
  struct block block = block_bytes(&mine, sizeof mine);
  uint32_t context = context_agree(comm);
  struct schedule *schedule = schedule_new(comm);
  struct layout layout = layout_even(local, sizeof mine, type);
  build_allgather(schedule, comm->remote ? comm->local : comm, block, &layout);
  if (comm->remote) {
    remote = take_memory((size_t)comm->remote->size * sizeof *remote);
    layout = layout_even(remote, sizeof mine, type);
    build_allgather_between(schedule, comm, block, &layout);
  }
  schedule_run(schedule);
  struct comm *result = NULL;
  if (color != MPI_UNDEFINED) {
    struct group *others = remote ? chosen(remote, comm->remote->size, color) : NULL;
    if (!remote || others) result = comm_make(chosen(local, comm_size(comm), color), others, context, comm);
  }
  free(local);
  free(remote);
  return result;
}

MPI(Comm_split)(MPI_Comm comm, int color, int key, MPI_Comm *newcomm) {
  struct comm *old = comm_of(comm);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!newcomm) return fail(old, MPI_ERR_ARG);
  struct comm *part = comm_split_by(old, color, key);
  *newcomm = part ? comm_handle(part) : MPI_COMM_NULL;
  return MPI_SUCCESS;
}

/* The ranks of a node are those that the job placed there when it first started. */
MPI(Comm_split_type)(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm) {
  struct comm *old = comm_of(comm);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  if (!info_of(info) && info != MPI_INFO_NULL) return fail(old, MPI_ERR_INFO);
  bool shared = split_type == MPI_COMM_TYPE_SHARED;
  bool hardware = split_type == MPI_COMM_TYPE_HW_GUIDED || split_type == MPI_COMM_TYPE_HW_UNGUIDED ||
                  split_type == MPI_COMM_TYPE_RESOURCE_GUIDED;
  if (!newcomm || (!shared && !hardware && split_type != MPI_UNDEFINED)) return fail(old, MPI_ERR_ARG);
  struct comm *part = comm_split_by(old, shared ? rank_info.node : MPI_UNDEFINED, key);
  *newcomm = part ? comm_handle(part) : MPI_COMM_NULL;
  return MPI_SUCCESS;
}
