/* What a process saves: its image, and the pieces in which it writes it. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct image {
    int rank;
    unsigned char *data; /* ordinary pages, touched */
    size_t bytes, count;
    size_t *pieces; /* their sizes, in order: each begins where the one before ends */
    uint64_t stamp; /* says what the image holds */
} image;

/* The pieces are those in the file `path`, a size a line. */
image image_open(const char *path, int rank);
void image_fill(image *image, uint64_t stamp);
void image_clear(image *image);
void image_check(const image *image, uint64_t stamp);
void image_close(image *image);

#endif
