/* SPDX-License-Identifier: MIT */
/*
 * maildir/: each inbox as a Maildir, which mail programs open.
 *
 *     maildir/ADDRESS/{cur,new,tmp}   the messages; rename(2) changes the marks of a message
 *     maildir/ADDRESS/.uidvalidity    read by mbsync; not listed
 *
 * A *local file* is a file that a program keeps beside these (a lock, a sync state, an index): an ordinary
 * file in the state directory, whose name starts with a dot or with "dovecot". The kernel knows it as a draft
 * (drafts.c).
 *
 * maildir_memory stores the folder and the marks of each message; lookups and listings of cur, new and tmp,
 * and requests for their times, first update it from the store if the inbox changed. The size of a message is
 * known only after a fetch, so a lookup fetches the message, and waits while the kernel has the folder
 * locked. The invalidation of a name would wait for that lock, so in cur and new only attributes and listings
 * are invalidated, which locks no folder.
 *
 * New mail is announced in new, once a program has looked at the Maildir in this mount. The announced file is
 * created without a lasting size: the kernel asks for the size with the next lookup.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "mail/maildir_name.h"
#include "store/maildir_memory.h"
#include "store/store_content.h"
#include "tree/node.h"

enum {
    NS_PER_MS = 1000 * 1000,
    NS_PER_S = 1000 * 1000 * 1000,
    MS_PER_S = 1000,
    EMAILS_AT_ONCE = 64,
    UIDS_AT_ONCE = 1000,
    LOCAL_MAX = 64, /* local files in one folder */
    BOX_LINKS = 5,  /* a Maildir's name, ".", and ".." of cur, new and tmp: programs count folders by this */
    UIDVALIDITY_SIZE = 32, /* size of the text, with its NUL */
};

static const char uidvalidity_name[] = ".uidvalidity";

struct maildir {
    struct maildir_memory *memory;
    int dir_fd;                /* the folder "maildir" */
    pthread_mutex_t sync_lock; /* held by refresh_memory(), which updates one inbox at a time */
};

/* ---------------------------------------------------------------- inode numbers */

/* The number of a NODE_MAILDIR inode has this in its low two bits, and above it the store's inbox number. */
enum maildir_part {
    MAILDIR_PART_NEW = MAILDIR_NEW,
    MAILDIR_PART_CUR = MAILDIR_CUR,
    MAILDIR_PART_TMP,
    MAILDIR_PART_BOX,
};

enum {
    PART_BITS = 2
};

/* The folders in a Maildir. */
static const char *const part_names[] = {
    [MAILDIR_PART_NEW] = "new", [MAILDIR_PART_CUR] = "cur", [MAILDIR_PART_TMP] = "tmp"};

static uint64_t part_ino(uint32_t inbox, enum maildir_part part)
{
    return node_ino(NODE_MAILDIR, (uint64_t)inbox << PART_BITS | (uint64_t)part);
}

static uint32_t inbox_of(uint64_t ino)
{
    return (uint32_t)(node_number(ino) >> PART_BITS);
}

/* `ino` must be of kind NODE_MAILDIR. */
static enum maildir_part part_of(uint64_t ino)
{
    return (enum maildir_part)(node_number(ino) & ((1U << PART_BITS) - 1));
}

static bool is_box(uint64_t ino)
{
    return node_kind(ino) == NODE_MAILDIR && part_of(ino) == MAILDIR_PART_BOX;
}

static bool holds_messages(uint64_t ino)
{
    return node_kind(ino) == NODE_MAILDIR && (unsigned int)part_of(ino) < MAILDIR_FOLDERS;
}

/* `ino` must be that of cur or new. */
static enum maildir_folder folder_of(uint64_t ino)
{
    return (enum maildir_folder)part_of(ino);
}

static int init_maildir(struct tree *tree, int state_dir_fd)
{
    struct maildir *maildir = g_new0(struct maildir, 1);
    tree->maildir = maildir;
    pthread_mutex_init(&maildir->sync_lock, NULL);
    maildir->dir_fd = file_open_dir(state_dir_fd, "maildir");
    if (maildir->dir_fd < 0)
        return maildir->dir_fd;
    maildir->memory = maildir_memory_open(maildir->dir_fd, tree->config.clock);
    return 0;
}

static void release_maildir(struct tree *tree)
{
    struct maildir *maildir = tree->maildir;
    if (maildir == NULL)
        return;
    maildir_memory_free(maildir->memory);
    cleanup_close(&maildir->dir_fd);
    pthread_mutex_destroy(&maildir->sync_lock);
    free(maildir);
}

/* A program that mirrors a mailbox mistakes missing mail for removed mail. So nothing is shown while a lost
 * cache is filled again. */
bool maildir_is_shown(const struct tree *tree)
{
    return store_has_raw(tree->store) && store_knows_all_mail(tree->store);
}

/* ---------------------------------------------------------------- changes of the inboxes */

/* Notifies the kernel that cur and new changed. Does nothing if no program has looked at the Maildir. */
static void notify_messages_changed(struct tree *tree, uint32_t inbox)
{
    if (!maildir_memory_has_inbox(tree->maildir->memory, inbox))
        return;
    notify_changed(tree, part_ino(inbox, MAILDIR_PART_NEW));
    notify_changed(tree, part_ino(inbox, MAILDIR_PART_CUR));
}

void maildir_inbox_changed(struct tree *tree, uint32_t inbox)
{
    maildir_memory_mark_stale(tree->maildir->memory, inbox);
    notify_messages_changed(tree, inbox);
}

void maildir_notify_box(struct tree *tree, uint32_t inbox)
{
    notify_changed(tree, part_ino(inbox, MAILDIR_PART_BOX));
}

void maildir_email_gone(struct tree *tree, uint32_t inbox, uint32_t email)
{
    maildir_inbox_changed(tree, inbox);
    notify_changed(tree, node_ino(NODE_MAILDIR_MESSAGE, email));
}

/* Passes the emails of the inbox to maildir_memory_sync(). */
static int sync_memory(struct tree *tree, const struct inbox_view *inbox, uint64_t changes)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    g_autoptr(GArray) sightings = g_array_new(false, false, sizeof(struct maildir_sighting));
    uint64_t position = 0;
    size_t count;
    while ((count = store_list_emails(tree->store, inbox->number, false, position, views, next,
                                      EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            const struct maildir_sighting sighting = {
                .email = views[i].number,
                .id = store_get_email_id(tree->store, views[i].number),
                .epoch_s = views[i].date_ms / MS_PER_S,
            };
            g_array_append_val(sightings, sighting);
        }
        position = next[count - 1];
    }
    return maildir_memory_sync(tree->maildir->memory, inbox->number, changes,
                               (struct maildir_sighting *)(void *)sightings->data, sightings->len,
                               inbox->changed_ms * NS_PER_MS);
}

/* Gets the inbox and, if the inbox changed, updates the memory, which waits for the disk. */
static int refresh_memory(struct tree *tree, uint32_t inbox, struct inbox_view *ret)
{
    struct maildir_memory *memory = tree->maildir->memory;
    struct maildir_state state;
    if (!store_get_inbox(tree->store, inbox, ret))
        return -ENOENT;
    if (maildir_memory_get_state(memory, inbox, &state) && !state.is_stale)
        return 0;
    pthread_mutex_lock(&tree->maildir->sync_lock);
    int error = maildir_memory_add_inbox(memory, inbox, ret->id);
    bool is_stale = error == 0 && maildir_memory_get_state(memory, inbox, &state) && state.is_stale;
    if (is_stale)
        error = sync_memory(tree, ret, state.changes);
    pthread_mutex_unlock(&tree->maildir->sync_lock);
    if (is_stale)
        notify_messages_changed(tree, inbox);
    return error;
}

/* ---------------------------------------------------------------- entries */

static struct timespec changed_at(struct tree *tree, const struct inbox_view *inbox, enum maildir_part part)
{
    struct maildir_state state = {.uidvalidity = 0};
    int64_t ns = part == MAILDIR_PART_BOX ? inbox->record_ms * NS_PER_MS : 0;
    maildir_memory_get_state(tree->maildir->memory, inbox->number, &state);
    if ((unsigned int)part < MAILDIR_FOLDERS)
        ns = state.changed_ns[part];
    if (ns == 0)
        ns = tree->started_ms * NS_PER_MS;
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

/* Writes the content of .uidvalidity. Returns its length. */
static size_t write_uidvalidity_text(struct tree *tree, uint32_t inbox, char ret_text[UIDVALIDITY_SIZE])
{
    struct maildir_state state = {.uidvalidity = 0};
    maildir_memory_get_state(tree->maildir->memory, inbox, &state);
    /* The second line is the highest U number that mail may have. mbsync, which regards a higher number as
     * damage, may find mail that arrived after it read this file. */
    uint32_t taken = (state.uid_max / UIDS_AT_ONCE + 1) * UIDS_AT_ONCE;
    int len = snprintf(ret_text, UIDVALIDITY_SIZE, "%u\n%u\n", state.uidvalidity, taken);
    return (size_t)len;
}

static void fill_part(struct tree *tree, const struct inbox_view *inbox, enum maildir_part part,
                      struct tree_entry *ret)
{
    entry_fill(tree, part_ino(inbox->number, part), S_IFDIR | 0700, 0, changed_at(tree, inbox, part), LASTING,
               ret);
    if (part == MAILDIR_PART_BOX)
        ret->attributes.stat.st_nlink = BOX_LINKS;
}

/* A message of unknown size gets no inode number, so that the kernel looks its name up before it uses the
 * attributes. */
static void fill_message(const struct tree *tree, const struct email_view *email,
                         const struct maildir_mail *mail, struct tree_entry *ret)
{
    bool has_size = mail->size >= 0;
    entry_fill(tree, node_ino(NODE_MAILDIR_MESSAGE, email->number), S_IFREG | 0444,
               has_size ? (uint64_t)mail->size : 0, timespec_of_ms(email->date_ms), LASTING, ret);
    if (!has_size)
        ret->ino = 0;
}

/* Returns true if the email exists, and is still in its inbox, which exists, too. */
static bool find_present(struct tree *tree, uint32_t email, struct email_view *ret)
{
    struct inbox_view inbox;
    return store_get_email(tree->store, email, ret) && !ret->is_gone && !ret->is_quarantined &&
           store_get_inbox(tree->store, ret->inbox, &inbox);
}

static int get_part(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret)
{
    struct inbox_view inbox;
    int error = 0;
    if (!is_box(ino))
        error = refresh_memory(tree, inbox_of(ino), &inbox);
    else if (!store_get_inbox(tree->store, inbox_of(ino), &inbox))
        error = -ENOENT;
    if (error == 0)
        fill_part(tree, &inbox, part_of(ino), ret);
    return error;
}

static int get_uidvalidity(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                           struct tree_entry *ret)
{
    struct inbox_view inbox;
    char text[UIDVALIDITY_SIZE];
    int error = refresh_memory(tree, (uint32_t)node_number(ino), &inbox);
    if (error == 0)
        entry_fill(tree, ino, S_IFREG | 0600, write_uidvalidity_text(tree, inbox.number, text),
                   changed_at(tree, &inbox, MAILDIR_PART_NEW), LASTING_NAME, ret);
    return error;
}

static int get_message(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                       struct tree_entry *ret)
{
    struct email_view email;
    struct maildir_mail mail;
    if (!find_present(tree, (uint32_t)node_number(ino), &email) ||
        !maildir_memory_find_email(tree->maildir->memory, email.inbox, email.number, &mail))
        return -ENOENT;
    fill_message(tree, &email, &mail, ret);
    ret->ino = ino;
    return 0;
}

/* ---------------------------------------------------------------- local files */

/* A folder in which notmuch(1) makes its index. */
static const char notmuch_name[] = ".notmuch";

static bool holds_local(uint64_t folder)
{
    return is_box(folder) || node_kind(folder) == NODE_MAILDIRS;
}

/* Returns true if the folder can have a local file of this name. */
static bool is_local(uint64_t folder, const char *name)
{
    return holds_local(folder) && strcmp(name, uidvalidity_name) != 0 &&
           (name[0] == '.' || strncmp(name, "dovecot", 7) == 0);
}

/* Opens the folder on the disk that has the local files of a folder, or makes it if `is_made`. It is named
 * after the inbox's id, since numbers change with each mount. Return: 0; -ENOENT when there is none; another
 * -errno. */
static int open_local(const struct tree *tree, uint64_t folder, bool is_made, DIR **ret_dir)
{
    struct inbox_view inbox;
    char digest[65] = "all";
    char path[64];
    if (is_box(folder)) {
        if (!store_get_inbox(tree->store, inbox_of(folder), &inbox))
            return -ENOENT;
        hash_sha256(inbox.id, strlen(inbox.id), digest);
    }
    snprintf(path, sizeof(path), "files/%.32s", digest);
    _cleanup_close_ int made_fd = is_made ? file_open_dir(tree->maildir->dir_fd, path) : -1;
    if (is_made && made_fd < 0)
        return made_fd;
    *ret_dir = file_opendirat(tree->maildir->dir_fd, path);
    return *ret_dir != NULL ? 0 : -errno;
}

/* Returns the next local file of a folder that open_local() opened, or NULL. */
static const struct dirent *next_local(DIR *dir)
{
    const struct dirent *item = dir != NULL ? readdir(dir) : NULL;
    while (item != NULL && (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0))
        item = readdir(dir);
    return item;
}

/* ---------------------------------------------------------------- lookup */

/* Finds the message of this name in cur or new. Return: 0 or -ENOENT. */
static int find_message(struct tree *tree, uint64_t folder, const char *text, struct maildir_mail *ret_mail,
                        struct email_view *ret_email)
{
    struct maildir_name name;
    if (!holds_messages(folder) || !maildir_name_parse(text, &name) ||
        !maildir_memory_find_uid(tree->maildir->memory, inbox_of(folder), name.uid, ret_mail))
        return -ENOENT;
    const struct maildir_name *known = &ret_mail->name;
    bool is_same = maildir_name_is_same_message(&name, known) && ret_mail->folder == folder_of(folder) &&
                   known->has_info == name.has_info && known->flags == name.flags;
    return is_same && maildir_mail_is_shown(ret_mail) && find_present(tree, ret_mail->email, ret_email)
               ? 0
               : -ENOENT;
}

/* Fetches the message if its size is not known; the bytes stay in the cache. */
static int lookup_message(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                          const char *name, struct tree_entry *ret)
{
    struct maildir_mail mail;
    struct email_view email;
    uint64_t len;
    int error = find_message(tree, parent, name, &mail, &email);
    if (error == 0 && mail.size < 0) {
        error = store_content_get_len(tree->store, email.number, NULL, caller->cancel, &len);
        if (error == 0) {
            mail.size = (int64_t)len;
            maildir_memory_note_size(tree->maildir->memory, email.inbox, mail.name.uid, mail.size);
        }
    }
    if (error == 0)
        fill_message(tree, &email, &mail, ret);
    return error;
}

static int lookup_local(struct tree *tree, uint64_t folder, const char *name, struct tree_entry *ret)
{
    _cleanup_closedir_ DIR *dir = NULL;
    int error = open_local(tree, folder, false, &dir);
    return error != 0 ? error : draft_lookup_in(tree, dirfd(dir), name, ret);
}

static int lookup_in_maildir(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                             const char *name, struct tree_entry *ret)
{
    uint32_t inbox = inbox_of(folder);
    if (!is_box(folder))
        return lookup_message(tree, caller, folder, name, ret);
    if (is_local(folder, name))
        return lookup_local(tree, folder, name, ret);
    uint64_t ino = strcmp(name, uidvalidity_name) == 0 ? node_ino(NODE_UIDVALIDITY, inbox) : 0;
    for (size_t i = 0; i < ARRAY_LEN(part_names); i++)
        if (strcmp(name, part_names[i]) == 0)
            ino = part_ino(inbox, (enum maildir_part)i);
    return ino == 0 ? -ENOENT : node_get(tree, caller, ino, ret);
}

static int lookup_maildir(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                          const char *name, struct tree_entry *ret)
{
    struct inbox_view inbox;
    if (is_local(folder, name))
        return lookup_local(tree, folder, name, ret);
    if (!store_find_inbox(tree->store, name, &inbox))
        return -ENOENT;
    fill_part(tree, &inbox, MAILDIR_PART_BOX, ret);
    return 0;
}

/* ---------------------------------------------------------------- announced mail */

void maildir_email_appeared(struct tree *tree, uint32_t inbox, uint32_t email)
{
    if (maildir_memory_has_inbox(tree->maildir->memory, inbox))
        notify_message_appeared(tree, node_ino(NODE_MAILDIR_MESSAGE, email));
}

int tree_find_announced(struct tree *tree, uint64_t ino, char *ret_path, size_t size)
{
    struct email_view email;
    struct inbox_view inbox;
    struct maildir_memory *memory = tree->maildir->memory;
    struct maildir_mail mail;
    char text[MAILDIR_NAME_SIZE];
    if (node_kind(ino) != NODE_MAILDIR_MESSAGE || !find_present(tree, (uint32_t)node_number(ino), &email) ||
        !store_get_inbox(tree->store, email.inbox, &inbox))
        return -ENOENT;
    if (!maildir_memory_find_email(memory, email.inbox, email.number, &mail) || mail.is_gone) {
        int error = refresh_memory(tree, email.inbox, &inbox);
        if (error != 0)
            return error;
        if (!maildir_memory_find_email(memory, email.inbox, email.number, &mail))
            return -ENOENT;
    }
    if (!maildir_mail_is_shown(&mail) || mail.folder != MAILDIR_NEW)
        return -ENOENT;
    maildir_name_format(&mail.name, text);
    int len = snprintf(ret_path, size, "maildir/%s/new/%s", inbox.name, text);
    return len >= 0 && (size_t)len < size ? 0 : -ENAMETOOLONG;
}

static int lookup_announced(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                            const char *name, struct tree_entry *ret)
{
    struct maildir_mail mail;
    struct email_view email;
    if (part_of(folder) != MAILDIR_PART_NEW)
        return -EPERM;
    int error = find_message(tree, folder, name, &mail, &email);
    if (error != 0)
        return error;
    fill_message(tree, &email, &mail, ret);
    if (mail.size < 0) {
        ret->ino = node_ino(NODE_MAILDIR_MESSAGE, email.number);
        ret->is_name_lasting = false;
        ret->attributes.is_lasting = false;
    }
    return 0;
}

/* ---------------------------------------------------------------- names made */

/* Opens the folder on the disk, or makes it, for one more local file. Return: 0; -ENOSPC when there are
 * LOCAL_MAX; another -errno. */
static int open_local_to_add(const struct tree *tree, uint64_t folder, DIR **ret_dir)
{
    size_t files = 0;
    int error = open_local(tree, folder, true, ret_dir);
    while (error == 0 && next_local(*ret_dir) != NULL)
        files++;
    return files < LOCAL_MAX ? error : -ENOSPC;
}

static int make_local_dir(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                          const char *name, const struct tree_new_entry *what, struct tree_entry *ret)
{
    _cleanup_closedir_ DIR *dir = NULL;
    if (!S_ISDIR(what->mode) || !is_local(folder, name) || strcmp(name, notmuch_name) != 0)
        return -EPERM;
    int error = open_local_to_add(tree, folder, &dir);
    if (error == 0 && mkdirat(dirfd(dir), name, what->mode & 0700) != 0)
        error = -errno;
    return error != 0 ? error : draft_lookup_in(tree, dirfd(dir), name, ret);
}

static int create_local(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                        const char *name, mode_t mode, int flags, struct tree_entry *ret_entry,
                        struct tree_handle **ret_handle)
{
    _cleanup_closedir_ DIR *dir = NULL;
    /* A program creates a file in tmp to deliver mail. IMAP servers pass EDQUOT to their clients, but treat
     * other errors as defects. */
    if (node_kind(folder) == NODE_MAILDIR && part_of(folder) == MAILDIR_PART_TMP)
        return -EDQUOT;
    if (!is_local(folder, name))
        return -EPERM;
    int error = open_local_to_add(tree, folder, &dir);
    return error != 0 ? error : draft_create_in(tree, dirfd(dir), name, mode, flags, ret_entry, ret_handle);
}

/* ---------------------------------------------------------------- removals and renames */

/* The first removal of a message only marks it as trashed; the second removes it from the Maildir. Removals
 * are not refused, because IMAP servers cannot refuse an EXPUNGE, and mbsync(1) would try again each time. */
static int remove_message(struct tree *tree, uint64_t folder, const char *name)
{
    struct maildir_mail mail;
    struct email_view email;
    int error = find_message(tree, folder, name, &mail, &email);
    if (error != 0)
        return error;
    uint64_t trashed = maildir_flag_bit('T');
    if ((mail.name.flags & trashed) != 0)
        return maildir_memory_remove(tree->maildir->memory, email.inbox, mail.name.uid);
    mail.name.has_info = true;
    mail.name.flags |= trashed;
    return maildir_memory_mark(tree->maildir->memory, email.inbox, folder_of(folder), &mail.name);
}

/* The new name must be a name of the same message: other renames would deliver or remove mail. */
static int mark_message(struct tree *tree, uint64_t folder, const char *name, uint64_t new_folder,
                        const char *new_name)
{
    struct maildir_name to;
    struct maildir_mail mail;
    struct email_view email;
    int error = find_message(tree, folder, name, &mail, &email);
    if (error != 0)
        return error;
    if (inbox_of(folder) != inbox_of(new_folder) || !maildir_name_parse(new_name, &to) ||
        !maildir_name_is_same_message(&mail.name, &to))
        return -EPERM;
    return maildir_memory_mark(tree->maildir->memory, email.inbox, folder_of(new_folder), &to);
}

static int remove_local(struct tree *tree, uint64_t folder, const char *name, int flags)
{
    _cleanup_closedir_ DIR *dir = NULL;
    int error = is_local(folder, name) ? open_local(tree, folder, false, &dir) : -EPERM;
    return error == 0 && unlinkat(dirfd(dir), name, flags) != 0 ? -errno : error;
}

static int remove_local_dir(struct tree *tree, uint64_t folder, const char *name)
{
    return remove_local(tree, folder, name, AT_REMOVEDIR);
}

static int unlink_in_maildir(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                             const char *name)
{
    return holds_messages(folder) ? remove_message(tree, folder, name) : remove_local(tree, folder, name, 0);
}

static int rename_local(struct tree *tree, uint64_t folder, const char *name, uint64_t new_folder,
                        const char *new_name, unsigned int flags)
{
    _cleanup_closedir_ DIR *dir = NULL;
    _cleanup_closedir_ DIR *new_dir = NULL;
    int error = open_local(tree, folder, false, &dir);
    if (error == 0)
        error = folder == new_folder ? open_local(tree, folder, false, &new_dir)
                                     : open_local_to_add(tree, new_folder, &new_dir);
    return error == 0 && renameat2(dirfd(dir), name, dirfd(new_dir), new_name, flags) != 0 ? -errno : error;
}

static int rename_into_maildir(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                               const char *name, uint64_t new_folder, const char *new_name,
                               unsigned int flags)
{
    if (is_local(folder, name) && is_local(new_folder, new_name))
        return rename_local(tree, folder, name, new_folder, new_name, flags);
    if (holds_messages(folder) && holds_messages(new_folder))
        return mark_message(tree, folder, name, new_folder, new_name);
    return -EPERM;
}

/* ---------------------------------------------------------------- listings */

static int open_maildir(const struct tree_caller *caller, struct tree_dir *dir)
{
    struct tree *tree = dir->base.tree;
    struct inbox_view inbox;
    DIR *local = NULL;
    int error = node_kind(dir->ino) == NODE_MAILDIR ? refresh_memory(tree, inbox_of(dir->ino), &inbox) : 0;
    if (error != 0)
        return error;
    dir->base.caching = holds_messages(dir->ino) ? TREE_CACHE_LASTING : TREE_CACHE_OPEN;
    if (holds_local(dir->ino))
        error = open_local(tree, dir->ino, false, &local);
    dir->state = local;
    return error == -ENOENT ? 0 : error;
}

static void release_maildir_dir(struct tree_dir *dir)
{
    DIR *local = dir->state;
    cleanup_closedir(&local);
}

/* Passes the local files. Their positions end at LOCAL_MAX, where those of the other entries begin. Returns
 * false if the buffer is full; otherwise *position becomes a position among the others, from 0 on. */
static bool put_local(const struct tree_dir *dir, uint64_t *position)
{
    const struct dirent *item;
    if (dir->state != NULL)
        rewinddir(dir->state);
    for (uint64_t i = 0; i < LOCAL_MAX && (item = next_local(dir->state)) != NULL; i++)
        if (i >= *position &&
            !dir_put_name(dir, item->d_name, draft_shown_ino(item->d_ino), DTTOIF(item->d_type), i + 1))
            return false;
    *position -= MIN(*position, (uint64_t)LOCAL_MAX);
    return true;
}

static int read_maildirs(struct tree_dir *dir, uint64_t position)
{
    struct inbox_view view;
    struct tree_entry entry;
    if (!put_local(dir, &position))
        return 0;
    while (store_next_inbox(dir->base.tree->store, &position, &view)) {
        fill_part(dir->base.tree, &view, MAILDIR_PART_BOX, &entry);
        if (!dir_put(dir, view.name, &entry, LOCAL_MAX + position))
            break;
    }
    return 0;
}

/* Positions are U numbers. */
static void read_messages(const struct tree_dir *dir, uint64_t position)
{
    struct tree *tree = dir->base.tree;
    uint32_t uid = (uint32_t)position;
    char text[MAILDIR_NAME_SIZE];
    struct maildir_mail mail;
    struct email_view email;
    struct tree_entry entry;
    while (maildir_memory_find_next(tree->maildir->memory, inbox_of(dir->ino), folder_of(dir->ino), uid,
                                    &mail)) {
        uid = mail.name.uid;
        if (!find_present(tree, mail.email, &email))
            continue;
        maildir_name_format(&mail.name, text);
        fill_message(tree, &email, &mail, &entry);
        if (!dir_put(dir, text, &entry, uid))
            return;
    }
}

static int read_maildir(struct tree_dir *dir, uint64_t position)
{
    if (holds_messages(dir->ino))
        read_messages(dir, position);
    if (!is_box(dir->ino) || !put_local(dir, &position))
        return 0;
    /* Passes only the names of cur, new and tmp, since their lookup updates the memory. .uidvalidity is not
     * listed: notmuch(1) would take it for mail. */
    for (uint64_t i = position; i < ARRAY_LEN(part_names); i++)
        if (!dir_put_name(dir, part_names[i], part_ino(inbox_of(dir->ino), (enum maildir_part)i), S_IFDIR,
                          i + 1 + LOCAL_MAX))
            break;
    return 0;
}

static int64_t maildirs_changed_ms(const struct tree *tree, uint64_t ino)
{
    return store_inboxes_changed_ms(tree->store);
}

const struct node_ops maildirs_ops = {
    .init = init_maildir,
    .release = release_maildir,
    .state_name = "maildir",
    .mode = S_IFDIR | 0700,
    .lasting = LASTING,
    .changed_ms = maildirs_changed_ms,
    .lookup = lookup_maildir,
    .open_dir = open_maildir,
    .read_dir = read_maildirs,
    .release_dir = release_maildir_dir,
    .create = create_local,
    .make = make_local_dir,
    .remove_dir = remove_local_dir,
    .unlink = unlink_in_maildir,
    .rename = rename_into_maildir,
};

const struct node_ops maildir_ops = {
    .get = get_part,
    .lookup = lookup_in_maildir,
    .lookup_announced = lookup_announced,
    .open_dir = open_maildir,
    .read_dir = read_maildir,
    .release_dir = release_maildir_dir,
    .create = create_local,
    .make = make_local_dir,
    .remove_dir = remove_local_dir,
    .unlink = unlink_in_maildir,
    .rename = rename_into_maildir,
};

/* ---------------------------------------------------------------- open files */

static int open_message(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                        struct tree_handle **ret_handle)
{
    struct tree_entry entry;
    struct store_content *content;
    if (!handle_is_for_reading(flags))
        return -EACCES;
    int error = get_message(tree, caller, ino, &entry);
    if (error == 0)
        error =
            store_content_get_bytes(tree->store, (uint32_t)node_number(ino), NULL, caller->cancel, &content);
    if (error == 0)
        content_open(tree, content, NULL, flags, ret_handle);
    return error;
}

const struct node_ops maildir_message_ops = {
    .get = get_message, .open = open_message, .answers_at_once = true};

struct uidvalidity_handle {
    struct tree_handle base;
    size_t len;
    char text[UIDVALIDITY_SIZE];
};

static int read_uidvalidity(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct uidvalidity_handle *uidvalidity = (struct uidvalidity_handle *)handle;
    return handle_read_text(uidvalidity->text, uidvalidity->len, len, offset, ret);
}

/* Only the current text may be written, since no program but this one may number messages. */
static ssize_t write_uidvalidity(struct tree_handle *handle, const struct tree_caller *caller,
                                 const void *bytes, size_t len, off_t offset)
{
    const struct uidvalidity_handle *uidvalidity = (struct uidvalidity_handle *)handle;
    bool is_same = offset >= 0 && (size_t)offset <= uidvalidity->len &&
                   len <= uidvalidity->len - (size_t)offset &&
                   memcmp(uidvalidity->text + offset, bytes, len) == 0;
    return is_same ? (ssize_t)len : -EPERM;
}

static int set_uidvalidity_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    return size == (off_t)((struct uidvalidity_handle *)handle)->len ? 0 : -EPERM;
}

static int open_uidvalidity(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                            struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE,
        .read = read_uidvalidity,
        .write = write_uidvalidity,
        .set_size = set_uidvalidity_size,
        .release = tree_handle_free,
    };
    if ((flags & O_TRUNC) != 0)
        return -EPERM;
    struct uidvalidity_handle *uidvalidity = handle_new(tree, &ops, sizeof(*uidvalidity), flags);
    uidvalidity->len = write_uidvalidity_text(tree, (uint32_t)node_number(ino), uidvalidity->text);
    *ret_handle = &uidvalidity->base;
    return 0;
}

const struct node_ops uidvalidity_ops = {.get = get_uidvalidity, .open = open_uidvalidity};
