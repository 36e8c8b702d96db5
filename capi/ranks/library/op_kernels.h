/* The predefined operations, as loops over elements of one basic type. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_OP_KERNELS_H
#define MAINSTAY_OP_KERNELS_H

#include "internal.h"

/* Puts `in[i] operation inout[i]` into each `inout[i]`. */
typedef void kernel(const void *in, void *inout, size_t count);

/* The loop for an operation on elements of a basic type; NULL if MPI does not define the operation for them. */
kernel *kernel_find(enum operation_code code, enum basic basic);

#endif /* MAINSTAY_OP_KERNELS_H */
