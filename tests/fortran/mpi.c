/* Below mpi.f90. */
#include <ISO_Fortran_binding.h>
#include <mpi.h>
#include <stddef.h>

int standin_comm_world, standin_double, standin_proc_null, standin_max;

void standin_init(int *error);
void standin_finalize(int *error);
void standin_comm_rank(const int *comm, int *rank, int *error);
void standin_comm_size(const int *comm, int *ranks, int *error);
void standin_sendrecv(const void *out, const int *out_count, const int *out_type, const int *to, const int *out_tag,
                      void *in, const int *in_count, const int *in_type, const int *from, const int *in_tag,
                      const int *comm, const int *status, int *error);
void standin_irecv(CFI_cdesc_t *in, const int *count, const int *type, const int *from, const int *tag, const int *comm,
                   int *request, int *error);
void standin_send(CFI_cdesc_t *out, const int *count, const int *type, const int *to, const int *tag, const int *comm,
                  int *error);
void standin_waitall(const int *count, int *requests, const int *statuses, int *error);
void standin_allreduce(CFI_cdesc_t *out, CFI_cdesc_t *in, const int *count, const int *type, const int *op,
                       const int *comm, int *error);

void standin_init(int *error) {
  *error = MPI_Init(NULL, NULL);
  standin_comm_world = MPI_Comm_c2f(MPI_COMM_WORLD);
  standin_double = MPI_Type_c2f(MPI_DOUBLE);
  standin_proc_null = MPI_PROC_NULL;
  standin_max = MPI_Op_c2f(MPI_MAX);
}

void standin_finalize(int *error) { *error = MPI_Finalize(); }

void standin_comm_rank(const int *comm, int *rank, int *error) { *error = MPI_Comm_rank(MPI_Comm_f2c(*comm), rank); }

void standin_comm_size(const int *comm, int *ranks, int *error) { *error = MPI_Comm_size(MPI_Comm_f2c(*comm), ranks); }

void standin_sendrecv(const void *out, const int *out_count, const int *out_type, const int *to, const int *out_tag,
                      void *in, const int *in_count, const int *in_type, const int *from, const int *in_tag,
                      const int *comm, const int *status, int *error) {
  (void)status;
  *error = MPI_Sendrecv(out, *out_count, MPI_Type_f2c(*out_type), *to, *out_tag, in, *in_count, MPI_Type_f2c(*in_type),
                        *from, *in_tag, MPI_Comm_f2c(*comm), MPI_STATUS_IGNORE);
}

void standin_irecv(CFI_cdesc_t *in, const int *count, const int *type, const int *from, const int *tag, const int *comm,
                   int *request, int *error) {
  MPI_Request made = MPI_REQUEST_NULL;
  *error = MPI_Irecv(in->base_addr, *count, MPI_Type_f2c(*type), *from, *tag, MPI_Comm_f2c(*comm), &made);
  *request = MPI_Request_c2f(made);
}

void standin_send(CFI_cdesc_t *out, const int *count, const int *type, const int *to, const int *tag, const int *comm,
                  int *error) {
  *error = MPI_Send(out->base_addr, *count, MPI_Type_f2c(*type), *to, *tag, MPI_Comm_f2c(*comm));
}

void standin_waitall(const int *count, int *requests, const int *statuses, int *error) {
  (void)statuses;
  *error = MPI_SUCCESS;
  for (int i = 0; i < *count; i++) {
    MPI_Request request = MPI_Request_f2c(requests[i]);
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    requests[i] = MPI_Request_c2f(request);
    if (*error == MPI_SUCCESS) *error = code;
  }
}

void standin_allreduce(CFI_cdesc_t *out, CFI_cdesc_t *in, const int *count, const int *type, const int *op,
                       const int *comm, int *error) {
  *error =
      MPI_Allreduce(out->base_addr, in->base_addr, *count, MPI_Type_f2c(*type), MPI_Op_f2c(*op), MPI_Comm_f2c(*comm));
}
