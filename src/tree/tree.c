/* SPDX-License-Identifier: MIT */
/*
 * The tree as a whole: passes changes of the store and the outbox to the tree's listener, and passes each
 * request to the operations of its node (node.h). The rules here hold for nodes of every kind.
 */
#include "tree/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "mail/reason.h"
#include "mail/receipt.h"
#include "store/store_content.h"
#include "tree/node.h"

/* ---------------------------------------------------------------- changes */

void tree_set_listener(struct tree *tree, const struct tree_listener *listener)
{
    LOCK_GUARD(&tree->listener_lock);
    tree->listener = listener != NULL ? *listener : (struct tree_listener){.context = NULL};
}

static void inbox_changed(void *context, uint32_t inbox, enum store_change change, const char *former_name)
{
    struct tree *tree = context;
    uint64_t inboxes_ino = node_ino(NODE_INBOXES, 0);
    uint64_t maildirs_ino = node_ino(NODE_MAILDIRS, 0);
    if (tree->store == NULL)
        return;

    if (former_name != NULL) {
        notify_entry_gone(tree, inboxes_ino, former_name);
        notify_entry_gone(tree, maildirs_ino, former_name);
    }
    if (former_name != NULL || change != STORE_CHANGED) {
        notify_changed(tree, inboxes_ino);
        notify_changed(tree, maildirs_ino);
    }
    maildir_notify_box(tree, inbox);
    maildir_inbox_changed(tree, inbox);
    inbox_notify(tree, inbox);
}

/* maildir/ may have appeared or disappeared. */
static void abilities_changed(void *context)
{
    notify_changed(context, TREE_ROOT_INO);
}

static void notify_email_gone(struct tree *tree, const struct email_view *view)
{
    char folder_name[NAME_MAX + 1];
    uint64_t inbox_ino = node_ino(NODE_INBOX, view->inbox);
    notify_entry_gone(tree, inbox_ino, view->name);
    if (store_has_content(tree->store)) {
        node_email_folder_name(view, folder_name, sizeof(folder_name));
        notify_entry_gone(tree, inbox_ino, folder_name);
    }
    maildir_email_gone(tree, view->inbox, view->number);
}

static void notify_sent(struct tree *tree, uint32_t sent)
{
    notify_changed(tree, node_ino(NODE_SENT_RECORD, sent));
    notify_changed(tree, items_folder_ino(OUTBOX_FOLDER_SENT));
}

static void email_changed(void *context, uint32_t email, enum store_change change)
{
    struct tree *tree = context;
    struct email_view view;
    struct inbox_view inbox;
    if (tree->store == NULL || !store_get_email(tree->store, email, &view))
        return;
    if (view.inbox == STORE_SENT) {
        notify_sent(tree, email);
        return;
    }
    atomic_fetch_add(&tree->email_changes, 1);

    bool was_invalid = view.is_quarantined && change != STORE_MOVED;
    /* This comes first, since a notification of a name waits for the rename(2) that caused the change. */
    if (change == STORE_MOVED)
        notify_changed(tree, node_ino(NODE_EMAIL, email));
    if (change == (view.is_quarantined ? STORE_REMOVED : STORE_MOVED))
        notify_entry_gone(tree, node_ino(NODE_INVALID, view.inbox), view.name);
    /* An email that moves into .invalid/ leaves the inbox; one that moves out of it appears there. */
    if (change == STORE_MOVED)
        change = view.is_quarantined ? STORE_REMOVED : STORE_ADDED;
    if (was_invalid || change == STORE_CHANGED || change == STORE_RETURNED)
        notify_changed(tree, node_ino(NODE_EMAIL, email));
    else if (change == STORE_REMOVED)
        notify_email_gone(tree, &view);
    if (!was_invalid && (change == STORE_ADDED || change == STORE_RETURNED))
        maildir_inbox_changed(tree, view.inbox);
    inbox_notify_mail(tree, view.inbox);
    if (!was_invalid && change == STORE_ADDED && store_get_inbox(tree->store, view.inbox, &inbox)) {
        notify_appeared(tree, "inboxes/%s/%s", inbox.name, view.name);
        maildir_email_appeared(tree, view.inbox, email);
    }
}

/* An item appeared in sent/ or failed/. The kernel caches neither outbox/ nor attachments/, where a
 * notification would wait for requests. */
static void notify_settled(struct tree *tree, enum outbox_folder folder, const char *path)
{
    notify_changed(tree, items_folder_ino(folder));
    notify_appeared(tree, "%s", path);
    notify_appeared(tree, "%s" RECEIPT_SUFFIX, path);
}

static void event_happened(void *context, const struct event *event)
{
    struct tree *tree = context;
    if (event->kind == EVENT_SENT)
        notify_settled(tree, OUTBOX_FOLDER_SENT, event->path);
    else if (event->kind == EVENT_FAILED && g_str_has_prefix(event->path, "failed/"))
        notify_settled(tree, OUTBOX_FOLDER_FAILED, event->path);
    events_add(tree, event);
    if (event->kind == EVENT_ONLINE && tree->outbox != NULL)
        outbox_wake(tree->outbox);
}

struct store_listener tree_store_listener(struct tree *tree)
{
    return (struct store_listener){
        .inbox_changed = inbox_changed,
        .email_changed = email_changed,
        .abilities_changed = abilities_changed,
        .context = tree,
    };
}

struct event_listener tree_event_listener(struct tree *tree)
{
    return (struct event_listener){.notify = event_happened, .context = tree};
}

/* ---------------------------------------------------------------- the tree */

int tree_new(const struct tree_config *config, struct tree **ret_tree, char **ret_reason)
{
    struct tree *tree = g_new0(struct tree, 1);
    tree->config = *config;
    tree->started_ms = clock_realtime_ms(config->clock);
    tree->uid = getuid();
    tree->gid = getgid();
    tree->drafts.root.fd = -1;
    pthread_mutex_init(&tree->open_lock, NULL);
    pthread_mutex_init(&tree->listener_lock, NULL);
    removed_names_init(&tree->removed, config->clock);
    for (enum node_kind kind = NODE_NOTHING; kind < NODE_KIND_COUNT; kind++) {
        const struct node_ops *ops = node_ops_of(node_ino(kind, 0));
        int error = ops->init == NULL ? 0 : ops->init(tree, config->state_dir_fd);
        if (error != 0) {
            tree_free(tree);
            return reason_give(ret_reason, error, "%s: %s", ops->state_name, strerror(-error));
        }
    }
    *ret_tree = tree;
    return 0;
}

void tree_attach(struct tree *tree, struct store *store, struct outbox *outbox)
{
    tree->store = store;
    tree->outbox = outbox;
}

void tree_free(struct tree *tree)
{
    if (tree == NULL)
        return;
    for (enum node_kind kind = NODE_NOTHING; kind < NODE_KIND_COUNT; kind++)
        if (node_ops_of(node_ino(kind, 0))->release != NULL)
            node_ops_of(node_ino(kind, 0))->release(tree);
    removed_names_release(&tree->removed);
    pthread_mutex_destroy(&tree->listener_lock);
    pthread_mutex_destroy(&tree->open_lock);
    free(tree);
}

/* ---------------------------------------------------------------- names and attributes */

int tree_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                struct tree_entry *ret)
{
    const struct node_ops *ops = node_ops_of(parent);
    return ops->lookup == NULL ? -ENOTDIR : ops->lookup(tree, caller, parent, name, ret);
}

void tree_forget(struct tree *tree, uint64_t ino, uint64_t lookups)
{
    const struct node_ops *ops = node_ops_of(ino);
    if (ops->forget != NULL)
        ops->forget(tree, ino, lookups);
}

int tree_get_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_attributes *ret)
{
    struct tree_entry entry;
    int error = node_get(tree, caller, ino, &entry);
    if (error == 0)
        *ret = entry.attributes;
    return error;
}

void tree_show_as(const struct tree *tree, struct stat *attributes)
{
    const struct tree_ownership *shown = &tree->config.shown_as;
    if (shown->uid >= 0)
        attributes->st_uid = (uid_t)shown->uid;
    if (shown->gid >= 0)
        attributes->st_gid = (gid_t)shown->gid;
    if (shown->umask >= 0 && !S_ISLNK(attributes->st_mode)) {
        mode_t owner = attributes->st_mode & 0700;
        attributes->st_mode &= ~(mode_t)0777;
        attributes->st_mode |= (owner | owner >> 3 | owner >> 6) & ~(mode_t)shown->umask;
    }
}

int tree_set_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_handle *handle, const struct tree_change *change)
{
    const struct node_ops *ops = node_ops_of(ino);
    struct tree_change effective = *change;
    effective.fields &= ~ops->ignored_changes;
    if (effective.fields == 0)
        return 0;
    if (ops->set_attributes != NULL)
        return ops->set_attributes(tree, caller, ino, handle, &effective);
    if (effective.fields != TREE_SET_SIZE)
        return -EPERM;
    bool has_size = handle != NULL && handle->ops->set_size != NULL;
    return has_size ? handle->ops->set_size(handle, caller, change->size) : -EACCES;
}

int tree_read_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                   size_t size)
{
    const struct node_ops *ops = node_ops_of(ino);
    return ops->read_link == NULL ? -EINVAL : ops->read_link(tree, caller, ino, ret_target, size);
}

int tree_get_statistics(struct tree *tree, struct statvfs *ret)
{
    return fstatvfs(tree->drafts.root.fd, ret) == 0 ? 0 : -errno;
}

/* ---------------------------------------------------------------- listings */

static void add_handle(struct tree_handle *handle)
{
    LOCK_GUARD(&handle->tree->open_lock);
    handle->link.data = handle;
    g_queue_push_tail_link(&handle->tree->open_handles, &handle->link);
}

static void remove_handle(struct tree_handle *handle)
{
    LOCK_GUARD(&handle->tree->open_lock);
    g_queue_unlink(&handle->tree->open_handles, &handle->link);
}

/* "." and ".." come before the folder's own positions. */
enum {
    POSITION_SELF,
    POSITION_PARENT,
    POSITION_FIRST,
};

/* The inode number of "..", as libfuse shows an unknown one: the kernel itself resolves the name. */
#define PARENT_INO UINT32_MAX

static void release_listing(struct tree_handle *handle)
{
    struct tree_dir *dir = (struct tree_dir *)handle;
    const struct node_ops *ops = node_ops_of(dir->ino);
    if (ops->release_dir != NULL)
        ops->release_dir(dir);
    free(dir);
}

int tree_open_dir(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                  struct tree_handle **ret_dir)
{
    static const struct handle_ops listing_ops = {.release = release_listing};
    const struct node_ops *ops = node_ops_of(ino);
    if (ops->lookup == NULL)
        return -ENOTDIR;
    _cleanup_free_ struct tree_dir *dir = handle_new(tree, &listing_ops, sizeof(*dir), O_RDONLY);
    dir->ino = ino;
    dir->base.caching = ops->is_listing_lasting ? TREE_CACHE_LASTING : TREE_CACHE_OPEN;
    int error = ops->open_dir == NULL ? 0 : ops->open_dir(caller, dir);
    if (error != 0)
        return error;
    *ret_dir = &TAKE_PTR(dir)->base;
    add_handle(*ret_dir);
    return 0;
}

int tree_read_dir(struct tree_handle *handle, uint64_t position, tree_dir_sink sink, void *context)
{
    struct tree_dir *dir = (struct tree_dir *)handle;
    const struct node_ops *ops = node_ops_of(dir->ino);
    dir->sink = sink;
    dir->context = context;
    dir->first_position = 0;
    if (ops->has_own_dots)
        return ops->read_dir(dir, position);
    if ((position <= POSITION_SELF && !dir_put_name(dir, ".", dir->ino, S_IFDIR, POSITION_PARENT)) ||
        (position <= POSITION_PARENT && !dir_put_name(dir, "..", PARENT_INO, S_IFDIR, POSITION_FIRST)) ||
        ops->read_dir == NULL)
        return 0;
    dir->first_position = POSITION_FIRST;
    return ops->read_dir(dir, position > POSITION_FIRST ? position - POSITION_FIRST : 0);
}

/* ---------------------------------------------------------------- open files */

int tree_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
              struct tree_handle **ret_handle)
{
    const struct node_ops *ops = node_ops_of(ino);
    if (ops->open == NULL)
        return ops->lookup != NULL ? -EISDIR : ops->read_link != NULL ? -ELOOP : -ENOENT;
    int error = ops->open(tree, caller, ino, flags, ret_handle);
    if (error == 0)
        add_handle(*ret_handle);
    return error;
}

int tree_create(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    const struct node_ops *ops = node_ops_of(parent);
    if (ops->create == NULL)
        return -EPERM;
    int error = ops->create(tree, caller, parent, name, mode, flags, ret_entry, ret_handle);
    if (error == 0)
        add_handle(*ret_handle);
    return error;
}

int tree_lookup_announced(struct tree *tree, uint64_t folder, const char *name, struct tree_entry *ret)
{
    const struct node_ops *ops = node_ops_of(folder);
    return ops->lookup_announced == NULL ? -EPERM
                                         : ops->lookup_announced(tree, &no_caller, folder, name, ret);
}

int tree_create_announced(struct tree *tree, uint64_t folder, const char *name, struct tree_entry *ret_entry,
                          struct tree_handle **ret_handle)
{
    /* The watch helper writes no bytes, so the kernel's cache stays valid. */
    static const struct handle_ops ops = {.caching = TREE_CACHE_LASTING, .release = tree_handle_free};
    int error = tree_lookup_announced(tree, folder, name, ret_entry);
    if (error != 0)
        return error;
    struct tree_handle *handle = handle_new(tree, &ops, sizeof(*handle), O_RDONLY);
    add_handle(handle);
    *ret_handle = handle;
    return 0;
}

int tree_read(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    *ret = (struct tree_data){.len = 0};
    int error = handle->ops->read == NULL ? -EBADF : handle->ops->read(handle, len, offset, ret);
    if (error != 0)
        tree_data_release(ret);
    return error;
}

bool tree_take_first_content(struct tree_handle *handle, struct tree_data *ret)
{
    *ret = (struct tree_data){.len = 0};
    bool is_taken = handle->ops->take_first_content != NULL && handle->ops->take_first_content(handle, ret);
    if (!is_taken)
        tree_data_release(ret);
    return is_taken;
}

bool tree_is_first_content_current(struct tree_handle *handle)
{
    return handle->ops->is_first_content_current(handle);
}

bool tree_is_readable(struct tree_handle *handle)
{
    return handle->ops->is_readable == NULL || handle->ops->is_readable(handle);
}

ssize_t tree_write(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                   size_t len, off_t offset)
{
    return handle->ops->write == NULL ? -EBADF : handle->ops->write(handle, caller, bytes, len, offset);
}

int tree_sync_file(struct tree_handle *handle, bool is_data_only)
{
    return handle->ops->sync == NULL ? 0 : handle->ops->sync(handle, is_data_only);
}

int tree_flush(struct tree_handle *handle, const struct tree_caller *caller)
{
    return handle->ops->flush == NULL ? 0 : handle->ops->flush(handle, caller);
}

void tree_release(struct tree_handle *handle)
{
    remove_handle(handle);
    handle->ops->release(handle);
}

void tree_close_handles(struct tree *tree)
{
    GList *next;
    for (GList *link = tree->open_handles.head; link != NULL; link = next) {
        struct tree_handle *handle = link->data;
        next = link->next;
        if (handle->ops->is_closed_well == NULL || handle->ops->is_closed_well(handle))
            tree_release(handle);
    }
}

void tree_abandon_handles(struct tree *tree)
{
    while (tree->open_handles.head != NULL) {
        struct tree_handle *handle = tree->open_handles.head->data;
        remove_handle(handle);
        if (handle->ops->abandon != NULL)
            handle->ops->abandon(handle);
        else
            handle->ops->release(handle);
    }
}

/* ---------------------------------------------------------------- changes in a folder */

int tree_make(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
              const struct tree_new_entry *what, struct tree_entry *ret)
{
    const struct node_ops *ops = node_ops_of(parent);
    return ops->make == NULL ? -EPERM : ops->make(tree, caller, parent, name, what, ret);
}

int tree_remove_dir(struct tree *tree, uint64_t parent, const char *name)
{
    const struct node_ops *ops = node_ops_of(parent);
    return ops->remove_dir == NULL ? -EPERM : ops->remove_dir(tree, parent, name);
}

int tree_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name)
{
    const struct node_ops *ops = node_ops_of(parent);
    return ops->unlink == NULL ? -EPERM : ops->unlink(tree, caller, parent, name);
}

int tree_rename(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                uint64_t new_parent, const char *new_name, unsigned int flags)
{
    const struct node_ops *ops = node_ops_of(new_parent);
    bool is_in_drafts = node_kind(parent) == NODE_DRAFT && node_kind(new_parent) == NODE_DRAFT;
    if (!is_in_drafts && (flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    return ops->rename == NULL ? -EPERM
                               : ops->rename(tree, caller, parent, name, new_parent, new_name, flags);
}

int tree_sync_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino)
{
    const struct node_ops *ops = node_ops_of(ino);
    return ops->sync == NULL ? 0 : ops->sync(tree, caller, ino);
}

bool tree_is_barrier(uint64_t ino)
{
    return node_ops_of(ino)->is_barrier;
}

bool tree_answers_at_once(uint64_t ino)
{
    return node_ops_of(ino)->answers_at_once;
}
