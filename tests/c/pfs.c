/* Makes the calls of the paper's interface on every rank, and prints the results. Also valid C++.
 *
 *     pfs SPACE COMMAND...
 *
 * A command is words with colons: a name, then numbers, as in write:SEED:BYTES. The rank and the seed determine the
 * bytes that a rank writes. Each rank has 777 bytes more than the rank before. With odd BYTES rank 0 writes nothing. */
#include <mainstay_pfs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 5000
#define ROOM ((size_t)8 << 20)

static int rank;
static PFS_file file;
static unsigned char written[ROOM], got[ROOM];

static void say(const char *call, const char *result, const char *text) {
  printf("= %d %s %s %s\n", rank, call, result, text);
  fflush(stdout);
}

static const char *name_of(mainstay_status status) { return mainstay_status_name(status); }

static void failed(const char *call, mainstay_status status) { say(call, name_of(status), mainstay_error_message()); }

/* The first bytes differ between ranks and seeds. */
static void fill(unsigned char *bytes, size_t count, uint64_t seed) {
  uint64_t state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)rank * UINT64_C(0xD1B54A32D192ED03);
  size_t i;
  for (i = 0; i < count; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    bytes[i] = (unsigned char)(state >> 56);
  }
}

static size_t size_of(size_t bytes) { return bytes % 2 == 1 && rank == 0 ? 0 : bytes + 777 * (size_t)rank; }

static int write_once(uint64_t seed, size_t bytes) {
  size_t count = size_of(bytes);
  if (count > ROOM) return 0;
  fill(written, count, seed);
  return PFS_write_file(written, count, file) == count;
}

/* Prints the seed of `count` bytes. */
static void told(const char *call, size_t count) {
  char text[100];
  uint64_t seed = 0;
  unsigned char *expected = written;
  if (count == PFS_ERROR) {
    failed(call, PFS_status(file));
    return;
  }
  for (seed = 0; count > 0 && seed < SEEDS; seed++) {
    size_t few = count < 16 ? count : 16;
    fill(expected, few, seed);
    if (memcmp(expected, got, few) != 0) continue;
    fill(expected, count, seed);
    if (memcmp(expected, got, count) == 0) break;
  }
  if (seed == SEEDS) {
    say(call, "WRONG", "bytes that nobody wrote");
    return;
  }
  snprintf(text, sizeof text, "revision %d bytes %lu seed %lu", PFS_revision(file), (unsigned long)count,
           (unsigned long)seed);
  say(call, "OK", text);
}

static void size_told(const char *call, size_t bytes) {
  char text[30];
  snprintf(text, sizeof text, "%lu", (unsigned long)bytes);
  if (bytes == PFS_ERROR)
    failed(call, PFS_status(file));
  else
    say(call, "OK", text);
}

/* Writes with increasing seeds until the process is killed. */
static void go_on(size_t bytes, unsigned long seed) {
  char text[60];
  for (; seed < SEEDS; seed++) {
    if (!write_once(seed, bytes)) {
      failed("go_on", PFS_status(file));
      return;
    }
    snprintf(text, sizeof text, "wrote %lu", seed);
    if (rank == 0) say("go_on", "OK", text);
  }
}

/* Many revisions, each read back with the one before. */
static void many(unsigned long first, unsigned long count, size_t bytes) {
  unsigned long seed;
  char call[40];
  for (seed = first; seed < first + count; seed++) {
    size_t now = bytes - (seed % 3) * (bytes / 4);
    if (!write_once(seed, now)) {
      failed("many", PFS_status(file));
      return;
    }
    snprintf(call, sizeof call, "many:%lu", seed);
    told(call, PFS_read_file(got, ROOM, file));
    if (seed > first) {
      snprintf(call, sizeof call, "before:%lu", seed);
      told(call, PFS_read_file_revision(got, ROOM, file, PFS_revision(file) - 1));
    }
  }
}

static void null_pointers(void) {
  uint64_t bytes;
  PFS_file none = NULL;
  if (PFS_write_file(written, 1, NULL) != PFS_ERROR || PFS_status(NULL) == MAINSTAY_OK) say("null", "WRONG", "write");
  failed("null:write", PFS_status(NULL));
  if (PFS_read_file(got, 1, NULL) != PFS_ERROR) say("null", "WRONG", "read");
  if (PFS_read_file_revision(got, 1, NULL, 1) != PFS_ERROR) say("null", "WRONG", "read_revision");
  if (PFS_size_file(NULL) != PFS_ERROR || PFS_size_file_revision(NULL, 1) != PFS_ERROR) say("null", "WRONG", "size");
  if (PFS_revision(NULL) != 0) say("null", "WRONG", "revision");
  failed("null:close", PFS_close(NULL));
  failed("null:close:none", PFS_close(&none));
  failed("null:bytes", mainstay_get_bytes(file->session, MAINSTAY_NEWEST, PFS_ITEM, rank == 1 ? NULL : &bytes));
}

static void obey(const char *space, char *words) {
  static MPI_Info info = MPI_INFO_NULL;
  const char *command = strtok(words, ":"), *first = strtok(NULL, ":"), *second = strtok(NULL, ":"),
             *third = strtok(NULL, ":");
  unsigned long n = first ? strtoul(first, NULL, 0) : 0, m = second ? strtoul(second, NULL, 0) : 0;
  mainstay_status status;
#define IS(name) (strcmp(command, name) == 0)
  if (IS("hint")) {
    if (info == MPI_INFO_NULL) MPI_Info_create(&info);
    MPI_Info_set(info, (char *)first, (char *)second);
  } else if (IS("open") || IS("open_at_1")) {
    status = PFS_open(MPI_COMM_WORLD, space, IS("open") ? n : 0, info, IS("open_at_1") && rank == 1 ? NULL : &file);
    failed("open", status);
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  } else if (IS("close"))
    failed("close", PFS_close(&file));
  else if (IS("write")) {
    if (write_once(n, m))
      say("write", "OK", "");
    else
      failed("write", PFS_status(file));
  } else if (IS("null_at")) {
    PFS_write_file((unsigned long)rank == n ? NULL : written, 1000, file);
    failed("null_at", PFS_status(file));
    PFS_read_file((unsigned long)rank == n ? NULL : got, ROOM, file);
    failed("null_at", PFS_status(file));
  } else if (IS("huge_at")) {
    PFS_write_file(written, (unsigned long)rank == n ? (size_t)-7 : 1000, file);
    failed("huge_at", PFS_status(file));
  } else if (IS("read"))
    told("read", PFS_read_file(got, first ? n : ROOM, file));
  else if (IS("read_at"))
    told("read_at", PFS_read_file(got, (unsigned long)rank == n ? m : ROOM, file));
  else if (IS("revision"))
    told("revision", PFS_read_file_revision(got, ROOM, file, first ? atoi(first) : 0));
  else if (IS("mixed"))
    told("mixed", PFS_read_file_revision(got, ROOM, file, (int)n + rank));
  else if (IS("size"))
    size_told("size", first ? PFS_size_file_revision(file, atoi(first)) : PFS_size_file(file));
  else if (IS("many"))
    many(n, m, third ? strtoul(third, NULL, 0) : 0);
  else if (IS("go_on"))
    go_on(n, m);
  else if (IS("null"))
    null_pointers();
  else
    say(command, "WRONG", "no such command");
}

int main(int argc, char **argv) {
  int i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (i = 2; i < argc; i++) obey(argv[1], argv[i]);
  MPI_Finalize();
  return 0;
}
