/* SPDX-License-Identifier: MIT */
/*
 * Names removed and renamed in maildir/: of messages, these are marks.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mail/maildir_name.h"
#include "tree/maildir.h"
#include "tree/tree_state.h"

/* ---------------------------------------------------------------- messages */

/* What a mail program removes, it has in its trash: shown, and marked so. */
static int trash_message(struct tree *tree, uint64_t folder, const char *name)
{
    struct maildir_mail mail;
    struct email_view email;
    int error = maildir_find_message(tree, folder, name, &mail, &email);
    if (error != 0)
        return error;
    uint64_t trashed = maildir_flag('T');
    if ((mail.flags & trashed) != 0)
        return -EPERM;
    const struct maildir_mark mark = {
        .folder = (enum maildir_folder)mail.folder, .has_info = true, .flags = mail.flags | trashed};
    return maildir_memory_mark(tree->maildir.memory, email.inbox, mail.uid, &mark);
}

/* The new name must be one of the same message: everything else would be delivering, or taking it away. */
static int mark_message(struct tree *tree, uint64_t folder, const char *name, uint64_t new_folder,
                        const char *new_name)
{
    struct maildir_name from;
    struct maildir_name to;
    struct maildir_mail mail;
    struct email_view email;
    int error = maildir_find_message(tree, folder, name, &mail, &email);
    if (error != 0)
        return error;
    if (maildir_inbox(folder) != maildir_inbox(new_folder) || !maildir_name_parse(name, &from) ||
        !maildir_name_parse(new_name, &to) || !maildir_name_is_same_message(&from, &to))
        return -EPERM;
    const struct maildir_mark mark = {
        .folder = maildir_node(new_folder) == MAILDIR_NODE_CUR ? MAILDIR_CUR : MAILDIR_NEW,
        .has_info = to.has_info,
        .flags = to.flags,
    };
    if (folder == new_folder && from.has_info == to.has_info && from.flags == to.flags)
        return 0;
    return maildir_memory_mark(tree->maildir.memory, email.inbox, mail.uid, &mark);
}

/* ---------------------------------------------------------------- all of it */

int maildir_unlink(struct tree *tree, uint64_t parent, const char *name)
{
    if (maildir_holds_messages(parent))
        return trash_message(tree, parent, name);
    if (!maildir_is_local(parent, name))
        return -EPERM;
    char path[MAILDIR_LOCAL_PATH_SIZE];
    int error = maildir_local_path(tree, parent, name, path);
    return error != 0 ? error : draft_table_remove(&tree->drafts, &tree->maildir.root, path, 0);
}

static int rename_local(struct tree *tree, uint64_t parent, const char *name, uint64_t new_parent,
                        const char *new_name, unsigned int flags)
{
    struct draft_node *root = &tree->maildir.root;
    char path[MAILDIR_LOCAL_PATH_SIZE];
    char new_path[MAILDIR_LOCAL_PATH_SIZE];
    int error = maildir_local_path(tree, parent, name, path);
    if (error == 0)
        error = maildir_local_path(tree, new_parent, new_name, new_path);
    if (error != 0)
        return error;
    _cleanup_close_ int made_fd = maildir_open_local(tree, new_parent, true);
    return made_fd < 0 ? made_fd : draft_table_rename(&tree->drafts, root, path, root, new_path, flags);
}

int maildir_rename(struct tree *tree, uint64_t parent, const char *name, uint64_t new_parent,
                   const char *new_name, unsigned int flags)
{
    if (maildir_is_local(parent, name) && maildir_is_local(new_parent, new_name))
        return rename_local(tree, parent, name, new_parent, new_name, flags);
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    if (maildir_holds_messages(parent) && maildir_holds_messages(new_parent))
        return mark_message(tree, parent, name, new_parent, new_name);
    return -EPERM;
}
