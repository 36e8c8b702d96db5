/* Functions that the files of datatypes share. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_TYPES_H
#define MAINSTAY_TYPES_H

#include "internal.h"

/* A type that consists of parts. Takes over `parts` (from take_memory), and holds the types in them. With `aligned` the
 * extent is rounded up as the compiler does for a struct. */
struct datatype *type_build(struct part *parts, MPI_Count count, bool aligned);
/* Sets both bounds, as MPI_Type_create_resized. */
void type_bound(struct datatype *type, MPI_Aint lb, MPI_Aint extent);
/* Room for one part for each of `count` blocks. */
struct part *parts_new(MPI_Count count);
/* The arguments of a constructor, for MPI_Type_get_contents. */
struct note {
  int combiner;
  size_t integer_count, address_count, large_count;
  int *integers;
  MPI_Aint *addresses;
  MPI_Count *large;
};

/* An array of numbers as the program gave it: one of the three. Its numbers go to the array of that kind in a note. */
struct numbers {
  const int *small;
  const MPI_Aint *addresses;
  const MPI_Count *large;
};
static inline struct numbers small_numbers(const int *small) { return (struct numbers){.small = small}; }
static inline struct numbers addresses(const MPI_Aint *array) { return (struct numbers){.addresses = array}; }
static inline struct numbers large_numbers(const MPI_Count *large) { return (struct numbers){.large = large}; }
static inline MPI_Count number_at(struct numbers numbers, MPI_Count i) {
  return numbers.small ? numbers.small[i] : numbers.addresses ? numbers.addresses[i] : numbers.large[i];
}
/* Adds the first `count` numbers to the note. */
void note_numbers(struct note *note, struct numbers numbers, MPI_Count count);
/* Gives the note to the type, with the types that it was made of. Returns its handle. */
MPI_Datatype type_noted(struct datatype *type, const struct note *note, MPI_Count types, const MPI_Datatype *of);
/* How a derived type was made. */
struct contents {
  struct note note;
  MPI_Count type_count;
  struct datatype **types; /* held */
};

void contents_release(struct contents *contents);

/* ---- type_query.c */
/* The bytes of the first `elements` basic elements of an array of a type. */
MPI_Count type_bytes_of(const struct datatype *type, MPI_Count elements);

#endif /* MAINSTAY_TYPES_H */
