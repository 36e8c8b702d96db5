/* Communicators: their members, names, hints, end. Licence: MIT OR Apache-2.0. */
#include "comm.h"

MPI(Comm_size)(MPI_Comm comm, int *size) {
  struct comm *members = comm_of(comm);
  if (!members) return fail(NULL, MPI_ERR_COMM);
  if (!size) return fail(members, MPI_ERR_ARG);
  *size = comm_size(members);
  return MPI_SUCCESS;
}

MPI(Comm_rank)(MPI_Comm comm, int *rank) {
  struct comm *members = comm_of(comm);
  if (!members) return fail(NULL, MPI_ERR_COMM);
  if (!rank) return fail(members, MPI_ERR_ARG);
  *rank = comm_rank(members);
  return MPI_SUCCESS;
}

MPI(Comm_test_inter)(MPI_Comm comm, int *flag) {
  struct comm *members = comm_of(comm);
  if (!members) return fail(NULL, MPI_ERR_COMM);
  if (!flag) return fail(members, MPI_ERR_ARG);
  *flag = members->remote != NULL;
  return MPI_SUCCESS;
}

MPI(Comm_remote_size)(MPI_Comm comm, int *size) {
  struct comm *members = comm_of(comm);
  if (!members || !members->remote) return fail(members, MPI_ERR_COMM);
  if (!size) return fail(members, MPI_ERR_ARG);
  *size = members->remote->size;
  return MPI_SUCCESS;
}

MPI(Comm_group)(MPI_Comm comm, MPI_Group *group) {
  struct comm *members = comm_of(comm);
  if (!members) return fail(NULL, MPI_ERR_COMM);
  if (!group) return fail(members, MPI_ERR_ARG);
  *group = group_handle(object_hold(members->group));
  return MPI_SUCCESS;
}

MPI(Comm_remote_group)(MPI_Comm comm, MPI_Group *group) {
  struct comm *members = comm_of(comm);
  if (!members || !members->remote) return fail(members, MPI_ERR_COMM);
  if (!group) return fail(members, MPI_ERR_ARG);
  *group = group_handle(object_hold(members->remote));
  return MPI_SUCCESS;
}

static int compare_groups(struct group *one, struct group *other) {
  MPI_Group first = group_handle(one), second = group_handle(other);
  int result;
  PMPI_Group_compare(first, second, &result);
  return result;
}

MPI(Comm_compare)(MPI_Comm comm1, MPI_Comm comm2, int *result) {
  struct comm *one = comm_of(comm1), *other = comm_of(comm2);
  if (!one || !other) return fail(NULL, MPI_ERR_COMM);
  if (!result) return fail(one, MPI_ERR_ARG);
  *result = MPI_UNEQUAL;
  if (one == other) {
    *result = MPI_IDENT;
  } else if (!one->remote == !other->remote) {
    int local = compare_groups(one->group, other->group);
    int remote = one->remote ? compare_groups(one->remote, other->remote) : MPI_IDENT;
    int worse = local > remote ? local : remote;
    *result = worse == MPI_IDENT ? MPI_CONGRUENT : worse;
  }
  return MPI_SUCCESS;
}

MPI(Comm_set_name)(MPI_Comm comm, const char *comm_name) {
  struct comm *named = comm_of(comm);
  if (!named) return fail(NULL, MPI_ERR_COMM);
  if (!comm_name) return fail(named, MPI_ERR_ARG);
  size_t length = strnlen(comm_name, sizeof named->name - 1);
  memcpy(named->name, comm_name, length);
  named->name[length] = 0;
  return MPI_SUCCESS;
}

MPI(Comm_get_name)(MPI_Comm comm, char *comm_name, int *resultlen) {
  struct comm *named = comm_of(comm);
  if (!named) return fail(NULL, MPI_ERR_COMM);
  if (!comm_name || !resultlen) return fail(named, MPI_ERR_ARG);
  strcpy(comm_name, named->name);
  *resultlen = (int)strlen(comm_name);
  return MPI_SUCCESS;
}

MPI(Comm_set_info)(MPI_Comm comm, MPI_Info info) {
  struct comm *hinted = comm_of(comm);
  const struct info *hints = info_of(info);
  if (!hinted) return fail(NULL, MPI_ERR_COMM);
  if (!hints) return fail(hinted, MPI_ERR_INFO);
  info_release(hinted->info);
  hinted->info = info_copy(hints);
  return MPI_SUCCESS;
}

MPI(Comm_get_info)(MPI_Comm comm, MPI_Info *info_used) {
  struct comm *hinted = comm_of(comm);
  if (!hinted) return fail(NULL, MPI_ERR_COMM);
  if (!info_used) return fail(hinted, MPI_ERR_ARG);
  if (!hinted->info) return PMPI_Info_create(info_used);
  *info_used = info_handle(info_copy(hinted->info));
  return MPI_SUCCESS;
}

/* Messages under way hold the communicator: it goes with the last of them. */
static int release(MPI_Comm *comm, struct comm *old) {
  int error = attributes_delete(&old->attributes, (uintptr_t)*comm);
  if (error) return error;
  comm_release(old);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

MPI(Comm_free)(MPI_Comm *comm) {
  struct comm *old = comm ? comm_of(*comm) : NULL;
  if (!old || old->object.predefined) return fail(old, MPI_ERR_COMM);
  int error = release(comm, old);
  return error ? fail(old, error) : MPI_SUCCESS;
}

MPI(Comm_disconnect)(MPI_Comm *comm) {
  struct comm *old = comm ? comm_of(*comm) : NULL;
  if (!old || old->object.predefined) return fail(old, MPI_ERR_COMM);
  int error = release(comm, old);
  return error ? fail(old, error) : MPI_SUCCESS;
}
