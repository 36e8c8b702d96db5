/* A storm of signals, as a profiler or an impatient scheduler makes it. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "board.h"

enum { EVERY_US = 700 };

static void came(int number) {
  (void)number;
  board->program_hit |= 1u << board->program;
  board->io_hit |= 1u << board->io;
}

void signals_hold(int held) {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(held ? SIG_BLOCK : SIG_UNBLOCK, &alarm, NULL);
}

void signals_begin(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = came; /* and no SA_RESTART: system calls end early, with EINTR */
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval time = {{0, EVERY_US}, {0, EVERY_US}};
  setitimer(ITIMER_REAL, &time, NULL);
}
