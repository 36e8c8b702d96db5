/* What mainstay.f90 needs of C. Licence: MIT OR Apache-2.0.
 *
 * Compiled by the user's own mpicc, as part of the program, where the Fortran compiler's
 * ISO_Fortran_binding.h is in reach: for gfortran, with gcc below mpicc. */
#include <ISO_Fortran_binding.h>
#include <stdint.h>
#include <stdio.h>

#include "mainstay_mpi.h"

/* Why this file refused a call; taken by mainstay_fortran_message right after it. */
static char refusal[400];

static mainstay_status refuse(const char *name, const char *why)
{
    snprintf(refusal, sizeof refusal, "region \"%.200s\": %s", name, why);
    return MAINSTAY_INVALID_ARGUMENT;
}

const char *mainstay_fortran_message(void)
{
    static char taken[sizeof refusal];
    if (!refusal[0])
        return mainstay_error_message();
    memcpy(taken, refusal, sizeof taken);
    refusal[0] = 0;
    return taken;
}

/* `comm` is the integer by which Fortran knows a communicator. */
mainstay_status mainstay_fortran_open(int comm, const char *path, const mainstay_options *options,
                                      mainstay_session **session)
{
    return mainstay_open_mpi(MPI_Comm_f2c((MPI_Fint)comm), path, options, session);
}

/* As an error without `stat` ends the program. */
void mainstay_fortran_abort(void)
{
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized && !mainstay_mpi_is_over())
        MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* MAINSTAY_BYTES: one that the space has no name for, such as a derived type or real(16). */
static mainstay_type type_of(const CFI_cdesc_t *data)
{
    static const struct {
        CFI_type_t here;
        mainstay_type there;
    } types[] = {
        {CFI_type_int8_t, MAINSTAY_I8},           {CFI_type_int16_t, MAINSTAY_I16},
        {CFI_type_int32_t, MAINSTAY_I32},         {CFI_type_int64_t, MAINSTAY_I64},
        {CFI_type_float, MAINSTAY_F32},           {CFI_type_double, MAINSTAY_F64},
        {CFI_type_float_Complex, MAINSTAY_C64},   {CFI_type_double_Complex, MAINSTAY_C128},
        {CFI_type_Bool, MAINSTAY_BOOL},
#ifdef CFI_type_Logical /* gfortran: logicals of more than a byte, which the standard names no type for */
        {CFI_type_Logical + (4 << CFI_type_kind_shift), MAINSTAY_I32},
        {CFI_type_Logical + (8 << CFI_type_kind_shift), MAINSTAY_I64},
#endif
    };
    size_t i;
    for (i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].here == data->type)
            return types[i].there;
    return MAINSTAY_BYTES;
}

mainstay_status mainstay_fortran_protect(mainstay_session *session, const char *name, CFI_cdesc_t *data)
{
    uint64_t shape[CFI_MAX_RANK + 1];
    size_t dimensions = 0;
    mainstay_type type = type_of(data);
    int i;

    if (!data->base_addr)
        return refuse(name, "not allocated or associated; do that first");
    if (data->rank > 0 && data->dim[data->rank - 1].extent < 0)
        return refuse(name, "an assumed-size array does not know its size; pass a section with both bounds, a(1:n)");
    if (data->rank > 0 && !CFI_is_contiguous(data))
        return refuse(name, "not contiguous in memory; protect the whole array, or a section without gaps");
    /* The space has the slowest dimension first, Fortran the fastest. */
    for (i = data->rank - 1; i >= 0; i--)
        shape[dimensions++] = (uint64_t)data->dim[i].extent;
    if (type == MAINSTAY_BYTES && data->elem_len != 1)
        shape[dimensions++] = data->elem_len;
    return mainstay_protect_array(session, name, data->base_addr, type, dimensions, shape);
}
