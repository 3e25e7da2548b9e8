/* SPDX-License-Identifier: MIT */
/*
 * Reply files: reply, reply-all and forward in the folder of an email. A text that is written to a reply
 * file, or a draft that is moved onto it, becomes a message in outbox/; the file itself is always empty, and
 * cannot be read. Reply files are not listed, so that programs which read all files do not fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/email_head.h"
#include "mail/reply.h"
#include "store/store_content.h"
#include "tree/node.h"

enum {
    KIND_BITS = 2
};

static const char *const names[] = {
    [REPLY_SENDER] = "reply",
    [REPLY_ALL] = "reply-all",
    [REPLY_FORWARD] = "forward",
};

/* ---------------------------------------------------------------- names and attributes */

static uint32_t email_of(uint64_t ino)
{
    return (uint32_t)(node_number(ino) >> KIND_BITS);
}

static enum reply_kind kind_of(uint64_t ino)
{
    return (enum reply_kind)(node_number(ino) & ((1U << KIND_BITS) - 1));
}

uint64_t reply_file_ino(uint32_t email, const char *name)
{
    for (size_t kind = 0; kind < ARRAY_LEN(names); kind++)
        if (strcmp(names[kind], name) == 0)
            return node_ino(NODE_REPLY_FILE, (uint64_t)email << KIND_BITS | kind);
    return 0;
}

/* After a rename onto a reply file, the kernel has another inode under its name, so nothing is lasting. */
static int get_reply_file(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                          struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, email_of(ino), &view))
        return -ENOENT;
    entry_fill(tree, ino, S_IFREG | 0200, 0, timespec_of_ms(view.date_ms), 0, ret);
    return 0;
}

int reply_file_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      uint64_t ino, struct tree_entry *ret)
{
    if (removed_names_find(&tree->removed, caller->pid, folder, name, ret))
        return -ENOENT;
    return get_reply_file(tree, caller, ino, ret);
}

int reply_file_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      uint64_t ino)
{
    struct tree_entry entry;
    int error = reply_file_lookup(tree, caller, folder, name, ino, &entry);
    if (error == 0)
        removed_names_add(&tree->removed, caller->pid, folder, name, &entry);
    return error;
}

/* ---------------------------------------------------------------- answers */

struct answer {
    struct tree *tree; /* borrowed */
    uint64_t ino;      /* of the reply file */
    char *template;    /* from reply_make(); NULL before prepare_answer() */
};

static struct answer *new_answer(struct tree *tree, uint64_t ino)
{
    struct answer *answer = g_new(struct answer, 1);
    *answer = (struct answer){.tree = tree, .ino = ino};
    return answer;
}

void answer_free(struct answer *answer)
{
    if (answer == NULL)
        return;
    free(answer->template);
    free(answer);
}

/* Sets the template unless it is set. Waits for the email's content. Return: 0; -ENOENT when the email is
 * gone; an error of reply_make() or store_content.h. */
static int prepare_answer(struct answer *answer, const struct tree_caller *caller)
{
    struct store *store = answer->tree->store;
    uint32_t email = email_of(answer->ino);
    g_autoptr(GPtrArray) own = g_ptr_array_new();
    _cleanup_email_head_ struct email_head head = {0};
    struct store_content *content;
    struct email_view view;
    struct inbox_view inbox;
    uint64_t position = 0;
    if (answer->template != NULL)
        return 0;
    const char *id = store_get_email_id(store, email);
    if (id == NULL || !store_get_email(store, email, &view) || !store_get_inbox(store, view.inbox, &inbox))
        return -ENOENT;
    int error = store_content_get(store, email, caller->cancel, &content);
    if (error != 0)
        return error;
    const struct content_entry *entry = content_folder_find(&content->folder, CONTENT_HEAD, "");
    if (entry == NULL || email_head_read(entry->bytes, entry->len, &head) != 0)
        error = -EIO;
    store_content_unref(content);
    if (error != 0)
        return error;

    struct inbox_view other;
    while (store_next_inbox(store, &position, &other))
        if (other.address != NULL)
            g_ptr_array_add(own, (gpointer)(uintptr_t)other.address);
    const struct reply_original original = {
        .email_id = id,
        .inbox_address = inbox.address,
        .head = &head,
        .own_addresses = (const char *const *)own->pdata,
        .own_addresses_len = own->len,
    };
    return reply_make(kind_of(answer->ino), &original, &answer->template);
}

/* ---------------------------------------------------------------- open files */

/* Adds an event with the path of the reply file. */
static void report_refused(const struct answer *answer, const char *reason)
{
    struct tree *tree = answer->tree;
    char folder[NAME_MAX + 1];
    struct email_view view;
    struct inbox_view inbox;
    if (!store_get_email(tree->store, email_of(answer->ino), &view) ||
        !store_get_inbox(tree->store, view.inbox, &inbox))
        return;
    node_email_folder_name(&view, folder, sizeof(folder));
    _cleanup_free_ char *path =
        g_strdup_printf("inboxes/%s/%s/%s", inbox.name, folder, names[kind_of(answer->ino)]);
    events_report(tree, EVENT_REFUSED, path, reason);
}

/* Without draft_check_beginning(), the outbox would find the same error only after the close. */
int answer_make(struct answer *answer, const struct tree_caller *caller, const void *bytes, size_t len,
                struct outbox_handle **ret_file)
{
    struct outbox_stat stat;
    _cleanup_free_ char *reason = NULL;
    int error = prepare_answer(answer, caller);
    if (error == 0 && bytes != NULL)
        error = draft_check_beginning(bytes, len, answer->template, &reason);
    if (error == -EDESTADDRREQ && reason != NULL)
        report_refused(answer, reason);
    if (error != 0)
        return error;
    _cleanup_free_ char *message = reply_file_name(answer->template);
    return outbox_create(answer->tree->outbox, OUTBOX_FOLDER_OUTBOX, message, caller->pid, answer->template,
                         ret_file, &stat);
}

/* Waits for the email's content, so that a failure comes before any write. */
static int open_reply_file(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                           struct tree_handle **ret_handle)
{
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    struct answer *answer = new_answer(tree, ino);
    int error = prepare_answer(answer, caller);
    if (error == 0)
        items_open_answer(tree, flags, answer, ret_handle);
    else
        answer_free(answer);
    return error;
}

/* Must not wait, since the kernel holds the folder's lock: the first write prepares the answer. */
int reply_file_create(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                      struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    removed_names_forget(&tree->removed, caller->pid, ino);
    int error = get_reply_file(tree, caller, ino, ret_entry);
    if (error == 0 && (flags & O_ACCMODE) != O_WRONLY)
        error = -EACCES;
    if (error == 0)
        items_open_answer(tree, flags, new_answer(tree, ino), ret_handle);
    return error;
}

int reply_file_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                       uint64_t ino)
{
    struct answer *answer = new_answer(tree, ino);
    int error = prepare_answer(answer, caller);
    if (error == 0) {
        _cleanup_free_ char *message = reply_file_name(answer->template);
        const struct hand_in to = {
            .folder = OUTBOX_FOLDER_OUTBOX, .name = message, .reply_template = answer->template};
        error = items_hand_in(tree, caller, folder, name, &to);
    }
    answer_free(answer);
    return error;
}

static int set_reply_file(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                          struct tree_handle *handle, const struct tree_change *change)
{
    if (handle != NULL && handle->ops->set_size != NULL)
        return handle->ops->set_size(handle, caller, change->size);
    return change->size == 0 ? 0 : -EINVAL;
}

const struct node_ops reply_file_ops = {
    .get = get_reply_file,
    .open = open_reply_file,
    .ignored_changes = TREE_SET_WITHOUT_SIZE,
    .set_attributes = set_reply_file,
};
