/* Calls of SCR, one for each argument. Prints the result of each on rank 0. `call` has the words of all calls.
 *
 * `save` writes a file with the name of its dataset; `next` leaves the name to SCR; `read` returns whether the routed
 * file has that text. */
#include <scr.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static int save(const char *name, int flags, int valid, int is_shared) {
  char path[SCR_MAX_FILENAME], file_name[SCR_MAX_FILENAME];
  FILE *file;
  if ((flags ? SCR_Start_output(name, flags) : SCR_Start_checkpoint()) != SCR_SUCCESS) return 90;
  snprintf(file_name, sizeof file_name, "%s/rank.%d", name, is_shared ? 0 : rank);
  if (SCR_Route_file(file_name, path) != SCR_SUCCESS) return 91;
  file = fopen(path, "w");
  if (!file || fputs(name, file) < 0 || fclose(file)) return 92;
  return SCR_Complete_output(valid || rank == 0);
}

static int reads(const char *name) {
  char path[SCR_MAX_FILENAME], file_name[SCR_MAX_FILENAME], text[64] = "";
  FILE *file;
  snprintf(file_name, sizeof file_name, "%s/rank.%d", name, rank);
  if (SCR_Route_file(file_name, path) != SCR_SUCCESS) return 91;
  file = fopen(path, "r");
  if (!file || !fgets(text, sizeof text, file) || fclose(file)) return 92;
  return strcmp(text, name) != 0;
}

static int call(const char *word) {
  char name[SCR_MAX_FILENAME] = "", path[SCR_MAX_FILENAME];
  int flag = 0, number = 0, valid = 0;
  if (!strcmp(word, "init")) return SCR_Init();
  if (!strcmp(word, "final")) return SCR_Finalize();
  if (sscanf(word, "config=%255[^\n]", name) == 1) {
    const char *value = SCR_Config(name);
    if (rank == 0) printf("[%s] ", value ? value : "");
    free((void *)value);
    return 0;
  }
  if (!strcmp(word, "have")) {
    number = SCR_Have_restart(&flag, name);
    if (rank == 0) printf("[%s] ", name);
    return number ? number : flag;
  }
  if (!strcmp(word, "start")) return SCR_Start_restart(name);
  if (sscanf(word, "valid=%d", &valid) == 1) return SCR_Complete_restart(valid || rank == 0);
  if (sscanf(word, "save=%255[^:]:%d:%d", name, &number, &valid) == 3) return save(name, number, valid, 0);
  if (!strcmp(word, "next")) return save("next", 0, 1, 0);
  if (sscanf(word, "shared=%255s", name) == 1) return save(name, SCR_FLAG_CHECKPOINT, 1, 1);
  if (!strcmp(word, "need")) return SCR_Need_checkpoint(&flag) ? 99 : flag;
  if (!strcmp(word, "exit")) return SCR_Should_exit(&flag) ? 99 : flag;
  if (sscanf(word, "current=%255s", name) == 1) return SCR_Current(name);
  if (sscanf(word, "drop=%255s", name) == 1) return SCR_Drop(name);
  if (sscanf(word, "delete=%255s", name) == 1) return SCR_Delete(name);
  if (sscanf(word, "route=%255s", name) == 1) return SCR_Route_file(name, path);
  if (sscanf(word, "read=%255s", name) == 1) return reads(name);
  if (!strcmp(word, "version")) return strcmp(SCR_Get_version(), SCR_VERSION);
  return 98;
}

int main(int argc, char **argv) { return make_calls(argc - 1, argv + 1); }
