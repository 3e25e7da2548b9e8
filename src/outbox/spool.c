/* SPDX-License-Identifier: MIT */
/*
 * The spool's files.
 */
#include "outbox/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "base/log.h"
#include "mail/envelope.h"
#include "mail/reason.h"
#include "outbox/dir_sync.h"
#include "outbox/spare_files.h"
#include "outbox/spool_files.h"

enum {
    VERSION = 2,
    NUMBERS_AT_ONCE = 1024, /* the mark on disk runs ahead by this much, to be written seldom */
    COUNT_LINE_BYTES = 48,
    COPY_BYTES = 64 * 1024,
};

struct spool {
    int dir_fd;
    int count_fd;
    struct dir_sync sync;
    struct spare_files spares;
    pthread_mutex_t lock;
    uint64_t next_number; /* protected by lock */
    uint64_t mark;        /* protected by lock; numbers below it may have been given */
};

/* ---------------------------------------------------------------- opening */

static int read_number_file(int dir_fd, const char *name, uint64_t *ret_value)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int error = file_read_at(dir_fd, name, 64, &text, &len);
    if (error != 0)
        return error;
    char *end;
    errno = 0;
    *ret_value = strtoull(text, &end, 10);
    return end == text || errno != 0 || (*end != '\n' && *end != '\0') ? -EBADMSG : 0;
}

static int write_number_file(int dir_fd, const char *name, uint64_t value)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
    return file_replace_at(dir_fd, name, text, (size_t)len, 0600);
}

/* From version 1, in which names of messages had no control characters and at most 242 bytes, nothing is to
 * be converted; but a program of version 1 would set aside what this one writes. */
static int upgrade(int dir_fd, uint64_t version)
{
    if (version < 1)
        return -EBADMSG;
    log_info("the spool is upgraded from version %" PRIu64 " to %d", version, VERSION);
    return write_number_file(dir_fd, SPOOL_VERSION_FILE, VERSION);
}

static int check_version(int dir_fd, char **ret_reason)
{
    uint64_t version;
    int error = read_number_file(dir_fd, SPOOL_VERSION_FILE, &version);
    if (error == -ENOENT)
        error = write_number_file(dir_fd, SPOOL_VERSION_FILE, version = VERSION);
    if (error == 0 && version < VERSION)
        error = upgrade(dir_fd, version);
    if (error != 0)
        return reason_give(ret_reason, error, "the spool's version file cannot be used: %s",
                           strerror(-error));
    if (version > VERSION)
        return reason_give(ret_reason, -EPROTO,
                           "the spool is of version %" PRIu64 ", this program knows version %d", version,
                           VERSION);
    return 0;
}

int spool_open(int state_dir_fd, struct spool **ret_spool, char **ret_reason)
{
    _cleanup_close_ int dir_fd = file_open_dir(state_dir_fd, "spool");
    if (dir_fd < 0)
        return reason_give(ret_reason, dir_fd, "the spool cannot be opened: %s", strerror(-dir_fd));
    int error = check_version(dir_fd, ret_reason);
    if (error != 0)
        return error;
    uint64_t mark = 1;
    error = read_number_file(dir_fd, SPOOL_NUMBERS_FILE, &mark);
    if (error != 0 && error != -ENOENT)
        log_warning("the spool's file of numbers cannot be read (%s); going on from the files there are",
                    strerror(-error));

    struct spool *spool = calloc(1, sizeof(*spool));
    if (spool == NULL)
        return reason_give(ret_reason, -ENOMEM, "no memory");
    spool->count_fd = openat(dir_fd, SPOOL_COUNT_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    spool->mark = error == 0 && mark > 0 ? mark : 1;
    spool->next_number = spool->mark;
    spool->dir_fd = TAKE_FD(dir_fd);
    pthread_mutex_init(&spool->lock, NULL);
    dir_sync_init(&spool->sync, spool->dir_fd);
    spare_files_init(&spool->spares, &spool->sync);
    *ret_spool = spool;
    return 0;
}

void spool_free(struct spool *spool)
{
    if (spool == NULL)
        return;
    spare_files_release(&spool->spares);
    dir_sync_release(&spool->sync);
    pthread_mutex_destroy(&spool->lock);
    if (spool->count_fd >= 0)
        close(spool->count_fd);
    close(spool->dir_fd);
    free(spool);
}

/* ---------------------------------------------------------------- numbers */

int spool_take_number(struct spool *spool, uint64_t *ret_number)
{
    int error = 0;
    pthread_mutex_lock(&spool->lock);
    if (spool->next_number >= spool->mark) {
        uint64_t mark = spool->next_number + NUMBERS_AT_ONCE;
        error = write_number_file(spool->dir_fd, SPOOL_NUMBERS_FILE, mark);
        if (error == 0)
            spool->mark = mark;
    }
    if (error == 0)
        *ret_number = spool->next_number++;
    pthread_mutex_unlock(&spool->lock);
    return error;
}

void spool_skip_number(struct spool *spool, uint64_t number)
{
    pthread_mutex_lock(&spool->lock);
    if (spool->next_number <= number)
        spool->next_number = number + 1;
    pthread_mutex_unlock(&spool->lock);
}

/* ---------------------------------------------------------------- envelopes */

int spool_write_envelope(struct spool *spool, uint64_t number, const char *text, size_t len)
{
    char name[SPOOL_NAME_SIZE];
    spool_envelope_name(number, name);
    return spare_files_replace(&spool->spares, name, text, len);
}

int spool_read_envelope(struct spool *spool, uint64_t number, char **ret_text, size_t *ret_len)
{
    char name[SPOOL_NAME_SIZE];
    spool_envelope_name(number, name);
    return spare_files_read(&spool->spares, name, ENVELOPE_MAX_BYTES, ret_text, ret_len);
}

/* ---------------------------------------------------------------- content */

int spool_create(struct spool *spool, uint64_t number, const char *envelope, size_t len, int *ret_fd)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    char name[SPOOL_NAME_SIZE];
    spool_data_name(number, name);
    _cleanup_close_ int data = openat(spool->dir_fd, name, flags, 0600);
    if (data < 0)
        return -errno;
    crash_point("created_data");

    spool_envelope_name(number, name);
    _cleanup_close_ int fd = openat(spool->dir_fd, name, flags, 0600);
    int error = fd < 0 ? -errno : spare_files_fill(fd, envelope, len);
    if (error != 0) {
        spool_remove(spool, number);
        return error;
    }
    *ret_fd = TAKE_FD(data);
    return 0;
}

int spool_sync_new(struct spool *spool, uint64_t number, int data_fd)
{
    char name[SPOOL_NAME_SIZE];
    spool_envelope_name(number, name);
    _cleanup_close_ int fd = openat(spool->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    /* Both set out before the first is waited for: one commit of the filesystem's journal then serves both.
     */
    file_begin_sync(fd, 0, 0);
    file_begin_sync(data_fd, 0, 0);
    int error = file_sync(data_fd);
    error = error != 0 ? error : file_sync(fd);
    return error != 0 ? error : dir_sync_wait(&spool->sync);
}

int spool_open_data(struct spool *spool, uint64_t number, int flags, int *ret_fd)
{
    char name[SPOOL_NAME_SIZE];
    spool_data_name(number, name);
    int fd = openat(spool->dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int spool_read_data(struct spool *spool, uint64_t number, size_t max_bytes, char **ret_bytes, size_t *ret_len)
{
    char name[SPOOL_NAME_SIZE];
    spool_data_name(number, name);
    return file_read_at(spool->dir_fd, name, max_bytes, ret_bytes, ret_len);
}

static int copy_bytes(int from, int to, off_t len)
{
    _cleanup_free_ char *block = malloc(COPY_BYTES);
    if (block == NULL)
        return -ENOMEM;
    for (off_t at = 0; at < len;) {
        size_t wanted = len - at < COPY_BYTES ? (size_t)(len - at) : COPY_BYTES;
        ssize_t got = file_pread_all(from, block, wanted, at);
        if (got <= 0)
            return (int)got;
        int error = file_pwrite_all(to, block, (size_t)got, at);
        if (error != 0)
            return error;
        at += got;
    }
    return 0;
}

int spool_copy_data(struct spool *spool, uint64_t number, uint64_t to)
{
    char name[SPOOL_NAME_SIZE];
    char copied[SPOOL_NAME_SIZE];
    char unfinished[SPOOL_NAME_SIZE + sizeof(SPOOL_NEW_SUFFIX)];
    spool_data_name(number, name);
    spool_data_name(to, copied);
    snprintf(unfinished, sizeof(unfinished), "%s%s", copied, SPOOL_NEW_SUFFIX);

    _cleanup_close_ int from = openat(spool->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    if (from < 0 || fstat(from, &status) != 0)
        return -errno;
    _cleanup_close_ int copy =
        openat(spool->dir_fd, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (copy < 0)
        return -errno;
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    int error = copy_bytes(from, copy, status.st_size);
    if (error == 0 && futimens(copy, times) != 0)
        error = -errno;
    if (error == 0)
        error = file_sync(copy);
    if (error == 0 && renameat(spool->dir_fd, unfinished, spool->dir_fd, copied) != 0)
        error = -errno;
    if (error != 0) {
        unlinkat(spool->dir_fd, unfinished, 0);
        return error;
    }
    return dir_sync_wait(&spool->sync);
}

bool spool_shares_data(struct spool *spool, uint64_t number)
{
    char name[SPOOL_NAME_SIZE];
    struct stat status;
    spool_data_name(number, name);
    return fstatat(spool->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_nlink > 1;
}

int spool_take_in(struct spool *spool, uint64_t number, int dir_fd, const char *name)
{
    char data[SPOOL_NAME_SIZE];
    spool_data_name(number, data);
    if (renameat(dir_fd, name, spool->dir_fd, data) != 0)
        return -errno;
    crash_point("moved_in");
    int error = dir_sync_wait(&spool->sync);
    if (error == 0)
        error = file_sync(dir_fd);
    if (error != 0 && renameat2(spool->dir_fd, data, dir_fd, name, RENAME_NOREPLACE) != 0) {
        log_error("the spool could not be synced (%s), nor the file moved back (%s)", strerror(-error),
                  strerror(errno));
        return 0;
    }
    return error;
}

int spool_take_out(struct spool *spool, uint64_t number, int dir_fd, const char *name, unsigned int flags)
{
    char data[SPOOL_NAME_SIZE];
    spool_data_name(number, data);
    if (renameat2(spool->dir_fd, data, dir_fd, name, flags) != 0)
        return -errno;
    crash_point("moved_out");
    int error = dir_sync_wait(&spool->sync);
    if (error == 0)
        error = file_sync(dir_fd);
    if (error != 0)
        log_error("a file was moved out of the spool, but not durably: %s", strerror(-error));
    return 0;
}

int spool_remove(struct spool *spool, uint64_t number)
{
    char name[SPOOL_NAME_SIZE];
    spool_data_name(number, name);
    if (unlinkat(spool->dir_fd, name, 0) != 0 && errno != ENOENT)
        return -errno;
    crash_point("removed_data");
    spool_envelope_name(number, name);
    if (unlinkat(spool->dir_fd, name, 0) != 0 && errno != ENOENT)
        return -errno;
    return dir_sync_wait(&spool->sync);
}

/* ---------------------------------------------------------------- walking */

int spool_visit(struct spool *spool, int (*visit)(void *context, struct spool_item *item), void *context)
{
    struct spool_numbers numbers = {NULL, 0, 0};
    int error = spool_files_scan(spool->dir_fd, &numbers);
    for (size_t i = 0; i < numbers.len && error == 0; i++) {
        spool_skip_number(spool, numbers.items[i]);
        struct spool_item item = {.number = numbers.items[i]};
        char name[SPOOL_NAME_SIZE];
        struct stat status;
        spool_data_name(item.number, name);
        item.has_data = fstatat(spool->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
        if (item.has_data) {
            item.size = status.st_size;
            item.mtime = status.st_mtim;
        }
        error = spool_read_envelope(spool, item.number, &item.envelope, &item.envelope_len);
        if (error == -ENOENT)
            error = 0;
        if (error == 0) {
            error = visit(context, &item);
        } else if (error != -ENOMEM) {
            spool_set_aside(spool, item.number, strerror(-error));
            error = 0;
        }
        free(item.envelope);
    }
    free(numbers.items);
    return error;
}

void spool_set_aside(struct spool *spool, uint64_t number, const char *why)
{
    char name[SPOOL_NAME_SIZE];
    log_warning("item %" PRIu64 " of the spool was set aside in spool/%s: %s", number, SPOOL_QUARANTINE, why);
    spool_data_name(number, name);
    spool_files_quarantine(spool->dir_fd, name);
    spool_envelope_name(number, name);
    spool_files_quarantine(spool->dir_fd, name);
}

/* ---------------------------------------------------------------- the count of the day */

int spool_read_count(struct spool *spool, int64_t *ret_day, int64_t *ret_count)
{
    char line[COUNT_LINE_BYTES + 1];
    if (spool->count_fd < 0)
        return -EBADF;
    ssize_t len = file_pread_all(spool->count_fd, line, COUNT_LINE_BYTES, 0);
    if (len < 0)
        return (int)len;
    line[len] = '\0';
    char *end;
    int64_t day = strtoll(line, &end, 10);
    if (*end != ' ')
        return -EBADMSG;
    char *last;
    int64_t count = strtoll(end, &last, 10);
    if (last == end || day < 0 || count < 0)
        return -EBADMSG;
    *ret_day = day;
    *ret_count = count;
    return 0;
}

int spool_write_count(struct spool *spool, int64_t day, int64_t count, bool is_durable)
{
    char line[COUNT_LINE_BYTES + 1];
    if (spool->count_fd < 0)
        return -EBADF;
    snprintf(line, sizeof(line), "%-20" PRId64 " %-26" PRId64 "\n", day, count);
    int error = file_pwrite_all(spool->count_fd, line, COUNT_LINE_BYTES, 0);
    return error != 0 || !is_durable ? error : file_sync(spool->count_fd);
}
