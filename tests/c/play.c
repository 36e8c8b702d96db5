/* Plays one rank of a job that the model has planned: makes its calls, one after another.
 *
 *     play PLAN LOG                                 under MPI: rank r reads PLAN.r and writes LOG.r
 *     play --fork RANKS die|survive PLAN LOG        without MPI; ranks die with another rank or survive it
 *
 * A line of a plan is INDEX CALL WORD...; model/plan.py has the calls. In the log each call has the line "> INDEX" at
 * its beginning, and "= INDEX STATUS TEXT" at its end. Returned data is logged as lengths and checksums; the model
 * knows the right ones. python/play.py is the same in Python. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <mainstay_mpi.h>

#include "content.h"
#include "forked.h"

enum { WORDS = 12, LINE = 1 << 16, MEMORIES = 32, NAME = 64 };

typedef struct memory {
  char name[NAME];
  char *data; /* NULL: none */
  size_t bytes;
  uint64_t salt, from; /* arguments of content() */
} memory;

static bool forked;
static int rank, out;
static mainstay_session *session;
static memory memories[MEMORIES];
static char output[4096]; /* the path of this rank's output file, if any */
static char told[LINE];   /* the text of the call in the log */

/* The names of streams and notes in plans. */
static const char *const streams[] = {"s0", "s1", "s2"}, *const notes[] = {"n0", "n1"};

static void say(const char *format, ...) {
  char line[LINE + 256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  for (int i = 0; i < length; i++)
    if (line[i] == '\n') line[i] = '|';
  line[length++] = '\n';
  if (write(out, line, (size_t)length) != length) _exit(7);
}

static void tell(const char *format, ...) {
  const size_t at = strlen(told);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(told + at, sizeof told - at, format, arguments);
  va_end(arguments);
}

static void *allocate(size_t bytes) {
  void *data = calloc(bytes + 1, 1);
  if (!data) _exit(8);
  return data;
}

static memory *find(const char *name) {
  for (memory *at = memories; at < memories + MEMORIES; at++)
    if (at->data && strcmp(at->name, name) == 0) return at;
  return NULL;
}

static memory *new_memory(const char *name, size_t bytes, uint64_t salt, uint64_t from) {
  memory *at = memories;
  while (at->data && at < memories + MEMORIES - 1) at++;
  snprintf(at->name, sizeof at->name, "%s", name);
  at->data = allocate(bytes);
  at->bytes = bytes;
  at->salt = salt;
  at->from = from;
  return at;
}

static void forget(memory *at) {
  free(at->data);
  at->data = NULL;
}

static mainstay_status protect(const char *name, size_t bytes, uint64_t salt) {
  memory *at = new_memory(name, bytes, salt, 0);
  mainstay_status status = mainstay_protect(session, name, at->data, bytes);
  if (status) forget(at);
  return status;
}

static mainstay_status protect_box(char **word) {
  const uint64_t whole[2] = {strtoull(word[1], NULL, 10), strtoull(word[2], NULL, 10)};
  const uint64_t offset[2] = {strtoull(word[3], NULL, 10), 0};
  const uint64_t shape[2] = {strtoull(word[4], NULL, 10), whole[1]};
  memory *at = new_memory(word[0], shape[0] * shape[1] * 8, 0, offset[0] * whole[1] * 8);
  mainstay_status status = mainstay_protect_box(session, at->name, at->data, MAINSTAY_U64, 2, shape, whole, offset);
  if (status) forget(at);
  return status;
}

static mainstay_status open_space(const char *path, const char *hints) {
  mainstay_options options = MAINSTAY_OPTIONS_INIT;
  char lines[2048];
  snprintf(lines, sizeof lines, "%s", strcmp(hints, "-") ? hints : "");
  for (char *c = lines; *c; c++)
    if (*c == ';') *c = '\n';
  options.hints = lines;
  if (forked) {
    const mainstay_group group = forked_group();
    return mainstay_open(&group, path, &options, &session);
  }
  return mainstay_open_mpi(MPI_COMM_WORLD, path, &options, &session);
}

static mainstay_status restore(void) {
  mainstay_restored restored = {0};
  mainstay_status status = mainstay_restore(session, &restored);
  struct stat found;
  if (status) return status;
  tell("R=%" PRIu64 " skipped=%" PRIu64, restored.revision, restored.skipped);
  for (memory *at = memories; at < memories + MEMORIES; at++)
    if (at->data) tell(" r:%s:%zu:%08x", at->name, at->bytes, crc32_of(at->data, at->bytes));
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
    uint64_t bytes;
    size_t got;
    if (mainstay_stream_bytes(session, streams[i], &bytes)) continue;
    char *data = allocate(bytes);
    if (mainstay_read(session, streams[i], 0, data, bytes, &got) || got != bytes)
      tell(" s:%s:%" PRIu64 ":%s", streams[i], bytes, mainstay_error_message());
    else
      tell(" s:%s:%" PRIu64 ":%08x", streams[i], bytes, crc32_of(data, bytes));
    free(data);
  }
  for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
    const char *note = mainstay_restored_note(session, notes[i]);
    if (note) tell(" n:%s:%s", notes[i], note);
  }
  if (output[0]) tell(" o:%lld", stat(output, &found) ? -1ll : (long long)found.st_size);
  if (restored.skipped) tell(" # %.2000s", mainstay_report(session));
  return status;
}

/* Reads every byte of every item. */
static mainstay_status read_space(const char *path, uint64_t revision) {
  mainstay_reader *reader = NULL;
  mainstay_status status = mainstay_reader_open(path, revision, &reader);
  if (status) return status;
  tell("R=%" PRIu64, mainstay_reader_revision(reader));
  for (uint32_t shard = 0; shard < mainstay_reader_shards(reader); shard++)
    for (size_t i = 0; i < mainstay_reader_items(reader, shard); i++) {
      mainstay_item item;
      size_t got = 0;
      if ((status = mainstay_reader_item(reader, shard, i, &item))) goto end;
      char *data = allocate(item.bytes);
      status = mainstay_reader_read(reader, shard, item.name, 0, data, item.bytes, &got);
      if (status == MAINSTAY_OK) tell(" %u:%s:%zu:%08x", shard, item.name, got, crc32_of(data, got));
      free(data);
      if (status) goto end;
    }
end:
  if (status == MAINSTAY_OK)
    status = mainstay_reader_close(reader);
  else
    mainstay_reader_close(reader);
  return status;
}

static mainstay_status read_stream(const char *name, uint64_t from, size_t bytes) {
  size_t got = 0;
  char *data = allocate(bytes);
  mainstay_status status = mainstay_read(session, name, from, data, bytes, &got);
  if (status == MAINSTAY_OK) tell("%zu:%08x", got, crc32_of(data, got));
  free(data);
  return status;
}

static mainstay_status write_stream(const char *name, uint64_t from, size_t bytes, uint64_t tag) {
  char *data = allocate(bytes);
  content(tag, (uint64_t)rank + 1, name, from, data, bytes);
  mainstay_status status = mainstay_write(session, name, from, data, bytes);
  memset(data, 0xEE, bytes); /* the program may use it again */
  free(data);
  return status;
}

static mainstay_status put(const char *name, size_t bytes, uint64_t tag) {
  uint64_t revision = 0;
  char *data = allocate(bytes);
  content(tag, (uint64_t)rank + 1, name, 0, data, bytes);
  mainstay_status status = mainstay_put(session, name, data, bytes, &revision);
  free(data);
  if (status == MAINSTAY_OK) tell("R=%" PRIu64, revision);
  return status;
}

/* Puts a buffer, smaller each time, until it fits. */
static mainstay_status put_largest(const char *name, size_t bytes, size_t less, uint64_t tag) {
  mainstay_status status;
  while ((status = put(name, bytes, tag)) == MAINSTAY_PORTION_TOO_SMALL && bytes > less) bytes -= less;
  if (status == MAINSTAY_OK) tell(" bytes=%zu", bytes);
  return status;
}

static mainstay_status get(uint64_t revision, const char *name, size_t room) {
  mainstay_got got = {0, 0, 0};
  char *data = allocate(room);
  mainstay_status status = mainstay_get(session, revision ? revision : MAINSTAY_NEWEST, name, data, room, &got);
  if (status == MAINSTAY_OK)
    tell("R=%" PRIu64 " skipped=%" PRIu64 " %" PRIu64 ":%08x", got.revision, got.skipped, got.bytes,
         crc32_of(data, got.bytes <= room ? got.bytes : 0));
  free(data);
  return status;
}

static mainstay_status get_bytes(uint64_t revision, const char *name) {
  uint64_t bytes = 0;
  mainstay_status status = mainstay_get_bytes(session, revision ? revision : MAINSTAY_NEWEST, name, &bytes);
  if (status == MAINSTAY_OK) tell("%" PRIu64, bytes);
  return status;
}

static void fill(uint64_t tag) {
  for (memory *at = memories; at < memories + MEMORIES; at++)
    if (at->data) content(tag, at->salt, at->name, at->from, at->data, at->bytes);
}

static void append(size_t bytes) {
  int file = open(output, O_CREAT | O_WRONLY | O_APPEND, 0600);
  char *data = allocate(bytes);
  memset(data, 'x', bytes);
  if (file < 0 || write(file, data, bytes) != (ssize_t)bytes) say("WRONG: cannot append to %s", output);
  free(data);
  close(file);
}

static void meet(void) {
  MPI_Request request;
  if (forked)
    forked_meet();
  else if (MPI_Ibarrier(MPI_COMM_WORLD, &request) == MPI_SUCCESS)
    mainstay_mpi_await(&request, MPI_STATUS_IGNORE, 500e-6);
}

static void sleep_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

/* The kernel kills this process after this time, whatever the process does then. */
static void killed_after(long us) {
  struct sigevent event;
  struct itimerspec after = {{0, 0}, {us / 1000000, us % 1000000 * 1000 + 1}};
  timer_t timer;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &after, NULL)) say("WRONG: no timer");
}

/* Waits until the file exists, or a rank is gone. */
static void pause_for(const char *file) {
  for (int looks = 0; access(file, F_OK) && looks < 60000 && !(forked && forked_is_broken()); looks++) sleep_us(1000);
  meet();
}

static mainstay_status close_session(void) {
  mainstay_status status = mainstay_close(session);
  session = NULL;
  return status;
}

static void number(mainstay_status status, uint64_t revision) {
  if (status == MAINSTAY_OK) tell("R=%" PRIu64, revision);
}

static mainstay_status play(const char *call, char **word) {
  uint64_t revision = 0;
  int flag = 0;
  mainstay_status status = MAINSTAY_OK;
#define IS(NAME) (strcmp(call, NAME) == 0)
#define NUMBER(I) strtoull(word[I], NULL, 10)
  if (IS("open"))
    status = open_space(word[0], word[1]);
  else if (IS("env"))
    strcmp(word[1], "-") ? setenv(word[0], word[1], 1) : unsetenv(word[0]);
  else if (IS("protect"))
    status = protect(word[0], NUMBER(1), NUMBER(2));
  else if (IS("box"))
    status = protect_box(word);
  else if (IS("unprotect"))
    (status = mainstay_unprotect(session, word[0])) || (forget(find(word[0])), 0);
  else if (IS("same"))
    status = mainstay_same_on_all_ranks(session, word[0]);
  else if (IS("fill"))
    fill(NUMBER(0));
  else if (IS("note"))
    status = mainstay_note(session, word[0], word[1]);
  else if (IS("output"))
    snprintf(output, sizeof output, "%s", word[0]), status = mainstay_protect_output(session, output);
  else if (IS("append"))
    append(NUMBER(0));
  else if (IS("due"))
    (status = mainstay_due(session, NUMBER(0), &flag)) || (tell("%d", flag), 0);
  else if (IS("tick"))
    status = mainstay_tick(session);
  else if (IS("settled"))
    status = mainstay_settled(session, word[0], NUMBER(1), NUMBER(2));
  else if (IS("checkpoint"))
    status = mainstay_checkpoint(session, &revision), number(status, revision);
  else if (IS("begin"))
    status = mainstay_begin(session, NUMBER(0), &revision), number(status, revision);
  else if (IS("write"))
    status = write_stream(word[0], NUMBER(1), NUMBER(2), NUMBER(3));
  else if (IS("abandon"))
    status = mainstay_abandon(session);
  else if (IS("put"))
    status = put(word[0], NUMBER(1), NUMBER(2));
  else if (IS("put_largest"))
    status = put_largest(word[0], NUMBER(1), NUMBER(2), NUMBER(3));
  else if (IS("get"))
    status = get(NUMBER(0), word[1], NUMBER(2));
  else if (IS("get_bytes"))
    status = get_bytes(NUMBER(0), word[1]);
  else if (IS("wait"))
    status = mainstay_wait(session);
  else if (IS("poll"))
    (status = mainstay_poll(session, &flag)) || (tell("%d", flag), 0);
  else if (IS("restore"))
    status = restore();
  else if (IS("read"))
    status = read_stream(word[0], NUMBER(1), NUMBER(2));
  else if (IS("reader"))
    status = read_space(word[0], NUMBER(1));
  else if (IS("close"))
    status = close_session();
  else if (IS("meet"))
    meet();
  else if (IS("sleep"))
    sleep_us((long)NUMBER(0));
  else if (IS("pause"))
    pause_for(word[0]);
  else if (IS("alarm"))
    killed_after((long)NUMBER(0));
  else if (IS("die"))
    raise(SIGKILL);
  else if (IS("leave"))
    say("left"), fflush(stdout), _exit(0);
  else
    say("WRONG: no call %s", call);
  return status;
}

/* Whether the call needs a session. Without an open or restored session it is skipped. */
static bool is_of_session(const char *call) {
  return !(IS("open") || IS("env") || IS("meet") || IS("pause") || IS("sleep") || IS("alarm") || IS("die") ||
           IS("reader") || IS("leave"));
}

static void play_all(FILE *plan) {
  char line[LINE], *word[WORDS + 2] = {0};
  bool over = true;     /* no session that goes on */
  bool refused = false; /* whether the checkpoint was refused at its beginning */
  while (fgets(line, sizeof line, plan)) {
    int words = 0;
    for (char *at = strtok(line, " \n"); at && words < WORDS; at = strtok(NULL, " \n")) word[words++] = at;
    if (words < 2) continue;
    const char *index = word[0], *call = word[1];
    if (over && is_of_session(call) && !(IS("close") && session)) {
      say("= %s PASSED", index);
      continue;
    }
    /* An alarm in between does not change this. */
    const bool passes = IS("write") || IS("checkpoint") || IS("abandon");
    refused = refused && (passes || IS("poll") || !is_of_session(call));
    if (refused && passes) {
      refused = IS("write");
      say("= %s PASSED", index);
      continue;
    }
    told[0] = 0;
    say("> %s", index);
    mainstay_status status = play(call, word + 2);
    say("= %s %s %.2000s%.60000s", index, mainstay_status_name(status), status ? mainstay_error_message() : "", told);
    if (IS("open")) over = status != MAINSTAY_OK;
    if (IS("restore") && status) over = true;
    refused = refused || (IS("begin") && status);
    if (IS("close") || (IS("open") && status)) {
      over = true;
      session = NULL;
      output[0] = 0;
      for (memory *at = memories; at < memories + MEMORIES; at++) forget(at);
    }
    if (status == MAINSTAY_GROUP_FAILED) {
      say("bereft");
      _exit(0);
    }
  }
}

int main(int argc, char **argv) {
  char path[4096];
  forked = argc > 3 && strcmp(argv[1], "--fork") == 0;
  if (forked) {
    rank = (int)forked_begin((uint32_t)atoi(argv[2]), strcmp(argv[3], "survive") == 0);
    argv += 3;
    argc -= 3;
  } else {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  }
  if (argc != 3) return 2;
  snprintf(path, sizeof path, "%s.%d", argv[1], rank);
  FILE *plan = fopen(path, "r");
  snprintf(path, sizeof path, "%s.%d", argv[2], rank);
  out = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (!plan || out < 0) return 3;
  say("pid %d", getpid());
  play_all(plan);
  fclose(plan);
  say("end");
  if (!forked) MPI_Finalize();
  return 0;
}
