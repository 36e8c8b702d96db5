/* The gate between a rank in a slot and its host. Licence: MIT OR Apache-2.0.
 *
 * A rank is a whole program in an address slot of its own: executable, C library, heap, stack. The host is the process
 * that holds the slot. The two share no memory but the slot and one page, the gate. The host fills in that page when it
 * starts. It lies at the same address in every process, so a rank finds it after a restart as well.
 *
 * A rank calls the host at MAINSTAY_GATE_CALL. The call saves the rank's registers on the rank's own stack, so a rank
 * that does not run is always inside such a call, and no frame of the host lies on its stack. The host can therefore
 * save, move, or drop the rank at any call. A call may take long: the host runs other ranks meanwhile. */
#ifndef MAINSTAY_GATE_H
#define MAINSTAY_GATE_H

#include <stdint.h>
#include <time.h>

#define MAINSTAY_GATE_ADDRESS 0x1ff000000000ul
#define MAINSTAY_GATE_VERSION 2u
/* Where a rank calls the host. The address is the same in every process: a rank may be saved with it in a register. */
#define MAINSTAY_GATE_CALL 0x1ff000001100ul

struct mainstay_gate {
  uint32_t version; /* MAINSTAY_GATE_VERSION */
  uint32_t reserved;
  /* Reads a clock of the kernel without the kernel. A rank adds its own offset. */
  int (*clock_gettime)(clockid_t clock, struct timespec *time);
};

/* The calls of the gate, with their argument. Each returns 0 unless it says otherwise. */
enum mainstay_gate_call {
  MAINSTAY_GATE_INFO = 1,          /* struct mainstay_rank_info: the host fills it in */
  MAINSTAY_GATE_SEND = 2,          /* struct mainstay_message: starts a send */
  MAINSTAY_GATE_RECEIVE = 3,       /* struct mainstay_message: starts a receive */
  MAINSTAY_GATE_PROBE = 4,         /* struct mainstay_message: `done` is 1 if a matching message has arrived, else 0 */
  MAINSTAY_GATE_TAKE = 5,          /* like PROBE, and takes the message out of the queue: `taken` names it */
  MAINSTAY_GATE_RECEIVE_TAKEN = 6, /* struct mainstay_message: starts to receive the message that `taken` names */
  MAINSTAY_GATE_WITHDRAW =
      7,                    /* struct mainstay_message: takes back a receive that is not matched; returns 1 if it did */
  MAINSTAY_GATE_WAIT = 8,   /* NULL: returns when a message was completed or arrived since this rank's last WAIT */
  MAINSTAY_GATE_YIELD = 9,  /* NULL: lets other ranks run, and lets messages arrive */
  MAINSTAY_GATE_ABORT = 10, /* the exit code as a pointer: ends the job; does not return */
  MAINSTAY_GATE_REFUSE = 11, /* const char *: prints the message, ends the job; does not return */
  MAINSTAY_GATE_LEAVE = 12   /* NULL: the rank has called MPI_Finalize; if it ends before, the job ends */
};

#define MAINSTAY_ANY_RANK (-1)
#define MAINSTAY_ANY_TAG (-1)

/* The send is complete only when its receive has been matched. */
#define MAINSTAY_SYNCHRONOUS 1u

/* A message that a rank sends or receives. It stays at its address, and so do its bytes, until it is done. Messages
 * between two ranks in one context are matched in the order in which they were sent. */
struct mainstay_message {
  /* The rank fills in: */
  int32_t peer;     /* the other rank's number in the job, or for a receive MAINSTAY_ANY_RANK */
  int32_t tag;      /* 0 or more, or for a receive MAINSTAY_ANY_TAG */
  uint32_t context; /* a receive takes messages of its own context only */
  uint32_t flags;   /* of a send: MAINSTAY_SYNCHRONOUS or 0 */
  void *data;
  uint64_t bytes; /* of a receive: the room at `data` */
  /* The host fills in, before it sets `done`: */
  int32_t source;         /* of a receive: the sender's number in the job */
  int32_t arrived_tag;    /* of a receive */
  uint64_t arrived_bytes; /* of a receive: the length of the message; the host stores no more than `bytes` of it */
  uint64_t taken;         /* of TAKE: the message's number, not 0 */
  uint32_t done;          /* 0: under way; 1: complete */
  uint32_t reserved;
};

struct mainstay_rank_info {
  int32_t rank;  /* this rank's number in the job */
  int32_t ranks; /* the number of ranks in the job */
  int32_t node;  /* the number of the node where the job placed the rank at its first start */
  int32_t reserved;
  char node_name[128]; /* ended by NUL; the same number has the same name for as long as the job lives */
};

static inline int64_t mainstay_gate(enum mainstay_gate_call call, void *argument) {
  return ((int64_t (*)(int64_t, void *))MAINSTAY_GATE_CALL)(call, argument);
}

#endif /* MAINSTAY_GATE_H */
