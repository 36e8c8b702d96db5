/* Files of a rank, written and read with nothing in between. */
#ifndef FILE_H
#define FILE_H

#include <stddef.h>
#include <stdint.h>

#define CHUNK_BYTES ((size_t)4 << 20) /* published */
#define PATH_BYTES 4096

int file_make(const char *path);
void file_write(int file, const void *data, size_t bytes);
/* Reads so many bytes; fewer are an error. */
void file_read(int file, void *data, size_t bytes);
void file_sync(int file);
/* The size of the next transfer, when `left` bytes remain. */
size_t file_transfer(size_t left);
/* The bytes that the files in a folder and its subfolders occupy in the file system. */
uint64_t file_blocks_below(const char *directory);

#endif
