/* SPDX-License-Identifier: MIT */
/*
 * Requests about inodes.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fs/operations.h"
#include "fs/reply.h"
#include "fs/session_state.h"
#include "tree/tree.h"

static void look_up(struct tree *tree, const struct tree_caller *caller,
                    const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_lookup(tree, caller, arguments->ino, arguments->name, &ret->entry);
    ret->has_entry = true;
}

void op_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct fs_session *session = session_of(request);
    const struct request_arguments arguments = {.ino = parent, .name = name};
    /* What it is to create must not be there. */
    if (announcer_is_helper(&session->announcer, fuse_req_ctx(request)->pid) && tree_is_announced(parent)) {
        reply_status(request, -ENOENT);
        return;
    }
    request_run(request, tree_lookup_may_wait(session->tree, parent, name), &arguments, look_up);
}

void op_forget(fuse_req_t request, fuse_ino_t ino, uint64_t lookups)
{
    tree_forget(session_of(request)->tree, ino, lookups);
    fuse_reply_none(request);
}

void op_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        tree_forget(session_of(request)->tree, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(request);
}

static void get_attributes(struct tree *tree, const struct tree_caller *caller,
                           const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_get_attributes(tree, caller, arguments->ino, &ret->attributes);
    ret->has_attributes = true;
}

void op_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.ino = ino};
    (void)file;
    request_run(request, tree_get_attributes_may_wait(ino), &arguments, get_attributes);
}

static struct timespec time_to_set(int to_set, int field, int field_now, struct timespec given)
{
    if ((to_set & field_now) != 0)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return (to_set & field) != 0 ? given : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static struct tree_change change_to_make(const struct stat *stat, int to_set)
{
    struct tree_change change = {
        .mode = stat->st_mode,
        .uid = stat->st_uid,
        .gid = stat->st_gid,
        .size = stat->st_size,
        .times = {time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, stat->st_atim),
                  time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, stat->st_mtim)},
    };
    static const struct {
        int theirs;
        unsigned int ours;
    } fields[] = {
        {FUSE_SET_ATTR_MODE, TREE_SET_MODE},   {FUSE_SET_ATTR_UID, TREE_SET_UID},
        {FUSE_SET_ATTR_GID, TREE_SET_GID},     {FUSE_SET_ATTR_SIZE, TREE_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, TREE_SET_TIMES}, {FUSE_SET_ATTR_MTIME, TREE_SET_TIMES},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((to_set & fields[i].theirs) != 0)
            change.fields |= fields[i].ours;
    return change;
}

static void set_attributes(struct tree *tree, const struct tree_caller *caller,
                           const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_set_attributes(tree, caller, arguments->ino, arguments->handle, &arguments->change);
    if (ret->error == 0)
        ret->error = tree_get_attributes(tree, caller, arguments->ino, &ret->attributes);
    ret->has_attributes = true;
}

void op_setattr(fuse_req_t request, fuse_ino_t ino, struct stat *stat, int to_set,
                struct fuse_file_info *file)
{
    const struct request_arguments arguments = {
        .ino = ino,
        .handle = file != NULL ? (struct tree_handle *)(uintptr_t)file->fh : NULL,
        .change = change_to_make(stat, to_set),
    };
    request_run(request, tree_may_wait(ino), &arguments, set_attributes);
}

static void read_link(struct tree *tree, const struct tree_caller *caller,
                      const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->target = malloc(PATH_MAX + 1);
    ret->error = ret->target == NULL
                     ? -ENOMEM
                     : tree_read_link(tree, caller, arguments->ino, ret->target, PATH_MAX + 1);
}

void op_readlink(fuse_req_t request, fuse_ino_t ino)
{
    const struct request_arguments arguments = {.ino = ino};
    request_run(request, tree_get_attributes_may_wait(ino), &arguments, read_link);
}

void op_statfs(fuse_req_t request, fuse_ino_t ino)
{
    struct statvfs statistics;
    (void)ino;
    int error = tree_get_statistics(session_of(request)->tree, &statistics);
    if (error != 0)
        reply_status(request, error);
    else
        fuse_reply_statfs(request, &statistics);
}
