/* Calls of FTI, one for each argument behind the configuration. Prints the result of each on rank 0. `call` has the
 * words of all calls. */
#include <fti.h>

#include "calls.h"

enum { IDS = 8, BYTES_MAX = 1 << 16 };

static const char *configuration;
static char memory[IDS][BYTES_MAX];

static int call(const char *word) {
  char name[64] = "";
  int id = 0, number = 0, other = 0;
  FTIT_hsize_t one[1] = {1}, zero[1] = {0};
  fti_id_t type;
  if (!strcmp(word, "init")) return FTI_Init(configuration, MPI_COMM_WORLD);
  if (!strcmp(word, "final")) return FTI_Finalize();
  if (!strcmp(word, "status")) return FTI_Status();
  if (sscanf(word, "protect=%d:%d", &id, &number) == 2) return FTI_Protect(id, memory[id], number, FTI_CHAR);
  if (sscanf(word, "type=%d:%d", &id, &number) == 2)
    return FTI_InitType(&type, number) == FTI_SCES ? FTI_Protect(id, memory[id], 2, type) : FTI_NSCS;
  if (sscanf(word, "save=%d:%d", &id, &number) == 2) return FTI_Checkpoint(id, number);
  if (!strcmp(word, "snapshot")) return FTI_Snapshot();
  if (!strcmp(word, "recover")) return FTI_Recover();
  if (sscanf(word, "var=%d", &id) == 1) return FTI_RecoverVar(id);
  if (sscanf(word, "size=%d", &id) == 1) return (int)FTI_GetStoredSize(id);
  if (sscanf(word, "set=%63s", name) == 1) return FTI_setIDFromString(name);
  if (sscanf(word, "get=%63s", name) == 1) return FTI_getIDFromString(name);
  if (sscanf(word, "shape=%d:%d:%d", &id, &number, &other) == 3) {
    int64_t lengths[2] = {number, other};
    return FTI_DefineDataset(id, 2, lengths, "x", NULL);
  }
  if (sscanf(word, "icp=%d:%d:%d", &id, &number, &other) == 3) return FTI_InitICP(id, number, other);
  if (sscanf(word, "add=%d", &id) == 1) return FTI_AddVarICP(id);
  if (!strcmp(word, "done")) return FTI_FinalizeICP();
  if (sscanf(word, "dataset=%d:%d", &id, &number) == 2) {
    one[0] = number;
    return FTI_DefineGlobalDataset(id, 1, one, "x", NULL, FTI_CHAR);
  }
  if (sscanf(word, "subset=%d:%d", &id, &number) == 2) return FTI_AddSubset(id, 1, zero, one, number);
  if (!strcmp(word, "send")) return FTI_SendFile("a", "b");
  if (!strcmp(word, "stage")) return FTI_GetStageDir(name, (int)sizeof name) + FTI_GetStageStatus(0);
  if (!strcmp(word, "flip")) return FTI_BitFlip(0);
  if (!strcmp(word, "config")) return FTI_GetConfig(configuration, MPI_COMM_WORLD).is_empty;
  if (sscanf(word, "fill=%d", &number) == 1) {
    memset(memory, number, sizeof memory);
    return 0;
  }
  if (sscanf(word, "show=%d", &id) == 1) return memory[id][0];
  return 98;
}

int main(int argc, char **argv) {
  configuration = argv[1];
  return make_calls(argc - 2, argv + 2);
}
