/* Operations of reductions: those of MPI and those of the program. Licence: MIT OR Apache-2.0. */
#include "operation.h"
#include "op_kernels.h"
#include <limits.h>

void operations_start(void) {
  static const MPI_Op handles[] = {
      [OPERATION_MAX] = MPI_MAX,         [OPERATION_MIN] = MPI_MIN,       [OPERATION_SUM] = MPI_SUM,
      [OPERATION_PROD] = MPI_PROD,       [OPERATION_LAND] = MPI_LAND,     [OPERATION_BAND] = MPI_BAND,
      [OPERATION_LOR] = MPI_LOR,         [OPERATION_BOR] = MPI_BOR,       [OPERATION_LXOR] = MPI_LXOR,
      [OPERATION_BXOR] = MPI_BXOR,       [OPERATION_MINLOC] = MPI_MINLOC, [OPERATION_MAXLOC] = MPI_MAXLOC,
      [OPERATION_REPLACE] = MPI_REPLACE, [OPERATION_NO_OP] = MPI_NO_OP,
  };
  for (int code = OPERATION_MAX; code <= OPERATION_NO_OP; code++) {
    struct operation *operation = object_predefined(KIND_OPERATION, sizeof(struct operation), (uintptr_t)handles[code]);
    operation->code = code;
    operation->commutes = code != OPERATION_REPLACE && code != OPERATION_NO_OP;
  }
}

int operation_check(const struct operation *operation, const struct datatype *type) {
  if (!operation) return MPI_ERR_OP;
  switch (operation->code) {
  case OPERATION_USER:
  case OPERATION_REPLACE:
  case OPERATION_NO_OP:
    return MPI_SUCCESS;
  default:
    return kernel_find(operation->code, type->basic) ? MPI_SUCCESS : MPI_ERR_OP;
  }
}

/* A function with counts of type int is called for at most INT_MAX elements at a time. */
static void apply_user(const struct operation *operation, const void *in, void *inout, MPI_Count count,
                       struct datatype *type) {
  MPI_Datatype handle = type_handle(type);
  if (operation->user_large) {
    operation->user_large((void *)in, inout, &count, &handle);
    return;
  }
  for (MPI_Count done = 0; done < count;) {
    int length = count - done < INT_MAX ? (int)(count - done) : INT_MAX;
    operation->user((char *)in + done * type->extent, (char *)inout + done * type->extent, &length, &handle);
    done += length;
  }
}

void operation_apply(const struct operation *operation, const void *in, void *inout, MPI_Count count,
                     struct datatype *type) {
  if (count == 0) return;
  switch (operation->code) {
  case OPERATION_USER:
    apply_user(operation, in, inout, count, type);
    break;
  case OPERATION_REPLACE:
    copy_data(in, count, type, inout, count, type);
    break;
  case OPERATION_NO_OP:
    break;
  default:
    kernel_find(operation->code, type->basic)(in, inout, (size_t)count);
  }
}

void operation_release(struct operation *operation) {
  if (object_drop(operation)) object_free(operation);
}

static int create(MPI_User_function *user, MPI_User_function_c *user_large, int commute, MPI_Op *op) {
  if ((!user && !user_large) || !op) return MPI_ERR_ARG;
  struct operation *operation = object_new(KIND_OPERATION, sizeof *operation);
  operation->user = user;
  operation->user_large = user_large;
  operation->commutes = commute != 0;
  *op = operation_handle(operation);
  return MPI_SUCCESS;
}

MPI(Op_create)(MPI_User_function *user_fn, int commute, MPI_Op *op) {
  int error = create(user_fn, NULL, commute, op);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Op_create_c)(MPI_User_function_c *user_fn, int commute, MPI_Op *op) {
  int error = create(NULL, user_fn, commute, op);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Op_free)(MPI_Op *op) {
  struct operation *operation = op ? operation_of(*op) : NULL;
  if (!operation || operation->object.predefined) return fail(NULL, MPI_ERR_OP);
  operation_release(operation);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

MPI(Op_commutative)(MPI_Op op, int *commute) {
  const struct operation *operation = operation_of(op);
  if (!operation) return fail(NULL, MPI_ERR_OP);
  if (!commute) return fail(NULL, MPI_ERR_ARG);
  *commute = operation->commutes;
  return MPI_SUCCESS;
}

static int reduce_local(const void *in, void *inout, MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  struct datatype *type = type_of(datatype);
  const struct operation *operation = operation_of(op);
  int error = check_buffer(count, type);
  if (!error) error = operation_check(operation, type);
  if (error) return error;
  if (in == MPI_IN_PLACE || inout == MPI_IN_PLACE) return MPI_ERR_BUFFER;
  if (count > 0 && type->object.predefined && (!in || !inout || in == inout)) return MPI_ERR_BUFFER;
  operation_apply(operation, in, inout, count, type);
  return MPI_SUCCESS;
}

MPI(Reduce_local)(const void *inbuf, void *inoutbuf, int count, MPI_Datatype datatype, MPI_Op op) {
  int error = reduce_local(inbuf, inoutbuf, count, datatype, op);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}

MPI(Reduce_local_c)(const void *inbuf, void *inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  int error = reduce_local(inbuf, inoutbuf, count, datatype, op);
  return error ? fail(NULL, error) : MPI_SUCCESS;
}
