/* Outlives its mpiexec: outlives FILE. The first thread of a child ends. Another thread waits until mpiexec has ended,
 * and a second later makes the file: only a test that waits for the child finds it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void *make_later(void *file) {
  const pid_t mpiexec = getsid(0);
  while (!kill(mpiexec, 0)) usleep(1000);
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
