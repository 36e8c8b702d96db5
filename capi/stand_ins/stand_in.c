/* Parts that the stand-ins for other checkpoint libraries share. Licence: MIT OR Apache-2.0. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Bytes that a copy moves at a time. */
enum { PIECE = 4 << 20 };
/* Type of tmpfs in statfs; linux/magic.h is not everywhere. */
enum { TMPFS = 0x01021994 };

void *stand_in_memory(void *old, size_t bytes) {
  void *memory = realloc(old, bytes ? bytes : 1);
  if (!memory) {
    stand_in_say("no memory for %zu bytes; the program ends", bytes);
    abort();
  }
  return memory;
}

char *stand_in_text(const char *format, ...) {
  va_list words;
  char *text = NULL;
  va_start(words, format);
  if (vasprintf(&text, format, words) < 0) text = NULL;
  va_end(words);
  return text ? text : stand_in_memory(NULL, 0);
}

void stand_in_say(const char *format, ...) {
  va_list words;
  char line[2048];
  va_start(words, format);
  vsnprintf(line, sizeof line, format, words);
  va_end(words);
  /* One call, so that lines of several ranks stay apart. */
  fprintf(stderr, "mainstay: %s\n", line);
}

/* Settings */

void stand_in_set(stand_in_settings *settings, const char *name, const char *value) {
  size_t i;
  for (i = 0; i < settings->count && strcasecmp(settings->all[i].name, name); i++);
  if (i < settings->count) {
    free(settings->all[i].value);
  } else {
    settings->all = stand_in_memory(settings->all, (i + 1) * sizeof *settings->all);
    settings->all[i].name = stand_in_text("%s", name);
    settings->count++;
  }
  settings->all[i].value = value ? stand_in_text("%s", value) : NULL;
}

const char *stand_in_value(const stand_in_settings *settings, const char *name) {
  size_t i;
  for (i = 0; i < settings->count; i++)
    if (!strcasecmp(settings->all[i].name, name)) return settings->all[i].value;
  return NULL;
}

void stand_in_forget_settings(stand_in_settings *settings) {
  size_t i;
  for (i = 0; i < settings->count; i++) {
    free(settings->all[i].name);
    free(settings->all[i].value);
  }
  free(settings->all);
  memset(settings, 0, sizeof *settings);
}

/* Cuts white space off both ends, in place. */
static char *trimmed(char *text) {
  char *end;
  while (isspace((unsigned char)*text)) text++;
  end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1])) *--end = 0;
  return text;
}

/* Cuts off a comment: a # or ; that begins the line, or that follows white space. */
static void cut_comment(char *line) {
  size_t i;
  for (i = 0; line[i]; i++)
    if ((line[i] == '#' || line[i] == ';') && (i == 0 || isspace((unsigned char)line[i - 1]))) line[i] = 0;
}

long stand_in_read_settings(stand_in_settings *settings, const char *path) {
  FILE *file = fopen(path, "r");
  char *line = NULL, *section = stand_in_text("%s", "");
  size_t room = 0;
  long number = 0, wrong = 0;
  if (!file) {
    free(section);
    return -1;
  }
  while (getline(&line, &room, file) >= 0) {
    char *name = line, *value;
    number++;
    cut_comment(name);
    name = trimmed(name);
    if (!*name) continue;
    if (*name == '[') {
      name[strcspn(name, "]")] = 0;
      free(section);
      section = stand_in_text("%s:", trimmed(name + 1));
      continue;
    }
    value = strchr(name, '=');
    if (!value) {
      wrong = wrong ? wrong : number;
      continue;
    }
    *value++ = 0;
    value = trimmed(value);
    if (*value == '"' && strlen(value) > 1 && value[strlen(value) - 1] == '"') {
      value[strlen(value) - 1] = 0;
      value++;
    }
    name = stand_in_text("%s%s", section, trimmed(name));
    stand_in_set(settings, name, value);
    free(name);
  }
  free(line);
  free(section);
  fclose(file);
  return wrong;
}

int stand_in_is_number(const char *value) {
  char *end = NULL;
  const double number = value ? strtod(value, &end) : 0;
  return !value || (end > value && !*end && number - number == 0); /* no infinity, and no NaN */
}

int stand_in_is_true(const char *value) {
  return value && (!strcasecmp(value, "true") || !strcasecmp(value, "yes") || !strcasecmp(value, "on") ||
                   strtol(value, NULL, 10) != 0);
}

/* Files */

char *stand_in_absolute(const char *path) {
  char here[PATH_MAX], *whole, *part, *rest, *clean;
  size_t length = 0;
  if (*path != '/' && !getcwd(here, sizeof here)) strcpy(here, "/");
  whole = *path == '/' ? stand_in_text("%s", path) : stand_in_text("%s/%s", here, path);
  clean = stand_in_memory(NULL, strlen(whole) + 2);
  for (part = strtok_r(whole, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
    if (!strcmp(part, ".")) continue;
    if (!strcmp(part, "..")) {
      while (length > 0 && clean[--length] != '/');
      continue;
    }
    clean[length++] = '/';
    memcpy(clean + length, part, strlen(part));
    length += strlen(part);
  }
  if (!length) clean[length++] = '/';
  clean[length] = 0;
  free(whole);
  return clean;
}

/* Makes the folders above `path`. Errors show when `path` is made. */
static void make_folders_above(const char *path) {
  char *part = stand_in_text("%s", path), *slash;
  for (slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(part, 0777);
    *slash = '/';
  }
  free(part);
}

int stand_in_make_folders(const char *path) {
  make_folders_above(path);
  return mkdir(path, 0777) && errno != EEXIST ? errno : 0;
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *place) {
  (void)file;
  (void)kind;
  (void)place;
  remove(path); /* another rank may have been faster */
  return 0;
}

void stand_in_remove_folder(const char *path) {
  const int open_max = 16;
  nftw(path, remove_one, open_max, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int64_t stand_in_file_bytes(const char *path) {
  struct stat file;
  return stat(path, &file) ? -1 : (int64_t)file.st_size;
}

/* Messages */

/* Parts of Mainstay's messages that name its calls: from the text `begin` up to the text `end`. */
static const struct {
  const char *begin, *end, *instead;
} wordings[] = {
    {" collective calls: ", "; none", " calls; none"},
    {", but the session is over on all ranks, ", "and can only be closed", ", and the job can save no more"},
    {"if the setting `recovery` is on, ", "otherwise end the job", "end the job"},
    {"close this session, check the device, ", "open the space again",
     "end the job, check the device, and start it again"},
    {"checkpoint: no rank protects anything", "will be written", "no rank has anything to save; protect memory first"},
    {"begin, end and give up each checkpoint", "on all ranks", "make the same calls on all ranks"},
    {"begin: it announced ", "", "the checkpoint began with "},
    {" in pieces, and wrote more", "announce the full number",
     " and got more; add each variable once, and change no file while it is saved"},
};

const char *stand_in_message(void) {
  static char *text;
  size_t i;
  free(text);
  text = stand_in_text("%s", mainstay_error_message());
  for (i = 0; i < sizeof wordings / sizeof wordings[0]; i++) {
    char *begin = strstr(text, wordings[i].begin), *end, *whole;
    if (!begin) continue;
    end = strstr(begin + strlen(wordings[i].begin), wordings[i].end);
    if (!end) continue;
    end += strlen(wordings[i].end);
    whole = stand_in_text("%.*s%s%s", (int)(begin - text), text, wordings[i].instead, end);
    free(text);
    text = whole;
  }
  return text;
}

/* The message of an error of opening a space, in memory of malloc. It adds the user's name for a setting of Mainstay's.
 */
static char *message_of_settings(const stand_in_space *space) {
  const struct {
    const char *setting, *users;
  } all[] = {
      {"keep", space->of_keep},
      {"pfs_every", space->of_pfs_every},
      {"memory_keep", space->of_level_keep},
      {"disk_keep", space->of_level_keep},
      {"every_seconds", space->of_every_seconds},
  };
  const char *text = stand_in_message();
  size_t i;
  for (i = 0; i < sizeof all / sizeof all[0]; i++) {
    const size_t length = strlen(all[i].setting);
    if (all[i].users && !strncmp(text, all[i].setting, length) && text[length] == ':')
      return stand_in_text("%s (%s): %s", all[i].setting, all[i].users, text + length + 2);
  }
  return stand_in_text("%s", text);
}

/* Spaces */

int stand_in_on_any(MPI_Comm comm, int is) {
  if (comm != MPI_COMM_NULL) MPI_Allreduce(MPI_IN_PLACE, &is, 1, MPI_INT, MPI_LOR, comm);
  return is;
}

uint64_t stand_in_hash(const char *text) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

char *stand_in_on_node(const char *base, const char *space) {
  return stand_in_text("%s/mainstay-%u-%016llx", base, (unsigned)geteuid(), (unsigned long long)stand_in_hash(space));
}

/* Makes the folder on the node. Another user may have made it first: its name is easy to guess, and all users may write
 * to its parent. */
static char *make_own(const char *path) {
  struct stat found;
  int code;
  make_folders_above(path);
  code = mkdir(path, 0700) ? errno : 0;
  if (code == EEXIST) {
    code = lstat(path, &found) ? errno : 0;
    if (!code && (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022)))
      return stand_in_text("%s can be changed by another user; remove it, or name another folder of the node", path);
  }
  return code ? stand_in_text("%s cannot be made: %s", path, strerror(code)) : NULL;
}

static int is_in_memory(const char *folder) {
  struct statfs system;
  return !statfs(folder, &system) && system.f_type == TMPFS;
}

/* Sets the options of a space. Returns whether Mainstay takes them. */
static int set_options(const stand_in_space *space, mainstay_options *options) {
  const int is_memory = is_in_memory(space->node);
  const struct {
    const char *name, *value;
  } all[] = {
      {"start", "fresh"},
      {"keep", space->keep},
      {"pfs_every", space->pfs_every},
      {"capture", space->capture},
      {is_memory ? "memory" : "disk", space->has_level ? space->node : NULL},
      {is_memory ? "memory_keep" : "disk_keep", space->level_keep},
      {is_memory ? "memory_copies" : "disk_copies", space->level_copies},
      {"disk_lost", "accepted"},
  };
  size_t i;
  options->every_seconds = space->every_seconds;
  for (i = 0; i < sizeof all / sizeof all[0]; i++)
    if (all[i].value && mainstay_set(options, all[i].name, all[i].value) != MAINSTAY_OK) return 0;
  return 1;
}

char *stand_in_open(MPI_Comm comm, const stand_in_space *space, mainstay_session **session) {
  char *why = make_own(space->node);
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  mainstay_status status;
  if (!why && !set_options(space, &options)) why = message_of_settings(space);
  if (stand_in_on_any(comm, why != NULL)) return why ? why : stand_in_text("another rank cannot open %s", space->path);
  status = comm == MPI_COMM_NULL ? mainstay_open_solo(space->path, &options, session)
                                 : mainstay_open_mpi(comm, space->path, &options, session);
  return status == MAINSTAY_OK ? NULL : message_of_settings(space);
}

mainstay_status stand_in_choose(MPI_Comm comm, mainstay_session *session, uint64_t revision,
                                mainstay_restored *restored, uint64_t *steps) {
  const mainstay_status status = mainstay_choose(session, revision, restored);
  if (status != MAINSTAY_OK) return status;
  *steps = restored->step;
  /* A rank that the revision does not have does not know the count. */
  MPI_Allreduce(MPI_IN_PLACE, steps, 1, MPI_UINT64_T, MPI_MAX, comm);
  return status;
}

static char *failed(const char *path, const char *verb) {
  return stand_in_text("%s cannot be %s: %s", path, verb, strerror(errno));
}

char *stand_in_save_file(mainstay_session *session, const char *name, const char *path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  char *piece, *why = NULL;
  uint64_t at = 0;
  ssize_t got;
  if (file < 0) return failed(path, "read");
  piece = stand_in_memory(NULL, PIECE);
  do {
    do got = read(file, piece, PIECE);
    while (got < 0 && errno == EINTR);
    if (got < 0) why = failed(path, "read");
    /* An empty file is an empty stream. */
    else if ((got > 0 || at == 0) && mainstay_write(session, name, at, piece, (size_t)got) != MAINSTAY_OK)
      why = stand_in_text("%s", stand_in_message());
    else
      at += (uint64_t)got;
  } while (got > 0 && !why);
  free(piece);
  close(file);
  return why;
}

char *stand_in_bring_file(mainstay_session *session, uint32_t shard, const char *name, const char *path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  char *piece, *why = NULL;
  uint64_t at = 0;
  size_t got = 0, put;
  if (file < 0) return failed(path, "made");
  piece = stand_in_memory(NULL, PIECE);
  do {
    if (mainstay_read_shard(session, shard, name, at, piece, PIECE, &got) != MAINSTAY_OK)
      why = stand_in_text("%s", stand_in_message());
    for (put = 0; !why && put < got;) {
      const ssize_t written = write(file, piece + put, got - put);
      if (written >= 0)
        put += (size_t)written;
      else if (errno != EINTR)
        why = failed(path, "written");
    }
    at += got;
  } while (!why && got == PIECE);
  free(piece);
  if (close(file) && !why) why = failed(path, "written");
  if (why) unlink(path);
  return why;
}

long stand_in_find_item(mainstay_session *session, uint32_t shard, const char *name, mainstay_item *item) {
  size_t count = 0, i;
  if (mainstay_shard_items(session, shard, &count) != MAINSTAY_OK) return -1;
  for (i = 0; i < count; i++)
    if (mainstay_shard_item(session, shard, i, item) == MAINSTAY_OK && !strcmp(item->name, name)) return (long)i;
  return -1;
}
