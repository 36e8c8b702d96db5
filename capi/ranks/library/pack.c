/* Between buffers with a datatype and contiguous bytes. Licence: MIT OR Apache-2.0. */
#include "internal.h"

/* The contiguous side. Packing writes to it; unpacking reads from it, until its bytes are used up. */
struct stream {
  char *at;
  size_t left;
  bool packing;
};

static void move(struct stream *stream, char *data, size_t bytes) {
  if (bytes > stream->left) bytes = stream->left;
  if (stream->packing)
    memcpy(stream->at, data, bytes);
  else
    memcpy(data, stream->at, bytes);
  stream->at += bytes;
  stream->left -= bytes;
}

/* Blocks of a constant length: the compiler makes loads and stores of it. */
#define BLOCKS(bytes)                                                                                                  \
  case bytes:                                                                                                          \
    if (stream->packing)                                                                                               \
      for (MPI_Count i = 0; i < repeats; i++) memcpy(stream->at + i * bytes, data + i * stride, bytes);                \
    else                                                                                                               \
      for (MPI_Count i = 0; i < repeats; i++) memcpy(data + i * stride, stream->at + i * bytes, bytes);                \
    break

static void move_blocks(struct stream *stream, char *data, MPI_Count repeats, MPI_Aint stride, size_t bytes) {
  if (stream->left < (size_t)repeats * bytes) {
    for (MPI_Count i = 0; i < repeats && stream->left; i++) move(stream, data + i * stride, bytes);
    return;
  }
  switch (bytes) {
    BLOCKS(1);
    BLOCKS(2);
    BLOCKS(4);
    BLOCKS(8);
    BLOCKS(16);
    BLOCKS(24);
    BLOCKS(32);
    BLOCKS(64);
  default:
    for (MPI_Count i = 0; i < repeats; i++) move(stream, data + i * stride, bytes);
    return;
  }
  stream->at += (size_t)repeats * bytes;
  stream->left -= (size_t)repeats * bytes;
}

static void walk(struct stream *stream, char *data, MPI_Count count, const struct datatype *type) {
  if (type->dense) {
    move(stream, data, (size_t)count * (size_t)type->size);
    return;
  }
  if (type->part_count == 1 && type->parts->of->dense && type->parts->repeats == 1) {
    const struct part *part = type->parts;
    move_blocks(stream, data + part->offset, count, type->extent, (size_t)(part->length * part->of->size));
    return;
  }
  for (MPI_Count element = 0; element < count && stream->left; element++, data += type->extent)
    for (MPI_Count i = 0; i < type->part_count; i++) {
      const struct part *part = &type->parts[i];
      char *start = data + part->offset;
      if (part->of->dense) {
        move_blocks(stream, start, part->repeats, part->stride, (size_t)(part->length * part->of->size));
        continue;
      }
      for (MPI_Count repeat = 0; repeat < part->repeats; repeat++, start += part->stride)
        walk(stream, start, part->length, part->of);
    }
}

void pack_bytes(const void *data, MPI_Count count, const struct datatype *type, void *packed) {
  struct stream stream = {packed, data_bytes(count, type), true};
  if (stream.left) walk(&stream, (char *)(uintptr_t)data, count, type);
}

size_t unpack_bytes(const void *packed, size_t bytes, void *data, MPI_Count count, const struct datatype *type) {
  size_t room = data_bytes(count, type);
  struct stream stream = {(char *)(uintptr_t)packed, bytes < room ? bytes : room, false};
  size_t used = stream.left;
  if (used) walk(&stream, data, count, type);
  return used;
}

const void *packed_data(const void *data, MPI_Count count, const struct datatype *type, void **copy) {
  *copy = NULL;
  if (is_dense(type)) return data;
  *copy = take_memory(data_bytes(count, type));
  pack_bytes(data, count, type, *copy);
  return *copy;
}

int copy_data(const void *from, MPI_Count from_count, const struct datatype *from_type, void *to, MPI_Count to_count,
              const struct datatype *to_type) {
  size_t bytes = data_bytes(from_count, from_type), room = data_bytes(to_count, to_type);
  int error = bytes > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
  if (bytes > room) bytes = room;
  if (!bytes) return error;
  if (is_dense(from_type)) {
    if (is_dense(to_type))
      memmove(to, from, bytes);
    else
      unpack_bytes(from, bytes, to, to_count, to_type);
  } else {
    void *copy;
    packed_data(from, from_count, from_type, &copy);
    unpack_bytes(copy, bytes, to, to_count, to_type);
    free(copy);
  }
  return error;
}

/* Checks the arguments of the functions below, which differ in the width of their numbers only. */
static int check(MPI_Count count, const struct datatype *type, MPI_Comm comm, MPI_Count size, MPI_Count position) {
  if (!comm_of(comm)) return MPI_ERR_COMM;
  if (check_buffer(count, type)) return check_buffer(count, type);
  if (position < 0 || position > size) return MPI_ERR_ARG;
  return MPI_SUCCESS;
}

#define PACKS(suffix, number)                                                                                          \
  MPI(Pack##suffix)(const void *inbuf, number incount, MPI_Datatype datatype, void *outbuf, number outsize,            \
                    number *position, MPI_Comm comm) {                                                                 \
    struct datatype *type = type_of(datatype);                                                                         \
    int error = check(incount, type, comm, outsize, *position);                                                        \
    if (!error && data_bytes(incount, type) > (size_t)(outsize - *position)) error = MPI_ERR_TRUNCATE;                 \
    if (error) return fail(comm_of(comm), error);                                                                      \
    pack_bytes(inbuf, incount, type, (char *)outbuf + *position);                                                      \
    *position += (number)data_bytes(incount, type);                                                                    \
    return MPI_SUCCESS;                                                                                                \
  }                                                                                                                    \
  MPI(Unpack##suffix)(const void *inbuf, number insize, number *position, void *outbuf, number outcount,               \
                      MPI_Datatype datatype, MPI_Comm comm) {                                                          \
    struct datatype *type = type_of(datatype);                                                                         \
    int error = check(outcount, type, comm, insize, *position);                                                        \
    if (!error && data_bytes(outcount, type) > (size_t)(insize - *position)) error = MPI_ERR_TRUNCATE;                 \
    if (error) return fail(comm_of(comm), error);                                                                      \
    *position +=                                                                                                       \
        (number)unpack_bytes((const char *)inbuf + *position, (size_t)(insize - *position), outbuf, outcount, type);   \
    return MPI_SUCCESS;                                                                                                \
  }                                                                                                                    \
  MPI(Pack_size##suffix)(number incount, MPI_Datatype datatype, MPI_Comm comm, number * size) {                        \
    struct datatype *type = type_of(datatype);                                                                         \
    int error = check(incount, type, comm, 0, 0);                                                                      \
    if (error) return fail(comm_of(comm), error);                                                                      \
    *size = (number)data_bytes(incount, type);                                                                         \
    return MPI_SUCCESS;                                                                                                \
  }

PACKS(, int)
PACKS(_c, MPI_Count)
