/* SPDX-License-Identifier: MIT */
/*
 * inbox.json: what is written is collected, and put to the service when a descriptor is closed and the text
 * is one complete JSON value.
 *
 * A text that is not one fails the close, so that no edit is dropped in silence; but nobody sees which close
 * is the last. A shell closes a duplicate before anything is written (an empty text is no error), and what it
 * starts closes the one it was given, perhaps after a part of the text. So only the process that opened the
 * file is told: whatever else has it open, has it from there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/inbox_record.h"
#include "outbox/writer_fate.h"
#include "tree/entry.h"
#include "tree/handle_type.h"

enum {
    INBOX_TEXT_MAX_BYTES = 1024 * 1024
};

struct inbox_handle {
    struct tree_handle base;
    uint32_t inbox;
    pthread_mutex_t lock;
    struct strbuf text; /* protected by lock */
    bool is_changed;    /* protected by lock: since it was opened or put to the service */
    pid_t opener;       /* the process; 0: not known, so that every close counts as its own */
};

/* Every other failure is reported by the store. */
static void report_incomplete(const struct inbox_handle *inbox)
{
    struct tree *tree = inbox->base.tree;
    struct inbox_view view;
    _cleanup_free_ char *path = NULL;
    if (!store_get_inbox(tree->store, inbox->inbox, &view) ||
        asprintf(&path, "inboxes/%s/%s", view.name, inbox_record_name) < 0)
        path = NULL;
    tree_report(tree, EVENT_INBOX, path,
                "what was written is not a complete JSON value, so nothing was changed");
}

static int read_inbox(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    int error = 0;
    if (offset < 0)
        return -EINVAL;
    pthread_mutex_lock(&inbox->lock);
    if ((size_t)offset < inbox->text.len) {
        size_t rest = inbox->text.len - (size_t)offset;
        ret->len = len < rest ? len : rest;
        ret->owned = malloc(ret->len);
        ret->bytes = ret->owned;
        if (ret->owned != NULL)
            memcpy(ret->owned, inbox->text.data + offset, ret->len);
        else
            error = -ENOMEM;
    }
    pthread_mutex_unlock(&inbox->lock);
    return error;
}

static int set_len_locked(struct inbox_handle *inbox, size_t len)
{
    size_t before = inbox->text.len;
    if (len <= before) {
        strbuf_truncate(&inbox->text, len);
        return 0;
    }
    if (strbuf_reserve(&inbox->text, len - before) != 0) {
        inbox->text.error = 0;
        return -ENOMEM;
    }
    while (inbox->text.len < len)
        strbuf_append_char(&inbox->text, '\0');
    return 0;
}

static ssize_t write_inbox(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                           size_t len, off_t offset)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    (void)caller;
    if (offset < 0 || offset > INBOX_TEXT_MAX_BYTES || len > INBOX_TEXT_MAX_BYTES - (size_t)offset)
        return -EFBIG;
    size_t end = (size_t)offset + len;
    pthread_mutex_lock(&inbox->lock);
    int error = end > inbox->text.len ? set_len_locked(inbox, end) : 0;
    if (error == 0 && len > 0) {
        memcpy(inbox->text.data + offset, bytes, len);
        inbox->is_changed = true;
    }
    pthread_mutex_unlock(&inbox->lock);
    return error != 0 ? error : (ssize_t)len;
}

static int set_inbox_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    (void)caller;
    if (size < 0 || size > INBOX_TEXT_MAX_BYTES)
        return -EFBIG;
    pthread_mutex_lock(&inbox->lock);
    int error = set_len_locked(inbox, (size_t)size);
    inbox->is_changed = true;
    pthread_mutex_unlock(&inbox->lock);
    return error;
}

/* The text to put to the service, or NULL where there is nothing to do. Once taken it counts as put, so that
 * an error is told to one close(2), and the service asked once. -EINVAL: it is not complete. */
static int take_change_locked(struct inbox_handle *inbox, char **ret_text, size_t *ret_len)
{
    if (!inbox->is_changed || inbox->text.len == 0)
        return 0;
    if (!inbox_text_is_complete(inbox->text.data, inbox->text.len))
        return -EINVAL;
    char *text = malloc(inbox->text.len);
    if (text == NULL)
        return -ENOMEM;
    memcpy(text, inbox->text.data, inbox->text.len);
    *ret_text = text;
    *ret_len = inbox->text.len;
    inbox->is_changed = false;
    return 0;
}

static bool is_opener(const struct inbox_handle *inbox, const struct tree_caller *caller)
{
    return inbox->opener <= 0 || caller->pid <= 0 || writer_process(caller->pid) == inbox->opener;
}

static int flush_inbox(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    pthread_mutex_lock(&inbox->lock);
    int error = take_change_locked(inbox, &text, &len);
    pthread_mutex_unlock(&inbox->lock);
    if (error == -EINVAL && !is_opener(inbox, caller))
        return 0;
    if (error != 0 || text == NULL)
        return error;

    _cleanup_free_ char *reason = NULL;
    return store_update_inbox(handle->tree->store, inbox->inbox, text, len, caller->cancel, &reason);
}

static void release_inbox(struct tree_handle *handle)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    if (inbox->is_changed)
        report_incomplete(inbox);
    strbuf_release(&inbox->text);
    pthread_mutex_destroy(&inbox->lock);
    free(inbox);
}

int inbox_record_open(struct tree *tree, const struct tree_caller *caller, uint32_t number, int flags,
                      struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .may_wait = true,
        .read = read_inbox,
        .write = write_inbox,
        .set_size = set_inbox_size,
        .flush = flush_inbox,
        .release = release_inbox,
    };
    _cleanup_free_ char *json = NULL;
    size_t len;
    int error = store_read_inbox(tree->store, number, &json, &len);
    if (error != 0)
        return error;
    struct inbox_handle *inbox = handle_new(tree, &ops, sizeof(*inbox), flags);
    if (inbox == NULL)
        return -ENOMEM;
    inbox->inbox = number;
    if ((flags & O_ACCMODE) != O_RDONLY && caller->pid > 0)
        inbox->opener = writer_process(caller->pid);
    inbox->text = STRBUF_INIT(len + INBOX_TEXT_MAX_BYTES);
    inbox->is_changed = (flags & O_TRUNC) != 0;
    pthread_mutex_init(&inbox->lock, NULL);
    if ((flags & O_TRUNC) == 0 && strbuf_append(&inbox->text, json, len) != 0) {
        release_inbox(&inbox->base);
        return -ENOMEM;
    }
    *ret_handle = &inbox->base;
    return 0;
}
