/* Topologies as structures, and the neighbours of a rank. Licence: MIT OR Apache-2.0. */
#include "topology.h"

struct topology *topology_new(int kind) {
  struct topology *topology = take_zeroed(1, sizeof *topology);
  topology->kind = kind;
  topology->uses = 1;
  return topology;
}

/* Topologies do not change: communicators share them. */
struct topology *topology_copy(const struct topology *topology) {
  struct topology *shared = (struct topology *)topology;
  shared->uses++;
  return shared;
}

void topology_release(struct topology *topology) {
  if (!topology || --topology->uses > 0) return;
  switch (topology->kind) {
  case MPI_CART:
    free(topology->cartesian.dims);
    free(topology->cartesian.periods);
    free(topology->cartesian.coords);
    break;
  case MPI_GRAPH:
    free(topology->graph.index);
    free(topology->graph.edges);
    break;
  default:
    free(topology->in.ranks);
    free(topology->in.weights);
    free(topology->out.ranks);
    free(topology->out.weights);
  }
  free(topology);
}

int *list_copy(const int *list, size_t count) {
  int *copy = take_memory((count + 1) * sizeof *copy);
  if (count > 0) memcpy(copy, list, count * sizeof *copy);
  return copy;
}

static int graph_begin(const struct graph *graph, int rank) { return rank == 0 ? 0 : graph->index[rank - 1]; }

static int graph_degree(const struct comm *comm) {
  const struct graph *graph = &comm->topology->graph;
  return graph->index[comm_rank(comm)] - graph_begin(graph, comm_rank(comm));
}

int topology_sources(const struct comm *comm) {
  const struct topology *topology = comm->topology;
  if (topology->kind == MPI_CART) return 2 * topology->cartesian.count;
  return topology->kind == MPI_GRAPH ? graph_degree(comm) : topology->in.count;
}

int topology_destinations(const struct comm *comm) {
  const struct topology *topology = comm->topology;
  return topology->kind == MPI_DIST_GRAPH ? topology->out.count : topology_sources(comm);
}

int topology_source(const struct comm *comm, int place) {
  const struct topology *topology = comm->topology;
  if (topology->kind == MPI_CART) return cartesian_neighbor(&topology->cartesian, place / 2, place % 2 ? 1 : -1);
  if (topology->kind == MPI_DIST_GRAPH) return topology->in.ranks[place];
  return topology->graph.edges[graph_begin(&topology->graph, comm_rank(comm)) + place];
}

int topology_destination(const struct comm *comm, int place) {
  const struct topology *topology = comm->topology;
  return topology->kind == MPI_DIST_GRAPH ? topology->out.ranks[place] : topology_source(comm, place);
}

MPI(Topo_test)(MPI_Comm comm, int *status) {
  struct comm *members = comm_of(comm);
  if (!members) return fail(NULL, MPI_ERR_COMM);
  if (!status) return fail(members, MPI_ERR_ARG);
  *status = members->topology ? members->topology->kind : MPI_UNDEFINED;
  return MPI_SUCCESS;
}
