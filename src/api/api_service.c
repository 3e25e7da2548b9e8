/* SPDX-License-Identifier: MIT */
/*
 * First the three kinds of calls: a request with a sink of its own (api_perform()); a POST whose short answer
 * is collected (api_post()); and a GET of a list, whose records are passed on while the list arrives
 * (get_list()). A call waits until the answer is complete, a deadline passes, or the call is cancelled, and
 * always sets `ret`. Then the operations of mail_service, ordered by endpoint.
 */
#include "api/api_service.h"

#include <errno.h>
#include <glib.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/list_reader.h"
#include "api/outcome.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/strbuf.h"
#include "http/http_client.h"
#include "mail/json_writer.h"

#define API_PREFIX "/api/v1"
#define LIST_MAX_BYTES (2ULL * 1024 * 1024 * 1024)

enum {
    API_REPLY_MAX_BYTES = 1024 * 1024, /* length of an answer other than a list or content */
    API_STALL_S = 30,                  /* a request may be slow, but must make progress */
    KEY_TIMEOUT_MS = 20 * 1000,
    PATH_MAX_BYTES = 4096, /* path and query of a request */
    ID_MAX_BYTES = 1024,   /* the longest id in a reply */
    SKIPPED_CALLS_MAX = 20,
    ETAGS_MAX = 4096,
};

/* Endpoints that a server may lack. After SKIPPED_CALLS_MAX skipped calls an absent one is tried again. */
enum optional_endpoint {
    ENDPOINT_INBOX_LIST,
    ENDPOINT_CONTENT,
    ENDPOINT_RAW,
    ENDPOINT_OUTBOUND,
    OPTIONAL_ENDPOINTS,
};

struct endpoint {
    enum service_capability state;
    unsigned int calls_to_skip; /* number of calls before an absent endpoint is tried again */
    uint64_t missing_hash;      /* hash of the id of an email that exists but got a 404; 0 if there is none */
};

/* The last complete answer to a query. */
struct known_answer {
    char etag[HTTP_ETAG_MAX_BYTES];
    unsigned int count; /* number of records */
};

struct api_service {
    struct mail_service service; /* must be first: api_service_of() casts a pointer to it */
    struct http_client *http;
    atomic_bool is_authenticated;                  /* a request with this key succeeded */
    pthread_mutex_t lock;                          /* a leaf: no lock is taken while it is held */
    struct endpoint endpoints[OPTIONAL_ENDPOINTS]; /* protected by `lock`, like all below */
    enum service_capability from_address_text;     /* ABSENT: from_address must be an object */
    enum service_capability idempotency_key;
    GHashTable *answers; /* maps the target of a query to its struct known_answer */
    struct service_counters counters;
};

static struct api_service *api_service_of(struct mail_service *service)
{
    return (struct api_service *)service;
}

/* ---------------------------------------------------------------- a call */

/* Makes the request, counts it, and sets its outcome and reason. */
static void api_perform(struct api_service *api, struct http_request request,
                        struct http_response *ret_response, struct service_result *ret)
{
    _cleanup_strbuf_ struct strbuf refusal = STRBUF_INIT(API_REPLY_MAX_BYTES);
    bool is_safe = request.json == NULL && request.file == NULL;
    request.stall_s = API_STALL_S;
    if (request.refusal == NULL)
        request.refusal = &refusal;
    http_client_perform(api->http, &request, ret_response);
    outcome_decide(api->http, ret_response, request.refusal, is_safe, ret);
    LOCK_GUARD(&api->lock);
    api->counters.requests++;
    api->counters.sent_bytes += ret_response->sent_bytes;
    api->counters.received_bytes += ret_response->received_bytes;
    /* 304 is a success of a conditional request. */
    if (ret->outcome != SERVICE_OK && ret_response->status != 304)
        api->counters.failures++;
}

static void set_outcome_without_request(struct service_result *ret, enum service_outcome outcome, int error,
                                        const char *reason)
{
    *ret = (struct service_result){.retry_after_ms = -1};
    outcome_set(ret, outcome, error, reason);
}

static int collect(void *context, const void *bytes, size_t len)
{
    return strbuf_append(context, bytes, len);
}

/* ---------------------------------------------------------------- a call whose answer is a list */

struct list_call {
    struct http_request request; /* get_list() adds the sink */
    struct list_reader reader;   /* the caller initialises and releases it */
    bool is_not_a_list; /* the answer is 2xx, but its body is not a list; set by get_list(), like all below */
    char etag[HTTP_ETAG_MAX_BYTES]; /* ETag of a list that was read completely; or "" */
};

static void list_call_release(struct list_call *call)
{
    list_reader_release(&call->reader);
}

static int feed_list(void *context, const void *bytes, size_t len)
{
    return list_reader_feed(context, bytes, len);
}

/* `error` is a result of list_reader_feed() or list_reader_finish(). */
static void set_list_outcome(struct list_call *call, int error, struct service_result *ret)
{
    const struct list_reader *reader = &call->reader;
    if (reader->stopped_by == -EOVERFLOW && reader->count >= reader->max_records) {
        char reason[LIST_REASON_MAX_BYTES];
        snprintf(
            reason, sizeof(reason),
            "the service lists more than it was asked for: %u records were taken, and the rest was not read",
            reader->count);
        outcome_set(ret, SERVICE_RETRY, EIO, reason);
    } else if (reader->stopped_by != 0) {
        outcome_set(ret, SERVICE_RETRY, -reader->stopped_by, "the list was not read to its end");
    } else if (error == -ENOMSG) {
        call->is_not_a_list = true;
        outcome_set(ret, SERVICE_RETRY, EIO, "the service answered with something that is not a JSON list");
        ret->is_foreign = !reader->is_wrapped;
    } else if (error != 0) {
        outcome_set(ret, SERVICE_RETRY, EIO, "the service's list is damaged JSON, or was cut off");
    } else if (ret->outcome == SERVICE_OK && reader->reason[0] != '\0') {
        outcome_set(ret, SERVICE_OK, EIO, reader->reason);
    }
}

/* SERVICE_OK with EIO means the same as for list_emails() in mail_service.h. */
static void get_list(struct api_service *api, struct list_call *call, struct service_result *ret)
{
    struct http_response response;
    call->request.sink = feed_list;
    call->request.context = &call->reader;
    call->request.max_body_bytes = LIST_MAX_BYTES;
    api_perform(api, call->request, &response, ret);
    set_list_outcome(
        call, ret->outcome == SERVICE_OK ? list_reader_finish(&call->reader) : call->reader.error, ret);
    if (ret->outcome != SERVICE_OK)
        return;
    api->is_authenticated = true;
    if (ret->error == 0)
        memcpy(call->etag, response.etag, sizeof(call->etag));
}

/* ---------------------------------------------------------------- a POST */

static char *read_id(const json_t *value)
{
    char *id = json_value_read_id(value);
    if (id == NULL || strlen(id) <= ID_MAX_BYTES)
        return id;
    free(id);
    return NULL;
}

/* Returns the id that a successful answer gives, as a member of an object or as the value itself; NULL
 * without one (the caller frees). If the answer is neither empty nor JSON, sets `ret` to SERVICE_UNKNOWN. */
static char *read_reply(struct api_service *api, const struct strbuf *body, struct service_result *ret)
{
    static const char *const names[] = {"id", "attachment_id", "email_id"};
    const char *text = strbuf_str(body);
    size_t blank = strspn(text, " \t\r\n");
    _cleanup_json_ json_t *value = json_loadb(text, body->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value == NULL && blank < body->len) {
        outcome_set(ret, SERVICE_UNKNOWN, EIO, "the service answered with something that is not JSON");
        ret->is_foreign = text[blank] == '<';
        return NULL;
    }
    api->is_authenticated = true;
    char *id = json_is_object(value) ? NULL : read_id(value);
    for (size_t i = 0; json_is_object(value) && id == NULL && i < ARRAY_LEN(names); i++)
        id = read_id(json_object_get(value, names[i]));
    return id;
}

/* Makes a POST. `request` lacks what is the same in all of them. The answer is collected in `body`, which is
 * emptied first, and *ret_id is as read_reply() returns it. */
static void api_post(struct api_service *api, struct http_request request, struct strbuf *body, char **ret_id,
                     struct service_result *ret)
{
    struct http_response response;
    request.sink = collect;
    request.context = request.refusal = body;
    request.max_body_bytes = API_REPLY_MAX_BYTES;
    strbuf_clear(body);
    api_perform(api, request, &response, ret);
    *ret_id = ret->outcome == SERVICE_OK ? read_reply(api, body, ret) : NULL;
}

/* ---------------------------------------------------------------- endpoints that a server may lack */

static void set_endpoint_state_locked(struct api_service *api, enum optional_endpoint endpoint,
                                      bool is_present)
{
    api->endpoints[endpoint] = (struct endpoint){
        .state = is_present ? CAPABILITY_PRESENT : CAPABILITY_ABSENT,
        .calls_to_skip = SKIPPED_CALLS_MAX,
    };
}

static void set_absent(struct service_result *ret, enum optional_endpoint endpoint, int status)
{
    static const char *const reason[] = {
        [ENDPOINT_INBOX_LIST] = "the service has no list of inboxes",
        [ENDPOINT_CONTENT] = "the service has no content of emails",
        [ENDPOINT_RAW] = "the service has no raw messages",
        [ENDPOINT_OUTBOUND] = "the service has no list of sent mail",
    };
    outcome_set(ret, SERVICE_ABSENT, ENOSYS, reason[endpoint]);
    ret->http_status = status;
}

/* Returns true, with the outcome in `ret`, if the call must be skipped. */
static bool skip_absent_endpoint(struct api_service *api, enum optional_endpoint endpoint,
                                 struct service_result *ret)
{
    struct endpoint *known = &api->endpoints[endpoint];
    *ret = (struct service_result){.retry_after_ms = -1};
    LOCK_GUARD(&api->lock);
    if (known->state != CAPABILITY_ABSENT || known->calls_to_skip == 0)
        return false;
    known->calls_to_skip--;
    set_absent(ret, endpoint, 0);
    return true;
}

static int stop_at_once(void *context, const char *text, size_t len)
{
    (void)context, (void)text, (void)len;
    return -ECANCELED;
}

/* Asks an endpoint that every server has. If the server ignores `limit`, the call ends after the first
 * record. */
static bool is_key_accepted(struct api_service *api, struct cancel *cancel, struct service_result *ret)
{
    _cleanup_(list_call_release) struct list_call call = {
        .request = {.target = API_PREFIX "/email?limit=1", .timeout_ms = KEY_TIMEOUT_MS, .cancel = cancel},
    };
    list_reader_init(&call.reader, EMAIL_RECORD_MAX_BYTES, 1, stop_at_once, NULL);
    service_result_release(ret);
    get_list(api, &call, ret);
    if (ret->outcome != SERVICE_OK && call.reader.stopped_by == 0)
        return false;
    api->is_authenticated = true;
    return true;
}

/* Records whether the endpoint of the list exists, and turns an answer that shows its absence into
 * SERVICE_ABSENT. A server may answer an unknown key in the same way. So the key is tried first; if the
 * server refuses the key, the refusal is the outcome (interface section 3, "Absence"). */
static void note_list_endpoint(struct api_service *api, enum optional_endpoint endpoint,
                               const struct list_call *call, struct service_result *ret)
{
    int status = ret->http_status;
    pthread_mutex_lock(&api->lock);
    if (ret->outcome == SERVICE_OK)
        set_endpoint_state_locked(api, endpoint, true);
    /* An endpoint that has answered with a list before exists, so an answer without a list is a fault. */
    bool looks_absent = status == 404 || status == 405 || status == 501 ||
                        (call->is_not_a_list && api->endpoints[endpoint].state != CAPABILITY_PRESENT);
    pthread_mutex_unlock(&api->lock);
    if (ret->outcome == SERVICE_OK || !looks_absent ||
        (!api->is_authenticated && !is_key_accepted(api, call->request.cancel, ret)))
        return;
    LOCK_GUARD(&api->lock);
    set_endpoint_state_locked(api, endpoint, false);
    set_absent(ret, endpoint, status);
}

/* ---------------------------------------------------------------- paths */

/* libcurl takes "%2E%2E" for ".." (RFC 3986), so the dots are encoded twice. No email has the id that the
 * server then reads. */
static void add_segment(struct strbuf *path, const char *segment)
{
    const char *dots = strcmp(segment, "..") == 0 ? "%2E%2E" : strcmp(segment, ".") == 0 ? "%2E" : NULL;
    g_autofree char *encoded = g_uri_escape_string(dots != NULL ? dots : segment, NULL, false);
    strbuf_appendf(path, "/%s", encoded);
}

static void add_query(struct strbuf *path, const char *name, const char *value)
{
    g_autofree char *encoded = g_uri_escape_string(value, NULL, false);
    bool is_first = strchr(strbuf_str(path), '?') == NULL;
    strbuf_appendf(path, "%c%s=%s", is_first ? '?' : '&', name, encoded);
}

/* ---------------------------------------------------------------- GET /inbox */

struct inbox_receiver {
    inbox_sink sink;
    void *context;
};

static int parse_and_pass_inbox(void *context, const char *text, size_t len)
{
    struct inbox_receiver *receiver = context;
    struct inbox_record record;
    int error = inbox_record_from_text(text, len, &record);
    if (error != 0)
        return -error;
    error = receiver->sink(receiver->context, &record);
    inbox_record_release(&record);
    return error;
}

static void list_inboxes(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                         struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    if (skip_absent_endpoint(api, ENDPOINT_INBOX_LIST, ret))
        return;
    struct inbox_receiver receiver = {.sink = sink, .context = context};
    _cleanup_(list_call_release) struct list_call call = {
        .request = {.target = API_PREFIX "/inbox", .cancel = cancel},
    };
    list_reader_init(&call.reader, EMAIL_RECORD_MAX_BYTES, MAIL_INBOXES_MAX, parse_and_pass_inbox, &receiver);
    get_list(api, &call, ret);
    note_list_endpoint(api, ENDPOINT_INBOX_LIST, &call, ret);
    if (ret->outcome == SERVICE_OK && ret->error != 0) /* the list lacks an inbox that exists */
        ret->outcome = SERVICE_RETRY;
}

/* ---------------------------------------------------------------- GET /email and GET /email/outbound */

struct email_receiver {
    const char *inbox_id; /* emails of other inboxes are skipped; NULL if the query is for all */
    email_sink sink;
    void *context;
};

static int parse_and_pass_email(void *context, const char *text, size_t len)
{
    const struct email_receiver *receiver = context;
    struct email_record record;
    int error = email_record_from_text(text, len, &record);
    if (error != 0)
        return -error;
    if (record.inbox_id == NULL)
        record.inbox_id = receiver->inbox_id;
    /* Published clients disagree on the encoding of `inbox_ids`, so a server may have ignored the parameter:
     * emails of other inboxes are skipped. */
    if (receiver->inbox_id == NULL || strcmp(record.inbox_id, receiver->inbox_id) == 0)
        error = receiver->sink(receiver->context, &record);
    email_record_release(&record);
    return error;
}

static int build_list_target(const char *path, const struct email_query *query, struct strbuf *target)
{
    char limit[16];
    snprintf(limit, sizeof(limit), "%u", query->limit > 0 ? query->limit : 1);
    strbuf_append_str(target, path);
    if (query->inbox_id != NULL)
        add_query(target, "inbox_ids", query->inbox_id);
    if (query->search_term != NULL)
        add_query(target, "search_term", query->search_term);
    if (query->with_invalid)
        add_query(target, "valid_only", "false");
    add_query(target, "limit", limit);
    return target->error;
}

/* Copies the last complete answer to a query. Its ETag makes the next request conditional (RFC 9110 section
 * 13.1.2). Returns false if no answer is known. */
static bool find_known_answer(struct api_service *api, const char *target, struct known_answer *ret)
{
    LOCK_GUARD(&api->lock);
    const struct known_answer *answer = g_hash_table_lookup(api->answers, target);
    if (answer == NULL)
        return false;
    *ret = *answer;
    return true;
}

/* Replaces the last answer to a query; only forgets it if `etag` is "", or if there are ETAGS_MAX answers. */
static void set_known_answer(struct api_service *api, const char *target, const char *etag,
                             unsigned int count)
{
    LOCK_GUARD(&api->lock);
    g_hash_table_remove(api->answers, target);
    if (*etag == '\0' || g_hash_table_size(api->answers) >= ETAGS_MAX)
        return;
    struct known_answer *answer = g_new0(struct known_answer, 1);
    g_strlcpy(answer->etag, etag, sizeof(answer->etag));
    answer->count = count;
    g_hash_table_insert(api->answers, g_strdup(target), answer);
}

/* `endpoint` is OPTIONAL_ENDPOINTS for a path that every server has. */
static void list_records(struct api_service *api, const char *path, enum optional_endpoint endpoint,
                         const struct email_query *query, email_sink sink, void *context,
                         struct cancel *cancel, unsigned int *ret_count, struct service_result *ret)
{
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(PATH_MAX_BYTES);
    *ret_count = 0;
    if (build_list_target(path, query, &target) < 0) {
        set_outcome_without_request(ret, SERVICE_REJECTED, EINVAL,
                                    "the inbox's id, or what is searched for, is too long");
        return;
    }
    struct known_answer known;
    bool is_conditional = query->may_be_unchanged && find_known_answer(api, target.data, &known);
    struct email_receiver receiver = {.inbox_id = query->inbox_id, .sink = sink, .context = context};
    size_t max_records = query->known + MAIL_LIST_SURPLUS;
    if (max_records < query->limit)
        max_records = query->limit;
    _cleanup_(list_call_release) struct list_call call = {
        .request = {.target = target.data,
                    .if_none_match = is_conditional ? known.etag : NULL,
                    .cancel = cancel},
    };
    list_reader_init(&call.reader, EMAIL_RECORD_MAX_BYTES, max_records, parse_and_pass_email, &receiver);
    get_list(api, &call, ret);
    *ret_count = call.reader.count;
    /* A caller that asks for one record only wants to know whether the service answers. */
    if (query->limit == 1 && call.reader.stopped_by == -EOVERFLOW && call.reader.count >= max_records)
        outcome_set(ret, SERVICE_OK, 0, "");
    if (is_conditional && ret->http_status == 304) {
        outcome_set(ret, SERVICE_OK, 0, "");
        api->is_authenticated = true;
        *ret_count = known.count;
    } else if (query->search_term == NULL) { /* searches are seldom repeated, and their number is unbounded */
        set_known_answer(api, target.data, call.etag, call.reader.count);
    }
    if (endpoint != OPTIONAL_ENDPOINTS)
        note_list_endpoint(api, endpoint, &call, ret);
}

static void list_emails(struct mail_service *service, const struct email_query *query, email_sink sink,
                        void *context, struct cancel *cancel, unsigned int *ret_count,
                        struct service_result *ret)
{
    list_records(api_service_of(service), API_PREFIX "/email", OPTIONAL_ENDPOINTS, query, sink, context,
                 cancel, ret_count, ret);
    if (ret->http_status == 404 && query->inbox_id == NULL) /* every service lists mail */
        ret->is_foreign = true;
}

static void list_outbound(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    *ret_count = 0;
    if (!skip_absent_endpoint(api, ENDPOINT_OUTBOUND, ret))
        list_records(api, API_PREFIX "/email/outbound", ENDPOINT_OUTBOUND, query, sink, context, cancel,
                     ret_count, ret);
}

/* ---------------------------------------------------------------- GET /email/{id} and the paths below it */

/* Appends /email/ID/BELOW/BELOW_ID; the last two may be NULL. Return: 0; -errno, with the outcome in `ret`,
 * if the path gets too long. */
static int build_email_target(const char *email_id, const char *below, const char *below_id,
                              struct strbuf *target, struct service_result *ret)
{
    strbuf_append_str(target, API_PREFIX "/email");
    add_segment(target, email_id);
    if (below != NULL)
        add_segment(target, below);
    if (below_id != NULL)
        add_segment(target, below_id);
    if (target->error != 0)
        set_outcome_without_request(ret, SERVICE_REJECTED, EINVAL, "the id is too long");
    return target->error;
}

/* Records whether the endpoint exists. A raw message that was cut off because of its length shows that the
 * endpoint exists. One email that is not found shows nothing, since the email may have been deleted; a second
 * such email, without a success in between, shows that the endpoint is absent. */
static void note_content_endpoint(struct api_service *api, enum optional_endpoint endpoint,
                                  const struct content_query *query, bool is_no_content,
                                  struct service_result *ret)
{
    struct endpoint *known = &api->endpoints[endpoint];
    int status = ret->http_status;
    bool is_too_long = ret->error == EFBIG && status >= 200 && status < 300;
    LOCK_GUARD(&api->lock);
    if (ret->outcome == SERVICE_OK || is_too_long) {
        api->is_authenticated = true;
        set_endpoint_state_locked(api, endpoint, true);
        return;
    }
    if (!query->is_known_to_exist || (status != 404 && status != 405 && !is_no_content))
        return;
    uint64_t hash = hash_bytes(0, query->email_id, strlen(query->email_id));
    if (known->state == CAPABILITY_ABSENT || (known->missing_hash != 0 && known->missing_hash != hash)) {
        set_endpoint_state_locked(api, endpoint, false);
        set_absent(ret, endpoint, status);
    } else {
        known->missing_hash = hash;
    }
}

/* Returns true if the answer is not content, but a page, or the record that a Core server may send. */
static bool read_content(const struct strbuf *body, const struct content_query *query,
                         struct content_folder *content, struct service_result *ret)
{
    int error = content_folder_read(strbuf_str(body), body->len, content);
    if (error == 0 && content->email_id != NULL && strcmp(content->email_id, query->email_id) != 0) {
        content_folder_release(content);
        outcome_set(ret, SERVICE_RETRY, EIO, "the service answered with another email");
        return false;
    }
    if (error != 0)
        outcome_set(ret, SERVICE_RETRY, EIO,
                    "the service answered with something that is not the content of an email");
    return error == -EBADMSG;
}

/* Makes a GET of the email, or of BELOW/BELOW_ID of it. A 404 may also mean that the endpoint is missing: see
 * note_content_endpoint(). */
static void get_below_email(struct api_service *api, const struct content_query *query, const char *below,
                            const char *below_id, struct http_request request,
                            struct http_response *ret_response, struct service_result *ret)
{
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(PATH_MAX_BYTES);
    *ret_response = (struct http_response){.status = 0};
    if (build_email_target(query->email_id, below, below_id, &target, ret) < 0)
        return;
    request.target = target.data;
    request.max_body_bytes = query->max_bytes;
    api_perform(api, request, ret_response, ret);
    if (ret_response->error == -EFBIG && ret_response->status >= 200 && ret_response->status < 300)
        outcome_set(ret, SERVICE_REJECTED, EFBIG, "the service's answer is longer than allowed");
    if (ret->outcome == SERVICE_REJECTED && (ret->http_status == 404 || ret->http_status == 410))
        ret->error = ENOENT;
}

static void get_content(struct mail_service *service, const struct content_query *query,
                        struct cancel *cancel, struct content_folder *ret_content, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(CONTENT_MAX_BYTES);
    const struct http_request request = {.sink = collect, .context = &body, .cancel = cancel};
    struct http_response response;
    if (skip_absent_endpoint(api, ENDPOINT_CONTENT, ret))
        return;
    get_below_email(api, query, NULL, NULL, request, &response, ret);
    bool is_no_content = ret->outcome == SERVICE_OK && read_content(&body, query, ret_content, ret);
    if (ret->error != EFBIG) /* the start of a long answer does not show whether it is content */
        note_content_endpoint(api, ENDPOINT_CONTENT, query, is_no_content, ret);
}

struct download {
    int fd;
    uint64_t len;
    int error; /* -errno of the write */
};

static int write_bytes(void *context, const void *bytes, size_t len)
{
    struct download *download = context;
    download->error = file_pwrite_all(download->fd, bytes, len, (off_t)download->len);
    if (download->error == 0)
        download->len += len;
    return download->error;
}

static void get_bytes(struct mail_service *service, const struct content_query *query, int fd,
                      struct cancel *cancel, uint64_t *ret_len, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    bool is_raw = query->attachment_id == NULL;
    struct download download = {.fd = fd};
    const struct http_request request = {
        .takes_any_type = true, .sink = write_bytes, .context = &download, .cancel = cancel};
    struct http_response response;
    if (is_raw && skip_absent_endpoint(api, ENDPOINT_RAW, ret))
        return;
    get_below_email(api, query, is_raw ? "raw" : "attachment", query->attachment_id, request, &response, ret);
    *ret_len = download.len;
    bool is_no_message = is_raw && response.is_html && (ret->outcome == SERVICE_OK || ret->error == EFBIG);
    if (download.error != 0)
        outcome_set(ret, SERVICE_RETRY, -download.error, strerror(-download.error));
    else if (is_no_message)
        outcome_set(ret, SERVICE_RETRY, EIO, "the service answered with a web page");
    if (is_raw)
        note_content_endpoint(api, ENDPOINT_RAW, query, is_no_message, ret);
}

/* ---------------------------------------------------------------- POST /inbox/upsert */

static void upsert_inbox(struct mail_service *service, const char *request, int64_t timeout_ms,
                         struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(API_REPLY_MAX_BYTES);
    api_post(api,
             (struct http_request){.target = API_PREFIX "/inbox/upsert",
                                   .json = request,
                                   .timeout_ms = timeout_ms,
                                   .cancel = cancel},
             &body, ret_id, ret);
}

/* ---------------------------------------------------------------- POST /email/{id}/mark/{true|false} */

static void mark_email(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
                       struct cancel *cancel, struct email_record *ret_record, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(PATH_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(API_REPLY_MAX_BYTES);
    struct email_record record;
    _cleanup_free_ char *id = NULL;
    *ret_record = (struct email_record){.key = NULL};
    if (build_email_target(email_id, "mark", is_valid ? "true" : "false", &target, ret) < 0)
        return;
    api_post(api,
             (struct http_request){
                 .target = target.data, .json = "{}", .timeout_ms = timeout_ms, .cancel = cancel},
             &body, &id, ret);
    if (ret->http_status == 404)
        ret->error = ENOENT;
    /* Any answer in JSON confirms that the email was marked, even without a record. */
    if (ret->outcome == SERVICE_OK && email_record_from_text(strbuf_str(&body), body.len, &record) == 0)
        *ret_record = record;
}

/* ---------------------------------------------------------------- POST /email/add-attachment-to-pool */

static bool is_plain_type(const char *type)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&^_.+-";
    size_t first = strspn(type, token);
    if (first == 0 || type[first] != '/')
        return false;
    size_t second = strspn(type + first + 1, token);
    return second > 0 && type[first + 1 + second] == '\0';
}

static void upload(struct mail_service *service, const struct upload_request *request, struct cancel *cancel,
                   char **ret_id, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    const struct http_file file = {
        .name = request->name,
        .type = is_plain_type(request->content_type) ? request->content_type : "application/octet-stream",
        .bytes = request->bytes,
        .len = request->len,
    };
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(API_REPLY_MAX_BYTES);
    api_post(api,
             (struct http_request){
                 .target = API_PREFIX "/email/add-attachment-to-pool", .file = &file, .cancel = cancel},
             &body, ret_id, ret);
}

/* ---------------------------------------------------------------- POST /email/send */

/* Servers accept different forms of a send request. Another form is tried only after a 400 or 422, which mean
 * that the server has sent nothing. */

#define FROM "from_address"
#define KEY "idempotency_key"

static void get_capabilities(struct mail_service *service, struct service_capabilities *ret)
{
    struct api_service *api = api_service_of(service);
    LOCK_GUARD(&api->lock);
    *ret = (struct service_capabilities){
        .inbox_list = api->endpoints[ENDPOINT_INBOX_LIST].state,
        .content = api->endpoints[ENDPOINT_CONTENT].state,
        .raw = api->endpoints[ENDPOINT_RAW].state,
        .outbound = api->endpoints[ENDPOINT_OUTBOUND].state,
        .from_address_text = api->from_address_text,
        .idempotency_key = api->idempotency_key,
    };
}

struct send_forms {
    struct api_service *api;
    const struct send_request *request;
    struct cancel *cancel;
    struct strbuf body; /* body of the answer */
    bool as_text;       /* from_address is sent as a string, as in the request */
    bool with_key;
    bool is_flipped; /* the other form of from_address was tried */
};

static void post_form(struct send_forms *forms, char **ret_id, struct service_result *ret)
{
    _cleanup_json_ json_t *form = json_loads(forms->request->json, JSON_ALLOW_NUL, NULL);
    json_t *from = json_object_get(form, FROM);
    int error = 0;
    if (!forms->as_text)
        error = json_object_set_new(form, FROM, json_pack("{s:O, s:n}", "address", from, "name"));
    if (forms->with_key && error == 0)
        error = json_object_set_new(form, KEY, json_string(forms->request->idempotency_key));
    _cleanup_free_ char *text = error == 0 ? json_dumps(form, JSON_COMPACT) : NULL;
    if (text == NULL) {
        set_outcome_without_request(ret, SERVICE_RETRY, ENOMEM, "out of memory");
        return;
    }
    api_post(forms->api,
             (struct http_request){.target = API_PREFIX "/email/send", .json = text, .cancel = forms->cancel},
             &forms->body, ret_id, ret);
}

/* Changes the form of the fields that the answer mentions. Returns false if there is no other form to try. */
static bool adapt_to_refusal(struct send_forms *forms, const struct service_result *result)
{
    bool is_changed = false;
    if (result->http_status != 400 && result->http_status != 422)
        return false;
    if (!forms->is_flipped && outcome_mentions(&forms->body, FROM)) {
        forms->is_flipped = true;
        forms->as_text = !forms->as_text;
        is_changed = true;
    }
    if (!forms->with_key || !outcome_mentions(&forms->body, KEY))
        return is_changed;
    LOCK_GUARD(&forms->api->lock);
    forms->api->idempotency_key = CAPABILITY_ABSENT;
    /* A message that the service may have sent must not be repeated without its key. */
    forms->with_key = forms->request->is_repeat;
    return !forms->with_key;
}

static void try_forms(struct send_forms *forms, char **ret_id, struct service_result *ret)
{
    struct service_result first = {.retry_after_ms = -1};
    post_form(forms, ret_id, ret);
    while (adapt_to_refusal(forms, ret)) {
        if (first.detail == NULL)
            first = *ret;
        else
            service_result_release(ret);
        post_form(forms, ret_id, ret);
    }
    /* If the server refuses both forms of from_address, the first refusal helps the user more. */
    if (first.detail != NULL && ret->outcome == SERVICE_REJECTED && forms->is_flipped &&
        outcome_mentions(&forms->body, FROM)) {
        service_result_release(ret);
        *ret = first;
    } else {
        service_result_release(&first);
    }
}

static void send_message(struct mail_service *service, const struct send_request *request,
                         struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    struct service_capabilities known;
    get_capabilities(service, &known);
    *ret_id = NULL;
    struct send_forms forms = {
        .api = api,
        .request = request,
        .cancel = cancel,
        .body = STRBUF_INIT(API_REPLY_MAX_BYTES),
        .as_text = known.from_address_text != CAPABILITY_ABSENT,
        .with_key = known.idempotency_key != CAPABILITY_ABSENT,
    };
    if (!forms.with_key && request->is_repeat) {
        set_outcome_without_request(
            ret, SERVICE_REJECTED, EINVAL,
            "an earlier try may have been sent, and the service does not take the idempotency key "
            "that would make another one safe");
        return;
    }
    try_forms(&forms, ret_id, ret);
    strbuf_release(&forms.body);
    LOCK_GUARD(&api->lock);
    if (ret->outcome == SERVICE_OK && forms.is_flipped)
        api->from_address_text = forms.as_text ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
}

/* ---------------------------------------------------------------- the service */

static void get_counters(struct mail_service *service, struct service_counters *ret)
{
    struct api_service *api = api_service_of(service);
    LOCK_GUARD(&api->lock);
    *ret = api->counters;
}

static const struct mail_service_ops api_ops = {
    .list_inboxes = list_inboxes,
    .list_emails = list_emails,
    .upsert_inbox = upsert_inbox,
    .upload = upload,
    .send = send_message,
    .list_outbound = list_outbound,
    .get_content = get_content,
    .get_bytes = get_bytes,
    .mark_email = mark_email,
    .get_capabilities = get_capabilities,
    .get_counters = get_counters,
};

int api_service_new(const struct http_config *config, struct mail_service **ret_service)
{
    struct api_service *api = g_new0(struct api_service, 1);
    int error = http_client_new(config, &api->http);
    if (error != 0) {
        free(api);
        return error;
    }
    api->service.ops = &api_ops;
    pthread_mutex_init(&api->lock, NULL);
    api->answers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    *ret_service = &api->service;
    return 0;
}

void api_service_free(struct mail_service *service)
{
    if (service == NULL)
        return;
    struct api_service *api = api_service_of(service);
    http_client_free(api->http);
    g_hash_table_destroy(api->answers);
    pthread_mutex_destroy(&api->lock);
    free(api);
}
