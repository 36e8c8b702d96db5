/* Objects in C, by three callbacks and a few more. A job saves them, and on any ranks a later start goes on with them.
 *
 *     objects SPACE STEPS
 *
 * Before that, every call is made with missing arguments. Also valid C++. */
#include <mainstay_objects_mpi.h>
#include <stdio.h>

#define OBJECTS 20

typedef struct counter {
  uint64_t index, sum;
} counter;

static mainstay_objects *objects;

static int create(void *context, uint64_t index, void **object) {
  counter *made = (counter *)calloc(1, sizeof *made);
  (void)context;
  if (!made) return mainstay_adapter_error(MAINSTAY_IO, "no memory for a counter");
  made->index = index;
  *object = made;
  return MAINSTAY_OK;
}

static void destroy(void *context, void *object) {
  (void)context;
  free(object);
}

static int bytes(void *context, void *object, size_t *bytes) {
  (void)context, (void)object;
  *bytes = sizeof(uint64_t);
  return MAINSTAY_OK;
}

static int pack(void *context, void *object, void *into, size_t room, size_t *written) {
  (void)context;
  if (room >= sizeof(uint64_t)) memcpy(into, &((counter *)object)->sum, sizeof(uint64_t));
  *written = sizeof(uint64_t);
  return MAINSTAY_OK;
}

static int unpack(void *context, void *object, const void *from, size_t there, size_t *taken) {
  (void)context;
  if (there >= sizeof(uint64_t)) memcpy(&((counter *)object)->sum, from, sizeof(uint64_t));
  *taken = sizeof(uint64_t);
  return MAINSTAY_OK;
}

/* Counts, and has the next one count less. */
static int receive(void *context, void *object, uint32_t method, const void *data, size_t size) {
  counter *mine = (counter *)object;
  uint64_t number, less;
  double sum;
  (void)context;
  if (method == 1) {
    sum = (double)mine->sum;
    return mainstay_objects_contribute(objects, 5, MAINSTAY_OP_SUM, &sum, 1);
  }
  if (size != sizeof number) return mainstay_adapter_error(MAINSTAY_INVALID_ARGUMENT, "not so many bytes");
  memcpy(&number, data, sizeof number);
  mine->sum += number;
  less = number / 2;
  return less ? mainstay_objects_send(objects, 0, (mine->index + 1) % OBJECTS, 0, &less, sizeof less) : MAINSTAY_OK;
}

static mainstay_kind kind(void) {
  mainstay_kind told;
  memset(&told, 0, sizeof told);
  told.size = sizeof told;
  told.name = "counter";
  told.create = create;
  told.destroy = destroy;
  told.bytes = bytes;
  told.pack = pack;
  told.unpack = unpack;
  told.receive = receive;
  return told;
}

static void must(mainstay_status status, const char *call) {
  if (status == MAINSTAY_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, mainstay_status_name(status), mainstay_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void refused(mainstay_status status, const char *call) {
  if (status == MAINSTAY_INVALID_ARGUMENT && mainstay_error_message()[0]) return;
  fprintf(stderr, "%s was not refused: %s\n", call, mainstay_status_name(status));
  MPI_Abort(MPI_COMM_WORLD, 2);
}

#define MUST(call) must(call, #call)
#define REFUSED(call) refused(call, #call)

/* Calls with nothing where something is due, and with tables of another size: none does anything. */
static void refuse_all(mainstay_session *session) {
  mainstay_wire wire;
  mainstay_kind told = kind();
  mainstay_objects_options options = MAINSTAY_OBJECTS_OPTIONS_INIT;
  mainstay_objects *other = NULL;
  double values = 0;
  uint64_t load = 0;
  size_t count = 0;
  memset(&wire, 0, sizeof wire);
  REFUSED(mainstay_objects_open(session, NULL, NULL, &other));
  REFUSED(mainstay_objects_open(session, &wire, NULL, &other));
  wire.size = sizeof wire;
  REFUSED(mainstay_objects_open(session, &wire, NULL, &other));
  REFUSED(mainstay_objects_open_mpi(NULL, NULL, &other));
  REFUSED(mainstay_objects_open_mpi(session, NULL, NULL));
  options.strategy = "luck";
  REFUSED(mainstay_objects_open_mpi(session, &options, &other));
  options.size = 3;
  REFUSED(mainstay_objects_open_mpi(session, &options, &other));
  MUST(mainstay_objects_close(NULL));
  REFUSED(mainstay_objects_register(NULL, &told, NULL));
  REFUSED(mainstay_objects_register(objects, NULL, NULL));
  told.size--;
  REFUSED(mainstay_objects_register(objects, &told, NULL));
  told = kind(), told.pack = NULL;
  REFUSED(mainstay_objects_register(objects, &told, NULL));
  told = kind(), told.name = "";
  REFUSED(mainstay_objects_register(objects, &told, NULL));
  told = kind(), told.dimensions = 4;
  REFUSED(mainstay_objects_register(objects, &told, NULL));
  REFUSED(mainstay_objects_create(NULL, 0, 0, NULL));
  REFUSED(mainstay_objects_create(objects, 7, 0, NULL));
  REFUSED(mainstay_objects_get(objects, 0, 0, NULL));
  REFUSED(mainstay_objects_here(objects, 0, NULL, 1, NULL));
  REFUSED(mainstay_objects_rank(objects, 0, 3, NULL));
  REFUSED(mainstay_objects_measured(NULL, 0, 0, &load, NULL, 0, &count));
  REFUSED(mainstay_objects_measured(objects, 0, 0, NULL, NULL, 0, &count));
  REFUSED(mainstay_objects_measured(objects, 0, 0, &load, NULL, 1, &count));
  REFUSED(mainstay_objects_measured(objects, 0, 0, &load, NULL, 0, NULL));
  REFUSED(mainstay_objects_measured(objects, 0, 99, &load, NULL, 0, &count));
  REFUSED(mainstay_objects_send(NULL, 0, 0, 0, NULL, 0));
  REFUSED(mainstay_objects_send(objects, 0, 0, 0, NULL, 1));
  REFUSED(mainstay_objects_broadcast(objects, 0, 0, NULL, 1));
  REFUSED(mainstay_objects_contribute(objects, 0, 9, &values, 1));
  REFUSED(mainstay_objects_contribute(objects, 0, MAINSTAY_OP_MIN, NULL, 1));
  REFUSED(mainstay_objects_result(objects, 0, NULL, 1));
  REFUSED(mainstay_objects_result(objects, 0, &values, 1));
  REFUSED(mainstay_objects_work(NULL, 1));
  REFUSED(mainstay_objects_step(NULL));
  REFUSED(mainstay_objects_steps(objects, NULL));
  REFUSED(mainstay_objects_checkpoint(NULL, NULL));
  REFUSED(mainstay_objects_restore(NULL, NULL));
  REFUSED(mainstay_objects_balance(objects, "luck", NULL));
  REFUSED(mainstay_objects_evacuate(objects, NULL, 1, NULL));
}

int main(int argc, char **argv) {
  int rank, ranks, steps;
  uint64_t step = 0, index;
  mainstay_session *session;
  mainstay_objects_came came;
  mainstay_kind told = kind();
  double sum = 0;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3) return 2;
  steps = atoi(argv[2]);
  MUST(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session));
  MUST(mainstay_objects_open_mpi(session, NULL, &objects));
  refuse_all(session);
  MUST(mainstay_objects_register(objects, &told, NULL));
  REFUSED(mainstay_objects_register(objects, &told, NULL));
  MUST(mainstay_objects_restore(objects, &came));
  for (index = (uint64_t)rank; came.revision == 0 && index < OBJECTS; index += (uint64_t)ranks)
    MUST(mainstay_objects_create(objects, 0, index, NULL));
  for (MUST(mainstay_objects_steps(objects, &step)); step < (uint64_t)steps;
       MUST(mainstay_objects_steps(objects, &step))) {
    if (rank == 0) MUST(mainstay_objects_send(objects, 0, step % OBJECTS, 0, &step, sizeof step));
    MUST(mainstay_objects_step(objects));
    if (step % 10 == 9) MUST(mainstay_objects_checkpoint(objects, NULL));
  }
  if (rank == ranks - 1) MUST(mainstay_objects_broadcast(objects, 0, 1, NULL, 0));
  MUST(mainstay_objects_step(objects));
  MUST(mainstay_objects_result(objects, 5, &sum, 1));
  if (rank == 0) printf("from revision %d, %d objects, sum %.17g\n", (int)came.revision, (int)came.objects, sum);
  MUST(mainstay_objects_close(objects));
  MUST(mainstay_close(session));
  MPI_Finalize();
  return 0;
}
