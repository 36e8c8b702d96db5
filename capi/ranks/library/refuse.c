/* The functions of MPI that ranks in slots do not have. A program that names them runs until it calls one. The library
 * also exports a mainstay_refused_NAME for each. `mainstay run` looks for these names before the start.
 * Licence: MIT OR Apache-2.0. */
#include "internal.h"

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* A sentence that says how to do without the function. */
static const char *advice(const char *name) {
  static const char *const processes[] = {"Comm_spawn", "Comm_accept", "Comm_connect", "Comm_join",     "Open_port",
                                          "Close_port", "Lookup_name", "Publish_name", "Unpublish_name"};
  for (size_t i = 0; i < sizeof processes / sizeof *processes; i++)
    if (begins(name, processes[i])) return "Start all ranks at once, with --virtual.";
  if (begins(name, "Session_") || strstr(name, "_from_group") || strstr(name, "session"))
    return "Start MPI with MPI_Init or MPI_Init_thread.";
  if (begins(name, "File_")) return "Use an individual file pointer or explicit offsets, as in MPI_File_write_at.";
  if (begins(name, "Psend") || begins(name, "Precv") || begins(name, "Pready") || begins(name, "Parrived"))
    return "Use persistent requests, as from MPI_Send_init.";
  if (strstr(name, "_buffer")) return "Use MPI_Buffer_attach.";
  if (begins(name, "Abi_set")) return "Fortran's logical values are those of gfortran.";
  if (begins(name, "Register_datarep")) return "Use the data representation \"native\".";
  return "One-sided communication does not exist in slots. Send the data in messages, as with MPI_Sendrecv.";
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#undef MAINSTAY_MPI
#define MAINSTAY_MPI(type, name, arguments)                                                                            \
  extern __typeof__(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));                               \
  type PMPI_##name arguments {                                                                                         \
    static bool is_reported;                                                                                           \
    return raise_unsupported(NULL, "MPI_" #name, advice(#name), &is_reported);                                         \
  }                                                                                                                    \
  const char mainstay_refused_##name __attribute__((visibility("default"))) = 1
#include "../include/functions/refused.h"
