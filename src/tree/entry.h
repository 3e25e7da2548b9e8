/* SPDX-License-Identifier: MIT */
/*
 * From what the store, the outbox and the drafts know to what the kernel is told. For this layer alone.
 */
#ifndef INBOXFS_TREE_ENTRY_H
#define INBOXFS_TREE_ENTRY_H

#include "tree/root.h"
#include "tree/tree.h"

/* The name of an inbox's record in its folder. */
extern const char inbox_record_name[];
/* The name of the file with all records of an inbox. */
extern const char inbox_index_name[];

/* Of milliseconds since 1970. */
struct timespec timespec_of_ms(int64_t ms);

void entry_of_fixed(struct tree *tree, enum fixed_node node, struct tree_entry *ret);
/* .~tmp~/, an empty folder in outbox/ or attachments/. */
void entry_of_delayed(const struct tree *tree, enum outbox_folder folder, struct tree_entry *ret);
/* events.jsonl as it was found when it began at this position. */
void entry_of_event_log(struct tree *tree, uint64_t begin, struct tree_entry *ret);
void entry_of_inbox(const struct tree *tree, const struct inbox_view *view, struct tree_entry *ret);
void entry_of_inbox_record(const struct tree *tree, const struct inbox_view *view, struct tree_entry *ret);
void entry_of_inbox_index(const struct tree *tree, const struct inbox_view *view, struct tree_entry *ret);
/* In search/: `changed_ms` 0 where it is not known. */
void entry_of_search(const struct tree *tree, uint64_t ino, mode_t mode, off_t size, int64_t changed_ms,
                     struct tree_entry *ret);
void entry_of_email(const struct tree *tree, const struct email_view *view, struct tree_entry *ret);
/* Of mail that was sent elsewhere. */
void entry_of_sent(const struct tree *tree, const struct email_view *view, struct tree_entry *ret);
/* A folder or message in maildir/. */
void entry_of_maildir(const struct tree *tree, uint64_t ino, mode_t mode, off_t size, struct timespec mtime,
                      struct tree_entry *ret);
/* What is in the folder of an email, and the folder itself. */
void entry_of_content(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, int64_t date_ms,
                      struct tree_entry *ret);
/* `folder`: where it is looked at, which may be where it no longer shows. */
void entry_of_item(const struct tree *tree, const struct outbox_stat *stat, enum outbox_folder folder,
                   struct tree_entry *ret);

/* `ino`: its number; `stat`: of the file itself. */
void entry_of_draft(uint64_t ino, const struct stat *stat, struct tree_entry *ret);
/* What the user sees as a draft's inode number: it stays the same while the kernel forgets and asks again. */
uint64_t entry_shown_draft_ino(ino_t ino);

#endif
