/* Communicators, groups, attributes, names. */
#include "parts.h"

static void groups(void) {
  MPI_Group world, some, others, both;
  int result, number, size, first[] = {0}, triples[1][3] = {{0, ranks - 1, 2}}, back[1];
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, triples, &some);
  MPI_Group_range_excl(world, 1, triples, &others);
  MPI_Group_size(some, &size);
  CHECK(size == (ranks + 1) / 2);
  MPI_Group_rank(some, &number);
  CHECK(number == (rank % 2 ? MPI_UNDEFINED : rank / 2));
  MPI_Group_translate_ranks(some, 1, (int[]){size - 1}, world, back);
  CHECK(back[0] == 2 * (size - 1));
  MPI_Group_union(some, others, &both);
  MPI_Group_compare(both, world, &result);
  CHECK(result == (ranks < 3 ? MPI_IDENT : MPI_SIMILAR));
  MPI_Group_free(&both);
  MPI_Group_intersection(some, others, &both);
  CHECK(both == MPI_GROUP_EMPTY || (MPI_Group_size(both, &size), size == 0));
  MPI_Group_difference(world, some, &both);
  MPI_Group_compare(both, others, &result);
  CHECK(result == MPI_IDENT);
  MPI_Group_free(&both);
  MPI_Group_incl(world, 1, first, &both);
  MPI_Group_rank(both, &number);
  CHECK(number == (rank ? MPI_UNDEFINED : 0));
  MPI_Group_compare(both, world, &result);
  CHECK(result == (ranks == 1 ? MPI_IDENT : MPI_UNEQUAL));
  MPI_Group_free(&both);
  MPI_Group_excl(world, 1, first, &both);
  MPI_Group_size(both, &size);
  CHECK(size == ranks - 1);
  if (both != MPI_GROUP_EMPTY) MPI_Group_free(&both);
  /* Communicators of them. */
  MPI_Comm made;
  MPI_Comm_create(MPI_COMM_WORLD, some, &made);
  CHECK((made == MPI_COMM_NULL) == (rank % 2));
  if (made != MPI_COMM_NULL) {
    int sum;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, made);
    CHECK(sum == (ranks - 1) / 2 * 2);
    MPI_Comm_free(&made);
  }
  if (rank % 2 == 0) {
    MPI_Comm_create_group(MPI_COMM_WORLD, some, 3, &made);
    MPI_Comm_size(made, &size);
    CHECK(size == (ranks + 1) / 2);
    MPI_Comm_free(&made);
  }
  MPI_Group_free(&some);
  if (others != MPI_GROUP_EMPTY) MPI_Group_free(&others);
  MPI_Group_free(&world);
}

static void made_from_others(void) {
  MPI_Comm made, copy, later;
  MPI_Request request;
  int result, size, number, length;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, -rank, &made);
  CHECK((made == MPI_COMM_NULL) == (rank == 0));
  if (rank) {
    MPI_Comm_rank(made, &number);
    CHECK(number == ranks - 1 - rank);
    MPI_Comm_free(&made);
  }
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
  MPI_Comm_size(made, &size);
  CHECK(size == ranks);
  MPI_Comm_compare(made, MPI_COMM_WORLD, &result);
  CHECK(result == MPI_CONGRUENT);
  MPI_Comm_free(&made);
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Comm_compare(made, made, &result);
  CHECK(result == MPI_IDENT);
  MPI_Comm_compare(made, MPI_COMM_SELF, &result);
  CHECK(result == (ranks == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
  MPI_Comm_split(made, 0, -rank, &copy);
  MPI_Comm_compare(made, copy, &result);
  CHECK(result == (ranks == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
  MPI_Comm_free(&copy);
  MPI_Comm_idup(made, &later, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_dup_with_info(later, MPI_INFO_NULL, &copy);
  /* The same tags in three communicators do not meet. */
  int in[3], out[3] = {rank, rank + 100, rank + 200};
  MPI_Comm comms[3] = {made, later, copy};
  MPI_Request requests[6];
  for (int i = 0; i < 3; i++) MPI_Irecv(&in[i], 1, MPI_INT, before, 1, comms[i], &requests[i]);
  for (int i = 2; i >= 0; i--) MPI_Isend(&out[i], 1, MPI_INT, next, 1, comms[i], &requests[3 + i]);
  MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3; i++) CHECK(in[i] == before + 100 * i);
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
  CHECK(!strcmp(name, "MPI_COMM_WORLD") && length == 14);
  MPI_Comm_set_name(made, "of the test");
  MPI_Comm_get_name(made, name, &length);
  CHECK(!strcmp(name, "of the test"));
  for (int i = 0; i < 3; i++) MPI_Comm_free(&comms[i]);
  CHECK(comms[0] == MPI_COMM_NULL);
}

static int copied, deleted;

static int copy_one(MPI_Comm comm, int key, void *extra, void *old, void *new, int *flag) {
  (void)comm, (void)key;
  copied += *(int *)extra;
  *(void **)new = (char *)old + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete_one(MPI_Comm comm, int key, void *at, void *extra) {
  (void)comm, (void)key, (void)at, (void)extra;
  deleted++;
  return MPI_SUCCESS;
}

static void attributes(void) {
  int keys[3], flag, extra = 10, *bound;
  char place[4], *got;
  MPI_Comm made, copy;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
  CHECK(flag && *bound >= 32767);
  copied = deleted = 0;
  MPI_Comm_create_keyval(copy_one, delete_one, &keys[0], &extra);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keys[1], NULL);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete_one, &keys[2], NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  for (int i = 0; i < 3; i++) MPI_Comm_set_attr(made, keys[i], &place[i]);
  MPI_Comm_dup(made, &copy);
  CHECK(copied == 10);
  MPI_Comm_get_attr(copy, keys[0], &got, &flag);
  CHECK(flag && got == &place[1]);
  MPI_Comm_get_attr(copy, keys[1], &got, &flag);
  CHECK(!flag);
  MPI_Comm_get_attr(copy, keys[2], &got, &flag);
  CHECK(flag && got == &place[2]);
  MPI_Comm_delete_attr(copy, keys[0]);
  CHECK(deleted == 1);
  MPI_Comm_set_attr(made, keys[0], &place[3]);
  CHECK(deleted == 2);
  MPI_Comm_free(&copy);
  CHECK(deleted == 3);
  MPI_Comm_free(&made);
  CHECK(deleted == 5);
  for (int i = 0; i < 3; i++) MPI_Comm_free_keyval(&keys[i]), CHECK(keys[i] == MPI_KEYVAL_INVALID);
}

static void between(void) {
  MPI_Comm half, both, merged;
  MPI_Group remote;
  int flag, size, number, got;
  if (ranks < 2) return;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 4, &both);
  MPI_Comm_test_inter(both, &flag);
  CHECK(flag);
  MPI_Comm_test_inter(half, &flag);
  CHECK(!flag);
  MPI_Comm_remote_size(both, &size);
  CHECK(size == (rank % 2 ? (ranks + 1) / 2 : ranks / 2));
  MPI_Comm_remote_group(both, &remote);
  MPI_Group_size(remote, &number);
  CHECK(number == size);
  MPI_Group_free(&remote);
  if (ranks % 2 == 0) {
    MPI_Sendrecv(&rank, 1, MPI_INT, rank / 2, 1, &got, 1, MPI_INT, rank / 2, 1, both, MPI_STATUS_IGNORE);
    CHECK(got == (rank ^ 1));
  }
  MPI_Intercomm_merge(both, rank % 2 == 0, &merged);
  MPI_Comm_rank(merged, &number);
  CHECK(number == (rank % 2 ? rank / 2 : ranks / 2 + rank / 2));
  MPI_Comm_free(&merged);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

void communicators(void) {
  groups();
  made_from_others();
  attributes();
  between();
}
