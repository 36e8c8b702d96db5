/* Declarations that the functions for Fortran share. Licence: MIT OR Apache-2.0.
 *
 * Fortran passes addresses. A text has its length behind all other arguments, and blanks at its end. A handle of
 * Fortran is the same number as in C; a file alone has a number of its own. A status is an array of five integers with
 * the contents of MPI_Status.
 *
 * These functions are a part of the rank's MPI library for MPICH's ABI. The program may ask for them by the name
 * libmpifort.so.12: a symbolic link of that name to libmpi.so.12 is enough.
 *
 * MPI_BOTTOM and its like are variables in common blocks. The program has blocks of the same names, so the program's
 * copies are in use: this library finds them through the dynamic linker, and must not be linked with -Bsymbolic. */
#ifndef MAINSTAY_RANKS_FORTRAN_H
#define MAINSTAY_RANKS_FORTRAN_H

#include "../library/internal.h"

_Static_assert(sizeof(MPI_Comm) == sizeof(MPI_Fint), "a handle is an integer of Fortran");
_Static_assert(sizeof(MPI_Status) == MPI_F_STATUS_SIZE * sizeof(MPI_Fint), "a status is an array of integers");

#define SEEN __attribute__((visibility("default")))

/* Another name of a function. */
#define TWIN(type, name, twin, arguments) SEEN type twin arguments __attribute__((weak, alias(#name "_")));

/* Defines a function by its names: mpi_x_, mpi_x__ for -fsecond-underscore, and both for PMPI. */
#define FORTRAN_77(type, name, arguments)                                                                              \
  SEEN type name##_ arguments;                                                                                         \
  TWIN(type, name, name##__, arguments)                                                                                \
  TWIN(type, name, p##name##_, arguments)                                                                              \
  TWIN(type, name, p##name##__, arguments)                                                                             \
  type name##_ arguments

/* The same, and the name that mpi_f08 uses. */
#define FORTRAN(type, name, arguments)                                                                                 \
  SEEN type name##_ arguments;                                                                                         \
  TWIN(type, name, name##_f08_, arguments)                                                                             \
  TWIN(type, name, p##name##_f08_, arguments)                                                                          \
  FORTRAN_77(type, name, arguments)

/* A function of mpi_f08 with buffers; and the same in MPICH's mpi_f08. */
#define SECTIONS(name, arguments)                                                                                      \
  SEEN void name##_f08ts arguments;                                                                                    \
  void name##_f08ts arguments
#define SECTIONS_OF_MPICH(name, arguments)                                                                             \
  SEEN void name arguments;                                                                                            \
  void name arguments

/* ---- addresses.c */
void *f_buffer(void *buffer);               /* MPI_BOTTOM and MPI_IN_PLACE as in C */
MPI_Status *f_status(MPI_Fint *status);     /* MPI_STATUS_IGNORE as in C */
MPI_Status *f_statuses(MPI_Fint *statuses); /* MPI_STATUSES_IGNORE as in C */
int *f_weights(MPI_Fint *weights);          /* MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY as in C */

static inline int f_index(int index) { return index == MPI_UNDEFINED ? index : index + 1; }
static inline void f_indices(MPI_Fint *indices, MPI_Fint count) {
  for (int i = 0; count != MPI_UNDEFINED && i < count; i++) indices[i]++;
}
static inline void f_logicals(MPI_Fint *logicals, MPI_Fint count) {
  for (int i = 0; i < count; i++) logicals[i] = logicals[i] != 0;
}

/* ---- texts.c */
void *f_allocate(size_t bytes); /* ends the job without memory */
/* A text of Fortran as one of C, without the blanks at its end; or without those before it, either. Free it. */
char *f_text(const char *text, size_t length);
char *f_text_stripped(const char *text, size_t length);
char *f_room(long bytes); /* an empty text with that much room */
void f_text_out(char *to, size_t length, const char *from);

/* ---- sections.c: the descriptor of an array, as gfortran 9 and flang pass it to C. The descriptor of Intel's
 * compilers begins the same way. */
struct dimension {
  ptrdiff_t lower_bound, extent, stride; /* the stride in bytes; an extent of -1 is not known */
};
struct section {
  void *base;
  size_t bytes; /* of an element */
  int version;
  int8_t rank;
  int8_t of_compiler[3];
  struct dimension dimensions[];
};
/* The address of the elements, for a call that has used them when it returns. Elements with gaps are copied. */
void *section_packed(const struct section *section);
void section_unpack(const struct section *section, void *data); /* copies the elements back, and frees the copy */
void section_drop(const struct section *section, void *data);   /* frees the copy */
/* The address of the elements, for a call that uses them later. Ends the job if they have gaps. */
void *section_kept(const struct section *section, const char *function);
/* The elements as a datatype, for a call that uses them later: `count` items of `type` at the section's base. */
struct typed {
  MPI_Count count;
  MPI_Datatype type;
  bool is_new;
};
struct typed section_typed(const struct section *section, MPI_Count count, MPI_Datatype type, const char *function);
void section_untyped(struct typed *typed); /* after the call */

/* ---- mpich.c: buffers of programs that were compiled with MPICH's mpi_f08 */
struct gfortran_array {
  void *base;
  size_t offset, bytes;
  int version;
  int8_t rank, type;
  int16_t attribute;
  ptrdiff_t span;
  struct {
    ptrdiff_t stride, lower, upper; /* the stride in units of `span` */
  } dimensions[];
};
union section_room {
  struct section section;
  char room[sizeof(struct section) + 15 * sizeof(struct dimension)];
};
/* The descriptor as a section in `room`. */
const struct section *section_from(union section_room *room, const struct gfortran_array *array, const char *function);
const struct section *section_of_text(union section_room *room, char *text, size_t length);

#endif
