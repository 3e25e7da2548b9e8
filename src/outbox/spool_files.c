/* SPDX-License-Identifier: MIT */
/*
 * Names in the spool.
 */
#include "outbox/spool_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

enum {
    QUARANTINE_TRIES = 1000
};

void spool_data_name(uint64_t number, char ret_name[SPOOL_NAME_SIZE])
{
    snprintf(ret_name, SPOOL_NAME_SIZE, "%" PRIu64 ".data", number);
}

void spool_envelope_name(uint64_t number, char ret_name[SPOOL_NAME_SIZE])
{
    snprintf(ret_name, SPOOL_NAME_SIZE, "%" PRIu64 ".json", number);
}

/* Only the very names that the functions above make. Numbers stay below 2^62, so that counting on cannot
 * overflow. */
static bool parse_name(const char *name, uint64_t *ret_number)
{
    char made[SPOOL_NAME_SIZE];
    char *end;
    errno = 0;
    uint64_t number = strtoull(name, &end, 10);
    if (errno != 0 || number == 0 || number >> 62 != 0)
        return false;
    spool_data_name(number, made);
    if (strcmp(name, made) != 0)
        spool_envelope_name(number, made);
    *ret_number = number;
    return strcmp(name, made) == 0;
}

static bool is_own_file(const char *name)
{
    static const char *const names[] = {
        ".", "..", SPOOL_VERSION_FILE, SPOOL_NUMBERS_FILE, SPOOL_COUNT_FILE, SPOOL_QUARANTINE};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_unfinished(const char *name)
{
    size_t len = strlen(name);
    size_t suffix = strlen(SPOOL_NEW_SUFFIX);
    return len > suffix && strcmp(name + len - suffix, SPOOL_NEW_SUFFIX) == 0;
}

static int add_number(struct spool_numbers *numbers, uint64_t number)
{
    if (numbers->len == numbers->capacity) {
        size_t capacity = numbers->capacity == 0 ? 64 : numbers->capacity * 2;
        uint64_t *items = realloc(numbers->items, capacity * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        numbers->items = items;
        numbers->capacity = capacity;
    }
    numbers->items[numbers->len++] = number;
    return 0;
}

static int compare_numbers(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void drop_duplicates(struct spool_numbers *numbers)
{
    if (numbers->len == 0)
        return;
    qsort(numbers->items, numbers->len, sizeof(*numbers->items), compare_numbers);
    size_t kept = 1;
    for (size_t i = 1; i < numbers->len; i++)
        if (numbers->items[i] != numbers->items[kept - 1])
            numbers->items[kept++] = numbers->items[i];
    numbers->len = kept;
}

static int scan_entry(int dir_fd, const struct dirent *entry, struct spool_numbers *numbers)
{
    uint64_t number;
    if (is_own_file(entry->d_name))
        return 0;
    bool is_file = entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN;
    if (is_file && parse_name(entry->d_name, &number))
        return add_number(numbers, number);
    if (is_file && is_unfinished(entry->d_name)) {
        unlinkat(dir_fd, entry->d_name, 0);
        return 0;
    }
    log_warning("a foreign file in the spool was set aside in spool/%s", SPOOL_QUARANTINE);
    spool_files_quarantine(dir_fd, entry->d_name);
    return 0;
}

int spool_files_scan(int dir_fd, struct spool_numbers *ret_numbers)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return -ENOMEM;
    }
    int error = 0;
    const struct dirent *entry;
    while (error == 0) {
        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            error = -errno;
            break;
        }
        error = scan_entry(dir_fd, entry, ret_numbers);
    }
    closedir(dir);
    drop_duplicates(ret_numbers);
    return error;
}

void spool_files_quarantine(int dir_fd, const char *name)
{
    char target[NAME_MAX + 16];
    _cleanup_close_ int quarantine = file_open_dir(dir_fd, SPOOL_QUARANTINE);
    int error = quarantine < 0 ? quarantine : -EEXIST;
    for (unsigned int i = 0; error == -EEXIST && i < QUARANTINE_TRIES; i++) {
        if (i == 0)
            snprintf(target, sizeof(target), "%s", name);
        else
            snprintf(target, sizeof(target), "%.240s-%u", name, i);
        error = renameat2(dir_fd, name, quarantine, target, RENAME_NOREPLACE) == 0 ? 0 : -errno;
    }
    if (error != 0 && error != -ENOENT)
        log_error("a file of the spool could not be set aside: %s", strerror(-error));
}
