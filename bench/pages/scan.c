/* The kernel's own work: protection that it lifts at the first write (userfaultfd WP_ASYNC), and the scan that
 * finds those pages and protects them again (PAGEMAP_SCAN). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "side.h"
#include "stop.h"

/* Newer than the headers of many systems; as linux/fs.h and linux/userfaultfd.h have them since Linux 6.7. */
struct found {
  uint64_t start, end, categories;
};
struct scan {
  uint64_t size, flags, start, end, walk_end, found, found_max, pages_max;
  uint64_t inverted, mask, any_of, returned;
};
#define SCAN _IOWR('f', 16, struct scan)
#define SCAN_PROTECT 1
#define IS_WRITTEN 2
#define USER_MODE_ONLY 1
#define FEATURE_UNPOPULATED (1 << 13)
#define FEATURE_ASYNC (1 << 15)
#define FOUND_MAX 4096

typedef struct tracker {
  int faults, pagemap;
  struct found found[FOUND_MAX];
} tracker;

static void scan(side *side) {
  tracker *t = side->own;
  uint64_t start = (uint64_t)side->data, end = start + side->bytes;
  while (start < end) {
    struct scan s = {.size = sizeof s,
                     .flags = SCAN_PROTECT,
                     .start = start,
                     .end = end,
                     .mask = IS_WRITTEN,
                     .returned = IS_WRITTEN,
                     .found = (uint64_t)t->found,
                     .found_max = FOUND_MAX};
    if (ioctl(t->pagemap, SCAN, &s) < 0) stop_errno("PAGEMAP_SCAN");
    start = s.walk_end;
  }
}

static void open_scan(side *side) {
  tracker *t = malloc(sizeof *t);
  if (!t) stop("no memory");
  t->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
  t->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API, .features = FEATURE_ASYNC | FEATURE_UNPOPULATED};
  struct uffdio_register range = {.range = {(uint64_t)side->data, side->bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
  if (t->faults < 0 || t->pagemap < 0 || ioctl(t->faults, UFFDIO_API, &api) != 0 ||
      ioctl(t->faults, UFFDIO_REGISTER, &range) != 0)
    stop_errno("watch pages, which takes Linux 6.7");
  side->own = t;
  scan(side);
}

static void close_scan(side *side) {
  tracker *t = side->own;
  close(t->faults);
  close(t->pagemap);
  free(t);
}

const kind scan_kind = {"scan", open_scan, scan, NULL, close_scan};
