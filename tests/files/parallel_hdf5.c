/* Writes a file by parallel HDF5 from all ranks, by the calls in its arguments: parallel_hdf5 FILE CALL...
 *
 * Each dataset has a row for each rank. In the content of a value, each number is the value and its place.
 *
 * - create, update, readonly: H5Fcreate or H5Fopen, by all ranks. close: H5Fclose.
 * - write:V: all ranks write the datasets, which they make if there are none. check:V: each rank reads all and
 * compares.
 * - barrier: MPI_Barrier. kill:R: rank R kills itself.
 *
 * Each call prints "RANK CALL ok", or "RANK CALL" with -1. */
#include <hdf5.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBERS = 10000 }; /* of a row */
static const char *const names[] = {"x", "y"};

static int rank, ranks;
static hid_t parallel, together, file = -1;

static int is_bad(long long result) { return result < 0; }

static int number(int value, long at) { return value * 1000000 + (int)at; }

static hid_t dataset(const char *name) {
  if (H5Lexists(file, name, H5P_DEFAULT) > 0) return H5Dopen(file, name, H5P_DEFAULT);
  hsize_t size[] = {(hsize_t)ranks, NUMBERS};
  hid_t space = H5Screate_simple(2, size, NULL);
  hid_t made = H5Dcreate(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Sclose(space);
  return made;
}

static int write_rows(int value) {
  int row[NUMBERS], error = 0;
  hsize_t from[] = {(hsize_t)rank, 0}, size[] = {1, NUMBERS};
  for (int i = 0; i < NUMBERS; i++) row[i] = number(value, (long)rank * NUMBERS + i);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hid_t data = dataset(names[i]), rows = H5Dget_space(data), memory = H5Screate_simple(2, size, NULL);
    H5Sselect_hyperslab(rows, H5S_SELECT_SET, from, NULL, size, NULL);
    error |= is_bad(H5Dwrite(data, H5T_NATIVE_INT, memory, rows, together, row));
    H5Sclose(memory);
    H5Sclose(rows);
    error |= is_bad(H5Dclose(data));
  }
  return error;
}

static int check(int value) {
  int *found = malloc(sizeof(int) * NUMBERS * (size_t)ranks), error = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hid_t data = H5Dopen(file, names[i], H5P_DEFAULT);
    error |= is_bad(H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, together, found)) || is_bad(H5Dclose(data));
    for (long at = 0; at < (long)NUMBERS * ranks && !error; at++) error = found[at] != number(value, at);
  }
  free(found);
  return error;
}

static int call(const char *path, const char *name, const char *text) {
  int value = text ? atoi(text) : 0;
  if (!strcmp(name, "create")) return is_bad(file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, parallel));
  if (!strcmp(name, "update")) return is_bad(file = H5Fopen(path, H5F_ACC_RDWR, parallel));
  if (!strcmp(name, "readonly")) return is_bad(file = H5Fopen(path, H5F_ACC_RDONLY, parallel));
  if (!strcmp(name, "close")) return is_bad(H5Fclose(file));
  if (!strcmp(name, "write")) return write_rows(value);
  if (!strcmp(name, "check")) return check(value);
  if (!strcmp(name, "barrier")) return MPI_Barrier(MPI_COMM_WORLD);
  if (!strcmp(name, "kill")) return rank == value ? raise(SIGKILL) : 0;
  return -1;
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  parallel = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(parallel, MPI_COMM_WORLD, MPI_INFO_NULL);
  together = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
  for (int i = 2; i < count; i++) {
    char name[100], line[200];
    snprintf(name, sizeof name, "%s", words[i]);
    char *text = strchr(name, ':');
    if (text) *text++ = 0;
    int error = call(words[1], name, text);
    int length = snprintf(line, sizeof line, "%d %s %s\n", rank, words[i], error ? "-1" : "ok");
    if (write(1, line, (size_t)length) != length) return 1;
  }
  MPI_Finalize();
  return 0;
}
