/* The time of one call through the gate and back.
 *
 *     gate BATCHES */
#include <mpi.h>
#include <stdlib.h>

#include "batches.h"
#include "gate.h"

/* The host does nothing in this call, except to note it. */
static void leave(void *unused) {
  (void)unused;
  mainstay_gate(MAINSTAY_GATE_LEAVE, NULL);
}

int main(int count, char **arguments) {
  MPI_Init(&count, &arguments);
  if (count < 2) return 2;
  print_batches("gate", atoi(arguments[1]), 1000, leave, NULL);
  MPI_Finalize();
  return 0;
}
