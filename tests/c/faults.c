/* Makes the calls of Mainstay that its arguments list, and prints the result of each.
 *
 *     faults SPACE COMMAND...           under MPI
 *     faults --solo SPACE COMMAND...    one rank, without MPI
 *
 * A command is NAME or NAME:VALUE; @RANK:COMMAND is for one rank. A line of the output is
 * "= RANK CALL STATUS TEXT": the message of a call that failed, the report of a restore.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faulty.h"
#include "mainstay_mpi.h"

enum { CELLS = 50001, GROWN = 200000 };

static int solo, rank;
static const char *space;
static mainstay_session *session;
static mainstay_options options = MAINSTAY_OPTIONS_INIT;
static double field[CELLS], grown[GROWN];
static uint64_t step[2];
static double *pointer = grown;
static void *allocated;

static void say(const char *call, const char *status, const char *text) {
  char line[8192];
  char *c;
  snprintf(line, sizeof line, "= %d %s %s %s", rank, call, status, text);
  for (c = line; *c; c++) {
    if (*c == '\n') *c = '|';
  }
  /* One write a line: ranks share the terminal. */
  printf("%s\n", line);
  fflush(stdout);
}

mainstay_status said(const char *call, mainstay_status status) {
  say(call, mainstay_status_name(status), status ? mainstay_error_message() : "");
  return status;
}

static double value_of(uint64_t at, uint64_t i) {
  uint64_t x = (at * 1000003 + (uint64_t)rank) * 2654435761u + i * 40503;
  return (double)((x ^ (x >> 15)) % 1000003) / 7;
}

static void fill(uint64_t at) {
  uint64_t i;
  for (i = 0; i < CELLS; i++) field[i] = value_of(at, i);
  step[0] = at;
}

static void holds(uint64_t at) {
  uint64_t i, wrong = step[0] != at;
  for (i = 0; i < CELLS; i++) wrong += field[i] != value_of(at, i);
  say("holds", wrong ? "WRONG" : "OK", "");
}

/* A group of one rank, for programs without MPI. */
static int all_max(void *context, uint64_t *values, size_t count) {
  (void)context, (void)values, (void)count;
  return 0;
}

static int all_gather(void *context, const void *mine, void *all, size_t bytes) {
  (void)context;
  memcpy(all, mine, bytes);
  return 0;
}

static int broadcast(void *context, uint32_t root, void *data, size_t bytes) {
  (void)context, (void)root, (void)data, (void)bytes;
  return 0;
}

static mainstay_group alone(void) {
  mainstay_group group;
  memset(&group, 0, sizeof group);
  group.size = sizeof group;
  group.ranks = 1;
  group.all_max = all_max;
  group.all_gather = all_gather;
  group.broadcast = broadcast;
  return group;
}

static mainstay_status open_space(mainstay_session **into) {
  mainstay_group group = alone();
  return solo ? mainstay_open(&group, space, &options, into) : mainstay_open_mpi(MPI_COMM_WORLD, space, &options, into);
}

static void opened(mainstay_status status) {
  uint64_t cells = CELLS, one = 1;
  if (said("open", status)) return;
  if (mainstay_protect_array(session, "field", field, MAINSTAY_F64, 1, &cells) ||
      mainstay_protect_array(session, "step", step, MAINSTAY_U64, 1, &one)) {
    said("protect", MAINSTAY_INTERNAL);
  }
}

static void open_second(void) {
  mainstay_session *second = NULL;
  said("open", open_space(&second));
  if (second) mainstay_close(second);
}

static void restore(void) {
  mainstay_restored restored;
  mainstay_status status = mainstay_restore(session, &restored);
  char number[32];
  if (said("restore", status)) return;
  snprintf(number, sizeof number, "%llu", (unsigned long long)restored.revision);
  say("restored", number, mainstay_report(session));
}

static void poll_to_the_end(void) {
  const struct timespec pause = {0, 1000000};
  mainstay_status status;
  int durable = 0, tries;
  for (tries = 0; tries < 30000; tries++) {
    status = mainstay_poll(session, &durable);
    if (status || durable) break;
    nanosleep(&pause, NULL);
  }
  said("poll", status);
}

static void set(const char *what) {
  const char *value = strchr(what, '=') + 1;
  uint64_t n = strtoull(value, NULL, 0);
  mainstay_options none = MAINSTAY_OPTIONS_INIT;
  char key[64];
  if (strncmp(what, "none=", 5) == 0)
    options = none;
  else if (strncmp(what, "size=", 5) == 0)
    options.size = n;
  else if (strncmp(what, "keep=", 5) == 0)
    options.keep = (uint32_t)n;
  else if (strncmp(what, "stage=", 6) == 0)
    options.stage = (uint32_t)n;
  else if (strncmp(what, "pool_bytes=", 11) == 0)
    options.pool_bytes = n;
  else if (strncmp(what, "every_seconds=", 14) == 0)
    options.every_seconds = strtod(value, NULL);
  else {
    snprintf(key, sizeof key, "%.*s", (int)(value - 1 - what), what);
    said("set", mainstay_set(&options, key, value));
  }
}

/* Protects `step` again, in another form. */
static void change(const char *how) {
  const uint64_t shape[2] = {strcmp(how, "size") == 0 ? 2 : 1, 1};
  const int flat = strcmp(how, "shape") != 0;
  mainstay_unprotect(session, "step");
  if (strcmp(how, "gone") == 0) return;
  mainstay_protect_array(session, "step", step, strcmp(how, "type") == 0 ? MAINSTAY_I64 : MAINSTAY_U64, flat ? 1 : 2,
                         shape);
}

/* "ROWS:FROM:TO": rows FROM to TO of a global array with ROWS rows of four cells each. */
static void box(const char *what) {
  unsigned long long rows = 0, from = 0, to = 0;
  uint64_t shape[2], global[2], offset[2];
  sscanf(what, "%llu:%llu:%llu", &rows, &from, &to);
  shape[0] = to - from, global[0] = rows, offset[0] = from;
  shape[1] = global[1] = 4, offset[1] = 0;
  said("protect", mainstay_protect_box(session, "u", grown, MAINSTAY_F64, 2, shape, global, offset));
}

/* Reads a revision, as any process can. */
static void read_revision(const char *number) {
  mainstay_reader *reader = NULL;
  mainstay_item item;
  uint64_t first;
  if (said("open", mainstay_reader_open(space, strtoull(number, NULL, 0), &reader))) return;
  said("item", mainstay_reader_item(reader, 0, 1, &item));
  if (strcmp(item.name, "step") || item.type != MAINSTAY_U64) say("item", "WRONG", item.name);
  said("read", mainstay_reader_read(reader, 0, "step", 0, &first, sizeof first, NULL));
  if (first != mainstay_reader_revision(reader)) say("read", "WRONG", "another step");
  said("close", mainstay_reader_close(reader));
}

static void follow(const char *name) {
  said("protect", mainstay_protect(session, name, pointer, 800));
  said("follow", mainstay_follow(session, name, (void **)&pointer));
}

/* Protects impossible shapes and types. */
static void odd(const char *what) {
  const uint64_t huge[2] = {1ull << 40, 1ull << 40};
  uint64_t ones[33], i;
  for (i = 0; i < 33; i++) ones[i] = 1;
  if (strcmp(what, "shape") == 0) said("protect", mainstay_protect_array(session, "big", step, MAINSTAY_U64, 2, huge));
  if (strcmp(what, "dimensions") == 0)
    said("protect", mainstay_protect_array(session, "deep", step, MAINSTAY_U64, 33, ones));
  if (strcmp(what, "flags") == 0) said("protect", mainstay_alloc(session, "odd", 8, 77, &(void *){NULL}));
  if (strcmp(what, "type") == 0) said("protect", mainstay_protect_array(session, "odd", step, 99, 1, ones));
  if (strcmp(what, "moved") == 0)
    said("move", mainstay_move_within(session, "step", step, MAINSTAY_I64, 1, ones, NULL, NULL, NULL, NULL));
  if (strcmp(what, "elsewhere") == 0) said("follow", mainstay_follow(session, "step", (void **)&pointer));
}

static void groups(const char *what) {
  mainstay_session *none = (mainstay_session *)1;
  mainstay_group group;
  int missing;
  if (strcmp(what, "size") == 0) {
    /* The memory behind the size may not exist. */
    size_t *small = (size_t *)malloc(sizeof *small);
    *small = sizeof *small;
    said("open", mainstay_open((const mainstay_group *)(const void *)small, space, NULL, &none));
    free(small);
    return;
  }
  for (missing = 0; missing < 3; missing++) {
    group = alone();
    if (missing == 0) group.all_max = NULL;
    if (missing == 1) group.all_gather = NULL;
    if (missing == 2) group.broadcast = NULL;
    said("open", mainstay_open(&group, space, NULL, &none));
    if (none) say("open", "WRONG", "a session that is none");
  }
}

/* Checks that nothing was read after an error. */
static void none_of(size_t *got) {
  if (*got) say("read", "WRONG", "bytes of an error");
  *got = 1;
}

/* Opens on an intercommunicator, with rank 0 on one side. */
static void open_between(void) {
  MPI_Comm side, between;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank == 0, 0, &between);
  said("open", mainstay_open_mpi(between, space, NULL, &session));
  if (session) say("open", "WRONG", "a session");
  MPI_Comm_free(&between);
  MPI_Comm_free(&side);
}

static void *whereabouts(void *context, uint64_t *count) {
  (void)context, (void)count;
  return step;
}

static int resized(void *context, size_t dimensions, const uint64_t *shape) {
  (void)context, (void)shape;
  return dimensions != 1;
}

/* Passes NULL for every parameter of every function that refuses it. */
static void nulls(void) {
  const uint64_t one = 1;
  mainstay_group group = alone();
  mainstay_session *none = NULL;
  mainstay_record record;
  mainstay_speculation early;
  mainstay_restored restored;
  mainstay_reader *reader;
  mainstay_item item;
  mainstay_listed_revision listed;
  uint64_t length;
  size_t got;
  uint32_t shards;
  const char *stream;
  int durable;
  void *place = step;
  said("set(options)", mainstay_set(NULL, "keep", "2"));
  said("set(key)", mainstay_set(&options, NULL, "2"));
  said("set(value)", mainstay_set(&options, "keep", NULL));
  said("open(group)", mainstay_open(NULL, space, NULL, &none));
  said("open(path)", mainstay_open(&group, NULL, NULL, &none));
  said("open(session)", mainstay_open(&group, space, NULL, NULL));
  said("protect(session)", mainstay_protect(NULL, "a", step, 8));
  said("protect(name)", mainstay_protect(session, NULL, step, 8));
  said("protect_array(session)", mainstay_protect_array(NULL, "a", step, MAINSTAY_U64, 1, &one));
  said("protect_array(name)", mainstay_protect_array(session, NULL, step, MAINSTAY_U64, 1, &one));
  said("protect_array(shape)", mainstay_protect_array(session, "a", step, MAINSTAY_U64, 1, NULL));
  said("protect_globals(session)", mainstay_protect_globals(NULL));
  said("protect_heap(session)", mainstay_protect_heap(NULL));
  said("leave_out(session)", mainstay_leave_out(NULL, step, 8));
  said("leave_out(address)", mainstay_leave_out(session, NULL, 8));
  said("untrack(session)", mainstay_untrack(NULL, "a"));
  said("untrack(name)", mainstay_untrack(session, NULL));
  said("same_on_all_ranks(session)", mainstay_same_on_all_ranks(NULL, "a"));
  said("same_on_all_ranks(name)", mainstay_same_on_all_ranks(session, NULL));
  said("any_number_of_ranks(session)", mainstay_any_number_of_ranks(NULL));
  said("settled(session)", mainstay_settled(NULL, "a", 0, 1));
  said("settled(name)", mainstay_settled(session, NULL, 0, 1));
  said("speculated(session)", mainstay_speculated(NULL, &early));
  said("speculated(out)", mainstay_speculated(session, NULL));
  said("unprotect(session)", mainstay_unprotect(NULL, "a"));
  said("unprotect(name)", mainstay_unprotect(session, NULL));
  said("alloc(session)", mainstay_alloc(NULL, "a", 8, 0, &place));
  said("alloc(name)", mainstay_alloc(session, NULL, 8, 0, &place));
  said("alloc(memory)", mainstay_alloc(session, "a", 8, 0, NULL));
  said("free(session)", mainstay_free(NULL, "a"));
  said("free(name)", mainstay_free(session, NULL));
  said("unprotect_all(session)", mainstay_unprotect_all(NULL));
  said("recover(session)", mainstay_recover(NULL));
  said("check(session)", mainstay_check(NULL));
  said("run(session)", mainstay_run(NULL, NULL, NULL, NULL));
  said("checkpoint(session)", mainstay_checkpoint(NULL, NULL));
  said("wait(session)", mainstay_wait(NULL));
  said("wait_for(session)", mainstay_wait_for(NULL, "pfs"));
  said("wait_for(level)", mainstay_wait_for(session, NULL));
  said("progress(session)", mainstay_progress(NULL));
  said("tick(session)", mainstay_tick(NULL));
  said("poll(session)", mainstay_poll(NULL, &durable));
  said("poll(durable)", mainstay_poll(session, NULL));
  said("restore(session)", mainstay_restore(NULL, &restored));
  said("restore_revision(session)", mainstay_restore_revision(NULL, 1, &restored));
  said("last_record(session)", mainstay_last_record(NULL, &record));
  said("last_record(record)", mainstay_last_record(session, NULL));
  said("due(session)", mainstay_due(NULL, 1, &durable));
  said("due(due)", mainstay_due(session, 1, NULL));
  said("note(session)", mainstay_note(NULL, "a", "b"));
  said("note(name)", mainstay_note(session, NULL, "b"));
  said("note(value)", mainstay_note(session, "a", NULL));
  said("protect_output(session)", mainstay_protect_output(NULL, "a"));
  said("protect_output(path)", mainstay_protect_output(session, NULL));
  said("begin(session)", mainstay_begin(NULL, 1, NULL));
  said("abandon(session)", mainstay_abandon(NULL));
  said("write(session)", mainstay_write(NULL, "a", 0, step, 8));
  said("write(name)", mainstay_write(session, NULL, 0, step, 8));
  said("write(data)", mainstay_write(session, "a", 0, NULL, 8));
  got = 1;
  said("read(session)", mainstay_read(NULL, "a", 0, step, 8, &got));
  none_of(&got);
  said("read(name)", mainstay_read(session, NULL, 0, step, 8, &got));
  none_of(&got);
  said("read(data)", mainstay_read(session, "a", 0, NULL, 8, &got));
  none_of(&got);
  said("read(got)", mainstay_read(session, "a", 0, step, 8, NULL));
  said("stream_bytes(session)", mainstay_stream_bytes(NULL, "a", &length));
  said("stream_bytes(name)", mainstay_stream_bytes(session, NULL, &length));
  said("stream_bytes(bytes)", mainstay_stream_bytes(session, "a", NULL));
  said("bring_shards(session)", mainstay_bring_shards(NULL, NULL, 0));
  said("bring_shards(shards)", mainstay_bring_shards(session, NULL, 1));
  said("shards(session)", mainstay_shards(NULL, &shards));
  said("shards(count)", mainstay_shards(session, NULL));
  said("shard_items(session)", mainstay_shard_items(NULL, 0, &got));
  said("shard_items(count)", mainstay_shard_items(session, 0, NULL));
  said("shard_item(session)", mainstay_shard_item(NULL, 0, 0, &item));
  said("shard_item(item)", mainstay_shard_item(session, 0, 0, NULL));
  said("read_shard(session)", mainstay_read_shard(NULL, 0, "a", 0, step, 8, &got));
  said("read_shard(name)", mainstay_read_shard(session, 0, NULL, 0, step, 8, &got));
  said("read_shard(data)", mainstay_read_shard(session, 0, "a", 0, NULL, 8, &got));
  said("streams(session)", mainstay_streams(NULL, &got));
  said("streams(count)", mainstay_streams(session, NULL));
  said("stream(session)", mainstay_stream(NULL, 0, &stream, &length));
  said("stream(name)", mainstay_stream(session, 0, NULL, &length));
  said("put(session)", mainstay_put(NULL, "a", step, 8, NULL));
  said("put(name)", mainstay_put(session, NULL, step, 8, NULL));
  said("put(data)", mainstay_put(session, "a", NULL, 8, NULL));
  said("get(session)", mainstay_get(NULL, MAINSTAY_NEWEST, "a", step, 8, NULL));
  said("get(name)", mainstay_get(session, MAINSTAY_NEWEST, NULL, step, 8, NULL));
  said("get(data)", mainstay_get(session, MAINSTAY_NEWEST, "a", NULL, 8, NULL));
  said("get_bytes(session)", mainstay_get_bytes(NULL, MAINSTAY_NEWEST, "a", &length));
  said("get_bytes(name)", mainstay_get_bytes(session, MAINSTAY_NEWEST, NULL, &length));
  said("get_bytes(bytes)", mainstay_get_bytes(session, MAINSTAY_NEWEST, "a", NULL));
  said("choose(session)", mainstay_choose(NULL, MAINSTAY_NEWEST, NULL));
  said("revisions(session)", mainstay_revisions(NULL, &got));
  said("revisions(count)", mainstay_revisions(session, NULL));
  said("revision(session)", mainstay_revision(NULL, 0, &listed));
  said("revision(listed)", mainstay_revision(session, 0, NULL));
  said("saved(session)", mainstay_saved(NULL, MAINSTAY_NEWEST, "a", &item));
  said("saved(name)", mainstay_saved(session, MAINSTAY_NEWEST, NULL, &item));
  said("saved(item)", mainstay_saved(session, MAINSTAY_NEWEST, "a", NULL));
  said("protect_box(session)", mainstay_protect_box(NULL, "a", step, MAINSTAY_U64, 1, &one, &one, &one));
  said("protect_box(name)", mainstay_protect_box(session, NULL, step, MAINSTAY_U64, 1, &one, &one, &one));
  said("protect_box(shape)", mainstay_protect_box(session, "a", step, MAINSTAY_U64, 1, NULL, &one, &one));
  said("protect_box(global_shape)", mainstay_protect_box(session, "a", step, MAINSTAY_U64, 1, &one, NULL, &one));
  said("protect_box(offset)", mainstay_protect_box(session, "a", step, MAINSTAY_U64, 1, &one, &one, NULL));
  said("protect_within(session)",
       mainstay_protect_within(NULL, "a", step, MAINSTAY_U64, 1, &one, &one, &one, &one, &one));
  said("protect_within(memory_shape)",
       mainstay_protect_within(session, "a", step, MAINSTAY_U64, 1, &one, NULL, &one, NULL, NULL));
  said("protect_within(memory_offset)",
       mainstay_protect_within(session, "a", step, MAINSTAY_U64, 1, &one, &one, NULL, NULL, NULL));
  said("protect_within(offset)",
       mainstay_protect_within(session, "a", step, MAINSTAY_U64, 1, &one, &one, &one, &one, NULL));
  said("follow(session)", mainstay_follow(NULL, "step", &place));
  said("follow(name)", mainstay_follow(session, NULL, &place));
  said("follow(pointer)", mainstay_follow(session, "step", NULL));
  said("follow_call(session)", mainstay_follow_call(NULL, "step", whereabouts, NULL));
  said("follow_call(name)", mainstay_follow_call(session, NULL, whereabouts, NULL));
  said("follow_call(where)", mainstay_follow_call(session, "step", NULL, NULL));
  said("follow_resize(session)", mainstay_follow_resize(NULL, "step", whereabouts, resized, NULL));
  said("follow_resize(name)", mainstay_follow_resize(session, NULL, whereabouts, resized, NULL));
  said("follow_resize(where)", mainstay_follow_resize(session, "step", NULL, resized, NULL));
  said("follow_resize(resize)", mainstay_follow_resize(session, "step", whereabouts, NULL, NULL));
  said("move(session)", mainstay_move(NULL, "step", step, 1, &one));
  said("move(name)", mainstay_move(session, NULL, step, 1, &one));
  said("move(data)", mainstay_move(session, "step", NULL, 1, &one));
  said("move(data-alone)", mainstay_move(session, "step", NULL, 0, NULL));
  said("move(shape)", mainstay_move(session, "step", step, 1, NULL));
  said("move_within(session)", mainstay_move_within(NULL, "step", step, MAINSTAY_U64, 1, &one, &one, &one, &one, &one));
  said("move_within(name)", mainstay_move_within(session, NULL, step, MAINSTAY_U64, 1, &one, NULL, NULL, NULL, NULL));
  said("move_within(shape)",
       mainstay_move_within(session, "step", step, MAINSTAY_U64, 1, NULL, NULL, NULL, NULL, NULL));
  said("move_within(memory_offset)",
       mainstay_move_within(session, "step", step, MAINSTAY_U64, 1, &one, &one, NULL, NULL, NULL));
  said("move_within(offset)",
       mainstay_move_within(session, "step", step, MAINSTAY_U64, 1, &one, NULL, NULL, &one, NULL));
  said("reader_open(path)", mainstay_reader_open(NULL, 0, &reader));
  said("reader_open(reader)", mainstay_reader_open(space, 0, NULL));
  said("reader_item(reader)", mainstay_reader_item(NULL, 0, 0, &item));
  said("reader_read(reader)", mainstay_reader_read(NULL, 0, "a", 0, step, 8, &got));
  none_of(&got);
  said("reader_read_box(reader)", mainstay_reader_read_box(NULL, "a", 1, &one, &one, step, 8));
  said("open_solo(path)", mainstay_open_solo(NULL, NULL, &none));
  said("open_solo(session)", mainstay_open_solo(space, NULL, NULL));
  said("close(session)", mainstay_close(NULL));
  said("leave(session)", mainstay_leave(NULL));
  /* Some calls have no status: only the message shows the error. */
  mainstay_protect(session, "", NULL, 0);
  if (mainstay_restored_note(NULL, "a")) say("restored_note", "WRONG", "a note of no session");
  said("restored_note(session)", MAINSTAY_INVALID_ARGUMENT);
  mainstay_protect(session, "", NULL, 0);
  if (mainstay_restored_note(session, NULL)) say("restored_note", "WRONG", "a note of no name");
  said("restored_note(name)", MAINSTAY_INVALID_ARGUMENT);
  mainstay_protect(session, "", NULL, 0);
  if (mainstay_revision_note(NULL, 0, "a")) say("revision_note", "WRONG", "a note of no session");
  said("revision_note(session)", MAINSTAY_INVALID_ARGUMENT);
  mainstay_protect(session, "", NULL, 0);
  if (mainstay_revision_note(session, 0, NULL)) say("revision_note", "WRONG", "a note of no name");
  said("revision_note(name)", MAINSTAY_INVALID_ARGUMENT);
  mainstay_protect(session, "", NULL, 0);
  if (mainstay_report(NULL)[0] != 0) say("report", "WRONG", "text of no session");
  said("report(session)", MAINSTAY_INVALID_ARGUMENT);
  /* A missing reader has no content, and closing it does nothing. */
  if (mainstay_reader_revision(NULL) || mainstay_reader_shards(NULL) || mainstay_reader_items(NULL, 0) ||
      mainstay_reader_close(NULL) != MAINSTAY_OK)
    say("reader", "WRONG", "something of no reader");
  said("protect(data)", mainstay_protect(session, "a", NULL, 8));
  said("protect_array(data)", mainstay_protect_array(session, "a", NULL, MAINSTAY_U64, 1, &one));
}

/* An output file of this rank, below the space. */
static const char *output_file(void) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/output-%d.csv", space, rank);
  return path;
}

static void append(const char *text) {
  FILE *file = fopen(output_file(), "a");
  if (!file || fputs(text, file) < 0 || fclose(file)) say("append", "WRONG", text);
}

/* Checks that the file holds exactly `text`. */
static void output_is(const char *text) {
  char found[256];
  FILE *file = fopen(output_file(), "r");
  size_t bytes = file ? fread(found, 1, sizeof found - 1, file) : 0;
  found[bytes] = 0;
  if (file) fclose(file);
  say("output_is", strcmp(found, text) ? "WRONG" : "OK", found);
}

static void hold(void) {
  say("hold", "OK", "");
  while (getchar() != EOF) {
  }
}

/* Makes a file that takes all free space. */
static void fill_up(const char *name) {
  static char zeros[65536];
  const int file = open(name, O_CREAT | O_WRONLY, 0600);
  size_t bytes;
  for (bytes = sizeof zeros; bytes >= 4096; bytes /= 2) {
    while (write(file, zeros, bytes) == (ssize_t)bytes) continue;
  }
  close(file);
}

/* Waits for all ranks, and leaves the processors to others meanwhile. */
static void meet(void) {
  MPI_Request request;
  if (!solo && MPI_Ibarrier(MPI_COMM_WORLD, &request) == MPI_SUCCESS)
    mainstay_mpi_await(&request, MPI_STATUS_IGNORE, 500e-6);
}

/* Stops all ranks until the standard input of rank 0 has a line. */
static void pause_here(void) {
  char line[64];
  meet();
  say("pause", "OK", "");
  if (rank == 0 && !fgets(line, sizeof line, stdin)) say("pause", "WRONG", "no line");
  meet();
}

/* Becomes another user, and gives up root's rights for good. */
static void drop_rights(const char *id) {
  const unsigned user = (unsigned)atoi(id);
  if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user)) say("as", "WRONG", id);
}

/* One rank changes files for all ranks. */
static void with_file(const char *name, int make) {
  if (!solo) MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    if (make) {
      close(open(name, O_CREAT | O_WRONLY, 0600));
    } else {
      unlink(name);
    }
  }
  if (!solo) MPI_Barrier(MPI_COMM_WORLD);
}

static void run(const char *command) {
  char name[32] = "";
  const char *value = strchr(command, ':');
  size_t length = value ? (size_t)(value - command) : strlen(command);
  if (command[0] == '@') {
    if (atoi(command + 1) == rank && value) run(value + 1);
    return;
  }
  value = value ? value + 1 : "";
  if (length < sizeof name) memcpy(name, command, length);
#define IS(NAME) (strcmp(name, NAME) == 0)
#define IS_VALUE(VALUE) (strcmp(value, VALUE) == 0)
  if (IS("open"))
    opened(open_space(&session));
  else if (IS("second"))
    open_second();
  else if (IS("set"))
    set(value);
  else if (IS("fill"))
    fill(strtoull(value, NULL, 0));
  else if (IS("holds"))
    holds(strtoull(value, NULL, 0));
  else if (IS("save"))
    fill(strtoull(value, NULL, 0)), said("checkpoint", mainstay_checkpoint(session, NULL));
  else if (IS("due"))
    said("due", mainstay_due(session, strtoull(value, NULL, 0), &(int){0}));
  else if (IS("wait"))
    said("wait", mainstay_wait(session));
  else if (IS("level"))
    said("wait", mainstay_wait_for(session, value));
  else if (IS("poll"))
    poll_to_the_end();
  else if (IS("restore"))
    restore();
  else if (IS("close"))
    said("close", mainstay_close(session)), session = NULL;
  else if (IS("finalize"))
    MPI_Finalize();
  else if (IS("protect"))
    said("protect", mainstay_protect(session, value, step + 1, 8));
  else if (IS("overlap"))
    said("protect", mainstay_protect(session, value, (char *)step + 4, 8));
  else if (IS("between"))
    open_between();
  else if (IS("globals"))
    said("protect_globals", mainstay_protect_globals(session));
  else if (IS("foreign"))
    said("note", mainstay_note(session, "globals/program", "build id 00"));
  else if (IS("leave_out"))
    said("protect", mainstay_leave_out(session, field, sizeof field));
  else if (IS("untrack"))
    said("untrack", mainstay_untrack(session, value));
  else if (IS("alloc"))
    said("protect", mainstay_alloc(session, value, 5000, MAINSTAY_ALLOC_FLAG_SAME_ADDRESS, &allocated));
  else if (IS("part"))
    said("protect", mainstay_protect(session, value, (char *)allocated + 100, 50));
  else if (IS("free"))
    said("unprotect", mainstay_free(session, value));
  else if (IS("settled"))
    said("settled", mainstay_settled(session, value, 0, 1 << 20));
  else if (IS("settled_last"))
    said("settled", mainstay_settled(session, value, UINT64_MAX, 2));
  else if (IS("unprotect"))
    said("unprotect", mainstay_unprotect(session, value));
  else if (IS("move"))
    said("move", mainstay_move(session, value, grown, 0, NULL));
  else if (IS("follow"))
    follow(value);
  else if (IS("point"))
    pointer = IS_VALUE("null") ? NULL : IS_VALUE("field") ? field : grown;
  else if (IS("change"))
    change(value);
  else if (IS("grow"))
    said("grow", mainstay_protect(session, "grown", grown, sizeof grown));
  else if (IS("box"))
    box(value);
  else if (IS("read"))
    read_revision(value);
  else if (IS("odd"))
    odd(value);
  else if (IS("group"))
    groups(value);
  else if (IS("nulls"))
    nulls();
  else if (IS("output"))
    said("protect", mainstay_protect_output(session, value[0] ? value : output_file()));
  else if (IS("append"))
    append(value);
  else if (IS("output_is"))
    output_is(value);
  else if (IS("cut"))
    truncate(output_file(), atoi(value)) ? say("cut", "WRONG", value) : (void)0;
  else if (IS("objects"))
    faulty(session, value);
  else if (IS("hold"))
    hold();
  else if (IS("pause"))
    pause_here();
  else if (IS("meet"))
    meet();
  else if (IS("die"))
    raise(SIGKILL);
  else if (IS("as"))
    drop_rights(value);
  else if (IS("ballast"))
    fill_up(value);
  else if (IS("make"))
    with_file(value, 1);
  else if (IS("remove"))
    with_file(value, 0);
  else
    say(name, "WRONG", "no such command");
}

int main(int argc, char **argv) {
  int i;
  solo = argc > 1 && strcmp(argv[1], "--solo") == 0;
  if (!solo) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  }
  space = argv[1 + solo];
  for (i = 2 + solo; i < argc; i++) run(argv[i]);
  say("end", "OK", "");
  if (!solo && !mainstay_mpi_is_over()) MPI_Finalize();
  return 0;
}
