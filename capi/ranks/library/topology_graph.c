/* Graph topologies: each rank knows the whole graph, or its own edges only. Licence: MIT OR Apache-2.0. */
#include "collective_build.h"
#include "comm.h"
#include "topology.h"

#ifndef MAINSTAY_ABI_STANDARD
/* Addresses that stand for something else than a list of weights. */
static int unweighted[1], weights_empty[1];
int *const MPI_UNWEIGHTED = unweighted;
int *const MPI_WEIGHTS_EMPTY = weights_empty;
#endif

static int check_graph(const struct comm *comm, int nodes, const int *index, const int *edges) {
  if (comm->remote) return MPI_ERR_COMM;
  if (nodes < 0 || nodes > comm_size(comm) || (nodes > 0 && !index)) return MPI_ERR_ARG;
  for (int i = 0; i < nodes; i++)
    if (index[i] < (i > 0 ? index[i - 1] : 0)) return MPI_ERR_ARG;
  if (nodes > 0 && index[nodes - 1] > 0 && !edges) return MPI_ERR_ARG;
  for (int i = 0; nodes > 0 && i < index[nodes - 1]; i++)
    if (edges[i] < 0 || edges[i] >= nodes) return MPI_ERR_ARG;
  return MPI_SUCCESS;
}

MPI(Graph_create)(MPI_Comm comm_old, int nnodes, const int indx[], const int edges[], int reorder,
                  MPI_Comm *comm_graph) {
  struct comm *old = comm_of(comm_old);
  (void)reorder;
  if (!old) return fail(NULL, MPI_ERR_COMM);
  int error = check_graph(old, nnodes, indx, edges);
  if (!error && !comm_graph) error = MPI_ERR_ARG;
  if (error) return fail(old, error);
  struct comm *part = comm_split_by(old, comm_rank(old) < nnodes ? 0 : MPI_UNDEFINED, comm_rank(old));
  *comm_graph = MPI_COMM_NULL;
  if (!part) return MPI_SUCCESS;
  part->topology = topology_new(MPI_GRAPH);
  part->topology->graph.count = nnodes;
  part->topology->graph.index = list_copy(indx, (size_t)nnodes);
  part->topology->graph.edges = list_copy(edges, (size_t)indx[nnodes - 1]);
  *comm_graph = comm_handle(part);
  return MPI_SUCCESS;
}

MPI(Graph_map)(MPI_Comm comm, int nnodes, const int indx[], const int edges[], int *newrank) {
  struct comm *old = comm_of(comm);
  if (!old) return fail(NULL, MPI_ERR_COMM);
  int error = check_graph(old, nnodes, indx, edges);
  if (!error && !newrank) error = MPI_ERR_ARG;
  if (error) return fail(old, error);
  *newrank = comm_rank(old) < nnodes ? comm_rank(old) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

/* The topology of a communicator, if it is of the kind. Otherwise `error` is set. */
static const struct topology *topology_of(const struct comm *comm, int kind, int *error) {
  *error = MPI_SUCCESS;
  if (!comm) *error = MPI_ERR_COMM;
  if (comm && (!comm->topology || comm->topology->kind != kind)) *error = MPI_ERR_TOPOLOGY;
  return *error ? NULL : comm->topology;
}

MPI(Graphdims_get)(MPI_Comm comm, int *nnodes, int *nedges) {
  struct comm *members = comm_of(comm);
  int error;
  const struct topology *topology = topology_of(members, MPI_GRAPH, &error);
  if (error) return fail(members, error);
  if (!nnodes || !nedges) return fail(members, MPI_ERR_ARG);
  *nnodes = topology->graph.count;
  *nedges = topology->graph.index[topology->graph.count - 1];
  return MPI_SUCCESS;
}

MPI(Graph_get)(MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[]) {
  struct comm *members = comm_of(comm);
  int error;
  const struct topology *topology = topology_of(members, MPI_GRAPH, &error);
  if (error) return fail(members, error);
  const struct graph *graph = &topology->graph;
  int total = graph->index[graph->count - 1];
  if (maxindex < graph->count || maxedges < total || !indx || (total > 0 && !edges)) return fail(members, MPI_ERR_ARG);
  memcpy(indx, graph->index, (size_t)graph->count * sizeof *indx);
  if (total > 0) memcpy(edges, graph->edges, (size_t)total * sizeof *edges);
  return MPI_SUCCESS;
}

MPI(Graph_neighbors_count)(MPI_Comm comm, int rank, int *nneighbors) {
  struct comm *members = comm_of(comm);
  int error;
  const struct topology *topology = topology_of(members, MPI_GRAPH, &error);
  if (error) return fail(members, error);
  if (rank < 0 || rank >= topology->graph.count) return fail(members, MPI_ERR_RANK);
  if (!nneighbors) return fail(members, MPI_ERR_ARG);
  *nneighbors = topology->graph.index[rank] - (rank > 0 ? topology->graph.index[rank - 1] : 0);
  return MPI_SUCCESS;
}

MPI(Graph_neighbors)(MPI_Comm comm, int rank, int maxneighbors, int neighbors[]) {
  struct comm *members = comm_of(comm);
  int error;
  const struct topology *topology = topology_of(members, MPI_GRAPH, &error);
  if (error) return fail(members, error);
  if (rank < 0 || rank >= topology->graph.count) return fail(members, MPI_ERR_RANK);
  int first = rank > 0 ? topology->graph.index[rank - 1] : 0, count = topology->graph.index[rank] - first;
  if (maxneighbors < count || (count > 0 && !neighbors)) return fail(members, MPI_ERR_ARG);
  if (count > 0) memcpy(neighbors, topology->graph.edges + first, (size_t)count * sizeof *neighbors);
  return MPI_SUCCESS;
}

static int check_ranks(const struct comm *comm, int count, const int *ranks) {
  if (count < 0 || (count > 0 && !ranks)) return MPI_ERR_ARG;
  for (int i = 0; i < count; i++)
    if (ranks[i] < 0 || ranks[i] >= comm_size(comm)) return MPI_ERR_RANK;
  return MPI_SUCCESS;
}

/* Weights that stand for something else than a list. */
static bool is_list(const int *weights) { return weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY && weights; }

static struct edges edges_copy(int count, const int *ranks, const int *weights) {
  struct edges edges = {count, list_copy(ranks, (size_t)count), NULL};
  if (is_list(weights)) edges.weights = list_copy(weights, (size_t)count);
  return edges;
}

MPI(Dist_graph_create_adjacent)(MPI_Comm comm_old, int indegree, const int sources[], const int sourceweights[],
                                int outdegree, const int destinations[], const int destweights[], MPI_Info info,
                                int reorder, MPI_Comm *comm_dist_graph) {
  struct comm *old = comm_of(comm_old);
  (void)info, (void)reorder;
  if (!old || old->remote) return fail(old, MPI_ERR_COMM);
  int error = check_ranks(old, indegree, sources);
  if (!error) error = check_ranks(old, outdegree, destinations);
  if (!error && indegree > 0 && (!sourceweights || sourceweights == MPI_WEIGHTS_EMPTY)) error = MPI_ERR_ARG;
  if (!error && outdegree > 0 && (!destweights || destweights == MPI_WEIGHTS_EMPTY)) error = MPI_ERR_ARG;
  if (!error && !comm_dist_graph) error = MPI_ERR_ARG;
  if (error) return fail(old, error);
  struct comm *twin = comm_twin(old);
  twin->topology = topology_new(MPI_DIST_GRAPH);
  twin->topology->in = edges_copy(indegree, sources, sourceweights);
  twin->topology->out = edges_copy(outdegree, destinations, destweights);
  twin->topology->weighted = sourceweights != MPI_UNWEIGHTED;
  *comm_dist_graph = comm_handle(twin);
  return MPI_SUCCESS;
}

/* An end of an edge, for the rank at that end. */
struct end {
  int outgoing, rank, weight; /* `rank` is at the other end */
};

/* Ends for all ranks, one rank after the other. */
struct post {
  int *counts, *places;
  struct end *ends;
};

static struct post post_new(int ranks) {
  return (struct post){take_zeroed((size_t)ranks, sizeof(int)), take_zeroed((size_t)ranks + 1, sizeof(int)), NULL};
}

static void post_free(struct post *post) {
  free(post->counts);
  free(post->places);
  free(post->ends);
}

/* Makes room for `counts` ends for each rank. */
static void post_open(struct post *post, int ranks) {
  for (int rank = 0; rank < ranks; rank++) post->places[rank + 1] = post->places[rank] + post->counts[rank];
  post->ends = take_memory(((size_t)post->places[ranks] + 1) * sizeof *post->ends);
}

/* The edges that a rank names, as ends for the ranks that they join. */
static struct post name_edges(const struct comm *comm, int count, const int *sources, const int *degrees,
                              const int *destinations, const int *weights) {
  struct post post = post_new(comm_size(comm));
  for (int i = 0, edge = 0; i < count; i++)
    for (int k = 0; k < degrees[i]; k++, edge++) post.counts[sources[i]]++, post.counts[destinations[edge]]++;
  post_open(&post, comm_size(comm));
  int *next = list_copy(post.places, (size_t)comm_size(comm));
  for (int i = 0, edge = 0; i < count; i++)
    for (int k = 0; k < degrees[i]; k++, edge++) {
      int weight = is_list(weights) ? weights[edge] : 1;
      post.ends[next[sources[i]]++] = (struct end){1, destinations[edge], weight};
      post.ends[next[destinations[edge]]++] = (struct end){0, sources[i], weight};
    }
  free(next);
  return post;
}

/* Sends each rank the ends that are its own. */
static struct post deliver(struct comm *comm, const struct post *named) {
  struct post post = post_new(comm_size(comm));
  struct datatype *integer = type_of(MPI_INT), *triple;
  MPI_Datatype handle;
  struct schedule *schedule = schedule_new(comm);
  struct layout from = layout_even(named->counts, 1, integer), to = layout_even(post.counts, 1, integer);
  build_alltoall(schedule, comm, &from, &to);
  schedule_run(schedule);
  post_open(&post, comm_size(comm));
  PMPI_Type_contiguous(3, MPI_INT, &handle);
  triple = type_of(handle);
  from = (struct layout){.data = (char *)named->ends, .type = triple, .counts = named->counts, .places = named->places};
  to = (struct layout){.data = (char *)post.ends, .type = triple, .counts = post.counts, .places = post.places};
  schedule = schedule_new(comm);
  build_alltoall(schedule, comm, &from, &to);
  schedule_run(schedule);
  PMPI_Type_free(&handle);
  return post;
}

/* The incoming or outgoing edges among the ends of a rank. */
static struct edges edges_from(const struct post *post, int ranks, int outgoing, bool weighted) {
  struct edges edges = {0};
  int total = post->places[ranks];
  edges.ranks = take_memory(((size_t)total + 1) * sizeof *edges.ranks);
  if (weighted) edges.weights = take_memory(((size_t)total + 1) * sizeof *edges.weights);
  for (int i = 0; i < total; i++) {
    if (post->ends[i].outgoing != outgoing) continue;
    if (weighted) edges.weights[edges.count] = post->ends[i].weight;
    edges.ranks[edges.count++] = post->ends[i].rank;
  }
  return edges;
}

MPI(Dist_graph_create)(MPI_Comm comm_old, int n, const int sources[], const int degrees[], const int destinations[],
                       const int weights[], MPI_Info info, int reorder, MPI_Comm *comm_dist_graph) {
  struct comm *old = comm_of(comm_old);
  (void)info, (void)reorder;
  if (!old || old->remote) return fail(old, MPI_ERR_COMM);
  int error = check_ranks(old, n, sources), total = 0;
  if (!error && n > 0 && !degrees) error = MPI_ERR_ARG;
  for (int i = 0; i < n && !error; i++) {
    if (degrees[i] < 0) error = MPI_ERR_ARG;
    total += degrees[i];
  }
  if (!error) error = check_ranks(old, total, destinations);
  if (!error && total > 0 && (!weights || weights == MPI_WEIGHTS_EMPTY)) error = MPI_ERR_ARG;
  if (!error && !comm_dist_graph) error = MPI_ERR_ARG;
  if (error) return fail(old, error);
  struct post named = name_edges(old, n, sources, degrees, destinations, weights);
  struct post mine = deliver(old, &named);
  struct comm *twin = comm_twin(old);
  twin->topology = topology_new(MPI_DIST_GRAPH);
  twin->topology->weighted = weights != MPI_UNWEIGHTED;
  twin->topology->in = edges_from(&mine, comm_size(old), 0, twin->topology->weighted);
  twin->topology->out = edges_from(&mine, comm_size(old), 1, twin->topology->weighted);
  post_free(&named);
  post_free(&mine);
  *comm_dist_graph = comm_handle(twin);
  return MPI_SUCCESS;
}

MPI(Dist_graph_neighbors_count)(MPI_Comm comm, int *indegree, int *outdegree, int *weighted) {
  struct comm *members = comm_of(comm);
  int error;
  const struct topology *topology = topology_of(members, MPI_DIST_GRAPH, &error);
  if (error) return fail(members, error);
  if (!indegree || !outdegree || !weighted) return fail(members, MPI_ERR_ARG);
  *indegree = topology->in.count;
  *outdegree = topology->out.count;
  *weighted = topology->weighted;
  return MPI_SUCCESS;
}

/* Gives out at most `room` edges. */
static void give_edges(const struct edges *edges, int room, int *ranks, int *weights) {
  int count = edges->count < room ? edges->count : room;
  for (int i = 0; i < count; i++) {
    ranks[i] = edges->ranks[i];
    if (edges->weights && is_list(weights)) weights[i] = edges->weights[i];
  }
}

MPI(Dist_graph_neighbors)(MPI_Comm comm, int maxindegree, int sources[], int sourceweights[], int maxoutdegree,
                          int destinations[], int destweights[]) {
  struct comm *members = comm_of(comm);
  int error;
  const struct topology *topology = topology_of(members, MPI_DIST_GRAPH, &error);
  if (error) return fail(members, error);
  if (maxindegree < 0 || maxoutdegree < 0) return fail(members, MPI_ERR_ARG);
  if ((maxindegree > 0 && !sources) || (maxoutdegree > 0 && !destinations)) return fail(members, MPI_ERR_ARG);
  give_edges(&topology->in, maxindegree, sources, sourceweights);
  give_edges(&topology->out, maxoutdegree, destinations, destweights);
  return MPI_SUCCESS;
}
