/* Below mpi.f90. */
#include <mpi.h>
#include <stddef.h>

int standin_comm_world, standin_double, standin_proc_null;

void standin_init(int *error);
void standin_finalize(int *error);
void standin_comm_rank(const int *comm, int *rank, int *error);
void standin_comm_size(const int *comm, int *ranks, int *error);
void standin_sendrecv(const void *out, const int *out_count, const int *out_type, const int *to, const int *out_tag,
                      void *in, const int *in_count, const int *in_type, const int *from, const int *in_tag,
                      const int *comm, const int *status, int *error);

void standin_init(int *error)
{
    *error = MPI_Init(NULL, NULL);
    standin_comm_world = MPI_Comm_c2f(MPI_COMM_WORLD);
    standin_double = MPI_Type_c2f(MPI_DOUBLE);
    standin_proc_null = MPI_PROC_NULL;
}

void standin_finalize(int *error)
{
    *error = MPI_Finalize();
}

void standin_comm_rank(const int *comm, int *rank, int *error)
{
    *error = MPI_Comm_rank(MPI_Comm_f2c(*comm), rank);
}

void standin_comm_size(const int *comm, int *ranks, int *error)
{
    *error = MPI_Comm_size(MPI_Comm_f2c(*comm), ranks);
}

void standin_sendrecv(const void *out, const int *out_count, const int *out_type, const int *to, const int *out_tag,
                      void *in, const int *in_count, const int *in_type, const int *from, const int *in_tag,
                      const int *comm, const int *status, int *error)
{
    (void)status;
    *error = MPI_Sendrecv(out, *out_count, MPI_Type_f2c(*out_type), *to, *out_tag, in, *in_count,
                          MPI_Type_f2c(*in_type), *from, *in_tag, MPI_Comm_f2c(*comm), MPI_STATUS_IGNORE);
}
