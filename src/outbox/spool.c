/* SPDX-License-Identifier: MIT */
/*
 * The files of the spool and their durability: names, numbers that are never given again, envelopes that are
 * replaced as a whole, contents, what is torn or foreign, and one fsync of the folder for all threads that
 * come while one is under way.
 */
#include "outbox/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
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

/* ================================================================ names */

#define SPOOL_VERSION_FILE "version"
#define SPOOL_NUMBERS_FILE "numbers"
#define SPOOL_COUNT_FILE "sent-today"
#define SPOOL_QUARANTINE "quarantine"
#define SPOOL_NEW_SUFFIX ".new"

enum {
    NAME_SIZE = 32,
    QUARANTINE_TRIES = 1000,
};

static void data_name(uint64_t number, char ret_name[NAME_SIZE])
{
    snprintf(ret_name, NAME_SIZE, "%" PRIu64 ".data", number);
}

static void envelope_name(uint64_t number, char ret_name[NAME_SIZE])
{
    snprintf(ret_name, NAME_SIZE, "%" PRIu64 ".json", number);
}

/* Only the very names that the functions above make. Numbers stay below 2^62, so that counting on cannot
 * overflow. */
static bool parse_name(const char *name, uint64_t *ret_number)
{
    char made[NAME_SIZE];
    char *end;
    errno = 0;
    uint64_t number = strtoull(name, &end, 10);
    if (errno != 0 || number == 0 || number >> 62 != 0)
        return false;
    data_name(number, made);
    if (strcmp(name, made) != 0)
        envelope_name(number, made);
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

struct spool_numbers {
    uint64_t *items; /* the caller frees */
    size_t len;
    size_t capacity;
};

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

/* Moves a file into "quarantine", under another name when its own is taken there. What fails is logged. */
static void quarantine(int dir_fd, const char *name)
{
    char target[NAME_MAX + 16];
    _cleanup_close_ int folder = file_open_dir(dir_fd, SPOOL_QUARANTINE);
    int error = folder < 0 ? folder : -EEXIST;
    for (unsigned int i = 0; error == -EEXIST && i < QUARANTINE_TRIES; i++) {
        if (i == 0)
            snprintf(target, sizeof(target), "%s", name);
        else
            snprintf(target, sizeof(target), "%.240s-%u", name, i);
        error = renameat2(dir_fd, name, folder, target, RENAME_NOREPLACE) == 0 ? 0 : -errno;
    }
    if (error != 0 && error != -ENOENT)
        log_error("a file of the spool could not be set aside: %s", strerror(-error));
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
    quarantine(dir_fd, entry->d_name);
    return 0;
}

/* All numbers in the folder, each once. Foreign files are quarantined, unfinished ones removed. 0 or -errno.
 */
static int scan(int dir_fd, struct spool_numbers *ret_numbers)
{
    _cleanup_closedir_ DIR *dir = file_opendirat(dir_fd, ".");
    if (dir == NULL)
        return -errno;
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
    drop_duplicates(ret_numbers);
    return error;
}

/* ================================================================ fsync of the folder */

/* For many threads: one at a time leads a round, the others wait for a round that began after they came. */
struct dir_sync {
    int dir_fd; /* borrowed */
    pthread_mutex_t lock;
    pthread_cond_t round_ended;
    uint64_t rounds_begun; /* protected by lock, like all below */
    uint64_t rounds_ended;
    uint64_t last_failed; /* the latest round that failed, */
    int last_error;       /* and how */
};

static void dir_sync_init(struct dir_sync *sync, int dir_fd)
{
    *sync = (struct dir_sync){.dir_fd = dir_fd};
    pthread_mutex_init(&sync->lock, NULL);
    pthread_cond_init(&sync->round_ended, NULL);
}

static void dir_sync_release(struct dir_sync *sync)
{
    pthread_cond_destroy(&sync->round_ended);
    pthread_mutex_destroy(&sync->lock);
}

static void lead_round_locked(struct dir_sync *sync)
{
    uint64_t round = ++sync->rounds_begun;
    pthread_mutex_unlock(&sync->lock);
    int error = file_sync(sync->dir_fd);
    pthread_mutex_lock(&sync->lock);
    sync->rounds_ended = round;
    if (error != 0) {
        sync->last_failed = round;
        sync->last_error = error;
    }
    pthread_cond_broadcast(&sync->round_ended);
}

/* All that was changed in the directory before the call is durable when it returns 0. Waits for the disk. */
static int dir_sync_wait(struct dir_sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    uint64_t mine = sync->rounds_begun + 1;
    while (sync->rounds_ended < mine) {
        if (sync->rounds_begun == sync->rounds_ended)
            lead_round_locked(sync);
        else
            pthread_cond_wait(&sync->round_ended, &sync->lock);
    }
    int error = sync->last_failed >= mine ? sync->last_error : 0;
    pthread_mutex_unlock(&sync->lock);
    return error;
}

/* ================================================================ envelopes */

/* A new envelope is written into a spare file, which then changes places with the envelope there was, and
 * that file is the next spare. So a change neither makes a file nor removes one, which is less for the disk
 * to do; and on ext4 without a journal much less, for there the inode of a removed file is not given again
 * for minutes, and whoever makes a file looks at each of those first. Names end in ".new", so that what is
 * left of them is removed at the next start. */
enum {
    SPARE_FILES_MAX = 48 /* kept; each thread writes one at a time */
};

struct spare_files {
    struct dir_sync *sync;    /* of the folder; borrowed */
    pthread_rwlock_t content; /* held together by those who write into spares; alone by who reads an envelope,
                                 for its file may become a spare meanwhile */
    pthread_mutex_t lock;
    unsigned int kept[SPARE_FILES_MAX]; /* protected by lock, like all below: numbers of those to be had */
    size_t kept_len;
    unsigned int next;
};

enum {
    BLOCK_BYTES = 4096 /* of most filesystems; a file takes as much on them at any rate */
};

struct spare {
    unsigned int number;
    char name[32];
};

static void spare_files_init(struct spare_files *spares, struct dir_sync *sync)
{
    *spares = (struct spare_files){.sync = sync};
    pthread_rwlock_init(&spares->content, NULL);
    pthread_mutex_init(&spares->lock, NULL);
}

static void spare_files_release(struct spare_files *spares)
{
    pthread_mutex_destroy(&spares->lock);
    pthread_rwlock_destroy(&spares->content);
}

/* The spare used last, for it is likely in memory; or the name of a new one. */
static struct spare take(struct spare_files *spares)
{
    struct spare spare;
    pthread_mutex_lock(&spares->lock);
    spare.number = spares->kept_len > 0 ? spares->kept[--spares->kept_len] : spares->next++;
    pthread_mutex_unlock(&spares->lock);
    snprintf(spare.name, sizeof(spare.name), "spare-%u" SPOOL_NEW_SUFFIX, spare.number);
    return spare;
}

static bool keep(struct spare_files *spares, const struct spare *spare)
{
    pthread_mutex_lock(&spares->lock);
    bool is_kept = spares->kept_len < SPARE_FILES_MAX;
    if (is_kept)
        spares->kept[spares->kept_len++] = spare->number;
    pthread_mutex_unlock(&spares->lock);
    return is_kept;
}

/* Writes a text at the file's beginning, and blanks behind it up to a whole block: so all files have the same
 * size, most of the time, and making one durable takes nothing but its block. 0 or -errno. */
static int spare_files_fill(int fd, const char *text, size_t len)
{
    char blanks[BLOCK_BYTES];
    struct stat status;
    size_t blanks_len = (BLOCK_BYTES - len % BLOCK_BYTES) % BLOCK_BYTES;
    off_t size = (off_t)(len + blanks_len);
    memset(blanks, ' ', blanks_len);
    int error = file_pwrite_all(fd, text, len, 0);
    if (error == 0)
        error = file_pwrite_all(fd, blanks, blanks_len, (off_t)len);
    if (error == 0 && (fstat(fd, &status) != 0 || (status.st_size > size && ftruncate(fd, size) != 0)))
        error = -errno;
    return error;
}

static int write_durably(struct spare_files *spares, const struct spare *spare, const char *text, size_t len)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    _cleanup_close_ int fd = openat(spares->sync->dir_fd, spare->name, flags, 0600);
    if (fd < 0)
        return -errno;
    pthread_rwlock_rdlock(&spares->content);
    int error = spare_files_fill(fd, text, len);
    pthread_rwlock_unlock(&spares->content);
    /* Times need not reach the disk, which spares it much: the size is as it was. */
    return error == 0 && fdatasync(fd) != 0 ? -errno : error;
}

/* *ret_is_exchanged: the old envelope's file has the spare's name now. Not where there was no envelope, or
 * the filesystem cannot exchange names. */
static int put_in_place(const struct spare_files *spares, const struct spare *spare, const char *name,
                        bool *ret_is_exchanged)
{
    int dir_fd = spares->sync->dir_fd;
    *ret_is_exchanged = renameat2(dir_fd, spare->name, dir_fd, name, RENAME_EXCHANGE) == 0;
    if (*ret_is_exchanged)
        return 0;
    bool is_plain = errno == ENOENT || errno == EINVAL;
    return is_plain && renameat(dir_fd, spare->name, dir_fd, name) == 0 ? 0 : -errno;
}

/* The old envelope's file becomes a spare only after the fsync of the folder. Before, a power cut could
 * bring it back as the envelope, with what another item wrote into it. Where that fsync fails, the old one
 * gets its name back: the caller goes on with it, and so must the next start. */
static int spare_files_replace(struct spare_files *spares, const char *name, const char *text, size_t len)
{
    struct spare spare = take(spares);
    bool is_exchanged = false;
    int error = write_durably(spares, &spare, text, len);
    if (error == 0)
        error = put_in_place(spares, &spare, name, &is_exchanged);
    if (error == 0)
        error = dir_sync_wait(spares->sync);
    if (error != 0 && is_exchanged)
        put_in_place(spares, &spare, name, &is_exchanged);
    bool is_spare = error == 0 && is_exchanged && keep(spares, &spare);
    if (!is_spare && (error != 0 || is_exchanged))
        unlinkat(spares->sync->dir_fd, spare.name, 0);
    return error;
}

/* file_read_at() of what is replaced like this: a text of at most `max_bytes`, with its blanks. */
static int spare_files_read(struct spare_files *spares, const char *name, size_t max_bytes, char **ret_bytes,
                            size_t *ret_len)
{
    pthread_rwlock_wrlock(&spares->content);
    int error = file_read_at(spares->sync->dir_fd, name, max_bytes + BLOCK_BYTES, ret_bytes, ret_len);
    pthread_rwlock_unlock(&spares->content);
    return error;
}

/* ================================================================ the spool */

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
    char name[NAME_SIZE];
    envelope_name(number, name);
    return spare_files_replace(&spool->spares, name, text, len);
}

int spool_read_envelope(struct spool *spool, uint64_t number, char **ret_text, size_t *ret_len)
{
    char name[NAME_SIZE];
    envelope_name(number, name);
    return spare_files_read(&spool->spares, name, ENVELOPE_MAX_BYTES, ret_text, ret_len);
}

/* ---------------------------------------------------------------- content */

int spool_create(struct spool *spool, uint64_t number, const char *envelope, size_t len, int *ret_fd)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    char name[NAME_SIZE];
    data_name(number, name);
    _cleanup_close_ int data = openat(spool->dir_fd, name, flags, 0600);
    if (data < 0)
        return -errno;
    crash_point("created_data");

    envelope_name(number, name);
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
    char name[NAME_SIZE];
    envelope_name(number, name);
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
    char name[NAME_SIZE];
    data_name(number, name);
    int fd = openat(spool->dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int spool_read_data(struct spool *spool, uint64_t number, size_t max_bytes, char **ret_bytes, size_t *ret_len)
{
    char name[NAME_SIZE];
    data_name(number, name);
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
    char name[NAME_SIZE];
    char copied[NAME_SIZE];
    char unfinished[NAME_SIZE + sizeof(SPOOL_NEW_SUFFIX)];
    data_name(number, name);
    data_name(to, copied);
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
    char name[NAME_SIZE];
    struct stat status;
    data_name(number, name);
    return fstatat(spool->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_nlink > 1;
}

int spool_take_in(struct spool *spool, uint64_t number, int dir_fd, const char *name)
{
    char data[NAME_SIZE];
    data_name(number, data);
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
    char data[NAME_SIZE];
    data_name(number, data);
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

bool spool_has_data(struct spool *spool, uint64_t number)
{
    char name[NAME_SIZE];
    struct stat status;
    data_name(number, name);
    return fstatat(spool->dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static int unlink_data(struct spool *spool, uint64_t number)
{
    char name[NAME_SIZE];
    data_name(number, name);
    if (unlinkat(spool->dir_fd, name, 0) != 0 && errno != ENOENT)
        return -errno;
    crash_point("removed_data");
    return 0;
}

int spool_remove_data(struct spool *spool, uint64_t number)
{
    int error = unlink_data(spool, number);
    return error != 0 ? error : dir_sync_wait(&spool->sync);
}

int spool_remove(struct spool *spool, uint64_t number)
{
    char name[NAME_SIZE];
    int error = unlink_data(spool, number);
    if (error != 0)
        return error;
    envelope_name(number, name);
    if (unlinkat(spool->dir_fd, name, 0) != 0 && errno != ENOENT)
        return -errno;
    return dir_sync_wait(&spool->sync);
}

/* ---------------------------------------------------------------- walking */

int spool_visit(struct spool *spool, int (*visit)(void *context, struct spool_item *item), void *context)
{
    struct spool_numbers numbers = {NULL, 0, 0};
    int error = scan(spool->dir_fd, &numbers);
    for (size_t i = 0; i < numbers.len && error == 0; i++) {
        spool_skip_number(spool, numbers.items[i]);
        struct spool_item item = {.number = numbers.items[i]};
        char name[NAME_SIZE];
        struct stat status;
        data_name(item.number, name);
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
    char name[NAME_SIZE];
    log_warning("item %" PRIu64 " of the spool was set aside in spool/%s: %s", number, SPOOL_QUARANTINE, why);
    data_name(number, name);
    quarantine(spool->dir_fd, name);
    envelope_name(number, name);
    quarantine(spool->dir_fd, name);
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
