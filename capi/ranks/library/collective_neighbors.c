/* Collectives between neighbours in a topology. Licence: MIT OR Apache-2.0. */
#include "collective.h"
#include "topology.h"

/* Messages between two ranks match in order. Along a periodic dimension of one or two ranks both neighbours are the
 * same rank, and the message that it sends downwards arrives from above: receives there are posted in the other order.
 */
void build_neighbors(struct schedule *schedule, struct comm *comm, const struct layout *from, const struct layout *to) {
  int swap = comm->topology->kind == MPI_CART ? 1 : 0;
  for (int i = 0; i < topology_sources(comm); i++) {
    int place = i ^ swap, peer = topology_source(comm, place);
    if (peer != MPI_PROC_NULL) schedule_receive(schedule, comm, peer, layout_block(to, place));
  }
  for (int i = 0; i < topology_destinations(comm); i++) {
    int peer = topology_destination(comm, i);
    if (peer != MPI_PROC_NULL) schedule_send(schedule, comm, peer, layout_block(from, i));
  }
}

static int neighbors(const struct call *call, struct layout from, struct layout to, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  int error = check_call(call, comm);
  if (!error && !comm->topology) error = MPI_ERR_TOPOLOGY;
  if (!error) error = check_layout(&from, topology_destinations(comm));
  if (!error) error = check_layout(&to, topology_sources(comm));
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  build_neighbors(schedule, comm, &from, &to);
  return call_finish(call, schedule, comm);
}

static struct layout same_layout(const void *data, MPI_Count count, MPI_Datatype datatype) {
  struct layout layout = layout_even(data, count, type_of(datatype));
  layout.same = true;
  return layout;
}

static int allgather_even(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                          MPI_Count to_count, MPI_Datatype to_type, MPI_Comm comm) {
  return neighbors(call, same_layout(from, count, type), layout_even(to, to_count, type_of(to_type)), comm);
}

static int allgather_list(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                          const void *counts, const void *places, MPI_Datatype to_type, MPI_Comm comm) {
  return neighbors(call, same_layout(from, count, type), layout_list(call, to, counts, places, to_type), comm);
}

static int alltoall_even(const struct call *call, const void *from, MPI_Count count, MPI_Datatype type, void *to,
                         MPI_Count to_count, MPI_Datatype to_type, MPI_Comm comm) {
  return neighbors(call, layout_even(from, count, type_of(type)), layout_even(to, to_count, type_of(to_type)), comm);
}

static int alltoall_list(const struct call *call, const void *from, const void *counts, const void *places,
                         MPI_Datatype type, void *to, const void *to_counts, const void *to_places,
                         MPI_Datatype to_type, MPI_Comm comm) {
  return neighbors(call, layout_list(call, from, counts, places, type),
                   layout_list(call, to, to_counts, to_places, to_type), comm);
}

/* The places are MPI_Aint in all forms. */
static int alltoall_mixed(const struct call *call, const void *from, const void *counts, const void *places,
                          const MPI_Datatype *types, void *to, const void *to_counts, const void *to_places,
                          const MPI_Datatype *to_types, MPI_Comm comm) {
  return neighbors(call, layout_mixed(call, from, counts, places, types, true),
                   layout_mixed(call, to, to_counts, to_places, to_types, true), comm);
}

#define EVEN(COUNT, PLACE)                                                                                             \
  const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype,  \
      MPI_Comm comm
COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, EVEN, allgather_even, sendbuf, sendcount, sendtype, recvbuf,
           recvcount, recvtype, comm)
COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, EVEN, alltoall_even, sendbuf, sendcount, sendtype, recvbuf, recvcount,
           recvtype, comm)

#define ALLGATHERV(COUNT, PLACE)                                                                                       \
  const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[],                \
      const PLACE rdispls[], MPI_Datatype recvtype, MPI_Comm comm
COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, ALLGATHERV, allgather_list, sendbuf, sendcount, sendtype, recvbuf,
           recvcounts, rdispls, recvtype, comm)

#define ALLTOALLV(COUNT, PLACE)                                                                                        \
  const void *sendbuf, const COUNT sendcounts[], const PLACE sdispls[], MPI_Datatype sendtype, void *recvbuf,          \
      const COUNT recvcounts[], const PLACE rdispls[], MPI_Datatype recvtype, MPI_Comm comm
COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, ALLTOALLV, alltoall_list, sendbuf, sendcounts, sdispls, sendtype,
           recvbuf, recvcounts, rdispls, recvtype, comm)

#define ALLTOALLW(COUNT, PLACE)                                                                                        \
  const void *sendbuf, const COUNT sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],             \
      void *recvbuf, const COUNT recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm
COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, ALLTOALLW, alltoall_mixed, sendbuf, sendcounts, sdispls, sendtypes,
           recvbuf, recvcounts, rdispls, recvtypes, comm)
