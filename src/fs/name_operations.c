/* SPDX-License-Identifier: MIT */
/*
 * Requests that make, remove and rename.
 */
#include <errno.h>

#include "fs/operations.h"
#include "fs/reply.h"
#include "fs/session_state.h"
#include "tree/tree.h"

static void make_dir(struct tree *tree, const struct tree_caller *caller,
                     const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_make_dir(tree, caller, arguments->ino, arguments->name, arguments->mode, &ret->entry);
    ret->has_entry = true;
}

void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode)
{
    const struct request_arguments arguments = {.ino = parent, .name = name, .mode = mode};
    request_run(request, tree_may_wait(parent), &arguments, make_dir);
}

static void reply_made(fuse_req_t request, int error, const struct tree_entry *entry)
{
    if (error != 0)
        reply_status(request, error);
    else
        reply_entry(request, entry);
}

void op_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    struct tree_entry entry;
    (void)device;
    reply_made(request, tree_make_node(session_of(request)->tree, parent, name, mode, &entry), &entry);
}

void op_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name)
{
    struct tree_entry entry;
    reply_made(request, tree_make_symlink(session_of(request)->tree, target, parent, name, &entry), &entry);
}

void op_link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
    struct tree_entry entry;
    reply_made(request, tree_make_link(session_of(request)->tree, ino, new_parent, new_name, &entry), &entry);
}

static void unlink_name(struct tree *tree, const struct tree_caller *caller,
                        const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_unlink(tree, caller, arguments->ino, arguments->name);
}

void op_unlink(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    const struct request_arguments arguments = {.ino = parent, .name = name};
    request_run(request, tree_may_wait(parent), &arguments, unlink_name);
}

void op_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    reply_status(request, tree_remove_dir(session_of(request)->tree, parent, name));
}

static void rename_name(struct tree *tree, const struct tree_caller *caller,
                        const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_rename(tree, caller, arguments->ino, arguments->name, arguments->new_parent,
                             arguments->new_name, arguments->flags);
}

void op_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned int flags)
{
    const struct request_arguments arguments = {
        .ino = parent, .name = name, .new_parent = new_parent, .new_name = new_name, .flags = flags};
    request_run(request, tree_may_wait(parent) || tree_may_wait(new_parent), &arguments, rename_name);
}
