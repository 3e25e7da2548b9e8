/* SPDX-License-Identifier: MIT */
/*
 * Maildirs: what is where, and as what; marks, listings and open files.
 */
#include "tree/maildir.h"

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
#include "mail/maildir_name.h"
#include "store/store_content.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
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

/* ---------------------------------------------------------------- programs' own files */

/* Ordinary files in the state directory, known to the kernel as drafts are. */

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

/* ---------------------------------------------------------------- names removed and renamed: of messages,
 * these are marks */

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

/* ---------------------------------------------------------------- listings: a message whose size is not
 * known is given by its name alone */

enum {
    FETCHED_FIRST = 32
};

/* Nothing to be looked for, in a box that may be long: `new` usually is so. */
static bool is_empty(struct tree *tree, uint32_t inbox, enum maildir_folder folder)
{
    struct maildir_state state;
    return !maildir_memory_get_state(tree->maildir.memory, inbox, &state) || state.present[folder] == 0;
}

/* Who lists a folder is going to look at what is in it: the first ones are on their way then, and the store
 * goes on ahead of whoever reads one after the other. */
static void fetch_first(struct tree *tree, uint32_t inbox, enum maildir_folder folder)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    uint32_t wanted[FETCHED_FIRST];
    struct maildir_mail mail;
    size_t len = 0;
    uint64_t position = 0;
    size_t count;
    if (is_empty(tree, inbox, folder))
        return;
    while (len < FETCHED_FIRST &&
           (count = store_list_emails(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count && len < FETCHED_FIRST; i++)
            if (maildir_memory_find_email(tree->maildir.memory, inbox, views[i].number, &mail) &&
                mail.folder == folder && mail.size < 0)
                wanted[len++] = views[i].number;
        position = next[count - 1];
    }
    store_prefetch_raw(tree->store, wanted, len);
}

int maildir_open_dir(struct tree *tree, uint64_t folder, struct maildir_names *ret_local)
{
    uint32_t inbox = maildir_inbox(folder);
    int error = inode_kind(folder) == INODE_MAILDIR ? maildir_refresh(tree, inbox) : 0;
    if (error == 0 && maildir_holds_messages(folder))
        fetch_first(tree, inbox, maildir_node(folder) == MAILDIR_NODE_CUR ? MAILDIR_CUR : MAILDIR_NEW);
    return error != 0 ? error : maildir_list_local(tree, folder, ret_local);
}

/* Where entries go. Positions count from 0, with `base` added for the outside. */
struct maildir_output {
    tree_dir_sink sink;
    void *context;
    uint64_t base;
};

static bool put(const struct maildir_output *out, const char *name, const struct tree_entry *entry,
                uint64_t next)
{
    return out->sink(out->context, name, entry, out->base + next);
}

static bool put_name(const struct maildir_output *out, const char *name, uint64_t shown_ino, mode_t mode,
                     uint64_t next)
{
    const struct tree_entry entry = {.attributes.stat = {.st_ino = shown_ino, .st_mode = mode}};
    return put(out, name, &entry, next);
}

static bool put_local(const struct maildir_names *local, uint64_t *position, const struct maildir_output *out)
{
    for (; *position < local->len; ++*position) {
        const struct maildir_local *item = &local->items[*position];
        if (!put_name(out, item->name, item->shown_ino, item->type, *position + 1))
            return false;
    }
    return true;
}

/* Programs' own files first: how many there are does not change while this is listed. */
static void read_root(struct tree *tree, const struct maildir_names *local, uint64_t position,
                      const struct maildir_output *out)
{
    struct inbox_view view;
    struct tree_entry entry;
    uint64_t next;
    if (!put_local(local, &position, out))
        return;
    position -= local->len;
    while (store_list_inboxes(tree->store, position, &view, &next, 1) == 1) {
        if (!maildir_get_entry(tree, maildir_ino(view.number, MAILDIR_NODE_BOX), &entry) ||
            put(out, view.name, &entry, local->len + next))
            position = next;
        else
            return;
    }
}

/* The folders by name alone: looking them up brings what is remembered of them up to date. .uidvalidity is
 * for those who know of it: notmuch(1) would take it for mail. */
static void read_box(uint32_t inbox, const struct maildir_names *local, uint64_t position,
                     const struct maildir_output *out)
{
    static const char *const names[] = {
        [MAILDIR_NODE_CUR] = "cur", [MAILDIR_NODE_NEW] = "new", [MAILDIR_NODE_TMP] = "tmp"};
    if (!put_local(local, &position, out))
        return;
    for (uint64_t i = position - local->len + MAILDIR_NODE_CUR; i <= MAILDIR_NODE_TMP; i++)
        if (!put_name(out, names[i], maildir_ino(inbox, (enum maildir_node)i), S_IFDIR,
                      i + 1 - MAILDIR_NODE_CUR + local->len))
            return;
}

static void read_messages(struct tree *tree, uint32_t inbox, enum maildir_folder folder, uint64_t position,
                          const struct maildir_output *out)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    char name[MAILDIR_NAME_SIZE];
    struct tree_entry entry;
    size_t count;
    if (is_empty(tree, inbox, folder))
        return;
    while ((count = store_list_emails(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++)
            if (maildir_get_message(tree, &views[i], folder, name, &entry) &&
                !put(out, name, &entry, next[i]))
                return;
        position = next[count - 1];
    }
}

int maildir_read_dir(struct tree *tree, uint64_t folder, const struct maildir_names *local, uint64_t position,
                     tree_dir_sink sink, void *context, uint64_t base)
{
    const struct maildir_output out = {.sink = sink, .context = context, .base = base};
    if (inode_kind(folder) != INODE_MAILDIR) {
        read_root(tree, local, position, &out);
        return 0;
    }
    uint32_t inbox = maildir_inbox(folder);
    switch (maildir_node(folder)) {
    case MAILDIR_NODE_BOX:
        read_box(inbox, local, position, &out);
        break;
    case MAILDIR_NODE_CUR:
        read_messages(tree, inbox, MAILDIR_CUR, position, &out);
        break;
    case MAILDIR_NODE_NEW:
        read_messages(tree, inbox, MAILDIR_NEW, position, &out);
        break;
    default:
        break;
    }
    return 0;
}

/* ---------------------------------------------------------------- open files */

struct message_handle {
    struct tree_handle base;
    struct store_bytes bytes;
};

/* Never waits: all of it was fetched when it was opened. */
static int read_message(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct message_handle *message = (struct message_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    if ((uint64_t)offset >= message->bytes.len)
        return 0;
    uint64_t rest = message->bytes.len - (uint64_t)offset;
    ret->fd = message->bytes.fd;
    ret->offset = offset;
    ret->len = len < rest ? len : (size_t)rest;
    return 0;
}

static void release_message(struct tree_handle *handle)
{
    struct message_handle *message = (struct message_handle *)handle;
    cleanup_close(&message->bytes.fd);
    free(message);
}

int maildir_message_open(struct tree *tree, const struct tree_caller *caller, uint32_t email, int flags,
                         struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_LASTING, .read = read_message, .release = release_message};
    struct tree_entry entry;
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0)
        return -EACCES;
    if (!maildir_get_entry(tree, inode_make(INODE_MAILDIR_MESSAGE, email), &entry))
        return -ENOENT;
    struct message_handle *message = handle_new(tree, &ops, sizeof(*message), flags);
    if (message == NULL)
        return -ENOMEM;
    int error = store_raw_open(tree->store, email, caller->cancel, &message->bytes);
    if (error != 0) {
        free(message);
        return error;
    }
    *ret_handle = &message->base;
    return 0;
}

/* ---------------------------------------------------------------- .uidvalidity */

struct uidvalidity_handle {
    struct tree_handle base;
    size_t len;
    char text[MAILDIR_UIDVALIDITY_SIZE];
};

static int read_uidvalidity(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct uidvalidity_handle *uidvalidity = (struct uidvalidity_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= uidvalidity->len)
        return 0;
    size_t rest = uidvalidity->len - (size_t)offset;
    ret->bytes = uidvalidity->text + offset;
    ret->len = len < rest ? len : rest;
    return 0;
}

/* What it says already may be written again. Numbers are given here alone. */
static ssize_t write_uidvalidity(struct tree_handle *handle, const struct tree_caller *caller,
                                 const void *bytes, size_t len, off_t offset)
{
    const struct uidvalidity_handle *uidvalidity = (struct uidvalidity_handle *)handle;
    (void)caller;
    bool is_same = offset >= 0 && (size_t)offset <= uidvalidity->len &&
                   len <= uidvalidity->len - (size_t)offset &&
                   memcmp(uidvalidity->text + offset, bytes, len) == 0;
    return is_same ? (ssize_t)len : -EPERM;
}

static int set_uidvalidity_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    (void)caller;
    return size == (off_t)((struct uidvalidity_handle *)handle)->len ? 0 : -EPERM;
}

static void release_uidvalidity(struct tree_handle *handle)
{
    free(handle);
}

int maildir_uidvalidity_open(struct tree *tree, uint32_t inbox, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE,
        .read = read_uidvalidity,
        .write = write_uidvalidity,
        .set_size = set_uidvalidity_size,
        .release = release_uidvalidity,
    };
    if ((flags & O_TRUNC) != 0)
        return -EPERM;
    struct uidvalidity_handle *uidvalidity = handle_new(tree, &ops, sizeof(*uidvalidity), flags);
    if (uidvalidity == NULL)
        return -ENOMEM;
    uidvalidity->len = maildir_uidvalidity(tree, inbox, uidvalidity->text);
    *ret_handle = &uidvalidity->base;
    return 0;
}
