/* SPDX-License-Identifier: MIT */
/*
 * The tree as a whole: made and freed, and told of changes by the store and the outbox.
 */
#include "tree/tree.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "mail/receipt.h"
#include "tree/email_folder.h"
#include "tree/inode.h"
#include "tree/maildir.h"
#include "tree/root.h"
#include "tree/search.h"
#include "tree/tree_state.h"

static const char event_log_name[] = "events.jsonl";

/* ---------------------------------------------------------------- telling the watcher */

static void tell_folder_changed(struct tree *tree, uint64_t ino)
{
    pthread_mutex_lock(&tree->watcher_lock);
    if (tree->watcher.folder_changed != NULL)
        tree->watcher.folder_changed(tree->watcher.context, ino);
    pthread_mutex_unlock(&tree->watcher_lock);
}

static void tell_entry_gone(struct tree *tree, uint64_t folder_ino, const char *name)
{
    pthread_mutex_lock(&tree->watcher_lock);
    if (tree->watcher.entry_gone != NULL)
        tree->watcher.entry_gone(tree->watcher.context, folder_ino, name);
    pthread_mutex_unlock(&tree->watcher_lock);
}

static void tell_content_changed(struct tree *tree, uint64_t ino)
{
    pthread_mutex_lock(&tree->watcher_lock);
    if (tree->watcher.content_changed != NULL)
        tree->watcher.content_changed(tree->watcher.context, ino);
    pthread_mutex_unlock(&tree->watcher_lock);
}

static void tell_stream_grew(struct tree *tree)
{
    pthread_mutex_lock(&tree->watcher_lock);
    if (tree->watcher.stream_grew != NULL)
        tree->watcher.stream_grew(tree->watcher.context);
    pthread_mutex_unlock(&tree->watcher_lock);
}

/* `format` makes the path below the mount point. */
__attribute__((format(printf, 2, 3))) static void tell_appeared(struct tree *tree, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&tree->watcher_lock);
    if (tree->watcher.appeared != NULL)
        tree->watcher.appeared(tree->watcher.context, path);
    pthread_mutex_unlock(&tree->watcher_lock);
}

void tree_set_watcher(struct tree *tree, const struct tree_watcher *watcher)
{
    pthread_mutex_lock(&tree->watcher_lock);
    tree->watcher = watcher != NULL ? *watcher : (struct tree_watcher){.context = NULL};
    pthread_mutex_unlock(&tree->watcher_lock);
}

/* ---------------------------------------------------------------- being told */

/* Remembers the folder's name, and returns the one it had when that was another. Names live as long as the
 * store. */
static const char *exchange_inbox_name(struct tree *tree, uint32_t inbox, const char *name)
{
    const char *before = NULL;
    pthread_mutex_lock(&tree->names_lock);
    if (inbox >= tree->inbox_names_len) {
        size_t len = (size_t)inbox + 64;
        const char **names = realloc(tree->inbox_names, len * sizeof(*names));
        if (names != NULL) {
            memset(names + tree->inbox_names_len, 0, (len - tree->inbox_names_len) * sizeof(*names));
            tree->inbox_names = names;
            tree->inbox_names_len = len;
        }
    }
    if (inbox < tree->inbox_names_len) {
        before = tree->inbox_names[inbox];
        tree->inbox_names[inbox] = name;
    }
    pthread_mutex_unlock(&tree->names_lock);
    return before != NULL && (name == NULL || strcmp(before, name) != 0) ? before : NULL;
}

/* All that show the time at which the inbox, or mail of it, held back or not, last changed. */
static void tell_mail_changed(struct tree *tree, uint32_t inbox)
{
    tell_folder_changed(tree, inode_make(INODE_HELD, inbox));
    tell_folder_changed(tree, inode_make(INODE_INBOX, inbox));
    tell_content_changed(tree, inode_make(INODE_INBOX_INDEX, inbox));
}

static void inbox_changed(void *context, uint32_t inbox, enum store_change change)
{
    struct tree *tree = context;
    struct inbox_view view;
    uint64_t inboxes_ino = inode_make(INODE_FIXED, FIXED_INBOXES);
    uint64_t maildirs_ino = inode_make(INODE_FIXED, FIXED_MAILDIR);
    if (tree->store == NULL)
        return;

    bool is_there = change != STORE_REMOVED && store_get_inbox(tree->store, inbox, &view);
    const char *old_name = exchange_inbox_name(tree, inbox, is_there ? view.name : NULL);
    if (old_name != NULL) {
        tell_entry_gone(tree, inboxes_ino, old_name);
        tell_entry_gone(tree, maildirs_ino, old_name);
    }
    if (old_name != NULL || change != STORE_CHANGED) {
        tell_folder_changed(tree, inboxes_ino);
        tell_folder_changed(tree, maildirs_ino);
    }
    tell_folder_changed(tree, maildir_ino(inbox, MAILDIR_NODE_BOX));
    maildir_inbox_changed(tree, inbox);
    tell_mail_changed(tree, inbox);
    tell_content_changed(tree, inode_make(INODE_INBOX_RECORD, inbox));
}

static void tell_content_gone(struct tree *tree, const struct email_view *view)
{
    char name[NAME_MAX + 1];
    if (!store_has_content(tree->store))
        return;
    content_folder_name(view, name, sizeof(name));
    tell_entry_gone(tree, inode_make(INODE_INBOX, view->inbox), name);
}

/* There may be a folder maildir/ now, or none any more. Each inbox is told of by itself. */
static void content_changed(void *context)
{
    tell_folder_changed(context, TREE_ROOT_INO);
}

/* Of .invalid/; what is left to tell of the inbox is returned. */
static enum store_change held_changed(struct tree *tree, const struct email_view *view,
                                      enum store_change change)
{
    uint64_t folder_ino = inode_make(INODE_HELD, view->inbox);
    bool leaves = view->is_held ? change == STORE_REMOVED : change == STORE_MOVED;
    /* First of all: what follows about names waits for the rename that brought it about. */
    if (change == STORE_MOVED)
        tell_content_changed(tree, inode_make(INODE_EMAIL, view->number));
    if (leaves)
        tell_entry_gone(tree, folder_ino, view->name);
    if (change != STORE_MOVED)
        return change;
    return view->is_held ? STORE_REMOVED : STORE_ADDED;
}

static void email_changed(void *context, uint32_t email, enum store_change change)
{
    struct tree *tree = context;
    struct email_view view;
    struct inbox_view inbox;
    if (tree->store == NULL || !store_get_email(tree->store, email, &view))
        return;

    uint64_t folder_ino = inode_make(INODE_INBOX, view.inbox);
    bool was_held = view.is_held && change != STORE_MOVED;
    change = held_changed(tree, &view, change);
    if (was_held) {
        tell_content_changed(tree, inode_make(INODE_EMAIL, email));
        tell_mail_changed(tree, view.inbox);
        return;
    }
    if (change == STORE_REMOVED) {
        tell_entry_gone(tree, folder_ino, view.name);
        tell_content_gone(tree, &view);
        maildir_email_gone(tree, view.inbox, email);
        tell_content_changed(tree, inode_make(INODE_MAILDIR_MESSAGE, email));
    }
    if (change == STORE_ADDED)
        maildir_inbox_changed(tree, view.inbox);
    if (change == STORE_CHANGED)
        tell_content_changed(tree, inode_make(INODE_EMAIL, email));
    tell_mail_changed(tree, view.inbox);
    if (change == STORE_ADDED && store_get_inbox(tree->store, view.inbox, &inbox))
        tell_appeared(tree, "inboxes/%s/%s", inbox.name, view.name);
}

/* outbox/ and attachments/ are never cached, and never told of: a request that waits there would meet the
 * notification. */
static void tell_item_folder(struct tree *tree, enum outbox_folder folder)
{
    if (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED)
        tell_folder_changed(tree, inode_make(INODE_FIXED, fixed_of_outbox_folder(folder)));
}

static void item_moved(void *context, const char *name, enum outbox_folder from, enum outbox_folder to)
{
    struct tree *tree = context;
    tell_item_folder(tree, from);
    if (to == from)
        return; /* names there are not cached */
    tell_item_folder(tree, to);
    uint64_t to_ino = inode_make(INODE_FIXED, fixed_of_outbox_folder(to));
    if (tree_is_announced(to_ino)) {
        const char *folder = fixed_get(fixed_of_outbox_folder(to))->name;
        tell_appeared(tree, "%s/%s", folder, name);
        tell_appeared(tree, "%s/%s" RECEIPT_SUFFIX, folder, name);
    }
}

static void event_happened(void *context, const struct event *event)
{
    struct tree *tree = context;
    event_log_append(tree->event_log, event);
    tell_stream_grew(tree);
    /* What waits in the queue need not wait for its turn any longer. */
    if (event->kind == EVENT_ONLINE && tree->outbox != NULL)
        outbox_wake(tree->outbox);
}

void tree_report(struct tree *tree, enum event_kind kind, const char *path, const char *error)
{
    if (error == NULL)
        return;
    const struct event event = {
        .time_ms = clock_realtime_ms(tree->clock), .kind = kind, .path = path, .error = error};
    event_happened(tree, &event);
}

static void sent_changed(void *context, uint32_t sent, enum store_change change)
{
    struct tree *tree = context;
    (void)change;
    if (tree->store == NULL)
        return;
    tell_content_changed(tree, inode_make(INODE_SENT, sent));
    tell_folder_changed(tree, inode_make(INODE_FIXED, FIXED_SENT));
}

struct store_listener tree_store_listener(struct tree *tree)
{
    return (struct store_listener){
        .inbox_changed = inbox_changed,
        .email_changed = email_changed,
        .sent_changed = sent_changed,
        .content_changed = content_changed,
        .context = tree,
    };
}

struct outbox_listener tree_outbox_listener(struct tree *tree)
{
    return (struct outbox_listener){.item_moved = item_moved, .context = tree};
}

struct event_listener tree_event_listener(struct tree *tree)
{
    return (struct event_listener){.notify = event_happened, .context = tree};
}

/* ---------------------------------------------------------------- made and freed */

static int open_drafts(struct tree *tree, int state_dir_fd)
{
    int fd = file_open_dir(state_dir_fd, "drafts");
    return fd < 0 ? fd : draft_table_init(&tree->drafts, tree->clock, fd);
}

static char *reason_in_words(const char *what, int error)
{
    char *reason = NULL;
    return asprintf(&reason, "%s: %s", what, strerror(-error)) < 0 ? NULL : reason;
}

int tree_new(const struct tree_config *config, struct tree **ret_tree, char **ret_reason)
{
    struct tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL)
        return -ENOMEM;
    tree->clock = config->clock;
    tree->service = config->service;
    tree->poll_interval_ms = config->poll_interval_ms;
    tree->started_ms = clock_realtime_ms(config->clock);
    tree->uid = getuid();
    tree->gid = getgid();
    tree->drafts.root.fd = -1;
    maildir_init(&tree->maildir);
    tree->open_handles = (struct tree_link){&tree->open_handles, &tree->open_handles};
    tree->open_dirs = (struct tree_link){&tree->open_dirs, &tree->open_dirs};
    pthread_mutex_init(&tree->open_lock, NULL);
    pthread_mutex_init(&tree->watcher_lock, NULL);
    pthread_mutex_init(&tree->names_lock, NULL);
    status_file_init(&tree->status);
    removed_names_init(&tree->removed);
    tree->search = search_folder_new();
    first_opens_init(&tree->first_opens);

    const char *what = "events.jsonl";
    int error = event_log_new(config->state_dir_fd, event_log_name, EVENT_LOG_MAX_BYTES, &tree->event_log);
    if (error == 0) {
        what = "drafts";
        error = open_drafts(tree, config->state_dir_fd);
    }
    if (error == 0) {
        what = "maildir";
        error = maildir_open(&tree->maildir, config->clock, config->state_dir_fd);
    }
    if (error == 0 && (tree->search == NULL || (tree->source = strdup(config->source)) == NULL))
        error = -ENOMEM;
    if (error != 0) {
        *ret_reason = reason_in_words(what, error);
        tree_free(tree);
        return error;
    }
    *ret_tree = tree;
    return 0;
}

void tree_attach(struct tree *tree, struct store *store, struct outbox *outbox)
{
    struct inbox_view view;
    uint64_t position = 0;
    tree->store = store;
    tree->outbox = outbox;
    while (store_list_inboxes(store, position, &view, &position, 1) == 1)
        exchange_inbox_name(tree, view.number, view.name);
}

void tree_free(struct tree *tree)
{
    if (tree == NULL)
        return;
    if (tree->drafts.root.fd >= 0)
        draft_table_release(&tree->drafts);
    maildir_release(&tree->maildir);
    event_log_free(tree->event_log);
    status_file_release(&tree->status);
    removed_names_release(&tree->removed);
    search_folder_free(tree->search);
    first_opens_release(&tree->first_opens);
    free(tree->inbox_names);
    free(tree->source);
    pthread_mutex_destroy(&tree->names_lock);
    pthread_mutex_destroy(&tree->watcher_lock);
    pthread_mutex_destroy(&tree->open_lock);
    free(tree);
}
