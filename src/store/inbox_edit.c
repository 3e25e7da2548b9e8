/* SPDX-License-Identifier: MIT */
/*
 * Creating and changing inboxes. An upsert replaces every field, so a change starts from the service's own
 * record, read right before.
 */
#include "store/inbox_edit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/address.h"
#include "mail/reason.h"
#include "store/bounded_call.h"
#include "store/inbox_list.h"
#include "store/mirror_inboxes.h"
#include "store/mirror_view.h"
#include "store/result_errno.h"

enum {
    UPSERT_TIMEOUT_MS = 5 * 1000,
    UPDATE_TIMEOUT_MS = 15 * 1000, /* reading, writing, and reading again */
};

/* The words go to the caller and, as an event, to whoever listens. */
static int refuse(const struct inbox_editor *editor, const char *name, const char *id, int error,
                  const char *words, char **ret_reason)
{
    _cleanup_free_ char *path = NULL;
    if (asprintf(&path, "inboxes/%s", name) < 0)
        path = NULL;
    mirror_tell_event(editor->mirror, EVENT_INBOX, path, id, words);
    return reason_give(ret_reason, error, "%s", words);
}

/* ---------------------------------------------------------------- creating */

static int take_created(const struct inbox_editor *editor, const char *request, const char *id,
                        uint32_t *ret_inbox)
{
    struct inbox_record record = {0};
    int error = inbox_record_created(request, id, &record);
    if (error == 0)
        error = mirror_put_inbox(editor->mirror, &record, INBOX_CREATED, 0, ret_inbox);
    inbox_record_release(&record);
    return error;
}

static int upsert_new(const struct inbox_editor *editor, const char *address, const char *request,
                      struct cancel *cancel, uint32_t *ret_inbox, char **ret_reason)
{
    struct service_result result;
    _cleanup_free_ char *id = NULL;
    editor->service->ops->upsert_inbox(editor->service, request, UPSERT_TIMEOUT_MS, cancel, &id, &result);
    contact_note(editor->contact, &result);
    int error = result_errno_of_change(&result);
    if (error == 0 && id == NULL)
        error = -EHOSTUNREACH;
    if (error == 0)
        error = take_created(editor, request, id, ret_inbox);
    else
        error = refuse(editor, address, NULL, error, result_words(&result), ret_reason);
    /* Whatever the answer was lost to, the inbox may be there. */
    if (error == 0)
        refresher_request(editor->refresher, *ret_inbox);
    else if (result.outcome == SERVICE_UNKNOWN || result.outcome == SERVICE_OK)
        refresher_request(editor->refresher, REFRESHER_ALL);
    service_result_release(&result);
    return error;
}

int inbox_create(const struct inbox_editor *editor, const char *address, struct cancel *cancel,
                 uint32_t *ret_inbox, char **ret_reason)
{
    _cleanup_free_ char *request = NULL;
    int error = inbox_request_create(address, &request);
    if (error == -EINVAL)
        return refuse(editor, address, NULL, error, "not an email address that an inbox can have here",
                      ret_reason);
    if (error != 0)
        return error;
    if (mirror_has_address(editor->mirror, address))
        return reason_give(ret_reason, -EEXIST, "there is an inbox with this address already");
    return upsert_new(editor, address, request, cancel, ret_inbox, ret_reason);
}

/* ---------------------------------------------------------------- changing */

struct update {
    const struct inbox_editor *editor;
    const char *id;
    const char *text;
    size_t len;
    int error;
    char *words; /* what is wrong, or NULL */
};

static void fail(struct update *update, int error, const char *words)
{
    update->error = error;
    if (update->words == NULL)
        update->words = strdup(words);
}

/* The service's record, as it is now. */
static bool fetch(struct update *update, struct cancel *cancel, struct inbox_record *ret_record)
{
    const struct inbox_editor *editor = update->editor;
    struct inbox_list list = {0};
    struct service_result result;
    inbox_list_fetch(&list, editor->service, cancel, &result);
    contact_note(editor->contact, &result);
    const struct inbox_record *record = NULL;
    if (result.outcome == SERVICE_ABSENT)
        fail(update, -EPERM,
             "the service does not let an inbox's settings be read; they are not overwritten");
    else if (result.outcome != SERVICE_OK)
        fail(update, result_errno_of_change(&result), result_words(&result));
    else if ((record = inbox_list_find(&list, update->id)) == NULL)
        fail(update, -ENOENT, "the service no longer knows this inbox");
    else
        update->error = inbox_record_copy(record, ret_record);
    service_result_release(&result);
    inbox_list_release(&list);
    return update->error == 0;
}

static bool upsert(struct update *update, const char *request, struct cancel *cancel)
{
    const struct inbox_editor *editor = update->editor;
    struct service_result result;
    _cleanup_free_ char *id = NULL;
    editor->service->ops->upsert_inbox(editor->service, request, UPSERT_TIMEOUT_MS, cancel, &id, &result);
    contact_note(editor->contact, &result);
    int error = result_errno_of_change(&result);
    if (error != 0)
        fail(update, error, result_words(&result));
    service_result_release(&result);
    return error == 0;
}

static void run_update(void *context, struct cancel *cancel)
{
    struct update *update = context;
    struct mirror *mirror = update->editor->mirror;
    struct inbox_record current = {0};
    struct inbox_record changed = {0};
    _cleanup_free_ char *request = NULL;
    if (!fetch(update, cancel, &current))
        return;
    update->error = inbox_request_update(&current, update->text, update->len, &request, &update->words);
    inbox_record_release(&current);
    if (update->error != 0 || !upsert(update, request, cancel))
        return;
    /* What was written has been taken, even if it cannot be shown at once. */
    struct update shown = *update;
    shown.words = NULL;
    if (!fetch(&shown, cancel, &changed) || mirror_put_inbox(mirror, &changed, INBOX_LISTED, 0, NULL) != 0)
        refresher_request(update->editor->refresher, REFRESHER_ALL);
    inbox_record_release(&changed);
    free(shown.words);
}

int inbox_update(const struct inbox_editor *editor, uint32_t inbox, const char *text, size_t len,
                 struct cancel *cancel, char **ret_reason)
{
    struct inbox_view view;
    uint32_t of_no_name;
    if (!mirror_get_inbox(editor->mirror, inbox, &view))
        return reason_give(ret_reason, -ENOENT, "there is no such inbox any more");
    if (mirror_find_inbox_of_no_name(editor->mirror, &of_no_name) && of_no_name == inbox)
        return reason_give(ret_reason, -EPERM, "this is not an inbox of the service");
    struct update update = {.editor = editor, .id = view.id, .text = text, .len = len};
    int error = bounded_call(editor->mirror->clock, UPDATE_TIMEOUT_MS, cancel, run_update, &update);
    if (error == 0)
        error = update.error;
    if (error == -EINTR && !cancel_is_set(cancel))
        error = -EHOSTUNREACH; /* it was the time that ended it */
    if (error != 0)
        error = refuse(editor, view.name, view.id, error,
                       update.words != NULL ? update.words : strerror(-error), ret_reason);
    free(update.words);
    return error;
}
