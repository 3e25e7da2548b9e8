/* SPDX-License-Identifier: MIT */
/*
 * A read looks for content in the cache on the disk, then fetches it from the service. The texts that were
 * read last are in memory, since programs mostly read the files of one email in a row.
 *
 * One lock protects these texts and the transfers. It is taken before the locks of the index, and is not held
 * while a thread waits for the disk or the service.
 */
#include "store/store_content.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "mail/message_id.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/result_errno.h"
#include "store/store_private.h"

enum {
    CONTENT_FILE_MAX_BYTES = 512 * 1024 * 1024, /* one attachment or raw message */

    READER_WAIT_MS = 30 * 1000,
    READER_TRANSFERS_MAX = 16,
    ATTEMPTS_MAX = 3,         /* requests for one part while the service is busy */
    PAUSE_MS = 500,           /* pause between attempts unless the answer has a Retry-After */
    PAUSE_MAX_MS = 10 * 1000, /* after a longer Retry-After there is no further attempt */

    AHEAD_AT_ONCE = 50,                /* threads that fetch ahead; bounds JSON in memory to 100 MB */
    AHEAD_MAX_BYTES = 2 * 1024 * 1024, /* JSON of one part; ahead_file_max_bytes() bounds files */
    AHEAD_QUEUE_MAX = 1000,            /* emails to be fetched ahead */
    AHEAD_EMAILS = 128,                /* emails fetched ahead of one reader, at most */
    AHEAD_PER_EMAIL = 16,              /* emails to fetch ahead for each email that the reader has read */
    STREAMS_MAX = 8,                   /* readers that are followed at the same time */
    STREAM_STRIDE_MAX = 8,             /* positions that a reader may skip, in either direction */
    STREAM_LEN_TO_BEGIN = 2,           /* fetching ahead begins when a stream has this `len` */

    PROBE_EMAILS_MAX = 4,
};

/* A request for one part. The strings are borrowed. */
struct content_request {
    int64_t key;
    enum content_part part;
    uint32_t email;
    struct content_query query;
    bool is_ahead;         /* for no reader, but ahead of one or by the probe; AHEAD_... bound it */
    struct cancel *cancel; /* cancels requests to the service */
};

/* A program (grep -r, tar, a mail program) that reads the same part of an inbox's emails in one direction.
 * A read up to STREAM_STRIDE_MAX positions back is ignored, since parallel processes may overtake each other;
 * a read farther back begins a new stream. */
struct read_stream {
    uint32_t inbox;
    enum content_part part;
    size_t position;  /* position of the email that was read last */
    int step;         /* 1 or -1; 0 if not known yet */
    unsigned int len; /* number of emails read after the first one */
    size_t covered;   /* number of positions beyond `position` whose emails were fetched ahead */
    uint64_t used;    /* contents.stream_uses at the last use; 0 if never used */
};

/* The last probe's finding about the service. The number is in the cache, for the next mount. */
enum content_ability {
    CONTENT_NONE,
    CONTENT_WITHOUT_RAW,
    CONTENT_WITH_RAW,
};
static const char ability_mark[] = "has_content";

struct contents {
    struct store *store; /* borrowed */
    struct clock *clock; /* borrowed */
    struct content_cache cache;
    struct cancel cancel;            /* set by contents_stop() */
    struct worker_pool *reader_pool; /* transfers that readers wait for */
    struct worker_pool *ahead_pool;  /* transfers ahead of readers */
    atomic_uint ability;             /* enum content_ability */
    atomic_bool must_probe;          /* a read failed with -ENOENT, so `ability` may be wrong */

    pthread_mutex_t lock;
    pthread_cond_t stopped;     /* signalled when `cancel` is set */
    struct store_content *last; /* texts that were read last, or NULL; protected by lock, like all below */
    GHashTable *transfers;      /* struct content_transfer by key */
    struct read_stream streams[STREAMS_MAX];
    uint64_t stream_uses;
    unsigned int ahead_queued; /* number of unfinished ahead_jobs */
};

/* A fetch of one part of an email, which all readers of the part share. If a reader times out, the transfer
 * continues for later readers. If all readers have left before the transfer begins, nothing is fetched. */
struct content_transfer {
    struct worker_job job; /* first, since run_transfer() casts it */
    struct contents *contents;
    struct content_request request; /* owns query.attachment_id */
    pthread_cond_t done;
    unsigned int references; /* of the running thread and of each reader; protected by contents.lock, like all
                                below */
    bool is_done;
    int error; /* valid when done; -ECANCELED if the readers must fetch the part themselves */
    struct store_content *content; /* valid when done without an error */
};

/* Fetches a part of one email ahead of a reader. CONTENT_PART_ATTACHMENT means all of its attachments. */
struct ahead_job {
    struct worker_job job; /* first, since run_ahead() casts it */
    struct contents *contents;
    uint32_t email;
    enum content_part part;
};

/* ---------------------------------------------------------------- content in memory */

static struct store_content *content_new(uint32_t email)
{
    struct store_content *content = g_new(struct store_content, 1);
    *content = (struct store_content){.references = 1, .email = email, .bytes.fd = -1};
    return content;
}

static struct store_content *content_ref(struct store_content *content)
{
    atomic_fetch_add(&content->references, 1);
    return content;
}

void store_content_unref(struct store_content *content)
{
    if (content == NULL || atomic_fetch_sub(&content->references, 1) > 1)
        return;
    content_folder_release(&content->folder);
    content_bytes_release(&content->bytes);
    free(content);
}

static void cleanup_content(struct store_content **content)
{
    store_content_unref(*content);
}

#define _cleanup_content_ _cleanup_(cleanup_content)

/* Loads a part from the cache. Return: 0; -ENOENT when the cache lacks the part; -errno. */
static int load_part(struct contents *contents, const struct content_request *request,
                     struct store_content **ret_content)
{
    _cleanup_content_ struct store_content *content = content_new(request->email);
    int error = content_cache_read(&contents->cache, request->key, &content->bytes);
    if (error != 0)
        return error;
    if (request->part == CONTENT_PART_TEXTS) {
        size_t len = (size_t)content->bytes.len;
        error = content_folder_unpack(TAKE_PTR(content->bytes.bytes), len, &content->folder);
    }
    if (error == 0)
        *ret_content = TAKE_PTR(content);
    return error == -EBADMSG ? -ENOENT : error;
}

/* ---------------------------------------------------------------- asking the service */

/* Bounds a file so that AHEAD_AT_ONCE unfinished files, which the cache does not count yet, fit into it. */
static uint64_t ahead_file_max_bytes(const struct contents *contents)
{
    uint64_t share = contents->cache.max_bytes / AHEAD_AT_ONCE;
    return CLAMP(share, (uint64_t)AHEAD_MAX_BYTES, (uint64_t)CONTENT_FILE_MAX_BYTES);
}

/* Leaves a long part in the file, and reads a short one into memory. */
static int take_file(struct contents *contents, enum content_part part, struct store_content *content)
{
    struct content_bytes *bytes = &content->bytes;
    size_t len = MIN(bytes->len, (uint64_t)CONTENT_ROW_MAX_BYTES);
    _cleanup_free_ char *read = g_malloc(len + 1);
    ssize_t got = file_pread_all(bytes->fd, read, len, 0);
    if (got < 0 || (size_t)got < len)
        return got < 0 ? (int)got : -EIO;
    read[len] = '\0';
    if (part == CONTENT_PART_RAW)
        content->folder.message_id = message_id_of(read, len);
    if (bytes->len > len)
        return 0;
    content_cache_drop_file(&contents->cache, bytes);
    content_bytes_release(bytes);
    *bytes = (struct content_bytes){.bytes = TAKE_PTR(read), .fd = -1, .len = len};
    return 0;
}

static int request_bytes(struct contents *contents, const struct content_request *request,
                         struct store_content *content, struct service_result *ret)
{
    struct mail_service *service = contents->store->service;
    struct content_bytes *bytes = &content->bytes;
    int error = content_cache_create_file(&contents->cache, bytes);
    if (error != 0)
        return error;
    service->ops->get_bytes(service, &request->query, bytes->fd, request->cancel, &bytes->len, ret);
    if (ret->outcome == SERVICE_OK)
        error = take_file(contents, request->part, content);
    if (error != 0 || ret->outcome != SERVICE_OK) {
        content_cache_drop_file(&contents->cache, bytes);
        content_bytes_release(bytes);
    }
    return error;
}

/* Makes one request. Return: 0, with the outcome in `ret`; -errno of the disk. */
static int request_once(struct contents *contents, const struct content_request *request,
                        struct store_content *content, struct service_result *ret)
{
    struct mail_service *service = contents->store->service;
    if (request->part != CONTENT_PART_TEXTS)
        return request_bytes(contents, request, content, ret);
    service->ops->get_content(service, &request->query, request->cancel, &content->folder, ret);
    return 0;
}

/* Repeats the request of a reader while the service is busy. Return: 0; -errno, as in store_content.h. */
static int request_with_retries(struct contents *contents, const struct content_request *request,
                                struct store_content *content)
{
    for (int attempt = 1;; attempt++) {
        struct service_result result = {.outcome = SERVICE_RETRY};
        int error = request_once(contents, request, content, &result);
        bool is_busy = error == 0 && result_is_busy(&result) && result.retry_after_ms <= PAUSE_MAX_MS;
        int64_t delay_ms = result.retry_after_ms >= 0 ? result.retry_after_ms : PAUSE_MS;
        if (error == 0) {
            contact_report(&contents->store->contact, &result);
            error = result_errno_of_content(&result);
        }
        service_result_release(&result);
        if (error == 0 || !is_busy || request->is_ahead || attempt == ATTEMPTS_MAX)
            return error;
        int64_t until_ms = clock_monotonic_ms(contents->clock) + delay_ms;
        LOCK_GUARD(&contents->lock);
        while (!cancel_is_set(&contents->cancel) && clock_monotonic_ms(contents->clock) < until_ms)
            clock_wait(contents->clock, &contents->stopped, &contents->lock, until_ms);
    }
}

/* Stores the part before a reader gets the part, so that a search finds every text that was read. Ignores an
 * error of the disk: the next read then fetches the part again. */
static int fetch_and_store(struct contents *contents, const struct content_request *request,
                           struct store_content **ret_content)
{
    _cleanup_content_ struct store_content *content = content_new(request->email);
    int error = request_with_retries(contents, request, content);
    if (error != 0)
        return error;
    struct content_folder *folder = &content->folder;
    struct content_bytes packed = {.bytes = folder->packed, .fd = -1, .len = folder->packed_len};
    bool is_text = request->part == CONTENT_PART_TEXTS;
    const struct content_new_part part = {.key = request->key,
                                          .bytes = is_text ? &packed : &content->bytes,
                                          .email = request->email,
                                          .email_id = request->query.email_id,
                                          .message_id = folder->message_id,
                                          .has_texts = is_text};
    error = content_cache_put(&contents->cache, &part);
    if (error != 0)
        log_debug("what was fetched of an email is not kept: %s", strerror(-error));
    content_cache_drop_file(&contents->cache, &content->bytes);
    *ret_content = TAKE_PTR(content);
    return 0;
}

/* ---------------------------------------------------------------- transfers */

static void unref_transfer_locked(struct content_transfer *transfer)
{
    if (--transfer->references > 0)
        return;
    store_content_unref(transfer->content);
    pthread_cond_destroy(&transfer->done);
    free((char *)transfer->request.query.attachment_id);
    free(transfer);
}

/* Fetching ahead from a busy service would make readers wait longer. */
static int check_may_request(const struct content_transfer *transfer)
{
    struct contents *contents = transfer->contents;
    struct contact *contact = &contents->store->contact;
    LOCK_GUARD(&contents->lock);
    if (cancel_is_set(&contents->cancel))
        return -EINTR;
    if (!transfer->request.is_ahead)
        return transfer->references > 1 ? 0 : -ECANCELED; /* a reader may yet join it */
    return contact_is_busy(contact) ? -EAGAIN : contact_is_unreachable(contact) ? -EHOSTUNREACH : 0;
}

/* Drops one reference. */
static void run_transfer(struct worker_job *job)
{
    struct content_transfer *transfer = (struct content_transfer *)job;
    struct contents *contents = transfer->contents;
    const struct content_request *request = &transfer->request;
    struct store_content *content = NULL;
    int error = 0;
    /* Another transfer may have stored the part since the reader looked into the cache. */
    if (load_part(contents, request, &content) != 0)
        error = check_may_request(transfer);
    if (error == 0 && content == NULL)
        error = fetch_and_store(contents, request, &content);
    LOCK_GUARD(&contents->lock);
    transfer->is_done = true;
    transfer->error = error != 0 && request->is_ahead ? -ECANCELED : error;
    transfer->content = content;
    g_hash_table_remove(contents->transfers, &request->key);
    pthread_cond_broadcast(&transfer->done);
    unref_transfer_locked(transfer);
}

/* Makes the transfer of a part. The caller runs the transfer if the request is ahead. */
static int start_transfer_locked(struct contents *contents, const struct content_request *request,
                                 struct content_transfer **ret_transfer)
{
    if (cancel_is_set(&contents->cancel))
        return -EINTR;
    if (contact_is_unreachable(&contents->store->contact))
        return -EHOSTUNREACH;
    struct content_transfer *transfer = g_new0(struct content_transfer, 1);
    *transfer = (struct content_transfer){
        .job.run = run_transfer, .contents = contents, .request = *request, .references = 1};
    transfer->request.query.attachment_id = g_strdup(request->query.attachment_id);
    clock_condition_init(&transfer->done);
    int error = request->is_ahead ? 0 : worker_pool_submit(contents->reader_pool, &transfer->job);
    if (error != 0) {
        unref_transfer_locked(transfer);
        return error;
    }
    g_hash_table_insert(contents->transfers, &transfer->request.key, transfer);
    *ret_transfer = transfer;
    return 0;
}

static int await_transfer_locked(struct contents *contents, const struct content_request *request,
                                 int64_t until_ms, struct cancel *cancel, struct store_content **ret_content)
{
    struct content_transfer *transfer = g_hash_table_lookup(contents->transfers, &request->key);
    int error = transfer != NULL ? 0 : start_transfer_locked(contents, request, &transfer);
    if (error != 0)
        return error;
    transfer->references++;
    while (!transfer->is_done && !cancel_is_set(&contents->cancel) && error == 0)
        error = wait_until(contents->clock, &transfer->done, &contents->lock, until_ms, cancel);
    if (transfer->is_done)
        error = transfer->error;
    else if (error == 0)
        error = -EINTR;
    if (error == 0)
        *ret_content = content_ref(transfer->content);
    unref_transfer_locked(transfer);
    return error;
}

/* Fetches a part from the service. Waits at most READER_WAIT_MS. */
static int fetch_part(struct contents *contents, const struct content_request *request, struct cancel *cancel,
                      struct store_content **ret_content)
{
    int64_t until_ms = clock_monotonic_ms(contents->clock) + READER_WAIT_MS;
    int error;
    LOCK_GUARD(&contents->lock);
    do
        error = await_transfer_locked(contents, request, until_ms, cancel, ret_content);
    while (error == -ECANCELED);
    return error;
}

/* ---------------------------------------------------------------- fetching ahead */

static uint64_t get_max_bytes(const struct contents *contents, enum content_part part, bool is_ahead)
{
    if (part == CONTENT_PART_TEXTS)
        return is_ahead ? AHEAD_MAX_BYTES : CONTENT_MAX_BYTES;
    return is_ahead ? ahead_file_max_bytes(contents) : CONTENT_FILE_MAX_BYTES;
}

/* Returns false if there is no such email. */
static bool make_request(struct contents *contents, uint32_t email, enum content_part part,
                         const char *attachment_id, bool is_ahead, struct content_request *ret)
{
    const char *id = store_get_email_id(contents->store, email);
    if (id == NULL)
        return false;
    *ret = (struct content_request){
        .key = content_cache_key(part, id, attachment_id),
        .part = part,
        .email = email,
        .query = {.email_id = id,
                  .attachment_id = attachment_id,
                  .max_bytes = get_max_bytes(contents, part, is_ahead)},
        .is_ahead = is_ahead,
        .cancel = &contents->cancel,
    };
    return true;
}

/* Fetches a part, unless another thread does so. Ignores errors, since a later read of the part reports them.
 */
static void fetch_ahead(struct contents *contents, uint32_t email, enum content_part part,
                        const char *attachment_id)
{
    struct content_request request;
    struct content_transfer *transfer = NULL;
    if (!make_request(contents, email, part, attachment_id, true, &request))
        return;
    pthread_mutex_lock(&contents->lock);
    if (!g_hash_table_contains(contents->transfers, &request.key))
        (void)start_transfer_locked(contents, &request, &transfer);
    pthread_mutex_unlock(&contents->lock);
    if (transfer != NULL)
        run_transfer(&transfer->job);
}

/* The texts contain the ids of the attachments. */
static void fetch_attachments_ahead(struct contents *contents, uint32_t email)
{
    struct content_request request;
    _cleanup_content_ struct store_content *texts = NULL;
    fetch_ahead(contents, email, CONTENT_PART_TEXTS, NULL);
    if (!make_request(contents, email, CONTENT_PART_TEXTS, NULL, true, &request) ||
        load_part(contents, &request, &texts) != 0)
        return;
    for (size_t i = 0; i < texts->folder.len; i++)
        if (texts->folder.entries[i].kind == CONTENT_ATTACHMENT)
            fetch_ahead(contents, email, CONTENT_PART_ATTACHMENT, texts->folder.entries[i].id);
}

static void run_ahead(struct worker_job *job)
{
    struct ahead_job *ahead = (struct ahead_job *)job;
    struct contents *contents = ahead->contents;
    if (ahead->part == CONTENT_PART_ATTACHMENT)
        fetch_attachments_ahead(contents, ahead->email);
    else
        fetch_ahead(contents, ahead->email, ahead->part, NULL);
    free(ahead);
    LOCK_GUARD(&contents->lock);
    contents->ahead_queued--;
}

static void queue_ahead_locked(struct contents *contents, uint32_t email, enum content_part part)
{
    if (cancel_is_set(&contents->cancel) || contents->ahead_queued >= AHEAD_QUEUE_MAX)
        return;
    struct ahead_job *job = g_new(struct ahead_job, 1);
    *job = (struct ahead_job){.job.run = run_ahead, .contents = contents, .email = email, .part = part};
    if (worker_pool_submit(contents->ahead_pool, &job->job) == 0)
        contents->ahead_queued++;
    else
        free(job);
}

static size_t distance(size_t one, size_t other)
{
    return one > other ? one - other : other - one;
}

/* Finds the stream that this position continues. If there is none: begins one in place of the least recently
 * used stream if `may_begin`, else returns NULL. */
static struct read_stream *find_stream_locked(struct contents *contents, uint32_t inbox,
                                              enum content_part part, size_t position, bool may_begin)
{
    struct read_stream *oldest = &contents->streams[0];
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        struct read_stream *stream = &contents->streams[i];
        if (stream->used > 0 && stream->inbox == inbox && stream->part == part &&
            distance(stream->position, position) <= STREAM_STRIDE_MAX)
            return stream;
        if (stream->used < oldest->used)
            oldest = stream;
    }
    if (!may_begin)
        return NULL;
    *oldest = (struct read_stream){.inbox = inbox, .part = part, .position = position};
    return oldest;
}

/* Moves the stream to the position. Returns the number of emails to fetch ahead: 0 until the reader has read
 * half of the emails that were fetched ahead before. */
static size_t advance_stream_locked(struct contents *contents, struct read_stream *stream, size_t position,
                                    uint32_t ret_emails[AHEAD_EMAILS])
{
    size_t moved = distance(position, stream->position);
    int step = position > stream->position ? 1 : -1;
    if (moved == 0 || step == -stream->step)
        return 0;
    stream->step = step;
    stream->position = position;
    stream->len++;
    stream->covered -= MIN(stream->covered, moved);
    size_t covered = stream->covered;
    size_t reach = MIN((size_t)stream->len * AHEAD_PER_EMAIL, (size_t)AHEAD_EMAILS);
    if (stream->len < STREAM_LEN_TO_BEGIN || covered > reach / 2 || (step < 0 && position <= covered))
        return 0;
    stream->covered = reach;
    return index_list_from(&contents->store->index, stream->inbox, position + (covered + 1) * (size_t)step,
                           step, ret_emails, reach - covered);
}

/* Follows the read of a part (`is_missing`: the cache lacks the part), and fetches ahead. Does not wait. */
static void follow_reader(struct contents *contents, const struct content_request *request, bool is_missing)
{
    uint32_t emails[AHEAD_EMAILS];
    uint32_t inbox;
    size_t position;
    if (!index_find_position(&contents->store->index, request->email, &inbox, &position))
        return;
    LOCK_GUARD(&contents->lock);
    struct read_stream *stream = find_stream_locked(contents, inbox, request->part, position, is_missing);
    if (stream == NULL)
        return;
    stream->used = ++contents->stream_uses;
    size_t len = advance_stream_locked(contents, stream, position, emails);
    for (size_t i = 0; i < len; i++)
        queue_ahead_locked(contents, emails[i], request->part);
}

/* ---------------------------------------------------------------- reading */

/* Returns -EINTR, too, if `cancel` is set and the part must be fetched. */
static int get_part(struct contents *contents, const struct content_request *request, struct cancel *cancel,
                    struct store_content **ret_content)
{
    bool is_missing = load_part(contents, request, ret_content) != 0;
    if (is_missing && cancel_is_set(cancel))
        return -EINTR;
    follow_reader(contents, request, is_missing);
    int error = is_missing ? fetch_part(contents, request, cancel, ret_content) : 0;
    /* The service may have lost its content since the last probe. */
    if (error == -ENOENT)
        atomic_store(&contents->must_probe, true);
    return error;
}

static struct store_content *ref_last(struct contents *contents, uint32_t email)
{
    LOCK_GUARD(&contents->lock);
    bool is_last = contents->last != NULL && contents->last->email == email;
    return is_last ? content_ref(contents->last) : NULL;
}

int store_content_get(struct store *store, uint32_t email, struct cancel *cancel,
                      struct store_content **ret_content)
{
    struct contents *contents = store->contents;
    struct content_request request;
    struct store_content *content = contents != NULL ? ref_last(contents, email) : NULL;
    if (content == NULL) {
        if (contents == NULL || !make_request(contents, email, CONTENT_PART_TEXTS, NULL, false, &request))
            return -ENOENT;
        int error = get_part(contents, &request, cancel, &content);
        if (error != 0)
            return error;
        pthread_mutex_lock(&contents->lock);
        struct store_content *former = contents->last;
        contents->last = content_ref(content);
        pthread_mutex_unlock(&contents->lock);
        store_content_unref(former);
    }
    *ret_content = content;
    return 0;
}

static bool make_bytes_request(struct contents *contents, uint32_t email, const char *attachment_id,
                               struct content_request *ret)
{
    enum content_part part = attachment_id != NULL ? CONTENT_PART_ATTACHMENT : CONTENT_PART_RAW;
    return contents != NULL && make_request(contents, email, part, attachment_id, false, ret);
}

int store_content_get_bytes(struct store *store, uint32_t email, const char *attachment_id,
                            struct cancel *cancel, struct store_content **ret_content)
{
    struct content_request request;
    return make_bytes_request(store->contents, email, attachment_id, &request)
               ? get_part(store->contents, &request, cancel, ret_content)
               : -ENOENT;
}

int store_content_get_len(struct store *store, uint32_t email, const char *attachment_id,
                          struct cancel *cancel, uint64_t *ret_len)
{
    struct contents *contents = store->contents;
    struct content_request request;
    if (!make_bytes_request(contents, email, attachment_id, &request))
        return -ENOENT;
    if (content_cache_get_len(&contents->cache, request.key, ret_len) == 0)
        return 0;
    _cleanup_content_ struct store_content *content = NULL;
    int error = get_part(contents, &request, cancel, &content);
    if (error == 0)
        *ret_len = content->bytes.len;
    return error;
}

/* ---------------------------------------------------------------- the probe */

static unsigned int read_ability(const struct contents *contents)
{
    _cleanup_reader_ struct connection *reader = NULL;
    int64_t ability = CONTENT_NONE;
    if (database_take_reader(contents->cache.cache->database, &reader) == 0)
        (void)query_integers(reader, &ability, 1, "SELECT value FROM marks WHERE name = ?", "s",
                             ability_mark);
    return (unsigned int)ability;
}

static struct service_capabilities get_capabilities(const struct contents *contents)
{
    struct mail_service *service = contents->store->service;
    struct service_capabilities capabilities;
    service->ops->get_capabilities(service, &capabilities);
    return capabilities;
}

/* Fetches one part, even if the cache has the part. Returns -EFBIG for a long part, which also proves that
 * the service has the part. */
static int probe_part(struct contents *contents, uint32_t email, enum content_part part,
                      struct cancel *cancel)
{
    struct content_request request;
    _cleanup_content_ struct store_content *content = NULL;
    if (!make_request(contents, email, part, NULL, true, &request))
        return -ENOENT;
    request.query.is_known_to_exist = true;
    request.cancel = cancel;
    return fetch_and_store(contents, &request, &content);
}

/* Requests the content of one email after another until the capabilities are certain: in turn of those that
 * were found first and last, since the service may lack the content of all its oldest emails, and somebody
 * may just have deleted the newest. */
static void probe_emails(struct contents *contents, struct cancel *cancel)
{
    struct index *index = &contents->store->index;
    uint32_t emails[2][AHEAD_EMAILS]; /* from the last email of each inbox, and from the first */
    size_t len[2] = {0, 0};
    for (uint32_t inbox = 0; inbox < index_count_inbox_numbers(index) && len[0] < PROBE_EMAILS_MAX; inbox++) {
        len[0] += index_list_from(index, inbox, INDEX_LAST, -1, emails[0] + len[0], AHEAD_EMAILS - len[0]);
        len[1] += index_list_from(index, inbox, 0, 1, emails[1] + len[1], AHEAD_EMAILS - len[1]);
    }
    bool is_sure = false;
    for (size_t i = 0; i < PROBE_EMAILS_MAX && !is_sure && !cancel_is_set(cancel); i++) {
        size_t end = i % 2;
        if (i / 2 >= len[end] || (end == 1 && i / 2 < len[0] && emails[0][i / 2] == emails[1][i / 2]))
            continue;
        uint32_t email = emails[end][i / 2];
        int error = probe_part(contents, email, CONTENT_PART_TEXTS, cancel);
        is_sure = get_capabilities(contents).content == CAPABILITY_ABSENT;
        if (error != 0 && error != -EFBIG)
            continue;
        error = probe_part(contents, email, CONTENT_PART_RAW, cancel);
        is_sure = error == 0 || get_capabilities(contents).raw != CAPABILITY_UNKNOWN;
    }
}

/* A capability that is unknown does not change the ability. */
static void publish_ability(struct contents *contents)
{
    const struct service_capabilities capabilities = get_capabilities(contents);
    const struct store_listener *listener = &contents->store->index.listener;
    struct connection *writer = NULL;
    unsigned int before = atomic_load(&contents->ability);
    bool has_content = capabilities.content == CAPABILITY_PRESENT ||
                       (capabilities.content == CAPABILITY_UNKNOWN && before != CONTENT_NONE);
    bool has_raw = capabilities.raw == CAPABILITY_PRESENT ||
                   (capabilities.raw == CAPABILITY_UNKNOWN && before == CONTENT_WITH_RAW);
    unsigned int ability = !has_content ? CONTENT_NONE : has_raw ? CONTENT_WITH_RAW : CONTENT_WITHOUT_RAW;
    if (ability == before)
        return;
    atomic_store(&contents->ability, ability);
    if (cache_begin_write(contents->cache.cache, &writer) == 0)
        (void)cache_end_write(contents->cache.cache,
                              query_execute(writer, "INSERT OR REPLACE INTO marks VALUES (?, ?)", "si",
                                            ability_mark, (int64_t)ability));
    index_touch_inboxes(&contents->store->index);
    if (listener->abilities_changed != NULL)
        listener->abilities_changed(listener->context);
}

void contents_probe(struct contents *contents)
{
    if (contents == NULL)
        return;
    struct cancel cancel = cancel_bounded(contents->clock, READER_WAIT_MS, &contents->cancel);
    bool is_in_doubt = atomic_exchange(&contents->must_probe, false);
    const struct service_capabilities before = get_capabilities(contents);
    if (is_in_doubt || before.content != CAPABILITY_PRESENT || before.raw == CAPABILITY_UNKNOWN)
        probe_emails(contents, &cancel);
    publish_ability(contents);
}

bool store_has_content(struct store *store)
{
    return store->contents != NULL && atomic_load(&store->contents->ability) != CONTENT_NONE;
}

bool store_has_raw(struct store *store)
{
    return store->contents != NULL && atomic_load(&store->contents->ability) == CONTENT_WITH_RAW;
}

/* ---------------------------------------------------------------- life */

int contents_new(struct store *store, int dir_fd, uint64_t max_bytes, struct contents **ret_contents)
{
    struct contents *contents = g_new0(struct contents, 1);
    contents->store = store;
    contents->clock = store->index.clock;
    contents->transfers = g_hash_table_new(g_int64_hash, g_int64_equal);
    cancel_init(&contents->cancel);
    pthread_mutex_init(&contents->lock, NULL);
    clock_condition_init(&contents->stopped);
    int error = content_cache_open(&contents->cache, &store->cache, dir_fd, max_bytes);
    contents->reader_pool = worker_pool_new("content", READER_TRANSFERS_MAX);
    contents->ahead_pool = worker_pool_new("content-ahead", AHEAD_AT_ONCE);
    if (error != 0) {
        contents_free(contents);
        return error;
    }
    atomic_store(&contents->ability, read_ability(contents));
    *ret_contents = contents;
    return 0;
}

void contents_stop(struct contents *contents)
{
    if (contents == NULL)
        return;
    cancel_set(&contents->cancel);
    pthread_mutex_lock(&contents->lock);
    pthread_cond_broadcast(&contents->stopped);
    GHashTableIter position;
    gpointer transfer;
    g_hash_table_iter_init(&position, contents->transfers);
    while (g_hash_table_iter_next(&position, NULL, &transfer))
        pthread_cond_broadcast(&((struct content_transfer *)transfer)->done);
    struct worker_pool *reader_pool = TAKE_PTR(contents->reader_pool);
    struct worker_pool *ahead_pool = TAKE_PTR(contents->ahead_pool);
    pthread_mutex_unlock(&contents->lock);
    worker_pool_free(reader_pool);
    worker_pool_free(ahead_pool);
}

void contents_free(struct contents *contents)
{
    if (contents == NULL)
        return;
    contents_stop(contents);
    store_content_unref(contents->last);
    g_hash_table_unref(contents->transfers);
    content_cache_release(&contents->cache);
    cancel_release(&contents->cancel);
    pthread_cond_destroy(&contents->stopped);
    pthread_mutex_destroy(&contents->lock);
    free(contents);
}
