/* SPDX-License-Identifier: MIT */
/*
 * Lookup and attributes.
 */
#include "tree/tree.h"

#include <errno.h>
#include <string.h>

#include "tree/email_folder.h"
#include "tree/entry.h"
#include "tree/inboxes.h"
#include "tree/inode.h"
#include "tree/items.h"
#include "tree/maildir.h"
#include "tree/reply_file.h"
#include "tree/search.h"
#include "tree/tree_state.h"

/* ---------------------------------------------------------------- attributes */

static int get_draft(struct tree *tree, struct draft_node *node, struct tree_attributes *ret)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    struct tree_entry entry;
    struct stat stat;
    int error = draft_hold(&tree->drafts, node, &hold);
    if (error != 0)
        return error;
    if (fstat(hold.fd, &stat) != 0)
        return -errno;
    entry_of_draft(draft_node_ino(&tree->drafts, node), &stat, &entry);
    if (node == &tree->drafts.root) {
        entry.attributes.stat.st_ino = entry.ino;
        entry.attributes.stat.st_mode = fixed_get(FIXED_DRAFTS)->mode;
    }
    *ret = entry.attributes;
    return 0;
}

static bool get_inbox(struct tree *tree, enum inode_kind kind, uint32_t number, struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_get_inbox(tree->store, number, &view))
        return false;
    if (kind == INODE_INBOX)
        entry_of_inbox(tree, &view, ret);
    else if (kind == INODE_INBOX_RECORD)
        entry_of_inbox_record(tree, &view, ret);
    else
        entry_of_inbox_index(tree, &view, ret);
    return true;
}

static bool get_email(struct tree *tree, uint32_t number, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, number, &view))
        return false;
    entry_of_email(tree, &view, ret);
    return true;
}

/* The inode stays what it was when it was looked up, wherever the item has gone since. */
static bool get_item(struct tree *tree, enum outbox_aspect aspect, uint64_t ino, struct tree_entry *ret)
{
    uint64_t number = inode_number(ino);
    struct outbox_stat stat;
    if (!outbox_get(tree->outbox, number, aspect, &stat))
        return false;
    entry_of_item(tree, &stat, inode_kind(ino) == INODE_ITEM ? OUTBOX_FOLDER_OUTBOX : stat.folder, ret);
    ret->ino = ino;
    ret->attributes.stat.st_ino = ino;
    return true;
}

static bool get_fixed(struct tree *tree, uint64_t number, struct tree_entry *ret)
{
    if (number >= FIXED_NODES)
        return false;
    entry_of_fixed(tree, (enum fixed_node)number, ret);
    return true;
}

static bool get_door(struct tree *tree, uint64_t ino, struct tree_entry *ret)
{
    const struct answer_door door = answer_door_of(ino);
    return answer_door_get(tree, &door, ret);
}

static bool get_entry(struct tree *tree, uint64_t ino, struct tree_entry *ret)
{
    enum inode_kind kind = inode_kind(ino);
    uint64_t number = inode_number(ino);
    switch (kind) {
    case INODE_FIXED:
        return get_fixed(tree, number, ret);
    case INODE_INBOX:
    case INODE_INBOX_RECORD:
    case INODE_INBOX_INDEX:
        return get_inbox(tree, kind, (uint32_t)number, ret);
    case INODE_EMAIL:
        return get_email(tree, (uint32_t)number, ret);
    case INODE_MAILDIR:
    case INODE_MAILDIR_MESSAGE:
        return maildir_get_entry(tree, ino, ret);
    case INODE_ITEM:
    case INODE_SETTLED_ITEM:
        return get_item(tree, OUTBOX_CONTENT, ino, ret);
    case INODE_RECEIPT:
        return get_item(tree, OUTBOX_RECEIPT, ino, ret);
    case INODE_ANSWER:
        return get_door(tree, ino, ret);
    case INODE_SENT:
        return sent_folder_get(tree, (uint32_t)number, ret);
    case INODE_HELD:
        return held_folder_get(tree, (uint32_t)number, ret);
    case INODE_SEARCH:
    case INODE_SEARCH_HIT:
    case INODE_SEARCH_NOTE:
        return search_folder_get(tree, ino, ret);
    case INODE_DELAYED:
        entry_of_delayed(tree, (enum outbox_folder)number, ret);
        return true;
    case INODE_EVENT_LOG:
        entry_of_event_log(tree, number, ret);
        return true;
    default:
        return false;
    }
}

bool tree_get_attributes_may_wait(uint64_t ino)
{
    return inode_kind(ino) == INODE_CONTENT && content_node_of(ino).kind >= CONTENT_NODE_MESSAGE;
}

int tree_get_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_attributes *ret)
{
    struct tree_entry entry;
    if (inode_kind(ino) == INODE_CONTENT)
        return content_get_attributes(tree, caller, ino, ret);
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    if (draft != NULL)
        return get_draft(tree, draft, ret);
    if (!get_entry(tree, ino, &entry))
        return -ENOENT;
    *ret = entry.attributes;
    return 0;
}

int tree_get_statistics(struct tree *tree, struct statvfs *ret)
{
    return fstatvfs(tree->drafts.root.fd, ret) == 0 ? 0 : -errno;
}

bool tree_may_wait(uint64_t ino)
{
    enum fixed_node node = (enum fixed_node)inode_number(ino);
    switch (inode_kind(ino)) {
    case INODE_FIXED:
        return node == FIXED_INBOXES || node == FIXED_CTL || fixed_is_outbox_folder(node, NULL);
    case INODE_INBOX_RECORD:
    case INODE_CONTENT:
    case INODE_ANSWER:
    case INODE_HELD:
    case INODE_ITEM:
    case INODE_SETTLED_ITEM:
    case INODE_MAILDIR:
        return true;
    default:
        return false;
    }
}

bool tree_lookup_may_wait(struct tree *tree, uint64_t parent, const char *name)
{
    struct answer_door door;
    if (maildir_is_folder(parent))
        return maildir_lookup_may_wait(tree, parent, name);
    if (inode_kind(parent) == INODE_CONTENT)
        return !answer_door_find(tree, parent, name, &door);
    return inode_kind(parent) == INODE_SEARCH && !search_query_knows(tree, parent, name);
}

/* ---------------------------------------------------------------- lookup */

static int lookup_in_root(struct tree *tree, const char *name, struct tree_entry *ret)
{
    enum fixed_node node = fixed_find(name);
    if (node == FIXED_ROOT || (node == FIXED_MAILDIR && !maildir_is_shown(tree)))
        return -ENOENT;
    entry_of_fixed(tree, node, ret);
    return 0;
}

static int lookup_inbox(struct tree *tree, const char *name, struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_find_inbox(tree->store, name, &view))
        return -ENOENT;
    entry_of_inbox(tree, &view, ret);
    return 0;
}

static int lookup_in_inbox(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret)
{
    struct email_view view;
    if (strcmp(name, inbox_record_name) == 0)
        return get_inbox(tree, INODE_INBOX_RECORD, inbox, ret) ? 0 : -ENOENT;
    if (strcmp(name, inbox_index_name) == 0)
        return get_inbox(tree, INODE_INBOX_INDEX, inbox, ret) ? 0 : -ENOENT;
    if (strcmp(name, held_folder_name) == 0)
        return held_folder_get(tree, inbox, ret) ? 0 : -ENOENT;
    if (store_find_email(tree->store, inbox, name, &view))
        entry_of_email(tree, &view, ret);
    else if (!content_find_folder(tree, inbox, name, ret))
        return -ENOENT;
    attribute_demand_note(&tree->demand, inbox);
    return 0;
}

/* `rsync --delay-updates` makes this folder, moves there what it has copied, and from there all of it at
 * once. Where it cannot make the folder it throws the copies away and ends with status 0. So the folder is
 * there, and takes nothing: that makes rsync fail. */
static bool is_delayed_folder(enum outbox_folder folder, const char *name)
{
    return (folder == OUTBOX_FOLDER_OUTBOX || folder == OUTBOX_FOLDER_ATTACHMENTS) &&
           strcmp(name, ".~tmp~") == 0;
}

static int lookup_item(struct tree *tree, const struct tree_caller *caller, enum outbox_folder folder,
                       const char *name, struct tree_entry *ret)
{
    struct outbox_stat stat;
    pid_t pid = caller == NULL ? 0 : caller->pid;
    if (outbox_find(tree->outbox, folder, name, &stat) ||
        (caller != NULL && outbox_find_left(tree->outbox, folder, name, pid, &stat))) {
        entry_of_item(tree, &stat, folder, ret);
        return 0;
    }
    uint64_t ino = inode_make(INODE_FIXED, fixed_of_outbox_folder(folder));
    if (folder == OUTBOX_FOLDER_SENT && sent_folder_lookup(tree, name, ret) == 0)
        return 0;
    if (is_delayed_folder(folder, name)) {
        entry_of_delayed(tree, folder, ret);
        return 0;
    }
    bool is_removed = caller != NULL && removed_names_find(&tree->removed, ino, name, caller->pid,
                                                           clock_monotonic_ms(tree->clock), ret);
    return is_removed ? 0 : -ENOENT;
}

static int lookup_draft(struct tree *tree, struct draft_node *parent, const char *name,
                        struct tree_entry *ret)
{
    struct draft_node *node = NULL;
    struct stat stat;
    int error = draft_table_find(&tree->drafts, parent, name, &node, &stat);
    if (error == 0)
        entry_of_draft(draft_node_ino(&tree->drafts, node), &stat, ret);
    return error;
}

int tree_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                struct tree_entry *ret)
{
    enum outbox_folder folder;
    struct answer_door door;
    uint64_t number = inode_number(parent);
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);

    if (draft != NULL)
        return lookup_draft(tree, draft, name, ret);
    if (maildir_is_folder(parent))
        return maildir_lookup(tree, caller, parent, name, ret);
    if (inode_kind(parent) == INODE_INBOX)
        return lookup_in_inbox(tree, (uint32_t)number, name, ret);
    if (answer_door_find(tree, parent, name, &door))
        return answer_door_lookup(tree, caller, parent, name, ret);
    if (inode_kind(parent) == INODE_CONTENT)
        return content_lookup(tree, caller, parent, name, ret);
    if (inode_kind(parent) == INODE_HELD)
        return held_folder_lookup(tree, (uint32_t)number, name, ret);
    if (inode_kind(parent) == INODE_SEARCH)
        return search_query_lookup(tree, caller, parent, name, ret);
    if (inode_kind(parent) == INODE_DELAYED)
        return -ENOENT;
    if (inode_kind(parent) != INODE_FIXED)
        return -ENOTDIR;
    if (number == FIXED_ROOT)
        return lookup_in_root(tree, name, ret);
    if (number == FIXED_INBOXES)
        return lookup_inbox(tree, name, ret);
    if (number == FIXED_SEARCH)
        return search_folder_lookup(tree, name, ret);
    if (fixed_is_outbox_folder((enum fixed_node)number, &folder))
        return lookup_item(tree, caller, folder, name, ret);
    return -ENOTDIR;
}

void tree_forget(struct tree *tree, uint64_t ino, uint64_t lookups)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    if (draft != NULL)
        draft_node_unref(&tree->drafts, draft, lookups);
}
