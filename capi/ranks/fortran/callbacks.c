/* Functions of a program in Fortran that the library calls. Licence: MIT OR Apache-2.0.
 *
 * An operation and an error handler have the same arguments in C and Fortran, so the library calls them directly. */
#include "fortran.h"

/* ---- generalised requests */

typedef void query_fn(MPI_Aint *extra_state, MPI_Fint *status, MPI_Fint *ierror);
typedef void free_fn(MPI_Aint *extra_state, MPI_Fint *ierror);
typedef void cancel_fn(MPI_Aint *extra_state, MPI_Fint *complete, MPI_Fint *ierror);

struct generalised {
  query_fn *query;
  free_fn *free;
  cancel_fn *cancel;
  MPI_Aint *extra_state; /* the variable of the program, which its functions may change */
};

static int query_request(void *extra_state, MPI_Status *status) {
  struct generalised *request = extra_state;
  MPI_Fint error = MPI_SUCCESS;
  request->query(request->extra_state, (MPI_Fint *)status, &error);
  return error;
}

static int free_request(void *extra_state) {
  struct generalised *request = extra_state;
  MPI_Fint error = MPI_SUCCESS;
  request->free(request->extra_state, &error);
  free(request);
  return error;
}

static int cancel_request(void *extra_state, int complete) {
  struct generalised *request = extra_state;
  MPI_Fint error = MPI_SUCCESS, is_complete = complete != 0;
  request->cancel(request->extra_state, &is_complete, &error);
  return error;
}

FORTRAN(void, mpi_grequest_start,
        (query_fn * query, free_fn *free, cancel_fn *cancel, MPI_Aint *extra_state, MPI_Fint *request,
         MPI_Fint *ierror)) {
  struct generalised *started = f_allocate(sizeof *started);
  *started = (struct generalised){query, free, cancel, extra_state};
  const int outcome = MPI_Grequest_start(query_request, free_request, cancel_request, started, request);
  if (ierror) *ierror = outcome;
}

/* ---- error handlers of files: C passes a pointer, Fortran takes a number. A handler has no state, so each function of
 * the program gets a function of C of its own. */

enum { FILE_HANDLERS = 8 };
typedef void file_handler_fn(MPI_Fint *file, MPI_Fint *error_code);
static file_handler_fn *file_handlers[FILE_HANDLERS];

static void call_file_handler(int i, MPI_File *file, int *error) {
  MPI_Fint number = MPI_File_c2f(*file);
  file_handlers[i](&number, error);
}

#define HANDLER(i)                                                                                                     \
  static void file_handler_##i(MPI_File *file, int *error, ...) { call_file_handler(i, file, error); }
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
HANDLER(4)
HANDLER(5)
HANDLER(6)
HANDLER(7)
static MPI_File_errhandler_function *const of_c[FILE_HANDLERS] = {file_handler_0, file_handler_1, file_handler_2,
                                                                  file_handler_3, file_handler_4, file_handler_5,
                                                                  file_handler_6, file_handler_7};

FORTRAN(void, mpi_file_create_errhandler, (file_handler_fn * handler, MPI_Fint *errhandler, MPI_Fint *ierror)) {
  int i = 0;
  while (i < FILE_HANDLERS && file_handlers[i] && file_handlers[i] != handler) i++;
  if (i == FILE_HANDLERS) end_job("MPI_FILE_CREATE_ERRHANDLER: at most %d functions have room", FILE_HANDLERS);
  file_handlers[i] = handler;
  const int outcome = MPI_File_create_errhandler(of_c[i], errhandler);
  if (ierror) *ierror = outcome;
}

/* ---- representations of data in files: the library refuses them */

#define REGISTER(name, Name)                                                                                           \
  FORTRAN(void, name,                                                                                                  \
          (char *datarep, void *read_fn, void *write_fn, void *extent_fn, MPI_Aint *extra_state, MPI_Fint *ierror,     \
           size_t length)) {                                                                                           \
    (void)read_fn, (void)write_fn, (void)extent_fn, (void)extra_state;                                                 \
    char *text = f_text(datarep, length);                                                                              \
    const int outcome = Name(text, NULL, NULL, NULL, NULL);                                                            \
    free(text);                                                                                                        \
    if (ierror) *ierror = outcome;                                                                                     \
  }
REGISTER(mpi_register_datarep, MPI_Register_datarep)
REGISTER(mpi_register_datarep_c, MPI_Register_datarep_c)

FORTRAN_77(void, mpi_conversion_fn_null, (void)) { end_job("MPI_CONVERSION_FN_NULL cannot be called"); }
FORTRAN_77(void, mpi_conversion_fn_null_c, (void)) { end_job("MPI_CONVERSION_FN_NULL_C cannot be called"); }
