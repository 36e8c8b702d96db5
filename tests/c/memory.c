/* A job that writes its memory in all ways that a program can use, saves it, and keeps a sum of it. The restored memory
 * must have the saved sum.
 *
 *     memory SPACE STEPS SEED
 *
 * Between two checkpoints, at random: stores, system calls and messages that write into the memory, a neighbour thread
 * in the same page, pages given back, memory that moves, pointers that are swapped, children, a handler of SIGSEGV of
 * its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mainstay_mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

enum { HEAP, RECEIVED, MAPPED, MOVING, ONE, OTHER, LEFT, RIGHT, REGIONS };

static struct region {
  const char *name;
  unsigned char *data;
  size_t bytes;
} regions[REGIONS] = {
    {"heap", NULL, 2000003},  {"received", NULL, 700001}, {"mapped", NULL, 256 * PAGE}, {"moving", NULL, 100 * PAGE},
    {"one", NULL, 40 * PAGE}, {"other", NULL, 40 * PAGE}, {"left", NULL, 3000},         {"right", NULL, 3000},
};

static mainstay_session *session;
static uint64_t sum, step, state;
static int rank, ranks;

static void wrong(const char *what, const char *why) {
  printf("WRONG rank %d, step %lu: %s: %s\n", rank, (unsigned long)step, what, why);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
  exit(3); /* MPICH returns from that where another rank is gone */
}

static void must(mainstay_status status, const char *what) {
  if (status != MAINSTAY_OK) {
    char why[512];
    snprintf(why, sizeof why, "%s %s", mainstay_status_name(status), mainstay_error_message());
    wrong(what, why);
  }
}

static size_t below(size_t limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(state >> 33) % limit;
}

/* Another one for each byte, region and step. */
static uint64_t sum_of_all(void) {
  uint64_t all = step;
  for (int r = 0; r < REGIONS; r++)
    for (size_t i = 0; i < regions[r].bytes; i++) all = (all ^ regions[r].data[i]) * 0x100000001b3u;
  return all;
}

static unsigned char *place(int r, size_t bytes) { return regions[r].data + below(regions[r].bytes - bytes); }

static void store(void) {
  for (size_t count = 1 + below(60); count > 0; count--) {
    int r = (int)below(REGIONS);
    memset(place(r, 1 + below(200)), (int)below(256), 1);
    regions[r].data[below(regions[r].bytes)]++;
  }
}

static void call_the_system(void) {
  int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  size_t bytes = 1 + below(20000);
  if (file < 0 || read(file, place(HEAP, bytes), bytes) != (ssize_t)bytes) wrong("read", "/dev/urandom");
  close(file);
}

/* In step on all ranks. */
static void receive(void) {
  static unsigned char sent[30000];
  memset(sent, (int)step, sizeof sent);
  MPI_Sendrecv(sent, sizeof sent, MPI_BYTE, (rank + 1) % ranks, 0, place(RECEIVED, sizeof sent), sizeof sent, MPI_BYTE,
               (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void give_back(void) {
  size_t from = below(200), pages = 1 + below(50);
  madvise(regions[MAPPED].data + from * PAGE, pages * PAGE, MADV_DONTNEED);
  if (below(2)) regions[MAPPED].data[from * PAGE] = 1;
}

static void move(void) {
  struct region *r = &regions[MOVING];
  unsigned char *to = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (below(2)) {
    to = mremap(r->data, r->bytes, r->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  } else {
    memcpy(to, r->data, r->bytes);
    munmap(r->data, r->bytes);
  }
  if (to == MAP_FAILED) wrong("mremap", "failed");
  must(mainstay_move(session, r->name, to, 0, NULL), "move");
  r->data = to;
}

static void swap(void) {
  unsigned char *one = regions[ONE].data;
  regions[ONE].data = regions[OTHER].data;
  regions[OTHER].data = one;
  must(mainstay_move(session, "one", regions[ONE].data, 0, NULL), "move");
  must(mainstay_move(session, "other", regions[OTHER].data, 0, NULL), "move");
}

static void have_a_child(void) {
  pid_t child = fork();
  if (child == 0) {
    memset(regions[HEAP].data, 1, 100000); /* its own copy */
    _exit(0);
  }
  if (child < 0 || waitpid(child, NULL, 0) != child) wrong("fork", "no child");
}

static unsigned char *guarded;
static volatile sig_atomic_t handled;

static void handle(int number, siginfo_t *info, void *context) {
  (void)context;
  if ((unsigned char *)info->si_addr < guarded || (unsigned char *)info->si_addr >= guarded + PAGE) {
    signal(number, SIG_DFL);
    return;
  }
  handled++;
  mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
}

static void fault(void) {
  sig_atomic_t before = handled;
  mprotect(guarded, PAGE, PROT_NONE);
  guarded[below(PAGE)] = 1;
  if (handled != before + 1) wrong("SIGSEGV", "the program's own handler was not called");
}

static atomic_bool ends;

/* Between LEFT and RIGHT, in their pages, all the time. */
static void *write_beside(void *at) {
  volatile unsigned char *beside = at;
  while (!atomic_load(&ends)) {
    for (size_t i = 0; i < 1000; i++) beside[i]++;
    usleep(50);
  }
  return NULL;
}

static void allocate(void) {
  for (int r = HEAP; r <= RECEIVED; r++) regions[r].data = calloc(1, regions[r].bytes);
  for (int r = MAPPED; r <= OTHER; r++)
    regions[r].data = mmap(NULL, regions[r].bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  regions[LEFT].data = calloc(1, 7000);
  regions[RIGHT].data = regions[LEFT].data + 4000;
  guarded = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int r = 0; r < REGIONS; r++)
    must(mainstay_protect(session, regions[r].name, regions[r].data, regions[r].bytes), "protect");
  must(mainstay_protect(session, "sum", &sum, sizeof sum), "protect");
  must(mainstay_protect(session, "step", &step, sizeof step), "protect");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4) return 2;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  uint64_t steps = strtoull(argv[2], NULL, 10);
  must(mainstay_open_mpi(MPI_COMM_WORLD, argv[1], NULL, &session), "open");
  allocate();
  mainstay_restored restored = {0};
  must(mainstay_restore(session, &restored), "restore");
  if (restored.revision && sum != sum_of_all()) wrong("restored", "the memory is not what was saved");
  if (restored.skipped) wrong("restored", mainstay_report(session));
  state = strtoull(argv[3], NULL, 10) * 1000 + (uint64_t)rank + step;
  struct sigaction own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &own, NULL);
  sigaction(SIGBUS, &own, NULL);
  pthread_t beside;
  pthread_create(&beside, NULL, write_beside, regions[LEFT].data + 3000);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("restored %lu step %lu\n", (unsigned long)restored.revision, (unsigned long)step);

  while (step < steps) {
    void (*const ways[])(void) = {store, store, store, call_the_system, give_back, move, swap, have_a_child, fault};
    for (size_t count = 1 + below(3); count > 0; count--) ways[below(sizeof ways / sizeof *ways)]();
    step++;
    if (step % 3 == 0) receive();
    sum = sum_of_all();
    uint64_t revision = 0;
    must(mainstay_checkpoint(session, &revision), "checkpoint");
    store(); /* while it is under way */
    if (step % 4 == 0) {
      must(mainstay_wait(session), "wait");
      if (rank == 0) printf("sure %lu\n", (unsigned long)revision);
    }
  }
  must(mainstay_close(session), "close");
  atomic_store(&ends, true);
  pthread_join(beside, NULL);
  if (rank == 0) printf("end %lu\n", (unsigned long)step);
  MPI_Finalize();
  return 0;
}
