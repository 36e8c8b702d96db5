/* The parts of the preload library, and their shared declarations. Licence: MIT OR Apache-2.0.
 *
 * All parts keep three rules. A call without a matching name goes to the next library, and costs a few loads. Nothing
 * here allocates memory, as a program may open files inside its allocator or in a signal handler. Only functions
 * marked SLOW have large buffers, as a signal handler may run on a stack of 8 KiB.
 */
#ifndef MAINSTAY_FILES_PRELOAD_H
#define MAINSTAY_FILES_PRELOAD_H

#include <aio.h>
#include <alloca.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "protocol.h"
#include "symbols.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW __attribute__((noinline, cold))

/* ---- next.c: the function behind ours, which the program would call without this library ---- */

#define POINTER(name) __typeof__(name) *name;
struct next {
  SYMBOLS(POINTER)
};
#undef POINTER
extern struct next next;
void *next_symbol(const char *name);
void next_all(void);
#define NEXT(name)                                                                                                     \
  ({                                                                                                                   \
    if (!next.name) next.name = (__typeof__(name) *)next_symbol(#name);                                                \
    next.name;                                                                                                         \
  })

/* ---- settings.c: the environment, read once ---- */

enum { PATTERNS_MAX = 128 };
struct pattern {
  const char *text;
  const char *tail; /* the end of TEXT without special characters: a matching name has the same end */
  size_t tail_length;
  bool slash;
};
struct patterns {
  struct pattern at[PATTERNS_MAX];
  int count;
};
struct settings {
  char stage[PATH_MAX];      /* as it stands in the environment */
  char stage_real[PATH_MAX]; /* without symbolic links */
  char temporary[PATH_MAX];  /* TMPDIR without symbolic links; empty if patterns apply there as well */
  char options[MESSAGE_MAX / 4];
  char command[PATH_MAX];
  struct patterns match, exclude;
  bool several_nodes; /* the job has processes on other nodes */
};
extern struct settings settings;
enum { STATE_UNKNOWN, STATE_READING, STATE_OFF, STATE_ON, STATE_HOST };
extern int settings_state;
bool settings_read(void);
bool settings_of_host(void);
/* hosts.c: this thread makes a call for a rank. */
extern _Thread_local bool serves_rank __attribute__((tls_model("initial-exec")));
/* Whether this process has files to protect. */
static inline bool is_on(void) {
  int state = __atomic_load_n(&settings_state, __ATOMIC_ACQUIRE);
  return state == STATE_ON || (state == STATE_HOST && serves_rank) || (state < STATE_OFF && settings_read());
}
/* The variables that `mainstay files` has set, each NAME=VALUE, and the path of this library. */
enum { KEPT_MAX = 5 };
extern const char *settings_kept[KEPT_MAX + 1];
extern const char *settings_library;
/* Prints a line on standard error. */
void say(const char *text, const char *more, const char *end);

/* ---- names.c: the file behind a name, and the decision to protect it ---- */

struct file {
  char folder[PATH_MAX];
  char device[24], inode[24];
  char name[NAME_MAX + 1];
  bool exists; /* under its published name */
  bool wanted; /* the patterns match */
  mode_t mode; /* of the published name */
};
bool fits(const char *pattern, const char *text);
bool is_below(const char *path, const char *folder);
/* Looks at the last part of PATH only, without a system call. */
bool is_candidate(const char *path);
static inline bool may_match(const char *path) { return is_on() && is_candidate(path); }
/* The absolute name. False, and an empty text, if TO is too short. */
bool file_path(const struct file *file, char *to, size_t size);
/* Finds the folder and the name of PATH. False: the kernel must get the call unchanged. */
bool find_file(struct file *file, int dirfd, const char *path, bool follow);
/* As find_file, but true only if the patterns match, and the name is free or that of a regular file. */
bool find_wanted(struct file *file, int dirfd, const char *path, bool follow);

/* ---- helper.c: one question, one answer ---- */

enum verb { PLAIN, STAGE, BASE_COPY, AT, INSTEAD, PUBLISHED, OK, ERROR };
struct answer {
  enum verb verb;
  uint64_t id;
  const char *path;
  bool fresh; /* STATE is new */
  int error;
  uint64_t device, inode; /* of AT and BASE_COPY: under its name the file will have these; 0: nobody knows yet */
  char bytes[MESSAGE_MAX + 1];
};
struct request {
  struct iovec fields[12];
  int count;
  const char *name; /* of its first file, for messages */
  bool no_start;    /* the request is not worth a new helper */
};
void request_begin(struct request *request, const char *verb);
void request_add(struct request *request, const char *field);
void request_add_file(struct request *request, const struct file *file);
/* Sends a request, waits for the answer, and prints its text. Keeps errno. Without a helper the answer is PLAIN. */
void request_send(struct request *request, struct answer *answer);
/* Short requests. They return 0 or an errno. */
int tell_closed(uint64_t id, bool synced);
int tell_hold(uint64_t id);
int tell_given_up(uint64_t id);
int tell_mapped(uint64_t id);
int tell_unmapped(uint64_t id);
int tell_left(int status);
int tell_ends(pid_t process);
int tell_shared(uint64_t id, const char *end);
/* Reports all descriptors in the table: VERB is hold or holding. */
void tell_all(const char *verb);
void signals_block(uint64_t *old);
void signals_restore(const uint64_t *old);

/* ---- start.c ---- */

bool start_helper(void);

/* ---- target.c: programs that cannot load this library ---- */

/* Reports the program at PATH to the helper if it cannot load this library. The first time prints a line. */
void target_look(int dirfd, const char *path);
/* As target_look, for the program that execvp would find by NAME. */
void target_look_in_path(const char *name);

/* ---- table.c: the kind of each descriptor ---- */

enum { DESCRIPTORS = 65536 };
enum { KIND_NONE = 0, KIND_STAGED = 1, KIND_BASE = 2, KIND_MASK = 3, KIND_SYNCED = 4, KIND_GIVEN_UP = 8 };
extern uint8_t table_kinds[DESCRIPTORS];
static inline int kind_of(int fd) {
  return (unsigned)fd < DESCRIPTORS ? __atomic_load_n(&table_kinds[fd], __ATOMIC_ACQUIRE) & KIND_MASK : KIND_NONE;
}
struct entry {
  int kind;
  bool synced, given_up;
  uint64_t id; /* of a base descriptor: its place in the list of changing.c */
};
void table_set(int fd, int kind, uint64_t id);
void table_set_stream(int fd, FILE *stream);
void table_set_synced(int fd);
void table_set_given_up(int fd);
struct entry table_get(int fd);
struct entry table_take(int fd);
int table_end(void); /* no descriptor from this one on is in the table */
bool table_has_staged(void);
void table_flush(void);
/* False in the child of vfork: it has the memory of its parent, and must not touch the table. */
bool is_owner(void);
void set_owner(void);

/* ---- changing.c: descriptors that are read-only until the first change ---- */

bool base_add(int fd, int access, const struct file *file);
void base_drop(uint64_t place);
int base_access(int fd);
bool base_change(int fd);
bool base_lock(int fd);
void base_change_all(bool inherited_only);
void base_change_named(const struct file *file);
void base_forked(void);
/* Exchanges a base descriptor before a change. True if that failed, with errno. */
static inline bool is_stuck(int fd) { return kind_of(fd) == KIND_BASE && !base_change(fd); }
/* Exchanges a base descriptor before an exclusive lock. True if that failed, with errno. */
static inline bool is_unlockable(int fd) { return kind_of(fd) == KIND_BASE && !base_lock(fd); }

/* ---- mapping.c ---- */

/* Whether this process, or a parent by fork, has mapped a staged file. Never unset. */
extern bool has_mapped;
/* In a child: reports its mappings to the helper. */
void mappings_inherited(void);

/* ---- processes.c ---- */

/* FD was opened by the name of another descriptor. */
void enter_reopened(int fd);

/* ---- opening.c ---- */

enum { PASS = -2 };
enum course { COURSE_PASS, COURSE_FAIL, COURSE_READ, COURSE_STAGE, COURSE_BASE };
struct choice {
  struct file file;
  struct answer answer;
};
/* Chooses the file for an open of PATH with FLAGS. With NOW the result is never COURSE_BASE. */
enum course choose(struct choice *choice, int dirfd, const char *path, int flags, bool now);
/* Before PATH is opened past the helper. True if that may open another descriptor of a file: call enter_reopened. */
bool before_reopen(const char *path, int flags);
/* Enters a new descriptor of a staged file in the table. On failure reports it to the helper, sets errno, and does not
 * close the descriptor. */
bool choice_enter(const struct choice *choice, int fd, int flags, mode_t mode);
/* openat. NAME gets the absolute name of a file that is not opened under its name. PASS: the kernel must
 * get the call unchanged. */
int open_named(int dirfd, const char *path, int flags, mode_t mode, char *name);
/* Reports to the helper that the staged file could not be opened. */
void choice_abandon(const struct choice *choice);

/* ---- shared.c: MPI_File_open and MPI_File_close ---- */

/* Whether this thread opens FILE by MPI for ranks of several nodes. */
bool is_shared_open(const struct file *file);
/* Whether it does, and FILE is a helper file of MPI, such as a lock. */
bool is_beside_shared_open(const struct file *file);
/* The course of such an open. COURSE_STAGE: ask the helper. */
enum course shared_course(void);
/* Records the helper's answer to such an open. */
void shared_opened(uint64_t id);
/* Whether the end of MPI_File_open will report this close to the helper. */
bool shared_closes_late(struct entry entry);

/* ---- identity.c: device and inode of a file that is on its way to its name ---- */

/* Remembers the file of an answer AT or BASE_COPY. */
void identity_learn(const struct answer *answer);
/* Replaces device and inode of a staged file by those of the published one, if they are known. */
void identity_show(dev_t *device, ino_t *inode);

/* ---- naming.c ---- */

/* Whether the helper must do a rename: a name matches, or OLD is a folder. */
bool may_rename(int dirfd, const char *old, const char *new);

/* ---- listing.c: folders, without Mainstay's own ---- */

/* Completes a call that removes a folder: with nothing in it but Mainstay's own folder, it counts as empty. */
int folder_removed(int dirfd, const char *path, int result);

/* ---- closing.c ---- */

/* The last step of a close: reports it to the helper. Returns 0, or -1 with errno. */
int entry_closed(struct entry entry);

/* ---- system calls without the C library's functions, which this library or another may have replaced ---- */

static inline int raw_open(int dirfd, const char *path, int flags) {
  return (int)syscall(SYS_openat, dirfd, path, flags, 0);
}
static inline int raw_close(int fd) { return (int)syscall(SYS_close, fd); }
static inline int raw_fcntl(int fd, int command, long argument) {
  return (int)syscall(SYS_fcntl, fd, command, argument);
}
static inline long raw_readlink(int dirfd, const char *path, char *to, size_t size) {
  long length = syscall(SYS_readlinkat, dirfd, path, to, size - 1);
  if (length >= 0) to[length] = 0;
  return length;
}
static inline int raw_stat(int dirfd, const char *path, struct stat *status, int flags) {
  return (int)syscall(SYS_newfstatat, dirfd, path, status, flags);
}

/* Texts are made without the C library's formats, which may allocate. */
char *text_number(char *to, uint64_t value);
char *text_id(char to[17], uint64_t id);
bool text_read_id(const char *text, uint64_t *id);

#endif
