/* refused WHAT [FILE]: does something that ranks in slots cannot. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

static void *nothing(void *none) { return none; }

static int with_openmp(void) {
  int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
  threads++;
  return threads;
}

/* Maps more than a slot has. */
static int fill_slot(void) {
  const size_t bytes = (size_t)1 << 34;
  for (int i = 0; i < 8; i++)
    if (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
      return 0;
  return 1;
}

/* Makes every other page a mapping of its own. */
static int make_mappings(void) {
  const size_t page = 4096, count = (size_t)1 << 18;
  char *pages = mmap(NULL, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  size_t i = 0;
  while (i < count && mprotect(pages + i * page, page, PROT_READ) == 0) i += 2;
  munmap(pages, count * page);
  return i >= count;
}

static int of_system(const char *what, const char *file) {
  pthread_t thread;
  if (!strcmp(what, "thread")) return pthread_create(&thread, NULL, nothing, NULL) == 0;
  if (!strcmp(what, "openmp")) return with_openmp();
  if (!strcmp(what, "system")) return system("true") == 0;
  if (!strcmp(what, "fork")) return fork() >= 0;
  if (!strcmp(what, "popen")) return popen("true", "r") != NULL;
  if (!strcmp(what, "exec")) return execl("/bin/true", "true", NULL) == 0;
  if (!strcmp(what, "segment")) return shmget(IPC_PRIVATE, 4096, 0600) >= 0;
  if (!strcmp(what, "slot")) return fill_slot();
  if (!strcmp(what, "mappings")) return make_mappings();
  if (!strcmp(what, "timer")) return alarm(1) == 0;
  if (!strcmp(what, "shared")) {
    int open_file = open(file, O_RDWR);
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open_file, 0) != MAP_FAILED;
  }
  return 0;
}

static int of_mpi(const char *what, const char *file) {
  MPI_Win window;
  MPI_Comm comm;
  MPI_Session session;
  MPI_File open_file;
  MPI_Request request;
  int number = 0;
  if (!strcmp(what, "MPI_Win_create"))
    return MPI_Win_create(&number, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS;
  if (!strcmp(what, "MPI_Win_allocate"))
    return MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &number, &window) == MPI_SUCCESS;
  if (!strcmp(what, "MPI_Comm_spawn"))
    return MPI_Comm_spawn("true", NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, NULL) == MPI_SUCCESS;
  if (!strcmp(what, "MPI_Session_init"))
    return MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS;
  if (!strcmp(what, "MPI_File_read_shared")) {
    MPI_File_open(MPI_COMM_SELF, file, MPI_MODE_RDONLY, MPI_INFO_NULL, &open_file);
    return MPI_File_read_shared(open_file, &number, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS;
  }
  if (!strcmp(what, "MPI_Cancel")) {
    MPI_Isend(&number, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
    return MPI_Cancel(&request) == MPI_SUCCESS;
  }
  return 0;
}

/* Reads a mapped file until it is told to go on. */
static void wait_for(const char *file, const char *mapped) {
  int is_there = 0, open_file = open(mapped, O_RDONLY);
  const char *text = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open_file, 0);
  close(open_file);
  while (!is_there) {
    is_there = access(file, F_OK) == 0 && text[0] == 'd';
    if (!is_there) usleep(1000);
    MPI_Allreduce(MPI_IN_PLACE, &is_there, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  }
}

int main(int count, char **arguments) {
  int level, rank;
  MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (getenv("RETURNS")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (count > 3) wait_for(arguments[2], arguments[3]);
  if (count < 4 && rank == 0) {
    int works = of_system(arguments[1], arguments[2]) + of_mpi(arguments[1], arguments[2]);
    if (getenv("RETURNS")) works += of_mpi(arguments[1], arguments[2]);
    printf("works: %d\n", works), fflush(stdout);
  }
  if (rank == 0) printf("level %d, build %s\n", level == MPI_THREAD_FUNNELED, BUILD), fflush(stdout);
  MPI_Finalize();
  return 0;
}
