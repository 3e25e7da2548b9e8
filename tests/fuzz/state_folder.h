/* SPDX-License-Identifier: MIT */
/*
 * A state folder in memory, for harnesses of files that any program may have damaged.
 */
#ifndef INBOXFS_TESTS_FUZZ_STATE_FOLDER_H
#define INBOXFS_TESTS_FUZZ_STATE_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

static char state_folder_path[] = "/dev/shm/inboxfs-fuzz-XXXXXX";
static int state_folder_fd = -1;

/* Removes all files, so that each input begins with an empty folder. */
static inline void state_folder_empty(void)
{
    DIR *folder = opendir(state_folder_path);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(state_folder_fd, entry->d_name, 0);
    closedir(folder);
}

static inline void state_folder_remove(void)
{
    state_folder_empty();
    rmdir(state_folder_path);
}

/* Empties the folder and returns its descriptor. */
static inline int state_folder(void)
{
    if (state_folder_fd < 0) {
        FUZZ_CHECK(mkdtemp(state_folder_path) != NULL);
        atexit(state_folder_remove);
        state_folder_fd = open(state_folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        FUZZ_CHECK(state_folder_fd >= 0);
    }
    state_folder_empty();
    return state_folder_fd;
}

static inline void state_folder_put(int dir_fd, const char *name, const void *bytes, size_t len)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

/* Flips bits of the file. Two bytes choose a position, and the third the bits. */
static inline void state_folder_damage(int dir_fd, const char *name, const uint8_t *bytes, size_t len)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    for (size_t i = 0; i + 3 <= len && end > 0; i += 3) {
        uint8_t byte;
        off_t at = (off_t)(((size_t)bytes[i] << 8 | bytes[i + 1]) * 5 % (size_t)end);
        FUZZ_CHECK(pread(fd, &byte, 1, at) == 1);
        byte ^= bytes[i + 2];
        FUZZ_CHECK(pwrite(fd, &byte, 1, at) == 1);
    }
    if (fd >= 0)
        close(fd);
}

#endif
