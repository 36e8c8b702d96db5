/* Opening, closing and describing files. Licence: MIT OR Apache-2.0. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* The handler of files that are opened from now on. */
static struct errhandler *default_handler;

int class_of_errno(int number) {
  switch (number) {
  case ENOENT:
    return MPI_ERR_NO_SUCH_FILE;
  case EACCES:
  case EPERM:
    return MPI_ERR_ACCESS;
  case EROFS:
    return MPI_ERR_READ_ONLY;
  case EEXIST:
    return MPI_ERR_FILE_EXISTS;
  case ENOSPC:
    return MPI_ERR_NO_SPACE;
  case EDQUOT:
    return MPI_ERR_QUOTA;
  case EBUSY:
  case ETXTBSY:
    return MPI_ERR_FILE_IN_USE;
  case EISDIR:
  case ENOTDIR:
  case ELOOP:
  case ENAMETOOLONG:
    return MPI_ERR_BAD_FILE;
  case ENOMEM:
    return MPI_ERR_NO_MEM;
  default:
    return MPI_ERR_IO;
  }
}

void end_by_error(int error, const char *function);

int raise_file_error(struct file *file, int error, const char *function) {
  struct errhandler *handler = file ? file->errhandler : default_handler;
  MPI_File handle = file ? file_handle(file) : MPI_FILE_NULL;
  if (error == MPI_SUCCESS || !handler || handler == errors_return) return error;
  if (!handler->on_file) end_by_error(error, function);
  handler->on_file(&handle, &error);
  return error;
}

/* The greatest error of all members: an error of one is an error of all. */
static int agree(struct comm *comm, int error) {
  int result = error;
  PMPI_Allreduce(&error, &result, 1, MPI_INT, MPI_MAX, comm_handle(comm));
  return result;
}

static int check_mode(int mode) {
  int kinds = ((mode & MPI_MODE_RDONLY) != 0) + ((mode & MPI_MODE_WRONLY) != 0) + ((mode & MPI_MODE_RDWR) != 0);
  if (kinds != 1) return MPI_ERR_AMODE;
  if (mode & MPI_MODE_RDONLY && mode & (MPI_MODE_CREATE | MPI_MODE_EXCL)) return MPI_ERR_AMODE;
  if (mode & MPI_MODE_RDWR && mode & MPI_MODE_SEQUENTIAL) return MPI_ERR_AMODE;
  return MPI_SUCCESS;
}

/* Names may begin with the kind of the file system, as ROMIO allows. */
static const char *plain_path(const char *name) {
  static const char *const kinds[] = {"ufs:", "nfs:", "lustre:", "gpfs:", "file:"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strncmp(name, kinds[i], strlen(kinds[i])) == 0) return name + strlen(kinds[i]);
  return name;
}

static int open_file(struct file *file, int flags) {
  int access = file->mode & MPI_MODE_RDONLY ? O_RDONLY : file->mode & MPI_MODE_WRONLY ? O_WRONLY : O_RDWR;
  file->descriptor = open(file->path, access | flags | O_CLOEXEC, 0666);
  return file->descriptor < 0 ? class_of_errno(errno) : MPI_SUCCESS;
}

/* The first member creates the file, so that MPI_MODE_EXCL fails only if the file was there before. */
static int open_all(struct file *file) {
  int error = MPI_SUCCESS, flags = file->mode & MPI_MODE_CREATE ? O_CREAT : 0;
  file->descriptor = -1;
  if (comm_rank(file->comm) == 0) error = open_file(file, flags | (file->mode & MPI_MODE_EXCL ? O_EXCL : 0));
  error = agree(file->comm, error);
  if (error) return error;
  if (comm_rank(file->comm) != 0) error = open_file(file, flags);
  return agree(file->comm, error);
}

static void free_file(struct file *file) {
  MPI_Comm comm = comm_handle(file->comm);
  if (file->descriptor >= 0) close(file->descriptor);
  PMPI_Comm_free(&comm);
  view_release(&file->view);
  errhandler_release(file->errhandler);
  info_release(file->info);
  free(file->path);
  object_free(file);
}

MPI(File_open)(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh) {
  struct comm *of = comm_of(comm);
  struct file *file;
  MPI_Comm own;
  const char *path = plain_path(filename);
  int error = of && !of->remote ? check_mode(amode) : MPI_ERR_COMM;
  *fh = MPI_FILE_NULL;
  if (error) return fail_file(NULL, error);
  error = PMPI_Comm_dup(comm, &own);
  if (error) return error;
  file = object_new(KIND_FILE, sizeof *file);
  file->comm = comm_of(own);
  file->mode = amode;
  file->path = memcpy(take_memory(strlen(path) + 1), path, strlen(path) + 1);
  file->errhandler = object_hold(default_handler ? default_handler : errors_return);
  file->info = info_copy(info_of(info));
  view_start(&file->view);
  error = open_all(file);
  if (error) {
    free_file(file);
    return fail_file(NULL, error);
  }
  if (amode & MPI_MODE_APPEND) {
    struct stat found;
    if (fstat(file->descriptor, &found) == 0) file->position = found.st_size;
  }
  *fh = file_handle(file);
  return MPI_SUCCESS;
}

MPI(File_close)(MPI_File *fh) {
  struct file *file = file_of(*fh);
  bool delete;
  int error;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (file->split) return fail_file(file, MPI_ERR_OTHER);
  delete = file->mode & MPI_MODE_DELETE_ON_CLOSE;
  error = close(file->descriptor) ? class_of_errno(errno) : MPI_SUCCESS;
  file->descriptor = -1;
  error = agree(file->comm, error);
  if (delete && comm_rank(file->comm) == 0) unlink(file->path);
  if (delete) PMPI_Barrier(comm_handle(file->comm));
  free_file(file);
  *fh = MPI_FILE_NULL;
  return fail_file(NULL, error);
}

MPI(File_delete)(const char *filename, MPI_Info info) {
  (void)info;
  return fail_file(NULL, unlink(plain_path(filename)) ? class_of_errno(errno) : MPI_SUCCESS);
}

MPI(File_set_size)(MPI_File fh, MPI_Offset size) {
  struct file *file = file_of(fh);
  int error = MPI_SUCCESS;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (size < 0) return fail_file(file, MPI_ERR_ARG);
  if (file->mode & MPI_MODE_RDONLY) return fail_file(file, MPI_ERR_READ_ONLY);
  PMPI_Barrier(comm_handle(file->comm));
  if (comm_rank(file->comm) == 0 && ftruncate(file->descriptor, size)) error = class_of_errno(errno);
  return fail_file(file, agree(file->comm, error));
}

MPI(File_preallocate)(MPI_File fh, MPI_Offset size) {
  struct file *file = file_of(fh);
  int error = MPI_SUCCESS;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (size < 0) return fail_file(file, MPI_ERR_ARG);
  if (file->mode & MPI_MODE_RDONLY) return fail_file(file, MPI_ERR_READ_ONLY);
  PMPI_Barrier(comm_handle(file->comm));
  if (comm_rank(file->comm) == 0 && size > 0) {
    int number = posix_fallocate(file->descriptor, 0, size);
    if (number) error = class_of_errno(number);
  }
  return fail_file(file, agree(file->comm, error));
}

MPI(File_get_size)(MPI_File fh, MPI_Offset *size) {
  struct file *file = file_of(fh);
  struct stat found;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (fstat(file->descriptor, &found)) return fail_file(file, class_of_errno(errno));
  *size = found.st_size;
  return MPI_SUCCESS;
}

MPI(File_sync)(MPI_File fh) {
  struct file *file = file_of(fh);
  int error = MPI_SUCCESS;
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (!(file->mode & MPI_MODE_RDONLY) && fsync(file->descriptor)) error = class_of_errno(errno);
  return fail_file(file, agree(file->comm, error));
}

MPI(File_get_group)(MPI_File fh, MPI_Group *group) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  *group = group_handle(object_hold(file->comm->group));
  return MPI_SUCCESS;
}

MPI(File_get_amode)(MPI_File fh, int *amode) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  *amode = file->mode;
  return MPI_SUCCESS;
}

/* The kernel's reads and writes of one run of bytes are atomic to each other; the flag asks for no more. */
MPI(File_set_atomicity)(MPI_File fh, int flag) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  file->atomic = flag != 0;
  PMPI_Barrier(comm_handle(file->comm));
  return MPI_SUCCESS;
}

MPI(File_get_atomicity)(MPI_File fh, int *flag) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  *flag = file->atomic;
  return MPI_SUCCESS;
}

MPI(File_set_info)(MPI_File fh, MPI_Info info) {
  struct file *file = file_of(fh);
  struct info *new = info_of(info);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (!new) return info == MPI_INFO_NULL ? MPI_SUCCESS : fail_file(file, MPI_ERR_INFO);
  info_release(file->info);
  file->info = info_copy(new);
  return MPI_SUCCESS;
}

MPI(File_get_info)(MPI_File fh, MPI_Info *info_used) {
  struct file *file = file_of(fh);
  if (!file) return fail_file(NULL, MPI_ERR_FILE);
  if (!file->info) return PMPI_Info_create(info_used);
  *info_used = info_handle(info_copy(file->info));
  return MPI_SUCCESS;
}

#define TYPE_EXTENT(name, number)                                                                                      \
  MPI(name)(MPI_File fh, MPI_Datatype datatype, number * extent) {                                                     \
    struct file *file = file_of(fh);                                                                                   \
    if (!file) return fail_file(NULL, MPI_ERR_FILE);                                                                   \
    if (!type_of(datatype)) return fail_file(file, MPI_ERR_TYPE);                                                      \
    *extent = type_of(datatype)->extent;                                                                               \
    return MPI_SUCCESS;                                                                                                \
  }
TYPE_EXTENT(File_get_type_extent, MPI_Aint)
TYPE_EXTENT(File_get_type_extent_c, MPI_Count)

/* MPI_FILE_NULL stands for the files that are opened from now on. */
MPI(File_set_errhandler)(MPI_File file, MPI_Errhandler errhandler) {
  struct file *of = file_of(file);
  struct errhandler *new = errhandler_of(errhandler), **place = of ? &of->errhandler : &default_handler;
  if (!of && file != MPI_FILE_NULL) return fail_file(NULL, MPI_ERR_FILE);
  if (!new || new->on_comm || new->on_window) return fail_file(of, MPI_ERR_ARG);
  object_hold(new);
  errhandler_release(*place);
  *place = new;
  return MPI_SUCCESS;
}

MPI(File_get_errhandler)(MPI_File file, MPI_Errhandler *errhandler) {
  struct file *of = file_of(file);
  struct errhandler *found = of ? of->errhandler : default_handler ? default_handler : errors_return;
  if (!of && file != MPI_FILE_NULL) return fail_file(NULL, MPI_ERR_FILE);
  *errhandler = errhandler_handle(object_hold(found));
  return MPI_SUCCESS;
}

MPI(File_call_errhandler)(MPI_File fh, int errorcode) {
  struct file *file = file_of(fh);
  if (!file && fh != MPI_FILE_NULL) return fail_file(NULL, MPI_ERR_FILE);
  fail_file(file, errorcode);
  return MPI_SUCCESS;
}
