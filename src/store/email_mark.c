/* SPDX-License-Identifier: MIT */
/*
 * Marks. What the service answers decides where the email is from then on, not what was asked for: by its
 * rules, mail whose status is valid stays valid however it is marked.
 */
#include "store/email_mark.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/reason.h"
#include "store/email_batch.h"
#include "store/mirror_emails.h"
#include "store/mirror_order.h"
#include "store/mirror_view.h"
#include "store/result_errno.h"

enum {
    MARK_TIMEOUT_MS = 5 * 1000
};

static int refuse(const struct email_marker *marker, const struct email_view *email, const char *id,
                  int error, const char *words, char **ret_reason)
{
    struct inbox_view inbox;
    _cleanup_free_ char *path = NULL;
    if (mirror_get_inbox(marker->mirror, email->inbox, &inbox) &&
        asprintf(&path, "inboxes/%s/%s%s", inbox.name, email->is_held ? ".invalid/" : "", email->name) < 0)
        path = NULL;
    mirror_tell_event(marker->mirror, EVENT_REFUSED, path, id, words);
    return reason_give(ret_reason, error, "%s", words);
}

static int errno_of_mark(const struct service_result *result)
{
    if (result->outcome == SERVICE_ABSENT)
        return -EPERM;
    if (result->outcome == SERVICE_REJECTED && result->error == ENOENT)
        return -ENOENT;
    return result_errno_of_change(result);
}

/* Takes over the record that was answered. False: it is not that of the email. */
static bool take_record(struct mirror *mirror, uint32_t inbox, const char *id,
                        const struct email_record *record)
{
    enum mirror_put put;
    _cleanup_free_ struct email_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL || record->key == NULL || strcmp(record->key, id) != 0)
        return false;
    int error = mirror_put_email(mirror, batch, inbox, record, &put);
    if (error == 0)
        error = email_batch_flush(batch, mirror);
    email_batch_release(batch);
    return error == 0;
}

static bool shows_as(struct mirror *mirror, uint32_t email, bool is_valid)
{
    struct email_view view;
    return mirror_get_email(mirror, email, &view) && view.is_held == !is_valid;
}

/* Without a record in the answer the inbox has to be looked at again. */
static int look_again(const struct email_marker *marker, uint32_t inbox, struct cancel *cancel)
{
    _cleanup_free_ char *reason = NULL;
    return refresher_sync(marker->refresher, inbox, cancel, &reason);
}

int email_mark(const struct email_marker *marker, uint32_t email, bool is_valid, struct cancel *cancel,
               char **ret_reason)
{
    struct mirror *mirror = marker->mirror;
    struct email_view view;
    struct email_record record = {.key = NULL};
    struct service_result result;
    const char *id = mirror_email_id(mirror, email);
    if (id == NULL || !mirror_get_email(mirror, email, &view))
        return reason_give(ret_reason, -EPERM, "this email has no id");
    marker->service->ops->mark_email(marker->service, id, is_valid, MARK_TIMEOUT_MS, cancel, &record,
                                     &result);
    contact_note(marker->contact, &result);
    int error = errno_of_mark(&result);
    if (error != 0)
        error = refuse(marker, &view, id, error, result_words(&result), ret_reason);
    else if (!take_record(mirror, view.inbox, id, &record))
        error = look_again(marker, view.inbox, cancel);
    if (error == 0 && !shows_as(mirror, email, is_valid))
        error = refuse(marker, &view, id, -EPERM,
                       is_valid ? "the service holds this email back all the same"
                                : "the service counts this email as valid all the same",
                       ret_reason);
    if (result.outcome == SERVICE_UNKNOWN)
        refresher_request(marker->refresher, view.inbox);
    email_record_release(&record);
    service_result_release(&result);
    return error;
}
