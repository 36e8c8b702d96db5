/* The data that the programs of the model save. Each byte follows from its place, so it differs from the others. */
#ifndef CONTENT_H
#define CONTENT_H

#include <stddef.h>
#include <stdint.h>

/* Puts bytes `from`..`from + bytes` of the endless text (`tag`, `salt`, `name`) into `data`; tag 0: zeros. The same
 * as in model/content.py. */
void content(uint64_t tag, uint64_t salt, const char *name, uint64_t from, void *data, size_t bytes);

/* The usual CRC-32. */
uint32_t crc32_of(const void *data, size_t bytes);

#endif
