/* SPDX-License-Identifier: MIT */
/*
 * The folder. When a file was used last is its time of change.
 */
#include "store/content_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "mail/content_digest.h"

enum {
    USE_INTERVAL_S = 60 * 60, /* a use within this time of the last is not written down */
    KEPT_PERCENT = 90,        /* of the bound, after room was made */
    NAME_CHARS = 66,          /* of a file that is kept: digest, dot, kind */
};

static const char temporary_prefix[] = "new-";

void content_cache_init(struct content_cache *cache, int dir_fd, uint64_t max_bytes)
{
    *cache = (struct content_cache){.dir_fd = dir_fd, .max_bytes = max_bytes};
    /* Files of a process before this one are told from those being written now. */
    uint32_t mark = (uint32_t)getpid();
    random_bytes(&mark, sizeof(mark));
    snprintf(cache->prefix, sizeof(cache->prefix), "%s%08x-", temporary_prefix, mark);
    pthread_mutex_init(&cache->lock, NULL);
}

void content_cache_release(struct content_cache *cache)
{
    cleanup_close(&cache->dir_fd);
    pthread_mutex_destroy(&cache->lock);
}

/* Lengths are not mixed up: an id ends where the other begins. */
void content_cache_name(enum content_part part, const char *email_id, const char *attachment_id,
                        char ret_name[CONTENT_NAME_SIZE])
{
    static const char kinds[] = {
        [CONTENT_PART_FOLDER] = 'c', [CONTENT_PART_RAW] = 'r', [CONTENT_PART_ATTACHMENT] = 'a'};
    char digest[65];
    content_digest(email_id, strlen(email_id), digest);
    if (part == CONTENT_PART_ATTACHMENT) {
        char digests[128];
        char other[65];
        content_digest(attachment_id, strlen(attachment_id), other);
        memcpy(digests, digest, 64);
        memcpy(digests + 64, other, 64);
        content_digest(digests, sizeof(digests), digest);
    }
    snprintf(ret_name, CONTENT_NAME_SIZE, "%s.%c", digest, kinds[part]);
}

/* ---------------------------------------------------------------- room */

struct kept_file {
    char name[CONTENT_NAME_SIZE];
    uint64_t bytes;
    struct timespec used;
};

struct kept_files {
    struct kept_file *files;
    size_t len;
    size_t capacity;
    uint64_t bytes;
};

/* `name` has NAME_CHARS characters. */
static int add_file(struct kept_files *files, const char *name, const struct stat *status)
{
    if (files->len == files->capacity) {
        size_t capacity = files->capacity * 2 + 256;
        struct kept_file *grown = realloc(files->files, capacity * sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        files->files = grown;
        files->capacity = capacity;
    }
    struct kept_file *file = &files->files[files->len++];
    memcpy(file->name, name, NAME_CHARS + 1);
    file->bytes = (uint64_t)status->st_blocks * 512;
    file->used = status->st_mtim;
    files->bytes += file->bytes;
    return 0;
}

static bool is_left_over(const struct content_cache *cache, const char *name)
{
    return strncmp(name, temporary_prefix, strlen(temporary_prefix)) == 0 &&
           strncmp(name, cache->prefix, strlen(cache->prefix)) != 0;
}

static int list_files(struct content_cache *cache, struct kept_files *files)
{
    int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        cleanup_close(&fd);
        return -EIO;
    }
    int error = 0;
    const struct dirent *item;
    while (error == 0 && (item = readdir(dir)) != NULL) {
        struct stat status;
        if (is_left_over(cache, item->d_name)) {
            unlinkat(cache->dir_fd, item->d_name, 0);
        } else if (strlen(item->d_name) == NAME_CHARS &&
                   fstatat(cache->dir_fd, item->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(status.st_mode)) {
            error = add_file(files, item->d_name, &status);
        }
    }
    closedir(dir);
    return error;
}

static int compare_use(const void *one, const void *other)
{
    const struct timespec *a = &((const struct kept_file *)one)->used;
    const struct timespec *b = &((const struct kept_file *)other)->used;
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* Whether there is no more to do: what came meanwhile counts, perhaps twice, until it is looked at again. */
static bool trim_once(struct content_cache *cache)
{
    struct kept_files files = {.len = 0};
    pthread_mutex_lock(&cache->lock);
    uint64_t before = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    int error = list_files(cache, &files);
    if (error == 0 && files.bytes > cache->max_bytes) {
        uint64_t aim = cache->max_bytes / 100 * KEPT_PERCENT;
        qsort(files.files, files.len, sizeof(*files.files), compare_use);
        for (size_t i = 0; i < files.len && files.bytes > aim; i++) {
            unlinkat(cache->dir_fd, files.files[i].name, 0);
            files.bytes -= files.files[i].bytes;
        }
    }
    free(files.files);
    pthread_mutex_lock(&cache->lock);
    uint64_t came = cache->bytes - before;
    if (error == 0)
        cache->bytes = files.bytes + came;
    bool is_done = error != 0 || came == 0 || cache->bytes <= cache->max_bytes;
    if (is_done)
        cache->is_trimming = false;
    pthread_mutex_unlock(&cache->lock);
    return is_done;
}

static void trim(struct content_cache *cache)
{
    while (!trim_once(cache))
        continue;
}

void content_cache_scan(struct content_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    cache->is_trimming = true;
    pthread_mutex_unlock(&cache->lock);
    trim(cache);
}

static void count(struct content_cache *cache, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    pthread_mutex_lock(&cache->lock);
    cache->bytes += (uint64_t)status.st_blocks * 512;
    bool must_trim = cache->bytes > cache->max_bytes && !cache->is_trimming;
    cache->is_trimming = cache->is_trimming || must_trim;
    pthread_mutex_unlock(&cache->lock);
    if (must_trim)
        trim(cache);
}

/* ---------------------------------------------------------------- files */

static void note_use(int fd)
{
    struct stat status;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &status) == 0 &&
        (status.st_mtim.tv_sec + USE_INTERVAL_S < now.tv_sec || status.st_mtim.tv_sec > now.tv_sec))
        futimens(fd, NULL);
}

int content_cache_open(struct content_cache *cache, const char *name)
{
    int fd = openat(cache->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    note_use(fd);
    return fd;
}

bool content_cache_has(struct content_cache *cache, const char *name)
{
    return faccessat(cache->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int content_cache_create(struct content_cache *cache, struct content_temporary *ret)
{
    pthread_mutex_lock(&cache->lock);
    uint64_t number = ++cache->temporaries;
    pthread_mutex_unlock(&cache->lock);
    snprintf(ret->name, sizeof(ret->name), "%s%llu", cache->prefix, (unsigned long long)number);
    ret->fd = openat(cache->dir_fd, ret->name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return ret->fd < 0 ? -errno : 0;
}

int content_cache_keep(struct content_cache *cache, struct content_temporary *temporary, const char *name)
{
    if (renameat(cache->dir_fd, temporary->name, cache->dir_fd, name) != 0)
        return -errno;
    temporary->name[0] = '\0';
    count(cache, temporary->fd);
    return 0;
}

void content_cache_end(struct content_cache *cache, struct content_temporary *temporary)
{
    if (temporary->fd >= 0 && temporary->name[0] != '\0')
        unlinkat(cache->dir_fd, temporary->name, 0);
    cleanup_close(&temporary->fd);
    temporary->fd = -1;
}

void content_cache_remove(struct content_cache *cache, const char *name)
{
    unlinkat(cache->dir_fd, name, 0);
}
