/* Reductions and scans: the functions of MPI. Licence: MIT OR Apache-2.0. */
#include "collective.h"
#include "operation.h"

/* The operands of a reduction: `from` stands in `to` if the program says MPI_IN_PLACE. */
static struct block operands(const void *from, const void *to, MPI_Count count, struct datatype *type) {
  return (struct block){(void *)(from == MPI_IN_PLACE ? to : from), count, type};
}

/* The operands of a rank that has no result. */
static int check_operands(const void *from, MPI_Count count, const struct datatype *type,
                          const struct operation *operation) {
  int error = check_data(from, count, type);
  return error ? error : operation_check(operation, type);
}

static int reduce(const struct call *call, const void *from, void *to, MPI_Count count, MPI_Datatype datatype,
                  MPI_Op op, int root, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct datatype *type = type_of(datatype);
  struct operation *operation = operation_of(op);
  int error = check_call(call, comm);
  if (!error) error = check_root(comm, root);
  if (!error && is_root(comm, root) && !comm->remote) error = check_reduction(from, to, count, type, operation);
  if (!error && is_root(comm, root) && comm->remote) error = check_data(to, count, type);
  if (!error && !is_root(comm, root) && gives_to(comm, root)) error = check_operands(from, count, type, operation);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  struct block result = {to, count, type};
  if (comm->remote)
    build_reduce_between(schedule, comm, root, operation, operands(from, to, count, type), result);
  else
    build_reduce(schedule, comm, root, operation, operands(from, to, count, type), result);
  return call_finish(call, schedule, comm);
}

#define REDUCE(COUNT, PLACE)                                                                                           \
  const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm
COLLECTIVE(Reduce, Ireduce, REDUCE, reduce, sendbuf, recvbuf, count, datatype, op, root, comm)

static int allreduce(const struct call *call, const void *from, void *to, MPI_Count count, MPI_Datatype datatype,
                     MPI_Op op, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct datatype *type = type_of(datatype);
  struct operation *operation = operation_of(op);
  int error = check_call(call, comm);
  if (!error && comm->remote && from == MPI_IN_PLACE) error = MPI_ERR_BUFFER;
  if (!error) error = check_reduction(from, to, count, type, operation);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  struct block result = {to, count, type};
  if (comm->remote)
    build_allreduce_between(schedule, comm, operation, operands(from, to, count, type), result);
  else
    build_allreduce(schedule, comm, operation, operands(from, to, count, type), result);
  return call_finish(call, schedule, comm);
}

#define ALL(COUNT, PLACE)                                                                                              \
  const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm
COLLECTIVE(Allreduce, Iallreduce, ALL, allreduce, sendbuf, recvbuf, count, datatype, op, comm)

static int any_scan(const struct call *call, const void *from, void *to, MPI_Count count, MPI_Datatype datatype,
                    MPI_Op op, MPI_Comm handle, bool inclusive) {
  struct comm *comm = comm_of(handle);
  struct datatype *type = type_of(datatype);
  struct operation *operation = operation_of(op);
  int error = check_call(call, comm);
  if (!error && comm->remote) error = MPI_ERR_COMM;
  /* An exclusive scan leaves the receive buffer of rank 0 alone. */
  bool sends_only = !error && !inclusive && comm_rank(comm) == 0 && from != MPI_IN_PLACE;
  if (!error)
    error =
        sends_only ? check_operands(from, count, type, operation) : check_reduction(from, to, count, type, operation);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  build_scan(schedule, comm, operation, operands(from, to, count, type), (struct block){to, count, type}, inclusive);
  return call_finish(call, schedule, comm);
}

static int scan(const struct call *call, const void *from, void *to, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                MPI_Comm comm) {
  return any_scan(call, from, to, count, datatype, op, comm, true);
}

static int exscan(const struct call *call, const void *from, void *to, MPI_Count count, MPI_Datatype datatype,
                  MPI_Op op, MPI_Comm comm) {
  return any_scan(call, from, to, count, datatype, op, comm, false);
}

COLLECTIVE(Scan, Iscan, ALL, scan, sendbuf, recvbuf, count, datatype, op, comm)
COLLECTIVE(Exscan, Iexscan, ALL, exscan, sendbuf, recvbuf, count, datatype, op, comm)

/* `counts` has the part of each rank of the own group; its other fields do not matter. */
static int reduce_scatter(const struct call *call, const void *from, void *to, struct layout counts,
                          MPI_Datatype datatype, MPI_Op op, MPI_Comm handle) {
  struct comm *comm = comm_of(handle);
  struct datatype *type = type_of(datatype);
  struct operation *operation = operation_of(op);
  int error = check_call(call, comm);
  MPI_Count total = 0, mine = 0;
  for (int rank = 0; !error && rank < comm_size(comm); rank++) {
    MPI_Count count = layout_count(&counts, rank);
    if (count < 0) error = MPI_ERR_COUNT;
    if (rank == comm_rank(comm)) mine = count;
    total += count;
  }
  if (!error && comm->remote && from == MPI_IN_PLACE) error = MPI_ERR_BUFFER;
  if (!error && from != MPI_IN_PLACE) error = check_operands(from, total, type, operation);
  if (!error) error = check_reduction(from, to, from == MPI_IN_PLACE ? total : mine, type, operation);
  if (error) return raise_error(comm, error, call->name);
  struct schedule *schedule = schedule_new(comm);
  struct block part = {to, mine, type};
  if (comm->remote)
    build_reduce_scatter_between(schedule, comm, operation, operands(from, to, total, type), &counts, part);
  else
    build_reduce_scatter(schedule, comm, operation, operands(from, to, total, type), &counts, part);
  return call_finish(call, schedule, comm);
}

static int reduce_scatter_list(const struct call *call, const void *from, void *to, const void *counts,
                               MPI_Datatype datatype, MPI_Op op, MPI_Comm handle) {
  struct layout layout = {.counts = counts, .wide_counts = call->wide};
  if (!counts) return raise_error(comm_of(handle), MPI_ERR_ARG, call->name);
  return reduce_scatter(call, from, to, layout, datatype, op, handle);
}

static int reduce_scatter_even(const struct call *call, const void *from, void *to, MPI_Count count,
                               MPI_Datatype datatype, MPI_Op op, MPI_Comm handle) {
  return reduce_scatter(call, from, to, (struct layout){.count = count}, datatype, op, handle);
}

#define LIST(COUNT, PLACE)                                                                                             \
  const void *sendbuf, void *recvbuf, const COUNT recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm
COLLECTIVE(Reduce_scatter, Ireduce_scatter, LIST, reduce_scatter_list, sendbuf, recvbuf, recvcounts, datatype, op, comm)
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, ALL, reduce_scatter_even, sendbuf, recvbuf, count, datatype, op,
           comm)
