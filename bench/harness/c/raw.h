/* The limit of the disk: a preallocated file of this rank, written and read past the page cache. */
#ifndef RAW_H
#define RAW_H

#include <stddef.h>

typedef struct raw_file {
  int file;
  unsigned char *buffer; /* of huge pages where the kernel has them: the cheapest to write from */
  size_t bytes, chunk_bytes;
} raw_file;

raw_file raw_open(const char *directory, int rank, size_t bytes, size_t chunk_bytes);
void raw_preallocate(const raw_file *raw);
/* All bytes from the buffer to the file, with so many writes in flight, and a sync. */
void raw_write(const raw_file *raw, int in_flight);
void raw_read(const raw_file *raw, int in_flight);
void raw_close(raw_file *raw);

#endif
