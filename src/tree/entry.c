/* SPDX-License-Identifier: MIT */
/*
 * Entries, one function for each kind of inode.
 */
#include "tree/entry.h"

#include <string.h>

#include "tree/inode.h"
#include "tree/items.h"
#include "tree/root.h"
#include "tree/tree_state.h"

enum {
    BLOCK_BYTES = 4096,
    INDEX_BLOCK_BYTES = 128 * 1024, /* what programs read at once; each of their reads comes here */
};

const char inbox_record_name[] = "inbox.json";
const char inbox_index_name[] = "index.jsonl";

struct timespec timespec_of_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    if (time.tv_nsec < 0) {
        time.tv_sec--;
        time.tv_nsec += 1000000000;
    }
    return time;
}

static void fill(const struct tree *tree, uint64_t ino, mode_t mode, off_t size, struct timespec mtime,
                 struct tree_entry *ret)
{
    ret->ino = ino;
    ret->attributes.stat = (struct stat){
        .st_ino = ino,
        .st_mode = mode,
        .st_nlink = S_ISDIR(mode) ? 2 : 1,
        .st_uid = tree->uid,
        .st_gid = tree->gid,
        .st_size = size,
        .st_blksize = BLOCK_BYTES,
        .st_blocks = (size + 511) / 512,
        .st_atim = mtime,
        .st_mtim = mtime,
        .st_ctim = mtime,
    };
}

/* *ret_changed_ms stays 0 where it is not known. */
static void look_at_fixed(struct tree *tree, enum fixed_node node, size_t *ret_len, int64_t *ret_changed_ms)
{
    enum outbox_folder folder;
    *ret_len = 0;
    *ret_changed_ms = 0;
    if (fixed_is_outbox_folder(node, &folder))
        *ret_changed_ms = outbox_folder_changed_ms(tree->outbox, folder);
    switch (node) {
    case FIXED_INBOXES:
    case FIXED_MAILDIR:
        *ret_changed_ms = store_inboxes_changed_ms(tree->store);
        break;
    case FIXED_STATUS:
        status_file_stat(tree, ret_len, ret_changed_ms);
        break;
    case FIXED_README:
        *ret_len = strlen(readme_text());
        break;
    default:
        break;
    }
}

void entry_of_event_log(struct tree *tree, uint64_t begin, struct tree_entry *ret)
{
    int64_t changed_ms = event_log_changed_ms(tree->event_log);
    fill(tree, inode_make(INODE_FIXED, FIXED_EVENT_LOG), fixed_get(FIXED_EVENT_LOG)->mode,
         (off_t)event_log_size(tree->event_log, begin),
         timespec_of_ms(changed_ms != 0 ? changed_ms : tree->started_ms), ret);
    ret->ino = inode_make(INODE_EVENT_LOG, begin);
    ret->is_name_lasting = false;
    ret->attributes.is_lasting = false;
}

void entry_of_fixed(struct tree *tree, enum fixed_node node, struct tree_entry *ret)
{
    const struct fixed_entry *fixed = fixed_get(node);
    size_t len;
    int64_t changed_ms;
    if (node == FIXED_EVENT_LOG) {
        entry_of_event_log(tree, event_log_begin(tree->event_log), ret);
        return;
    }
    look_at_fixed(tree, node, &len, &changed_ms);
    fill(tree, inode_make(INODE_FIXED, node), fixed->mode, (off_t)len,
         timespec_of_ms(changed_ms != 0 ? changed_ms : tree->started_ms), ret);
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = fixed->is_lasting;
}

void entry_of_delayed(const struct tree *tree, enum outbox_folder folder, struct tree_entry *ret)
{
    fill(tree, inode_make(INODE_DELAYED, folder), S_IFDIR | 0700, 0, timespec_of_ms(tree->started_ms), ret);
}

void entry_of_inbox(const struct tree *tree, const struct inbox_view *view, struct tree_entry *ret)
{
    fill(tree, inode_make(INODE_INBOX, view->number), S_IFDIR | 0700, 0, timespec_of_ms(view->changed_ms),
         ret);
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = true;
}

void entry_of_inbox_record(const struct tree *tree, const struct inbox_view *view, struct tree_entry *ret)
{
    fill(tree, inode_make(INODE_INBOX_RECORD, view->number), S_IFREG | 0600, (off_t)view->json_len,
         timespec_of_ms(view->record_ms), ret);
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = false;
}

void entry_of_inbox_index(const struct tree *tree, const struct inbox_view *view, struct tree_entry *ret)
{
    fill(tree, inode_make(INODE_INBOX_INDEX, view->number), S_IFREG | 0444, (off_t)view->index_bytes,
         timespec_of_ms(view->changed_ms), ret);
    ret->attributes.stat.st_blksize = INDEX_BLOCK_BYTES;
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = true;
}

void entry_of_email(const struct tree *tree, const struct email_view *view, struct tree_entry *ret)
{
    fill(tree, inode_make(INODE_EMAIL, view->number), S_IFREG | 0444, (off_t)view->json_len,
         timespec_of_ms(view->date_ms), ret);
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = true;
}

void entry_of_content(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, int64_t date_ms,
                      struct tree_entry *ret)
{
    fill(tree, ino, mode, (off_t)size, timespec_of_ms(date_ms), ret);
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = true;
}

void entry_of_search(const struct tree *tree, uint64_t ino, mode_t mode, off_t size, int64_t changed_ms,
                     struct tree_entry *ret)
{
    fill(tree, ino, mode, size, timespec_of_ms(changed_ms != 0 ? changed_ms : tree->started_ms), ret);
    ret->is_name_lasting = false;
    ret->attributes.is_lasting = false;
}

void entry_of_sent(const struct tree *tree, const struct email_view *view, struct tree_entry *ret)
{
    entry_of_email(tree, view, ret);
    ret->ino = inode_make(INODE_SENT, view->number);
    ret->attributes.stat.st_ino = ret->ino;
    ret->is_name_lasting = false;
    ret->attributes.is_lasting = false;
}

void entry_of_maildir(const struct tree *tree, uint64_t ino, mode_t mode, off_t size, struct timespec mtime,
                      struct tree_entry *ret)
{
    fill(tree, ino, mode, size, mtime, ret);
    ret->is_name_lasting = true;
    ret->attributes.is_lasting = S_ISREG(mode);
}

void entry_of_item(const struct tree *tree, const struct outbox_stat *stat, enum outbox_folder folder,
                   struct tree_entry *ret)
{
    enum inode_kind kind = INODE_ITEM;
    if (stat->aspect == OUTBOX_RECEIPT)
        kind = INODE_RECEIPT;
    else if (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED)
        kind = INODE_SETTLED_ITEM;
    off_t size = stat->size + (off_t)sent_delivery_len(tree, stat);
    /* Of what has left, the name is still its writer's, who may begin anew under it. */
    mode_t mode = kind == INODE_ITEM ? 0600 : stat->mode;
    fill(tree, inode_make(kind, stat->number), S_IFREG | mode, size, stat->mtime, ret);
    ret->is_name_lasting = false;
    ret->attributes.is_lasting = false;
}

uint64_t entry_shown_draft_ino(ino_t ino)
{
    return inode_make(INODE_DRAFT, ino);
}

void entry_of_draft(uint64_t ino, const struct stat *stat, struct tree_entry *ret)
{
    ret->ino = ino;
    ret->is_name_lasting = false;
    ret->attributes = (struct tree_attributes){.stat = *stat, .is_lasting = false};
    ret->attributes.stat.st_ino = entry_shown_draft_ino(stat->st_ino);
}
