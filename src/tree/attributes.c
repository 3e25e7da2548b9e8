/* SPDX-License-Identifier: MIT */
/*
 * Attributes set. Drafts take all of it; items of the outbox accept what tools do to a file they have just
 * written; everything else is not the user's to change.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/handle_type.h"
#include "tree/inode.h"
#include "tree/proc_path.h"
#include "tree/root.h"
#include "tree/tree.h"

enum {
    SET_OWNER = TREE_SET_UID | TREE_SET_GID
};

/* ---------------------------------------------------------------- drafts */

static int set_size_by_path(struct tree *tree, struct draft_node *draft, const char *path, off_t size)
{
    int error = draft_node_begin_write(&tree->drafts, draft);
    if (error != 0)
        return error;
    if (truncate(path, size) != 0)
        error = -errno;
    draft_node_end_write(&tree->drafts, draft, false);
    return error;
}

static int set_draft_owner(int fd, const struct tree_change *change)
{
    uid_t uid = (change->fields & TREE_SET_UID) != 0 ? change->uid : (uid_t)-1;
    gid_t gid = (change->fields & TREE_SET_GID) != 0 ? change->gid : (gid_t)-1;
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

static int set_draft(struct tree *tree, struct draft_node *draft, const struct tree_caller *caller,
                     struct tree_handle *handle, const struct tree_change *change)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    char path[PROC_PATH_MAX_BYTES];
    struct stat stat;
    int error = draft_hold(&tree->drafts, draft, &hold);
    if (error != 0)
        return error;
    if (fstat(hold.fd, &stat) != 0)
        return -errno;
    /* The mode of a symbolic link cannot be set at all, nor does it have a size. */
    if (S_ISLNK(stat.st_mode) && (change->fields & (TREE_SET_MODE | TREE_SET_SIZE)) != 0)
        return -EOPNOTSUPP;

    proc_path(hold.fd, path);
    if ((change->fields & TREE_SET_MODE) != 0 && chmod(path, change->mode & 07777) != 0)
        return -errno;
    if ((change->fields & SET_OWNER) != 0 && (error = set_draft_owner(hold.fd, change)) != 0)
        return error;
    if ((change->fields & TREE_SET_SIZE) != 0) {
        bool has_handle = handle != NULL && handle->ops->set_size != NULL;
        error = has_handle ? handle->ops->set_size(handle, caller, change->size)
                           : set_size_by_path(tree, draft, path, change->size);
        if (error != 0)
            return error;
    }
    if ((change->fields & TREE_SET_TIMES) != 0 && utimensat(hold.fd, "", change->times, AT_EMPTY_PATH) != 0)
        return -errno;
    return 0;
}

/* ---------------------------------------------------------------- what is not an ordinary file */

/* install(1), cp -p and the like set mode and owner by path after closing, when the mail may be out already:
 * accepted, to no effect, whoever is to own it. */
static int set_item(struct tree *tree, uint64_t number, const struct tree_caller *caller,
                    struct tree_handle *handle, const struct tree_change *change)
{
    int error = 0;
    if ((change->fields & TREE_SET_SIZE) != 0) {
        bool has_handle = handle != NULL && handle->ops->set_size != NULL;
        error = has_handle ? handle->ops->set_size(handle, caller, change->size)
                           : outbox_set_size(tree->outbox, number, NULL, change->size, caller->pid);
    }
    if (error == 0 && (change->fields & TREE_SET_TIMES) != 0)
        error = outbox_set_times(tree->outbox, number, change->times);
    return error;
}

/* What tools do to a file that they are writing, or have written. */
static int set_door(const struct tree_caller *caller, struct tree_handle *handle,
                    const struct tree_change *change)
{
    bool has_handle = handle != NULL && handle->ops->set_size != NULL;
    if ((change->fields & TREE_SET_SIZE) == 0 || (!has_handle && change->size == 0))
        return 0;
    return has_handle ? handle->ops->set_size(handle, caller, change->size) : -EINVAL;
}

static int set_other(const struct tree_caller *caller, struct tree_handle *handle,
                     const struct tree_change *change, int size_error)
{
    if (change->fields != TREE_SET_SIZE)
        return -EPERM;
    if (handle == NULL || handle->ops->set_size == NULL)
        return size_error;
    return handle->ops->set_size(handle, caller, change->size);
}

/* Programs that copy a folder give the one that they copy into its mode, owner and times, when all has been
 * sent: accepted, to no effect but on the times of drafts/, so that nobody repeats it. */
static bool is_copied_into(uint64_t ino)
{
    return ino == inode_make(INODE_FIXED, FIXED_OUTBOX) ||
           ino == inode_make(INODE_FIXED, FIXED_ATTACHMENTS) || ino == inode_make(INODE_FIXED, FIXED_DRAFTS);
}

int tree_set_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_handle *handle, const struct tree_change *change)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    struct tree_change effective = *change;
    if (is_copied_into(ino))
        effective.fields &= TREE_SET_SIZE | (draft != NULL ? TREE_SET_TIMES : 0U);
    if (draft != NULL)
        return set_draft(tree, draft, caller, handle, &effective);
    if (effective.fields == 0)
        return 0;
    if (inode_kind(ino) == INODE_ITEM || inode_kind(ino) == INODE_SETTLED_ITEM)
        return set_item(tree, inode_number(ino), caller, handle, change);
    if (inode_kind(ino) == INODE_ANSWER)
        return set_door(caller, handle, change);
    if (inode_kind(ino) == INODE_INBOX_RECORD)
        return set_other(caller, handle, change, -EPERM);
    if (ino == inode_make(INODE_FIXED, FIXED_CTL) && change->fields == TREE_SET_SIZE && change->size == 0)
        return 0;
    return set_other(caller, handle, change, -EACCES);
}
