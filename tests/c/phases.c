/* Sees every write and sync of the engine on its way to the kernel, notes its phase of the commit on the board, and
 * makes the short phases longer.
 *
 * Linked into the program, or preloaded, where these two functions take the place of the C library's. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "board.h"

enum { SHORT_US = 3000, DATA_US = 300 };

cell *board;

static _Atomic bool begun;      /* a revision is on its way */
static _Atomic bool data_begun; /* and its first block has been written: nothing more is freed */

void stretch(long microseconds) {
  struct timespec time = {0, microseconds * 1000};
  nanosleep(&time, NULL);
}

void phases_begin(void) {
  data_begun = false;
  begun = true;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
  long pause = SHORT_US;
  if (begun) {
    bool slot = count >= 8 && memcmp(bytes, "MSTYSLOT", 8) == 0;
    bool catalogue = count >= 8 && memcmp(bytes, "MSTYCATL", 8) == 0;
    if (!data_begun && (slot || catalogue)) {
      board->io = FREEING;
    } else if (slot) {
      board->io = SLOT;
    } else {
      data_begun = true;
      board->io = DATA;
      pause = DATA_US;
    }
    board->writes++;
    stretch(pause);
  }
  ssize_t written = syscall(SYS_pwrite64, file, bytes, count, at);
  if (begun) stretch(pause);
  return written;
}

int fdatasync(int file) {
  if (!begun) return (int)syscall(SYS_fdatasync, file);
  bool of_slot = data_begun && (board->io == SLOT || board->io == SLOT_SYNC);
  board->io = !data_begun ? FREEING : of_slot ? SLOT_SYNC : DATA_SYNC;
  stretch(SHORT_US);
  int status = (int)syscall(SYS_fdatasync, file);
  stretch(SHORT_US);
  if (of_slot) {
    begun = false;
    board->io = IDLE;
  }
  return status;
}
