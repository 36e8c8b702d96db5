/* Calls of VeloC, one for each argument behind the configuration. Prints the result of each on rank 0. `call` has the
 * words of all calls. A region's bytes all have the value of the last `fill`. */
#include <stdlib.h>
#include <veloc.h>

#include "calls.h"

enum { IDS = 8, BYTES_MAX = 1 << 20 };

static const char *configuration;
static char memory[IDS][BYTES_MAX];

static int call(const char *word) {
  char name[64] = "", path[VELOC_MAX_NAME];
  int number = 0, bytes = 0;
  if (!strcmp(word, "init")) return VELOC_Init(MPI_COMM_WORLD, configuration);
  if (sscanf(word, "single=%d", &number) == 1) return VELOC_Init_single((unsigned)number, configuration);
  if (!strcmp(word, "final")) return VELOC_Finalize(1);
  if (sscanf(word, "protect=%d:%d", &number, &bytes) == 2)
    return VELOC_Mem_protect(number, memory[number], (size_t)bytes, 1);
  if (sscanf(word, "region=%d:%d:%63s", &number, &bytes, name) == 3)
    return VELOC_Region_protect(number, memory[number], (size_t)bytes, 1, name);
  if (sscanf(word, "unprotect=%d", &number) == 1) return VELOC_Mem_unprotect(number);
  if (!strcmp(word, "clear")) return VELOC_Mem_clear();
  if (sscanf(word, "begin=%63[^:]:%d", name, &number) == 2) return VELOC_Checkpoint_begin(name, number);
  if (!strcmp(word, "mem")) return VELOC_Checkpoint_mem();
  if (sscanf(word, "end=%d", &number) == 1) return VELOC_Checkpoint_end(number);
  if (sscanf(word, "save=%63[^:]:%d", name, &number) == 2) return VELOC_Checkpoint(name, number);
  if (!strcmp(word, "wait")) return VELOC_Checkpoint_wait();
  if (!strcmp(word, "done")) return VELOC_Checkpoint_finished();
  if (sscanf(word, "test=%63[^:]:%d", name, &number) == 2) return VELOC_Restart_test(name, number);
  if (sscanf(word, "restart=%63[^:]:%d", name, &number) == 2) return VELOC_Restart(name, number);
  if (sscanf(word, "from=%63[^:]:%d", name, &number) == 2) return VELOC_Restart_begin(name, number);
  if (sscanf(word, "size=%d", &number) == 1) return VELOC_Recover_size(number);
  if (!strcmp(word, "recover")) return VELOC_Recover_mem();
  if (!strcmp(word, "over")) return VELOC_Restart_end(1);
  if (!strcmp(word, "route")) return VELOC_Route_file("any", path);
  if (sscanf(word, "cleanup=%63s", name) == 1) return VELOC_Cleanup(name);
  if (sscanf(word, "fill=%d", &number) == 1) {
    memset(memory, number, sizeof memory);
    return 0;
  }
  if (sscanf(word, "show=%d", &number) == 1) return memory[number][0];
  printf("no such call: %s\n", word);
  return 99;
}

int main(int argc, char **argv) {
  configuration = argv[1];
  return make_calls(argc - 2, argv + 2);
}
