/* Groups and communicators as structures. The functions of MPI on them are elsewhere. Licence: MIT OR Apache-2.0. */
#include "internal.h"

struct comm *world, *self;
struct group *empty_group;
struct mainstay_rank_info rank_info;

struct group *group_new(int size) {
  struct group *group = object_new(KIND_GROUP, sizeof *group);
  group->size = size;
  group->rank = MPI_UNDEFINED;
  group->members = take_memory((size_t)size * sizeof *group->members);
  return group;
}

void group_finish(struct group *group) {
  group->rank = MPI_UNDEFINED;
  for (int i = 0; i < group->size; i++)
    if (group->members[i] == rank_info.rank) {
      group->rank = i;
      return;
    }
}

int group_place(struct group *group, int number) {
  if (number < 0 || number >= rank_info.ranks) return MPI_UNDEFINED;
  /* Most groups begin like MPI_COMM_WORLD. */
  if (number < group->size && group->members[number] == number) return number;
  if (!group->places) {
    group->places = take_memory((size_t)rank_info.ranks * sizeof *group->places);
    for (int i = 0; i < rank_info.ranks; i++) group->places[i] = -1;
    for (int i = group->size; i-- > 0;) group->places[group->members[i]] = i;
  }
  return group->places[number] < 0 ? MPI_UNDEFINED : group->places[number];
}

void group_release(struct group *group) {
  if (!group || !object_drop(group)) return;
  free(group->members);
  free(group->places);
  object_free(group);
}

static void comm_fill(struct comm *comm, struct group *group, struct group *remote, uint32_t context) {
  comm->group = group;
  comm->remote = remote;
  comm->context = context;
}

struct comm *comm_new(struct group *group, struct group *remote, uint32_t context, const struct comm *parent) {
  struct comm *comm = object_new(KIND_COMM, sizeof *comm);
  comm_fill(comm, group, remote, context);
  comm->errhandler = object_hold(parent ? parent->errhandler : errors_are_fatal);
  return comm;
}

void comm_release(struct comm *comm) {
  if (!comm || !object_drop(comm)) return;
  if (comm->local) comm_release(comm->local);
  group_release(comm->group);
  group_release(comm->remote);
  errhandler_release(comm->errhandler);
  info_release(comm->info);
  if (comm->topology) topology_release(comm->topology);
  object_free(comm);
}

void ask_host(void) {
  if (!rank_info.ranks) mainstay_gate(MAINSTAY_GATE_INFO, &rank_info);
}

/* Contexts 0 and CONTEXTS belong to the two communicators that exist from the start. */
void members_start(void) {
  struct group *all, *mine;
  ask_host();
  empty_group = object_predefined(KIND_GROUP, sizeof *empty_group, (uintptr_t)MPI_GROUP_EMPTY);
  empty_group->rank = MPI_UNDEFINED;
  all = group_new(rank_info.ranks);
  for (int i = 0; i < all->size; i++) all->members[i] = i;
  all->rank = rank_info.rank;
  mine = group_new(1);
  mine->members[0] = rank_info.rank;
  mine->rank = 0;
  world = object_predefined(KIND_COMM, sizeof *world, (uintptr_t)MPI_COMM_WORLD);
  comm_fill(world, all, NULL, 0);
  strcpy(world->name, "MPI_COMM_WORLD");
  self = object_predefined(KIND_COMM, sizeof *self, (uintptr_t)MPI_COMM_SELF);
  comm_fill(self, mine, NULL, CONTEXTS);
  strcpy(self->name, "MPI_COMM_SELF");
  world->errhandler = self->errhandler = errors_are_fatal;
}
