/* Making communicators. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_COMM_H
#define MAINSTAY_COMM_H

#include "collective_schedule.h"

/* Each of these functions is collective over `comm`, both groups of an inter-communicator. */

/* The context of a new communicator: no member uses it, nor the next CONTEXTS of them. */
uint32_t context_agree(struct comm *comm);
/* The same in steps: `offer` a number, take the maximum over all members, and `context_take` it. */
uint32_t context_offer(void);
void context_take(uint32_t context);
/* Adds the steps of an agreement to a schedule that holds nothing else. `context` is set at the end. */
void context_agree_steps(struct schedule *schedule, struct comm *comm, uint32_t *context);

/* A communicator of a context agreed upon. Takes over one hold of each group; `remote` may be NULL. */
struct comm *comm_make(struct group *group, struct group *remote, uint32_t context, const struct comm *parent);
/* Splits an intra-communicator by colour and key; NULL for the colour MPI_UNDEFINED. */
struct comm *comm_split_by(struct comm *comm, int color, int key);
/* The same members in the same order, without attributes, info and topology. */
struct comm *comm_twin(struct comm *comm);

/* Sends bytes from one rank of `comm` to all; a tag of `owner` is used. */
void share_bytes(struct comm *owner, struct comm *comm, int root, void *data, size_t bytes);

#endif /* MAINSTAY_COMM_H */
