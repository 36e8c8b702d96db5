/* Objects that do something wrong, for faults.c: object number 4, which is on rank 1. */
#include "faulty.h"

#include <mainstay_objects_mpi.h>
#include <stdio.h>

enum { OBJECTS = 9, WRONG = 4 };

typedef struct thing {
  uint64_t index, sum;
  int sized;
} thing;

static mainstay_objects *objects;
static const char *fault;

static int is_wrong(const thing *one, const char *as) { return one->index == WRONG && strcmp(fault, as) == 0; }

static int create(void *context, uint64_t index, void **object) {
  thing *made = (thing *)calloc(1, sizeof *made);
  (void)context;
  if (!made) return mainstay_adapter_error(MAINSTAY_IO, "no memory for a thing");
  made->index = index;
  *object = made;
  return MAINSTAY_OK;
}

static void destroy(void *context, void *object) {
  (void)context;
  free(object);
}

static int bytes(void *context, void *object, size_t *bytes) {
  thing *one = (thing *)object;
  (void)context;
  *bytes = sizeof one->sum + (is_wrong(one, "grows") ? (size_t)++one->sized : 0);
  return MAINSTAY_OK;
}

static int pack(void *context, void *object, void *into, size_t room, size_t *written) {
  thing *one = (thing *)object;
  (void)context;
  memcpy(into, &one->sum, sizeof one->sum);
  *written = is_wrong(one, "packs") ? room + 1 : room;
  return MAINSTAY_OK;
}

static int unpack(void *context, void *object, const void *from, size_t there, size_t *taken) {
  thing *one = (thing *)object;
  (void)context;
  memcpy(&one->sum, from, sizeof one->sum);
  *taken = is_wrong(one, "unpacks") ? there - 1 : there;
  return MAINSTAY_OK;
}

static int receive(void *context, void *object, uint32_t method, const void *data, size_t size) {
  thing *one = (thing *)object;
  (void)context, (void)method, (void)data, (void)size;
  one->sum++;
  if (is_wrong(one, "fails")) return mainstay_adapter_error(MAINSTAY_IO, "no such luck");
  if (is_wrong(one, "nowhere")) return mainstay_objects_send(objects, 0, 77, 1, NULL, 0);
  if (is_wrong(one, "reenters")) return mainstay_objects_step(objects);
  return MAINSTAY_OK;
}

static int open_objects(mainstay_session *session, const char *name) {
  mainstay_kind kind;
  memset(&kind, 0, sizeof kind);
  kind.size = sizeof kind;
  kind.name = name;
  kind.dimensions = 1;
  kind.create = create;
  kind.destroy = destroy;
  kind.bytes = bytes;
  kind.pack = pack;
  kind.unpack = unpack;
  kind.receive = receive;
  return mainstay_objects_open_mpi(session, NULL, &objects) == MAINSTAY_OK &&
         mainstay_objects_register(objects, &kind, NULL) == MAINSTAY_OK;
}

static void act(mainstay_session *session) {
  const uint32_t all[] = {0, 1, 2}, others[] = {1, 2};
  int rank, ranks;
  uint64_t index;
  mainstay_objects_came came;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (said("restore", mainstay_objects_restore(objects, &came))) return;
  for (index = (uint64_t)rank; came.revision == 0 && index < OBJECTS; index += (uint64_t)ranks)
    if (said("create", mainstay_objects_create(objects, 0, index, NULL))) return;
  if (strcmp(fault, "twice") == 0 && rank == 2) said("create", mainstay_objects_create(objects, 0, WRONG, NULL));
  said("send", mainstay_objects_broadcast(objects, 0, 1, NULL, 0));
  if (said("step", mainstay_objects_step(objects))) return;
  if (strcmp(fault, "unpacks") == 0 && said("evacuate", mainstay_objects_evacuate(objects, others, 2, NULL))) return;
  if (strcmp(fault, "leaves_all") == 0) said("evacuate", mainstay_objects_evacuate(objects, all, 3, NULL));
  if (strcmp(fault, "strategy") == 0) said("balance", mainstay_objects_balance(objects, "best", NULL));
  if (strcmp(fault, "left_out") == 0) said("put", mainstay_put(session, "alone", "some", 4, NULL));
  said("checkpoint", mainstay_objects_checkpoint(objects, NULL));
}

void faulty(mainstay_session *session, const char *how) {
  fault = how;
  if (!open_objects(session, strcmp(fault, "unknown") ? "thing" : "another")) {
    said("open", MAINSTAY_INTERNAL);
    return;
  }
  act(session);
  said("close", mainstay_objects_close(objects));
}
