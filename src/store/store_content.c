/* SPDX-License-Identifier: MIT */
/*
 * Content is looked for in memory, then in the cache on the disk, then it is fetched from the service. In
 * this order from the top: transfers, the content of an email in memory, bytes of attachments and raw
 * messages, fetching ahead of readers, and the probe that finds out whether the service has any content.
 *
 * One lock protects what is in memory. It is taken before the locks of the index, and given up while anybody
 * waits.
 */
#include "store/store_content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/thread.h"
#include "mail/message_id.h"
#include "store/content_cache.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/result_errno.h"
#include "store/search_feed.h"
#include "store/store_private.h"

enum {
    CONTENTS_IN_MEMORY = 256,                   /* each with an open file */
    CONTENT_FILE_MAX_BYTES = 512 * 1024 * 1024, /* of an attachment or a raw message */
    HEAD_MAX_BYTES = 16 * 1024 * 1024,
    MESSAGE_HEAD_BYTES = 64 * 1024, /* of a raw message, in which its Message-ID is looked for */

    READER_WAIT_MS = 30 * 1000,
    READER_TRANSFERS_MAX = 16,
    ATTEMPTS_MAX = 3,         /* where the service says "later" */
    LATER_MS = 500,           /* unless it says when, */
    LATER_MAX_MS = 10 * 1000, /* and if that is not too far away */
    TOO_LONG_MAX = 64,        /* emails' parts that were longer than allowed, and are not asked for again, */
    TOO_LONG_MS = 60 * 60 * 1000, /* for this long */

    AHEAD_AT_ONCE = 50,                /* emails being fetched ahead; so they hold 100 MB of text at most, */
    AHEAD_MAX_BYTES = 2 * 1024 * 1024, /* each this much of JSON, and ahead_file_max_bytes() on the disk */
    AHEAD_QUEUE_MAX = 1000,            /* emails to be fetched ahead */
    AHEAD_MAX_EMAILS = 160,            /* from the reader */
    RUNS_MAX = 8,                      /* readers that are followed at the same time */
    RUN_STRIDE_MAX = 8,       /* places that a reader may pass over, for what is gone or was read before */
    RUN_DOUBTS_MAX = 8,       /* emails read against the direction before it is another one */
    RUN_LEN_TO_BEGIN = 2,     /* emails read before any is fetched ahead */
    RUN_EMAILS_PER_STEP = 10, /* further ahead for each email of the run */

    PROBE_EMAILS_MAX = 4,
    PROBES_SPARED_MAX = 20,
    PROBE_TIMEOUT_MS = 120 * 1000,
};

/* A part that was longer than allowed. */
struct too_long {
    char name[CONTENT_NAME_SIZE]; /* of its file; "": none */
    int64_t until_ms;             /* when it is asked for again */
    bool is_ahead;                /* longer than is fetched ahead; a reader asks for it */
};

/* What of an email is wanted: bits 1 << enum content_part. */
typedef unsigned int content_parts;

/* A reader goes through the emails of an inbox, one after the other: grep -r, tar, a mail program. */
struct reading_run {
    bool is_used;
    uint32_t inbox;
    size_t place;        /* of the email read last */
    int step;            /* 1 or -1; 0: not known yet */
    unsigned int len;    /* emails read in this direction */
    size_t ahead;        /* the first place that is not fetched ahead yet */
    content_parts parts; /* what was read of them */
    unsigned int doubts; /* emails read against it, one after the other */
    uint64_t used;       /* when, by counting */
};

struct contents {
    struct store *store; /* borrowed */
    struct clock *clock; /* borrowed */
    struct content_cache cache;
    struct cancel cancel;            /* of requests to the service; set at the end */
    struct worker_pool *reader_pool; /* transfers that readers wait for */
    struct worker_pool *ahead_pool;  /* what nobody waits for: emails fetched ahead, the probe, the scan */
    atomic_bool has_content;
    atomic_bool has_raw;
    atomic_bool must_probe; /* what is known is in doubt */
    uint64_t missing;       /* a hash of the emails that the last probe found without content: asking for them
                               again says nothing; 0: none */
    unsigned int probes_spared; /* the probe's: since they were asked for */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* the end of a probe, and is_stopping */
    bool is_stopping;       /* protected by lock, like all below */
    bool is_probing;
    bool is_probe_wanted;  /* another one: emails were listed since the one under way began */
    bool is_probe_overdue; /* somebody waited for the one under way, and had to give up */
    struct store_content *loaded[CONTENTS_IN_MEMORY]; /* by number of email */
    struct map transfers; /* of struct content_transfer, by the name of the file */
    struct reading_run runs[RUNS_MAX];
    uint64_t run_uses;
    unsigned int ahead_queued; /* emails to be fetched ahead, and being fetched */
    struct too_long too_long[TOO_LONG_MAX];
    size_t too_long_next; /* the place that is taken next */
};

/* A part of an email that is wanted. */
struct content_request {
    enum content_part part;
    const char *email_id;
    const char *attachment_id; /* or NULL */
    bool is_known_to_exist;    /* struct content_query */
    bool must_ask;             /* whatever the cache has */
};

/* Brings one part of an email from the service into the cache, however many want it. It belongs to nobody: a
 * reader whose time is over leaves, and it goes on for those who come after. One that has not begun when the
 * last reader leaves never does. */
struct content_transfer {
    struct worker_job job; /* first: the pool knows it by this */
    struct contents *contents;
    char name[CONTENT_NAME_SIZE];
    struct content_request request; /* owns its texts */
    bool is_ahead;                  /* of readers, or the probe's: within the bounds of AHEAD_MAX_BYTES */
    pthread_cond_t done;            /* of its own: hundreds of readers may wait for other things */
    unsigned int references;        /* protected by the lock, like all below: the job, and who waits */
    bool is_done;
    int error; /* when done */
    int fd;    /* when done without an error */
};

/* A job without arguments. */
struct content_job {
    struct worker_job job; /* first: the pool knows it by this */
    struct contents *contents;
};

/* ---------------------------------------------------------------- a transfer */

static int write_folder(const struct content_temporary *file, const struct email_content *content)
{
    struct content_folder folder;
    int error = content_folder_from_content(content, &folder);
    if (error != 0)
        return error;
    error = content_cache_write(file, &folder);
    content_folder_release(&folder);
    return error;
}

static void note_content(struct contents *contents, const char *email_id, const struct email_content *content)
{
    const char *text = content->message_id;
    _cleanup_free_ char *message_id = text != NULL ? message_id_first(text, strlen(text)) : NULL;
    if (message_id != NULL)
        message_ids_note(&contents->store->message_ids, message_id, email_id);
}

/* Files that are being fetched ahead are not in the cache yet: all together may be as long as it may. */
static uint64_t ahead_file_max_bytes(const struct contents *contents)
{
    uint64_t share = contents->cache.max_bytes / AHEAD_AT_ONCE;
    if (share < AHEAD_MAX_BYTES)
        return AHEAD_MAX_BYTES;
    return share < CONTENT_FILE_MAX_BYTES ? share : CONTENT_FILE_MAX_BYTES;
}

/* Asks once; the error of the disk, or 0. */
static int ask(const struct content_transfer *transfer, const struct content_temporary *file,
               struct service_result *ret)
{
    struct contents *contents = transfer->contents;
    struct mail_service *service = contents->store->service;
    const struct content_request *request = &transfer->request;
    const struct content_query query = {.email_id = request->email_id,
                                        .is_known_to_exist = request->is_known_to_exist,
                                        .max_bytes = transfer->is_ahead ? AHEAD_MAX_BYTES : 0};
    const struct content_target target = {.fd = file->fd,
                                          .max_bytes = transfer->is_ahead ? ahead_file_max_bytes(contents)
                                                                          : CONTENT_FILE_MAX_BYTES};
    uint64_t len = 0;
    if (request->part == CONTENT_PART_FOLDER) {
        _cleanup_email_content_ struct email_content content = {0};
        service->ops->get_content(service, &query, &contents->cancel, &content, ret);
        if (ret->outcome != SERVICE_OK)
            return 0;
        note_content(contents, request->email_id, &content);
        return write_folder(file, &content);
    }
    if (request->part == CONTENT_PART_RAW)
        service->ops->get_raw(service, &query, &target, &contents->cancel, &len, ret);
    else
        service->ops->get_attachment(service, &query, request->attachment_id, &target, &contents->cancel,
                                     &len, ret);
    return ret->outcome == SERVICE_OK ? content_cache_seal(file, len) : 0;
}

static void pause_ms(struct contents *contents, int64_t delay_ms)
{
    int64_t until_ms = clock_monotonic_ms(contents->clock) + delay_ms;
    pthread_mutex_lock(&contents->lock);
    while (!contents->is_stopping && clock_monotonic_ms(contents->clock) < until_ms)
        clock_wait(contents->clock, &contents->changed, &contents->lock, until_ms);
    pthread_mutex_unlock(&contents->lock);
}

/* How long to wait before asking again; -1: that is of no use. */
static int64_t retry_delay_ms(const struct service_result *result)
{
    if (!result_is_busy(result) || result->retry_after_ms > LATER_MAX_MS)
        return -1;
    return result->retry_after_ms >= 0 ? result->retry_after_ms : LATER_MS;
}

static int ask_some_times(const struct content_transfer *transfer, const struct content_temporary *file)
{
    for (int attempt = 1;; attempt++) {
        struct service_result result;
        if (ftruncate(file->fd, 0) != 0)
            return -errno;
        int error = ask(transfer, file, &result);
        contact_report(&transfer->contents->store->contact, &result);
        int64_t delay_ms = retry_delay_ms(&result);
        if (error == 0)
            error = result_errno_of_content(&result);
        service_result_release(&result);
        if (error == 0 || delay_ms < 0 || attempt == ATTEMPTS_MAX)
            return error;
        pause_ms(transfer->contents, delay_ms);
    }
}

static int bring(const struct content_transfer *transfer, int *ret_fd)
{
    struct content_cache *cache = &transfer->contents->cache;
    struct content_temporary file;
    /* It may have come since the reader searched the cache. */
    int fd = transfer->request.must_ask ? -ENOENT : content_cache_open(cache, transfer->name);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    int error = content_cache_create(cache, &file);
    if (error != 0)
        return error;
    error = ask_some_times(transfer, &file);
    if (error == 0)
        error = content_cache_keep(cache, &file, transfer->name);
    if (error == 0)
        *ret_fd = TAKE_FD(file.fd);
    content_cache_end(cache, &file);
    return error;
}

static void unref_transfer_locked(struct content_transfer *transfer)
{
    if (--transfer->references > 0)
        return;
    cleanup_close(&transfer->fd);
    pthread_cond_destroy(&transfer->done);
    free((char *)transfer->request.email_id);
    free((char *)transfer->request.attachment_id);
    free(transfer);
}

static void note_too_long_locked(struct contents *contents, const struct content_transfer *transfer)
{
    struct too_long *place = &contents->too_long[contents->too_long_next++ % TOO_LONG_MAX];
    memcpy(place->name, transfer->name, sizeof(place->name));
    place->until_ms = clock_monotonic_ms(contents->clock) + TOO_LONG_MS;
    place->is_ahead = transfer->is_ahead;
}

static bool is_too_long_locked(const struct contents *contents, const char *name, bool is_ahead)
{
    int64_t now_ms = clock_monotonic_ms(contents->clock);
    for (size_t i = 0; i < TOO_LONG_MAX; i++) {
        const struct too_long *known = &contents->too_long[i];
        if (now_ms < known->until_ms && (is_ahead || !known->is_ahead) && strcmp(known->name, name) == 0)
            return true;
    }
    return false;
}

static void run_transfer(struct worker_job *job)
{
    struct content_transfer *transfer = (struct content_transfer *)job;
    struct contents *contents = transfer->contents;
    int fd = -1;
    int error = bring(transfer, &fd);
    pthread_mutex_lock(&contents->lock);
    transfer->is_done = true;
    transfer->error = error;
    transfer->fd = fd;
    if (error == -EFBIG)
        note_too_long_locked(contents, transfer);
    map_remove(&contents->transfers, transfer->name);
    pthread_cond_broadcast(&transfer->done);
    unref_transfer_locked(transfer);
    pthread_mutex_unlock(&contents->lock);
}

/* ---------------------------------------------------------------- who waits for a transfer */

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

static struct content_transfer *new_transfer(struct contents *contents, const struct content_request *request,
                                             const char *name)
{
    struct content_transfer *transfer = calloc(1, sizeof(*transfer));
    if (transfer == NULL)
        return NULL;
    *transfer = (struct content_transfer){
        .job.run = run_transfer, .contents = contents, .request = *request, .references = 1, .fd = -1};
    transfer->request.email_id = strdup(request->email_id);
    transfer->request.attachment_id = copy_text(request->attachment_id);
    clock_condition_init(&transfer->done);
    memcpy(transfer->name, name, sizeof(transfer->name));
    if (transfer->request.email_id == NULL ||
        (request->attachment_id != NULL && transfer->request.attachment_id == NULL)) {
        unref_transfer_locked(transfer);
        return NULL;
    }
    return transfer;
}

/* The transfer that brings this, with a reference more; *ret_is_new: it has yet to start, and keeps within
 * the bounds of fetching ahead if `is_ahead`. */
static int join_locked(struct contents *contents, const struct content_request *request, bool is_ahead,
                       struct content_transfer **ret_transfer, bool *ret_is_new)
{
    char name[CONTENT_NAME_SIZE];
    content_cache_name(request->part, request->email_id, request->attachment_id, name);
    struct content_transfer *transfer = map_find(&contents->transfers, name);
    *ret_is_new = transfer == NULL;
    if (contents->is_stopping)
        return -EINTR;
    if (transfer == NULL) {
        if (contact_is_unreachable(&contents->store->contact))
            return -EHOSTUNREACH;
        if (is_too_long_locked(contents, name, is_ahead))
            return -EFBIG;
        transfer = new_transfer(contents, request, name);
        if (transfer == NULL)
            return -ENOMEM;
        transfer->is_ahead = is_ahead;
        if (map_set(&contents->transfers, transfer->name, transfer) != 0) {
            unref_transfer_locked(transfer);
            return -ENOMEM;
        }
    }
    transfer->references++;
    *ret_transfer = transfer;
    return 0;
}

static int await_transfer_locked(struct content_transfer *transfer, int64_t until_ms, struct cancel *cancel,
                                 int *ret_fd)
{
    struct contents *contents = transfer->contents;
    int error = 0;
    while (!transfer->is_done && !contents->is_stopping && error == 0)
        error = wait_until(contents->clock, &transfer->done, &contents->lock, until_ms, cancel);
    if (!transfer->is_done)
        return error != 0 ? error : -EINTR;
    if (transfer->error != 0)
        return transfer->error;
    int fd = fcntl(transfer->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* Gives a reference back. What nobody waits for any more and has not begun need not begin: else those who
 * leave a slow service leave behind a queue that grows and grows. */
static void leave_locked(struct content_transfer *transfer)
{
    struct contents *contents = transfer->contents;
    bool is_last = transfer->references == 2 /* the job's and the caller's */ && !transfer->is_done &&
                   !contents->is_stopping;
    if (is_last && worker_pool_withdraw(contents->reader_pool, &transfer->job)) {
        map_remove(&contents->transfers, transfer->name);
        unref_transfer_locked(transfer);
    }
    unref_transfer_locked(transfer);
}

/* *ret_is_ahead: the outcome is that of a transfer that was ahead of readers. */
static int fetch_once_locked(struct contents *contents, const struct content_request *request,
                             int64_t until_ms, struct cancel *cancel, int *ret_fd, bool *ret_is_ahead)
{
    struct content_transfer *transfer = NULL;
    bool is_new;
    *ret_is_ahead = false;
    int error = join_locked(contents, request, request->must_ask, &transfer, &is_new);
    if (error != 0)
        return error;
    if (is_new && (error = worker_pool_submit(contents->reader_pool, &transfer->job)) != 0) {
        map_remove(&contents->transfers, transfer->name);
        unref_transfer_locked(transfer);
    } else {
        error = await_transfer_locked(transfer, until_ms, cancel, ret_fd);
        *ret_is_ahead = transfer->is_ahead;
    }
    leave_locked(transfer);
    return error;
}

/* Asks the service for what the cache does not have, and waits, at most `timeout_ms`. 0 and a descriptor of
 * the file as it is in the cache, or the errors of store_content.h. */
static int fetch(struct contents *contents, const struct content_request *request, int64_t timeout_ms,
                 struct cancel *cancel, int *ret_fd)
{
    int64_t until_ms = clock_monotonic_ms(contents->clock) + timeout_ms;
    bool is_ahead;
    int error;
    pthread_mutex_lock(&contents->lock);
    do /* what is too big to be fetched ahead is not too big for a reader */
        error = fetch_once_locked(contents, request, until_ms, cancel, ret_fd, &is_ahead);
    while (error == -EFBIG && is_ahead && !request->must_ask);
    pthread_mutex_unlock(&contents->lock);
    return error;
}

/* The same ahead of readers: the calling thread makes the transfer itself. -EAGAIN while the service has more
 * to do than it likes: what it still answers is for readers. -EFBIG: it is too long to be fetched ahead, and
 * left to readers, too. */
static int fetch_ahead_of_readers(struct contents *contents, const struct content_request *request,
                                  int *ret_fd)
{
    struct content_transfer *transfer = NULL;
    bool is_new;
    pthread_mutex_lock(&contents->lock);
    int error = contact_is_busy(&contents->store->contact)
                    ? -EAGAIN
                    : join_locked(contents, request, true, &transfer, &is_new);
    if (error == 0 && is_new) {
        pthread_mutex_unlock(&contents->lock);
        run_transfer(&transfer->job);
        pthread_mutex_lock(&contents->lock);
    }
    if (error == 0) {
        error = await_transfer_locked(transfer, CLOCK_FOREVER, NULL, ret_fd);
        leave_locked(transfer);
    }
    pthread_mutex_unlock(&contents->lock);
    return error;
}

/* ---------------------------------------------------------------- files */

/* Whether a reader waits, or the thread fetches ahead. */
enum urgency {
    FOR_A_READER,
    AHEAD_OF_READERS,
};

static int open_cached(struct contents *contents, const char *name, enum content_check check,
                       struct content_folder *ret_folder, int *ret_fd)
{
    _cleanup_close_ int fd = content_cache_open(&contents->cache, name);
    if (fd < 0)
        return fd;
    int error = content_cache_read(fd, check, ret_folder);
    if (error == -EBADMSG)
        content_cache_remove(&contents->cache, name);
    if (error == 0)
        *ret_fd = TAKE_FD(fd);
    return error;
}

/* From the disk, or else from the service. */
static int open_part(struct contents *contents, const struct content_request *request, enum urgency urgency,
                     enum content_check check, struct cancel *cancel, struct content_folder *ret_folder,
                     int *ret_fd)
{
    char name[CONTENT_NAME_SIZE];
    content_cache_name(request->part, request->email_id, request->attachment_id, name);
    if (open_cached(contents, name, check, ret_folder, ret_fd) == 0)
        return 0;
    _cleanup_close_ int fd = -1;
    int error = urgency == FOR_A_READER ? fetch(contents, request, READER_WAIT_MS, cancel, &fd)
                                        : fetch_ahead_of_readers(contents, request, &fd);
    /* That the service does not know what it listed may be a sign. */
    if (error == -ENOENT)
        atomic_store(&contents->must_probe, true);
    if (error == 0) /* its bytes were hashed a moment ago */
        error = content_cache_read(fd, CONTENT_CHECK_TABLE, ret_folder);
    if (error == 0)
        *ret_fd = TAKE_FD(fd);
    return error == -EBADMSG ? -EIO : error;
}

/* How long an attachment or a raw message is; false: the file holds something else. Releases the folder. */
static bool take_len(struct content_folder *folder, uint64_t *ret_len)
{
    bool is_right = folder->len == 1 && folder->entries[0].kind == CONTENT_BYTES;
    if (is_right)
        *ret_len = folder->entries[0].len;
    content_folder_release(folder);
    return is_right;
}

/* ---------------------------------------------------------------- the content of an email, in memory */

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

static struct store_content *find_loaded(struct contents *contents, uint32_t email)
{
    pthread_mutex_lock(&contents->lock);
    struct store_content *content = find_locked(contents, email);
    if (content != NULL)
        content->references++;
    pthread_mutex_unlock(&contents->lock);
    return content;
}

static void unref(struct contents *contents, struct store_content *content)
{
    pthread_mutex_lock(&contents->lock);
    unref_locked(content);
    pthread_mutex_unlock(&contents->lock);
}

/* Takes the place of another one. Two threads may have loaded it at once: then the first is kept. */
static struct store_content *keep_loaded(struct contents *contents, struct store_content *content)
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

static int load(struct contents *contents, uint32_t email, enum urgency urgency, struct cancel *cancel,
                struct store_content **ret_content)
{
    struct store *store = contents->store;
    const char *id = index_email_id(&store->index, email);
    if (id == NULL)
        return -ENOENT;
    _cleanup_free_ struct store_content *content = calloc(1, sizeof(*content));
    if (content == NULL)
        return -ENOMEM;
    *content = (struct store_content){.email = email, .references = 1};
    const struct content_request request = {.part = CONTENT_PART_FOLDER, .email_id = id};
    int error =
        open_part(contents, &request, urgency, CONTENT_CHECK_ALL, cancel, &content->folder, &content->fd);
    if (error == 0) {
        search_feed_note_content(store->search_feed, content->email, content->fd, &content->folder);
        *ret_content = keep_loaded(contents, TAKE_PTR(content));
    }
    return error;
}

/* ---------------------------------------------------------------- fetching ahead */

struct ahead_job {
    struct worker_job job; /* first: the pool knows it by this */
    struct contents *contents;
    uint32_t email;
    content_parts parts;
};

/* Its length may be all that is wanted of a raw message, which may be thrown out before anybody asks. */
static void tell_raw_len(const struct contents *contents, uint32_t email, int fd)
{
    const struct store_listener *listener = &contents->store->listener;
    struct content_folder folder;
    uint64_t len;
    if (listener->raw_fetched != NULL && content_cache_read(fd, CONTENT_CHECK_TABLE, &folder) == 0 &&
        take_len(&folder, &len))
        listener->raw_fetched(listener->context, email, len);
}

static void fetch_missing(struct contents *contents, uint32_t email, const struct content_request *request)
{
    char name[CONTENT_NAME_SIZE];
    _cleanup_close_ int fd = -1;
    content_cache_name(request->part, request->email_id, request->attachment_id, name);
    if (!content_cache_has(&contents->cache, name) && fetch_ahead_of_readers(contents, request, &fd) == 0 &&
        request->part == CONTENT_PART_RAW)
        tell_raw_len(contents, email, fd);
}

/* Errors are those of who asks for it later. */
static void fetch_parts(struct contents *contents, uint32_t email, content_parts parts)
{
    const char *id = index_email_id(&contents->store->index, email);
    if (id == NULL)
        return;
    struct content_request request = {.part = CONTENT_PART_RAW, .email_id = id};
    if ((parts & 1U << CONTENT_PART_RAW) != 0)
        fetch_missing(contents, email, &request);
    if ((parts & ~(1U << CONTENT_PART_RAW)) == 0)
        return;
    struct store_content *content = find_loaded(contents, email);
    if (content == NULL && load(contents, email, AHEAD_OF_READERS, NULL, &content) != 0)
        return;
    request.part = CONTENT_PART_ATTACHMENT;
    for (size_t i = 0; i < content->folder.len && (parts & 1U << CONTENT_PART_ATTACHMENT) != 0; i++) {
        request.attachment_id = content->folder.entries[i].id;
        if (content->folder.entries[i].kind == CONTENT_ATTACHMENT)
            fetch_missing(contents, email, &request);
    }
    unref(contents, content);
}

static void run_ahead(struct worker_job *job)
{
    struct ahead_job *ahead_job = (struct ahead_job *)job;
    struct contents *contents = ahead_job->contents;
    pthread_mutex_lock(&contents->lock);
    bool goes_on = !contents->is_stopping;
    pthread_mutex_unlock(&contents->lock);
    if (goes_on)
        fetch_parts(contents, ahead_job->email, ahead_job->parts);
    pthread_mutex_lock(&contents->lock);
    contents->ahead_queued--;
    pthread_mutex_unlock(&contents->lock);
    free(ahead_job);
}

/* False: no more for now. */
static bool submit_ahead_locked(struct contents *contents, uint32_t email, content_parts parts)
{
    if (contents->ahead_queued >= AHEAD_QUEUE_MAX || contents->is_stopping)
        return false;
    struct ahead_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return false;
    *job = (struct ahead_job){.job.run = run_ahead, .contents = contents, .email = email, .parts = parts};
    if (worker_pool_submit(contents->ahead_pool, &job->job) != 0) {
        free(job);
        return false;
    }
    contents->ahead_queued++;
    return true;
}

static size_t distance(size_t one, size_t other)
{
    return one > other ? one - other : other - one;
}

/* The run that this place continues, or the one that was idle longest, begun anew. */
static struct reading_run *find_run_locked(struct contents *contents, uint32_t inbox, size_t place)
{
    struct reading_run *oldest = &contents->runs[0];
    for (size_t i = 0; i < RUNS_MAX; i++) {
        struct reading_run *run = &contents->runs[i];
        if (run->is_used && run->inbox == inbox && distance(run->place, place) <= RUN_STRIDE_MAX)
            return run;
        if (run->used < oldest->used)
            oldest = run;
    }
    *oldest = (struct reading_run){.is_used = true, .inbox = inbox, .place = place, .ahead = place};
    return oldest;
}

static void move_run(struct reading_run *run, size_t place)
{
    if (place == run->place)
        return;
    int step = place > run->place ? 1 : -1;
    if (step == run->step) {
        run->len++;
        run->place = place;
        run->doubts = 0;
        return;
    }
    /* Several processes that read side by side now and then overtake each other. */
    if (run->len >= RUN_LEN_TO_BEGIN && ++run->doubts < RUN_DOUBTS_MAX)
        return;
    run->step = step;
    run->len = 1;
    run->place = place;
    run->ahead = place;
    run->doubts = 0;
}

/* How many places there are from `from` to `to`, along the run. */
static size_t places_between(const struct reading_run *run, size_t from, size_t to)
{
    bool is_ahead = run->step > 0 ? to >= from : to <= from;
    return is_ahead ? distance(from, to) : 0;
}

/* How many places of the run are to be fetched now, from *ret_first on. */
static size_t plan_locked(struct contents *contents, struct reading_run *run, size_t *ret_first)
{
    size_t reach = (size_t)run->len * RUN_EMAILS_PER_STEP;
    if (run->len < RUN_LEN_TO_BEGIN || contents->ahead_queued >= AHEAD_MAX_EMAILS)
        return 0;
    if (reach > AHEAD_MAX_EMAILS)
        reach = AHEAD_MAX_EMAILS;
    size_t next = run->place + (size_t)run->step;
    size_t done = places_between(run, next, run->ahead);
    if (done == 0)
        run->ahead = next;
    *ret_first = run->ahead;
    return reach > done ? reach - done : 0;
}

static void fetch_along_locked(struct contents *contents, struct reading_run *run)
{
    uint32_t emails[AHEAD_MAX_EMAILS];
    size_t first;
    size_t places = plan_locked(contents, run, &first);
    size_t left = AHEAD_MAX_EMAILS - contents->ahead_queued;
    if (places > left)
        places = left;
    if (places == 0)
        return;
    size_t len = index_list_places(&contents->store->index, run->inbox, first, run->step, emails, places);
    for (size_t i = 0; i < len; i++)
        if (!submit_ahead_locked(contents, emails[i], run->parts))
            return;
    /* Not beyond the start of the list, where places would wrap round. */
    run->ahead = run->step < 0 && first < places ? 0 : first + places * (size_t)run->step;
}

/* Somebody reads this of an email, whether it is in the cache or not: the longer the run, the further ahead
 * the next ones are fetched, several at a time, up to a bound. Does not wait. */
static void follow_reader(struct contents *contents, uint32_t email, enum content_part part)
{
    uint32_t inbox;
    size_t place;
    if (!index_find_place(&contents->store->index, email, &inbox, &place))
        return;
    pthread_mutex_lock(&contents->lock);
    struct reading_run *run = find_run_locked(contents, inbox, place);
    bool is_more = (run->parts & (1U << part)) == 0;
    run->used = ++contents->run_uses;
    run->parts |= 1U << part;
    move_run(run, place);
    /* What was fetched without that is gone through again. */
    if (is_more)
        run->ahead = place;
    fetch_along_locked(contents, run);
    pthread_mutex_unlock(&contents->lock);
}

void store_prefetch_raw(struct store *store, const uint32_t *emails, size_t len)
{
    struct contents *contents = store->contents;
    if (contents == NULL)
        return;
    pthread_mutex_lock(&contents->lock);
    for (size_t i = 0; i < len; i++)
        submit_ahead_locked(contents, emails[i], 1U << CONTENT_PART_RAW);
    pthread_mutex_unlock(&contents->lock);
}

/* ---------------------------------------------------------------- reading */

int store_content_get(struct store *store, uint32_t email, struct cancel *cancel,
                      struct store_content **ret_content)
{
    struct contents *contents = store->contents;
    if (contents == NULL)
        return -ENOENT;
    follow_reader(contents, email, CONTENT_PART_FOLDER);
    *ret_content = find_loaded(contents, email);
    return *ret_content != NULL ? 0 : load(contents, email, FOR_A_READER, cancel, ret_content);
}

void store_content_unref(struct store *store, struct store_content *content)
{
    if (content != NULL)
        unref(store->contents, content);
}

int store_content_read_head(const struct store_content *content, struct email_content *ret_head)
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

static int open_bytes(struct store *store, uint32_t email, const char *attachment_id,
                      enum content_check check, struct cancel *cancel, struct store_bytes *ret_bytes)
{
    struct contents *contents = store->contents;
    const struct content_request request = {
        .part = attachment_id != NULL ? CONTENT_PART_ATTACHMENT : CONTENT_PART_RAW,
        .email_id = index_email_id(&store->index, email),
        .attachment_id = attachment_id,
    };
    if (contents == NULL || request.email_id == NULL)
        return -ENOENT;
    follow_reader(contents, email, request.part);
    struct content_folder folder = {.len = 0};
    _cleanup_close_ int fd = -1;
    uint64_t len;
    int error = open_part(contents, &request, FOR_A_READER, check, cancel, &folder, &fd);
    if (error != 0)
        return error;
    if (!take_len(&folder, &len))
        return -EIO;
    *ret_bytes = (struct store_bytes){.fd = TAKE_FD(fd), .len = len};
    return 0;
}

/* Whenever a message is read, and not when it is fetched: so what was lost of them comes back. */
static void note_message(struct store *store, uint32_t email, const struct store_bytes *bytes)
{
    const char *email_id = index_email_id(&store->index, email);
    size_t len = bytes->len < MESSAGE_HEAD_BYTES ? bytes->len : MESSAGE_HEAD_BYTES;
    _cleanup_free_ char *head = malloc(len + 1);
    ssize_t got = head == NULL ? -ENOMEM : file_pread_all(bytes->fd, head, len, 0);
    _cleanup_free_ char *message_id = got > 0 ? message_id_of(head, (size_t)got) : NULL;
    if (email_id != NULL && message_id != NULL)
        message_ids_note(&store->message_ids, message_id, email_id);
}

int store_bytes_open(struct store *store, uint32_t email, const char *attachment_id, struct cancel *cancel,
                     struct store_bytes *ret_bytes)
{
    int error = open_bytes(store, email, attachment_id, CONTENT_CHECK_ALL, cancel, ret_bytes);
    if (error == 0 && attachment_id == NULL)
        note_message(store, email, ret_bytes);
    return error;
}

int store_bytes_size(struct store *store, uint32_t email, const char *attachment_id, struct cancel *cancel,
                     uint64_t *ret_len)
{
    struct store_bytes bytes = {.fd = -1};
    int error = open_bytes(store, email, attachment_id, CONTENT_CHECK_TABLE, cancel, &bytes);
    cleanup_close(&bytes.fd);
    if (error == 0)
        *ret_len = bytes.len;
    return error;
}

/* ---------------------------------------------------------------- the probe: what the service has */

/* What was found is remembered for the next mount, as an empty file each. */
static const char content_mark[] = "has-content";
static const char raw_mark[] = "has-raw";

static bool is_marked(const struct contents *contents, const char *mark)
{
    return faccessat(contents->cache.dir_fd, mark, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void set_mark(const struct contents *contents, const char *mark, bool is_set)
{
    if (!is_set) {
        unlinkat(contents->cache.dir_fd, mark, 0);
        return;
    }
    int fd = openat(contents->cache.dir_fd, mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    cleanup_close(&fd);
}

static void recall_marks(struct contents *contents)
{
    bool has_content = is_marked(contents, content_mark);
    atomic_store(&contents->has_content, has_content);
    atomic_store(&contents->has_raw, has_content && is_marked(contents, raw_mark));
}

static struct service_capabilities get_capabilities(const struct contents *contents)
{
    struct mail_service *service = contents->store->service;
    struct service_capabilities capabilities;
    service->ops->get_capabilities(service, &capabilities);
    return capabilities;
}

/* Asks for one part of one email, whatever the cache has. -EFBIG is an answer, too: a long one is not read to
 * its end, for nobody wants it. */
static int probe_part(struct contents *contents, const char *email_id, enum content_part part)
{
    const struct content_request request = {
        .part = part, .email_id = email_id, .is_known_to_exist = true, .must_ask = true};
    int fd = -1;
    int error = fetch(contents, &request, PROBE_TIMEOUT_MS, NULL, &fd);
    cleanup_close(&fd);
    return error;
}

/* A single email that the service has no content of proves nothing: it is asked for again now and then. */
static bool is_asked_for_in_vain(struct contents *contents, uint64_t emails)
{
    return emails == contents->missing && ++contents->probes_spared < PROBES_SPARED_MAX;
}

/* Two different emails settle it, unless the service is in trouble. */
static void probe_some(struct contents *contents, bool must_ask)
{
    struct index *index = &contents->store->index;
    uint32_t emails[PROBE_EMAILS_MAX];
    size_t len = index_pick_some(index, emails, PROBE_EMAILS_MAX);
    uint64_t hash = hash_bytes(1, emails, len * sizeof(*emails));
    if (!must_ask && is_asked_for_in_vain(contents, hash))
        return;
    bool is_sure = false;
    bool is_missing = len > 0;
    for (size_t i = 0; i < len && !is_sure; i++) {
        const char *id = index_email_id(index, emails[i]);
        if (id == NULL)
            continue;
        int error = probe_part(contents, id, CONTENT_PART_FOLDER);
        is_sure = get_capabilities(contents).content == CAPABILITY_ABSENT;
        is_missing = is_missing && error == -ENOENT;
        if (error != 0 && error != -EFBIG)
            continue;
        error = probe_part(contents, id, CONTENT_PART_RAW);
        is_sure = error == 0 || get_capabilities(contents).raw != CAPABILITY_UNKNOWN;
    }
    contents->missing = is_missing ? hash : 0;
    contents->probes_spared = 0;
}

static bool exchange(atomic_bool *flag, bool is_set)
{
    return atomic_exchange(flag, is_set) != is_set;
}

/* What is not known leaves things as they were. */
static void conclude(struct contents *contents)
{
    const struct service_capabilities capabilities = get_capabilities(contents);
    const struct store_listener *listener = &contents->store->listener;
    bool has_content = capabilities.content == CAPABILITY_PRESENT ||
                       (capabilities.content == CAPABILITY_UNKNOWN && atomic_load(&contents->has_content));
    bool has_raw =
        has_content && (capabilities.raw == CAPABILITY_PRESENT ||
                        (capabilities.raw == CAPABILITY_UNKNOWN && atomic_load(&contents->has_raw)));
    bool is_news = exchange(&contents->has_raw, has_raw);
    is_news = exchange(&contents->has_content, has_content) || is_news;
    if (!is_news)
        return;
    set_mark(contents, content_mark, has_content);
    set_mark(contents, raw_mark, has_raw);
    index_touch_inboxes(&contents->store->index);
    if (listener->abilities_changed != NULL)
        listener->abilities_changed(listener->context);
}

static void probe(struct contents *contents)
{
    bool must_ask = atomic_exchange(&contents->must_probe, false);
    const struct service_capabilities before = get_capabilities(contents);
    if (must_ask || before.content != CAPABILITY_PRESENT || before.raw == CAPABILITY_UNKNOWN)
        probe_some(contents, must_ask);
    conclude(contents);
}

static void run_probe(struct worker_job *job)
{
    struct content_job *content_job = (struct content_job *)job;
    struct contents *contents = content_job->contents;
    free(content_job);
    pthread_mutex_lock(&contents->lock);
    while (contents->is_probe_wanted && !contents->is_stopping) {
        contents->is_probe_wanted = false;
        pthread_mutex_unlock(&contents->lock);
        probe(contents);
        pthread_mutex_lock(&contents->lock);
    }
    contents->is_probing = false;
    contents->is_probe_overdue = false;
    pthread_cond_broadcast(&contents->changed);
    pthread_mutex_unlock(&contents->lock);
}

/* False: without memory or threads, or at the end. */
static bool submit_job_locked(struct contents *contents, void (*run)(struct worker_job *job))
{
    struct content_job *job = contents->is_stopping ? NULL : calloc(1, sizeof(*job));
    if (job == NULL)
        return false;
    *job = (struct content_job){.job.run = run, .contents = contents};
    if (worker_pool_submit(contents->ahead_pool, &job->job) == 0)
        return true;
    free(job);
    return false;
}

void contents_probe(struct contents *contents)
{
    if (contents == NULL)
        return;
    pthread_mutex_lock(&contents->lock);
    contents->is_probe_wanted = true;
    if (!contents->is_probing)
        contents->is_probing = submit_job_locked(contents, run_probe);
    pthread_mutex_unlock(&contents->lock);
}

int contents_await_probe(struct contents *contents, struct cancel *cancel)
{
    int error = 0;
    if (contents == NULL)
        return 0;
    int64_t until_ms = clock_monotonic_ms(contents->clock) + READER_WAIT_MS;
    pthread_mutex_lock(&contents->lock);
    while (contents->is_probing && !contents->is_stopping && !contents->is_probe_overdue && error == 0)
        error = wait_until(contents->clock, &contents->changed, &contents->lock, until_ms, cancel);
    if (error == -ETIMEDOUT)
        contents->is_probe_overdue = true;
    pthread_mutex_unlock(&contents->lock);
    return error == -EINTR ? error : 0;
}

bool store_has_content(struct store *store)
{
    return store->contents != NULL && atomic_load(&store->contents->has_content);
}

bool store_has_raw(struct store *store)
{
    return store->contents != NULL && atomic_load(&store->contents->has_raw);
}

/* ---------------------------------------------------------------- life */

/* In the background: many files take a while. */
static void run_scan(struct worker_job *job)
{
    struct content_job *content_job = (struct content_job *)job;
    content_cache_scan(&content_job->contents->cache);
    free(content_job);
}

struct contents *contents_new(struct store *store, int dir_fd, uint64_t max_bytes)
{
    struct contents *contents = calloc(1, sizeof(*contents));
    if (contents == NULL) {
        cleanup_close(&dir_fd);
        return NULL;
    }
    contents->store = store;
    contents->clock = store->index.clock;
    content_cache_init(&contents->cache, dir_fd, max_bytes);
    cancel_init(&contents->cancel);
    pthread_mutex_init(&contents->lock, NULL);
    clock_condition_init(&contents->changed);
    if (worker_pool_new("content", READER_TRANSFERS_MAX, &contents->reader_pool) != 0 ||
        worker_pool_new("content-ahead", AHEAD_AT_ONCE, &contents->ahead_pool) != 0) {
        contents_free(contents);
        return NULL;
    }
    recall_marks(contents);
    pthread_mutex_lock(&contents->lock);
    submit_job_locked(contents, run_scan);
    pthread_mutex_unlock(&contents->lock);
    return contents;
}

void contents_stop(struct contents *contents)
{
    if (contents == NULL)
        return;
    pthread_mutex_lock(&contents->lock);
    contents->is_stopping = true;
    pthread_cond_broadcast(&contents->changed);
    struct content_transfer *transfer;
    for (size_t position = 0; (transfer = map_next(&contents->transfers, &position)) != NULL;)
        pthread_cond_broadcast(&transfer->done);
    struct worker_pool *reader_pool = TAKE_PTR(contents->reader_pool);
    struct worker_pool *ahead_pool = TAKE_PTR(contents->ahead_pool);
    pthread_mutex_unlock(&contents->lock);
    cancel_set(&contents->cancel);
    worker_pool_free(reader_pool);
    worker_pool_free(ahead_pool);
}

void contents_free(struct contents *contents)
{
    if (contents == NULL)
        return;
    contents_stop(contents);
    map_release(&contents->transfers);
    content_cache_release(&contents->cache);
    for (size_t i = 0; i < CONTENTS_IN_MEMORY; i++)
        unref_locked(contents->loaded[i]);
    cancel_release(&contents->cancel);
    pthread_cond_destroy(&contents->changed);
    pthread_mutex_destroy(&contents->lock);
    free(contents);
}
