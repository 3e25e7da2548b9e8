/* SPDX-License-Identifier: MIT */
/* The functions are in this order: inodes, names, open files, listings, the connection. */
#include "fs/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "fs/request_loop.h"

static struct operations *operations_of(fuse_req_t fuse)
{
    return fuse_req_userdata(fuse);
}

static const struct tree_caller *begin_request(struct fs_request *request, fuse_req_t fuse)
{
    request_begin(request, &operations_of(fuse)->requests, fuse);
    return &request->caller;
}

/*
 * Gives the kernel the content of a file before its first open is answered: a program usually reads what it
 * opens, and the kernel then sends no read. After a read, the kernel would also ask for the attributes again.
 *
 * No other notification is made from within a request. This one waits only for locks of the file's pages,
 * which only a read of the same file can hold. Before the first open there was no read, and no other open is
 * answered meanwhile: opens of such files never wait, so the leader carries them all out (request_loop.h).
 */
static void give_first_content(struct operations *operations, fuse_ino_t ino, struct tree_handle *handle)
{
    struct tree_data data;
    if (!tree_take_first_content(handle, &data))
        return;
    struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(data.len);
    bytes.buf[0].mem = (void *)(uintptr_t)data.bytes; /* libfuse does not write to it */
    /* If the kernel refuses the content, it sends a read. If the email changed meanwhile, the notification of
     * that change may have preceded this one. */
    if (fuse_lowlevel_notify_store(operations->fuse, ino, 0, &bytes, 0) == 0 &&
        !tree_is_first_content_current(handle))
        notifier_invalidate_content(&operations->notifier, ino);
    tree_data_release(&data);
}

/* ---------------------------------------------------------------- inodes */

static bool is_watch_helper(const struct operations *operations, const struct tree_caller *caller)
{
    return watch_helper_has_pid(operations->notifier.watch_helper, caller->pid) ||
           watch_helper_has_pid(operations->notifier.message_helper, caller->pid);
}

enum {
    WATCH_WAIT_MS = 10 * 1000,        /* the helper needs so long only on a very busy machine */
    MESSAGE_WATCH_WAIT_MS = 2 * 1000, /* shorter: a lookup that fetches a message may delay the helper */
};

static void wait_for_watch_helpers(struct operations *operations, struct cancel *cancel)
{
    notifier_wait(&operations->notifier, cancel);
    watch_helper_wait(operations->notifier.watch_helper, WATCH_WAIT_MS, cancel);
    watch_helper_wait(operations->notifier.message_helper, MESSAGE_WATCH_WAIT_MS, cancel);
}

static void op_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    const struct operations *operations = operations_of(fuse);
    struct fs_request request;
    struct tree_entry entry;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error;
    do /* The watch helper can create a file only if its lookup finds nothing. */
        error = is_watch_helper(operations, caller) &&
                        tree_lookup_announced(operations->tree, parent, name, &entry) == 0
                    ? -ENOENT
                    : tree_lookup(operations->tree, caller, parent, name, &entry);
    while (request_hands_over(&request, error));
    reply_entry(request_end(&request), operations->tree, error, &entry);
}

static void op_forget(fuse_req_t fuse, fuse_ino_t ino, uint64_t lookups)
{
    tree_forget(operations_of(fuse)->tree, ino, lookups);
    fuse_reply_none(fuse);
}

static void op_forget_multi(fuse_req_t fuse, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        tree_forget(operations_of(fuse)->tree, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(fuse);
}

static void op_getattr(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *file)
{
    struct fs_request request;
    struct tree_attributes attributes;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error;
    do
        error = tree_get_attributes(operations_of(fuse)->tree, caller, ino, &attributes);
    while (request_hands_over(&request, error));
    reply_attributes(request_end(&request), operations_of(fuse)->tree, error, &attributes);
}

static struct timespec convert_time(int to_set, int field, int field_now, struct timespec given)
{
    if ((to_set & field_now) != 0)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return (to_set & field) != 0 ? given : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static struct tree_change convert_change(const struct stat *stat, int to_set)
{
    struct tree_change change = {
        .mode = stat->st_mode,
        .uid = stat->st_uid,
        .gid = stat->st_gid,
        .size = stat->st_size,
        .times = {convert_time(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, stat->st_atim),
                  convert_time(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, stat->st_mtim)},
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

static struct tree_handle *handle_of(const struct fuse_file_info *file)
{
    return (struct tree_handle *)(uintptr_t)file->fh;
}

static void op_setattr(fuse_req_t fuse, fuse_ino_t ino, struct stat *stat, int to_set,
                       struct fuse_file_info *file)
{
    struct tree *tree = operations_of(fuse)->tree;
    const struct tree_change change = convert_change(stat, to_set);
    struct fs_request request;
    struct tree_attributes attributes;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error = tree_set_attributes(tree, caller, ino, file != NULL ? handle_of(file) : NULL, &change);
    if (error == 0)
        error = tree_get_attributes(tree, caller, ino, &attributes);
    reply_attributes(request_end(&request), tree, error, &attributes);
}

static void op_readlink(fuse_req_t fuse, fuse_ino_t ino)
{
    struct fs_request request;
    char target[PATH_MAX + 1];
    int error =
        tree_read_link(operations_of(fuse)->tree, begin_request(&request, fuse), ino, target, sizeof(target));
    request_end(&request);
    if (error != 0)
        reply_status(fuse, error);
    else
        fuse_reply_readlink(fuse, target);
}

static void op_statfs(fuse_req_t fuse, fuse_ino_t ino)
{
    struct statvfs statistics;
    int error = tree_get_statistics(operations_of(fuse)->tree, &statistics);
    if (error != 0)
        reply_status(fuse, error);
    else
        fuse_reply_statfs(fuse, &statistics);
}

/* ---------------------------------------------------------------- names */

static void make_entry(fuse_req_t fuse, fuse_ino_t parent, const char *name,
                       const struct tree_new_entry *what)
{
    struct tree *tree = operations_of(fuse)->tree;
    struct fs_request request;
    struct tree_entry entry;
    int error = tree_make(tree, begin_request(&request, fuse), parent, name, what, &entry);
    reply_entry(request_end(&request), tree, error, &entry);
}

static void op_mkdir(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode)
{
    make_entry(fuse, parent, name, &(const struct tree_new_entry){.mode = S_IFDIR | mode});
}

static void op_mknod(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    make_entry(fuse, parent, name, &(const struct tree_new_entry){.mode = mode});
}

static void op_symlink(fuse_req_t fuse, const char *target, fuse_ino_t parent, const char *name)
{
    make_entry(fuse, parent, name, &(const struct tree_new_entry){.mode = S_IFLNK | 0777, .target = target});
}

static void op_link(fuse_req_t fuse, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
    make_entry(fuse, new_parent, new_name, &(const struct tree_new_entry){.ino = ino});
}

static void op_unlink(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    struct fs_request request;
    int error = tree_unlink(operations_of(fuse)->tree, begin_request(&request, fuse), parent, name);
    reply_status(request_end(&request), error);
}

static void op_rmdir(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    reply_status(fuse, tree_remove_dir(operations_of(fuse)->tree, parent, name));
}

static void op_rename(fuse_req_t fuse, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned int flags)
{
    struct fs_request request;
    int error = tree_rename(operations_of(fuse)->tree, begin_request(&request, fuse), parent, name,
                            new_parent, new_name, flags);
    reply_status(request_end(&request), error);
}

/* ---------------------------------------------------------------- open files */

static void op_open(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *file)
{
    struct operations *operations = operations_of(fuse);
    struct fs_request request;
    struct tree_handle *handle = NULL;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error;
    do
        error = tree_open(operations->tree, caller, ino, file->flags, &handle);
    while (request_hands_over(&request, error));
    request_end(&request);
    if (error == 0)
        give_first_content(operations, ino, handle);
    reply_open(fuse, error, handle);
}

static void op_create(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *file)
{
    const struct operations *operations = operations_of(fuse);
    struct fs_request request;
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error = is_watch_helper(operations, caller)
                    ? tree_create_announced(operations->tree, parent, name, &entry, &handle)
                    : tree_create(operations->tree, caller, parent, name, mode, file->flags, &entry, &handle);
    reply_create(request_end(&request), operations->tree, error, &entry, handle, file);
}

static void op_read(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
    struct tree_handle *handle = handle_of(file);
    struct fs_request request;
    struct tree_data data;
    int error;
    if (handle->caching == TREE_CACHE_STREAM) {
        const struct tree_caller *caller = begin_request(&request, fuse);
        struct cancel *cancel = (file->flags & O_NONBLOCK) == 0 ? caller->cancel : NULL;
        error = stream_read(&operations_of(fuse)->readers, handle, size, offset, cancel, &data);
        request_end(&request);
    } else {
        error = tree_read(handle, size, offset, &data);
    }
    reply_data(fuse, error, &data);
}

static void op_write(fuse_req_t fuse, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *file)
{
    struct operations *operations = operations_of(fuse);
    struct tree_handle *handle = handle_of(file);
    struct fs_request request;
    const struct tree_caller *caller = begin_request(&request, fuse);
    ssize_t written = tree_write(handle, caller, bytes, size, offset);
    /* When `echo sync >ctl` returns, `ls` lists the new emails, and watchers have seen them. */
    if (tree_is_barrier(ino))
        wait_for_watch_helpers(operations, caller->cancel);
    request_end(&request);
    if (written < 0)
        reply_status(fuse, (int)written);
    else
        fuse_reply_write(fuse, (size_t)written);
}

static void op_flush(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *file)
{
    struct fs_request request;
    int error = tree_flush(handle_of(file), begin_request(&request, fuse));
    reply_status(request_end(&request), error);
}

static void op_fsync(fuse_req_t fuse, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file)
{
    reply_status(fuse, tree_sync_file(handle_of(file), is_data_only != 0));
}

static void op_release(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *file)
{
    struct tree_handle *handle = handle_of(file);
    if (handle->caching == TREE_CACHE_STREAM)
        stream_drop_poll(&operations_of(fuse)->readers, handle);
    tree_release(handle);
    reply_status(fuse, 0);
}

static void op_poll(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *file,
                    struct fuse_pollhandle *poll)
{
    struct tree_handle *handle = handle_of(file);
    if (handle->caching == TREE_CACHE_STREAM) {
        stream_poll(&operations_of(fuse)->readers, fuse, handle, poll);
        return;
    }
    if (poll != NULL)
        fuse_pollhandle_destroy(poll);
    fuse_reply_poll(fuse, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
}

/* ---------------------------------------------------------------- listings */

/* The part of a listing that answers one request. */
struct listing_part {
    fuse_req_t fuse;
    char *bytes;
    size_t size;
    size_t used;
    bool has_attributes; /* READDIRPLUS */
};

static void op_opendir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *file)
{
    struct fs_request request;
    struct tree_handle *dir = NULL;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error;
    do
        error = tree_open_dir(operations_of(fuse)->tree, caller, ino, &dir);
    while (request_hands_over(&request, error));
    reply_open(request_end(&request), error, dir);
}

static bool put_entry(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    struct listing_part *part = context;
    char *end = part->bytes + part->used;
    size_t left = part->size - part->used;
    size_t needed;
    if (part->has_attributes) {
        const struct fuse_entry_param parameters =
            request_convert_entry(operations_of(part->fuse)->tree, entry);
        needed = fuse_add_direntry_plus(part->fuse, end, left, name, &parameters, (off_t)next);
    } else {
        needed = fuse_add_direntry(part->fuse, end, left, name, &entry->attributes.stat, (off_t)next);
    }
    if (needed > left)
        return false;
    part->used += needed;
    return true;
}

static void read_dir(fuse_req_t fuse, size_t size, off_t offset, const struct fuse_file_info *file,
                     bool has_attributes)
{
    _cleanup_free_ char *bytes = g_malloc(size);
    struct listing_part part = {.fuse = fuse, .bytes = bytes, .size = size, .has_attributes = has_attributes};
    int error = tree_read_dir(handle_of(file), (uint64_t)offset, put_entry, &part);
    /* Entries before an error are the answer; the next request gets the error. */
    if (error != 0 && part.used == 0)
        reply_status(fuse, error);
    else
        fuse_reply_buf(fuse, bytes, part.used);
}

static void op_readdir(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *file)
{
    read_dir(fuse, size, offset, file, false);
}

static void op_readdirplus(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                           struct fuse_file_info *file)
{
    read_dir(fuse, size, offset, file, true);
}

static void op_fsyncdir(fuse_req_t fuse, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file)
{
    struct operations *operations = operations_of(fuse);
    struct fs_request request;
    const struct tree_caller *caller = begin_request(&request, fuse);
    int error = tree_sync_folder(operations->tree, caller, ino);
    if (tree_is_barrier(ino))
        wait_for_watch_helpers(operations, caller->cancel);
    reply_status(request_end(&request), error);
}

/* ---------------------------------------------------------------- the connection, and the table */

static void op_init(void *context, struct fuse_conn_info *connection)
{
    const struct operations *operations = context;
    connection->max_read = operations->max_read;
    if (connection->max_write > REQUEST_LOOP_MAX_WRITE)
        connection->max_write = REQUEST_LOOP_MAX_WRITE;
    /* libfuse's defaults do without a write-back cache: when a file is closed, its size must be exact, and
     * all its bytes must have arrived. Three other defaults are wrong here. READDIRPLUS_AUTO: find and stat
     * loops list first and ask for attributes later, so the kernel would list without attributes.
     * HANDLE_KILLPRIV: the filesystem below drafts/ would not clear set-user-id bits for a daemon that runs
     * as root, so the kernel must clear them, by a SETATTR. IOCTL_DIR: there are no ioctls. */
    connection->want &=
        ~(unsigned int)(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_IOCTL_DIR);
}

const struct fuse_lowlevel_ops *operations_table(void)
{
    static const struct fuse_lowlevel_ops table = {
        .init = op_init,
        .lookup = op_lookup,
        .forget = op_forget,
        .forget_multi = op_forget_multi,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .readlink = op_readlink,
        .statfs = op_statfs,
        .mkdir = op_mkdir,
        .mknod = op_mknod,
        .symlink = op_symlink,
        .link = op_link,
        .unlink = op_unlink,
        .rmdir = op_rmdir,
        .rename = op_rename,
        .open = op_open,
        .create = op_create,
        .read = op_read,
        .write = op_write,
        .flush = op_flush,
        .fsync = op_fsync,
        .release = op_release,
        .poll = op_poll,
        .opendir = op_opendir,
        .readdir = op_readdir,
        .readdirplus = op_readdirplus,
        .releasedir = op_release,
        .fsyncdir = op_fsyncdir,
    };
    return &table;
}
