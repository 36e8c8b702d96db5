/* Collectives that move data: the functions of MPI. Licence: MIT OR Apache-2.0. */
#include "collective.h"

static int barrier(const struct call *call, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  int error = check_call(call, comm);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  if (comm->remote)
    build_barrier_between(schedule, comm);
  else
    build_barrier(schedule, comm);
  return call_finish(call, schedule, comm);
}

MPI(Barrier)(MPI_Comm comm) { return barrier(BLOCKING(false), comm); }
MPI(Ibarrier)(MPI_Comm comm, MPI_Request *request) { return barrier(NONBLOCKING(false), comm); }
MPI(Barrier_init)(MPI_Comm comm, MPI_Info info, MPI_Request *request) {
  (void)info;
  return barrier(PERSISTENT(false), comm);
}

static int bcast(const struct call *call, void *data, MPI_Count count, MPI_Datatype datatype, int root,
                 MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct datatype *type = type_of(datatype);
  int error = check_call(call, comm);
  if (!error) error = check_root(comm, root);
  if (!error && root != MPI_PROC_NULL) error = check_data(data, count, type);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  struct block block = {data, count, type};
  if (comm->remote)
    build_bcast_between(schedule, comm, root, block);
  else
    build_bcast(schedule, comm, root, block);
  return call_finish(call, schedule, comm);
}

#define BCAST(COUNT, PLACE) void *buffer, COUNT count, MPI_Datatype datatype, int root, MPI_Comm comm
COLLECTIVE(Bcast, Ibcast, BCAST, bcast, buffer, count, datatype, root, comm)

static struct layout one_layout(const void *data, MPI_Count count, MPI_Datatype datatype) {
  return layout_even(data, count, type_of(datatype));
}

/* A list of counts or places that is needed must be there. */
static int check_lists(const struct layout *layout, bool listed, int parts) {
  if (listed && parts > 0 && (!layout->counts || !layout->places)) return MPI_ERR_ARG;
  return check_layout(layout, parts);
}

/* One rank's part of a gather or scatter; without a datatype for MPI_IN_PLACE, which only the root of an
 * intra-communicator may give. */
static int part_of(const struct comm *comm, bool root, const void *data, MPI_Count count, MPI_Datatype datatype,
                   struct block *block) {
  *block = (struct block){0};
  if (data == MPI_IN_PLACE && root && !comm->remote) return MPI_SUCCESS;
  if (data == MPI_IN_PLACE) return MPI_ERR_BUFFER;
  *block = (struct block){(void *)data, count, type_of(datatype)};
  return check_data(data, count, block->type);
}

static int gather(const struct call *call, const void *from, MPI_Count count, MPI_Datatype datatype,
                  struct layout layout, bool listed, int root, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct block mine = {0};
  int error = check_call(call, comm);
  if (!error) error = check_root(comm, root);
  if (!error && is_root(comm, root)) error = check_lists(&layout, listed, parts_of(comm));
  if (!error && gives_to(comm, root)) error = part_of(comm, is_root(comm, root), from, count, datatype, &mine);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  if (comm->remote)
    build_gather_between(schedule, comm, root, mine, &layout);
  else if (!listed)
    build_gather_even(schedule, comm, root, mine, &layout);
  else
    build_gather(schedule, comm, root, mine, &layout);
  return call_finish(call, schedule, comm);
}

static int scatter(const struct call *call, struct layout layout, bool listed, void *to, MPI_Count count,
                   MPI_Datatype datatype, int root, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct block mine = {0};
  int error = check_call(call, comm);
  if (!error) error = check_root(comm, root);
  if (!error && is_root(comm, root)) error = check_lists(&layout, listed, parts_of(comm));
  if (!error && gives_to(comm, root)) error = part_of(comm, is_root(comm, root), to, count, datatype, &mine);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  if (comm->remote)
    build_scatter_between(schedule, comm, root, &layout, mine);
  else if (!listed)
    build_scatter_even(schedule, comm, root, &layout, mine);
  else
    build_scatter(schedule, comm, root, &layout, mine);
  return call_finish(call, schedule, comm);
}

static int allgather(const struct call *call, const void *from, MPI_Count count, MPI_Datatype datatype,
                     struct layout layout, bool listed, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct block mine = {0};
  int error = check_call(call, comm);
  if (!error) error = check_lists(&layout, listed, parts_of(comm));
  if (!error) error = part_of(comm, true, from, count, datatype, &mine);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  if (comm->remote)
    build_allgather_between(schedule, comm, mine, &layout);
  else
    build_allgather(schedule, comm, mine, &layout);
  return call_finish(call, schedule, comm);
}

static int alltoall(const struct call *call, struct layout from, struct layout to, bool listed, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  bool in_place = from.data == MPI_IN_PLACE;
  int error = check_call(call, comm);
  if (!error && in_place && comm->remote) error = MPI_ERR_BUFFER;
  if (!error) error = check_lists(&to, listed, parts_of(comm));
  if (!error && !in_place) error = check_lists(&from, listed, parts_of(comm));
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  if (comm->remote)
    build_alltoall_between(schedule, comm, &from, &to);
  else
    build_alltoall(schedule, comm, in_place ? NULL : &from, &to);
  return call_finish(call, schedule, comm);
}

/* Parameters of the forms. */
#define FROM(COUNT) const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype
#define FROM_LIST(COUNT, PLACE)                                                                                        \
  const void *sendbuf, const COUNT sendcounts[], const PLACE sdispls[], MPI_Datatype sendtype
#define TO(COUNT) void *recvbuf, COUNT recvcount, MPI_Datatype recvtype
#define TO_LIST(COUNT, PLACE) void *recvbuf, const COUNT recvcounts[], const PLACE rdispls[], MPI_Datatype recvtype

static int gather_even(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                       MPI_Count to_count, MPI_Datatype to_type, int root, MPI_Comm comm) {
  return gather(call, from, count, type, one_layout(to, to_count, to_type), false, root, comm);
}

static int gather_list(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                       const void *counts, const void *places, MPI_Datatype to_type, int root, MPI_Comm comm) {
  return gather(call, from, count, type, layout_list(call, to, counts, places, to_type), true, root, comm);
}

#define GATHER(COUNT, PLACE) FROM(COUNT), TO(COUNT), int root, MPI_Comm comm
#define GATHERV(COUNT, PLACE) FROM(COUNT), TO_LIST(COUNT, PLACE), int root, MPI_Comm comm
COLLECTIVE(Gather, Igather, GATHER, gather_even, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm)
COLLECTIVE(Gatherv, Igatherv, GATHERV, gather_list, sendbuf, sendcount, sendtype, recvbuf, recvcounts, rdispls,
           recvtype, root, comm)

static int scatter_even(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                        MPI_Count to_count, MPI_Datatype to_type, int root, MPI_Comm comm) {
  return scatter(call, one_layout(from, count, type), false, to, to_count, to_type, root, comm);
}

static int scatter_list(const struct call *call, const void *from, const void *counts, const void *places,
                        MPI_Datatype type, void *to, MPI_Count to_count, MPI_Datatype to_type, int root,
                        MPI_Comm comm) {
  return scatter(call, layout_list(call, from, counts, places, type), true, to, to_count, to_type, root, comm);
}

#define SCATTER(COUNT, PLACE) FROM(COUNT), TO(COUNT), int root, MPI_Comm comm
#define SCATTERV(COUNT, PLACE) FROM_LIST(COUNT, PLACE), TO(COUNT), int root, MPI_Comm comm
COLLECTIVE(Scatter, Iscatter, SCATTER, scatter_even, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
           comm)
COLLECTIVE(Scatterv, Iscatterv, SCATTERV, scatter_list, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcount,
           recvtype, root, comm)

static int allgather_even(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                          MPI_Count to_count, MPI_Datatype to_type, MPI_Comm comm) {
  return allgather(call, from, count, type, one_layout(to, to_count, to_type), false, comm);
}

static int allgather_list(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                          const void *counts, const void *places, MPI_Datatype to_type, MPI_Comm comm) {
  return allgather(call, from, count, type, layout_list(call, to, counts, places, to_type), true, comm);
}

#define ALLGATHER(COUNT, PLACE) FROM(COUNT), TO(COUNT), MPI_Comm comm
#define ALLGATHERV(COUNT, PLACE) FROM(COUNT), TO_LIST(COUNT, PLACE), MPI_Comm comm
COLLECTIVE(Allgather, Iallgather, ALLGATHER, allgather_even, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
           comm)
COLLECTIVE(Allgatherv, Iallgatherv, ALLGATHERV, allgather_list, sendbuf, sendcount, sendtype, recvbuf, recvcounts,
           rdispls, recvtype, comm)

static int alltoall_even(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                         MPI_Count to_count, MPI_Datatype to_type, MPI_Comm comm) {
  return alltoall(call, one_layout(from, count, type), one_layout(to, to_count, to_type), false, comm);
}

static int alltoall_list(const struct call *call, const void *from, const void *counts, const void *places,
                         MPI_Datatype type, void *to, const void *to_counts, const void *to_places,
                         MPI_Datatype to_type, MPI_Comm comm) {
  return alltoall(call, layout_list(call, from, counts, places, type),
                  layout_list(call, to, to_counts, to_places, to_type), true, comm);
}

static int alltoall_mixed(const struct call *call, const void *from, const void *counts, const void *places,
                          const MPI_Datatype *types, void *to, const void *to_counts, const void *to_places,
                          const MPI_Datatype *to_types, MPI_Comm comm) {
  return alltoall(call, layout_mixed(call, from, counts, places, types, call->wide),
                  layout_mixed(call, to, to_counts, to_places, to_types, call->wide), true, comm);
}

#define ALLTOALL(COUNT, PLACE) FROM(COUNT), TO(COUNT), MPI_Comm comm
#define ALLTOALLV(COUNT, PLACE) FROM_LIST(COUNT, PLACE), TO_LIST(COUNT, PLACE), MPI_Comm comm
#define ALLTOALLW(COUNT, PLACE)                                                                                        \
  const void *sendbuf, const COUNT sendcounts[], const PLACE sdispls[], const MPI_Datatype sendtypes[], void *recvbuf, \
      const COUNT recvcounts[], const PLACE rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm
COLLECTIVE(Alltoall, Ialltoall, ALLTOALL, alltoall_even, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
           comm)
COLLECTIVE(Alltoallv, Ialltoallv, ALLTOALLV, alltoall_list, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
           rdispls, recvtype, comm)
COLLECTIVE(Alltoallw, Ialltoallw, ALLTOALLW, alltoall_mixed, sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
           recvcounts, rdispls, recvtypes, comm)
