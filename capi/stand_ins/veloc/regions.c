/* VeloC's functions on Mainstay: the regions of memory that checkpoints save. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "state.h"

#include <stdint.h>
#include <stdlib.h>

/* The regions of a checkpoint name. NULL: those without a name. */
static regions *find_regions(const char *name) {
  size_t i;
  if (!name) return &veloc.regions[0];
  for (i = 1; i < veloc.regions_count; i++)
    if (!strcmp(veloc.regions[i].name, name)) return &veloc.regions[i];
  return NULL;
}

region *find_region(const regions *of, int id) {
  size_t i;
  for (i = 0; i < of->count; i++)
    if (of->all[i].id == id) return &of->all[i];
  return NULL;
}

regions *regions_of(const char *name) {
  regions *own = find_regions(name);
  return own && own->count ? own : &veloc.regions[0];
}

int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name) {
  regions *of;
  region *one;
  if (is_closed("VELOC_Mem_protect")) return VELOC_FAILURE;
  if (base_size && count > SIZE_MAX / base_size) return fail("VELOC_Mem_protect", "more bytes than memory has");
  of = find_regions(name);
  if (!of) {
    veloc.regions = stand_in_memory(veloc.regions, (veloc.regions_count + 1) * sizeof *veloc.regions);
    of = &veloc.regions[veloc.regions_count++];
    memset(of, 0, sizeof *of);
    of->name = stand_in_text("%s", name);
  }
  one = find_region(of, id);
  if (!one) {
    of->all = stand_in_memory(of->all, (of->count + 1) * sizeof *of->all);
    one = &of->all[of->count++];
  }
  one->id = id;
  one->data = ptr;
  one->bytes = count * base_size;
  one->is_chosen = 0;
  return VELOC_SUCCESS;
}

int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size) {
  return VELOC_Region_protect(id, ptr, count, base_size, NULL);
}

int VELOC_Region_unprotect(int id, const char *name) {
  regions *of;
  region *one;
  if (is_closed("VELOC_Mem_unprotect")) return VELOC_FAILURE;
  of = find_regions(name);
  one = of ? find_region(of, id) : NULL;
  if (!one) return fail("VELOC_Mem_unprotect", "no region has this id");
  *one = of->all[--of->count];
  return VELOC_SUCCESS;
}

int VELOC_Mem_unprotect(int id) { return VELOC_Region_unprotect(id, NULL); }

int VELOC_Region_clear(const char *name) {
  regions *of;
  if (is_closed("VELOC_Mem_clear")) return VELOC_FAILURE;
  of = find_regions(name);
  if (of) of->count = 0;
  return VELOC_SUCCESS;
}

int VELOC_Mem_clear(void) { return VELOC_Region_clear(NULL); }

void choose(regions *of, int mode, const int *ids, int count) {
  size_t i;
  int k;
  for (i = 0; i < of->count; i++) {
    int is_listed = 0;
    for (k = 0; k < count; k++) is_listed |= ids[k] == of->all[i].id;
    of->all[i].is_chosen = mode == VELOC_CKPT_ALL || is_listed == (mode == VELOC_CKPT_SOME);
  }
}
