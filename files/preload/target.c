/* Looks at a program before its start: some cannot load the library. Licence: MIT OR Apache-2.0.
 *
 * `mainstay files` refuses to start such a program. If a script starts one, it may be a harmless tool: it starts, and a
 * line names it. `files/src/program.rs` has the same rules. */
#include "preload.h"

#include <elf.h>

/* Bytes of a script that the kernel reads to find its interpreter. */
enum { HEAD_SIZE = 256 };
enum { SCRIPTS_MAX = 4, HEADERS_MAX = 128 };

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#endif

static const char is_static[] =
    " is not protected: it is linked statically. Start it with `mainstay files --catch kernel`";
static const char is_go[] = " is not protected: it calls the system by itself, as programs in Go do. Start it with "
                            "`mainstay files --catch kernel`";
static const char is_other[] = " is not protected: it is a program for another system or of 32 bits";
static const char is_set_user[] = " is not protected: it runs as another user, without `mainstay files`";

static bool read_at(int fd, void *to, size_t size, uint64_t at) {
  return syscall(SYS_pread64, fd, to, size, at) == (long)size;
}

/* The system empties LD_PRELOAD for such a program. */
static bool changes_user(int fd) {
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) || !S_ISREG(status.st_mode)) return false;
  return ((status.st_mode & S_ISUID) && status.st_uid != (uid_t)syscall(SYS_getuid)) ||
         ((status.st_mode & S_ISGID) && status.st_gid != (gid_t)syscall(SYS_getgid));
}

/* The linker of Go leaves a note with its name. */
static bool has_go_note(int fd, const Elf64_Phdr *header) {
  char notes[HEAD_SIZE];
  size_t size = header->p_filesz < sizeof notes ? header->p_filesz : sizeof notes, at = 0;
  if (!read_at(fd, notes, size, header->p_offset)) return false;
  while (at + sizeof(Elf64_Nhdr) + 4 <= size) {
    Elf64_Nhdr note;
    memcpy(&note, notes + at, sizeof note);
    if (note.n_namesz == 4 && !memcmp(notes + at + sizeof note, "Go\0", 4)) return true;
    at += sizeof note + (((size_t)note.n_namesz + 3) & ~(size_t)3) + (((size_t)note.n_descsz + 3) & ~(size_t)3);
  }
  return false;
}

/* The loader itself is static, and loads libraries into the program that its arguments name. */
static bool is_loader(const char *path) {
  const char *slash = strrchr(path, '/');
  return !strncmp(slash ? slash + 1 : path, "ld", 2) && strstr(path, ".so");
}

static const char *judge_elf(int fd, const char *path) {
  Elf64_Ehdr file;
  Elf64_Phdr header;
  bool loads = false, is_by_go = false, is_foreign = false;
  char loader[HEAD_SIZE];
  if (!read_at(fd, &file, sizeof file, 0) || memcmp(file.e_ident, ELFMAG, SELFMAG)) return NULL;
  if (file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_machine != MACHINE) return is_other;
  if (file.e_phentsize != sizeof header) return NULL;
  for (int i = 0; i < file.e_phnum && i < HEADERS_MAX; i++) {
    if (!read_at(fd, &header, sizeof header, file.e_phoff + (uint64_t)i * sizeof header)) return NULL;
    if (header.p_type == PT_NOTE && has_go_note(fd, &header)) is_by_go = true;
    if (header.p_type != PT_INTERP) continue;
    size_t size = header.p_filesz < sizeof loader ? header.p_filesz : sizeof loader;
    loads = true;
    is_foreign = size && read_at(fd, loader, size, header.p_offset) && memmem(loader, size, "/ld-musl", 8);
  }
  return is_by_go ? is_go : is_foreign ? is_other : loads || is_loader(path) ? NULL : is_static;
}

/* The interpreter of a script. False: it is no script. */
static bool find_interpreter(int fd, char script[HEAD_SIZE]) {
  long length = syscall(SYS_pread64, fd, script, HEAD_SIZE - 1, 0);
  if (length < 3 || memcmp(script, "#!", 2)) return false;
  script[length] = 0;
  char *begin = script + 2 + strspn(script + 2, " \t");
  begin[strcspn(begin, " \t\n")] = 0;
  memmove(script, begin, strlen(begin) + 1);
  return *script;
}

/* The reason that the program cannot load the library, or NULL. An unreadable program gives NULL. */
static SLOW const char *reason_of(int dirfd, const char *path) {
  char script[HEAD_SIZE];
  for (int i = 0; i < SCRIPTS_MAX; i++) {
    int fd = raw_open(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return NULL;
    bool is_script = find_interpreter(fd, script);
    const char *reason = is_script ? NULL : changes_user(fd) ? is_set_user : judge_elf(fd, path);
    raw_close(fd);
    if (!is_script) return reason;
    path = script;
    dirfd = AT_FDCWD;
  }
  return NULL;
}

static SLOW void tell(const char *path, const char *reason) {
  struct request request;
  struct answer answer;
  request_begin(&request, "uncaught");
  request_add(&request, path);
  request_send(&request, &answer);
  if (answer.verb == OK) say(path, reason, "");
}

static SLOW void tell_linked(const char *link, const char *reason) {
  char name[PATH_MAX];
  tell(raw_readlink(AT_FDCWD, link, name, sizeof name) > 0 ? name : link, reason);
}

SLOW void target_look(int dirfd, const char *path) {
  char link[40] = "/proc/self/fd/";
  int saved = errno;
  if (path && !*path) {
    /* A descriptor names the program. */
    text_number(link + strlen(link), (uint64_t)dirfd);
    path = link;
  }
  const char *reason = path ? reason_of(dirfd, path) : NULL;
  if (reason && path == link) tell_linked(link, reason);
  if (reason && path != link) tell(path, reason);
  errno = saved;
}

SLOW void target_look_in_path(const char *name) {
  char path[PATH_MAX + NAME_MAX + 2];
  const char *folders = getenv("PATH");
  int saved = errno;
  struct stat status;
  if (!name || strchr(name, '/')) return target_look(AT_FDCWD, name);
  for (const char *at = folders ? folders : "/bin:/usr/bin", *end; *name; at = end + 1) {
    end = strchrnul(at, ':');
    size_t length = (size_t)(end - at);
    if (length < PATH_MAX && strlen(name) <= NAME_MAX) {
      memcpy(path, at, length);
      if (length) path[length++] = '/';
      strcpy(path + length, name);
      if (!raw_stat(AT_FDCWD, path, &status, 0) && S_ISREG(status.st_mode) &&
          !syscall(SYS_faccessat, AT_FDCWD, path, X_OK)) {
        errno = saved;
        return target_look(AT_FDCWD, path);
      }
    }
    if (!*end) break;
  }
  errno = saved;
}
