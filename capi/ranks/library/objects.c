/* Objects behind handles: one table for each kind, and the number of holds on each object. Licence: MIT OR Apache-2.0.
 *
 * A free place of a table holds the number of the next free place, shifted and marked in its lowest bit. */
#include "internal.h"

#include <stdio.h>

struct table {
  uintptr_t *places;
  uint32_t used, room;
  uint32_t free; /* the first free place below `used`, plus 1; 0: none */
};

static struct table tables[KINDS];

void *take_memory(size_t bytes) { return grow_memory(NULL, bytes); }

void *take_zeroed(size_t count, size_t bytes) {
  void *memory = calloc(count ? count : 1, bytes ? bytes : 1);
  if (!memory) end_job("no memory for %zu times %zu bytes", count, bytes);
  return memory;
}

void *grow_memory(void *old, size_t bytes) {
  void *memory = realloc(old, bytes ? bytes : 1);
  if (!memory) end_job("no memory for %zu bytes", bytes);
  return memory;
}

void *object_new(enum kind kind, size_t bytes) {
  struct table *table = &tables[kind];
  struct object *object = take_zeroed(1, bytes);
  uint32_t id;
  if (table->free) {
    id = table->free - 1;
    table->free = (uint32_t)(table->places[id] >> 1);
  } else {
    if (table->used == table->room) {
      table->room = table->room ? 2 * table->room : 16;
      table->places = grow_memory(table->places, table->room * sizeof *table->places);
    }
    id = table->used++;
  }
  table->places[id] = (uintptr_t)object;
  object->kind = (uint8_t)kind;
  object->id = id;
  object->uses = 1;
  return object;
}

void *object_hold(void *object) {
  if (object) ((struct object *)object)->uses++;
  return object;
}

bool object_drop(void *pointer) {
  struct object *object = pointer;
  if (object->predefined) return false;
  return --object->uses == 0;
}

void object_free(void *pointer) {
  struct object *object = pointer;
  struct table *table = &tables[object->kind];
  table->places[object->id] = (uintptr_t)table->free << 1 | 1;
  table->free = object->id + 1;
  free(object);
}

struct object *object_at(enum kind kind, uint32_t id) {
  const struct table *table = &tables[kind];
  if (id >= table->used || table->places[id] & 1) return NULL;
  return (struct object *)table->places[id];
}
