/* Finds the functions behind ours: those of other preloaded libraries, then those of the C library.
 * Licence: MIT OR Apache-2.0.
 *
 * Constructors of other libraries may call us before our own constructor, so each function is looked up at its first
 * use as well. A lookup that succeeds allocates nothing. */
#include "preload.h"

#include <dlfcn.h>

struct next next;

static long missing(void) {
  errno = ENOSYS;
  return -1;
}

/* glibc below 2.33 has no symbols for these. Lua, Julia and the like find ours by dlsym. */
static int plain_stat(const char *path, struct stat *status) { return raw_stat(AT_FDCWD, path, status, 0); }
static int plain_lstat(const char *path, struct stat *status) {
  return raw_stat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

static const struct {
  const char *name;
  void *function;
} substitutes[] = {
    {"stat", plain_stat},     {"stat64", plain_stat}, {"lstat", plain_lstat},
    {"lstat64", plain_lstat}, {"fstatat", raw_stat},  {"fstatat64", raw_stat},
};

void *next_symbol(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  /* Newer C libraries keep old functions only under a version. */
  if (!found) found = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
  if (!found) found = dlvsym(RTLD_NEXT, name, "GLIBC_2.17");
  for (size_t i = 0; !found && i < sizeof substitutes / sizeof *substitutes; i++)
    if (!strcmp(name, substitutes[i].name)) found = substitutes[i].function;
  return found ? found : (void *)missing;
}

void next_all(void) {
#define RESOLVE(name) (void)NEXT(name);
  SYMBOLS(RESOLVE)
#undef RESOLVE
  /* The program's dlerror must not show our failed lookups. */
  dlerror();
}
