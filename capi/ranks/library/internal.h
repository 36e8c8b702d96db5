/* Data structures and functions that the files of the rank's MPI library share. Licence: MIT OR Apache-2.0.
 *
 * The library lies in the rank's slot, and all its state with it. It is compiled twice: for MPICH's ABI, and with
 * MAINSTAY_ABI_STANDARD for the standard ABI of MPI 5. Only handles.h, handles.c and status.c know the difference.
 *
 * A function of MPI is written as `MPI(Send)(arguments) { ... }`: this defines PMPI_Send, and MPI_Send as its weak
 * twin. Such a function looks up its handles (`comm_of`), checks its arguments, and reports errors by `return
 * fail(comm, MPI_ERR_...)`. Functions of this file return MPI_SUCCESS or a class of errors, and report nothing. */
#ifndef MAINSTAY_INTERNAL_H
#define MAINSTAY_INTERNAL_H

#define MAINSTAY_LIBRARY
/* The names of MPI are seen from outside; all others are hidden by -fvisibility=hidden. */
#pragma GCC visibility push(default)
#ifdef MAINSTAY_ABI_STANDARD
#include "../include/standard/mpi.h"
#else
#include "../include/mpi.h"
#endif
#pragma GCC visibility pop

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../gate.h"

#define MPI(name)                                                                                                      \
  extern __typeof__(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));                               \
  int PMPI_##name

/* Kinds of objects. Each kind has a table of its own. */
enum kind {
  KIND_COMM,
  KIND_GROUP,
  KIND_TYPE,
  KIND_OPERATION,
  KIND_REQUEST,
  KIND_MESSAGE,
  KIND_INFO,
  KIND_ERRHANDLER,
  KIND_KEYVAL,
  KIND_FILE,
  KINDS
};

/* The head of each object: it is the first member of its struct. */
struct object {
  uint8_t kind;
  bool predefined;  /* exists from the start, is never freed */
  uint32_t id;      /* place in the table of its kind */
  uint32_t uses;    /* handles and other objects that hold it */
  uintptr_t handle; /* of a predefined object: its handle's value */
};

struct group {
  struct object object;
  int size;
  int rank;     /* this rank's place, or MPI_UNDEFINED */
  int *members; /* numbers of ranks in the job */
  int *places;  /* place of each number of the job, or -1; made at the first look-up, see `group_place` */
};

/* A communicator has CONTEXTS contexts of its own, from `context` on: `context` + one of these. */
enum { CONTEXT_MESSAGES, CONTEXT_COLLECTIVES, CONTEXT_NONBLOCKING, CONTEXT_LIBRARY, CONTEXTS };

struct comm {
  struct object object;
  struct group *group;
  struct group *remote; /* of an inter-communicator; else NULL */
  struct comm *local;   /* of an inter-communicator: its own group as a communicator; else NULL */
  uint32_t context;     /* the first of its contexts: the same number in all members, remote ones too */
  uint32_t sequence;    /* collectives begun so far; gives each its tag */
  struct attribute *attributes;
  struct errhandler *errhandler;
  struct info *info;         /* NULL: empty */
  struct topology *topology; /* owned by topology.c; NULL: none */
  char name[MPI_MAX_OBJECT_NAME];
};

/* A piece of a datatype: `repeats` blocks of `length` elements of `of`, one block each `stride` bytes, from `offset`.
 */
struct part {
  MPI_Aint offset;
  MPI_Count repeats;
  MPI_Aint stride;
  MPI_Count length;
  struct datatype *of;
};

/* MPI_Type_commit was called; the lower or upper bound was set, by MPI_Type_create_resized or MPI_LB and MPI_UB. */
enum { TYPE_COMMITTED = 1, TYPE_MARKED_LB = 2, TYPE_MARKED_UB = 4 };

struct datatype {
  struct object object;
  uint8_t basic;  /* enum basic of a basic type; 0: derived */
  bool dense;     /* elements lie one after another without gaps, from offset 0, in the order of their bytes */
  uint8_t flags;  /* TYPE_... */
  uint8_t align;  /* of the basic element that needs most */
  MPI_Count size; /* bytes of data */
  MPI_Aint lb, extent, true_lb, true_extent;
  MPI_Count part_count;
  struct part *parts;
  struct contents *contents; /* for MPI_Type_get_contents; NULL: a named type */
  struct attribute *attributes;
  char *name;
};

/* Basic types by the machine's type. Fortran's types are one of these, so reductions need no others. */
enum basic {
  BASIC_NONE,
  BASIC_CHAR, /* text: no arithmetic */
  BASIC_BYTE,
  BASIC_INT8,
  BASIC_INT16,
  BASIC_INT32,
  BASIC_INT64,
  BASIC_INT128,
  BASIC_UINT8,
  BASIC_UINT16,
  BASIC_UINT32,
  BASIC_UINT64,
  BASIC_FLOAT,
  BASIC_DOUBLE,
  BASIC_LONG_DOUBLE,
  BASIC_FLOAT16,
  BASIC_FLOAT128,
  BASIC_FLOAT_COMPLEX,
  BASIC_DOUBLE_COMPLEX,
  BASIC_LONG_DOUBLE_COMPLEX,
  BASIC_FLOAT16_COMPLEX,
  BASIC_FLOAT128_COMPLEX,
  BASIC_BOOL,     /* C's and C++'s bool */
  BASIC_LOGICAL8, /* Fortran's logicals, by bits */
  BASIC_LOGICAL16,
  BASIC_LOGICAL32,
  BASIC_LOGICAL64,
  BASIC_LOGICAL128,
  BASIC_WCHAR,
  BASIC_PACKED,
  BASIC_FLOAT_INT, /* pairs for MINLOC and MAXLOC: struct { value; int } */
  BASIC_DOUBLE_INT,
  BASIC_LONG_INT,
  BASIC_SHORT_INT,
  BASIC_INT_INT,
  BASIC_LONG_DOUBLE_INT,
  BASIC_2REAL, /* pairs of Fortran: both halves of one type */
  BASIC_2DOUBLE,
  BASIC_2INTEGER,
  BASIC_BOUND, /* MPI_LB, MPI_UB */
};

/* The predefined operations, in this order. */
enum operation_code {
  OPERATION_USER,
  OPERATION_MAX,
  OPERATION_MIN,
  OPERATION_SUM,
  OPERATION_PROD,
  OPERATION_LAND,
  OPERATION_BAND,
  OPERATION_LOR,
  OPERATION_BOR,
  OPERATION_LXOR,
  OPERATION_BXOR,
  OPERATION_MINLOC,
  OPERATION_MAXLOC,
  OPERATION_REPLACE,
  OPERATION_NO_OP
};

struct operation {
  struct object object;
  uint8_t code; /* enum operation_code */
  bool commutes;
  MPI_User_function *user;
  MPI_User_function_c *user_large; /* of MPI_Op_create_c */
};

enum request_kind {
  REQUEST_SEND,
  REQUEST_RECEIVE,
  REQUEST_GENERAL,    /* MPI_Grequest_start */
  REQUEST_COLLECTIVE, /* goes on by `work->step` */
  REQUEST_FINISHED    /* was done when it began: MPI-IO, MPI_PROC_NULL, buffered sends */
};

/* The program's side of a message: its bytes are packed from here, or unpacked to here. */
struct buffer {
  void *data;
  MPI_Count count;
  struct datatype *type; /* held */
  void *packed;          /* own copy of the bytes, if the type is not dense; NULL: they are at `data` */
};

/* The contents of a status. `source` is a rank in the communicator. */
struct outcome {
  int source, tag, error;
  bool cancelled;
  MPI_Count bytes;
};

struct request {
  struct object object;
  uint8_t kind;    /* enum request_kind */
  bool active;     /* started and not yet completed by MPI_Wait, MPI_Test or one of their kin */
  bool persistent; /* stays after its completion */
  bool freed;      /* MPI_Request_free came while it was active */
  bool cancelled;
  uint8_t mode;      /* of a persistent send: enum send_mode */
  struct comm *comm; /* held; NULL: none */
  int peer, tag;     /* as the program gave them */
  struct buffer buffer;
  struct mainstay_message message;
  struct outcome outcome;  /* of REQUEST_FINISHED, REQUEST_COLLECTIVE */
  struct general *general; /* of REQUEST_GENERAL */
  struct work *work;       /* of REQUEST_COLLECTIVE */
};

/* A nonblocking or persistent collective. The functions are the collective's; this file's owner calls them. */
struct work {
  /* Begins (again, if persistent); may be NULL. */
  int (*start)(struct request *request);
  /* Goes on as far as it can without waiting. Returns true once it is done; its error is in `request->outcome`. */
  bool (*step)(struct request *request);
  /* Frees `state`. */
  void (*release)(struct request *request);
  void *state;
  struct request *next; /* the list of active collectives */
};

struct errhandler {
  struct object object;
  MPI_Comm_errhandler_function *on_comm; /* one of these three, or none for a predefined handler */
  MPI_File_errhandler_function *on_file;
  MPI_Win_errhandler_function *on_window;
};

/* ---- handles.c: the only place, with status.c, that knows the ABI. `..._of` returns NULL for a handle that names no
 * object (NULL handles included). */
struct comm *comm_of(MPI_Comm handle);
struct group *group_of(MPI_Group handle);
struct datatype *type_of(MPI_Datatype handle);
struct operation *operation_of(MPI_Op handle);
struct request *request_of(MPI_Request handle);
struct message *message_of(MPI_Message handle);
struct info *info_of(MPI_Info handle);
struct errhandler *errhandler_of(MPI_Errhandler handle);
struct file *file_of(MPI_File handle);
struct keyval *keyval_of(int keyval);
MPI_Comm comm_handle(const struct comm *comm);
MPI_Group group_handle(const struct group *group);
MPI_Datatype type_handle(const struct datatype *type);
MPI_Op operation_handle(const struct operation *operation);
MPI_Request request_handle(const struct request *request);
MPI_Message message_handle(const struct message *message);
MPI_Info info_handle(const struct info *info);
MPI_Errhandler errhandler_handle(const struct errhandler *errhandler);
MPI_File file_handle(const struct file *file);
int keyval_handle(const struct keyval *keyval);

/* ---- objects.c */
/* A zeroed object of `bytes` bytes, held once, with a place in the table of its kind. */
void *object_new(enum kind kind, size_t bytes);
/* The same with a handle of its own, for objects that exist from the start. */
void *object_predefined(enum kind kind, size_t bytes, uintptr_t handle);
void *object_hold(void *object);
/* Gives one hold back. Returns true if it was the last: the caller frees the object's own memory, then calls
 * object_free.
 */
bool object_drop(void *object);
void object_free(void *object);
struct object *object_at(enum kind kind, uint32_t id); /* NULL: none */

/* malloc, calloc, realloc that end the job if there is no memory. */
void *take_memory(size_t bytes);
void *take_zeroed(size_t count, size_t bytes);
void *grow_memory(void *old, size_t bytes);

/* ---- members.c (the functions of MPI on groups and communicators are in group.c and comm.c) */
struct group *group_new(int size);                /* `members` is to be filled in, then: */
void group_finish(struct group *group);           /* sets `rank` */
int group_place(struct group *group, int number); /* number of the job → place, or MPI_UNDEFINED */
void group_release(struct group *group);          /* drops a hold */
/* Takes over one hold of each group. Error handler: that of `parent`, or MPI_ERRORS_ARE_FATAL if it is NULL. */
struct comm *comm_new(struct group *group, struct group *remote, uint32_t context, const struct comm *parent);
void comm_release(struct comm *comm); /* drops a hold; attributes must be gone at the last one */
static inline int comm_rank(const struct comm *comm) { return comm->group->rank; }
static inline int comm_size(const struct comm *comm) { return comm->group->size; }
/* The group of the peers of a message: the remote one of an inter-communicator. */
static inline struct group *comm_peers(const struct comm *comm) { return comm->remote ? comm->remote : comm->group; }
extern struct comm *world, *self;
extern struct group *empty_group;
/* This rank, as the host knows it. */
extern struct mainstay_rank_info rank_info;
void ask_host(void); /* fills it in if that has not happened */
/* False before MPI_Init and after MPI_Finalize. */
bool running(void);

/* ---- attributes.c */
/* Copies the attributes for MPI_Comm_dup and MPI_Type_dup, by their copy functions; deletes them by their delete
 * functions. Each returns MPI_SUCCESS or the error of such a function. `handle` is the object's. */
int attributes_copy(struct attribute *from, struct attribute **to, uintptr_t handle);
int attributes_delete(struct attribute **list, uintptr_t handle);
void topology_release(struct topology *topology);                /* topology.c */
struct topology *topology_copy(const struct topology *topology); /* topology.c, for MPI_Comm_dup */

/* ---- info.c */
struct info *info_copy(const struct info *info); /* NULL → NULL */
void info_release(struct info *info);            /* NULL is allowed */
const char *info_value(const struct info *info, const char *key);

/* ---- errors.c */
/* Calls the error handler of the communicator (NULL: that of MPI_COMM_SELF) and returns the error. */
int raise_error(struct comm *comm, int error, const char *function);
#define fail(comm, error) raise_error((comm), (error), &__func__[1])
/* Prints that `function` is not supported, and `advice`. Ends the job if the error handler is MPI_ERRORS_ARE_FATAL.
 * Else returns MPI_ERR_UNSUPPORTED_OPERATION, and sets `is_reported`: a later call then prints nothing. */
int raise_unsupported(struct comm *comm, const char *function, const char *advice, bool *is_reported);
/* Ends the job with a text, as from printf, about a fault of the program or of this library. */
void end_job(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Drops a hold of an error handler. */
void errhandler_release(struct errhandler *errhandler);
extern struct errhandler *errors_are_fatal, *errors_return;

/* ---- messages.c: bytes between two ranks. `peer` is a rank in `comm` (its remote group if it has one); `context` is
 * one of CONTEXT_...; the message must stay at its address until it is done. Peers and tags are not checked. */
void start_send(struct mainstay_message *message, struct comm *comm, int context, int peer, int tag, const void *data,
                size_t bytes);
void start_receive(struct mainstay_message *message, struct comm *comm, int context, int peer, int tag, void *data,
                   size_t bytes);
/* Waits until the message is done. Nonblocking collectives go on meanwhile. */
void wait_message(struct mainstay_message *message);
void send_bytes(struct comm *comm, int context, int peer, int tag, const void *data, size_t bytes);
/* Returns the length of the message, which may exceed `bytes`. */
size_t receive_bytes(struct comm *comm, int context, int peer, int tag, void *data, size_t bytes);
/* Lets all active collectives go on. */
void step_collectives(void);
/* Waits for the next event: called in a loop around a condition that a message can make true. */
void wait_event(void);
/* For a test that found nothing: lets other ranks run, and messages arrive. */
void let_others_run(void);

/* ---- requests.c */
struct request *request_new(enum request_kind kind, struct comm *comm);
/* A request for an operation that is done already. */
struct request *request_finished(MPI_Count bytes);
/* A collective that `work` describes. `request_start` starts it and puts it on the list of active collectives.
 * `release` is called when the request is freed. */
struct request *request_collective(struct comm *comm, const struct work *work, bool persistent);
int request_start(struct request *request);
/* Frees a request that is not active, or marks an active one to be freed once it is done. Returns the error of a
 * general request's free function. */
int request_release(struct request *request);
bool request_done(struct request *request);

/* ---- pack.c: between a buffer with a datatype and contiguous bytes (of the machine's representation) */
void pack_bytes(const void *data, MPI_Count count, const struct datatype *type, void *packed);
/* Unpacks `bytes` bytes; an element may be there in part. Returns the number of bytes used. */
size_t unpack_bytes(const void *packed, size_t bytes, void *data, MPI_Count count, const struct datatype *type);
/* Copies between two buffers in this rank, as by a message to itself. Returns MPI_SUCCESS or MPI_ERR_TRUNCATE. */
int copy_data(const void *from, MPI_Count from_count, const struct datatype *from_type, void *to, MPI_Count to_count,
              const struct datatype *to_type);
static inline size_t data_bytes(MPI_Count count, const struct datatype *type) {
  return (size_t)count * (size_t)type->size;
}
/* True if `count` elements are contiguous bytes: no packing is needed. */
static inline bool is_dense(const struct datatype *type) { return type->dense; }
/* The bytes of a buffer to be sent: `data` itself if dense, else a copy that the caller frees (`*copy`, or NULL). */
const void *packed_data(const void *data, MPI_Count count, const struct datatype *type, void **copy);

/* ---- types.c */
void type_release(struct datatype *type); /* drops a hold */
/* The basic type that all elements of a datatype have, or NULL if they differ: reductions of derived types. */
const struct datatype *type_uniform(const struct datatype *type);
/* Checks a count and a datatype of a message: MPI_SUCCESS, MPI_ERR_COUNT or MPI_ERR_TYPE. */
int check_buffer(MPI_Count count, const struct datatype *type);

/* ---- status.c */
void set_status(MPI_Status *status, const struct outcome *outcome);
/* For a request that is NULL or not active. */
void set_empty_status(MPI_Status *status);
MPI_Count status_bytes(const MPI_Status *status);

/* ---- operation.c (of the collectives) */
/* Makes the predefined operations: called once, by MPI_Init. */
void operations_start(void);

#endif /* MAINSTAY_INTERNAL_H */
