/* SPDX-License-Identifier: MIT */
/*
 * The first contact.
 */
#include "store/first_contact.h"

#include <errno.h>

#include "mail/reason.h"
#include "store/bounded_call.h"
#include "store/inbox_list.h"
#include "store/mirror_inboxes.h"
#include "store/mirror_view.h"
#include "store/result_errno.h"

enum {
    CONTACT_TIMEOUT_MS = 10 * 1000
};

struct meeting {
    struct mail_service *service;
    struct inbox_list inboxes;
    bool is_listed; /* the service has a list of inboxes, and this is it */
    struct service_result result;
};

static int stop_at_once(void *context, struct email_record *record)
{
    (void)context, (void)record;
    return 0;
}

/* What does not list its inboxes lists mail: every service does, and none without the key. */
static void meet(void *context, struct cancel *cancel)
{
    struct meeting *meeting = context;
    inbox_list_fetch(&meeting->inboxes, meeting->service, cancel, &meeting->result);
    meeting->is_listed = meeting->result.outcome == SERVICE_OK;
    if (meeting->result.outcome != SERVICE_ABSENT && meeting->result.outcome != SERVICE_REJECTED)
        return;
    const struct email_query query = {.inbox_id = NULL, .limit = 1};
    unsigned int count;
    service_result_release(&meeting->result);
    meeting->service->ops->list_emails(meeting->service, &query, stop_at_once, NULL, cancel, &count,
                                       &meeting->result);
}

/* Inboxes are never deleted at the service, so an account that has none of those in the cache is another. */
static bool is_foreign(struct mirror *mirror, const struct inbox_list *inboxes)
{
    uint64_t position = 0;
    bool has_any = false;
    struct inbox_view view;
    while (mirror_list_inboxes(mirror, position, &view, &position, 1) > 0) {
        uint32_t of_no_name;
        if (mirror_find_inbox_of_no_name(mirror, &of_no_name) && view.number == of_no_name)
            continue;
        has_any = true;
        if (inbox_list_find(inboxes, view.id) != NULL)
            return false;
    }
    return has_any;
}

static int take_over(struct mirror *mirror, const struct inbox_list *inboxes)
{
    uint32_t look = mirror_begin_look(mirror);
    uint32_t known_before = mirror_inbox_numbers(mirror);
    for (size_t i = 0; i < inboxes->len; i++) {
        int error = mirror_put_inbox(mirror, &inboxes->items[i], INBOX_LISTED, look, NULL);
        if (error != 0)
            return error;
    }
    mirror_end_inbox_list(mirror, look, known_before);
    return 0;
}

static int judge(struct mirror *mirror, struct contact *contact, const struct meeting *meeting,
                 bool adopt_state, char **ret_reason)
{
    const struct service_result *result = &meeting->result;
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return reason_give(ret_reason, -EACCES, "the service does not let this key in: %s",
                           result_words(result));
    if (result->outcome != SERVICE_OK) {
        contact_note_offline(contact, result_words(result));
        return reason_give(ret_reason, -EHOSTUNREACH, "%s", result_words(result));
    }
    contact_note_online(contact);
    if (!meeting->is_listed)
        return 0;
    if (!adopt_state && is_foreign(mirror, &meeting->inboxes))
        return reason_give(ret_reason, -ESTALE,
                           "the state is of another account, since none of its inboxes is this key's: give "
                           "--state-dir=DIR for a state of its own, or --adopt-state to take this one over");
    return take_over(mirror, &meeting->inboxes);
}

int first_contact(struct mirror *mirror, struct mail_service *service, struct contact *contact,
                  bool adopt_state, struct cancel *cancel, char **ret_reason)
{
    struct meeting meeting = {.service = service, .result = {.retry_after_ms = -1}};
    int error = bounded_call(mirror->clock, CONTACT_TIMEOUT_MS, cancel, meet, &meeting);
    if (error != 0)
        error = reason_give(ret_reason, error, "no thread can be started");
    else
        error = judge(mirror, contact, &meeting, adopt_state, ret_reason);
    inbox_list_release(&meeting.inboxes);
    service_result_release(&meeting.result);
    return error;
}
