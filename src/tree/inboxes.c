/* SPDX-License-Identifier: MIT */
/*
 * Inboxes. The inbox's own files come first in a listing. The position behind an email is twice the store's,
 * less one where its folder is still to come: a listing may stop between the two.
 */
#include "tree/inboxes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/inbox_record.h"
#include "outbox/writer_fate.h"
#include "tree/email_folder.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
#include "tree/inode.h"
#include "tree/root.h"
#include "tree/search.h"
#include "tree/tree_state.h"

/* ---------------------------------------------------------------- which emails are asked for one by one */

/* An inbox in the upper half, a number of lookups in the lower. Counts that threads take from each other are
 * few. */

void attribute_demand_note(struct attribute_demand *demand, uint32_t inbox)
{
    uint64_t first = (uint64_t)inbox << 32;
    uint64_t now = atomic_load_explicit(&demand->inbox_and_lookups, memory_order_relaxed);
    if (now >> 32 != inbox)
        now = first;
    if (now < first + LOOKUPS_OF_DEMAND)
        atomic_store_explicit(&demand->inbox_and_lookups, now + 1, memory_order_relaxed);
}

bool attribute_demand_is_seen(const struct attribute_demand *demand, uint32_t inbox)
{
    uint64_t now = atomic_load_explicit(&demand->inbox_and_lookups, memory_order_relaxed);
    return now == ((uint64_t)inbox << 32) + LOOKUPS_OF_DEMAND;
}

/* ---------------------------------------------------------------- first opens */

enum {
    WORD_BITS = 64,
    GROWTH_WORDS = 256, /* 16,384 emails */
};

void first_opens_init(struct first_opens *opens)
{
    *opens = (struct first_opens){.words = NULL};
    pthread_mutex_init(&opens->lock, NULL);
}

void first_opens_release(struct first_opens *opens)
{
    free(opens->words);
    pthread_mutex_destroy(&opens->lock);
}

static bool has_room_locked(struct first_opens *opens, size_t word)
{
    if (word < opens->len)
        return true;
    size_t len = word + GROWTH_WORDS;
    uint64_t *words = realloc(opens->words, len * sizeof(*words));
    if (words == NULL)
        return false;
    memset(words + opens->len, 0, (len - opens->len) * sizeof(*words));
    opens->words = words;
    opens->len = len;
    return true;
}

bool first_opens_take(struct first_opens *opens, uint32_t number)
{
    size_t word = number / WORD_BITS;
    uint64_t bit = UINT64_C(1) << (number % WORD_BITS);
    pthread_mutex_lock(&opens->lock);
    bool is_first = has_room_locked(opens, word) && (opens->words[word] & bit) == 0;
    if (is_first)
        opens->words[word] |= bit;
    pthread_mutex_unlock(&opens->lock);
    return is_first;
}

/* ---------------------------------------------------------------- .invalid/ */

const char held_folder_name[] = ".invalid";

bool held_folder_get(struct tree *tree, uint32_t inbox, struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_shows_held(tree->store) || !store_get_inbox(tree->store, inbox, &view))
        return false;
    entry_of_inbox(tree, &view, ret);
    ret->ino = inode_make(INODE_HELD, inbox);
    ret->attributes.stat.st_ino = ret->ino;
    return true;
}

int held_folder_lookup(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_find_held(tree->store, inbox, name, &view))
        return -ENOENT;
    entry_of_email(tree, &view, ret);
    return 0;
}

bool held_folder_is_move(uint64_t parent, uint64_t new_parent)
{
    bool out = inode_kind(parent) == INODE_HELD && inode_kind(new_parent) == INODE_INBOX;
    bool in = inode_kind(parent) == INODE_INBOX && inode_kind(new_parent) == INODE_HELD;
    return (in || out) && inode_number(parent) == inode_number(new_parent);
}

int held_folder_move(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                     uint64_t new_parent, const char *new_name, unsigned int flags)
{
    _cleanup_free_ char *reason = NULL;
    struct email_view view;
    uint32_t inbox = (uint32_t)inode_number(parent);
    bool is_valid = inode_kind(new_parent) == INODE_INBOX;
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    /* The names of an inbox's own files are nobody's mail. */
    bool is_there = is_valid ? store_find_held(tree->store, inbox, name, &view)
                             : store_find_email(tree->store, inbox, name, &view);
    if (!is_there || strcmp(name, new_name) != 0)
        return -EPERM;
    return store_mark_email(tree->store, view.number, is_valid, caller->cancel, &reason);
}

/* ---------------------------------------------------------------- listings */

enum {
    POSITION_RECORD, /* inbox.json */
    POSITION_INDEX,  /* index.jsonl */
    POSITION_HELD,   /* .invalid */
    POSITION_EMAILS,
    EMAILS_AT_ONCE = 64,
};

struct inbox_listing {
    struct tree *tree;
    uint32_t inbox;
    uint64_t base;
    tree_dir_sink sink;
    void *context;
};

/* False: no room. */
static bool put(const struct inbox_listing *listing, const char *name, const struct tree_entry *entry,
                uint64_t next)
{
    return listing->sink(listing->context, name, entry, listing->base + next);
}

/* An entry of an email, by its name alone where the listing has given away attributes enough. */
static bool put_of_email(const struct inbox_listing *listing, const char *name, struct tree_entry *entry,
                         uint64_t next)
{
    if (next > POSITION_EMAILS + 2 * LISTED_WITH_ATTRIBUTES &&
        !attribute_demand_is_seen(&listing->tree->demand, listing->inbox))
        entry->ino = 0;
    return put(listing, name, entry, next);
}

static bool put_record(const struct inbox_listing *listing, const struct email_view *view, uint64_t next)
{
    struct tree_entry entry;
    entry_of_email(listing->tree, view, &entry);
    return put_of_email(listing, view->name, &entry, next);
}

static bool put_folder(const struct inbox_listing *listing, const struct email_view *view, uint64_t next)
{
    struct tree_entry entry;
    char name[NAME_MAX + 1];
    content_folder_name(view, name, sizeof(name));
    content_entry_of_folder(listing->tree, view, &entry);
    return put_of_email(listing, name, &entry, next);
}

/* The folder of the email before this position of the store, which may have gone meanwhile. */
static bool put_folder_before(const struct inbox_listing *listing, uint64_t position)
{
    struct email_view view;
    uint64_t next;
    if (store_list_emails(listing->tree->store, listing->inbox, position - 1, &view, &next, 1) == 0 ||
        next != position)
        return true;
    return put_folder(listing, &view, POSITION_EMAILS + 2 * position);
}

static void put_emails(const struct inbox_listing *listing, uint64_t position)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    struct store *store = listing->tree->store;
    bool has_folders = store_has_content(store);
    size_t count;
    if (position % 2 == 1 && !put_folder_before(listing, (position + 1) / 2))
        return;
    position = (position + 1) / 2;
    while ((count = store_list_emails(store, listing->inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            uint64_t behind = POSITION_EMAILS + 2 * next[i];
            if (!put_record(listing, &views[i], has_folders ? behind - 1 : behind) ||
                (has_folders && !put_folder(listing, &views[i], behind)))
                return;
        }
        position = next[count - 1];
    }
}

/* The entry at a position before POSITION_EMAILS. NULL: there is none. */
static const char *own_file(struct tree *tree, const struct inbox_view *view, uint64_t position,
                            struct tree_entry *ret)
{
    switch (position) {
    case POSITION_RECORD:
        entry_of_inbox_record(tree, view, ret);
        return inbox_record_name;
    case POSITION_INDEX:
        entry_of_inbox_index(tree, view, ret);
        return inbox_index_name;
    default:
        return held_folder_get(tree, view->number, ret) ? held_folder_name : NULL;
    }
}

void inbox_list(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                void *context)
{
    const struct inbox_listing listing = {tree, inbox, base, sink, context};
    struct inbox_view view;
    struct tree_entry entry;
    if (position < POSITION_EMAILS && !store_get_inbox(tree->store, inbox, &view))
        return;
    for (; position < POSITION_EMAILS; position++) {
        const char *name = own_file(tree, &view, position, &entry);
        if (name != NULL && !put(&listing, name, &entry, position + 1))
            return;
    }
    put_emails(&listing, position - POSITION_EMAILS);
}

void inbox_list_held(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                     void *context)
{
    const struct inbox_listing listing = {tree, inbox, base, sink, context};
    struct tree_entry entry;
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    size_t count;
    while ((count = store_list_held(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            entry_of_email(tree, &views[i], &entry);
            if (!put(&listing, views[i].name, &entry, next[i]))
                return;
        }
        position = next[count - 1];
    }
}

/* ---------------------------------------------------------------- emails */

enum {
    FIRST_CONTENT_MAX_BYTES = 16 * 1024 /* nearly every record */
};

struct email_handle {
    struct tree_handle base;
    uint32_t number;
};

/* The record of this moment, not that of the open: the kernel keeps what it reads for every reader of the
 * file, so old text given to an old reader would be everybody's. */
static int read_email(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct email_handle *email = (struct email_handle *)handle;
    char *text;
    size_t text_len;
    int error = store_read_email(handle->tree->store, email->number, &text, &text_len);
    if (error != 0)
        return error;
    ret->owned = text;
    error = handle_read_text(text, text_len, len, offset, ret);
    if (error != 0)
        tree_data_release(ret);
    return error;
}

static bool take_first_content_of_email(struct tree_handle *handle, struct tree_data *ret)
{
    const struct email_handle *email = (struct email_handle *)handle;
    struct email_view view;
    if (!first_opens_take(&handle->tree->first_opens, email->number) ||
        !store_get_email(handle->tree->store, email->number, &view) ||
        view.json_len > FIRST_CONTENT_MAX_BYTES)
        return false;
    return read_email(handle, view.json_len, 0, ret) == 0;
}

int email_open(struct tree *tree, uint32_t number, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.caching = TREE_CACHE_LASTING,
                                          .read = read_email,
                                          .take_first_content = take_first_content_of_email,
                                          .release = tree_handle_free};
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct email_handle *email = handle_new(tree, &ops, sizeof(*email), flags);
    if (email == NULL)
        return -ENOMEM;
    email->number = number;
    *ret_handle = &email->base;
    return 0;
}

/* ---------------------------------------------------------------- index.jsonl */

struct index_handle {
    struct tree_handle base;
    struct store_index *index;
};

static int read_index(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct index_handle *index = (struct index_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ret->bytes = ret->owned;
    int error = store_index_read(index->index, (uint64_t)offset, ret->owned, len, &ret->len);
    if (error != 0)
        tree_data_release(ret);
    return error;
}

static void release_index(struct tree_handle *handle)
{
    store_index_free(((struct index_handle *)handle)->index);
    free(handle);
}

/* Not kept by the kernel: two readers who opened it before and after new mail each read their own, and lines
 * are put together faster than the kernel would have to find room for them. */
int inbox_index_open(struct tree *tree, uint32_t inbox, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE, .read = read_index, .release = release_index};
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct index_handle *index = handle_new(tree, &ops, sizeof(*index), flags);
    if (index == NULL)
        return -ENOMEM;
    int error = store_index_new(tree->store, inbox, &index->index);
    if (error != 0) {
        free(index);
        return error;
    }
    *ret_handle = &index->base;
    return 0;
}

/* ---------------------------------------------------------------- inbox.json */

/* What is written is collected, and put to the service when a descriptor is closed and the text is one
 * complete JSON value.
 *
 * A text that is not one fails the close, so that no edit is dropped in silence; but nobody sees which close
 * is the last. A shell closes a duplicate before anything is written (an empty text is no error), and what it
 * starts closes the one it was given, perhaps after a part of the text. So only the process that opened the
 * file is told: whatever else has it open, has it from there. */

enum {
    INBOX_TEXT_MAX_BYTES = 1024 * 1024
};

struct inbox_handle {
    struct tree_handle base;
    uint32_t inbox;
    pthread_mutex_t lock;
    struct strbuf text; /* protected by lock */
    bool is_changed;    /* protected by lock: since it was opened or put to the service */
    pid_t opener;       /* the process; 0: not known, so that every close counts as its own */
};

/* Every other failure is reported by the store. */
static void report_incomplete(const struct inbox_handle *inbox)
{
    struct tree *tree = inbox->base.tree;
    struct inbox_view view;
    _cleanup_free_ char *path = NULL;
    if (!store_get_inbox(tree->store, inbox->inbox, &view) ||
        asprintf(&path, "inboxes/%s/%s", view.name, inbox_record_name) < 0)
        path = NULL;
    tree_report(tree, EVENT_INBOX, path,
                "what was written is not a complete JSON value, so nothing was changed");
}

static int read_inbox(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    int error = 0;
    if (offset < 0)
        return -EINVAL;
    pthread_mutex_lock(&inbox->lock);
    if ((size_t)offset < inbox->text.len) {
        size_t rest = inbox->text.len - (size_t)offset;
        ret->len = len < rest ? len : rest;
        ret->owned = malloc(ret->len);
        ret->bytes = ret->owned;
        if (ret->owned != NULL)
            memcpy(ret->owned, inbox->text.data + offset, ret->len);
        else
            error = -ENOMEM;
    }
    pthread_mutex_unlock(&inbox->lock);
    return error;
}

static int set_len_locked(struct inbox_handle *inbox, size_t len)
{
    size_t before = inbox->text.len;
    if (len <= before) {
        strbuf_truncate(&inbox->text, len);
        return 0;
    }
    if (strbuf_reserve(&inbox->text, len - before) != 0) {
        inbox->text.error = 0;
        return -ENOMEM;
    }
    while (inbox->text.len < len)
        strbuf_append_char(&inbox->text, '\0');
    return 0;
}

static ssize_t write_inbox(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                           size_t len, off_t offset)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    (void)caller;
    if (offset < 0 || offset > INBOX_TEXT_MAX_BYTES || len > INBOX_TEXT_MAX_BYTES - (size_t)offset)
        return -EFBIG;
    size_t end = (size_t)offset + len;
    pthread_mutex_lock(&inbox->lock);
    int error = end > inbox->text.len ? set_len_locked(inbox, end) : 0;
    if (error == 0 && len > 0) {
        memcpy(inbox->text.data + offset, bytes, len);
        inbox->is_changed = true;
    }
    pthread_mutex_unlock(&inbox->lock);
    return error != 0 ? error : (ssize_t)len;
}

static int set_inbox_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    (void)caller;
    if (size < 0 || size > INBOX_TEXT_MAX_BYTES)
        return -EFBIG;
    pthread_mutex_lock(&inbox->lock);
    int error = set_len_locked(inbox, (size_t)size);
    inbox->is_changed = true;
    pthread_mutex_unlock(&inbox->lock);
    return error;
}

/* The text to put to the service, or NULL where there is nothing to do. Once taken it counts as put, so that
 * an error is told to one close(2), and the service asked once. -EINVAL: it is not complete. */
static int take_change_locked(struct inbox_handle *inbox, char **ret_text, size_t *ret_len)
{
    if (!inbox->is_changed || inbox->text.len == 0)
        return 0;
    if (!inbox_text_is_complete(inbox->text.data, inbox->text.len))
        return -EINVAL;
    char *text = malloc(inbox->text.len);
    if (text == NULL)
        return -ENOMEM;
    memcpy(text, inbox->text.data, inbox->text.len);
    *ret_text = text;
    *ret_len = inbox->text.len;
    inbox->is_changed = false;
    return 0;
}

static bool is_opener(const struct inbox_handle *inbox, const struct tree_caller *caller)
{
    return inbox->opener <= 0 || caller->pid <= 0 || writer_process(caller->pid) == inbox->opener;
}

static int flush_inbox(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    pthread_mutex_lock(&inbox->lock);
    int error = take_change_locked(inbox, &text, &len);
    pthread_mutex_unlock(&inbox->lock);
    if (error == -EINVAL && !is_opener(inbox, caller))
        return 0;
    if (error != 0 || text == NULL)
        return error;

    _cleanup_free_ char *reason = NULL;
    return store_update_inbox(handle->tree->store, inbox->inbox, text, len, caller->cancel, &reason);
}

static void release_inbox(struct tree_handle *handle)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    if (inbox->is_changed)
        report_incomplete(inbox);
    strbuf_release(&inbox->text);
    pthread_mutex_destroy(&inbox->lock);
    free(inbox);
}

int inbox_record_open(struct tree *tree, const struct tree_caller *caller, uint32_t number, int flags,
                      struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .may_wait = true,
        .read = read_inbox,
        .write = write_inbox,
        .set_size = set_inbox_size,
        .flush = flush_inbox,
        .release = release_inbox,
    };
    _cleanup_free_ char *json = NULL;
    size_t len;
    int error = store_read_inbox(tree->store, number, &json, &len);
    if (error != 0)
        return error;
    struct inbox_handle *inbox = handle_new(tree, &ops, sizeof(*inbox), flags);
    if (inbox == NULL)
        return -ENOMEM;
    inbox->inbox = number;
    if ((flags & O_ACCMODE) != O_RDONLY && caller->pid > 0)
        inbox->opener = writer_process(caller->pid);
    inbox->text = STRBUF_INIT(len + INBOX_TEXT_MAX_BYTES);
    inbox->is_changed = (flags & O_TRUNC) != 0;
    pthread_mutex_init(&inbox->lock, NULL);
    if ((flags & O_TRUNC) == 0 && strbuf_append(&inbox->text, json, len) != 0) {
        release_inbox(&inbox->base);
        return -ENOMEM;
    }
    *ret_handle = &inbox->base;
    return 0;
}
