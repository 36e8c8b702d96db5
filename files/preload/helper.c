/* Asks the helper of the node: connects, sends one message, receives one. Licence: MIT OR Apache-2.0.
 *
 * Signals are blocked meanwhile, so a handler never meets a half-sent request, and no call ends by EINTR. System calls
 * are made without the C library's functions, as those are points where a thread may be cancelled. */
#include "preload.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { WAIT_MAX_MS = 10000, START_AGAIN_MS = 1000, WAIT_STEP_MAX_MS = 50, TRIES_MAX = 3, SIGNALS_SIZE = 8 };

/* Set once a helper could not be started: later requests try once, without waiting. */
static bool gone;

void signals_block(uint64_t *old) {
  uint64_t all = ~0ULL;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, old, SIGNALS_SIZE);
}

void signals_restore(const uint64_t *old) { syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, SIGNALS_SIZE); }

void request_begin(struct request *request, const char *verb) {
  request->count = 0;
  request->name = NULL;
  request->no_start = false;
  request_add(request, verb);
}

void request_add(struct request *request, const char *field) {
  request->fields[request->count++] = (struct iovec){(void *)field, strlen(field) + 1};
}

void request_add_file(struct request *request, const struct file *file) {
  if (!request->name) request->name = file->name;
  request_add(request, file->folder);
  request_add(request, file->device);
  request_add(request, file->inode);
  request_add(request, file->name);
}

/* A program that closed its descriptors 0 to 2 must not find our socket there. */
static int new_socket(void) {
  int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0 || fd > 2) return fd;
  int moved = raw_fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
  raw_close(fd);
  errno = error;
  return moved;
}

/* Connects, and starts the helper if there is none. Returns a socket, or -1 with errno. */
static int reach(bool may_start) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(settings.stage);
  if (length + sizeof "/socket" > sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
  memcpy(address.sun_path, settings.stage, length);
  strcpy(address.sun_path + length, "/socket");
  long start_at = 0;
  for (long waited = 0, step = 1;; waited += step, step = step * 2 < WAIT_STEP_MAX_MS ? step * 2 : WAIT_STEP_MAX_MS) {
    int fd = new_socket();
    if (fd < 0) return -1;
    if (!syscall(SYS_connect, fd, &address, sizeof address)) return gone = false, fd;
    int error = errno;
    raw_close(fd);
    errno = error;
    if ((error != ENOENT && error != ECONNREFUSED) || !may_start || gone || waited >= WAIT_MAX_MS) return -1;
    /* A helper that was about to end may have kept ours from starting. */
    if (waited >= start_at) {
      if (!start_helper()) return -1;
      start_at = waited + START_AGAIN_MS;
    }
    struct timespec pause = {0, step * 1000000};
    syscall(SYS_nanosleep, &pause, NULL);
  }
}

/* The next field of an answer; empty if there is none. */
static const char *field(const char **at, const char *end) {
  const char *here = *at;
  if (here >= end) return "";
  *at = here + strlen(here) + 1;
  return here;
}

static bool parse(struct answer *answer, size_t length) {
  static const struct {
    const char *name;
    enum verb verb;
  } verbs[] = {{"stage", STAGE},         {"base", BASE_COPY}, {"at", AT}, {"instead", INSTEAD},
               {"published", PUBLISHED}, {"plain", PLAIN},    {"ok", OK}, {"error", ERROR}};
  const char *at = answer->bytes, *end = at + length, *name, *text = "";
  answer->bytes[length] = 0;
  name = field(&at, end);
  size_t i = 0;
  while (i < sizeof verbs / sizeof *verbs && strcmp(verbs[i].name, name)) i++;
  if (i == sizeof verbs / sizeof *verbs) return false;
  answer->verb = verbs[i].verb;
  if (answer->verb == STAGE && !text_read_id(field(&at, end), &answer->id)) return false;
  if (answer->verb == STAGE || answer->verb == BASE_COPY || answer->verb == AT || answer->verb == INSTEAD)
    if (*(answer->path = field(&at, end)) != '/') return false;
  if (answer->verb == STAGE) answer->fresh = !strcmp(field(&at, end), "new");
  if (answer->verb == AT || answer->verb == BASE_COPY) {
    answer->device = strtoull(field(&at, end), NULL, 10);
    answer->inode = strtoull(field(&at, end), NULL, 10);
  }
  if (answer->verb == ERROR) {
    int error = atoi(field(&at, end));
    answer->error = error > 0 ? error : EIO;
  }
  if (answer->verb == INSTEAD || answer->verb == PLAIN || answer->verb == ERROR) text = field(&at, end);
  if (*text) say(text, "", "");
  return true;
}

/* Sends the request and receives the answer. False: the helper ended before its answer. */
static bool exchange(int fd, struct request *request, struct answer *answer) {
  struct msghdr message = {.msg_iov = request->fields, .msg_iovlen = (size_t)request->count};
  if (syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL) < 0) return false;
  long length = syscall(SYS_recvfrom, fd, answer->bytes, MESSAGE_MAX, 0, NULL, NULL);
  if (length <= 0) return false;
  if (!parse(answer, (size_t)length)) {
    answer->verb = PLAIN;
    say("the helper for files gave an unknown answer, so a file is not protected; ", "use one version of Mainstay", "");
  }
  return true;
}

static void unreachable(const struct request *request, struct answer *answer, int error) {
  static bool said;
  answer->verb = PLAIN;
  /* The program's own call will fail with the same error. */
  if (error == EMFILE || error == ENFILE) {
    answer->verb = ERROR;
    answer->error = error;
  } else if (!request->no_start) {
    gone = true;
    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
      say("the helper for files cannot be started; ", request->name ? request->name : "a file", " is not protected");
  }
}

SLOW void request_send(struct request *request, struct answer *answer) {
  int saved = errno, error = 0;
  bool answered = false;
  uint64_t signals;
  answer->path = "";
  answer->id = 0;
  answer->fresh = false;
  answer->error = 0;
  signals_block(&signals);
  /* If a helper is killed while it has the request, the request goes to the next helper. */
  for (int tries = 0; !answered && !error && tries < TRIES_MAX; tries++) {
    int fd = reach(!request->no_start);
    if (fd < 0) {
      error = errno;
    } else {
      answered = exchange(fd, request, answer);
      raw_close(fd);
    }
  }
  if (!answered) unreachable(request, answer, error);
  signals_restore(&signals);
  errno = saved;
}

static int send_short(struct request *request) {
  struct answer answer;
  request_send(request, &answer);
  return answer.verb == ERROR ? answer.error : 0;
}

static SLOW int tell_number(const char *verb, uint64_t number, bool no_start) {
  struct request request;
  char text[24];
  text_number(text, number);
  request_begin(&request, verb);
  request_add(&request, text);
  request.no_start = no_start;
  return send_short(&request);
}

SLOW int tell_closed(uint64_t id, bool synced) {
  struct request request;
  char text[17];
  request_begin(&request, "closed");
  request_add(&request, text_id(text, id));
  request_add(&request, synced ? "1" : "0");
  request_add(&request, has_mapped ? "1" : "0");
  return send_short(&request);
}

static SLOW int tell_id(const char *verb, uint64_t id) {
  struct request request;
  char text[17];
  request_begin(&request, verb);
  request_add(&request, text_id(text, id));
  return send_short(&request);
}

int tell_hold(uint64_t id) { return tell_id("hold", id); }

int tell_given_up(uint64_t id) { return tell_id("given-up", id); }

int tell_mapped(uint64_t id) { return tell_id("mapped", id); }

int tell_unmapped(uint64_t id) { return tell_id("unmapped", id); }

SLOW int tell_shared(uint64_t id, const char *end) {
  struct request request;
  char text[17];
  request_begin(&request, "shared");
  request_add(&request, text_id(text, id));
  request_add(&request, end);
  return send_short(&request);
}

int tell_left(int status) { return tell_number("left", (uint64_t)status, false); }

/* Starts no new helper: that one would not know the process that opened the file. */
int tell_ends(pid_t process) { return tell_number("ends", (uint64_t)process, true); }

/* A long list takes several messages. Only the first is `holding`, as that replaces all. */
SLOW void tell_all(const char *verb) {
  enum { LIST_MAX = 256 };
  char list[LIST_MAX][17];
  bool holding = !strcmp(verb, "holding"), first = holding;
  for (int fd = 0, count = 0, last = table_end(); fd <= last; fd++) {
    if (fd < last && kind_of(fd) == KIND_STAGED) text_id(list[count++], table_get(fd).id);
    if (count < LIST_MAX && fd < last) continue;
    if (!count && !first) continue;
    struct request request;
    request_begin(&request, first ? "holding" : "hold");
    request.no_start = !count;
    if (count) request.fields[request.count++] = (struct iovec){list, (size_t)count * sizeof *list};
    send_short(&request);
    first = false;
    count = 0;
  }
}
