/* SPDX-License-Identifier: MIT */
/*
 * Inode numbers: a kind in the low five bits, a number of that kind above. So neither an inbox, an email nor
 * an item of the outbox needs anything allocated for the kernel to know it by, and numbers stay the same
 * while mounted.
 */
#ifndef INBOXFS_TREE_INODE_H
#define INBOXFS_TREE_INODE_H

#include <stdint.h>

enum inode_kind {
    INODE_FIXED = 1,    /* number: enum fixed_node (fixed.h); the root is 1, as the kernel wants it */
    INODE_INBOX,        /* number: the store's of the inbox */
    INODE_INBOX_RECORD, /* inbox.json; number: the store's of the inbox */
    INODE_INBOX_INDEX,  /* index.jsonl; number: the store's of the inbox */
    INODE_EMAIL,        /* number: the store's of the email */
    INODE_ITEM,         /* in outbox/ and attachments/; number: the outbox's of the item */
    INODE_SETTLED_ITEM, /* the same in sent/ and failed/: another inode, since its name where it was handed in
                           goes on answering for some seconds, and rename(2) between two names of one inode
                           does nothing */
    INODE_RECEIPT,      /* number: the outbox's of the item that it belongs to */
    INODE_DRAFT,        /* number: its index in the table of drafts, and a generation (draft_table.h) */
    INODE_EVENT_LOG, /* events.jsonl; number: where in the log it begins (event_log.h). Shown as one number,
                        so that `tail -F` takes them for the one file that they are */
    INODE_CONTENT = 12,    /* the folder of an email and all in it; number: content_node.h */
    INODE_ANSWER = 13,     /* reply, reply-all, forward in the folder of an email; number: answer_door.h */
    INODE_MAILDIR = 16,    /* a Maildir, a folder in it, or its .uidvalidity; number: maildir.h */
    INODE_MAILDIR_MESSAGE, /* number: the store's of the email */
    INODE_SEARCH = 24,     /* the folder of a query; number: the query's (search_folder.h) */
    INODE_SEARCH_HIT,      /* link to an email that was found; number: the store's of the email */
    INODE_SEARCH_NOTE,     /* what was asked; number: the query's */
    INODE_HELD,            /* .invalid/ of an inbox; number: the store's of the inbox */
    INODE_SENT,            /* in sent/, of mail that was sent elsewhere; number: the store's of sent mail */
    INODE_DELAYED,         /* .~tmp~/ in outbox/ and attachments/; number: enum outbox_folder */
};

enum {
    INODE_KIND_BITS = 5
};

static inline uint64_t inode_make(enum inode_kind kind, uint64_t number)
{
    return number << INODE_KIND_BITS | (uint64_t)kind;
}

static inline enum inode_kind inode_kind(uint64_t ino)
{
    return (enum inode_kind)(ino & ((1U << INODE_KIND_BITS) - 1));
}

static inline uint64_t inode_number(uint64_t ino)
{
    return ino >> INODE_KIND_BITS;
}

#endif
