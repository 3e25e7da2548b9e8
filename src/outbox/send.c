/* SPDX-License-Identifier: MIT */
/*
 * One attempt to send a message or upload a file, and the meaning of its answer. The order of steps keeps a
 * message from being sent twice: record `sending`, send the request, record the outcome. docs/OUTBOX.md has
 * the crash points between the steps.
 */
#include "outbox/send.h"

#include <errno.h>
#include <magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/crash_point.h"
#include "base/lock.h"
#include "base/log.h"
#include "mail/draft.h"
#include "outbox/accept.h"
#include "outbox/change.h"

/* ================================================================ what an answer means */

struct attempt {
    struct outbox *outbox;
    struct item *item;
    struct cancel *cancel;
    struct draft *draft;
    char *request;
};

enum {
    REQUEST_MAX_BYTES = 20 * 1000 * 1000, /* a longer request is sent, but not recorded */
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_PROXY_LOGIN = 407,
    HTTP_TOO_LARGE = 413,
};

static int ignore_email(void *context, struct email_record *record)
{
    return 0;
}

/* Lists one email, which every service can do, but only with the key. Waits for the network. Returns true if
 * the service itself answered and accepted the key. */
static bool ask_for_list(const struct attempt *attempt, struct service_result *ret)
{
    struct mail_service *service = attempt->outbox->config.service;
    struct email_query query = {.inbox_id = NULL, .limit = 1};
    unsigned int count = 0;
    *ret = (struct service_result){.retry_after_ms = -1};
    service->ops->list_emails(service, &query, ignore_email, NULL, attempt->cancel, &count, ret);
    return ret->outcome == SERVICE_OK ||
           (ret->outcome == SERVICE_REJECTED && !ret->is_foreign && ret->http_status != 0);
}

/* Returns true if a server refused the request, so that nothing was sent, and the refusal concerns this item
 * alone, which must not hold up all others for ever. A refusal by another server, a 403 or a 404 may concern
 * all items: then the item waits, unless a list succeeds. */
static bool is_refused_for_good(const struct attempt *attempt, const struct service_result *result)
{
    bool is_refused = result->outcome == SERVICE_REJECTED || result->outcome == SERVICE_ABSENT ||
                      result->http_status == HTTP_FORBIDDEN || result->http_status == HTTP_PROXY_LOGIN;
    bool may_concern_all =
        result->is_foreign || result->http_status == HTTP_FORBIDDEN || result->http_status == HTTP_NOT_FOUND;
    if (!is_refused || !may_concern_all)
        return is_refused;
    struct service_result list;
    bool is_there = ask_for_list(attempt, &list);
    service_result_release(&list);
    return is_there;
}

/* Reports an answer to the queue, and to the store. The caller settles the item afterwards, so that no worker
 * sends a request in between. Turns the claim into one for the disk. */
static void report_answer(const struct attempt *attempt, const struct service_result *result,
                          enum answer answer)
{
    struct outbox *outbox = attempt->outbox;
    const struct contact_listener *listener = &outbox->config.contact;
    pthread_mutex_lock(&outbox->lock);
    attempt->item->claim = CLAIM_DISK;
    enum suspension_reason reason = send_queue_report(&outbox->queue, attempt->item, result, answer);
    pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->lock);
    /* Neither a 429 or 503 nor a cancelled request shows whether the service accepts the key. */
    if (result->error != EINTR && reason != SUSPENSION_BUSY && listener->asked != NULL)
        listener->asked(listener->context, reason == SUSPENSION_NONE);
}

/* Finds out what an answer means for the item and for all others. May ask for a list (waits for the network).
 * Returns true if the item is refused for good. */
static bool process_answer(const struct attempt *attempt, const struct service_result *result)
{
    bool is_refused = is_refused_for_good(attempt, result);
    report_answer(attempt, result, is_refused ? ANSWER_REFUSES_ITEM : ANSWER_TO_ITEM);
    return is_refused;
}

/* Settles an item that this attempt did not send or upload: it fails, or is queued again. */
static void settle_not_sent(struct attempt *attempt, bool fails, int http_status, const char *reason)
{
    enum item_state queued = attempt->item->row.kind == ITEM_MESSAGE ? ITEM_QUEUED : ITEM_UPLOADING;
    settle_item(attempt->outbox, attempt->item, fails ? ITEM_FAILED : queued, http_status, reason);
}

static void requeue_after_local_failure(struct attempt *attempt, int error)
{
    pthread_mutex_lock(&attempt->outbox->lock);
    send_queue_put_off(&attempt->outbox->queue, attempt->item);
    pthread_mutex_unlock(&attempt->outbox->lock);
    settle_not_sent(attempt, false, 0, strerror(-error));
}

/* ================================================================ content types */

#define OPEN_XML "application/vnd.openxmlformats-officedocument."
#define OPEN_DOCUMENT "application/vnd.oasis.opendocument."

enum {
    CONTENT_TYPE_SIZE = 128,
    MAGIC_BYTES = 64 * 1024, /* length of the file's beginning that libmagic examines */
};

static const struct {
    const char *extension;
    const char *type;
} by_extension[] = {
    {"csv", "text/csv"},
    {"css", "text/css"},
    {"docx", OPEN_XML "wordprocessingml.document"},
    {"eml", "message/rfc822"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ics", "text/calendar"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"md", "text/markdown"},
    {"odp", OPEN_DOCUMENT "presentation"},
    {"ods", OPEN_DOCUMENT "spreadsheet"},
    {"odt", OPEN_DOCUMENT "text"},
    {"pptx", OPEN_XML "presentationml.presentation"},
    {"svg", "image/svg+xml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"vcf", "text/vcard"},
    {"xlsx", OPEN_XML "spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
};

/* Finds the "type/subtype" of a content, or "application/octet-stream". */
static void find_content_type(const char *name, const void *bytes, size_t len,
                              char ret_type[CONTENT_TYPE_SIZE])
{
    magic_t magic = magic_open(MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS);
    bool is_loaded = magic != NULL && magic_load(magic, NULL) == 0;
    const char *found = is_loaded ? magic_buffer(magic, bytes, MIN(len, MAGIC_BYTES)) : NULL;
    if (!is_loaded)
        log_warning("libmagic has no database; content types come from names alone");
    if (found == NULL)
        found = "application/octet-stream";
    const char *dot = strrchr(name, '.');
    /* Several formats share each of these types, so the name decides. */
    bool is_vague = strncmp(found, "text/", 5) == 0 || strcmp(found, "application/octet-stream") == 0 ||
                    strcmp(found, "application/zip") == 0 || strcmp(found, "application/json") == 0;
    for (size_t i = 0; is_vague && dot != NULL && i < ARRAY_LEN(by_extension); i++)
        if (strcasecmp(dot + 1, by_extension[i].extension) == 0)
            found = by_extension[i].type;
    snprintf(ret_type, CONTENT_TYPE_SIZE, "%s", found);
    if (magic != NULL)
        magic_close(magic);
}

/* ================================================================ uploading */

/* Uploads a content of the spool under a name, and sets *ret to the service's answer. No other thread changes
 * the content: its item is claimed, or the content belongs to a message. Returns 0; or, before any request,
 * -EBADMSG: the content does not have this digest ("": any digest); or the disk's error. */
static int upload_content(const struct attempt *attempt, uint64_t content, const char *name,
                          const char *digest, char **ret_id, struct service_result *ret)
{
    struct mail_service *service = attempt->outbox->config.service;
    char content_type[CONTENT_TYPE_SIZE];
    char found[ITEM_DIGEST_SIZE];
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    int error =
        spool_read_content(attempt->outbox->spool, content, accept_max_bytes(ITEM_ATTACHMENT), &bytes, &len);
    if (error != 0)
        return error == -EFBIG ? -EBADMSG : error;
    item_digest(bytes, len, found);
    if (digest[0] != '\0' && strcmp(found, digest) != 0)
        return -EBADMSG;
    find_content_type(name, bytes, len, content_type);
    const struct upload_request request = {name, content_type, bytes, len};
    service->ops->upload(service, &request, attempt->cancel, ret_id, ret);
    return 0;
}

/* Returns true if an upload succeeded; if not, fails the item or queues it again. `error` is that of
 * upload_content(). */
static bool check_upload(struct attempt *attempt, int error, const struct service_result *result,
                         const char *id)
{
    bool is_message = attempt->item->row.kind == ITEM_MESSAGE;
    if (error == -EBADMSG || error == -ENOENT)
        settle_not_sent(attempt, true, 0,
                        is_message ? "an attachment changed in the spool" : "the file changed in the spool");
    else if (error != 0)
        requeue_after_local_failure(attempt, error);
    else if (result->outcome != SERVICE_OK)
        settle_not_sent(attempt, process_answer(attempt, result), result->http_status, result->detail);
    else if (id == NULL)
        settle_not_sent(attempt, true, result->http_status, "the service took the file, but gave it no id");
    else
        return true;
    return false;
}

/* ================================================================ messages */

/* Returns true if the message may be sent. If the store's last list failed, or the queue demands it, asks for
 * a list first, because a message that another server accepts in the service's place is lost. If the list
 * fails, the message waits. */
static bool may_send(struct attempt *attempt)
{
    struct outbox *outbox = attempt->outbox;
    const struct contact_listener *contact = &outbox->config.contact;
    if (!attempt->item->schedule.must_ask_list &&
        (contact->is_lost == NULL || !contact->is_lost(contact->context)))
        return true;
    struct service_result list;
    bool is_there = ask_for_list(attempt, &list);
    if (is_there) {
        pthread_mutex_lock(&outbox->lock);
        send_queue_end_rest(&outbox->queue);
        pthread_mutex_unlock(&outbox->lock);
    } else {
        report_answer(attempt, &list, ANSWER_TO_LIST);
        settle_not_sent(attempt, false, list.http_status, list.detail);
    }
    service_result_release(&list);
    return is_there;
}

/* Returns how many of a message's pieces are files of attachments/, which precede its MIME parts. */
static size_t count_files(const struct row *row)
{
    size_t files = 0;
    while (files < row->pieces_len && row->pieces[files].name != NULL)
        files++;
    return files;
}

/* Compares the content with its digest: a power cut or a repair of the disk may have shortened it. */
static int load_draft(struct attempt *attempt)
{
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *reason = NULL;
    const struct row *row = &attempt->item->row;
    char digest[ITEM_DIGEST_SIZE];
    size_t len;
    int error = spool_read_content(attempt->outbox->spool, row->number, DRAFT_MAX_BYTES, &bytes, &len);
    if (error == 0) {
        accept_digest(row, bytes, len, digest);
        error = strcmp(row->digest, digest) != 0
                    ? -EBADMSG
                    : draft_parse(bytes, len, row->reply_template, &attempt->draft, &reason);
    }
    if (error == 0 && attempt->draft->parts_len != row->pieces_len - count_files(row))
        error = -EBADMSG;
    if (error == -EBADMSG || error == -EDESTADDRREQ || error == -EMSGSIZE || error == -ENOENT)
        settle_not_sent(attempt, true, 0, reason != NULL ? reason : "the message changed in the spool");
    else if (error != 0)
        requeue_after_local_failure(attempt, error);
    return error;
}

/* Saves the id durably before the next upload, so that a restart does not upload the piece again. */
static int record_piece(struct attempt *attempt, size_t index, const char *id)
{
    struct change change;
    change_begin(&change, attempt->item, ITEM_QUEUED);
    struct piece *piece = &change.next.pieces[index];
    row_set_string(&piece->pool_id, id);
    change.pooled = piece->name != NULL ? piece : NULL;
    int error = change_commit(attempt->outbox, &change, 1);
    change_release(attempt->outbox, &change);
    crash_point("piece_recorded");
    if (error != 0)
        requeue_after_local_failure(attempt, error);
    return error;
}

static void upload_part(struct attempt *attempt, size_t part, char **ret_id, struct service_result *ret)
{
    struct mail_service *service = attempt->outbox->config.service;
    const struct draft_part *from = &attempt->draft->parts[part];
    const struct upload_request request = {from->name, from->content_type, from->bytes, from->len};
    service->ops->upload(service, &request, attempt->cancel, ret_id, ret);
}

/* Uploads a piece, unless the pool has the file already, and records its id. On failure queues or fails the
 * message, and returns -errno. */
static int upload_piece(struct attempt *attempt, size_t index)
{
    const struct row *row = &attempt->item->row;
    const struct piece *piece = &row->pieces[index];
    struct service_result result = {.outcome = SERVICE_OK};
    _cleanup_free_ char *id =
        piece->name == NULL ? NULL : spool_find_pool_id(attempt->outbox->spool, piece->digest, piece->name);
    int error = 0;
    if (piece->name == NULL)
        upload_part(attempt, index - count_files(row), &id, &result);
    else if (id == NULL)
        error = upload_content(attempt, piece->content, piece->name, piece->digest, &id, &result);
    error = check_upload(attempt, error, &result, id) ? record_piece(attempt, index, id) : -EAGAIN;
    service_result_release(&result);
    return error;
}

static int upload_pieces(struct attempt *attempt)
{
    int error = 0;
    for (size_t i = 0; i < attempt->item->row.pieces_len && error == 0; i++)
        if (attempt->item->row.pieces[i].pool_id == NULL)
            error = upload_piece(attempt, i);
    return error;
}

/* Records `sending` with the request. After a crash from here on, the outcome is unknown. */
static int record_sending(struct attempt *attempt)
{
    struct change change = {.item = NULL};
    const struct row *row = &attempt->item->row;
    g_autofree const char **ids = g_new(const char *, row->pieces_len);
    for (size_t i = 0; i < row->pieces_len; i++)
        ids[i] = row->pieces[i].pool_id;
    int error = draft_complete_request(attempt->draft, row->from, row->replies_to, ids, row->pieces_len,
                                       &attempt->request);
    if (error == 0) {
        change_begin(&change, attempt->item, ITEM_SENDING);
        change.request = strlen(attempt->request) <= REQUEST_MAX_BYTES ? attempt->request : NULL;
        change.next.attempts++;
        error = change_commit(attempt->outbox, &change, 1);
    }
    change_release(attempt->outbox, &change);
    if (error != 0)
        requeue_after_local_failure(attempt, error);
    return error;
}

/* Returns true if the service may have accepted this content under this key before. If keys are not trusted,
 * ignores attempts of an earlier hand-in: the user chose to send the message again. */
static bool is_repeat(const struct attempt *attempt)
{
    const struct row *row = &attempt->item->row;
    return row->may_have_been_sent || (row->was_unknown && outbox_trusts_keys(attempt->outbox));
}

static void drop_pool_ids(struct outbox *outbox, struct row *next)
{
    next->was_reuploaded = true;
    for (size_t i = 0; i < next->pieces_len; i++) {
        if (next->pieces[i].pool_id != NULL)
            spool_forget_pool_id(outbox->spool, next->pieces[i].pool_id);
        free(TAKE_PTR(next->pieces[i].pool_id));
    }
}

static void drop_reply(struct row *next)
{
    free(TAKE_PTR(next->replies_to));
    row_add_not_carried(next,
                        "In-Reply-To, References: sent as a new thread, for the service refused a reply "
                        "to the email");
}

/* Queues a refused message again with a changed request, if that may help. The pool may have dropped old
 * files: then all pieces are uploaded once more. The service may no longer have the email that the headers
 * name; the user did not require a reply in that thread. Under a key that may have been used, the request
 * must stay the same. */
static bool retry_changed(struct attempt *attempt, const struct service_result *result)
{
    struct change change;
    const struct row *row = &attempt->item->row;
    if (result->outcome != SERVICE_REJECTED || result->detail == NULL || is_repeat(attempt))
        return false;
    bool names_pieces = result->http_status != HTTP_TOO_LARGE && row->pieces_len > 0 &&
                        !row->was_reuploaded && strcasestr(result->detail, "attachment") != NULL;
    bool names_email = row->replies_to != NULL && strcasestr(result->detail, "existing_email_id") != NULL;
    if (!names_pieces && !names_email)
        return false;
    change_begin_settling(&change, attempt->item, ITEM_QUEUED, result->http_status, result->detail);
    if (names_pieces)
        drop_pool_ids(attempt->outbox, &change.next);
    else
        drop_reply(&change.next);
    int error = change_commit(attempt->outbox, &change, 1);
    change_release(attempt->outbox, &change);
    return error == 0;
}

static void settle_message(struct attempt *attempt, const struct service_result *result, const char *id)
{
    struct outbox *outbox = attempt->outbox;
    bool is_refused = process_answer(attempt, result);
    if (result->outcome == SERVICE_OK)
        settle_accepted(outbox, attempt->item, result->http_status, id);
    else if (result->outcome == SERVICE_UNKNOWN)
        settle_unknown(outbox, attempt->item, result->http_status, result->detail);
    else if (!retry_changed(attempt, result))
        settle_not_sent(attempt, is_refused, result->http_status, result->detail);
    crash_point("settled");
}

static void send_request(struct attempt *attempt)
{
    struct mail_service *service = attempt->outbox->config.service;
    const struct send_request request = {
        .json = attempt->request,
        .idempotency_key = attempt->item->row.key,
        .is_repeat = is_repeat(attempt),
    };
    struct service_result result = {.retry_after_ms = -1};
    _cleanup_free_ char *id = NULL;
    crash_point("recorded_sending");
    service->ops->send(service, &request, attempt->cancel, &id, &result);
    crash_point("answered");
    settle_message(attempt, &result, id);
    service_result_release(&result);
}

void send_message(struct outbox *outbox, struct item *item, struct cancel *cancel)
{
    struct attempt attempt = {.outbox = outbox, .item = item, .cancel = cancel};
    if (item->row.may_have_been_sent && !outbox_trusts_keys(outbox))
        settle_unknown(outbox, item, item->row.http_status, NULL);
    else if (load_draft(&attempt) == 0 && may_send(&attempt) && upload_pieces(&attempt) == 0 &&
             record_sending(&attempt) == 0)
        send_request(&attempt);
    draft_free(attempt.draft);
    free(attempt.request);
}

/* ================================================================ attachments */

void send_attachment(struct outbox *outbox, struct item *item, struct cancel *cancel)
{
    struct attempt attempt = {.outbox = outbox, .item = item, .cancel = cancel};
    struct service_result result = {.retry_after_ms = -1};
    _cleanup_free_ char *id = NULL;
    int error = upload_content(&attempt, item->number, item->row.name, item->row.digest, &id, &result);
    crash_point("upload_answered");
    if (check_upload(&attempt, error, &result, id)) {
        process_answer(&attempt, &result);
        settle_accepted(outbox, item, result.http_status, id);
    }
    service_result_release(&result);
}
