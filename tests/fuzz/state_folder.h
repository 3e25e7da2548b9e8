/* SPDX-License-Identifier: MIT */
/*
 * A state folder in memory, for harnesses of files that any program may have left in a bad state.
 */
#ifndef INBOXFS_TESTS_FUZZ_STATE_FOLDER_H
#define INBOXFS_TESTS_FUZZ_STATE_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "store/record_log.h"

static char state_folder_path[] = "/dev/shm/inboxfs-fuzz-XXXXXX";
static int state_folder_fd = -1;

/* Between two inputs nothing stays in it. */
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

/* The folder, emptied. */
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

static inline int state_folder_visit_nothing(void *context, unsigned int kind, const void *payload,
                                             size_t len, uint64_t position)
{
    (void)context, (void)kind, (void)payload, (void)len, (void)position;
    return 0;
}

/* Makes the file. The first byte chooses: any bytes, or a log that is intact and holds what the rest says, a
 * kind and a length before each record. `tame`, or NULL, may change these. */
static inline void state_folder_put(int dir_fd, const char *name, const uint8_t *bytes, size_t len,
                                    void (*tame)(char *payload, size_t len))
{
    bool is_raw = len > 0 && bytes[0] % 4 == 0;
    if (is_raw) {
        int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        FUZZ_CHECK(fd >= 0 && write(fd, bytes + 1, len - 1) == (ssize_t)(len - 1));
        close(fd);
        return;
    }
    struct record_log *log = NULL;
    FUZZ_CHECK(record_log_open(dir_fd, name, state_folder_visit_nothing, NULL, &log) == 0);
    for (size_t at = 1; at + 3 <= len;) {
        size_t left = len - at - 3;
        size_t part = (size_t)bytes[at + 1] | (size_t)bytes[at + 2] << 8;
        size_t payload_len = part < left ? part : left;
        _cleanup_free_ char *payload = fuzz_string(bytes + at + 3, payload_len);
        if (tame != NULL)
            tame(payload, payload_len);
        record_log_append(log, bytes[at] % (RECORD_KIND_MAX + 1), &(struct iovec){payload, payload_len}, 1);
        at += 3 + payload_len;
    }
    record_log_free(log);
}

#endif
