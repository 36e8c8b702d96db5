/* Attributes for Fortran: integers, where C has pointers. Licence: MIT OR Apache-2.0.
 *
 * The standard lets both languages read one attribute. The value of Fortran lies in a box, and C's attribute is the
 * address of the box: C reads a pointer to the integer. Fortran reads the address of an attribute that C has set. */
#include "fortran.h"

typedef void copy_fn(MPI_Fint *object, MPI_Fint *keyval, MPI_Aint *extra_state, MPI_Aint *in, MPI_Aint *out,
                     MPI_Fint *flag, MPI_Fint *ierror);
typedef void delete_fn(MPI_Fint *object, MPI_Fint *keyval, MPI_Aint *value, MPI_Aint *extra_state, MPI_Fint *ierror);
/* The same for the functions of MPI 1, with default integers. */
typedef void old_copy_fn(MPI_Fint *object, MPI_Fint *keyval, MPI_Fint *extra_state, MPI_Fint *in, MPI_Fint *out,
                         MPI_Fint *flag, MPI_Fint *ierror);
typedef void old_delete_fn(MPI_Fint *object, MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *extra_state,
                           MPI_Fint *ierror);

/* ---- boxes */

enum { BOXES = 256 };
struct shelf {
  struct shelf *next;
  MPI_Aint boxes[BOXES];
  bool used[BOXES];
};
static struct shelf *shelves;

static MPI_Aint *box_new(MPI_Aint value) {
  for (struct shelf *shelf = shelves; shelf; shelf = shelf->next)
    for (int i = 0; i < BOXES; i++)
      if (!shelf->used[i]) {
        shelf->used[i] = true;
        shelf->boxes[i] = value;
        return &shelf->boxes[i];
      }
  struct shelf *shelf = f_allocate(sizeof *shelf);
  shelf->next = shelves;
  shelves = shelf;
  shelf->used[0] = true;
  shelf->boxes[0] = value;
  return shelf->boxes;
}

/* The mark of the box at an address; NULL if no box lies there. */
static bool *box_used(const void *address) {
  const uintptr_t at = (uintptr_t)address;
  for (struct shelf *shelf = shelves; shelf; shelf = shelf->next) {
    const uintptr_t first = (uintptr_t)shelf->boxes, behind = (uintptr_t)&shelf->boxes[BOXES];
    if (at >= first && at < behind) return &shelf->used[(at - first) / sizeof(MPI_Aint)];
  }
  return NULL;
}

static MPI_Aint value_of(const void *attribute) {
  return box_used(attribute) ? *(const MPI_Aint *)attribute : (MPI_Aint)attribute;
}

/* ---- functions of a key */

struct functions {
  copy_fn *copy;
  delete_fn *delete;
  bool is_old;
  MPI_Aint extra_state;
};

static int copy_attribute(int object, int keyval, void *extra_state, void *in, void *out, int *flag) {
  struct functions *functions = extra_state;
  MPI_Aint from = value_of(in), to = 0;
  MPI_Fint copied = 0, error = MPI_SUCCESS;
  if (functions->is_old) {
    MPI_Fint extra = (MPI_Fint)functions->extra_state, old_from = (MPI_Fint)from, old_to = 0;
    ((old_copy_fn *)functions->copy)(&object, &keyval, &extra, &old_from, &old_to, &copied, &error);
    to = old_to;
  } else {
    functions->copy(&object, &keyval, &functions->extra_state, &from, &to, &copied, &error);
  }
  *flag = copied != 0;
  if (error == MPI_SUCCESS && copied) *(void **)out = box_new(to);
  return error;
}

static int delete_attribute(int object, int keyval, void *attribute, void *extra_state) {
  struct functions *functions = extra_state;
  MPI_Aint value = value_of(attribute);
  MPI_Fint error = MPI_SUCCESS;
  if (functions->is_old) {
    MPI_Fint extra = (MPI_Fint)functions->extra_state, old_value = (MPI_Fint)value;
    ((old_delete_fn *)functions->delete)(&object, &keyval, &old_value, &extra, &error);
  } else {
    functions->delete(&object, &keyval, &value, &functions->extra_state, &error);
  }
  bool *used = box_used(attribute);
  if (error == MPI_SUCCESS && used) *used = false;
  return error;
}

/* The functions stay in memory: an attribute may outlive its key. */
static struct functions *functions_new(copy_fn *copy, delete_fn *delete, bool is_old, MPI_Aint extra_state) {
  struct functions *functions = f_allocate(sizeof *functions);
  *functions = (struct functions){copy, delete, is_old, extra_state};
  return functions;
}

#define KEYVAL(name, Name)                                                                                             \
  FORTRAN(void, mpi_##name##_create_keyval,                                                                            \
          (copy_fn * copy, delete_fn * delete, MPI_Fint * keyval, MPI_Aint * extra_state, MPI_Fint * ierror)) {        \
    struct functions *functions = functions_new(copy, delete, false, *extra_state);                                    \
    const int outcome = MPI_##Name##_create_keyval(copy_attribute, delete_attribute, keyval, functions);               \
    if (ierror) *ierror = outcome;                                                                                     \
  }
KEYVAL(comm, Comm)
KEYVAL(type, Type)
KEYVAL(win, Win)

FORTRAN_77(void, mpi_keyval_create,
           (old_copy_fn * copy, old_delete_fn *delete, MPI_Fint *keyval, MPI_Fint *extra_state, MPI_Fint *ierror)) {
  struct functions *functions = functions_new((copy_fn *)copy, (delete_fn *)delete, true, *extra_state);
  const int outcome = MPI_Comm_create_keyval(copy_attribute, delete_attribute, keyval, functions);
  if (ierror) *ierror = outcome;
}

/* ---- attributes */

/* A key that exists from the start is one more in Fortran than in C, as in MPICH. */
static bool is_predefined(int keyval) { return (keyval & ~0xffff) == (MPI_TAG_UB & ~0xffff); }

static int comm_get(int comm, int keyval, MPI_Aint *value, MPI_Fint *flag) {
  void *attribute = NULL;
  int found = 0;
  const bool predefined = is_predefined(keyval);
  const int outcome = MPI_Comm_get_attr(comm, predefined ? (keyval - 1) | 1 : keyval, &attribute, &found);
  if (outcome != MPI_SUCCESS) return outcome;
  *flag = found != 0;
  if (found) *value = predefined ? *(int *)attribute : value_of(attribute);
  return outcome;
}

FORTRAN(void, mpi_comm_get_attr,
        (MPI_Fint * comm, MPI_Fint *keyval, MPI_Aint *value, MPI_Fint *flag, MPI_Fint *ierror)) {
  const int outcome = comm_get(*comm, *keyval, value, flag);
  if (ierror) *ierror = outcome;
}

FORTRAN_77(void, mpi_attr_get, (MPI_Fint * comm, MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *flag, MPI_Fint *ierror)) {
  MPI_Aint wide = 0;
  const int outcome = comm_get(*comm, *keyval, &wide, flag);
  if (outcome == MPI_SUCCESS && *flag) *value = (MPI_Fint)wide;
  if (ierror) *ierror = outcome;
}

#define GET(name, Name)                                                                                                \
  FORTRAN(void, mpi_##name##_get_attr,                                                                                 \
          (MPI_Fint * object, MPI_Fint * keyval, MPI_Aint * value, MPI_Fint * flag, MPI_Fint * ierror)) {              \
    void *attribute = NULL;                                                                                            \
    int found = 0;                                                                                                     \
    const int outcome = MPI_##Name##_get_attr(*object, *keyval, &attribute, &found);                                   \
    if (outcome == MPI_SUCCESS) *flag = found != 0;                                                                    \
    if (outcome == MPI_SUCCESS && found) *value = value_of(attribute);                                                 \
    if (ierror) *ierror = outcome;                                                                                     \
  }
GET(type, Type)
GET(win, Win)

#define SET(macro, function, Name, type)                                                                               \
  macro(void, function, (MPI_Fint * object, MPI_Fint * keyval, type * value, MPI_Fint * ierror)) {                     \
    MPI_Aint *box = box_new(*value);                                                                                   \
    const int outcome = MPI_##Name##_set_attr(*object, *keyval, box);                                                  \
    if (outcome != MPI_SUCCESS) *box_used(box) = false;                                                                \
    if (ierror) *ierror = outcome;                                                                                     \
  }
SET(FORTRAN, mpi_comm_set_attr, Comm, MPI_Aint)
SET(FORTRAN, mpi_type_set_attr, Type, MPI_Aint)
SET(FORTRAN, mpi_win_set_attr, Win, MPI_Aint)
SET(FORTRAN_77, mpi_attr_put, Comm, MPI_Fint)

/* ---- functions that a program passes for a key */

#define KEY_FUNCTIONS(prefix, type)                                                                                    \
  FORTRAN_77(void, prefix##_null_copy_fn,                                                                              \
             (MPI_Fint * object, MPI_Fint * keyval, type * extra_state, type * in, type * out, MPI_Fint * flag,        \
              MPI_Fint * ierror)) {                                                                                    \
    (void)object, (void)keyval, (void)extra_state, (void)in, (void)out;                                                \
    *flag = 0;                                                                                                         \
    *ierror = MPI_SUCCESS;                                                                                             \
  }                                                                                                                    \
  FORTRAN_77(void, prefix##_dup_fn,                                                                                    \
             (MPI_Fint * object, MPI_Fint * keyval, type * extra_state, type * in, type * out, MPI_Fint * flag,        \
              MPI_Fint * ierror)) {                                                                                    \
    (void)object, (void)keyval, (void)extra_state;                                                                     \
    *out = *in;                                                                                                        \
    *flag = 1;                                                                                                         \
    *ierror = MPI_SUCCESS;                                                                                             \
  }                                                                                                                    \
  FORTRAN_77(void, prefix##_null_delete_fn,                                                                            \
             (MPI_Fint * object, MPI_Fint * keyval, type * value, type * extra_state, MPI_Fint * ierror)) {            \
    (void)object, (void)keyval, (void)value, (void)extra_state;                                                        \
    *ierror = MPI_SUCCESS;                                                                                             \
  }
KEY_FUNCTIONS(mpi_comm, MPI_Aint)
KEY_FUNCTIONS(mpi_type, MPI_Aint)
KEY_FUNCTIONS(mpi_win, MPI_Aint)
KEY_FUNCTIONS(mpi, MPI_Fint)
