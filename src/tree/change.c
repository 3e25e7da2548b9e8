/* SPDX-License-Identifier: MIT */
/*
 * Names made and removed.
 */
#include "tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/receipt.h"
#include "tree/email_folder.h"
#include "tree/entry.h"
#include "tree/inode.h"
#include "tree/items.h"
#include "tree/maildir.h"
#include "tree/proc_path.h"
#include "tree/reply_file.h"
#include "tree/search.h"
#include "tree/tree_state.h"

static bool is_fixed(uint64_t ino, enum fixed_node node)
{
    return ino == inode_make(INODE_FIXED, node);
}

static bool is_outbox_folder(uint64_t ino, enum outbox_folder *ret)
{
    return inode_kind(ino) == INODE_FIXED && fixed_is_outbox_folder((enum fixed_node)inode_number(ino), ret);
}

/* The kernel has applied the caller's umask; this process has one of its own. Below a folder that hands on
 * its group, the new one does so, too. */
static int make_dir_in_drafts(int parent_fd, const char *name, mode_t mode)
{
    struct stat stat;
    if (mkdirat(parent_fd, name, 0700) != 0 || fstatat(parent_fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    mode_t all = (mode & 07777) | (stat.st_mode & S_ISGID);
    return fchmodat(parent_fd, name, all, 0) == 0 ? 0 : -errno;
}

static int create_inbox(struct tree *tree, const struct tree_caller *caller, const char *name,
                        struct tree_entry *ret)
{
    _cleanup_free_ char *reason = NULL;
    struct inbox_view view;
    uint32_t number = 0;
    int error = store_create_inbox(tree->store, name, caller->cancel, &number, &reason);
    if (error != 0)
        return error;
    if (!store_get_inbox(tree->store, number, &view))
        return -EIO;
    entry_of_inbox(tree, &view, ret);
    /* The service may have written the address its own way: then this name leads there only once. */
    ret->is_name_lasting = strcmp(view.name, name) == 0;
    return 0;
}

int tree_make_dir(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                  mode_t mode, struct tree_entry *ret)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);
    if (is_fixed(parent, FIXED_INBOXES))
        return create_inbox(tree, caller, name, ret);
    if (maildir_is_folder(parent))
        return maildir_make_dir(tree, parent, name, mode, ret);
    if (draft == NULL)
        return -EPERM;
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    int error = draft_hold(&tree->drafts, draft, &folder);
    error = error != 0 ? error : make_dir_in_drafts(folder.fd, name, mode);
    return error != 0 ? error : tree_lookup(tree, NULL, parent, name, ret);
}

int tree_make_node(struct tree *tree, uint64_t parent, const char *name, mode_t mode, struct tree_entry *ret)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);
    if (draft == NULL || (!S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode)))
        return -EPERM;
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    int error = draft_hold(&tree->drafts, draft, &folder);
    if (error != 0)
        return error;
    if (mknodat(folder.fd, name, mode, 0) != 0 || fchmodat(folder.fd, name, mode & 07777, 0) != 0)
        return -errno;
    return tree_lookup(tree, NULL, parent, name, ret);
}

int tree_make_symlink(struct tree *tree, const char *target, uint64_t parent, const char *name,
                      struct tree_entry *ret)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);
    if (draft == NULL)
        return -EPERM;
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    int error = draft_hold(&tree->drafts, draft, &folder);
    if (error != 0)
        return error;
    if (symlinkat(target, folder.fd, name) != 0)
        return -errno;
    return tree_lookup(tree, NULL, parent, name, ret);
}

static int link_draft(struct tree *tree, struct draft_node *draft, struct draft_node *parent,
                      const char *new_name)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    char path[PROC_PATH_MAX_BYTES];
    int error = draft_hold(&tree->drafts, draft, &hold);
    error = error != 0 ? error : draft_hold(&tree->drafts, parent, &folder);
    if (error != 0)
        return error;
    /* That /proc leads here is followed; a symbolic link that is found here is not. */
    proc_path(hold.fd, path);
    return linkat(AT_FDCWD, path, folder.fd, new_name, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

int tree_make_link(struct tree *tree, uint64_t ino, uint64_t new_parent, const char *new_name,
                   struct tree_entry *ret)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    struct draft_node *parent = draft_table_get(&tree->drafts, new_parent);
    if (draft == NULL || parent == NULL)
        return -EPERM;
    /* What is on its way into the spool must not keep a name here: it could be changed afterwards. */
    int error = draft_node_begin_write(&tree->drafts, draft);
    if (error != 0)
        return error;
    error = link_draft(tree, draft, parent, new_name);
    draft_node_end_write(&tree->drafts, draft, false);
    return error != 0 ? error : tree_lookup(tree, NULL, new_parent, new_name, ret);
}

int tree_read_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                   size_t size)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    if (inode_kind(ino) == INODE_CONTENT)
        return content_read_link(tree, caller, ino, ret_target, size);
    if (inode_kind(ino) == INODE_SEARCH_HIT)
        return search_hit_read_link(tree, ino, ret_target, size);
    if (draft == NULL)
        return -EINVAL;
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    int error = draft_hold(&tree->drafts, draft, &hold);
    if (error != 0)
        return error;
    ssize_t len = readlinkat(hold.fd, "", ret_target, size);
    if (len < 0)
        return -errno;
    if ((size_t)len >= size)
        return -ENAMETOOLONG;
    ret_target[len] = '\0';
    return 0;
}

int tree_remove_dir(struct tree *tree, uint64_t parent, const char *name)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);
    if (is_fixed(parent, FIXED_SEARCH))
        return search_folder_remove(tree, name);
    if (draft == NULL)
        return -EPERM;
    return draft_table_remove(&tree->drafts, draft, name, AT_REMOVEDIR);
}

/* Its receipt goes with it. */
static int unlink_item(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                       enum outbox_folder folder, const char *name)
{
    char receipt[NAME_MAX + sizeof(RECEIPT_SUFFIX)];
    struct tree_entry entry;
    int64_t now_ms = clock_monotonic_ms(tree->clock);
    snprintf(receipt, sizeof(receipt), "%s%s", name, RECEIPT_SUFFIX);
    bool has_receipt = tree_lookup(tree, NULL, parent, receipt, &entry) == 0;
    _cleanup_free_ char *id = folder == OUTBOX_FOLDER_SENT ? sent_folder_get_id(tree, name) : NULL;
    int error = outbox_unlink(tree->outbox, folder, name);
    if (error == 0)
        sent_folder_forget(tree, TAKE_PTR(id));
    if (error == -ENOENT && folder == OUTBOX_FOLDER_SENT && sent_folder_remove(tree, name) == 0)
        return 0;
    if (error == 0 && has_receipt)
        removed_names_add(&tree->removed, parent, receipt, caller->pid, now_ms, &entry);
    if (error == -ENOENT && removed_names_take(&tree->removed, parent, name, caller->pid, now_ms))
        return 0;
    return error;
}

int tree_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name)
{
    struct answer_door door;
    enum outbox_folder folder;
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);
    if (draft != NULL)
        return draft_table_remove(&tree->drafts, draft, name, 0);
    if (maildir_is_folder(parent))
        return maildir_unlink(tree, parent, name);
    if (answer_door_find(tree, parent, name, &door))
        return answer_door_unlink(tree, caller, parent, name);
    if (is_outbox_folder(parent, &folder))
        return unlink_item(tree, caller, parent, folder, name);
    return -EPERM;
}

static int sync_draft_folder(struct tree *tree, struct draft_node *node)
{
    _cleanup_close_ int fd = draft_node_open_folder(&tree->drafts, node);
    return fd < 0 ? fd : file_sync(fd);
}

bool tree_is_barrier(uint64_t folder_ino)
{
    return is_fixed(folder_ino, FIXED_OUTBOX) || is_fixed(folder_ino, FIXED_ATTACHMENTS);
}

int tree_sync_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino)
{
    enum outbox_folder folder;
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    if (draft != NULL)
        return sync_draft_folder(tree, draft);
    if (is_outbox_folder(ino, &folder) && tree_is_barrier(ino))
        return outbox_wait_settled(tree->outbox, folder, caller->cancel);
    return 0;
}
