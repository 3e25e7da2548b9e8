/* SPDX-License-Identifier: MIT */
/*
 * One attempt to send a message or upload a file, what its answer means, and the threads that make attempts.
 * The order of steps is what keeps a message from going out twice: `sending` on disk, the request, its
 * outcome on disk. docs/OUTBOX.md has the crash points between them.
 */
#include "outbox/send.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait.h"
#include "mail/draft.h"
#include "outbox/accept.h"
#include "outbox/removal.h"
#include "outbox/send_queue.h"
#include "outbox/transition.h"

/* ================================================================ what an answer means */

enum {
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_PROXY_LOGIN = 407,
};

static int ignore_email(void *context, struct email_record *record)
{
    (void)context;
    (void)record;
    return 0;
}

/* Lists one email (waits for the network): every service does that, and none without the key. */
static void ask_for_list(struct outbox *outbox, struct item *item, struct cancel *cancel,
                         struct service_result *ret)
{
    struct mail_service *service = outbox->config.service;
    struct email_query query = {.inbox_id = NULL, .limit = 1};
    unsigned int count = 0;
    *ret = (struct service_result){.retry_after_ms = -1};
    claim_lend(outbox, item);
    service->ops->list_emails(service, &query, ignore_email, NULL, cancel, &count, ret);
    claim_take_back(outbox, item);
}

/* Returns true if the service itself has answered, and takes the key. */
static bool shows_service(const struct service_result *list)
{
    return list->outcome == SERVICE_OK ||
           (list->outcome == SERVICE_REJECTED && !list->is_foreign && list->http_status != 0);
}

static bool is_service_there(struct outbox *outbox, struct item *item, struct cancel *cancel)
{
    struct service_result list;
    ask_for_list(outbox, item, cancel, &list);
    bool is_there = shows_service(&list);
    service_result_release(&list);
    return is_there;
}

enum attempt_meaning {
    ATTEMPT_ACCEPTED,  /* done */
    ATTEMPT_REJECTED,  /* this item, for good */
    ATTEMPT_UNDECIDED, /* neither; what becomes of the item follows from the outcome */
};

/* Nothing was sent, which is about this item, or about everything. */
static bool is_refusal(const struct service_result *result)
{
    return result->outcome == SERVICE_REJECTED || result->outcome == SERVICE_ABSENT ||
           result->http_status == HTTP_FORBIDDEN || result->http_status == HTTP_PROXY_LOGIN;
}

/* A refusal that is not the service's own, a 403 and a 404 may be about everything: then the item waits.
 * If a list can be had, they are about this item, which would else wait for ever and hold up all others.
 */
static enum attempt_meaning find_meaning(struct outbox *outbox, struct item *item,
                                         const struct service_result *result, struct cancel *cancel)
{
    bool may_concern_all =
        result->is_foreign || result->http_status == HTTP_FORBIDDEN || result->http_status == HTTP_NOT_FOUND;
    if (result->outcome == SERVICE_OK)
        return ATTEMPT_ACCEPTED;
    if (!is_refusal(result) || (may_concern_all && !is_service_there(outbox, item, cancel)))
        return ATTEMPT_UNDECIDED;
    return ATTEMPT_REJECTED;
}

/* SUSPENSION_NONE: the service works, whatever it answered to this item. */
static enum suspension_reason find_reason(const struct service_result *result, enum attempt_meaning meaning)
{
    if (result->is_foreign)
        return SUSPENSION_DOUBTFUL;
    if (meaning != ATTEMPT_UNDECIDED)
        return SUSPENSION_NONE;
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return SUSPENSION_UNAUTHORIZED;
    if (result->http_status == 0)
        return SUSPENSION_UNREACHABLE;
    if (result->outcome == SERVICE_UNKNOWN)
        return SUSPENSION_NONE;
    return result->outcome == SERVICE_RETRY ? SUSPENSION_BUSY : SUSPENSION_DOUBTFUL;
}

/* The item waits by its own backoff, and at least this long. */
static void attempt_put_off(struct outbox *outbox, struct item *item, int64_t delay_ms)
{
    pthread_mutex_lock(&outbox->lock);
    int64_t own = backoff_next_ms(&item->backoff);
    int64_t delay = delay_ms < own ? own : delay_ms;
    item->next_attempt_ms = item->is_woken ? 0 : outbox_monotonic_ms(outbox) + delay;
    pthread_mutex_unlock(&outbox->lock);
}

static void record_answer_locked(struct outbox *outbox, struct item *item,
                                 const struct service_result *result, enum suspension_reason reason)
{
    struct suspension *suspension = &outbox->suspensions[item->envelope.kind];
    int64_t now_ms = outbox_monotonic_ms(outbox);
    bool was_waited_for = suspension->reason != SUSPENSION_NONE || suspension->is_probing;
    if (reason == SUSPENSION_NONE)
        suspension_end(suspension, now_ms);
    else
        suspension_begin(suspension, reason, now_ms, result->retry_after_ms, result->detail);
    if (item->is_woken)
        suspension_wake(suspension);
    if (was_waited_for)
        outbox_wake_workers_locked(outbox);
}

/* A busy service is neither reached nor unreachable. */
static void notify_contact(const struct outbox *outbox, enum suspension_reason reason)
{
    const struct contact_listener *listener = &outbox->config.contact;
    if (listener->asked != NULL && reason != SUSPENSION_BUSY)
        listener->asked(listener->context, reason == SUSPENSION_NONE);
}

/* Begins or ends the suspension, before the item is settled, so that nobody asks in between. From then on the
 * item is claimed for the disk alone. No lock may be held. */
static void report_reason(struct outbox *outbox, struct item *item, const struct service_result *result,
                          enum suspension_reason reason)
{
    bool is_cancelled = result->error == EINTR; /* by us: says nothing about the service */
    pthread_mutex_lock(&outbox->lock);
    item->claim = CLAIM_DISK;
    if (!is_cancelled)
        record_answer_locked(outbox, item, result, reason);
    outbox_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    if (!is_cancelled)
        notify_contact(outbox, reason);
}

/* Whoever answered that it is busy, it may be so for this item alone. While there is no answer at all, or the
 * key is refused, the suspension alone decides how long to wait. */
static bool is_busy(const struct service_result *result)
{
    return result->outcome == SERVICE_RETRY && result->http_status != 0 && !is_refusal(result);
}

/* Finds out what an answer to the item means, for it and for all others, and puts it off after a 429 or 503.
 * May ask for a list (waits for the network). */
static enum attempt_meaning attempt_report(struct outbox *outbox, struct item *item,
                                           const struct service_result *result, struct cancel *cancel)
{
    enum attempt_meaning meaning = find_meaning(outbox, item, result, cancel);
    if (is_busy(result))
        attempt_put_off(outbox, item, result->retry_after_ms);
    report_reason(outbox, item, result, find_reason(result, meaning));
    return meaning;
}

/* ================================================================ messages */

#define WORDS_UNKNOWN "unknown outcome: the message may have been sent, or not"

struct attempt {
    struct outbox *outbox;
    struct item *item;
    struct cancel *cancel;
    bool must_ask_list; /* before anything is sent (struct suspension_try) */
    struct draft *draft;
    char *request;
};

/* ---------------------------------------------------------------- before the request */

static void settle_refused(struct attempt *attempt, int http_status, const char *words)
{
    settle_into_failed(attempt->outbox, attempt->item,
                       item_may_have_been_sent(attempt->item) ? ITEM_UNKNOWN : ITEM_FAILED, http_status,
                       words);
}

/* The disk or the memory failed, or (-EAGAIN) an attachment left the pool meanwhile. */
static void settle_failed_here(struct attempt *attempt, int error)
{
    if (error != -EAGAIN)
        attempt_put_off(attempt->outbox, attempt->item, 0);
    put_back_in_queue(attempt->outbox, attempt->item, 0, strerror(-error));
}

/* Returns true if the message may be tried. While the last list could not be had, or another answered the
 * last message in the service's place, a list comes first, for it costs no message to ask for one. Without
 * one the message waits. */
static bool may_send(struct attempt *attempt)
{
    struct outbox *outbox = attempt->outbox;
    const struct contact_listener *contact = &outbox->config.contact;
    if (!attempt->must_ask_list && (contact->is_lost == NULL || !contact->is_lost(contact->context)))
        return true;
    struct service_result list;
    ask_for_list(outbox, attempt->item, attempt->cancel, &list);
    bool is_there = shows_service(&list);
    if (is_there) {
        pthread_mutex_lock(&outbox->lock);
        suspension_end_rest(&outbox->suspensions[ENVELOPE_MESSAGE], outbox_monotonic_ms(outbox));
        outbox_wake_workers_locked(outbox);
        pthread_mutex_unlock(&outbox->lock);
    } else {
        enum suspension_reason reason = find_reason(&list, ATTEMPT_UNDECIDED);
        report_reason(outbox, attempt->item, &list, reason == SUSPENSION_BUSY ? SUSPENSION_DOUBTFUL : reason);
        put_back_in_queue(outbox, attempt->item, list.http_status, list.detail);
    }
    service_result_release(&list);
    return is_there;
}

/* Whether it is what was handed in. After a power cut or a repair of the disk it may be a part of it. */
static bool is_as_accepted(const struct envelope *envelope, const char *bytes, size_t len)
{
    char digest[ENVELOPE_DIGEST_SIZE];
    accept_digest(envelope, bytes, len, digest);
    return envelope->digest[0] == '\0' || strcmp(envelope->digest, digest) == 0;
}

static int load_draft(struct attempt *attempt)
{
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *reason = NULL;
    const struct envelope *envelope = &attempt->item->envelope;
    size_t len;
    int error = spool_read_data(attempt->outbox->spool, attempt->item->number, DRAFT_MAX_BYTES, &bytes, &len);
    if (error == 0)
        error = is_as_accepted(envelope, bytes, len)
                    ? draft_parse(bytes, len, envelope->answers, &attempt->draft, &reason)
                    : -EBADMSG;
    if (error == 0 && attempt->draft->parts_len != envelope->part_ids_len)
        error = -EBADMSG;
    if (error == -EBADMSG || error == -EDESTADDRREQ || error == -EMSGSIZE)
        settle_refused(attempt, 0, reason != NULL ? reason : "the message changed in the spool");
    else if (error != 0)
        settle_failed_here(attempt, error);
    return error;
}

/* After an answer that was no success: a rejection ends in failed/, all else waits. */
static void settle_not_sent(struct attempt *attempt, const struct service_result *result)
{
    struct outbox *outbox = attempt->outbox;
    if (result->outcome == SERVICE_UNKNOWN) /* of an upload: it may be repeated */
        attempt_put_off(outbox, attempt->item, result->retry_after_ms);
    if (attempt_report(outbox, attempt->item, result, attempt->cancel) == ATTEMPT_REJECTED)
        settle_refused(attempt, result->http_status, result->detail);
    else
        put_back_in_queue(outbox, attempt->item, result->http_status, result->detail);
}

/* Durable at once, so that a restart does not upload it again. */
static int record_part(struct attempt *attempt, size_t part, char *id)
{
    _cleanup_transition_ struct transition transition;
    int error = transition_begin(attempt->outbox, attempt->item, ITEM_QUEUED, &transition);
    if (error == 0) {
        free(transition.next.part_ids[part]);
        transition.next.part_ids[part] = id;
        id = NULL;
        error = transition_commit(&transition, attempt->item);
    }
    free(id);
    if (error != 0)
        settle_failed_here(attempt, error);
    return error;
}

static int upload_part(struct attempt *attempt, size_t index)
{
    struct mail_service *service = attempt->outbox->config.service;
    const struct draft_part *part = &attempt->draft->parts[index];
    const struct upload_request request = {
        .name = part->name,
        .content_type = part->content_type,
        .fd = -1,
        .bytes = part->bytes,
        .len = part->len,
    };
    struct service_result result = {.retry_after_ms = -1};
    char *id = NULL;
    claim_lend(attempt->outbox, attempt->item);
    service->ops->upload(service, &request, attempt->cancel, &id, &result);
    claim_take_back(attempt->outbox, attempt->item);
    int error = 0;
    if (result.outcome == SERVICE_OK && id == NULL) {
        settle_refused(attempt, result.http_status, "the service took an attached part, but gave it no id");
        error = -EBADMSG;
    } else if (result.outcome == SERVICE_OK) {
        error = record_part(attempt, index, id);
        id = NULL;
        crash_point("part_recorded");
    } else {
        settle_not_sent(attempt, &result);
        error = -EAGAIN;
    }
    free(id);
    service_result_release(&result);
    return error;
}

static int upload_parts(struct attempt *attempt)
{
    int error = 0;
    for (size_t i = 0; i < attempt->draft->parts_len && error == 0; i++)
        if (attempt->item->envelope.part_ids[i] == NULL)
            error = upload_part(attempt, i);
    return error;
}

/* Pool ids of the bound files, then of the parts. -EAGAIN: one is no longer in the pool. */
static int collect_ids(struct attempt *attempt, const struct envelope *next, char **ids, size_t *ret_len)
{
    const struct item *item = attempt->item;
    int error = 0;
    size_t len = 0;
    pthread_mutex_lock(&attempt->outbox->lock);
    for (size_t i = 0; i < item->bound_len && error == 0; i++) {
        const struct item *attachment = item->bound[i];
        if (attachment == NULL || attachment->state != ITEM_UPLOADED || attachment->envelope.id == NULL)
            error = -EAGAIN;
        else if ((ids[len++] = strdup(attachment->envelope.id)) == NULL)
            error = -ENOMEM;
    }
    pthread_mutex_unlock(&attempt->outbox->lock);
    for (size_t i = 0; i < next->part_ids_len && error == 0; i++)
        if ((ids[len++] = strdup(next->part_ids[i])) == NULL)
            error = -ENOMEM;
    *ret_len = len;
    return error;
}

static int complete_request(struct attempt *attempt, const struct envelope *next)
{
    size_t capacity = attempt->item->bound_len + next->part_ids_len;
    size_t len = 0;
    char **ids = calloc(capacity + 1, sizeof(*ids));
    int error = ids == NULL ? -ENOMEM : collect_ids(attempt, next, ids, &len);
    if (error == 0)
        error = draft_complete_request(attempt->draft, next->from, next->replies_to, (const char *const *)ids,
                                       len, &attempt->request);
    for (size_t i = 0; ids != NULL && i < capacity; i++)
        free(ids[i]);
    free(ids);
    return error;
}

/* What has the same content, and may have been sent, may have become a backup since this message was
 * accepted, as by `sed -i.bak`: then that one has the key. */
static int take_remembered_key(struct attempt *attempt, struct envelope *next, struct item **ret_memory)
{
    if (next->attempts > 0 || item_may_have_been_sent(attempt->item))
        return 0;
    int error = key_memory_take(attempt->outbox, next, true, ret_memory);
    return error != 0 || *ret_memory == NULL ? error : accept_keep_thread(next, attempt->draft);
}

/* Makes the request, and records it. Then a crash leaves `sending` behind, and the outcome unknown. */
static int record_sending(struct attempt *attempt)
{
    _cleanup_transition_ struct transition transition;
    struct item *memory = NULL;
    int error = transition_begin(attempt->outbox, attempt->item, ITEM_SENDING, &transition);
    error = error != 0 ? error : take_remembered_key(attempt, &transition.next, &memory);
    error = error != 0 ? error : complete_request(attempt, &transition.next);
    if (error == 0) {
        free(transition.next.request);
        bool is_recorded = strlen(attempt->request) <= ENVELOPE_REQUEST_MAX_BYTES;
        transition.next.request = is_recorded ? strdup(attempt->request) : NULL;
        transition.next.has_request = transition.next.request != NULL;
        transition.next.attempts++;
        error = transition_commit(&transition, attempt->item);
    }
    if (memory != NULL && error == 0)
        key_memory_forget(attempt->outbox, memory);
    else if (memory != NULL)
        claim_release(attempt->outbox, memory);
    if (error != 0)
        settle_failed_here(attempt, error);
    return error;
}

/* ---------------------------------------------------------------- after it */

static void settle_unknown(struct attempt *attempt, int http_status, const char *detail)
{
    char words[512];
    snprintf(words, sizeof(words), "%s%s%s", WORDS_UNKNOWN, detail == NULL ? "" : ": ",
             detail == NULL ? "" : detail);
    settle_into_failed(attempt->outbox, attempt->item, ITEM_UNKNOWN, http_status, words);
}

/* Where the service is trusted to honour keys, repeating the request with its key sends nothing twice. */
static void decide_unknown(struct attempt *attempt, const struct service_result *result)
{
    struct outbox *outbox = attempt->outbox;
    struct item *item = attempt->item;
    if (!outbox_trusts_keys(outbox)) {
        settle_unknown(attempt, result->http_status, result->detail);
        return;
    }
    pthread_mutex_lock(&outbox->lock);
    item->envelope.may_have_been_sent = true; /* durable with the change that follows */
    pthread_mutex_unlock(&outbox->lock);
    attempt_put_off(outbox, item, result->retry_after_ms);
    put_back_in_queue(outbox, item, result->http_status, result->detail);
}

static void count_in_quota(struct attempt *attempt)
{
    struct outbox *outbox = attempt->outbox;
    int64_t now = outbox_realtime_ms(outbox);
    if (attempt->item->envelope.quota_day != 0)
        return; /* the same message, counted at an earlier attempt */
    quota_count(&outbox->quota, now);
    pthread_mutex_lock(&outbox->lock);
    attempt->item->envelope.quota_day = quota_day_of(now);
    pthread_mutex_unlock(&outbox->lock);
}

/* Whether this content may have been accepted under this key: by an earlier attempt, or, under a key that was
 * taken over or kept, of an earlier hand-in. Where keys are not trusted, a new hand-in was its user's own
 * wish. */
static bool is_repeat(const struct attempt *attempt)
{
    const struct envelope *envelope = &attempt->item->envelope;
    return envelope->may_have_been_sent || (envelope->was_unknown && outbox_trusts_keys(attempt->outbox));
}

/* Whether the rejection is about the ids of attachments, and not about their size (413). */
static bool names_attachments(const struct service_result *result)
{
    return result->detail != NULL && result->http_status != 413 &&
           strcasestr(result->detail, "attachment") != NULL;
}

static bool claim_bound(struct attempt *attempt, size_t index, struct item **ret_attachment)
{
    struct outbox *outbox = attempt->outbox;
    pthread_mutex_lock(&outbox->lock);
    struct item *attachment = attempt->item->bound[index];
    bool is_claimed = attachment != NULL && attachment->state == ITEM_UPLOADED &&
                      claim_take_locked(outbox, attachment, CLAIM_DISK) == 0;
    pthread_mutex_unlock(&outbox->lock);
    *ret_attachment = attachment;
    return is_claimed;
}

static int upload_bound_again(struct attempt *attempt, size_t index)
{
    struct outbox *outbox = attempt->outbox;
    struct item *attachment;
    if (!claim_bound(attempt, index, &attachment))
        return 0;
    _cleanup_transition_ struct transition transition;
    int error = transition_begin(outbox, attachment, ITEM_UPLOADING, &transition);
    if (error == 0 && attachment->state == ITEM_UPLOADED) {
        free(transition.next.id);
        transition.next.id = NULL;
        transition.next.finished_ms = 0;
        error = transition_commit(&transition, attachment);
    }
    claim_release(outbox, attachment);
    return error;
}

/* The pool may have forgotten what it was given long ago: all of it is uploaded once more, and the message
 * goes out with the new ids. Under a key that may have been used, the request stays the same. */
static bool retry_with_new_ids(struct attempt *attempt, const struct service_result *result)
{
    struct item *item = attempt->item;
    bool has_ids = item->bound_len + item->envelope.part_ids_len > 0;
    if (result->outcome != SERVICE_REJECTED || !names_attachments(result) || !has_ids ||
        item->envelope.was_reuploaded || is_repeat(attempt))
        return false;
    for (size_t i = 0; i < item->bound_len; i++)
        if (upload_bound_again(attempt, i) != 0)
            return false;
    pthread_mutex_lock(&attempt->outbox->lock);
    item->envelope.was_reuploaded = true;
    for (size_t i = 0; i < item->envelope.part_ids_len; i++) {
        free(item->envelope.part_ids[i]);
        item->envelope.part_ids[i] = NULL;
    }
    pthread_mutex_unlock(&attempt->outbox->lock);
    attempt_report(attempt->outbox, attempt->item, result, attempt->cancel);
    put_back_in_queue(attempt->outbox, item, result->http_status, result->detail);
    return true;
}

/* The email that the message's headers name may be gone at the service. Its user has not said that it must be
 * a reply in that thread, so it goes out without, and the receipt says so. Nothing was sent. */
static bool retry_as_new_thread(struct attempt *attempt, const struct service_result *result)
{
    struct item *item = attempt->item;
    bool names_email = result->detail != NULL && strcasestr(result->detail, "existing_email_id") != NULL;
    if (result->outcome != SERVICE_REJECTED || !names_email || item->envelope.replies_to == NULL ||
        is_repeat(attempt))
        return false;
    pthread_mutex_lock(&attempt->outbox->lock);
    free(TAKE_PTR(item->envelope.replies_to));
    int error =
        envelope_add_not_carried(&item->envelope, "In-Reply-To, References: sent as a new thread, for "
                                                  "the service refused a reply to the email");
    pthread_mutex_unlock(&attempt->outbox->lock);
    if (error != 0)
        log_warning("a receipt will not say that a thread was left: %s", strerror(-error));
    attempt_report(attempt->outbox, item, result, attempt->cancel);
    put_back_in_queue(attempt->outbox, item, result->http_status, result->detail);
    return true;
}

static void settle_message(struct attempt *attempt, const struct service_result *result, const char *id)
{
    if (result->outcome == SERVICE_OK || result->outcome == SERVICE_UNKNOWN) {
        count_in_quota(attempt);
        attempt_report(attempt->outbox, attempt->item, result, attempt->cancel);
    }
    crash_point("counted");
    if (result->outcome == SERVICE_OK)
        settle_sent(attempt->outbox, attempt->item, result->http_status, id);
    else if (result->outcome == SERVICE_UNKNOWN)
        decide_unknown(attempt, result);
    else if (!retry_with_new_ids(attempt, result) && !retry_as_new_thread(attempt, result))
        settle_not_sent(attempt, result);
    crash_point("settled");
}

/* ---------------------------------------------------------------- all of it */

static void send_request(struct attempt *attempt)
{
    struct mail_service *service = attempt->outbox->config.service;
    char key[ENVELOPE_KEY_SIZE]; /* another thread may change the envelope during the request */
    memcpy(key, attempt->item->envelope.key, sizeof(key));
    const struct send_request request = {
        .json = attempt->request,
        .idempotency_key = key,
        .is_repeat = is_repeat(attempt),
    };
    struct service_result result = {.retry_after_ms = -1};
    _cleanup_free_ char *id = NULL;
    crash_point("recorded_sending");
    claim_lend(attempt->outbox, attempt->item);
    service->ops->send(service, &request, attempt->cancel, &id, &result);
    crash_point("answered");
    claim_take_back(attempt->outbox, attempt->item);
    settle_message(attempt, &result, id);
    service_result_release(&result);
}

/* Makes one attempt. The item is claimed for the service and in ITEM_QUEUED; afterwards it is settled, or
 * waits. Waits for the network. */
static void send_message(struct outbox *outbox, struct item *item, bool must_ask_list, struct cancel *cancel)
{
    struct attempt attempt = {
        .outbox = outbox, .item = item, .cancel = cancel, .must_ask_list = must_ask_list};
    if (item->envelope.may_have_been_sent && !outbox_trusts_keys(outbox))
        settle_unknown(&attempt, item->envelope.http_status, NULL);
    else if (load_draft(&attempt) == 0 && may_send(&attempt) && upload_parts(&attempt) == 0 &&
             record_sending(&attempt) == 0)
        send_request(&attempt);
    draft_free(attempt.draft);
    free(attempt.request);
}

void send_fail_lost(struct outbox *outbox, struct item *item)
{
    char words[400];
    pthread_mutex_lock(&outbox->lock);
    const char *lost = item_find_lost_attachment(item);
    snprintf(words, sizeof(words), "the attachment %.255s was not uploaded", lost == NULL ? "" : lost);
    pthread_mutex_unlock(&outbox->lock);
    settle_into_failed(outbox, item, item_may_have_been_sent(item) ? ITEM_UNKNOWN : ITEM_FAILED,
                       item->envelope.http_status, words);
}

/* ================================================================ content types */

#define OPEN_XML "application/vnd.openxmlformats-officedocument."
#define OPEN_DOCUMENT "application/vnd.oasis.opendocument."

struct content_type {
    void *magic; /* NULL: not opened yet, or there is no database */
    bool is_opened;
};

enum {
    CONTENT_TYPE_SIZE = 128
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

/* All zeros is a content_type that was not used yet. */
static void content_type_release(struct content_type *type)
{
    if (type->magic != NULL)
        magic_close(type->magic);
    *type = (struct content_type){0};
}

static magic_t open_magic(struct content_type *type)
{
    if (type->is_opened)
        return type->magic;
    type->is_opened = true;
    magic_t magic = magic_open(MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS);
    if (magic != NULL && magic_load(magic, NULL) != 0) {
        log_warning("libmagic has no database; content types come from names alone");
        magic_close(magic);
        magic = NULL;
    }
    type->magic = magic;
    return magic;
}

/* Whether the content is of a kind that other formats hide in: only then may the name say more. */
static bool is_vague(const char *type)
{
    return strncmp(type, "text/", 5) == 0 || strcmp(type, "application/octet-stream") == 0 ||
           strcmp(type, "application/zip") == 0 || strcmp(type, "application/json") == 0;
}

static const char *find_by_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < ARRAY_LEN(by_extension); i++)
        if (strcasecmp(dot + 1, by_extension[i].extension) == 0)
            return by_extension[i].type;
    return NULL;
}

/* What libmagic says becomes a header field: only "token/token" is let through. */
static bool is_type(const char *text)
{
    const char *slash = strchr(text, '/');
    if (slash == NULL || slash == text || slash[1] == '\0' || strlen(text) >= CONTENT_TYPE_SIZE)
        return false;
    for (const char *c = text; *c != '\0'; c++)
        if (c != slash && !isalnum((unsigned char)*c) && strchr("!#$&^_.+-", *c) == NULL)
            return false;
    return true;
}

/* "type/subtype", always; "application/octet-stream" when nothing is known. `bytes`: the beginning of the
 * content, some kB are enough. */
static void content_type_find(struct content_type *type, const char *name, const void *bytes, size_t len,
                              char ret_type[CONTENT_TYPE_SIZE])
{
    const char *found = NULL;
    magic_t magic = open_magic(type);
    if (magic != NULL)
        found = magic_buffer(magic, bytes, len);
    if (found == NULL || !is_type(found))
        found = "application/octet-stream";
    const char *named = is_vague(found) ? find_by_name(name) : NULL;
    snprintf(ret_type, CONTENT_TYPE_SIZE, "%s", named != NULL ? named : found);
}

/* ================================================================ attachments */

enum {
    MAGIC_BYTES = 64 * 1024 /* the beginning of the file, for libmagic */
};

static unsigned int count_touches(struct outbox *outbox, const struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    unsigned int touches = item->touches;
    pthread_mutex_unlock(&outbox->lock);
    return touches;
}

/* 0; -EBADMSG: it is longer or shorter than what was handed in; or of the disk. */
static int open_content(struct outbox *outbox, const struct item *item, struct content_type *type,
                        struct upload_request *ret_request, char ret_type[CONTENT_TYPE_SIZE],
                        struct stat *ret_status)
{
    _cleanup_close_ int fd = -1;
    int error = spool_open_data(outbox->spool, item->number, O_RDONLY, &fd);
    if (error == 0 && fstat(fd, ret_status) != 0)
        error = -errno;
    if (error == 0 && item->envelope.size != 0 && ret_status->st_size != item->envelope.size)
        error = -EBADMSG;
    if (error != 0)
        return error;
    _cleanup_free_ char *beginning = malloc(MAGIC_BYTES);
    ssize_t magic_len = beginning == NULL ? -ENOMEM : file_pread_all(fd, beginning, MAGIC_BYTES, 0);
    if (magic_len < 0)
        return (int)magic_len;
    content_type_find(type, item->envelope.name, beginning, (size_t)magic_len, ret_type);
    *ret_request = (struct upload_request){
        .name = item->envelope.name,
        .content_type = ret_type,
        .fd = TAKE_FD(fd),
        .len = (size_t)ret_status->st_size,
    };
    return 0;
}

/* The claim keeps other threads from changing the content, but another program may write into the spool;
 * then the upload may be half of one content and half of another. The time says nothing where a user set
 * it meanwhile, as programs do that copy files. */
static bool has_changed(int fd, const struct stat *before, bool was_touched)
{
    struct stat now;
    if (fstat(fd, &now) != 0 || now.st_size != before->st_size)
        return true;
    return !was_touched &&
           (now.st_mtim.tv_sec != before->st_mtim.tv_sec || now.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

static void settle_upload(struct outbox *outbox, struct item *item, const struct service_result *result,
                          const char *id, struct cancel *cancel)
{
    enum attempt_meaning meaning = attempt_report(outbox, item, result, cancel);
    if (result->outcome == SERVICE_UNKNOWN || result->error == EINTR)
        attempt_put_off(outbox, item, result->retry_after_ms);
    if (meaning == ATTEMPT_ACCEPTED && id != NULL)
        settle_uploaded(outbox, item, result->http_status, id);
    else if (meaning == ATTEMPT_ACCEPTED)
        settle_into_failed(outbox, item, ITEM_FAILED, result->http_status,
                           "the service took the file, but gave it no id");
    else if (meaning == ATTEMPT_REJECTED)
        settle_into_failed(outbox, item, ITEM_FAILED, result->http_status, result->detail);
    else
        put_back_in_queue(outbox, item, result->http_status, result->detail);
}

/* Makes one attempt. The item is claimed for the service and in ITEM_UPLOADING; afterwards it is uploaded,
 * failed, or waits. Waits for the network. */
static void upload_attachment(struct outbox *outbox, struct item *item, struct content_type *type,
                              struct cancel *cancel)
{
    struct mail_service *service = outbox->config.service;
    struct service_result result = {.retry_after_ms = -1};
    char content_type[CONTENT_TYPE_SIZE];
    struct upload_request request;
    struct stat status;
    _cleanup_free_ char *id = NULL;

    unsigned int touches = count_touches(outbox, item);
    int error = open_content(outbox, item, type, &request, content_type, &status);
    if (error == -EBADMSG) {
        settle_into_failed(outbox, item, ITEM_FAILED, 0, "the file changed in the spool");
        return;
    }
    if (error != 0) {
        attempt_put_off(outbox, item, 0);
        put_back_in_queue(outbox, item, 0, strerror(-error));
        return;
    }
    service->ops->upload(service, &request, cancel, &id, &result);
    crash_point("upload_answered");
    bool was_touched = count_touches(outbox, item) != touches;
    if (result.outcome == SERVICE_OK && has_changed(request.fd, &status, was_touched)) {
        result.outcome = SERVICE_UNKNOWN;
        result.error = EIO;
        result.detail = strdup("the file changed while it was uploaded");
    }
    close(request.fd);
    settle_upload(outbox, item, &result, id, cancel);
    service_result_release(&result);
}

/* ================================================================ threads */

enum {
    KINDS = 2,
    AT_START = 4,
    AT_MOST_OF_A_KIND =
        16, /* messages, or uploads, at a time, so that slow uploads leave threads to messages */
    STOP_GRACE_MS = 3000,
    MIDNIGHT_CHECK_MS =
        60 * 1000, /* the machine's clock may be set while one waits for the turn of the day */
};

struct worker {
    struct send_pool *pool;
    pthread_t thread;
    struct cancel cancel;
    struct sleeper sleeper;
    struct suspension_try attempt;
    struct content_type content_type;
};

struct send_pool {
    struct outbox *outbox;
    struct worker workers[KINDS * AT_MOST_OF_A_KIND];
    unsigned int started; /* protected by outbox->lock, like all below; fixed once outbox->is_stopping */
    unsigned int running;
    unsigned int busy[KINDS]; /* with an item of this kind */
};

/* ---------------------------------------------------------------- starting */

static void *work(void *argument);

static int start_locked(struct send_pool *pool)
{
    struct worker *worker = &pool->workers[pool->started];
    *worker = (struct worker){.pool = pool};
    cancel_init(&worker->cancel);
    sleeper_init(&worker->sleeper);
    int error = thread_start(&worker->thread, "sender", work, worker);
    if (error != 0) {
        cancel_release(&worker->cancel);
        sleeper_release(&worker->sleeper);
        return error;
    }
    pool->started++;
    pool->running++;
    return 0;
}

/* Starts one more thread when all are busy. Where that fails, those that there are go on. */
static void start_another_locked(struct send_pool *pool)
{
    unsigned int busy = pool->busy[ENVELOPE_MESSAGE] + pool->busy[ENVELOPE_ATTACHMENT];
    if (busy == pool->started && pool->started < ARRAY_LEN(pool->workers))
        start_locked(pool);
}

/* ---------------------------------------------------------------- working */

static void bring_forward(int64_t *until_ms, int64_t time_ms)
{
    if (time_ms < *until_ms)
        *until_ms = time_ms;
}

static bool may_try_locked(struct worker *worker, enum envelope_kind kind, int64_t now, int64_t *until_ms)
{
    struct suspension *suspension = &worker->pool->outbox->suspensions[kind];
    if (suspension_enter(suspension, now, &worker->attempt))
        return true;
    bring_forward(until_ms, suspension_until_ms(suspension));
    return false;
}

static bool enter_quota(struct outbox *outbox, int64_t now, int64_t *until_ms)
{
    int64_t realtime = outbox_realtime_ms(outbox);
    if (quota_enter(&outbox->quota, realtime))
        return true;
    int64_t wait = quota_wait_ms(realtime);
    bring_forward(until_ms, now + (wait < MIDNIGHT_CHECK_MS ? wait : MIDNIGHT_CHECK_MS));
    return false;
}

static struct item *find_locked(struct worker *worker, enum envelope_kind kind, int64_t now,
                                int64_t *until_ms)
{
    const struct send_queue *queue = &worker->pool->outbox->queue;
    if (worker->pool->busy[kind] == AT_MOST_OF_A_KIND)
        return NULL;
    return kind == ENVELOPE_MESSAGE ? send_queue_find_message(queue, now, until_ms)
                                    : send_queue_find_upload(queue, now, until_ms);
}

/* A thread that suspension_enter() lets through has to ask the service, or to leave the suspension, as here
 * when the quota is used up. */
static struct item *take_locked(struct worker *worker, enum envelope_kind kind, int64_t now,
                                int64_t *until_ms)
{
    struct outbox *outbox = worker->pool->outbox;
    struct item *item = find_locked(worker, kind, now, until_ms);
    if (item == NULL || !may_try_locked(worker, kind, now, until_ms))
        return NULL;
    if (kind == ENVELOPE_MESSAGE && !enter_quota(outbox, now, until_ms)) {
        suspension_leave(&outbox->suspensions[kind], worker->attempt.probe);
        return NULL;
    }
    claim_take_locked(outbox, item, CLAIM_SERVICE); /* the queue finds only what nobody has claimed */
    item->is_woken = false;
    cancel_release(&worker->cancel); /* the last upload may have been called off */
    cancel_init(&worker->cancel);
    item->upload = kind == ENVELOPE_ATTACHMENT ? &worker->cancel : NULL;
    return item;
}

static void run(struct worker *worker, struct item *item)
{
    struct outbox *outbox = worker->pool->outbox;
    if (item->envelope.kind == ENVELOPE_ATTACHMENT)
        upload_attachment(outbox, item, &worker->content_type, &worker->cancel);
    else
        send_message(outbox, item, worker->attempt.must_ask_list, &worker->cancel);
    pthread_mutex_lock(&outbox->lock);
    if (item->envelope.kind == ENVELOPE_MESSAGE)
        quota_leave(&outbox->quota);
    suspension_leave(&outbox->suspensions[item->envelope.kind], worker->attempt.probe);
    claim_release_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    removal_collect(outbox);
}

static bool collect_locked(struct outbox *outbox, int64_t now, int64_t *until_ms)
{
    if (!binding_must_collect_locked(outbox, now, until_ms))
        return false;
    pthread_mutex_unlock(&outbox->lock);
    removal_collect(outbox);
    pthread_mutex_lock(&outbox->lock);
    return true;
}

static bool fail_lost_locked(struct outbox *outbox)
{
    struct item *item = binding_find_failing_locked(outbox);
    if (item == NULL || claim_take_locked(outbox, item, CLAIM_DISK) != 0)
        return false;
    pthread_mutex_unlock(&outbox->lock);
    send_fail_lost(outbox, item);
    claim_release(outbox, item);
    removal_collect(outbox);
    pthread_mutex_lock(&outbox->lock);
    return true;
}

static bool save_again_locked(struct outbox *outbox, int64_t now, int64_t *until_ms)
{
    if (outbox->unsaved == 0)
        return false;
    bring_forward(until_ms, outbox->save_again_ms);
    if (outbox->save_again_ms > now)
        return false;
    pthread_mutex_unlock(&outbox->lock);
    transition_save_again(outbox);
    pthread_mutex_lock(&outbox->lock);
    return true;
}

static void turn_locked(struct worker *worker)
{
    struct send_pool *pool = worker->pool;
    struct outbox *outbox = pool->outbox;
    int64_t now = outbox_monotonic_ms(outbox);
    int64_t until_ms = CLOCK_FOREVER;
    if (save_again_locked(outbox, now, &until_ms) || collect_locked(outbox, now, &until_ms) ||
        fail_lost_locked(outbox))
        return;
    struct item *item = take_locked(worker, ENVELOPE_MESSAGE, now, &until_ms);
    if (item == NULL)
        item = take_locked(worker, ENVELOPE_ATTACHMENT, now, &until_ms);
    if (item == NULL) {
        sleepers_wait(&outbox->idle_workers, &worker->sleeper, outbox->config.clock, &outbox->lock, until_ms);
        return;
    }
    enum envelope_kind kind = item->envelope.kind;
    pool->busy[kind]++;
    start_another_locked(pool);
    outbox_wake_worker_locked(
        outbox); /* this one may have been the only one that waited until the next is due */
    pthread_mutex_unlock(&outbox->lock);
    run(worker, item);
    pthread_mutex_lock(&outbox->lock);
    pool->busy[kind]--;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct outbox *outbox = worker->pool->outbox;
    pthread_mutex_lock(&outbox->lock);
    while (!outbox->is_stopping)
        turn_locked(worker);
    worker->pool->running--;
    outbox_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    return NULL;
}

/* ---------------------------------------------------------------- all of them */

int send_pool_start(struct outbox *outbox, struct send_pool **ret_pool)
{
    struct send_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return -ENOMEM;
    pool->outbox = outbox;
    *ret_pool = pool; /* whatever was started must be stopped */
    int error = 0;
    pthread_mutex_lock(&outbox->lock);
    for (unsigned int i = 0; i < AT_START && error == 0; i++)
        error = start_locked(pool);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* By the machine's clock: a test's clock may stand still. */
static void wait_for_end(struct send_pool *pool)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + STOP_GRACE_MS;
    int error = 0;
    pthread_mutex_lock(&pool->outbox->lock);
    while (pool->running > 0 && error == 0)
        error = wait_until(clock, &pool->outbox->changed, &pool->outbox->lock, until_ms, NULL);
    pthread_mutex_unlock(&pool->outbox->lock);
}

void send_pool_stop(struct send_pool *pool)
{
    if (pool == NULL)
        return;
    wait_for_end(pool);
    for (unsigned int i = 0; i < pool->started; i++)
        cancel_set(&pool->workers[i].cancel);
    for (unsigned int i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        cancel_release(&pool->workers[i].cancel);
        sleeper_release(&pool->workers[i].sleeper);
        content_type_release(&pool->workers[i].content_type);
    }
    free(pool);
}
