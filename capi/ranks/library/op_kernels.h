/* The predefined operations, as loops over elements of one kind. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_RANKS_OP_KERNELS_H
#define MAINSTAY_RANKS_OP_KERNELS_H

#include <stddef.h>

/* The predefined operations, in the order of their kernels. */
enum operation {
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
  OPERATION_NO_OP,
  OPERATIONS
};

/* The kinds of elements that a kernel can take. */
enum element {
  ELEMENT_NONE,
  ELEMENT_I8,
  ELEMENT_I16,
  ELEMENT_I32,
  ELEMENT_I64,
  ELEMENT_I128,
  ELEMENT_U8,
  ELEMENT_U16,
  ELEMENT_U32,
  ELEMENT_U64,
  ELEMENT_F32,
  ELEMENT_F64,
  ELEMENT_F80,
  ELEMENT_F128,
  ELEMENT_C32,
  ELEMENT_C64,
  ELEMENT_C80,
  ELEMENT_C128,
  ELEMENT_BYTE,
  ELEMENT_L8,
  ELEMENT_L16,
  ELEMENT_L32,
  ELEMENT_L64,
  ELEMENT_L128,
  ELEMENT_F32_INT,
  ELEMENT_F64_INT,
  ELEMENT_F80_INT,
  ELEMENT_I16_INT,
  ELEMENT_I64_INT,
  ELEMENT_I32_I32,
  ELEMENT_F32_F32,
  ELEMENT_F64_F64,
  ELEMENTS
};

/* Puts `in[i] operation inout[i]` into each `inout[i]`. */
typedef void kernel(const void *in, void *inout, size_t count);

/* The loop for an operation on elements of a kind; NULL if MPI does not define the operation for them. */
kernel *kernel_find(enum operation operation, enum element element);

#endif /* MAINSTAY_RANKS_OP_KERNELS_H */
