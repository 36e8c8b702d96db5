#define _GNU_SOURCE
#include "file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stop.h"

int file_make(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) stop_errno("make %s", path);
  return file;
}

void file_write(int file, const void *data, size_t bytes) {
  const unsigned char *from = data;
  while (bytes > 0) {
    ssize_t done = write(file, from, bytes);
    if (done <= 0) stop_errno("write %zu bytes", bytes);
    from += done;
    bytes -= (size_t)done;
  }
}

void file_read(int file, void *data, size_t bytes) {
  unsigned char *into = data;
  while (bytes > 0) {
    ssize_t done = read(file, into, bytes);
    if (done <= 0) stop_errno("read %zu bytes", bytes);
    into += done;
    bytes -= (size_t)done;
  }
}

void file_sync(int file) {
  if (fsync(file) != 0) stop_errno("sync a file");
}

static uint64_t blocks_in(DIR *folder) {
  uint64_t bytes = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    struct stat status;
    if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(status.st_mode))
      bytes += 512 * (uint64_t)status.st_blocks;
    else if (S_ISDIR(status.st_mode) && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      int file = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      DIR *within = file < 0 ? NULL : fdopendir(file);
      if (!within) stop_errno("read the folder %s", entry->d_name);
      bytes += blocks_in(within);
    }
  }
  closedir(folder);
  return bytes;
}

uint64_t file_blocks_below(const char *directory) {
  DIR *folder = directory ? opendir(directory) : NULL;
  if (!folder) stop_errno("read the folder %s", directory ? directory : "of the pools");
  return blocks_in(folder);
}

size_t file_transfer(size_t left) { return left < CHUNK_BYTES ? left : CHUNK_BYTES; }
