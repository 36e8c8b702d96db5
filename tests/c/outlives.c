/* Outlives its mpiexec: outlives FILE. A child makes the file a second later, in a thread; its first thread has ended
 * by then. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *make_later(void *file) {
  sleep(1);
  close(open(file, O_CREAT | O_WRONLY, 0600));
  exit(0);
}

int main(int argc, char **argv) {
  pthread_t thread;
  int nowhere = open("/dev/null", O_RDWR), stream;
  if (argc != 2) return 2;
  if (fork()) return 0;
  for (stream = 0; stream < 3; stream++) dup2(nowhere, stream);
  if (pthread_create(&thread, NULL, make_later, argv[1])) return 1;
  pthread_exit(NULL);
}
