/* Reads the environment and the name of the executable once. Licence: MIT OR Apache-2.0.
 *
 * The program may change its environment later: the settings stay. */
#include "preload.h"

#include <dlfcn.h>
#include <sched.h>

struct settings settings;
int settings_state;

static char match_text[MESSAGE_MAX], exclude_text[MESSAGE_MAX];

const char *settings_kept[KEPT_MAX + 1];
const char *settings_library;

void say(const char *text, const char *more, const char *end) {
  if (kind_of(2)) return;
  struct iovec line[] = {{"mainstay: ", 10},
                         {(void *)text, strlen(text)},
                         {(void *)more, strlen(more)},
                         {(void *)end, strlen(end)},
                         {"\n", 1}};
  int saved = errno;
  (void)!syscall(SYS_writev, 2, line, sizeof line / sizeof *line);
  errno = saved;
}

static bool copy(char *to, size_t size, const char *from) {
  size_t length = from ? strlen(from) : 0;
  if (length >= size) return false;
  if (length) memcpy(to, from, length);
  to[length] = 0;
  return true;
}

/* Follows symbolic links of a folder. Leaves TO as PATH if the folder is missing. */
static void real_folder(char *to, const char *path) {
  if (!copy(to, PATH_MAX, path)) *to = 0;
  char link[40] = "/proc/self/fd/";
  char real[PATH_MAX];
  int fd = raw_open(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  text_number(link + strlen(link), (uint64_t)fd);
  if (raw_readlink(AT_FDCWD, link, real, sizeof real) > 0 && *real == '/') copy(to, PATH_MAX, real);
  raw_close(fd);
}

/* Splits TEXT in place, a pattern a line. */
static void parse(struct patterns *patterns, char *text) {
  for (char *line = text; *line;) {
    char *end = strchrnul(line, '\n');
    bool last = !*end;
    *end = 0;
    if (*line && patterns->count == PATTERNS_MAX) say("more than 128 patterns for files: ", line, " is not used");
    if (*line && patterns->count < PATTERNS_MAX) {
      struct pattern *pattern = &patterns->at[patterns->count++];
      pattern->text = pattern->tail = line;
      for (const char *at = line; *at; at++)
        if (strchr("*?[]\\/", *at)) pattern->tail = at + 1;
      /* An escaped character is no part of the tail. */
      if (pattern->tail > line && pattern->tail[-1] == '\\' && *pattern->tail) pattern->tail++;
      pattern->tail_length = strlen(pattern->tail);
      pattern->slash = strchr(line, '/') != NULL;
    }
    line = last ? end : end + 1;
  }
}

/* Launchers write no restart files. */
static bool is_launcher(void) {
  static const char *const names[] = {"prterun", "prted",   "prte",       "prun", "mpiexec*", "mpirun",  "orterun",
                                      "orted",   "hydra_*", "slurmstepd", "srun", "ssh",      "mainstay"};
  char path[PATH_MAX];
  if (raw_readlink(AT_FDCWD, "/proc/self/exe", path, sizeof path) < 0) return false;
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (fits(names[i], name)) return true;
  return false;
}

/* Keeps the variables, for programs that are started without them. All are shorter than their fields in `settings`. */
static void keep_all(void) {
  static const char *const names[KEPT_MAX] = {STAGE_VARIABLE, MATCH_VARIABLE, EXCLUDE_VARIABLE, OPTIONS_VARIABLE,
                                              COMMAND_VARIABLE};
  static char text[KEPT_MAX * 32 + 2 * PATH_MAX + 2 * MESSAGE_MAX + MESSAGE_MAX / 4];
  char *to = text;
  Dl_info found;
  int count = 0;
  for (int i = 0; i < KEPT_MAX; i++) {
    const char *value = getenv(names[i]);
    if (!value) continue;
    settings_kept[count++] = to;
    to = stpcpy(stpcpy(stpcpy(to, names[i]), "="), value) + 1;
  }
  settings_kept[count] = NULL;
  settings_library = dladdr(&settings, &found) ? found.dli_fname : NULL;
}

static SLOW bool fill(bool is_host) {
  const char *stage = getenv(STAGE_VARIABLE), *match = getenv(MATCH_VARIABLE), *temporary = getenv("TMPDIR");
  if (!stage || *stage != '/' || !match || !*match || (!is_host && is_launcher())) return false;
  if (!copy(settings.stage, sizeof settings.stage, stage) || !copy(match_text, sizeof match_text, match) ||
      !copy(exclude_text, sizeof exclude_text, getenv(EXCLUDE_VARIABLE)) ||
      !copy(settings.options, sizeof settings.options, getenv(OPTIONS_VARIABLE)) ||
      !copy(settings.command, sizeof settings.command, getenv(COMMAND_VARIABLE))) {
    say("the settings for files are too long: ", "no file is protected; give fewer patterns", "");
    return false;
  }
  keep_all();
  const char *nodes = strstr(settings.options, "\nnodes=");
  settings.several_nodes = nodes && atoi(nodes + sizeof "\nnodes=" - 1) > 1;
  real_folder(settings.stage_real, settings.stage);
  if (temporary && *temporary == '/') {
    char here[PATH_MAX];
    real_folder(settings.temporary, temporary);
    if (syscall(SYS_getcwd, here, sizeof here) > 0 && is_below(here, settings.temporary)) *settings.temporary = 0;
  }
  parse(&settings.match, match_text);
  parse(&settings.exclude, exclude_text);
  set_owner();
  return true;
}

SLOW bool settings_read(void) {
  int unknown = STATE_UNKNOWN, saved = errno;
  if (!environ) return false;
  if (__atomic_compare_exchange_n(&settings_state, &unknown, STATE_READING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    __atomic_store_n(&settings_state, fill(false) ? STATE_ON : STATE_OFF, __ATOMIC_RELEASE);
  int state;
  while ((state = __atomic_load_n(&settings_state, __ATOMIC_ACQUIRE)) == STATE_READING) sched_yield();
  errno = saved;
  return state == STATE_ON || (state == STATE_HOST && serves_rank);
}

/* Before the process has another thread. From now on only calls of ranks are caught, also in `mainstay` itself. */
bool settings_of_host(void) {
  bool is_set = __atomic_load_n(&settings_state, __ATOMIC_ACQUIRE) >= STATE_ON || fill(true);
  if (is_set) __atomic_store_n(&settings_state, STATE_HOST, __ATOMIC_RELEASE);
  return is_set;
}
