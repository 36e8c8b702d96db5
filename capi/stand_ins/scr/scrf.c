/* SCR's functions for Fortran: libscrf. Licence: MIT OR Apache-2.0.
 *
 * Names have the underscore that gfortran, ifx and flang append; the length of each text comes last. */
#include <stdlib.h>
#include <string.h>

#include "scr.h"

/* Length of a text, as compilers pass it. */
typedef size_t length;

static void to_c(const char *text, length bytes, char *c) {
  while (bytes > 0 && text[bytes - 1] == ' ') bytes--;
  if (bytes >= SCR_MAX_FILENAME) bytes = SCR_MAX_FILENAME - 1;
  memcpy(c, text, bytes);
  c[bytes] = 0;
}

static void to_fortran(const char *c, char *text, length bytes) {
  const size_t used = strlen(c) < bytes ? strlen(c) : bytes;
  memcpy(text, c, used);
  memset(text + used, ' ', bytes - used);
}

#pragma GCC visibility push(default)

void scr_init_(int *ierror) { *ierror = SCR_Init(); }
void scr_finalize_(int *ierror) { *ierror = SCR_Finalize(); }
void scr_should_exit_(int *flag, int *ierror) { *ierror = SCR_Should_exit(flag); }
void scr_need_checkpoint_(int *flag, int *ierror) { *ierror = SCR_Need_checkpoint(flag); }
void scr_start_checkpoint_(int *ierror) { *ierror = SCR_Start_checkpoint(); }
void scr_complete_checkpoint_(const int *valid, int *ierror) { *ierror = SCR_Complete_checkpoint(*valid); }
void scr_complete_output_(const int *valid, int *ierror) { *ierror = SCR_Complete_output(*valid); }
void scr_complete_restart_(const int *valid, int *ierror) { *ierror = SCR_Complete_restart(*valid); }

/* `value`: of a parameter that `config` only names. */
void scr_config_(const char *config, char *value, int *ierror, length config_bytes, length value_bytes) {
  char text[SCR_MAX_FILENAME];
  const char *found;
  to_c(config, config_bytes, text);
  found = SCR_Config(text);
  to_fortran(found ? found : "", value, value_bytes);
  *ierror = found ? SCR_SUCCESS : !SCR_SUCCESS;
  free((void *)found);
}

void scr_have_restart_(int *flag, char *name, int *ierror, length name_bytes) {
  char text[SCR_MAX_FILENAME] = "";
  *ierror = SCR_Have_restart(flag, text);
  to_fortran(text, name, name_bytes);
}

void scr_start_restart_(char *name, int *ierror, length name_bytes) {
  char text[SCR_MAX_FILENAME] = "";
  *ierror = SCR_Start_restart(text);
  to_fortran(text, name, name_bytes);
}

void scr_start_output_(const char *name, const int *flags, int *ierror, length name_bytes) {
  char text[SCR_MAX_FILENAME];
  to_c(name, name_bytes, text);
  *ierror = SCR_Start_output(text, *flags);
}

void scr_route_file_(const char *name, char *file, int *ierror, length name_bytes, length file_bytes) {
  char text[SCR_MAX_FILENAME], routed[SCR_MAX_FILENAME] = "";
  to_c(name, name_bytes, text);
  *ierror = SCR_Route_file(text, routed);
  to_fortran(routed, file, file_bytes);
}

void scr_current_(const char *name, int *ierror, length name_bytes) {
  char text[SCR_MAX_FILENAME];
  to_c(name, name_bytes, text);
  *ierror = SCR_Current(text);
}

void scr_drop_(const char *name, int *ierror, length name_bytes) {
  char text[SCR_MAX_FILENAME];
  to_c(name, name_bytes, text);
  *ierror = SCR_Drop(text);
}

void scr_delete_(const char *name, int *ierror, length name_bytes) {
  char text[SCR_MAX_FILENAME];
  to_c(name, name_bytes, text);
  *ierror = SCR_Delete(text);
}

#pragma GCC visibility pop
