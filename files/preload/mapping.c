/* Mappings of staged files. Licence: MIT OR Apache-2.0.
 *
 * A shared mapping writes the file without a call, also after its descriptor is closed. The helper sees all
 * mappings of a process in the kernel. The list here only shows when the helper must look: after munmap, and in a new
 * child. If a mapping was moved, or the list is full, the helper finds it a moment later. */
#include "preload.h"

enum { MAPPINGS_MAX = 256 };

/* A free place has 0 in FROM. */
static struct mapping {
  uintptr_t from, to;
  uint64_t id;
} mappings[MAPPINGS_MAX];
bool has_mapped;

static bool is_shared(int fd, int flags) {
  int type = flags & MAP_TYPE;
  return kind_of(fd) && !(flags & MAP_ANONYMOUS) && (type == MAP_SHARED || type == MAP_SHARED_VALIDATE);
}

/* Before the call: another thread may close the descriptor at any moment. *ID is set if the file is staged. A base is
 * exchanged first. A program that asked for no write access may not map for writing. */
static SLOW bool begin(int fd, uint64_t *id) {
  if (is_stuck(fd)) return false;
  struct entry entry = table_get(fd);
  if (entry.kind != KIND_STAGED || !is_owner()) return true;
  has_mapped = true;
  *id = entry.id;
  return true;
}

static SLOW void add(void *address, size_t size, uint64_t id) {
  for (int i = 0; i < MAPPINGS_MAX; i++) {
    uintptr_t none = 0;
    if (!__atomic_compare_exchange_n(&mappings[i].from, &none, (uintptr_t)address, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      continue;
    mappings[i].id = id;
    __atomic_store_n(&mappings[i].to, (uintptr_t)address + size, __ATOMIC_RELEASE);
    return;
  }
}

void mappings_inherited(void) {
  for (int i = 0; has_mapped && i < MAPPINGS_MAX; i++)
    if (mappings[i].from) tell_mapped(mappings[i].id);
}

/* Before the call, as another thread may get the addresses at once. */
static SLOW int drop(uintptr_t from, uintptr_t to, uint64_t ids[MAPPINGS_MAX]) {
  int count = 0;
  for (int i = 0; i < MAPPINGS_MAX; i++) {
    struct mapping *mapping = &mappings[i];
    uintptr_t end = __atomic_load_n(&mapping->to, __ATOMIC_ACQUIRE);
    if (!mapping->from || from >= end || to <= mapping->from) continue;
    ids[count++] = mapping->id;
    if (from > mapping->from || to < end) continue;
    mapping->to = 0;
    __atomic_store_n(&mapping->from, 0, __ATOMIC_RELEASE);
  }
  return count;
}

static int next_unmap(void *address, size_t size) {
  return next.munmap ? next.munmap(address, size) : (int)syscall(SYS_munmap, address, size);
}

static SLOW int unmap(void *address, size_t size) {
  uint64_t ids[MAPPINGS_MAX];
  int saved = errno, count = drop((uintptr_t)address, (uintptr_t)address + size, ids);
  int result = next_unmap(address, size);
  if (result) return result;
  for (int i = 0; i < count; i++) tell_unmapped(ids[i]);
  errno = saved;
  return 0;
}

/* An allocator may map memory before our constructor. Then looking up the next function is not safe. */
#define MAP(call)                                                                                                      \
  ({                                                                                                                   \
    uint64_t id_ = 0;                                                                                                  \
    bool shared_ = is_shared(fd, flags);                                                                               \
    void *at_ = shared_ && !begin(fd, &id_) ? MAP_FAILED                                                               \
                : next.call                 ? next.call(address, size, protection, flags, fd, at)                      \
                                            : (void *)syscall(SYS_mmap, address, size, protection, flags, fd, at);     \
    if (id_ && at_ != MAP_FAILED) add(at_, size, id_);                                                                 \
    at_;                                                                                                               \
  })

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t at) { return MAP(mmap); }

EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t at) { return MAP(mmap64); }

EXPORT int munmap(void *address, size_t size) {
  return has_mapped && is_owner() ? unmap(address, size) : next_unmap(address, size);
}
