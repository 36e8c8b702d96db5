#define _GNU_SOURCE
#include "file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stop.h"

int file_make(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        stop_errno("make %s", path);
    return file;
}

void file_write(int file, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        ssize_t done = write(file, from, bytes);
        if (done <= 0)
            stop_errno("write %zu bytes", bytes);
        from += done;
        bytes -= (size_t)done;
    }
}

void file_read(int file, void *data, size_t bytes)
{
    unsigned char *into = data;
    while (bytes > 0) {
        ssize_t done = read(file, into, bytes);
        if (done <= 0)
            stop_errno("read %zu bytes", bytes);
        into += done;
        bytes -= (size_t)done;
    }
}

void file_sync(int file)
{
    if (fsync(file) != 0)
        stop_errno("sync a file");
}

uint64_t file_blocks_below(const char *directory)
{
    uint64_t bytes = 0;
    DIR *folder = directory ? opendir(directory) : NULL;
    if (!folder)
        stop_errno("read the folder %s", directory ? directory : "of the pools");
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
            bytes += 512 * (uint64_t)status.st_blocks;
    }
    closedir(folder);
    return bytes;
}

size_t file_transfer(size_t left)
{
    return left < CHUNK_BYTES ? left : CHUNK_BYTES;
}
