/* SPDX-License-Identifier: MIT */
/*
 * Renames: what moves between which folders, and as what.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tree/inboxes.h"
#include "tree/inode.h"
#include "tree/items.h"
#include "tree/maildir.h"
#include "tree/proc_path.h"
#include "tree/reply_file.h"
#include "tree/root.h"
#include "tree/tree.h"
#include "tree/tree_state.h"

/* One side of a rename. */
struct place {
    struct draft_node *draft; /* the folder in drafts/, or NULL */
    bool is_outbox_folder;
    enum outbox_folder folder; /* when is_outbox_folder */
    bool is_door;
    struct answer_door door; /* when is_door */
    const char *name;
};

static struct place find_place(struct tree *tree, uint64_t parent, const char *name)
{
    struct place place = {.draft = draft_table_get(&tree->drafts, parent), .name = name};
    place.is_outbox_folder = inode_kind(parent) == INODE_FIXED &&
                             fixed_is_outbox_folder((enum fixed_node)inode_number(parent), &place.folder);
    place.is_door = answer_door_find(tree, parent, name, &place.door);
    return place;
}

/* "drafts/sub/name": for words only, so the name alone will do where the folder's path cannot be told. */
static void show_path(struct tree *tree, const struct place *place, char ret_path[PATH_MAX])
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    char link[PROC_PATH_MAX_BYTES];
    char root[PATH_MAX];
    char folder[PATH_MAX];
    proc_path(tree->drafts.root.fd, link);
    ssize_t root_len = readlink(link, root, sizeof(root));
    ssize_t folder_len = -1;
    if (draft_hold(&tree->drafts, place->draft, &hold) == 0) {
        proc_path(hold.fd, link);
        folder_len = readlink(link, folder, sizeof(folder) - 1);
    }

    const char *below = "";
    if (root_len > 0 && folder_len > root_len && memcmp(root, folder, (size_t)root_len) == 0) {
        folder[folder_len] = '\0';
        below = folder + root_len;
    }
    if (snprintf(ret_path, PATH_MAX, "drafts%s/%s", below, place->name) >= PATH_MAX)
        snprintf(ret_path, PATH_MAX, "drafts/%s", place->name);
}

/* ---------------------------------------------------------------- drafts/ → outbox/, attachments/ */

/* A second name would let the content be changed after it was accepted. */
static int check_can_be_handed_in(const struct stat *stat)
{
    if (S_ISDIR(stat->st_mode))
        return -EISDIR;
    if (S_ISLNK(stat->st_mode))
        return -ELOOP;
    if (!S_ISREG(stat->st_mode))
        return -EBADMSG;
    return stat->st_nlink > 1 ? -EMLINK : 0;
}

/* What comes of a door (answer_door_prepare()); NULLs where the draft moves into a folder. */
struct answer {
    char *answers;
    char *name;
};

static void answer_release(struct answer *answer)
{
    free(answer->answers);
    free(answer->name);
}

static int hand_in_draft(struct tree *tree, const struct place *from, const struct place *to,
                         const struct answer *answer, unsigned int flags, const char *shown_path, pid_t pid)
{
    _cleanup_close_ int dir_fd = draft_node_open_folder(&tree->drafts, from->draft);
    if (dir_fd < 0)
        return dir_fd;
    if (to->is_door)
        return outbox_hand_in_answer(tree->outbox, dir_fd, from->name, shown_path, answer->answers,
                                     answer->name);
    return outbox_hand_in(tree->outbox, dir_fd, from->name, shown_path, to->folder, to->name, flags, pid);
}

static int hand_in_alone(struct tree *tree, const struct tree_caller *caller, const struct place *from,
                         const struct place *to, const struct answer *answer, unsigned int flags,
                         const struct draft_hold *hold)
{
    char shown_path[PATH_MAX];
    struct stat stat;
    show_path(tree, from, shown_path);
    int error = draft_node_begin_move(&tree->drafts, hold->node, caller->cancel);
    if (error != 0)
        return error;
    /* Once nobody can link or write it any more. */
    error = fstat(hold->fd, &stat) == 0 ? check_can_be_handed_in(&stat) : -errno;
    if (error == 0)
        error = hand_in_draft(tree, from, to, answer, flags, shown_path, caller->pid);
    draft_node_end_move(&tree->drafts, hold->node, error == 0);
    return error;
}

static int hand_in(struct tree *tree, const struct tree_caller *caller, const struct place *from,
                   const struct place *to, unsigned int flags)
{
    _cleanup_(answer_release) struct answer answer = {NULL, NULL};
    struct draft_leaving leaving;
    if (!to->is_door && to->folder != OUTBOX_FOLDER_OUTBOX && to->folder != OUTBOX_FOLDER_ATTACHMENTS)
        return -EPERM;
    int error = to->is_door ? answer_door_prepare(tree, caller, &to->door, &answer.answers, &answer.name) : 0;
    if (error == 0)
        error = draft_leave_begin(&tree->drafts, from->draft, from->name, &leaving);
    if (error != 0)
        return error;
    if (leaving.hold.table == NULL)
        return -ENOENT;
    error = hand_in_alone(tree, caller, from, to, &answer, flags, &leaving.hold);
    draft_leave_end(&leaving, error == 0);
    return error;
}

/* ---------------------------------------------------------------- all of it */

static int take_out(struct tree *tree, const struct place *from, const struct place *to, unsigned int flags)
{
    struct draft_leaving replaced;
    _cleanup_close_ int dir_fd = draft_node_open_folder(&tree->drafts, to->draft);
    if (dir_fd < 0)
        return dir_fd;
    int error = draft_leave_begin(&tree->drafts, to->draft, to->name, &replaced);
    if (error != 0)
        return error;
    error = outbox_take_out(tree->outbox, from->folder, from->name, dir_fd, to->name, flags);
    draft_leave_end(&replaced, error == 0);
    return error;
}

static bool is_receipt(struct tree *tree, const struct place *place)
{
    struct outbox_stat stat;
    return outbox_find(tree->outbox, place->folder, place->name, &stat) && stat.aspect == OUTBOX_RECEIPT;
}

static bool is_sent_record(struct tree *tree, const struct place *place)
{
    struct outbox_stat stat;
    struct tree_entry entry;
    return place->folder == OUTBOX_FOLDER_SENT &&
           !outbox_find(tree->outbox, place->folder, place->name, &stat) &&
           sent_folder_lookup(tree, place->name, &entry) == 0;
}

static int rename_item(struct tree *tree, const struct tree_caller *caller, const struct place *from,
                       const struct place *to, unsigned int flags)
{
    bool leaves_sent =
        from->folder == OUTBOX_FOLDER_SENT && (to->draft != NULL || to->folder != OUTBOX_FOLDER_SENT);
    _cleanup_free_ char *id = leaves_sent ? sent_folder_get_id(tree, from->name) : NULL;
    int error = to->draft != NULL ? take_out(tree, from, to, flags)
                                  : outbox_rename(tree->outbox, from->folder, from->name, to->folder,
                                                  to->name, flags, caller->pid, caller->cancel);
    if (error == 0)
        sent_folder_forget(tree, TAKE_PTR(id));
    return error;
}

int tree_rename(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                uint64_t new_parent, const char *new_name, unsigned int flags)
{
    if (maildir_is_folder(parent) || maildir_is_folder(new_parent))
        return maildir_rename(tree, parent, name, new_parent, new_name, flags);
    const struct place from = find_place(tree, parent, name);
    const struct place to = find_place(tree, new_parent, new_name);
    if (from.draft != NULL && to.draft != NULL)
        return draft_table_rename(&tree->drafts, from.draft, name, to.draft, new_name, flags);
    if (held_folder_is_move(parent, new_parent))
        return held_folder_move(tree, caller, parent, name, new_parent, new_name, flags);
    if (from.is_outbox_folder && (is_receipt(tree, &from) || is_sent_record(tree, &from)))
        return -EPERM;
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    if (from.draft != NULL && (to.is_outbox_folder || to.is_door))
        return hand_in(tree, caller, &from, &to, flags);
    if (from.is_outbox_folder && (to.draft != NULL || to.is_outbox_folder))
        return rename_item(tree, caller, &from, &to, flags);
    return -EPERM;
}
