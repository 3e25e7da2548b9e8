/* SPDX-License-Identifier: MIT */
/*
 * Spare files.
 */
#include "outbox/spare_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "outbox/spool_files.h"

struct spare {
    unsigned int number;
    char name[32];
};

void spare_files_init(struct spare_files *spares, struct dir_sync *sync)
{
    *spares = (struct spare_files){.sync = sync};
    pthread_rwlock_init(&spares->content, NULL);
    pthread_mutex_init(&spares->lock, NULL);
}

void spare_files_release(struct spare_files *spares)
{
    pthread_mutex_destroy(&spares->lock);
    pthread_rwlock_destroy(&spares->content);
}

/* Its file may have to be made yet. The one used last is the likeliest to be in memory. */
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

/* What it held may be longer. */
static int overwrite(struct spare_files *spares, int fd, const void *bytes, size_t len)
{
    pthread_rwlock_rdlock(&spares->content);
    int error = file_pwrite_all(fd, bytes, len, 0);
    if (error == 0 && ftruncate(fd, (off_t)len) != 0)
        error = -errno;
    pthread_rwlock_unlock(&spares->content);
    return error;
}

static int write_durably(struct spare_files *spares, const struct spare *spare, const void *bytes, size_t len)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    _cleanup_close_ int fd = openat(spares->sync->dir_fd, spare->name, flags, 0600);
    if (fd < 0)
        return -errno;
    int error = overwrite(spares, fd, bytes, len);
    return error != 0 ? error : file_sync(fd);
}

/* Whether there is a file under the spare's name afterwards: not where there was none to change places with,
 * or the filesystem knows no such thing. */
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

/* Only what the disk, too, knows for a spare becomes one: before, a power cut would bring it back as the
 * envelope, with what somebody else wrote into it. */
int spare_files_replace(struct spare_files *spares, const char *name, const void *bytes, size_t len)
{
    struct spare spare = take(spares);
    bool is_exchanged = false;
    int error = write_durably(spares, &spare, bytes, len);
    if (error == 0)
        error = put_in_place(spares, &spare, name, &is_exchanged);
    if (error == 0)
        error = dir_sync_wait(spares->sync);
    bool is_spare = error == 0 && is_exchanged && keep(spares, &spare);
    if (!is_spare && (error != 0 || is_exchanged))
        unlinkat(spares->sync->dir_fd, spare.name, 0);
    return error;
}

int spare_files_read(struct spare_files *spares, const char *name, size_t max_bytes, char **ret_bytes,
                     size_t *ret_len)
{
    pthread_rwlock_wrlock(&spares->content);
    int error = file_read_at(spares->sync->dir_fd, name, max_bytes, ret_bytes, ret_len);
    pthread_rwlock_unlock(&spares->content);
    return error;
}
