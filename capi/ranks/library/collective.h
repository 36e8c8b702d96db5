/* The forms and the checks that the collectives of MPI share. Licence: MIT OR Apache-2.0.
 *
 * Each collective has six forms: blocking, nonblocking, persistent, and each of these for large counts. One function
 * serves all: it checks the arguments, builds a schedule, and leaves the rest to `call_finish`. */
#ifndef MAINSTAY_COLLECTIVE_H
#define MAINSTAY_COLLECTIVE_H

#include "collective_build.h"

/* The form in which the program called a collective. */
struct call {
  const char *name;
  enum { FORM_BLOCKING, FORM_NONBLOCKING, FORM_PERSISTENT } form;
  bool wide;            /* arrays of counts and places are MPI_Count and MPI_Aint, not int */
  MPI_Request *request; /* NULL if blocking */
};

#define BLOCKING(WIDE) (&(const struct call){&__func__[1], FORM_BLOCKING, WIDE, NULL})
#define NONBLOCKING(WIDE) (&(const struct call){&__func__[1], FORM_NONBLOCKING, WIDE, request})
#define PERSISTENT(WIDE) (&(const struct call){&__func__[1], FORM_PERSISTENT, WIDE, request})

/* Defines the forms of a collective: PARAMETERS is a macro over the types of counts and of places, the rest are the
 * arguments that go to FUNCTION. */
#define COLLECTIVE(NAME, ONWARD, PARAMETERS, FUNCTION, ...)                                                            \
  MPI(NAME)(PARAMETERS(int, int)) { return FUNCTION(BLOCKING(false), __VA_ARGS__); }                                   \
  MPI(NAME##_c)(PARAMETERS(MPI_Count, MPI_Aint)) { return FUNCTION(BLOCKING(true), __VA_ARGS__); }                     \
  MPI(ONWARD)(PARAMETERS(int, int), MPI_Request * request) { return FUNCTION(NONBLOCKING(false), __VA_ARGS__); }       \
  MPI(ONWARD##_c)(PARAMETERS(MPI_Count, MPI_Aint), MPI_Request * request) {                                            \
    return FUNCTION(NONBLOCKING(true), __VA_ARGS__);                                                                   \
  }                                                                                                                    \
  MPI(NAME##_init)(PARAMETERS(int, int), MPI_Info info, MPI_Request * request) {                                       \
    (void)info;                                                                                                        \
    return FUNCTION(PERSISTENT(false), __VA_ARGS__);                                                                   \
  }                                                                                                                    \
  MPI(NAME##_init_c)(PARAMETERS(MPI_Count, MPI_Aint), MPI_Info info, MPI_Request * request) {                          \
    (void)info;                                                                                                        \
    return FUNCTION(PERSISTENT(true), __VA_ARGS__);                                                                    \
  }

/* Layouts of buffers with a list of counts and places, and also of datatypes. */
struct layout layout_list(const struct call *call, const void *data, const void *counts, const void *places,
                          MPI_Datatype datatype);
struct layout layout_mixed(const struct call *call, const void *data, const void *counts, const void *places,
                           const MPI_Datatype *types, bool wide_places);

/* Runs the schedule, or gives out a request for it. */
int call_finish(const struct call *call, struct schedule *schedule, struct comm *comm);

/* Each check returns MPI_SUCCESS or a class of errors. */
int check_call(const struct call *call, const struct comm *comm);
int check_root(const struct comm *comm, int root);
/* A buffer that may not be MPI_IN_PLACE. */
int check_data(const void *data, MPI_Count count, const struct datatype *type);
int check_layout(const struct layout *layout, int parts);
/* Operands and result of a reduction; `from` may be MPI_IN_PLACE. */
int check_reduction(const void *from, const void *to, MPI_Count count, const struct datatype *type,
                    const struct operation *operation);

/* Whether this rank has data to give to a rooted collective, and whether it takes the result. */
static inline bool is_root(const struct comm *comm, int root) {
  return comm->remote ? root == MPI_ROOT : root == comm_rank(comm);
}
static inline bool gives_to(const struct comm *comm, int root) { return !comm->remote || root >= 0; }
/* The number of ranks from which this rank takes a part, and to which it gives one. */
static inline int parts_of(const struct comm *comm) { return comm->remote ? comm->remote->size : comm->group->size; }

#endif /* MAINSTAY_COLLECTIVE_H */
