/* The functions of MPI on error handlers. Licence: MIT OR Apache-2.0. */
#include "internal.h"

MPI(Comm_create_errhandler)(MPI_Comm_errhandler_function *comm_errhandler_fn, MPI_Errhandler *errhandler) {
  struct errhandler *new = object_new(KIND_ERRHANDLER, sizeof *new);
  new->on_comm = comm_errhandler_fn;
  *errhandler = errhandler_handle(new);
  return MPI_SUCCESS;
}

MPI(File_create_errhandler)(MPI_File_errhandler_function *file_errhandler_fn, MPI_Errhandler *errhandler) {
  struct errhandler *new = object_new(KIND_ERRHANDLER, sizeof *new);
  new->on_file = file_errhandler_fn;
  *errhandler = errhandler_handle(new);
  return MPI_SUCCESS;
}

MPI(Errhandler_create)(MPI_Comm_errhandler_function *comm_errhandler_fn, MPI_Errhandler *errhandler) {
  return PMPI_Comm_create_errhandler(comm_errhandler_fn, errhandler);
}

MPI(Errhandler_free)(MPI_Errhandler *errhandler) {
  struct errhandler *old = errhandler_of(*errhandler);
  if (!old) return fail(NULL, MPI_ERR_ARG);
  errhandler_release(old);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

MPI(Comm_set_errhandler)(MPI_Comm comm, MPI_Errhandler errhandler) {
  struct comm *of = comm_of(comm);
  struct errhandler *new = errhandler_of(errhandler);
  if (!of) return fail(NULL, MPI_ERR_COMM);
  if (!new || new->on_file || new->on_window) return fail(of, MPI_ERR_ARG);
  object_hold(new);
  errhandler_release(of->errhandler);
  of->errhandler = new;
  return MPI_SUCCESS;
}

MPI(Comm_get_errhandler)(MPI_Comm comm, MPI_Errhandler *errhandler) {
  struct comm *of = comm_of(comm);
  if (!of) return fail(NULL, MPI_ERR_COMM);
  *errhandler = errhandler_handle(object_hold(of->errhandler));
  return MPI_SUCCESS;
}

MPI(Errhandler_set)(MPI_Comm comm, MPI_Errhandler errhandler) { return PMPI_Comm_set_errhandler(comm, errhandler); }
MPI(Errhandler_get)(MPI_Comm comm, MPI_Errhandler *errhandler) { return PMPI_Comm_get_errhandler(comm, errhandler); }

MPI(Comm_call_errhandler)(MPI_Comm comm, int errorcode) {
  struct comm *of = comm_of(comm);
  if (!of) return fail(NULL, MPI_ERR_COMM);
  fail(of, errorcode);
  return MPI_SUCCESS;
}
