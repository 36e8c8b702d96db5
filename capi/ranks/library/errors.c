/* Errors: classes, codes and texts, error handlers, and the end of a job by an error. Licence: MIT OR Apache-2.0. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>

struct errhandler *errors_are_fatal, *errors_return;
static struct errhandler *errors_abort;

/* Classes and codes that the program added: numbers from MPI_ERR_LASTCODE + 1 on. */
struct added {
  int class; /* 0: removed */
  char *text;
};
static struct added *added;
static int added_count;
/* The attribute MPI_LASTUSEDCODE. */
int last_used_code = MPI_ERR_LASTCODE;

static const struct {
  int class;
  const char *name, *text;
} classes[] = {
#define CLASS(name, text) {name, #name, text}
    CLASS(MPI_SUCCESS, "no error"),
    CLASS(MPI_ERR_BUFFER, "invalid buffer"),
    CLASS(MPI_ERR_COUNT, "invalid count"),
    CLASS(MPI_ERR_TYPE, "invalid datatype"),
    CLASS(MPI_ERR_TAG, "invalid tag"),
    CLASS(MPI_ERR_COMM, "invalid communicator"),
    CLASS(MPI_ERR_RANK, "invalid rank"),
    CLASS(MPI_ERR_REQUEST, "invalid request"),
    CLASS(MPI_ERR_ROOT, "invalid root"),
    CLASS(MPI_ERR_GROUP, "invalid group"),
    CLASS(MPI_ERR_OP, "invalid operation"),
    CLASS(MPI_ERR_TOPOLOGY, "invalid topology"),
    CLASS(MPI_ERR_DIMS, "invalid dimensions"),
    CLASS(MPI_ERR_ARG, "invalid argument"),
    CLASS(MPI_ERR_UNKNOWN, "unknown error"),
    CLASS(MPI_ERR_TRUNCATE, "the message is longer than the buffer"),
    CLASS(MPI_ERR_OTHER, "error of another kind"),
    CLASS(MPI_ERR_INTERN, "fault of the library"),
    CLASS(MPI_ERR_PENDING, "the request is still under way"),
    CLASS(MPI_ERR_IN_STATUS, "the statuses hold the errors"),
    CLASS(MPI_ERR_ACCESS, "permission denied"),
    CLASS(MPI_ERR_AMODE, "invalid mode of access"),
    CLASS(MPI_ERR_ASSERT, "invalid assertion"),
    CLASS(MPI_ERR_BAD_FILE, "invalid file name"),
    CLASS(MPI_ERR_BASE, "invalid base address"),
    CLASS(MPI_ERR_CONVERSION, "error in a conversion of data"),
    CLASS(MPI_ERR_DISP, "invalid displacement"),
    CLASS(MPI_ERR_DUP_DATAREP, "the data representation exists already"),
    CLASS(MPI_ERR_FILE_EXISTS, "the file exists"),
    CLASS(MPI_ERR_FILE_IN_USE, "the file is in use"),
    CLASS(MPI_ERR_FILE, "invalid file handle"),
    CLASS(MPI_ERR_INFO_KEY, "invalid key of an info object"),
    CLASS(MPI_ERR_INFO_NOKEY, "the info object has no such key"),
    CLASS(MPI_ERR_INFO_VALUE, "invalid value of an info object"),
    CLASS(MPI_ERR_INFO, "invalid info object"),
    CLASS(MPI_ERR_IO, "error of input or output"),
    CLASS(MPI_ERR_KEYVAL, "invalid key of an attribute"),
    CLASS(MPI_ERR_LOCKTYPE, "invalid kind of lock"),
    CLASS(MPI_ERR_NAME, "invalid name of a service"),
    CLASS(MPI_ERR_NO_MEM, "no memory"),
    CLASS(MPI_ERR_NOT_SAME, "the members passed different arguments"),
    CLASS(MPI_ERR_NO_SPACE, "no space on the device"),
    CLASS(MPI_ERR_NO_SUCH_FILE, "no such file"),
    CLASS(MPI_ERR_PORT, "invalid port"),
    CLASS(MPI_ERR_QUOTA, "the quota is used up"),
    CLASS(MPI_ERR_READ_ONLY, "the file or file system is read-only"),
    CLASS(MPI_ERR_RMA_ATTACH, "memory cannot be attached"),
    CLASS(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
    CLASS(MPI_ERR_RMA_RANGE, "memory outside a window"),
    CLASS(MPI_ERR_RMA_SHARED, "memory cannot be shared"),
    CLASS(MPI_ERR_RMA_SYNC, "wrong synchronisation of a window"),
    CLASS(MPI_ERR_SERVICE, "unknown service"),
    CLASS(MPI_ERR_SIZE, "invalid size"),
    CLASS(MPI_ERR_SPAWN, "processes cannot be started"),
    CLASS(MPI_ERR_UNSUPPORTED_DATAREP, "unsupported data representation"),
    CLASS(MPI_ERR_UNSUPPORTED_OPERATION, "unsupported operation"),
    CLASS(MPI_ERR_WIN, "invalid window"),
    CLASS(MPI_ERR_RMA_FLAVOR, "wrong flavour of a window"),
    CLASS(MPI_ERR_PROC_ABORTED, "the process has ended"),
    CLASS(MPI_ERR_VALUE_TOO_LARGE, "the value is too large"),
    CLASS(MPI_ERR_SESSION, "invalid session"),
    CLASS(MPI_ERR_ERRHANDLER, "invalid error handler"),
    CLASS(MPI_ERR_ABI, "the ABI is fixed already"),
#undef CLASS
};
enum { CLASSES = sizeof classes / sizeof *classes };

void errors_start(void) {
  errors_are_fatal = object_predefined(KIND_ERRHANDLER, sizeof *errors_are_fatal, (uintptr_t)MPI_ERRORS_ARE_FATAL);
  errors_return = object_predefined(KIND_ERRHANDLER, sizeof *errors_return, (uintptr_t)MPI_ERRORS_RETURN);
  errors_abort = object_predefined(KIND_ERRHANDLER, sizeof *errors_abort, (uintptr_t)MPI_ERRORS_ABORT);
}

static int class_of(int error) {
  if (error > MPI_ERR_LASTCODE && error - MPI_ERR_LASTCODE <= added_count)
    return added[error - MPI_ERR_LASTCODE - 1].class;
  for (int i = 0; i < CLASSES; i++)
    if (classes[i].class == error) return error;
  return MPI_ERR_UNKNOWN;
}

static const char *text_of(int error, const char **name) {
  *name = NULL;
  if (error > MPI_ERR_LASTCODE && error - MPI_ERR_LASTCODE <= added_count) {
    const char *text = added[error - MPI_ERR_LASTCODE - 1].text;
    return text ? text : "";
  }
  for (int i = 0; i < CLASSES; i++)
    if (classes[i].class == error) {
      *name = classes[i].name;
      return classes[i].text;
    }
  return "unknown error";
}

void end_job(const char *format, ...) {
  va_list arguments;
  fflush(NULL);
  fprintf(stderr, "mainstay: rank %d: ", rank_info.rank);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  mainstay_gate(MAINSTAY_GATE_ABORT, (void *)1);
  abort();
}

/* An error without a communicator goes to MPI_COMM_SELF (MPI 4), or to MPI_COMM_WORLD (MPI 3) if the program gave only
 * that one a handler. */
static struct comm *without_comm(void) {
  if (self && self->errhandler != errors_are_fatal) return self;
  return world;
}

static void end_unsupported(const char *function, const char *advice) {
  char message[512];
  fflush(NULL);
  snprintf(message, sizeof message, "%s is not supported in slots. %s", function, advice);
  mainstay_gate(MAINSTAY_GATE_REFUSE, message);
  abort();
}

int raise_unsupported(struct comm *comm, const char *function, const char *advice, bool *is_reported) {
  const struct comm *of = comm ? comm : without_comm();
  if (!of || (of->errhandler != errors_return && !of->errhandler->on_comm)) end_unsupported(function, advice);
  if (!*is_reported) {
    *is_reported = true;
    fprintf(stderr, "mainstay: rank %d: %s is not supported in slots. %s\n", rank_info.rank, function, advice);
  }
  return raise_error(comm, MPI_ERR_UNSUPPORTED_OPERATION, function);
}

void end_by_error(int error, const char *function) {
  const char *name, *text = text_of(error, &name);
  end_job("%s: %s%s%s. The error handler is MPI_ERRORS_ARE_FATAL, so the job ends.", function, name ? name : "",
          name ? ": " : "", text);
}

int raise_error(struct comm *comm, int error, const char *function) {
  struct errhandler *handler;
  MPI_Comm handle;
  if (error == MPI_SUCCESS) return MPI_SUCCESS;
  if (!comm) comm = without_comm();
  if (!comm) end_by_error(error, function);
  handler = comm->errhandler;
  if (handler == errors_return) return error;
  if (!handler->on_comm) end_by_error(error, function);
  handle = comm_handle(comm);
  handler->on_comm(&handle, &error);
  return error;
}

void errhandler_release(struct errhandler *errhandler) {
  if (errhandler && object_drop(errhandler)) object_free(errhandler);
}

MPI(Error_class)(int errorcode, int *errorclass) {
  *errorclass = class_of(errorcode);
  return MPI_SUCCESS;
}

MPI(Error_string)(int errorcode, char *string, int *resultlen) {
  const char *name, *text = text_of(errorcode, &name);
  *resultlen = snprintf(string, MPI_MAX_ERROR_STRING, "%s%s%s", name ? name : "", name ? ": " : "", text);
  return MPI_SUCCESS;
}

/* Adds a class (0) or a code of a class. */
static int add(int class) {
  added = grow_memory(added, (size_t)(added_count + 1) * sizeof *added);
  last_used_code = MPI_ERR_LASTCODE + 1 + added_count;
  added[added_count].class = class ? class : last_used_code;
  added[added_count++].text = NULL;
  return last_used_code;
}

/* Removes a class or a code. Refuses one that has a text, and a class that has codes. The last numbers become free
 * again. */
static int take_back(int code, bool is_class) {
  struct added *one;
  if (code <= MPI_ERR_LASTCODE || code > MPI_ERR_LASTCODE + added_count) return MPI_ERR_ARG;
  one = &added[code - MPI_ERR_LASTCODE - 1];
  if (!one->class || (one->class == code) != is_class || one->text) return MPI_ERR_ARG;
  for (int i = 0; i < added_count && is_class; i++)
    if (&added[i] != one && added[i].class == code) return MPI_ERR_ARG;
  one->class = 0;
  while (added_count && !added[added_count - 1].class) free(added[--added_count].text);
  last_used_code = MPI_ERR_LASTCODE + added_count;
  return MPI_SUCCESS;
}

MPI(Add_error_class)(int *errorclass) {
  *errorclass = add(0);
  return MPI_SUCCESS;
}

MPI(Add_error_code)(int errorclass, int *errorcode) {
  if (class_of(errorclass) == MPI_ERR_UNKNOWN && errorclass != MPI_ERR_UNKNOWN) return fail(NULL, MPI_ERR_ARG);
  *errorcode = add(errorclass);
  return MPI_SUCCESS;
}

static int put_text(int errorcode, const char *text) {
  struct added *one;
  if (errorcode <= MPI_ERR_LASTCODE || errorcode > MPI_ERR_LASTCODE + added_count) return MPI_ERR_ARG;
  one = &added[errorcode - MPI_ERR_LASTCODE - 1];
  free(one->text);
  one->text = NULL;
  if (text) {
    one->text = take_zeroed(MPI_MAX_ERROR_STRING, 1);
    strncpy(one->text, text, MPI_MAX_ERROR_STRING - 1);
  }
  return MPI_SUCCESS;
}

MPI(Add_error_string)(int errorcode, const char *string) { return fail(NULL, put_text(errorcode, string)); }
MPI(Remove_error_string)(int errorcode) { return fail(NULL, put_text(errorcode, NULL)); }
MPI(Remove_error_class)(int errorclass) { return fail(NULL, take_back(errorclass, true)); }
MPI(Remove_error_code)(int errorcode) { return fail(NULL, take_back(errorcode, false)); }
