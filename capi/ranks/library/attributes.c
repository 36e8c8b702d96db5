/* Attributes of communicators and datatypes, and their keys. Licence: MIT OR Apache-2.0. */
#include "internal.h"

typedef void any_function(void);

struct keyval {
  struct object object;
  bool of_type; /* of datatypes; else of communicators */
  bool freed;   /* by the program; attributes may still hold it */
  any_function *copy, *delete;
  void *extra;
};

/* The newest attribute is the first of its list: MPI_Finalize deletes those of MPI_COMM_SELF in that order. */
struct attribute {
  struct attribute *next;
  struct keyval *keyval;
  void *value;
};

extern int last_used_code;

#ifndef MAINSTAY_ABI_STANDARD
__attribute__((visibility("default"))) int MPIR_Dup_fn(MPI_Comm comm, int keyval, void *extra_state,
                                                       void *attribute_val_in, void *attribute_val_out, int *flag) {
  (void)comm, (void)keyval, (void)extra_state;
  *(void **)attribute_val_out = attribute_val_in;
  *flag = 1;
  return MPI_SUCCESS;
}
#endif

static int call_copy(const struct attribute *attribute, uintptr_t handle, void **value, int *copied) {
  struct keyval *keyval = attribute->keyval;
  int key = keyval_handle(keyval);
  *copied = 0;
  if (!keyval->copy) return MPI_SUCCESS;
  if (keyval->copy == (any_function *)MPI_COMM_DUP_FN) {
    *value = attribute->value;
    *copied = 1;
    return MPI_SUCCESS;
  }
  if (keyval->of_type)
    return ((MPI_Type_copy_attr_function *)keyval->copy)((MPI_Datatype)handle, key, keyval->extra, attribute->value,
                                                         value, copied);
  return ((MPI_Comm_copy_attr_function *)keyval->copy)((MPI_Comm)handle, key, keyval->extra, attribute->value, value,
                                                       copied);
}

static int call_delete(const struct attribute *attribute, uintptr_t handle) {
  struct keyval *keyval = attribute->keyval;
  int key = keyval_handle(keyval);
  if (!keyval->delete) return MPI_SUCCESS;
  if (keyval->of_type)
    return ((MPI_Type_delete_attr_function *)keyval->delete)((MPI_Datatype)handle, key, attribute->value,
                                                             keyval->extra);
  return ((MPI_Comm_delete_attr_function *)keyval->delete)((MPI_Comm)handle, key, attribute->value, keyval->extra);
}

static void keyval_release(struct keyval *keyval) {
  if (object_drop(keyval)) object_free(keyval);
}

int attributes_copy(struct attribute *from, struct attribute **to, uintptr_t handle) {
  for (; from; from = from->next) {
    void *value = NULL;
    int copied, error = call_copy(from, handle, &value, &copied);
    if (error) return error;
    if (!copied) continue;
    *to = take_memory(sizeof **to);
    **to = (struct attribute){NULL, object_hold(from->keyval), value};
    to = &(*to)->next;
  }
  return MPI_SUCCESS;
}

static struct attribute **find(struct attribute **list, const struct keyval *keyval) {
  while (*list && (*list)->keyval != keyval) list = &(*list)->next;
  return list;
}

/* Calls the delete function, then takes the attribute off the list. The function may delete or set other attributes. */
static int remove_one(struct attribute **list, uintptr_t handle, struct attribute *attribute) {
  struct keyval *keyval = object_hold(attribute->keyval);
  int error = call_delete(attribute, handle);
  struct attribute **link = find(list, keyval);
  if (!error && *link == attribute) {
    *link = attribute->next;
    keyval_release(keyval);
    free(attribute);
  }
  keyval_release(keyval);
  return error;
}

int attributes_delete(struct attribute **list, uintptr_t handle) {
  while (*list) {
    int error = remove_one(list, handle, *list);
    if (error) return error;
  }
  return MPI_SUCCESS;
}

static struct keyval *look_up(int key, bool of_type) {
  struct keyval *keyval = keyval_of(key);
  return keyval && keyval->of_type == of_type ? keyval : NULL;
}

static int set(struct attribute **list, uintptr_t handle, int key, bool of_type, void *value) {
  struct keyval *keyval = look_up(key, of_type);
  struct attribute *attribute;
  if (!keyval) return MPI_ERR_KEYVAL;
  attribute = *find(list, keyval);
  if (attribute) {
    int error = call_delete(attribute, handle);
    if (error) return error;
  } else {
    attribute = take_memory(sizeof *attribute);
    attribute->keyval = object_hold(keyval);
    attribute->next = *list;
    *list = attribute;
  }
  attribute->value = value;
  return MPI_SUCCESS;
}

static int delete(struct attribute **list, uintptr_t handle, int key, bool of_type) {
  struct keyval *keyval = look_up(key, of_type);
  struct attribute *attribute = keyval ? *find(list, keyval) : NULL;
  return attribute ? remove_one(list, handle, attribute) : MPI_ERR_KEYVAL;
}

static int get(struct attribute **list, int key, bool of_type, void *value, int *flag) {
  struct keyval *keyval = look_up(key, of_type);
  struct attribute *attribute;
  if (!keyval) return MPI_ERR_KEYVAL;
  attribute = *find(list, keyval);
  *flag = attribute != NULL;
  if (attribute) *(void **)value = attribute->value;
  return MPI_SUCCESS;
}

/* The attributes that exist from the start: the value is the address of an int. */
static int *predefined(int key) {
  static int tag_ub = INT32_MAX, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE, wtime_is_global, appnum, universe;
  switch (key) {
  case MPI_TAG_UB:
    return &tag_ub;
  case MPI_HOST:
    return &host;
  case MPI_IO:
    return &io;
  case MPI_WTIME_IS_GLOBAL:
    return &wtime_is_global;
  case MPI_APPNUM:
    return &appnum;
  case MPI_LASTUSEDCODE:
    return &last_used_code;
  case MPI_UNIVERSE_SIZE:
    universe = rank_info.ranks;
    return &universe;
  default:
    return NULL;
  }
}

static int create(any_function *copy, any_function *delete, int *key, void *extra, bool of_type) {
  struct keyval *keyval = object_new(KIND_KEYVAL, sizeof *keyval);
  keyval->copy = copy;
  keyval->delete = delete;
  keyval->extra = extra;
  keyval->of_type = of_type;
  *key = keyval_handle(keyval);
  return MPI_SUCCESS;
}

static int free_key(int *key, bool of_type) {
  struct keyval *keyval = look_up(*key, of_type);
  if (!keyval) return MPI_ERR_KEYVAL;
  if (!keyval->freed) {
    keyval->freed = true;
    keyval_release(keyval);
  }
  *key = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

MPI(Comm_create_keyval)(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete, int *comm_keyval,
                        void *extra_state) {
  return create((any_function *)copy, (any_function *)delete, comm_keyval, extra_state, false);
}
MPI(Type_create_keyval)(MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *delete, int *type_keyval,
                        void *extra_state) {
  return create((any_function *)copy, (any_function *)delete, type_keyval, extra_state, true);
}
MPI(Comm_free_keyval)(int *comm_keyval) { return fail(NULL, free_key(comm_keyval, false)); }
MPI(Type_free_keyval)(int *type_keyval) { return fail(NULL, free_key(type_keyval, true)); }

MPI(Comm_set_attr)(MPI_Comm comm, int comm_keyval, void *attribute_val) {
  struct comm *of = comm_of(comm);
  if (!of) return fail(NULL, MPI_ERR_COMM);
  return fail(of, set(&of->attributes, (uintptr_t)comm, comm_keyval, false, attribute_val));
}

MPI(Comm_get_attr)(MPI_Comm comm, int comm_keyval, void *attribute_val, int *flag) {
  struct comm *of = comm_of(comm);
  int *value = predefined(comm_keyval);
  if (!of) return fail(NULL, MPI_ERR_COMM);
  if (!value) return fail(of, get(&of->attributes, comm_keyval, false, attribute_val, flag));
  *(void **)attribute_val = value;
  *flag = 1;
  return MPI_SUCCESS;
}

MPI(Comm_delete_attr)(MPI_Comm comm, int comm_keyval) {
  struct comm *of = comm_of(comm);
  if (!of) return fail(NULL, MPI_ERR_COMM);
  return fail(of, delete(&of->attributes, (uintptr_t)comm, comm_keyval, false));
}

MPI(Type_set_attr)(MPI_Datatype datatype, int type_keyval, void *attribute_val) {
  struct datatype *of = type_of(datatype);
  if (!of) return fail(NULL, MPI_ERR_TYPE);
  return fail(NULL, set(&of->attributes, (uintptr_t)datatype, type_keyval, true, attribute_val));
}

MPI(Type_get_attr)(MPI_Datatype datatype, int type_keyval, void *attribute_val, int *flag) {
  struct datatype *of = type_of(datatype);
  if (!of) return fail(NULL, MPI_ERR_TYPE);
  return fail(NULL, get(&of->attributes, type_keyval, true, attribute_val, flag));
}

MPI(Type_delete_attr)(MPI_Datatype datatype, int type_keyval) {
  struct datatype *of = type_of(datatype);
  if (!of) return fail(NULL, MPI_ERR_TYPE);
  return fail(NULL, delete(&of->attributes, (uintptr_t)datatype, type_keyval, true));
}

/* Names of MPI 1. */
MPI(Keyval_create)(MPI_Copy_function *copy, MPI_Delete_function *delete, int *keyval, void *extra_state) {
  return create((any_function *)copy, (any_function *)delete, keyval, extra_state, false);
}
MPI(Keyval_free)(int *keyval) { return fail(NULL, free_key(keyval, false)); }
MPI(Attr_put)(MPI_Comm comm, int keyval, void *value) { return PMPI_Comm_set_attr(comm, keyval, value); }
MPI(Attr_get)(MPI_Comm comm, int keyval, void *value, int *flag) {
  return PMPI_Comm_get_attr(comm, keyval, value, flag);
}
MPI(Attr_delete)(MPI_Comm comm, int keyval) { return PMPI_Comm_delete_attr(comm, keyval); }
