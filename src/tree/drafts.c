/* SPDX-License-Identifier: MIT */
/*
 * drafts/: the user's own files, in a folder of the state directory. Each operation is passed on to the
 * filesystem below; draft_table.h has the nodes. A file that is moved here from the outbox becomes a draft;
 * items.c hands in a draft that is moved from here. No entry but drafts/ itself is lasting.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "tree/node.h"

/* ---------------------------------------------------------------- entries */

/* Stays the same when the kernel forgets the draft and looks it up again. */
uint64_t draft_shown_ino(ino_t ino)
{
    return node_ino(NODE_DRAFT, ino);
}

static struct draft_node *node_of(struct tree *tree, uint64_t ino)
{
    return draft_table_node(&tree->drafts, node_number(ino));
}

/* `ino` must be that of a folder or a symbolic link, whose descriptors stay open. */
static int fd_of_ino(struct tree *tree, uint64_t ino)
{
    return node_of(tree, ino)->fd;
}

static void fill_entry(const struct draft_node *node, const struct stat *stat, struct tree_entry *ret)
{
    *ret = (struct tree_entry){.ino = node_ino(NODE_DRAFT, draft_node_number(node)),
                               .attributes = {.stat = *stat}};
    ret->attributes.stat.st_ino = draft_shown_ino(stat->st_ino);
}

static int get_draft(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct tree_entry *ret)
{
    struct draft_node *node = node_of(tree, ino);
    struct stat stat;
    int error = draft_node_begin_use(&tree->drafts, node, false);
    if (error != 0)
        return error;
    error = fstat(node->fd, &stat) == 0 ? 0 : -errno;
    draft_node_end_use(&tree->drafts, node, false);
    if (error != 0)
        return error;
    fill_entry(node, &stat, ret);
    if (node == &tree->drafts.root) {
        ret->is_name_lasting = true;
        ret->attributes.stat.st_ino = ino;
        ret->attributes.stat.st_mode = S_IFDIR | 0700;
    }
    return 0;
}

int draft_lookup_in(struct tree *tree, int folder_fd, const char *name, struct tree_entry *ret)
{
    struct draft_node *node = NULL;
    struct stat stat;
    int error = draft_table_find(&tree->drafts, folder_fd, name, &node, &stat);
    if (error == 0)
        fill_entry(node, &stat, ret);
    return error;
}

static int lookup_draft(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                        const char *name, struct tree_entry *ret)
{
    return draft_lookup_in(tree, fd_of_ino(tree, folder), name, ret);
}

static void forget_draft(struct tree *tree, uint64_t ino, uint64_t lookups)
{
    draft_node_unref(&tree->drafts, node_of(tree, ino), lookups);
}

static int init_drafts(struct tree *tree, int state_dir_fd)
{
    int fd = file_open_dir(state_dir_fd, "drafts");
    return fd < 0 ? fd : draft_table_init(&tree->drafts, tree->config.clock, fd);
}

static void release_drafts(struct tree *tree)
{
    if (tree->drafts.root.fd >= 0)
        draft_table_release(&tree->drafts);
}

/* ---------------------------------------------------------------- open files */

struct draft_handle {
    struct tree_handle base;
    struct draft_node *node;
    int fd;
};

static int fd_of(const struct tree_handle *handle)
{
    return ((const struct draft_handle *)handle)->fd;
}

static int read_draft(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    return handle_read_file(fd_of(handle), len, offset, ret);
}

static ssize_t write_draft(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                           size_t len, off_t offset)
{
    ssize_t written = pwrite(fd_of(handle), bytes, len, offset);
    return written < 0 ? -errno : written;
}

static int set_draft_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    return ftruncate(fd_of(handle), size) == 0 ? 0 : -errno;
}

static int sync_draft(struct tree_handle *handle, bool is_data_only)
{
    int fd = fd_of(handle);
    return (is_data_only ? fdatasync(fd) : fsync(fd)) == 0 ? 0 : -errno;
}

static int flush_draft(struct tree_handle *handle, const struct tree_caller *caller)
{
    /* Closes a duplicate, to get the errors of close(2) (EDQUOT, EIO) while the file stays open. */
    int duplicate = fcntl(fd_of(handle), F_DUPFD_CLOEXEC, 0);
    return duplicate >= 0 && close(duplicate) != 0 ? -errno : 0;
}

static void release_draft(struct tree_handle *handle)
{
    struct draft_handle *draft = (struct draft_handle *)handle;
    close(draft->fd);
    draft_node_end_use(&handle->tree->drafts, draft->node, !handle_is_for_reading(handle->flags));
    free(draft);
}

static const struct handle_ops draft_handle_ops = {
    .caching = TREE_CACHE_OPEN,
    .read = read_draft,
    .write = write_draft,
    .set_size = set_draft_size,
    .sync = sync_draft,
    .flush = flush_draft,
    .release = release_draft,
};

/* Without O_APPEND, with which pwrite(2) would ignore the offset that the kernel computed. */
static int flags_for_file(int flags)
{
    return (flags & (O_ACCMODE | O_TRUNC | O_EXCL | O_SYNC | O_DSYNC)) | O_NOFOLLOW | O_CLOEXEC;
}

/* Takes ownership of `fd`, the descriptor that created the file; if `fd` is -1, opens the file. */
static int open_node(struct tree *tree, struct draft_node *node, int fd, int flags,
                     struct tree_handle **ret_handle)
{
    _cleanup_close_ int owned_fd = fd;
    char path[DRAFT_FD_PATH_SIZE];
    bool may_write = !handle_is_for_reading(flags);
    int error = draft_node_begin_use(&tree->drafts, node, may_write);
    if (error != 0)
        return error;
    if (owned_fd < 0) {
        draft_fd_path(node->fd, path);
        owned_fd = open(path, flags_for_file(flags) & ~(O_NOFOLLOW | O_EXCL));
    }
    if (owned_fd < 0) {
        error = -errno;
        draft_node_end_use(&tree->drafts, node, may_write);
        return error;
    }
    struct draft_handle *draft = handle_new(tree, &draft_handle_ops, sizeof(*draft), flags);
    draft->node = node;
    draft->fd = TAKE_FD(owned_fd);
    *ret_handle = &draft->base;
    return 0;
}

static int open_draft(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                      struct tree_handle **ret_handle)
{
    return open_node(tree, node_of(tree, ino), -1, flags, ret_handle);
}

int draft_create_in(struct tree *tree, int folder_fd, const char *name, mode_t mode, int flags,
                    struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    struct draft_node *node = NULL;
    struct stat stat;
    _cleanup_close_ int fd = openat(folder_fd, name, flags_for_file(flags) | O_CREAT | O_EXCL, mode & 07777);
    bool is_new = fd >= 0;
    if (is_new)
        fchmod(fd, mode & 07777); /* the kernel has applied the caller's umask, openat(2) this process's */
    else if (errno == EEXIST && (flags & O_EXCL) == 0)
        fd = openat(folder_fd, name, flags_for_file(flags));
    if (fd < 0)
        return -errno;
    int error = draft_table_find(&tree->drafts, folder_fd, name, &node, &stat);
    if (error != 0) {
        if (is_new)
            unlinkat(folder_fd, name, 0);
        return error;
    }
    error = open_node(tree, node, TAKE_FD(fd), flags, ret_handle);
    if (error != 0)
        draft_node_unref(&tree->drafts, node, 1);
    else
        fill_entry(node, &stat, ret_entry);
    return error;
}

static int create_draft(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                        const char *name, mode_t mode, int flags, struct tree_entry *ret_entry,
                        struct tree_handle **ret_handle)
{
    return draft_create_in(tree, fd_of_ino(tree, folder), name, mode, flags, ret_entry, ret_handle);
}

/* ---------------------------------------------------------------- listings */

static int open_draft_dir(const struct tree_caller *caller, struct tree_dir *dir)
{
    char path[DRAFT_FD_PATH_SIZE];
    draft_fd_path(fd_of_ino(dir->base.tree, dir->ino), path);
    dir->state = file_opendirat(AT_FDCWD, path);
    return dir->state != NULL ? 0 : -errno;
}

/* The positions are those of the filesystem below. */
static int read_draft_dir(struct tree_dir *dir, uint64_t position)
{
    const struct dirent *item;
    DIR *stream = dir->state;
    bool is_root = node_number(dir->ino) == 0;
    if (position == 0)
        rewinddir(stream);
    else
        seekdir(stream, (long)position);
    errno = 0;
    while ((item = readdir(stream)) != NULL) {
        uint64_t ino = draft_shown_ino(item->d_ino);
        if (is_root && strcmp(item->d_name, ".") == 0)
            ino = dir->ino;
        else if (is_root && strcmp(item->d_name, "..") == 0)
            ino = TREE_ROOT_INO;
        if (!dir_put_name(dir, item->d_name, ino, DTTOIF(item->d_type), (uint64_t)item->d_off))
            return 0;
    }
    return -errno;
}

static void release_draft_dir(struct tree_dir *dir)
{
    closedir(dir->state);
}

static int sync_draft_folder(struct tree *tree, const struct tree_caller *caller, uint64_t folder)
{
    _cleanup_close_ int fd = draft_open_folder(fd_of_ino(tree, folder));
    return fd < 0 ? fd : file_sync(fd);
}

/* ---------------------------------------------------------------- attributes */

static int set_size(const struct tree_caller *caller, struct tree_handle *handle, const char *path,
                    off_t size)
{
    if (handle != NULL)
        return handle->ops->set_size(handle, caller, size);
    return truncate(path, size) == 0 ? 0 : -errno;
}

/* `handle`: the open file through which the attributes are set, or NULL. */
static int set_file(int fd, const struct tree_caller *caller, struct tree_handle *handle,
                    const struct tree_change *change)
{
    char path[DRAFT_FD_PATH_SIZE];
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return -errno;
    /* A symbolic link has no mode that can be set, and no size. */
    if (S_ISLNK(stat.st_mode) && (change->fields & (TREE_SET_MODE | TREE_SET_SIZE)) != 0)
        return -EOPNOTSUPP;

    draft_fd_path(fd, path);
    if ((change->fields & TREE_SET_MODE) != 0 && chmod(path, change->mode & 07777) != 0)
        return -errno;
    uid_t uid = (change->fields & TREE_SET_UID) != 0 ? change->uid : (uid_t)-1;
    gid_t gid = (change->fields & TREE_SET_GID) != 0 ? change->gid : (gid_t)-1;
    if ((change->fields & (TREE_SET_UID | TREE_SET_GID)) != 0 &&
        fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    int error = (change->fields & TREE_SET_SIZE) != 0 ? set_size(caller, handle, path, change->size) : 0;
    if (error != 0)
        return error;
    if ((change->fields & TREE_SET_TIMES) != 0 && utimensat(fd, "", change->times, AT_EMPTY_PATH) != 0)
        return -errno;
    return 0;
}

/* Programs that copy into drafts/ finally set mode, owner and times of the folder. For drafts/ itself, mode
 * and owner succeed without effect: after an error some programs would copy again. */
static int set_draft(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct tree_handle *handle, const struct tree_change *change)
{
    const struct tree_ownership *shown = &tree->config.shown_as;
    struct draft_node *node = node_of(tree, ino);
    struct tree_change effective = *change;
    if (node == &tree->drafts.root)
        effective.fields &= TREE_SET_SIZE | TREE_SET_TIMES;
    /* An owner or group that the mount's options fix can only be set to the same value. */
    if ((shown->uid >= 0 && (effective.fields & TREE_SET_UID) != 0 && change->uid != shown->uid) ||
        (shown->gid >= 0 && (effective.fields & TREE_SET_GID) != 0 && change->gid != shown->gid))
        return -EPERM;
    if (shown->uid >= 0)
        effective.fields &= ~(unsigned int)TREE_SET_UID;
    if (shown->gid >= 0)
        effective.fields &= ~(unsigned int)TREE_SET_GID;
    bool may_write = (effective.fields & TREE_SET_SIZE) != 0 && handle == NULL;
    int error = draft_node_begin_use(&tree->drafts, node, may_write);
    if (error != 0)
        return error;
    error = set_file(node->fd, caller, handle, &effective);
    draft_node_end_use(&tree->drafts, node, may_write);
    return error;
}

/* ---------------------------------------------------------------- names made and removed */

static int make_link(struct tree *tree, uint64_t ino, int parent_fd, const char *name)
{
    struct draft_node *node = node_of(tree, ino);
    char path[DRAFT_FD_PATH_SIZE];
    if (node_kind(ino) != NODE_DRAFT)
        return -EPERM;
    /* A file that is being handed in must not get another name, by which it could be changed later. */
    int error = draft_node_begin_use(&tree->drafts, node, true);
    if (error != 0)
        return error;
    /* AT_SYMLINK_FOLLOW follows only the link in /proc: a symbolic link in drafts/ is itself linked. */
    draft_fd_path(node->fd, path);
    error = linkat(AT_FDCWD, path, parent_fd, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
    draft_node_end_use(&tree->drafts, node, true);
    return error;
}

/* Sets the mode again, because mkdirat(2) and mknodat(2) apply the umask of this process. The kernel has
 * applied the caller's umask to what->mode. */
static int make_name(struct tree *tree, int parent_fd, const char *name, const struct tree_new_entry *what)
{
    mode_t mode = what->mode;
    mode_t permissions = mode & 07777;
    struct stat stat;
    if (mode == 0)
        return make_link(tree, what->ino, parent_fd, name);
    if (S_ISLNK(mode))
        return symlinkat(what->target, parent_fd, name) == 0 ? 0 : -errno;
    if (!S_ISDIR(mode) && !S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
        return -EPERM;
    if ((S_ISDIR(mode) ? mkdirat(parent_fd, name, 0700) : mknodat(parent_fd, name, mode, 0)) != 0 ||
        fstatat(parent_fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    /* A new folder inherits the set-group-ID bit of its parent. */
    if (S_ISDIR(mode))
        permissions |= stat.st_mode & S_ISGID;
    return fchmodat(parent_fd, name, permissions, 0) == 0 ? 0 : -errno;
}

static int make_draft(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      const struct tree_new_entry *what, struct tree_entry *ret)
{
    int folder_fd = fd_of_ino(tree, folder);
    int error = make_name(tree, folder_fd, name, what);
    if (error != 0)
        return error;
    error = draft_lookup_in(tree, folder_fd, name, ret);
    if (error != 0) /* no descriptor is left: the caller must not find what it was refused */
        unlinkat(folder_fd, name, S_ISDIR(what->mode) ? AT_REMOVEDIR : 0);
    return error;
}

static int read_draft_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                           char *ret_target, size_t size)
{
    ssize_t len = readlinkat(fd_of_ino(tree, ino), "", ret_target, size);
    if (len < 0)
        return -errno;
    if ((size_t)len >= size)
        return -ENAMETOOLONG;
    ret_target[len] = '\0';
    return 0;
}

static int remove_draft_dir(struct tree *tree, uint64_t folder, const char *name)
{
    return unlinkat(fd_of_ino(tree, folder), name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

static int unlink_draft(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                        const char *name)
{
    return unlinkat(fd_of_ino(tree, folder), name, 0) == 0 ? 0 : -errno;
}

/* ---------------------------------------------------------------- renames into drafts/ */

static int take_out_item(struct tree *tree, uint64_t folder, const char *name, int new_folder_fd,
                         const char *new_name, unsigned int flags)
{
    _cleanup_close_ int dir_fd = draft_open_folder(new_folder_fd);
    return dir_fd < 0 ? dir_fd : items_take_out(tree, folder, name, dir_fd, new_name, flags);
}

static int rename_into_drafts(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                              const char *name, uint64_t new_folder, const char *new_name, unsigned int flags)
{
    int new_folder_fd = fd_of_ino(tree, new_folder);
    if (node_kind(folder) == NODE_DRAFT)
        return renameat2(fd_of_ino(tree, folder), name, new_folder_fd, new_name, flags) == 0 ? 0 : -errno;
    if (items_is_folder(folder))
        return take_out_item(tree, folder, name, new_folder_fd, new_name, flags);
    return -EPERM;
}

const struct node_ops draft_ops = {
    .init = init_drafts,
    .release = release_drafts,
    .state_name = "drafts",
    .get = get_draft,
    .forget = forget_draft,
    .set_attributes = set_draft,
    .open = open_draft,
    .read_link = read_draft_link,
    .lookup = lookup_draft,
    .open_dir = open_draft_dir,
    .read_dir = read_draft_dir,
    .release_dir = release_draft_dir,
    .has_own_dots = true,
    .create = create_draft,
    .make = make_draft,
    .remove_dir = remove_draft_dir,
    .unlink = unlink_draft,
    .rename = rename_into_drafts,
    .sync = sync_draft_folder,
};
