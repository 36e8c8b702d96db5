/* Programs that this process starts. Licence: MIT OR Apache-2.0.
 *
 * A program may be started without our variables: by `env -i`, by a script that clears LD_PRELOAD, by a batch system.
 * Then its files would not be protected, without a line. So each function that starts a program puts back the missing
 * variables. A variable that is there stays unchanged. With an empty MAINSTAY_FILES_MATCH a program gets nothing back,
 * and is not protected.
 *
 * Most of these functions run in a child of vfork, which has the memory of its parent. So lists are on the stack. They
 * are short: a long list of variables has ours already, and is not copied. */
#include "preload.h"

#define PRELOAD "LD_PRELOAD="
enum { PRELOAD_LENGTH = sizeof PRELOAD - 1 };

static const char *const none[] = {NULL};

/* The value of LD_PRELOAD in VARIABLES, or an empty text. */
static const char *preloads(char *const variables[]) {
  for (; *variables; variables++)
    if (!strncmp(*variables, PRELOAD, PRELOAD_LENGTH)) return *variables + PRELOAD_LENGTH;
  return "";
}

static bool has_library(char *const variables[]) {
  return !settings_library || strstr(preloads(variables), "/libmainstay_files.so");
}

/* Whether VARIABLES have one with the name of KEPT and any value. */
static bool has(char *const variables[], const char *kept) {
  size_t length = (size_t)(strchrnul(kept, '=') - kept) + 1;
  for (; *variables; variables++)
    if (!strncmp(*variables, kept, length)) return true;
  return false;
}

static bool is_left_out(char *const variables[]) {
  for (; *variables; variables++)
    if (!strcmp(*variables, MATCH_VARIABLE "=")) return true;
  return false;
}

/* The bytes of a complete list. 0: VARIABLES are complete. */
static size_t size_of_complete(char *const variables[]) {
  if (!is_on() || is_left_out(variables)) return 0;
  size_t count = 0;
  bool complete = has_library(variables);
  for (const char **kept = settings_kept; *kept && complete; kept++) complete = has(variables, *kept);
  if (complete) return 0;
  while (variables[count]) count++;
  size_t library = settings_library ? strlen(settings_library) : 0;
  return (count + KEPT_MAX + 2) * sizeof *variables + PRELOAD_LENGTH + library + 1 + strlen(preloads(variables)) + 1;
}

/* Writes "LD_PRELOAD=OURS:OTHERS". Returns its end. */
static char *write_preload(char *to, char *const variables[]) {
  const char *others = preloads(variables);
  to = stpcpy(stpcpy(to, PRELOAD), settings_library);
  return *others ? stpcpy(stpcpy(to, ":"), others) : to;
}

static char *const *complete(void *room, size_t size, char *const variables[]) {
  const char **list = room;
  size_t count = 0;
  bool library = has_library(variables);
  for (char *const *at = variables; *at; at++)
    if (library || strncmp(*at, PRELOAD, PRELOAD_LENGTH)) list[count++] = *at;
  for (const char **kept = settings_kept; *kept; kept++)
    if (!has(variables, *kept)) list[count++] = *kept;
  if (!library) {
    char *text =
        (char *)room + size - (PRELOAD_LENGTH + strlen(settings_library) + 1 + strlen(preloads(variables)) + 1);
    write_preload(text, variables);
    list[count++] = text;
  }
  list[count] = NULL;
  return (char *const *)list;
}

/* The list lives until the calling function returns. For the kernel NULL is an empty list. */
#define COMPLETE(variables)                                                                                            \
  ({                                                                                                                   \
    char *const *given_ = (variables) ? (variables) : (char *const *)none;                                             \
    size_t size_ = size_of_complete(given_);                                                                           \
    size_ ? complete(alloca(size_), size_, given_) : given_;                                                           \
  })

/* The arguments of a function such as execl, FIRST and those after it up to NULL, as a list WORDS. REST is behind it.
 */
#define COLLECT(words, first, rest)                                                                                    \
  va_list rest;                                                                                                        \
  size_t count_ = 0;                                                                                                   \
  va_start(rest, first);                                                                                               \
  for (const char *word_ = first; word_; word_ = va_arg(rest, const char *)) count_++;                                 \
  va_end(rest);                                                                                                        \
  const char **words = alloca((count_ + 1) * sizeof *words);                                                           \
  va_start(rest, first);                                                                                               \
  words[0] = first;                                                                                                    \
  for (size_t i_ = 1; i_ <= count_; i_++) words[i_] = va_arg(rest, const char *)

/* The new program must be able to write through inherited descriptors, so none may be a base. */
static void before(int dirfd, const char *path) {
  base_change_all(true);
  if (is_on()) target_look(dirfd, path);
}

static void before_in_path(const char *name) {
  base_change_all(true);
  if (is_on()) target_look_in_path(name);
}

EXPORT int execve(const char *path, char *const words[], char *const variables[]) {
  before(AT_FDCWD, path);
  return NEXT(execve)(path, words, COMPLETE(variables));
}

EXPORT int execv(const char *path, char *const words[]) {
  before(AT_FDCWD, path);
  return NEXT(execve)(path, words, COMPLETE(environ));
}

EXPORT int execvp(const char *name, char *const words[]) {
  before_in_path(name);
  return NEXT(execvpe)(name, words, COMPLETE(environ));
}

EXPORT int execvpe(const char *name, char *const words[], char *const variables[]) {
  before_in_path(name);
  return NEXT(execvpe)(name, words, COMPLETE(variables));
}

EXPORT int execl(const char *path, const char *first, ...) {
  COLLECT(words, first, rest);
  va_end(rest);
  return execv(path, (char *const *)words);
}

EXPORT int execlp(const char *name, const char *first, ...) {
  COLLECT(words, first, rest);
  va_end(rest);
  return execvp(name, (char *const *)words);
}

EXPORT int execle(const char *path, const char *first, ...) {
  COLLECT(words, first, rest);
  char *const *variables = va_arg(rest, char *const *);
  va_end(rest);
  return execve(path, (char *const *)words, variables);
}

EXPORT int fexecve(int fd, char *const words[], char *const variables[]) {
  before(fd, "");
  return NEXT(fexecve)(fd, words, COMPLETE(variables));
}

EXPORT int execveat(int dirfd, const char *path, char *const words[], char *const variables[], int flags) {
  before(dirfd, path);
  return NEXT(execveat)(dirfd, path, words, COMPLETE(variables), flags);
}

/* The C library opens the file in the child, past us. */
EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags,
                                            mode_t mode) {
  if (((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) && may_match(path))
    say(path, " is not protected: posix_spawn opens it. Open it in the program, and give the child its descriptor", "");
  return NEXT(posix_spawn_file_actions_addopen)(actions, fd, path, flags, mode);
}

EXPORT int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const words[], char *const variables[]) {
  before(AT_FDCWD, path);
  return NEXT(posix_spawn)(child, path, actions, attributes, words, COMPLETE(variables));
}

EXPORT int posix_spawnp(pid_t *child, const char *name, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const words[], char *const variables[]) {
  before_in_path(name);
  return NEXT(posix_spawnp)(child, name, actions, attributes, words, COMPLETE(variables));
}

/* Writes TEXT as one word of the shell. Returns its end. Takes at most four bytes for each byte of TEXT, and two. */
static char *quote(char *to, const char *text) {
  *to++ = '\'';
  for (; *text; text++) {
    if (*text == '\'') to = stpcpy(to, "'\\'");
    *to++ = *text;
  }
  *to++ = '\'';
  *to = 0;
  return to;
}

/* Writes "NAME=VALUE" as a word of the shell. */
static char *assign(char *to, const char *variable) {
  size_t name = (size_t)(strchrnul(variable, '=') - variable) + 1;
  *to++ = ' ';
  memcpy(to, variable, name);
  return quote(to + name, variable + name);
}

/* A command of the shell that sets the missing VARIABLES, and then runs COMMAND in a shell. SIZE is that of COMPLETE.
 */
static char *with_variables(const char *command, char *const variables[], size_t size, size_t *mapped) {
  char preload[size];
  *mapped = 4 * size + 4 * strlen(command) + 64;
  for (const char **kept = settings_kept; *kept; kept++) *mapped += 4 * strlen(*kept) + 4;
  long memory = syscall(SYS_mmap, NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == -1) return NULL;
  char *to = stpcpy((char *)memory, "export");
  for (const char **kept = settings_kept; *kept; kept++)
    if (!has(variables, *kept)) to = assign(to, *kept);
  if (!has_library(variables)) {
    write_preload(preload, variables);
    to = assign(to, preload);
  }
  stpcpy(quote(stpcpy(to, "; exec /bin/sh -c "), command), " sh");
  return (char *)memory;
}

/* For these two the C library starts the shell, with the variables of this process. */
static SLOW char *shell_command(const char *command, size_t *mapped) {
  base_change_all(true);
  char *const *variables = environ ? environ : (char *const *)none;
  size_t size = command ? size_of_complete(variables) : 0;
  return size ? with_variables(command, variables, size, mapped) : NULL;
}

static void unmap(char *text, size_t mapped) {
  int saved = errno;
  if (text) syscall(SYS_munmap, text, mapped);
  errno = saved;
}

EXPORT int system(const char *command) {
  size_t mapped = 0;
  char *text = shell_command(command, &mapped);
  int status = NEXT(system)(text ? text : command);
  unmap(text, mapped);
  return status;
}

EXPORT FILE *popen(const char *command, const char *type) {
  size_t mapped = 0;
  char *text = shell_command(command, &mapped);
  FILE *stream = NEXT(popen)(text ? text : command, type);
  unmap(text, mapped);
  return stream;
}
