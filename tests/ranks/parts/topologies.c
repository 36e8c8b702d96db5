/* Cartesian and graph topologies, and the exchange with neighbours. */
#include "parts.h"

static void cartesian(void) {
  int dims[2] = {0, 0}, periods[2] = {1, 0}, got[2], wraps[2], at[2], number, kind, low, high, count;
  MPI_Comm grid, row;
  MPI_Dims_create(ranks, 2, dims);
  CHECK(dims[0] * dims[1] == ranks && dims[0] >= dims[1]);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Topo_test(grid, &kind);
  CHECK(kind == MPI_CART);
  MPI_Cartdim_get(grid, &count);
  CHECK(count == 2);
  MPI_Cart_get(grid, 2, got, wraps, at);
  CHECK(got[0] == dims[0] && got[1] == dims[1] && wraps[0] && !wraps[1]);
  CHECK(at[0] == rank / dims[1] && at[1] == rank % dims[1]);
  MPI_Cart_rank(grid, (int[]){at[0] + dims[0], at[1]}, &number);
  CHECK(number == rank);
  MPI_Cart_coords(grid, ranks - 1, 2, got);
  CHECK(got[0] == dims[0] - 1 && got[1] == dims[1] - 1);
  MPI_Cart_shift(grid, 0, 1, &low, &high);
  CHECK(high == (at[0] + 1) % dims[0] * dims[1] + at[1] && low == (at[0] + dims[0] - 1) % dims[0] * dims[1] + at[1]);
  MPI_Cart_shift(grid, 1, 1, &low, &high);
  CHECK(high == (at[1] + 1 < dims[1] ? rank + 1 : MPI_PROC_NULL) && low == (at[1] > 0 ? rank - 1 : MPI_PROC_NULL));
  /* In the order low, high of each direction. */
  int near[4], all[4] = {-1, -1, -1, -1}, out[4], in[4] = {-1, -1, -1, -1};
  for (int i = 0; i < 2; i++) MPI_Cart_shift(grid, i, 1, &near[2 * i], &near[2 * i + 1]);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, grid);
  for (int i = 0; i < 4; i++) CHECK(all[i] == (near[i] == MPI_PROC_NULL ? -1 : near[i])), out[i] = value(rank, i, 0);
  if (dims[0] > 2) {
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, grid);
    for (int i = 0; i < 4; i++) CHECK(in[i] == (near[i] == MPI_PROC_NULL ? -1 : value(near[i], i ^ 1, 0)));
  }
  MPI_Cart_sub(grid, (int[]){0, 1}, &row);
  MPI_Comm_size(row, &count);
  MPI_Comm_rank(row, &number);
  CHECK(count == dims[1] && number == at[1]);
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
}

/* A ring, once as a graph that all know, twice as one of which each rank knows its own edges. */
static void graphs(void) {
  int *index = malloc((size_t)ranks * sizeof *index), *edges = malloc((size_t)ranks * 2 * sizeof *edges);
  int nodes, count, kind, near[2], weights[2], out_weights[2], is_weighted, in[2] = {-1, -1};
  MPI_Comm ring;
  if (ranks < 3) return free(index), free(edges);
  for (int i = 0; i < ranks; i++) {
    index[i] = 2 * i + 2, edges[2 * i] = (i + ranks - 1) % ranks, edges[2 * i + 1] = (i + 1) % ranks;
  }
  MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &ring);
  MPI_Topo_test(ring, &kind);
  MPI_Graphdims_get(ring, &nodes, &count);
  CHECK(kind == MPI_GRAPH && nodes == ranks && count == 2 * ranks);
  MPI_Graph_neighbors_count(ring, rank, &count);
  MPI_Graph_neighbors(ring, rank, 2, near);
  CHECK(count == 2 && near[0] == before && near[1] == next);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, ring);
  CHECK(in[0] == before && in[1] == next);
  MPI_Comm_free(&ring);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, (int[]){before, next}, (int[]){3, 4}, 1, &next, (int[]){5},
                                 MPI_INFO_NULL, 0, &ring);
  MPI_Topo_test(ring, &kind);
  CHECK(kind == MPI_DIST_GRAPH);
  MPI_Comm_free(&ring);
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, (int[]){2}, (int[]){before, next}, (int[]){7, 8}, MPI_INFO_NULL, 0,
                        &ring);
  MPI_Dist_graph_neighbors_count(ring, &nodes, &count, &is_weighted);
  CHECK(nodes == 2 && count == 2 && is_weighted);
  MPI_Dist_graph_neighbors(ring, 2, near, weights, 2, in, out_weights);
  CHECK(near[0] + near[1] == before + next && in[0] + in[1] == before + next);
  CHECK(weights[near[0] == before ? 0 : 1] == 8 && out_weights[in[0] == before ? 0 : 1] == 7);
  int out[3], got[3] = {0}, to_counts[2], from_counts[2];
  for (int i = 0; i < 2; i++) to_counts[i] = in[i] == next ? 2 : 1, from_counts[i] = near[i] == before ? 2 : 1;
  for (int i = 0; i < 3; i++) out[i] = rank * 10 + i;
  int to_places[2] = {0, to_counts[0]}, from_places[2] = {0, from_counts[0]};
  MPI_Neighbor_alltoallv(out, to_counts, to_places, MPI_INT, got, from_counts, from_places, MPI_INT, ring);
  for (int i = 0; i < 2; i++) CHECK(got[from_places[i]] / 10 == near[i]);
  MPI_Comm_free(&ring);
  free(index);
  free(edges);
}

void topologies(void) {
  cartesian();
  graphs();
}
