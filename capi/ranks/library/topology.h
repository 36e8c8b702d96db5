/* Topologies of communicators. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_TOPOLOGY_H
#define MAINSTAY_TOPOLOGY_H

#include "internal.h"

struct cartesian {
  int count;                    /* of dimensions */
  int *dims, *periods, *coords; /* `coords` are this rank's */
};

struct graph {
  int count;          /* of nodes */
  int *index, *edges; /* as MPI_Graph_create takes them */
};

/* The edges of this rank in a distributed graph. */
struct edges {
  int count;
  int *ranks, *weights; /* `weights` is NULL if the graph has none */
};

struct topology {
  int kind; /* MPI_CART, MPI_GRAPH or MPI_DIST_GRAPH */
  int uses; /* communicators that share it */
  union {
    struct cartesian cartesian;
    struct graph graph;
    struct {
      struct edges in, out;
      bool weighted;
    };
  };
};

struct topology *topology_new(int kind);
/* A copy of a list of integers. */
int *list_copy(const int *list, size_t count);

/* The neighbours of this rank in the order of MPI's collectives between neighbours; MPI_PROC_NULL among them. */
int topology_sources(const struct comm *comm);
int topology_destinations(const struct comm *comm);
int topology_source(const struct comm *comm, int place);
int topology_destination(const struct comm *comm, int place);

/* The rank `by` steps along a dimension from this one, or MPI_PROC_NULL. */
int cartesian_neighbor(const struct cartesian *grid, int dimension, int by);

#endif /* MAINSTAY_TOPOLOGY_H */
