/* SPDX-License-Identifier: MIT */
/*
 * maildir/: every inbox once more, as a Maildir that mail programs open. For this layer alone.
 *
 *     maildir/ADDRESS/{cur,new,tmp}   the messages; marking one is renaming it
 *     maildir/ADDRESS/.uidvalidity    what mbsync reads, by name (it is not listed)
 *
 * What programs keep beside these (lock files, sync states, an index) are ordinary files, kept in the state
 * directory: names that start with a dot or with "dovecot".
 *
 * A message has no size before it was fetched, and looking it up fetches it. So nobody is ever notified of
 * anything in cur and new.
 */
#ifndef INBOXFS_TREE_MAILDIR_H
#define INBOXFS_TREE_MAILDIR_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mail/maildir_name.h"
#include "store/maildir_memory.h"
#include "tree/draft_table.h"
#include "tree/inode.h"
#include "tree/tree.h"

enum {
    MAILDIR_LOCAL_MAX = 64 /* names of programs' own files in one folder */
};

/* What an inode of INODE_MAILDIR is; its number is the store's of the inbox * 8 and this. */
enum maildir_node {
    MAILDIR_NODE_BOX,
    MAILDIR_NODE_CUR,
    MAILDIR_NODE_NEW,
    MAILDIR_NODE_TMP,
    MAILDIR_NODE_UIDVALIDITY,
};

static inline uint64_t maildir_ino(uint32_t inbox, enum maildir_node node)
{
    return inode_make(INODE_MAILDIR, (uint64_t)inbox << 3 | (uint64_t)node);
}

static inline uint32_t maildir_inbox(uint64_t ino)
{
    return (uint32_t)(inode_number(ino) >> 3);
}

static inline enum maildir_node maildir_node(uint64_t ino)
{
    return (enum maildir_node)(inode_number(ino) & 7);
}

struct maildir {
    struct maildir_memory *memory;
    int dir_fd;                /* of what is kept on disk */
    struct draft_node root;    /* the same, for drafts: programs' own files are known as those are */
    pthread_mutex_t sync_lock; /* held while an inbox is looked through: one at a time */
};

void maildir_init(struct maildir *maildir);
/* Opens what is remembered, in the folder "maildir" (waits for the disk). 0 or -errno. */
int maildir_open(struct maildir *maildir, struct clock *clock, int state_dir_fd);
void maildir_release(struct maildir *maildir);

/* Whether there is a folder maildir/ at all: the service has raw messages. */
bool maildir_is_shown(const struct tree *tree);

/* Whether it is maildir/ or a folder below it, but not one of a program's own. */
bool maildir_is_folder(uint64_t ino);

/* Whether it is a cur or new folder. */
bool maildir_holds_messages(uint64_t ino);

/* The store's listener: the set of emails in an inbox changed; an email left it. */
void maildir_inbox_changed(struct tree *tree, uint32_t inbox);
void maildir_email_gone(struct tree *tree, uint32_t inbox, uint32_t email);

/* Brings the memory up to date with the inbox (waits for the disk where there is need). 0 or -errno. */
int maildir_refresh(struct tree *tree, uint32_t inbox);

/* In maildir/ and below. Fetches a message whose size is not known. */
bool maildir_lookup_may_wait(struct tree *tree, uint64_t parent, const char *name);
int maildir_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                   struct tree_entry *ret);

/* Of INODE_MAILDIR and INODE_MAILDIR_MESSAGE. False: gone. */
bool maildir_get_entry(struct tree *tree, uint64_t ino, struct tree_entry *ret);

/* The message of this name in a cur or new folder, as it is now. 0 or -ENOENT. */
int maildir_find_message(struct tree *tree, uint64_t folder, const char *text, struct maildir_mail *ret_mail,
                         struct email_view *ret_email);

/* The message of this email, where it is in this folder now: its entry (ino 0: its size is not known) and its
 * name. */
bool maildir_get_message(struct tree *tree, const struct email_view *email, enum maildir_folder folder,
                         char ret_name[MAILDIR_NAME_SIZE], struct tree_entry *ret);

extern const char maildir_uidvalidity_name[];
/* The content of .uidvalidity; its length. */
enum {
    MAILDIR_UIDVALIDITY_SIZE = 32
};
size_t maildir_uidvalidity(struct tree *tree, uint32_t inbox, char ret_text[MAILDIR_UIDVALIDITY_SIZE]);

/* ---------------------------------------------------------------- programs' own files */

/* Whether a program may have a file of this name in this folder. */
bool maildir_is_local(uint64_t folder, const char *name);

/* Their names, below the folder `root` of struct maildir: that is how the table of drafts knows them. 0 or
 * -ENOENT. */
enum {
    MAILDIR_LOCAL_PATH_SIZE = 64 + NAME_MAX + 1
};
int maildir_local_path(const struct tree *tree, uint64_t folder, const char *name,
                       char ret_path[MAILDIR_LOCAL_PATH_SIZE]);

/* The folder that holds them on disk; `is_made`: make it where it is not there. The caller closes. Or
 * -errno. */
int maildir_open_local(const struct tree *tree, uint64_t folder, bool is_made);

/* As the functions of change.h and handle.h, below maildir/. */
int maildir_make_dir(struct tree *tree, uint64_t parent, const char *name, mode_t mode,
                     struct tree_entry *ret);
int maildir_create(struct tree *tree, uint64_t parent, const char *name, mode_t mode, int flags,
                   struct tree_entry *ret_entry, struct tree_handle **ret_handle);

/* ---------------------------------------------------------------- marking */

/* Takes a program's own file away; of a message, marks it as trashed, for the service removes nothing: one
 * that is so marked stays (-EPERM). */
int maildir_unlink(struct tree *tree, uint64_t parent, const char *name);
/* Marks a message, or renames a program's own file. */
int maildir_rename(struct tree *tree, uint64_t parent, const char *name, uint64_t new_parent,
                   const char *new_name, unsigned int flags);

/* ---------------------------------------------------------------- listings */

/* Names of programs' own files. */
struct maildir_names {
    struct maildir_local {
        char name[NAME_MAX + 1];
        uint64_t shown_ino;
        mode_t type;
    } * items;
    size_t len;
};
void maildir_names_release(struct maildir_names *names);
/* What there is of them in a folder; none in cur, new and tmp. 0 or -errno. */
int maildir_list_local(const struct tree *tree, uint64_t folder, struct maildir_names *ret);

/* Before a folder is listed: brings it up to date, and has its messages fetched behind the scenes (waits for
 * the disk). 0 or -errno. */
int maildir_open_dir(struct tree *tree, uint64_t folder, struct maildir_names *ret_local);

/* Lists a folder from `position` on, "." and ".." apart, positions counted from 0. */
int maildir_read_dir(struct tree *tree, uint64_t folder, const struct maildir_names *local, uint64_t position,
                     tree_dir_sink sink, void *context, uint64_t base);

/* ---------------------------------------------------------------- open files */

int maildir_message_open(struct tree *tree, const struct tree_caller *caller, uint32_t email, int flags,
                         struct tree_handle **ret_handle);
int maildir_uidvalidity_open(struct tree *tree, uint32_t inbox, int flags, struct tree_handle **ret_handle);

#endif
