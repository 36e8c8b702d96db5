/* Contexts of communicators: numbers that keep the messages of each apart. Licence: MIT OR Apache-2.0.
 *
 * All members of a new communicator take the largest number that any of them offers, and offer larger ones from then
 * on. Two communicators that share a member therefore differ; those of groups without a common member may be equal.
 *
 * MPI_Comm_idup agrees while other communicators are made. Its numbers have a range of their own, and members vote: a
 * member refuses a number that it has since passed, and all begin again. Two ballots that refused each other then offer
 * different numbers, by the contexts of their parents, and the larger one passes. */
#include "collective_build.h"
#include "comm.h"

enum { CONTEXTS_EACH = 2 * CONTEXTS }; /* for an inter-communicator and its local communicator */

static const uint32_t NONBLOCKING_RANGE = 0x80000000;

static uint32_t next = 2 * CONTEXTS; /* MPI_COMM_WORLD and MPI_COMM_SELF have the first */
static uint32_t next_nonblocking;    /* without NONBLOCKING_RANGE */

/* Two ballots rarely have parents that are equal modulo this. */
static const uint32_t PARENTS = 4093;

struct ballot {
  uint32_t number, refused;
  uint32_t apart; /* 0 at first, then a number that belongs to the parent */
  uint32_t parent;
  uint32_t *context;
};

uint32_t context_offer(void) { return next; }

void context_take(uint32_t context) {
  if (context >= NONBLOCKING_RANGE - CONTEXTS_EACH) end_job("MPI: the program has made too many communicators");
  next = context + CONTEXTS_EACH;
}

uint32_t context_agree(struct comm *comm) {
  struct schedule *schedule = schedule_new(comm);
  uint32_t number = context_offer();
  build_maximum(schedule, comm, &number, 1);
  schedule_run(schedule);
  context_take(number);
  return number;
}

static void offer(struct schedule *schedule, void *argument) {
  struct ballot *ballot = argument;
  (void)schedule;
  ballot->number = next_nonblocking + ballot->apart;
}

static void vote(struct schedule *schedule, void *argument) {
  struct ballot *ballot = argument;
  (void)schedule;
  ballot->refused = ballot->number < next_nonblocking;
  if (ballot->refused) return;
  if (ballot->number >= NONBLOCKING_RANGE - CONTEXTS_EACH)
    end_job("MPI: the program has made too many communicators by MPI_Comm_idup");
  next_nonblocking = ballot->number + CONTEXTS_EACH;
}

static void decide(struct schedule *schedule, void *argument) {
  struct ballot *ballot = argument;
  if (ballot->refused) {
    ballot->apart = ballot->parent / CONTEXTS % PARENTS * CONTEXTS_EACH;
    schedule_restart(schedule);
  } else {
    *ballot->context = ballot->number | NONBLOCKING_RANGE;
  }
}

void context_agree_steps(struct schedule *schedule, struct comm *comm, uint32_t *context) {
  struct ballot *ballot = schedule_memory(schedule, sizeof *ballot);
  ballot->context = context;
  ballot->apart = 0;
  ballot->parent = comm->context;
  schedule_do(schedule, offer, ballot);
  build_maximum(schedule, comm, &ballot->number, 1);
  schedule_fence(schedule);
  schedule_do(schedule, vote, ballot);
  build_maximum(schedule, comm, &ballot->refused, 1);
  schedule_fence(schedule);
  schedule_do(schedule, decide, ballot);
}
