/* The collectives as schedules. Licence: MIT OR Apache-2.0.
 *
 * Each function adds the steps of this rank to a schedule. Functions that end in `_between` are for
 * inter-communicators. Reductions combine ranks by a fixed tree of rank numbers, so that a result has the same bits
 * wherever the ranks lie. */
#ifndef MAINSTAY_COLLECTIVE_BUILD_H
#define MAINSTAY_COLLECTIVE_BUILD_H

#include "collective_schedule.h"

/* A buffer with a part for each rank: parts of one size, or with counts and places, or also with datatypes. */
struct layout {
  char *data;
  struct datatype *type;     /* of all parts, or NULL */
  const MPI_Datatype *types; /* of each part, if `type` is NULL */
  MPI_Count count;           /* of all parts, if `counts` is NULL */
  const void *counts;        /* of each part: int, or MPI_Count if wide */
  const void *places; /* int, or MPI_Aint if wide; in extents, or in bytes if `types` are given; NULL: in order */
  bool wide_counts, wide_places;
  bool same; /* all parts are the same data: `count` elements at `data` */
};

MPI_Count layout_count(const struct layout *layout, int part);
struct block layout_block(const struct layout *layout, int part);
/* Parts of one count, one behind the other. */
struct layout layout_even(const void *data, MPI_Count count, struct datatype *type);

/* collective_tree.c */
void build_barrier(struct schedule *schedule, struct comm *comm);
void build_bcast(struct schedule *schedule, struct comm *comm, int root, struct block block);
/* `to` counts at the root only. */
void build_reduce(struct schedule *schedule, struct comm *comm, int root, struct operation *operation,
                  struct block from, struct block to);
void build_allreduce(struct schedule *schedule, struct comm *comm, struct operation *operation, struct block from,
                     struct block to);
/* Inclusive, or exclusive: then rank 0's `to` stays as it is. */
void build_scan(struct schedule *schedule, struct comm *comm, struct operation *operation, struct block from,
                struct block to, bool inclusive);

/* collective_blocks.c: `mine` with no datatype stands for MPI_IN_PLACE */
void build_gather(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                  const struct layout *layout);
void build_scatter(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                   struct block mine);
/* The same for parts of one count. Small parts of many ranks go along a tree. */
void build_gather_even(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                       const struct layout *layout);
void build_scatter_even(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                        struct block mine);
void build_allgather(struct schedule *schedule, struct comm *comm, struct block mine, const struct layout *layout);
/* `from` may be NULL: MPI_IN_PLACE. */
void build_alltoall(struct schedule *schedule, struct comm *comm, const struct layout *from, const struct layout *to);
/* `from` has the elements for all ranks, `to` the part of each. */
void build_reduce_scatter(struct schedule *schedule, struct comm *comm, struct operation *operation, struct block from,
                          const struct layout *counts, struct block to);

/* collective_between.c */
void build_barrier_between(struct schedule *schedule, struct comm *comm);
void build_bcast_between(struct schedule *schedule, struct comm *comm, int root, struct block block);
void build_reduce_between(struct schedule *schedule, struct comm *comm, int root, struct operation *operation,
                          struct block from, struct block to);
void build_allreduce_between(struct schedule *schedule, struct comm *comm, struct operation *operation,
                             struct block from, struct block to);
void build_gather_between(struct schedule *schedule, struct comm *comm, int root, struct block mine,
                          const struct layout *layout);
void build_scatter_between(struct schedule *schedule, struct comm *comm, int root, const struct layout *layout,
                           struct block mine);
void build_allgather_between(struct schedule *schedule, struct comm *comm, struct block mine,
                             const struct layout *layout);
void build_alltoall_between(struct schedule *schedule, struct comm *comm, const struct layout *from,
                            const struct layout *to);
void build_reduce_scatter_between(struct schedule *schedule, struct comm *comm, struct operation *operation,
                                  struct block from, const struct layout *counts, struct block to);
/* The maximum of each number over all members of a communicator, both groups of an inter-communicator. */
void build_maximum(struct schedule *schedule, struct comm *comm, uint32_t *numbers, int count);

/* collective_neighbors.c: between ranks that are neighbours in the topology of the communicator */
void build_neighbors(struct schedule *schedule, struct comm *comm, const struct layout *from, const struct layout *to);

#endif /* MAINSTAY_COLLECTIVE_BUILD_H */
