/* SPDX-License-Identifier: MIT */
/*
 * Ends and new beginnings. What the service did cannot be undone by a disk that fails: these changes are
 * forced. If the program ends before the disk works again, recovery finds `sending`, and takes the outcome
 * for unknown.
 */
#include "outbox/settle.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "mail/file_name.h"
#include "outbox/change.h"
#include "outbox/core.h"

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = value == NULL ? NULL : strdup(value);
}

/* Begins a forced change. Without memory for it nothing is changed: the item stays as it is until the next
 * start. */
static int begin(struct outbox *outbox, const struct item *item, enum item_state state, struct change *change)
{
    int error = change_begin(outbox, item, state, change);
    if (error != 0)
        log_error("no memory to record what became of an item of the spool");
    change->is_forced = true;
    change->is_own_doing = true;
    return error;
}

void settle_failed(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                   const char *words)
{
    _cleanup_change_ struct change change;
    if (begin(outbox, item, state, &change) != 0)
        return;
    change.next.http_status = http_status;
    change.next.finished_ms = core_realtime_ms(outbox);
    set_text(&change.next.error, words);
    bool is_shown = !item->envelope.is_hidden;
    if (change_commit(&change, item) == 0 && is_shown)
        core_tell(outbox, EVENT_FAILED, OUTBOX_FOLDER_FAILED, item->envelope.name, NULL,
                  item->envelope.error);
    core_told(outbox, item);
}

/* A file that is never sent stays where it is: its program may want it back, as vim does its swap file. What
 * became of it is kept, so that no other name makes a message of it. */
void settle_interrupted(struct outbox *outbox, struct item *item, const char *words)
{
    _cleanup_change_ struct change change = {.outbox = NULL};
    if (!core_is_never_sent(item->envelope.kind, item->envelope.name)) {
        settle_failed(outbox, item, ITEM_INTERRUPTED, 0, words);
        return;
    }
    if (begin(outbox, item, ITEM_HELD, &change) != 0)
        return;
    set_text(&change.next.error, words);
    change_commit(&change, item);
}

void settle_sent(struct outbox *outbox, struct item *item, int http_status, const char *id)
{
    _cleanup_change_ struct change change;
    if (begin(outbox, item, ITEM_SENT, &change) != 0)
        return;
    change.next.http_status = http_status;
    change.next.finished_ms = core_realtime_ms(outbox);
    set_text(&change.next.error, NULL);
    set_text(&change.next.id, id);
    if (change_commit(&change, item) == 0)
        core_tell(outbox, EVENT_SENT, OUTBOX_FOLDER_SENT, item->envelope.name, item->envelope.id, NULL);
    core_told(outbox, item);
}

void settle_uploaded(struct outbox *outbox, struct item *item, int http_status, const char *id)
{
    _cleanup_change_ struct change change;
    if (begin(outbox, item, ITEM_UPLOADED, &change) != 0)
        return;
    change.next.attempts++;
    change.next.http_status = http_status;
    change.next.finished_ms = core_realtime_ms(outbox);
    set_text(&change.next.error, NULL);
    set_text(&change.next.id, id);
    bool is_shown = !item->envelope.is_hidden;
    if (change_commit(&change, item) == 0 && is_shown)
        core_tell(outbox, EVENT_UPLOADED, OUTBOX_FOLDER_ATTACHMENTS, item->envelope.name, item->envelope.id,
                  NULL);
    core_told(outbox, item);
}

void settle_later(struct outbox *outbox, struct item *item, int http_status, const char *words)
{
    _cleanup_change_ struct change change;
    bool is_message = item->envelope.kind == ENVELOPE_MESSAGE;
    if (begin(outbox, item, is_message ? ITEM_QUEUED : ITEM_UPLOADING, &change) != 0)
        return;
    if (is_message) { /* what was recorded as under way is not */
        set_text(&change.next.request, NULL);
        change.next.has_request = false;
    } else {
        change.next.attempts++;
    }
    change.next.http_status = http_status;
    set_text(&change.next.error, words);
    change_commit(&change, item);
}
