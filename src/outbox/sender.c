/* SPDX-License-Identifier: MIT */
/*
 * One attempt to send a message. The order of steps is what keeps it from going out twice:
 * `sending` on disk, request, outcome on disk. docs/OUTBOX.md has the crash points between them.
 */
#include "outbox/sender.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "mail/draft.h"
#include "outbox/attempt.h"
#include "outbox/change.h"
#include "outbox/core.h"
#include "outbox/settle.h"

#define WORDS_UNKNOWN "unknown outcome: the message may have been sent, or not"

struct sending {
    struct outbox *outbox;
    struct item *item;
    struct cancel *cancel;
    struct draft *draft;
    char *request;
    bool is_repeat; /* an earlier attempt may have been accepted */
};

/* ---------------------------------------------------------------- before the request */

static void settle_refused(struct sending *sending, int http_status, const char *words)
{
    settle_failed(sending->outbox, sending->item,
                  item_may_have_been_sent(sending->item) ? ITEM_UNKNOWN : ITEM_FAILED, http_status, words);
}

/* The disk or the memory failed, or (-EAGAIN) an attachment left the pool meanwhile. */
static void settle_failed_here(struct sending *sending, int error)
{
    if (error != -EAGAIN)
        attempt_put_off(sending->outbox, sending->item, 0);
    settle_later(sending->outbox, sending->item, 0, strerror(-error));
}

static int load_draft(struct sending *sending)
{
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *reason = NULL;
    size_t len;
    int error = spool_read_data(sending->outbox->spool, sending->item->number, DRAFT_MAX_BYTES, &bytes, &len);
    if (error == 0)
        error = draft_parse_answer(bytes, len, sending->item->envelope.answers, &sending->draft, &reason);
    if (error == 0 && sending->draft->parts_len != sending->item->envelope.part_ids_len)
        error = -EBADMSG;
    if (error == -EBADMSG || error == -EDESTADDRREQ || error == -EMSGSIZE)
        settle_refused(sending, 0, reason != NULL ? reason : "the message changed in the spool");
    else if (error != 0)
        settle_failed_here(sending, error);
    return error;
}

/* The answer to an upload or a send that was not a success. A refusal is the end; the rest waits. */
static void settle_not_sent(struct sending *sending, const struct service_result *result)
{
    struct outbox *outbox = sending->outbox;
    if (result->outcome == SERVICE_UNKNOWN) /* of an upload: it may be repeated */
        attempt_put_off(outbox, sending->item, result->retry_after_ms);
    if (attempt_report(outbox, sending->item, result, sending->cancel) == ATTEMPT_REFUSED)
        settle_refused(sending, result->http_status, result->detail);
    else
        settle_later(outbox, sending->item, result->http_status, result->detail);
}

/* Durable at once, so that a restart does not upload it again. */
static int record_part(struct sending *sending, size_t part, char *id)
{
    _cleanup_change_ struct change change;
    int error = change_begin(sending->outbox, sending->item, ITEM_QUEUED, &change);
    if (error == 0) {
        free(change.next.part_ids[part]);
        change.next.part_ids[part] = id;
        id = NULL;
        error = change_commit(&change, sending->item);
    }
    free(id);
    if (error != 0)
        settle_failed_here(sending, error);
    return error;
}

static int upload_part(struct sending *sending, size_t index)
{
    struct mail_service *service = sending->outbox->config.service;
    const struct draft_part *part = &sending->draft->parts[index];
    const struct upload_request request = {
        .name = part->name,
        .content_type = part->content_type,
        .fd = -1,
        .bytes = part->bytes,
        .len = part->len,
    };
    struct service_result result = {.retry_after_ms = -1};
    char *id = NULL;
    core_lend(sending->outbox, sending->item);
    service->ops->upload(service, &request, sending->cancel, &id, &result);
    core_take_back(sending->outbox, sending->item);
    int error = 0;
    if (result.outcome == SERVICE_OK && id == NULL) {
        settle_refused(sending, result.http_status, "the service took an attached part, but gave it no id");
        error = -EBADMSG;
    } else if (result.outcome == SERVICE_OK) {
        error = record_part(sending, index, id);
        id = NULL;
        crash_point("part_recorded");
    } else {
        settle_not_sent(sending, &result);
        error = -EAGAIN;
    }
    free(id);
    service_result_release(&result);
    return error;
}

static int upload_parts(struct sending *sending)
{
    int error = 0;
    for (size_t i = 0; i < sending->draft->parts_len && error == 0; i++)
        if (sending->item->envelope.part_ids[i] == NULL)
            error = upload_part(sending, i);
    return error;
}

/* Pool ids of the bound files, then of the parts. -EAGAIN: one is no longer in the pool. */
static int collect_ids(struct sending *sending, char **ids, size_t *ret_len)
{
    const struct item *item = sending->item;
    int error = 0;
    size_t len = 0;
    pthread_mutex_lock(&sending->outbox->lock);
    for (size_t i = 0; i < item->bound_len && error == 0; i++) {
        const struct item *attachment = item->bound[i];
        if (attachment == NULL || attachment->state != ITEM_UPLOADED || attachment->envelope.id == NULL)
            error = -EAGAIN;
        else if ((ids[len++] = strdup(attachment->envelope.id)) == NULL)
            error = -ENOMEM;
    }
    pthread_mutex_unlock(&sending->outbox->lock);
    for (size_t i = 0; i < item->envelope.part_ids_len && error == 0; i++)
        if ((ids[len++] = strdup(item->envelope.part_ids[i])) == NULL)
            error = -ENOMEM;
    *ret_len = len;
    return error;
}

static int complete_request(struct sending *sending)
{
    const struct item *item = sending->item;
    size_t capacity = item->bound_len + item->envelope.part_ids_len;
    size_t len = 0;
    char **ids = calloc(capacity + 1, sizeof(*ids));
    int error = ids == NULL ? -ENOMEM : collect_ids(sending, ids, &len);
    if (error == 0)
        error = draft_complete_request(sending->draft, item->envelope.from, (const char *const *)ids, len,
                                       &sending->request);
    for (size_t i = 0; ids != NULL && i < capacity; i++)
        free(ids[i]);
    free(ids);
    if (error != 0)
        settle_failed_here(sending, error);
    return error;
}

/* From here on a crash leaves `sending` behind, and the outcome unknown. */
static int record_sending(struct sending *sending)
{
    _cleanup_change_ struct change change;
    int error = change_begin(sending->outbox, sending->item, ITEM_SENDING, &change);
    if (error == 0) {
        free(change.next.request);
        bool is_recorded = strlen(sending->request) <= ENVELOPE_REQUEST_MAX_BYTES;
        change.next.request = is_recorded ? strdup(sending->request) : NULL;
        change.next.has_request = change.next.request != NULL;
        change.next.attempts++;
        error = change_commit(&change, sending->item);
    }
    if (error != 0)
        settle_failed_here(sending, error);
    return error;
}

/* ---------------------------------------------------------------- after it */

static void settle_unknown(struct sending *sending, int http_status, const char *detail)
{
    char words[512];
    snprintf(words, sizeof(words), "%s%s%s", WORDS_UNKNOWN, detail == NULL ? "" : ": ",
             detail == NULL ? "" : detail);
    settle_failed(sending->outbox, sending->item, ITEM_UNKNOWN, http_status, words);
}

/* The same key again sends nothing a second time, where the service is trusted to honour it. */
static void settle_may_have_been_sent(struct sending *sending, const struct service_result *result)
{
    struct outbox *outbox = sending->outbox;
    struct item *item = sending->item;
    if (!core_trusts_keys(outbox)) {
        settle_unknown(sending, result->http_status, result->detail);
        return;
    }
    pthread_mutex_lock(&outbox->lock);
    item->envelope.may_have_been_sent = true; /* durable with the change that follows */
    pthread_mutex_unlock(&outbox->lock);
    attempt_put_off(outbox, item, result->retry_after_ms);
    settle_later(outbox, item, result->http_status, result->detail);
}

static void count_in_quota(struct sending *sending)
{
    struct outbox *outbox = sending->outbox;
    int64_t now = core_realtime_ms(outbox);
    if (sending->item->envelope.quota_day != 0)
        return; /* the same message, counted at an earlier attempt */
    quota_count(&outbox->quota, now);
    pthread_mutex_lock(&outbox->lock);
    sending->item->envelope.quota_day = quota_day(now);
    pthread_mutex_unlock(&outbox->lock);
}

/* Not their size (413), but what they are. */
static bool names_attachments(const struct service_result *result)
{
    return result->detail != NULL && result->http_status != 413 &&
           strcasestr(result->detail, "attachment") != NULL;
}

static bool claim_bound(struct sending *sending, size_t index, struct item **ret_attachment)
{
    struct outbox *outbox = sending->outbox;
    pthread_mutex_lock(&outbox->lock);
    struct item *attachment = sending->item->bound[index];
    bool is_claimed = attachment != NULL && attachment->state == ITEM_UPLOADED &&
                      core_claim_locked(outbox, attachment, CLAIM_DISK) == 0;
    pthread_mutex_unlock(&outbox->lock);
    *ret_attachment = attachment;
    return is_claimed;
}

static int upload_bound_again(struct sending *sending, size_t index)
{
    struct outbox *outbox = sending->outbox;
    struct item *attachment;
    if (!claim_bound(sending, index, &attachment))
        return 0;
    _cleanup_change_ struct change change;
    int error = change_begin(outbox, attachment, ITEM_UPLOADING, &change);
    if (error == 0 && attachment->state == ITEM_UPLOADED) {
        free(change.next.id);
        change.next.id = NULL;
        change.next.finished_ms = 0;
        error = change_commit(&change, attachment);
    }
    core_unclaim(outbox, attachment);
    return error;
}

/* The pool may have forgotten what it was given long ago: nothing was sent, so all of it is uploaded once
 * more, and the message goes out with the new ids. */
static bool retry_with_new_ids(struct sending *sending, const struct service_result *result)
{
    struct item *item = sending->item;
    bool has_ids = item->bound_len + item->envelope.part_ids_len > 0;
    if (result->outcome != SERVICE_REJECTED || !names_attachments(result) || !has_ids ||
        item->envelope.was_reuploaded)
        return false;
    for (size_t i = 0; i < item->bound_len; i++)
        if (upload_bound_again(sending, i) != 0)
            return false;
    pthread_mutex_lock(&sending->outbox->lock);
    item->envelope.was_reuploaded = true;
    for (size_t i = 0; i < item->envelope.part_ids_len; i++) {
        free(item->envelope.part_ids[i]);
        item->envelope.part_ids[i] = NULL;
    }
    pthread_mutex_unlock(&sending->outbox->lock);
    attempt_report(sending->outbox, sending->item, result, sending->cancel);
    settle_later(sending->outbox, item, result->http_status, result->detail);
    return true;
}

static void settle(struct sending *sending, const struct service_result *result, const char *id)
{
    if (result->outcome == SERVICE_OK || result->outcome == SERVICE_UNKNOWN) {
        count_in_quota(sending);
        attempt_report(sending->outbox, sending->item, result, sending->cancel);
    }
    crash_point("counted");
    if (result->outcome == SERVICE_OK)
        settle_sent(sending->outbox, sending->item, result->http_status, id);
    else if (result->outcome == SERVICE_UNKNOWN)
        settle_may_have_been_sent(sending, result);
    else if (!retry_with_new_ids(sending, result))
        settle_not_sent(sending, result);
    crash_point("settled");
}

/* ---------------------------------------------------------------- all of it */

static void send_request(struct sending *sending)
{
    struct mail_service *service = sending->outbox->config.service;
    char key[ENVELOPE_KEY_SIZE]; /* the envelope is lent */
    memcpy(key, sending->item->envelope.key, sizeof(key));
    const struct send_request request = {
        .json = sending->request,
        .idempotency_key = key,
        .is_repeat = sending->is_repeat,
    };
    struct service_result result = {.retry_after_ms = -1};
    _cleanup_free_ char *id = NULL;
    crash_point("recorded_sending");
    core_lend(sending->outbox, sending->item);
    service->ops->send(service, &request, sending->cancel, &id, &result);
    crash_point("answered");
    core_take_back(sending->outbox, sending->item);
    settle(sending, &result, id);
    service_result_release(&result);
}

void sender_run(struct outbox *outbox, struct item *item, struct cancel *cancel)
{
    struct sending sending = {
        .outbox = outbox,
        .item = item,
        .cancel = cancel,
        .is_repeat = item->envelope.may_have_been_sent,
    };
    if (sending.is_repeat && !core_trusts_keys(outbox))
        settle_unknown(&sending, item->envelope.http_status, NULL);
    else if (load_draft(&sending) == 0 && upload_parts(&sending) == 0 && complete_request(&sending) == 0 &&
             record_sending(&sending) == 0)
        send_request(&sending);
    quota_leave(&outbox->quota);
    draft_free(sending.draft);
    free(sending.request);
}

void sender_fail_lost(struct outbox *outbox, struct item *item)
{
    char words[400];
    pthread_mutex_lock(&outbox->lock);
    const char *lost = binding_find_lost(item);
    snprintf(words, sizeof(words), "the attachment %.255s was not uploaded", lost == NULL ? "" : lost);
    pthread_mutex_unlock(&outbox->lock);
    settle_failed(outbox, item, item_may_have_been_sent(item) ? ITEM_UNKNOWN : ITEM_FAILED,
                  item->envelope.http_status, words);
}
