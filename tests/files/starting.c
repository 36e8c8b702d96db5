/* Starts a shell by the function that its first argument names, without any variable. The shell runs the second one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL "/bin/sh"

static char *empty[] = {NULL};

/* In the child, or in this process. */
static void start(const char *way, char *const words[]) {
  if (!strcmp(way, "execve") || !strcmp(way, "vfork")) execve(SHELL, words, empty);
  if (!strcmp(way, "null")) execve(SHELL, words, NULL);
  if (!strcmp(way, "execv")) execv(SHELL, words);
  if (!strcmp(way, "execvp")) execvp("sh", words);
  if (!strcmp(way, "execvpe")) execvpe("sh", words, empty);
  if (!strcmp(way, "execl")) execl(SHELL, words[0], words[1], words[2], (char *)NULL);
  if (!strcmp(way, "execlp")) execlp("sh", words[0], words[1], words[2], (char *)NULL);
  if (!strcmp(way, "execle")) execle(SHELL, words[0], words[1], words[2], (char *)NULL, empty);
  if (!strcmp(way, "fexecve")) fexecve(open(SHELL, O_RDONLY | O_CLOEXEC), words, empty);
  if (!strcmp(way, "execveat")) execveat(AT_FDCWD, SHELL, words, empty, 0);
}

static int end_of(pid_t child) {
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int by_popen(const char *command) {
  char line[256];
  FILE *stream = popen(command, "r");
  while (stream && fgets(line, sizeof line, stream)) fputs(line, stdout);
  return stream ? pclose(stream) : 1;
}

int main(int count, char **words) {
  if (count < 3) return 2;
  char *const shell[] = {(char *)"sh", (char *)"-c", words[2], NULL};
  const char *way = words[1];
  pid_t child = 0;
  clearenv();
  if (!strcmp(way, "posix_spawn")) return posix_spawn(&child, SHELL, NULL, NULL, shell, empty) ? 1 : end_of(child);
  if (!strcmp(way, "posix_spawnp")) return posix_spawnp(&child, "sh", NULL, NULL, shell, empty) ? 1 : end_of(child);
  if (!strcmp(way, "system")) return system(words[2]);
  if (!strcmp(way, "popen")) return by_popen(words[2]);
  if (!strcmp(way, "vfork")) {
    child = vfork();
    if (child) return end_of(child);
  }
  start(way, shell);
  _exit(127);
}
