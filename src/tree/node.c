/* SPDX-License-Identifier: MIT */
/*
 * The table of kinds, and functions that the folders share: they fill in entries, pass listings on, open
 * texts and call the listener.
 */
#include "tree/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"

enum {
    BLOCK_BYTES = 4096
};

const struct tree_caller no_caller;

const struct node_ops *node_ops_of(uint64_t ino)
{
    static const struct node_ops nothing_ops;
#define NODE_KIND_ROW(NAME, ops) [NODE_##NAME] = &ops##_ops,
    static const struct node_ops *const kinds[] = {[NODE_NOTHING] = &nothing_ops, NODE_KINDS(NODE_KIND_ROW)};
#undef NODE_KIND_ROW
    return node_kind(ino) < ARRAY_LEN(kinds) ? kinds[node_kind(ino)] : &nothing_ops;
}

/* ---------------------------------------------------------------- entries */

struct timespec timespec_of_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    if (time.tv_nsec < 0) {
        time.tv_sec--;
        time.tv_nsec += 1000000000;
    }
    return time;
}

void entry_fill(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, struct timespec mtime,
                unsigned int lasting, struct tree_entry *ret)
{
    ret->ino = ino;
    ret->is_name_lasting = (lasting & LASTING_NAME) != 0;
    ret->attributes.is_lasting = (lasting & LASTING_ATTRIBUTES) != 0;
    ret->attributes.stat = (struct stat){
        .st_ino = ino,
        .st_mode = mode,
        .st_nlink = S_ISDIR(mode) ? 2 : 1,
        .st_uid = tree->uid,
        .st_gid = tree->gid,
        .st_size = (off_t)size,
        .st_blksize = BLOCK_BYTES,
        .st_blocks = ((off_t)size + 511) / 512,
        .st_atim = mtime,
        .st_mtim = mtime,
        .st_ctim = mtime,
    };
}

void entry_fill_ms(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, int64_t changed_ms,
                   unsigned int lasting, struct tree_entry *ret)
{
    entry_fill(tree, ino, mode, size, timespec_of_ms(changed_ms != 0 ? changed_ms : tree->started_ms),
               lasting, ret);
}

void entry_fill_record(const struct tree *tree, uint64_t ino, const struct email_view *view,
                       unsigned int lasting, struct tree_entry *ret)
{
    entry_fill(tree, ino, S_IFREG | 0444, view->json_len, timespec_of_ms(view->date_ms), lasting, ret);
    ret->attributes.stat.st_ctim = timespec_of_ms(view->seen_ms);
}

int node_get(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret)
{
    const struct node_ops *ops = node_ops_of(ino);
    if (ops->get != NULL)
        return ops->get(tree, caller, ino, ret);
    if (ops->mode == 0)
        return -ENOENT;
    entry_fill_ms(tree, ino, ops->mode, 0, ops->changed_ms == NULL ? 0 : ops->changed_ms(tree, ino),
                  ops->lasting, ret);
    return 0;
}

/* ---------------------------------------------------------------- changes and listings */

bool dir_put(const struct tree_dir *dir, const char *name, const struct tree_entry *entry, uint64_t next)
{
    return dir->sink(dir->context, name, entry, dir->first_position + next);
}

bool dir_put_name(const struct tree_dir *dir, const char *name, uint64_t shown_ino, mode_t mode,
                  uint64_t next)
{
    const struct tree_entry entry = {.attributes.stat = {.st_ino = shown_ino, .st_mode = mode}};
    return dir_put(dir, name, &entry, next);
}

/* ---------------------------------------------------------------- handles */

void *handle_new(struct tree *tree, const struct handle_ops *ops, size_t size, int flags)
{
    struct tree_handle *handle = g_malloc0(size);
    *handle = (struct tree_handle){.ops = ops, .tree = tree, .flags = flags, .caching = ops->caching};
    return handle;
}

void tree_handle_free(struct tree_handle *handle)
{
    free(handle);
}

void tree_data_release(struct tree_data *data)
{
    free(data->owned);
    data->owned = NULL;
}

bool handle_is_for_reading(int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY && (flags & O_TRUNC) == 0;
}

char *handle_read_buffer(struct tree_data *ret, size_t len)
{
    ret->owned = g_malloc(len);
    ret->bytes = ret->owned;
    return ret->owned;
}

int handle_read_file(int fd, size_t len, off_t offset, struct tree_data *ret)
{
    ssize_t count = file_pread_all(fd, handle_read_buffer(ret, len), len, offset);
    if (count < 0)
        return (int)count;
    ret->len = (size_t)count;
    return 0;
}

int handle_read_text(const char *text, size_t text_len, size_t len, off_t offset, struct tree_data *ret)
{
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= text_len)
        return 0;
    size_t left = text_len - (size_t)offset;
    ret->bytes = text + offset;
    ret->len = len < left ? len : left;
    return 0;
}

struct text_handle {
    struct tree_handle base;
    char *text;
    size_t len;
};

static int read_text(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct text_handle *text = (struct text_handle *)handle;
    return handle_read_text(text->text, text->len, len, offset, ret);
}

static void release_text(struct tree_handle *handle)
{
    free(((struct text_handle *)handle)->text);
    free(handle);
}

int handle_open_text(struct tree *tree, int flags, char *text, size_t len, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.read = read_text, .release = release_text};
    _cleanup_free_ char *taken = text;
    if (!handle_is_for_reading(flags))
        return -EACCES;
    if (text == NULL)
        return -ENOMEM;
    struct text_handle *handle = handle_new(tree, &ops, sizeof(*handle), flags);
    handle->text = TAKE_PTR(taken);
    handle->len = len;
    *ret_handle = &handle->base;
    return 0;
}

/* ---------------------------------------------------------------- the listener */

void notify_entry_gone(struct tree *tree, uint64_t folder_ino, const char *name)
{
    LOCK_GUARD(&tree->listener_lock);
    if (tree->listener.changed != NULL)
        tree->listener.changed(tree->listener.context, folder_ino, name);
}

void notify_changed(struct tree *tree, uint64_t ino)
{
    notify_entry_gone(tree, ino, NULL);
}

void notify_message_appeared(struct tree *tree, uint64_t ino)
{
    LOCK_GUARD(&tree->listener_lock);
    if (tree->listener.message_appeared != NULL)
        tree->listener.message_appeared(tree->listener.context, ino);
}

void notify_appeared(struct tree *tree, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    LOCK_GUARD(&tree->listener_lock);
    if (tree->listener.appeared != NULL)
        tree->listener.appeared(tree->listener.context, path);
}

void node_email_folder_name(const struct email_view *view, char *ret_name, size_t size)
{
    size_t len = strlen(view->name) - strlen(".json");
    snprintf(ret_name, size, "%.*s", (int)len, view->name);
}
