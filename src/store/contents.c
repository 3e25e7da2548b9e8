/* SPDX-License-Identifier: MIT */
/*
 * Content, from memory, from the disk, from the service, in this order.
 */
#include "store/contents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "store/content_file.h"
#include "store/content_probe.h"
#include "store/search_text.h"

enum {
    READER_WAIT_MS = 30 * 1000,
    HEAD_MAX_BYTES = 16 * 1024 * 1024,
};

/* Who waits. */
enum patience {
    OF_A_READER,
    OF_NOBODY, /* it is fetched ahead, by the thread that asks */
};

struct probe_job {
    struct worker_job job; /* first: the pool knows it by this */
    struct contents *contents;
};

/* ---------------------------------------------------------------- files */

static int open_cached(struct contents *contents, const char *name, struct content_folder *ret_folder,
                       int *ret_fd)
{
    _cleanup_close_ int fd = content_cache_open(&contents->cache, name);
    if (fd < 0)
        return fd;
    int error = content_file_read(fd, ret_folder);
    if (error == -EBADMSG)
        content_cache_remove(&contents->cache, name);
    if (error == 0)
        *ret_fd = TAKE_FD(fd);
    return error;
}

/* From the disk, or else from the service. */
static int open_part(struct contents *contents, const struct content_wish *wish, enum patience patience,
                     struct cancel *cancel, struct content_folder *ret_folder, int *ret_fd)
{
    char name[CONTENT_NAME_SIZE];
    content_cache_name(wish->part, wish->email_id, wish->attachment_id, name);
    if (open_cached(contents, name, ret_folder, ret_fd) == 0)
        return 0;
    _cleanup_close_ int fd = -1;
    int error = patience == OF_A_READER ? content_fetch(&contents->fetcher, wish, READER_WAIT_MS, cancel, &fd)
                                        : content_fetch_here(&contents->fetcher, wish, &fd);
    /* That the service does not know what it listed may be a sign. */
    if (error == -ENOENT)
        atomic_store(&contents->must_probe, true);
    if (error == 0)
        error = content_file_read(fd, ret_folder);
    if (error == 0)
        *ret_fd = TAKE_FD(fd);
    return error == -EBADMSG ? -EIO : error;
}

/* ---------------------------------------------------------------- texts */

static struct store_content *find_locked(const struct contents *contents, uint32_t email)
{
    struct store_content *content = contents->loaded[email % CONTENTS_IN_MEMORY];
    return content != NULL && content->email == email ? content : NULL;
}

static void unref_locked(struct store_content *content)
{
    if (content == NULL || --content->references > 0)
        return;
    cleanup_close(&content->fd);
    content_folder_release(&content->folder);
    free(content);
}

struct store_content *contents_find(struct contents *contents, uint32_t email)
{
    pthread_mutex_lock(&contents->lock);
    struct store_content *content = find_locked(contents, email);
    if (content != NULL)
        content->references++;
    pthread_mutex_unlock(&contents->lock);
    return content;
}

void contents_unref(struct contents *contents, struct store_content *content)
{
    pthread_mutex_lock(&contents->lock);
    unref_locked(content);
    pthread_mutex_unlock(&contents->lock);
}

/* Takes the place of another one. Two threads may have loaded it at once: then the first is kept. */
static struct store_content *keep(struct contents *contents, struct store_content *content)
{
    struct store_content **place = &contents->loaded[content->email % CONTENTS_IN_MEMORY];
    pthread_mutex_lock(&contents->lock);
    struct store_content *known = find_locked(contents, content->email);
    if (known != NULL) {
        unref_locked(content);
        content = known;
    } else {
        unref_locked(*place);
        *place = content;
    }
    content->references++;
    pthread_mutex_unlock(&contents->lock);
    return content;
}

static int load(struct contents *contents, uint32_t email, enum patience patience, struct cancel *cancel,
                struct store_content **ret_content)
{
    const char *id = mirror_email_id(contents->mirror, email);
    if (id == NULL)
        return -ENOENT;
    _cleanup_free_ struct store_content *content = calloc(1, sizeof(*content));
    if (content == NULL)
        return -ENOMEM;
    *content = (struct store_content){.email = email, .references = 1};
    const struct content_wish wish = {.part = CONTENT_PART_FOLDER, .email_id = id};
    int error = open_part(contents, &wish, patience, cancel, &content->folder, &content->fd);
    if (error == 0) {
        search_text_note(contents->mirror->search_feed, content);
        *ret_content = keep(contents, TAKE_PTR(content));
    }
    return error;
}

int contents_get(struct contents *contents, uint32_t email, struct cancel *cancel,
                 struct store_content **ret_content)
{
    content_ahead_note(&contents->ahead, email, CONTENT_PART_FOLDER);
    *ret_content = contents_find(contents, email);
    return *ret_content != NULL ? 0 : load(contents, email, OF_A_READER, cancel, ret_content);
}

int contents_read_head(const struct store_content *content, struct email_content *ret_head)
{
    const struct content_entry *entry = content_folder_find(&content->folder, CONTENT_HEAD, "");
    if (entry == NULL || entry->len > HEAD_MAX_BYTES)
        return -EIO;
    _cleanup_free_ char *text = malloc(entry->len + 1);
    if (text == NULL)
        return -ENOMEM;
    ssize_t got = file_pread_all(content->fd, text, entry->len, (off_t)entry->offset);
    if (got < 0 || (size_t)got < entry->len)
        return -EIO;
    return email_content_from_text(text, entry->len, ret_head) == 0 ? 0 : -EIO;
}

/* ---------------------------------------------------------------- bytes */

static int open_bytes(struct contents *contents, uint32_t email, enum content_part part,
                      const char *attachment_id, struct cancel *cancel, struct store_bytes *ret_bytes)
{
    const struct content_wish wish = {
        .part = part, .email_id = mirror_email_id(contents->mirror, email), .attachment_id = attachment_id};
    if (wish.email_id == NULL)
        return -ENOENT;
    content_ahead_note(&contents->ahead, email, part);
    struct content_folder folder = {.len = 0};
    _cleanup_close_ int fd = -1;
    int error = open_part(contents, &wish, OF_A_READER, cancel, &folder, &fd);
    if (error != 0)
        return error;
    bool is_right = folder.len == 1 && folder.entries[0].kind == CONTENT_BYTES;
    if (is_right)
        *ret_bytes = (struct store_bytes){.fd = TAKE_FD(fd), .len = folder.entries[0].len};
    content_folder_release(&folder);
    return is_right ? 0 : -EIO;
}

int contents_open_attachment(struct contents *contents, uint32_t email, const char *attachment_id,
                             struct cancel *cancel, struct store_bytes *ret_bytes)
{
    return open_bytes(contents, email, CONTENT_PART_ATTACHMENT, attachment_id, cancel, ret_bytes);
}

int contents_open_raw(struct contents *contents, uint32_t email, struct cancel *cancel,
                      struct store_bytes *ret_bytes)
{
    return open_bytes(contents, email, CONTENT_PART_RAW, NULL, cancel, ret_bytes);
}

bool contents_find_raw_size(struct contents *contents, uint32_t email, uint64_t *ret_len)
{
    char name[CONTENT_NAME_SIZE];
    const char *id = mirror_email_id(contents->mirror, email);
    if (id == NULL)
        return false;
    content_cache_name(CONTENT_PART_RAW, id, NULL, name);
    _cleanup_close_ int fd = content_cache_open(&contents->cache, name);
    return fd >= 0 && content_file_look(fd, ret_len) == 0;
}

/* ---------------------------------------------------------------- ahead */

static void fetch_missing(struct contents *contents, const struct content_wish *wish)
{
    char name[CONTENT_NAME_SIZE];
    content_cache_name(wish->part, wish->email_id, wish->attachment_id, name);
    if (content_cache_has(&contents->cache, name))
        return;
    int fd = -1;
    content_fetch_here(&contents->fetcher, wish, &fd);
    cleanup_close(&fd);
}

/* Errors are those of who asks for it later. */
static void fetch_ahead(void *context, uint32_t email, content_parts parts)
{
    struct contents *contents = context;
    const char *id = mirror_email_id(contents->mirror, email);
    if (id == NULL)
        return;
    struct content_wish wish = {.part = CONTENT_PART_RAW, .email_id = id};
    if ((parts & 1U << CONTENT_PART_RAW) != 0)
        fetch_missing(contents, &wish);
    if ((parts & ~(1U << CONTENT_PART_RAW)) == 0)
        return;
    struct store_content *content = contents_find(contents, email);
    if (content == NULL && load(contents, email, OF_NOBODY, NULL, &content) != 0)
        return;
    wish.part = CONTENT_PART_ATTACHMENT;
    for (size_t i = 0; i < content->folder.len && (parts & 1U << CONTENT_PART_ATTACHMENT) != 0; i++) {
        wish.attachment_id = content->folder.entries[i].id;
        if (content->folder.entries[i].kind == CONTENT_ATTACHMENT)
            fetch_missing(contents, &wish);
    }
    contents_unref(contents, content);
}

void contents_prefetch_raw(struct contents *contents, const uint32_t *emails, size_t len)
{
    for (size_t i = 0; i < len; i++)
        content_ahead_fetch(&contents->ahead, emails[i], 1U << CONTENT_PART_RAW);
}

/* ---------------------------------------------------------------- what the service has */

static void probe(struct worker_job *job)
{
    struct probe_job *probe_job = (struct probe_job *)job;
    struct contents *contents = probe_job->contents;
    free(probe_job);
    content_probe_run(contents);
    pthread_mutex_lock(&contents->lock);
    contents->is_probing = false;
    pthread_mutex_unlock(&contents->lock);
}

void contents_note_sync(struct contents *contents)
{
    struct probe_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return;
    *job = (struct probe_job){.job.run = probe, .contents = contents};
    pthread_mutex_lock(&contents->lock);
    bool is_taken = !contents->is_probing && !contents->is_stopping &&
                    worker_pool_submit(contents->ahead.pool, &job->job) == 0;
    contents->is_probing = contents->is_probing || is_taken;
    pthread_mutex_unlock(&contents->lock);
    if (!is_taken)
        free(job);
}

/* ---------------------------------------------------------------- life */

static void scan(struct worker_job *job)
{
    struct probe_job *scan_job = (struct probe_job *)job;
    content_cache_scan(&scan_job->contents->cache);
    free(scan_job);
}

/* Behind the scenes: many files take a while to look at. */
static void begin_scan(struct contents *contents)
{
    struct probe_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return;
    *job = (struct probe_job){.job.run = scan, .contents = contents};
    if (worker_pool_submit(contents->ahead.pool, &job->job) != 0)
        free(job);
}

struct contents *contents_new(struct mirror *mirror, struct mail_service *service, struct contact *contact,
                              int dir_fd, uint64_t max_bytes)
{
    struct contents *contents = calloc(1, sizeof(*contents));
    if (contents == NULL) {
        cleanup_close(&dir_fd);
        return NULL;
    }
    contents->mirror = mirror;
    contents->service = service;
    pthread_mutex_init(&contents->lock, NULL);
    content_cache_init(&contents->cache, dir_fd, max_bytes);
    int error = content_fetcher_init(&contents->fetcher, service, mirror->clock, &contents->cache, contact);
    if (content_ahead_init(&contents->ahead, mirror, fetch_ahead, contents) != 0 || error != 0) {
        contents_free(contents);
        return NULL;
    }
    content_probe_recall(contents);
    begin_scan(contents);
    return contents;
}

void contents_stop(struct contents *contents)
{
    if (contents == NULL)
        return;
    pthread_mutex_lock(&contents->lock);
    contents->is_stopping = true;
    pthread_mutex_unlock(&contents->lock);
    content_fetcher_stop(&contents->fetcher);
    content_ahead_stop(&contents->ahead);
}

void contents_free(struct contents *contents)
{
    if (contents == NULL)
        return;
    contents_stop(contents);
    content_ahead_release(&contents->ahead);
    content_fetcher_release(&contents->fetcher);
    content_cache_release(&contents->cache);
    for (size_t i = 0; i < CONTENTS_IN_MEMORY; i++)
        unref_locked(contents->loaded[i]);
    pthread_mutex_destroy(&contents->lock);
    free(contents);
}
