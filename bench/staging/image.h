/* The image of a process. The process writes it in pieces. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct image {
  int rank;
  unsigned char *data; /* ordinary pages, touched */
  size_t bytes, count;
  size_t *pieces; /* their sizes, in order, without gaps between them */
  uint64_t stamp; /* identifies the content of the image */
} image;

/* Reads the sizes of the pieces from the file `path`. Each line has one size. */
image image_open(const char *path, int rank);
void image_fill(image *image, uint64_t stamp);
void image_clear(image *image);
void image_check(const image *image, uint64_t stamp);
void image_close(image *image);

#endif
