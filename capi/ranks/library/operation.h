/* Operations of reductions. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_OPERATION_H
#define MAINSTAY_OPERATION_H

#include "internal.h"

/* MPI_SUCCESS, or MPI_ERR_OP if the operation does not exist or is not defined for the datatype. */
int operation_check(const struct operation *operation, const struct datatype *type);
/* Puts `in operation inout` into `inout`, element by element. */
void operation_apply(const struct operation *operation, const void *in, void *inout, MPI_Count count,
                     struct datatype *type);
/* Drops a hold. */
void operation_release(struct operation *operation);

#endif /* MAINSTAY_OPERATION_H */
