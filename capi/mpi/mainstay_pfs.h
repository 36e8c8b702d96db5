/* The interface of PFS-delegation (Arteaga, Zhao: Towards Scalable Application Checkpointing with Parallel File
 * System Delegation, section IV.B) on Mainstay. Licence: MIT OR Apache-2.0.
 *
 * One logical file holds the buffers of all ranks and many revisions. Every call is collective: all ranks of the
 * communicator make it, in the same order. An error on one rank is an error on all. Functions with a status return
 * the error; functions with a number of bytes return PFS_ERROR, and PFS_status() gives the status.
 * mainstay_error_message() explains the error and the remedy.
 *
 * The paper's third argument, `struct options *opt`, is a PFS_file here, because the paper does not define its
 * members. Other gaps in the paper are filled as in MPI-IO. Like mainstay_mpi.h this is compiled with the program, in
 * C and C++. */
#ifndef MAINSTAY_PFS_H
#define MAINSTAY_PFS_H

#include "mainstay_mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that return bytes return this on failure. */
#define PFS_ERROR ((size_t)-1)

/* An open delegated space. */
typedef struct PFS_space *PFS_file;

/* Internal; programs call the functions below. */
struct PFS_space {
  mainstay_session *session;
  mainstay_status status;
  uint64_t revision;
};

/* The bytes that a rank writes are one item of its shard: `mainstay show` lists it under this name. */
#define PFS_ITEM "buffer"

/* The hints for mainstay_options, a line each; NULL without memory. The caller frees it. */
MAINSTAY_SHIM char *mainstay_pfs_hints(MPI_Info info) {
  char key[MPI_MAX_INFO_KEY + 1], *lines;
  int count = 0, at, length, found;
  size_t used = 0, most;
  if (info != MPI_INFO_NULL) MPI_Info_get_nkeys(info, &count);
  most = (size_t)count * (MPI_MAX_INFO_KEY + MPI_MAX_INFO_VAL + 4) + 1;
  lines = (char *)malloc(most);
  if (!lines) return NULL;
  for (at = 0; at < count; at++) {
    if (MPI_Info_get_nthkey(info, at, key) != MPI_SUCCESS) continue;
    length = (int)strlen(key);
    memcpy(lines + used, key, (size_t)length);
    lines[used + (size_t)length] = '=';
#if MPI_VERSION >= 4
    {
      int room = MPI_MAX_INFO_VAL + 1;
      if (MPI_Info_get_string(info, key, &room, lines + used + length + 1, &found) != MPI_SUCCESS) continue;
    }
#else
    if (MPI_Info_get(info, key, MPI_MAX_INFO_VAL, lines + used + length + 1, &found) != MPI_SUCCESS) continue;
#endif
    /* A line break would begin another hint. */
    if (!found || strchr(lines + used, '\n')) continue;
    used += strlen(lines + used);
    lines[used++] = '\n';
  }
  lines[used] = 0;
  return lines;
}

/* Opens the delegated space in the directory `path` for the ranks of `comm`, and puts it into `*file`. Makes the
 * directory if it is missing. `count` is the most bytes that this rank is going to write at once. A new space gets
 * room for so many bytes in each of keep + 2 revisions. 0: as many as the first PFS_write_file writes. An existing
 * space, also one from `mainstay reserve`, is used as it is.
 *
 * `info` may be MPI_INFO_NULL. Its hints striping_factor and striping_unit set the layout of a new space, if the file
 * system supports one. cb_nodes is the number of ranks that write for all. mainstay_ before the name of a setting
 * sets that setting ("mainstay_keep"). Other hints are ignored. */
MAINSTAY_SHIM mainstay_status PFS_open(MPI_Comm comm, const char *path, size_t count, MPI_Info info, PFS_file *file) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  mainstay_session *session = NULL;
  mainstay_status status;
  char *hints = mainstay_pfs_hints(info), bytes[24];
  PFS_file opened = (PFS_file)malloc(sizeof *opened);
  if (file) *file = NULL;
  snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)count);
  if (count) mainstay_set(&options, "shard_bytes", bytes);
  options.hints = hints;
  /* Without memory or a place for the handle, mainstay_open_mpi refuses the call, and the other ranks learn of it. */
  status = mainstay_open_mpi(comm, path, &options, file && opened && hints ? &session : NULL);
  free(hints);
  if (status != MAINSTAY_OK) {
    free(opened);
    return status;
  }
  opened->session = session;
  opened->status = MAINSTAY_OK;
  opened->revision = 0;
  *file = opened;
  return MAINSTAY_OK;
}

/* Closes the space, even if it returns an error; `*file` becomes NULL. Call it before MPI_Finalize. */
MAINSTAY_SHIM mainstay_status PFS_close(PFS_file *file) {
  mainstay_status status = mainstay_close(file && *file ? (*file)->session : NULL);
  if (file) {
    free(*file);
    *file = NULL;
  }
  return status;
}

/* Writes `count` bytes of each rank as the next revision. `count` may differ between ranks and revisions. When it
 * returns, the revision is complete and durable on all ranks, and PFS_revision() is its number. Revisions follow each
 * other in the portion of a rank, and continue at its start when it is full. The revisions to keep (setting keep) are
 * never overwritten. Returns `count`. */
MAINSTAY_SHIM size_t PFS_write_file(const void *buffer, size_t count, PFS_file file) {
  mainstay_status status;
  uint64_t revision = 0;
  status = mainstay_put(file ? file->session : NULL, PFS_ITEM, buffer, count, &revision);
  if (file) file->status = status;
  if (status != MAINSTAY_OK) return PFS_ERROR;
  file->revision = revision;
  return count;
}

/* For the two functions below. */
MAINSTAY_SHIM size_t mainstay_pfs_read(void *buffer, size_t count, PFS_file file, uint64_t revision) {
  mainstay_got got = {0, 0, 0};
  mainstay_status status = mainstay_get(file ? file->session : NULL, revision, PFS_ITEM, buffer, count, &got);
  if (file) file->status = status;
  if (status != MAINSTAY_OK) return PFS_ERROR;
  file->revision = got.revision;
  return (size_t)got.bytes;
}

/* Reads the bytes that this rank wrote in the last valid revision, the same on all ranks, into `buffer`. `count` is
 * the size of `buffer`. If it is too small, the error names the size needed. Returns the number of bytes, all
 * verified. If nothing was written yet, it returns 0, and PFS_revision() is 0 too. A revision that is damaged on any
 * rank is passed over on all. */
MAINSTAY_SHIM size_t PFS_read_file(void *buffer, size_t count, PFS_file file) {
  return mainstay_pfs_read(buffer, count, file, MAINSTAY_NEWEST);
}

/* Reads in the same way from the revision of this number. If it no longer exists, or not yet, the error names the
 * existing revisions. The setting keep is the number of revisions that stay at least. The next write does not depend
 * on the revision read. */
MAINSTAY_SHIM size_t PFS_read_file_revision(void *buffer, size_t count, PFS_file file, int revision) {
  return mainstay_pfs_read(buffer, count, file, revision < 0 ? 0 : (uint64_t)revision);
}

/* For the two functions below. */
MAINSTAY_SHIM size_t mainstay_pfs_size(PFS_file file, uint64_t revision) {
  uint64_t bytes = 0;
  mainstay_status status = mainstay_get_bytes(file ? file->session : NULL, revision, PFS_ITEM, &bytes);
  if (file) file->status = status;
  return status == MAINSTAY_OK ? (size_t)bytes : PFS_ERROR;
}

/* The number of bytes that PFS_read_file has for this rank; 0 if nothing was written yet. Collective too. */
MAINSTAY_SHIM size_t PFS_size_file(PFS_file file) { return mainstay_pfs_size(file, MAINSTAY_NEWEST); }

/* The number of bytes that PFS_read_file_revision has. */
MAINSTAY_SHIM size_t PFS_size_file_revision(PFS_file file, int revision) {
  return mainstay_pfs_size(file, revision < 0 ? 0 : (uint64_t)revision);
}

/* The number of the revision that the last successful call wrote or read: 1 or more, and larger with every write; 0:
 * none. Local. */
MAINSTAY_SHIM int PFS_revision(PFS_file file) {
  if (!file) return 0;
  return file->revision > INT_MAX ? INT_MAX : (int)file->revision;
}

/* Status of the last call that returned bytes. Local. */
MAINSTAY_SHIM mainstay_status PFS_status(PFS_file file) { return file ? file->status : MAINSTAY_INVALID_ARGUMENT; }

#ifdef __cplusplus
}
#endif

#endif /* MAINSTAY_PFS_H */
