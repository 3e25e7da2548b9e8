/* SPDX-License-Identifier: MIT */
/*
 * Maildirs: what is where, and as what.
 */
#include "tree/maildir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/maildir_name.h"
#include "store/store_content.h"
#include "tree/entry.h"
#include "tree/tree_state.h"

enum {
    NS_PER_MS = 1000 * 1000,
    NS_PER_S = 1000 * 1000 * 1000,
    MS_PER_S = 1000,
    EMAILS_AT_ONCE = 64,
    SIGHTINGS_FIRST = 1024,
    UIDS_AT_ONCE = 1000,
    BOX_LINKS = 5, /* itself, its name, and ".." of cur, new and tmp: some programs count folders so */
};

const char maildir_uidvalidity_name[] = ".uidvalidity";

void maildir_init(struct maildir *maildir)
{
    *maildir = (struct maildir){.dir_fd = -1};
    pthread_mutex_init(&maildir->sync_lock, NULL);
}

int maildir_open(struct maildir *maildir, struct clock *clock, int state_dir_fd)
{
    maildir->dir_fd = file_open_dir(state_dir_fd, "maildir");
    if (maildir->dir_fd < 0)
        return maildir->dir_fd;
    draft_root_init(&maildir->root, maildir->dir_fd);
    return maildir_memory_open(maildir->dir_fd, clock, &maildir->memory);
}

void maildir_release(struct maildir *maildir)
{
    maildir_memory_free(maildir->memory);
    cleanup_close(&maildir->dir_fd);
    pthread_mutex_destroy(&maildir->sync_lock);
}

bool maildir_is_shown(const struct tree *tree)
{
    return store_has_raw(tree->store);
}

bool maildir_holds_messages(uint64_t ino)
{
    return inode_kind(ino) == INODE_MAILDIR &&
           (maildir_node(ino) == MAILDIR_NODE_CUR || maildir_node(ino) == MAILDIR_NODE_NEW);
}

bool maildir_is_folder(uint64_t ino)
{
    if (inode_kind(ino) == INODE_MAILDIR)
        return maildir_node(ino) != MAILDIR_NODE_UIDVALIDITY;
    return ino == inode_make(INODE_FIXED, FIXED_MAILDIR);
}

/* ---------------------------------------------------------------- following the inboxes */

void maildir_inbox_changed(struct tree *tree, uint32_t inbox)
{
    maildir_memory_mark_stale(tree->maildir.memory, inbox);
}

void maildir_email_gone(struct tree *tree, uint32_t inbox, uint32_t email)
{
    maildir_memory_note_gone(tree->maildir.memory, inbox, email);
}

struct sightings {
    struct maildir_sighting *items;
    size_t len;
    size_t capacity;
};

static int add_sighting(const struct tree *tree, struct sightings *sightings, const struct email_view *email)
{
    struct maildir_mail mail;
    if (sightings->len == sightings->capacity) {
        size_t capacity = sightings->capacity == 0 ? SIGHTINGS_FIRST : 2 * sightings->capacity;
        struct maildir_sighting *items = realloc(sightings->items, capacity * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        sightings->items = items;
        sightings->capacity = capacity;
    }
    /* The id may have to be read from the disk, so only where it is not known yet. */
    bool is_known = maildir_memory_find_email(tree->maildir.memory, email->inbox, email->number, &mail);
    sightings->items[sightings->len++] = (struct maildir_sighting){
        .email = email->number,
        .id = is_known ? NULL : store_get_email_id(tree->store, email->number),
        .epoch_s = email->date_ms / MS_PER_S,
    };
    return 0;
}

static int look_through(struct tree *tree, uint32_t inbox, int64_t arrived_ns)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    struct sightings sightings = {.len = 0};
    uint64_t position = 0;
    size_t count;
    int error = 0;
    while (error == 0 &&
           (count = store_list_emails(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count && error == 0; i++)
            error = add_sighting(tree, &sightings, &views[i]);
        position = next[count - 1];
    }
    if (error == 0)
        error = maildir_memory_sync(tree->maildir.memory, inbox, sightings.items, sightings.len, arrived_ns);
    else
        maildir_memory_mark_stale(tree->maildir.memory, inbox);
    free(sightings.items);
    return error;
}

static bool is_fresh(struct tree *tree, uint32_t inbox)
{
    struct maildir_state state;
    return maildir_memory_get_state(tree->maildir.memory, inbox, &state) && !state.is_stale;
}

int maildir_refresh(struct tree *tree, uint32_t inbox)
{
    struct inbox_view view;
    if (is_fresh(tree, inbox))
        return 0;
    if (!store_get_inbox(tree->store, inbox, &view))
        return -ENOENT;
    pthread_mutex_lock(&tree->maildir.sync_lock);
    int error = maildir_memory_add_inbox(tree->maildir.memory, inbox, view.id);
    if (error == 0 && maildir_memory_begin_sync(tree->maildir.memory, inbox))
        error = look_through(tree, inbox, view.changed_ms * NS_PER_MS);
    pthread_mutex_unlock(&tree->maildir.sync_lock);
    return error;
}

/* ---------------------------------------------------------------- entries */

static struct timespec timespec_of_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

/* Mail that came and was not looked through yet has changed new/ already, by as much as it will have then. */
static int64_t changed_ns(struct tree *tree, const struct inbox_view *inbox, enum maildir_node node)
{
    struct maildir_state state = {.is_stale = true};
    maildir_memory_get_state(tree->maildir.memory, inbox->number, &state);
    int64_t new_ns = state.changed_ns[MAILDIR_NEW];
    int64_t inbox_ns = inbox->changed_ms * NS_PER_MS;
    if (state.is_stale)
        new_ns = inbox_ns > new_ns ? inbox_ns : new_ns + 1;
    if (node == MAILDIR_NODE_NEW)
        return new_ns;
    if (node == MAILDIR_NODE_CUR && state.changed_ns[MAILDIR_CUR] != 0)
        return state.changed_ns[MAILDIR_CUR];
    if (node == MAILDIR_NODE_BOX)
        return inbox->record_ms * NS_PER_MS;
    return node == MAILDIR_NODE_UIDVALIDITY ? new_ns : tree->started_ms * NS_PER_MS;
}

size_t maildir_uidvalidity(struct tree *tree, uint32_t inbox, char ret_text[MAILDIR_UIDVALIDITY_SIZE])
{
    struct maildir_state state = {.uidvalidity = 0};
    maildir_memory_get_state(tree->maildir.memory, inbox, &state);
    /* The second line is up to where U numbers are spoken for. mbsync takes a higher one for damage, and may
     * meet mail that came after it read this. */
    uint32_t taken = (state.uid_max / UIDS_AT_ONCE + 1) * UIDS_AT_ONCE;
    int len = snprintf(ret_text, MAILDIR_UIDVALIDITY_SIZE, "%u\n%u\n", state.uidvalidity, taken);
    return (size_t)len;
}

static void entry_of_node(struct tree *tree, const struct inbox_view *inbox, enum maildir_node node,
                          struct tree_entry *ret)
{
    char text[MAILDIR_UIDVALIDITY_SIZE];
    bool is_file = node == MAILDIR_NODE_UIDVALIDITY;
    size_t len = is_file ? maildir_uidvalidity(tree, inbox->number, text) : 0;
    entry_of_maildir(tree, maildir_ino(inbox->number, node), is_file ? S_IFREG | 0600 : S_IFDIR | 0700,
                     (off_t)len, timespec_of_ns(changed_ns(tree, inbox, node)), ret);
    if (node == MAILDIR_NODE_BOX)
        ret->attributes.stat.st_nlink = BOX_LINKS;
    /* The kernel looks at every folder on the way to a message: those whose times tell nobody of mail are
     * left to it. Nothing is notified in the others. */
    ret->attributes.is_lasting = node == MAILDIR_NODE_BOX || node == MAILDIR_NODE_TMP;
}

static void entry_of_message(const struct tree *tree, const struct email_view *email,
                             const struct maildir_mail *mail, struct tree_entry *ret)
{
    bool has_size = mail->size >= 0;
    entry_of_maildir(tree, inode_make(INODE_MAILDIR_MESSAGE, email->number), S_IFREG | 0444,
                     has_size ? (off_t)mail->size : 0, timespec_of_ms(email->date_ms), ret);
    if (!has_size)
        ret->ino = 0;
}

/* Whether the inbox holds it still. */
static bool is_held(struct tree *tree, const struct email_view *email)
{
    struct email_view now;
    return store_find_email(tree->store, email->inbox, email->name, &now) && now.number == email->number;
}

bool maildir_get_entry(struct tree *tree, uint64_t ino, struct tree_entry *ret)
{
    struct inbox_view inbox;
    struct email_view email;
    struct maildir_mail mail;
    if (inode_kind(ino) == INODE_MAILDIR) {
        if (!store_get_inbox(tree->store, maildir_inbox(ino), &inbox))
            return false;
        entry_of_node(tree, &inbox, maildir_node(ino), ret);
        return true;
    }
    if (!store_get_email(tree->store, (uint32_t)inode_number(ino), &email) || !is_held(tree, &email) ||
        !maildir_memory_find_email(tree->maildir.memory, email.inbox, email.number, &mail))
        return false;
    entry_of_message(tree, &email, &mail, ret);
    ret->ino = ino;
    return true;
}

static void name_of(const struct maildir_mail *mail, char ret_name[MAILDIR_NAME_SIZE])
{
    struct maildir_name name = {
        .epoch = mail->epoch_s, .uid = mail->uid, .has_info = mail->has_info, .flags = mail->flags};
    memcpy(name.id, mail->digest, sizeof(name.id));
    maildir_name_format(&name, ret_name);
}

bool maildir_get_message(struct tree *tree, const struct email_view *email, enum maildir_folder folder,
                         char ret_name[MAILDIR_NAME_SIZE], struct tree_entry *ret)
{
    struct maildir_mail mail;
    if (!maildir_memory_find_email(tree->maildir.memory, email->inbox, email->number, &mail) ||
        mail.is_gone || mail.folder != folder)
        return false;
    name_of(&mail, ret_name);
    entry_of_message(tree, email, &mail, ret);
    return true;
}

/* ---------------------------------------------------------------- lookup */

int maildir_find_message(struct tree *tree, uint64_t folder, const char *text, struct maildir_mail *ret_mail,
                         struct email_view *ret_email)
{
    struct maildir_name name;
    struct maildir_name known = {.epoch = 0};
    uint32_t inbox = maildir_inbox(folder);
    enum maildir_folder wanted = maildir_node(folder) == MAILDIR_NODE_CUR ? MAILDIR_CUR : MAILDIR_NEW;
    if (!maildir_holds_messages(folder) || !maildir_name_parse(text, &name) ||
        !maildir_memory_find_uid(tree->maildir.memory, inbox, name.uid, ret_mail))
        return -ENOENT;
    known.epoch = ret_mail->epoch_s;
    known.uid = ret_mail->uid;
    memcpy(known.id, ret_mail->digest, sizeof(known.id));
    bool is_it = maildir_name_is_same_message(&name, &known) && ret_mail->folder == wanted &&
                 ret_mail->has_info == name.has_info && ret_mail->flags == name.flags;
    return is_it && !ret_mail->is_gone && ret_mail->email != NUMBER_NONE &&
                   store_get_email(tree->store, ret_mail->email, ret_email) && is_held(tree, ret_email)
               ? 0
               : -ENOENT;
}

/* Its size alone is wanted: what was fetched stays in the cache. */
static int fetch_size(struct tree *tree, const struct tree_caller *caller, const struct email_view *email,
                      struct maildir_mail *mail)
{
    struct store_bytes bytes;
    int error = store_raw_open(tree->store, email->number, caller == NULL ? NULL : caller->cancel, &bytes);
    if (error != 0)
        return error;
    cleanup_close(&bytes.fd);
    mail->size = (int64_t)bytes.len;
    maildir_memory_note_size(tree->maildir.memory, email->inbox, mail->uid, mail->size);
    return 0;
}

static int lookup_message(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                          const char *name, struct tree_entry *ret)
{
    struct maildir_mail mail;
    struct email_view email;
    int error = maildir_find_message(tree, parent, name, &mail, &email);
    if (error == 0 && mail.size < 0)
        error = fetch_size(tree, caller, &email, &mail);
    if (error == 0)
        entry_of_message(tree, &email, &mail, ret);
    return error;
}

static bool find_node(const char *name, enum maildir_node *ret)
{
    static const char *const names[] = {
        [MAILDIR_NODE_BOX] = "",
        [MAILDIR_NODE_CUR] = "cur",
        [MAILDIR_NODE_NEW] = "new",
        [MAILDIR_NODE_TMP] = "tmp",
        [MAILDIR_NODE_UIDVALIDITY] = maildir_uidvalidity_name,
    };
    for (size_t i = MAILDIR_NODE_CUR; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum maildir_node)i;
            return true;
        }
    return false;
}

static int lookup_node(struct tree *tree, uint32_t inbox, enum maildir_node node, struct tree_entry *ret)
{
    struct inbox_view view;
    int error = maildir_refresh(tree, inbox);
    if (error != 0)
        return error;
    if (!store_get_inbox(tree->store, inbox, &view))
        return -ENOENT;
    entry_of_node(tree, &view, node, ret);
    return 0;
}

static int lookup_local(struct tree *tree, uint64_t parent, const char *name, struct tree_entry *ret)
{
    struct draft_node *node = NULL;
    struct stat stat;
    char path[MAILDIR_LOCAL_PATH_SIZE];
    int error = maildir_local_path(tree, parent, name, path);
    if (error == 0)
        error = draft_table_find(&tree->drafts, &tree->maildir.root, path, &node, &stat);
    if (error == 0)
        entry_of_draft(draft_node_ino(&tree->drafts, node), &stat, ret);
    return error;
}

/* False only for what stays so: an inbox may change, and a message come, before the lookup is made. */
bool maildir_lookup_may_wait(struct tree *tree, uint64_t parent, const char *name)
{
    struct maildir_mail mail;
    struct email_view email;
    enum maildir_node node;
    if (inode_kind(parent) != INODE_MAILDIR)
        return false;
    if (maildir_node(parent) == MAILDIR_NODE_BOX)
        return find_node(name, &node);
    return maildir_holds_messages(parent) &&
           (maildir_find_message(tree, parent, name, &mail, &email) != 0 || mail.size < 0);
}

int maildir_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                   struct tree_entry *ret)
{
    enum maildir_node node = MAILDIR_NODE_BOX;
    bool is_box = inode_kind(parent) == INODE_MAILDIR && maildir_node(parent) == MAILDIR_NODE_BOX;
    struct inbox_view view;
    if (is_box && find_node(name, &node))
        return lookup_node(tree, maildir_inbox(parent), node, ret);
    if (maildir_is_local(parent, name))
        return lookup_local(tree, parent, name, ret);
    if (inode_kind(parent) == INODE_MAILDIR)
        return is_box ? -ENOENT : lookup_message(tree, caller, parent, name, ret);
    if (!store_find_inbox(tree->store, name, &view))
        return -ENOENT;
    entry_of_node(tree, &view, MAILDIR_NODE_BOX, ret);
    return 0;
}
