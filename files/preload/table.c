/* The kind of each descriptor: none of ours, a staged file, or a base. Licence: MIT OR Apache-2.0.
 *
 * The table has a byte for each descriptor, so a write through a descriptor that is none of ours costs one load. The
 * table belongs to one process: the child of vfork shares its memory, and leaves it alone. */
#include "preload.h"

uint8_t table_kinds[DESCRIPTORS];
static uint64_t ids[DESCRIPTORS];
/* Streams on staged files. At exit their buffers must be written before the files count as closed. */
static FILE *streams[DESCRIPTORS];
static int end;
static int owner;

bool is_owner(void) { return syscall(SYS_getpid) == owner; }

void set_owner(void) { owner = (int)syscall(SYS_getpid); }

void table_set(int fd, int kind, uint64_t id) {
  ids[fd] = id;
  streams[fd] = NULL;
  int old = __atomic_load_n(&end, __ATOMIC_RELAXED);
  while (old <= fd && !__atomic_compare_exchange_n(&end, &old, fd + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  __atomic_store_n(&table_kinds[fd], kind, __ATOMIC_RELEASE);
}

void table_set_stream(int fd, FILE *stream) {
  if (kind_of(fd) == KIND_STAGED && is_owner()) streams[fd] = stream;
}

void table_set_synced(int fd) {
  if (kind_of(fd) == KIND_STAGED && is_owner()) __atomic_or_fetch(&table_kinds[fd], KIND_SYNCED, __ATOMIC_RELAXED);
}

void table_set_given_up(int fd) {
  if (kind_of(fd) == KIND_STAGED && is_owner()) __atomic_or_fetch(&table_kinds[fd], KIND_GIVEN_UP, __ATOMIC_RELAXED);
}

static struct entry entry_of(int fd, int kinds) {
  return (struct entry){kinds & KIND_MASK, kinds & KIND_SYNCED, kinds & KIND_GIVEN_UP, kinds & KIND_MASK ? ids[fd] : 0};
}

struct entry table_get(int fd) {
  return entry_of(fd, (unsigned)fd < DESCRIPTORS ? __atomic_load_n(&table_kinds[fd], __ATOMIC_ACQUIRE) : 0);
}

/* Two threads may close the same descriptor: only one gets the entry. */
struct entry table_take(int fd) {
  if ((unsigned)fd >= DESCRIPTORS) return entry_of(0, 0);
  int kinds = __atomic_exchange_n(&table_kinds[fd], KIND_NONE, __ATOMIC_ACQ_REL);
  if (kinds) streams[fd] = NULL;
  return entry_of(fd, kinds);
}

int table_end(void) { return __atomic_load_n(&end, __ATOMIC_RELAXED); }

bool table_has_staged(void) {
  for (int fd = table_end(); fd-- > 0;)
    if (kind_of(fd) == KIND_STAGED) return true;
  return false;
}

void table_flush(void) {
  for (int fd = table_end(); fd-- > 0;) {
    if (kind_of(fd) != KIND_STAGED) continue;
    if (streams[fd]) fflush(streams[fd]);
    /* The shell opened these before the program began. */
    else if (stdout && fileno(stdout) == fd)
      fflush(stdout);
    else if (stderr && fileno(stderr) == fd)
      fflush(stderr);
  }
}
