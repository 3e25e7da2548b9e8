/* SPDX-License-Identifier: MIT */
/*
 * Programs' own files in maildir/: ordinary files in the state directory, known to the kernel as drafts are.
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
#include "mail/content_digest.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
#include "tree/maildir.h"
#include "tree/tree_state.h"

enum {
    FOLDER_NAME_SIZE = 64
};

/* notmuch(1) makes its index where the mail is, unless it is told otherwise. */
static const char index_name[] = ".notmuch";

bool maildir_is_local(uint64_t folder, const char *name)
{
    bool can_have_some = inode_kind(folder) == INODE_MAILDIR ? maildir_node(folder) == MAILDIR_NODE_BOX
                                                             : maildir_is_folder(folder);
    return can_have_some && strcmp(name, maildir_uidvalidity_name) != 0 &&
           (name[0] == '.' || strncmp(name, "dovecot", 7) == 0);
}

/* Of an inbox's files: made of its id, for numbers are given anew in each mount. */
static int folder_name(const struct tree *tree, uint64_t folder, char ret_name[FOLDER_NAME_SIZE])
{
    struct inbox_view inbox;
    char digest[65];
    if (inode_kind(folder) != INODE_MAILDIR) {
        snprintf(ret_name, FOLDER_NAME_SIZE, "files/all");
        return 0;
    }
    if (!store_get_inbox(tree->store, maildir_inbox(folder), &inbox))
        return -ENOENT;
    content_digest(inbox.id, strlen(inbox.id), digest);
    snprintf(ret_name, FOLDER_NAME_SIZE, "files/%.32s", digest);
    return 0;
}

int maildir_local_path(const struct tree *tree, uint64_t folder, const char *name,
                       char ret_path[MAILDIR_LOCAL_PATH_SIZE])
{
    char folder_path[FOLDER_NAME_SIZE];
    int error = folder_name(tree, folder, folder_path);
    if (error == 0)
        snprintf(ret_path, MAILDIR_LOCAL_PATH_SIZE, "%s/%s", folder_path, name);
    return error;
}

int maildir_open_local(const struct tree *tree, uint64_t folder, bool is_made)
{
    char name[FOLDER_NAME_SIZE];
    int error = folder_name(tree, folder, name);
    if (error != 0)
        return error;
    if (is_made)
        return file_open_dir(tree->maildir.dir_fd, name);
    int fd = openat(tree->maildir.dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---------------------------------------------------------------- listing */

static bool is_shown(const struct dirent *item)
{
    return strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0;
}

static int read_names(DIR *dir, struct maildir_names *ret)
{
    const struct dirent *item;
    ret->items = calloc(MAILDIR_LOCAL_MAX, sizeof(*ret->items));
    if (ret->items == NULL)
        return -ENOMEM;
    while (ret->len < MAILDIR_LOCAL_MAX && (errno = 0, item = readdir(dir)) != NULL) {
        if (!is_shown(item))
            continue;
        struct maildir_local *local = &ret->items[ret->len++];
        snprintf(local->name, sizeof(local->name), "%s", item->d_name);
        local->shown_ino = entry_shown_draft_ino(item->d_ino);
        local->type = DTTOIF(item->d_type);
    }
    return ret->len < MAILDIR_LOCAL_MAX ? -errno : 0;
}

/* NULL where the folder has not been made yet. */
static int open_listing(const struct tree *tree, uint64_t folder, DIR **ret)
{
    int fd = maildir_open_local(tree, folder, false);
    *ret = fd < 0 ? NULL : fdopendir(fd);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (*ret != NULL)
        return 0;
    close(fd);
    return -ENOMEM;
}

void maildir_names_release(struct maildir_names *names)
{
    free(names->items);
    *names = (struct maildir_names){.len = 0};
}

int maildir_list_local(const struct tree *tree, uint64_t folder, struct maildir_names *ret)
{
    *ret = (struct maildir_names){.len = 0};
    DIR *dir = NULL;
    int error = maildir_is_local(folder, ".") ? open_listing(tree, folder, &dir) : 0;
    if (dir == NULL)
        return error;
    error = read_names(dir, ret);
    closedir(dir);
    if (error != 0)
        maildir_names_release(ret);
    return error;
}

/* ---------------------------------------------------------------- making */

static int check_room(const struct tree *tree, uint64_t folder)
{
    struct maildir_names names;
    int error = maildir_list_local(tree, folder, &names);
    if (error == 0 && names.len >= MAILDIR_LOCAL_MAX)
        error = -ENOSPC;
    maildir_names_release(&names);
    return error;
}

int maildir_make_dir(struct tree *tree, uint64_t parent, const char *name, mode_t mode,
                     struct tree_entry *ret)
{
    if (!maildir_is_local(parent, name) || strcmp(name, index_name) != 0)
        return -EPERM;
    _cleanup_close_ int fd = maildir_open_local(tree, parent, true);
    if (fd < 0)
        return fd;
    if (mkdirat(fd, name, mode & 0700) != 0)
        return -errno;
    return maildir_lookup(tree, NULL, parent, name, ret);
}

int maildir_create(struct tree *tree, uint64_t parent, const char *name, mode_t mode, int flags,
                   struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    if (!maildir_is_local(parent, name))
        return -EPERM;
    int error = check_room(tree, parent);
    if (error != 0)
        return error;
    char path[MAILDIR_LOCAL_PATH_SIZE];
    _cleanup_close_ int fd = maildir_open_local(tree, parent, true);
    if (fd < 0)
        return fd;
    error = maildir_local_path(tree, parent, name, path);
    return error != 0 ? error
                      : draft_create(tree, &tree->maildir.root, path, mode, flags, ret_entry, ret_handle);
}
