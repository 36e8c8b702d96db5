/* Inter-communicators: made of two groups, and made one group. Licence: MIT OR Apache-2.0. */
#include "collective_build.h"
#include "comm.h"

/* Both leaders exchange `bytes` bytes of each side through the communicator that they share. */
static void exchange(struct comm *peers, int leader, int tag, const void *mine, size_t bytes, void *theirs,
                     size_t their_bytes) {
  struct mainstay_message message;
  start_send(&message, peers, CONTEXT_LIBRARY, leader, tag, mine, bytes);
  receive_bytes(peers, CONTEXT_LIBRARY, leader, tag, theirs, their_bytes);
  wait_message(&message);
}

static bool overlap(const struct group *one, struct group *other) {
  for (int i = 0; i < one->size; i++)
    if (group_place(other, one->members[i]) != MPI_UNDEFINED) return true;
  return false;
}

/* The largest number that any member of `local` offers. It is not taken yet. */
static uint32_t offer_of_group(struct comm *local) {
  struct schedule *schedule = schedule_new(local);
  uint32_t number = context_offer();
  build_maximum(schedule, local, &number, 1);
  schedule_run(schedule);
  return number;
}

/* The inter-communicator, or NULL if the groups overlap. */
static struct comm *connect(struct comm *local, int local_leader, struct comm *peers, int remote_leader, int tag) {
  struct {
    uint32_t context;
    int size;
  } mine = {offer_of_group(local), comm_size(local)}, theirs;
  bool leads = comm_rank(local) == local_leader;
  if (leads) {
    exchange(peers, remote_leader, tag, &mine, sizeof mine, &theirs, sizeof theirs);
    if (mine.context > theirs.context) theirs.context = mine.context;
  }
  share_bytes(local, local, local_leader, &theirs, sizeof theirs);
  struct group *remote = group_new(theirs.size);
  size_t bytes = (size_t)theirs.size * sizeof *remote->members;
  if (leads)
    exchange(peers, remote_leader, tag, local->group->members, (size_t)mine.size * sizeof *remote->members,
             remote->members, bytes);
  share_bytes(local, local, local_leader, remote->members, bytes);
  group_finish(remote);
  context_take(theirs.context);
  if (!overlap(local->group, remote)) return comm_make(object_hold(local->group), remote, theirs.context, local);
  group_release(remote);
  return NULL;
}

MPI(Intercomm_create)(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
                      MPI_Comm *newintercomm) {
  struct comm *local = comm_of(local_comm), *peers = NULL;
  if (!local || local->remote) return fail(local, MPI_ERR_COMM);
  if (local_leader < 0 || local_leader >= comm_size(local)) return fail(local, MPI_ERR_RANK);
  if (!newintercomm) return fail(local, MPI_ERR_ARG);
  if (comm_rank(local) == local_leader) {
    peers = comm_of(peer_comm);
    if (!peers) return fail(local, MPI_ERR_COMM);
    if (remote_leader < 0 || remote_leader >= comm_peers(peers)->size) return fail(local, MPI_ERR_RANK);
    if (!peers->remote && remote_leader == comm_rank(peers)) return fail(local, MPI_ERR_RANK);
    if (tag < 0) return fail(local, MPI_ERR_TAG);
  }
  struct comm *joined = connect(local, local_leader, peers, remote_leader, tag);
  if (!joined) return fail(local, MPI_ERR_COMM);
  *newintercomm = comm_handle(joined);
  return MPI_SUCCESS;
}

static struct group *join(const struct group *first, const struct group *second) {
  struct group *group = group_new(first->size + second->size);
  memcpy(group->members, first->members, (size_t)first->size * sizeof *group->members);
  memcpy(group->members + first->size, second->members, (size_t)second->size * sizeof *group->members);
  group_finish(group);
  return group;
}

/* If both groups say the same, the group whose first member has the lower number comes first. */
MPI(Intercomm_merge)(MPI_Comm intercomm, int high, MPI_Comm *newintracomm) {
  struct comm *old = comm_of(intercomm);
  if (!old || !old->remote) return fail(old, MPI_ERR_COMM);
  if (!newintracomm) return fail(old, MPI_ERR_ARG);
  uint32_t context = context_agree(old);
  int mine = high != 0, theirs = 0;
  if (comm_rank(old) == 0) exchange(old, 0, 0, &mine, sizeof mine, &theirs, sizeof theirs);
  int both[2] = {mine, theirs};
  share_bytes(old, old->local, 0, both, sizeof both);
  bool first = both[0] != both[1] ? both[0] < both[1] : old->group->members[0] < old->remote->members[0];
  struct group *group = first ? join(old->group, old->remote) : join(old->remote, old->group);
  *newintracomm = comm_handle(comm_make(group, NULL, context, old));
  return MPI_SUCCESS;
}
