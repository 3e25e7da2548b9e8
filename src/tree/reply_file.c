/* SPDX-License-Identifier: MIT */
/*
 * The files reply, reply-all and forward: what an answer through one is made of, and open files of them.
 */
#include "tree/reply_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/store_content.h"
#include "tree/email_folder.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
#include "tree/inode.h"
#include "tree/tree_state.h"

enum {
    KIND_BITS = 2,
    INBOXES_AT_ONCE = 64,
};

static const char *const names[] = {
    [REPLY_SENDER] = "reply",
    [REPLY_ALL] = "reply-all",
    [REPLY_FORWARD] = "forward",
};

/* ---------------------------------------------------------------- doors */

struct answer_door answer_door_of(uint64_t ino)
{
    uint64_t number = inode_number(ino);
    return (struct answer_door){
        .email = (uint32_t)(number >> KIND_BITS),
        .kind = (enum reply_kind)(number & ((1U << KIND_BITS) - 1)),
    };
}

bool answer_door_find(struct tree *tree, uint64_t parent, const char *name, struct answer_door *ret)
{
    if (inode_kind(parent) != INODE_CONTENT)
        return false;
    struct content_node folder = content_node_of(parent);
    if (folder.kind != CONTENT_NODE_FOLDER || !store_has_content(tree->store))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0) {
            *ret = (struct answer_door){.email = folder.email, .kind = (enum reply_kind)i};
            return true;
        }
    return false;
}

bool answer_door_get(struct tree *tree, const struct answer_door *door, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, door->email, &view))
        return false;
    uint64_t ino = inode_make(INODE_ANSWER, (uint64_t)door->email << KIND_BITS | door->kind);
    entry_of_content(tree, ino, S_IFREG | 0200, 0, view.date_ms, ret);
    ret->is_name_lasting = false; /* a rename onto it leaves the name with another inode in the kernel */
    ret->attributes.is_lasting = false;
    return true;
}

int answer_door_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                       struct tree_entry *ret)
{
    struct answer_door door;
    if (!answer_door_find(tree, parent, name, &door))
        return -ENOENT;
    if (caller != NULL &&
        removed_names_find(&tree->removed, parent, name, caller->pid, clock_monotonic_ms(tree->clock), ret))
        return -ENOENT;
    return answer_door_get(tree, &door, ret) ? 0 : -ENOENT;
}

int answer_door_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name)
{
    struct tree_entry entry;
    int error = answer_door_lookup(tree, caller, parent, name, &entry);
    if (error == 0)
        removed_names_add(&tree->removed, parent, name, caller->pid, clock_monotonic_ms(tree->clock), &entry);
    return error;
}

/* ---------------------------------------------------------------- what an answer is made of */

struct addresses {
    char **items;
    size_t len;
};

static void addresses_release(struct addresses *addresses)
{
    for (size_t i = 0; i < addresses->len; i++)
        free(addresses->items[i]);
    free(addresses->items);
}

static int add_address(struct addresses *addresses, const char *address)
{
    if (address == NULL)
        return 0;
    char **items = realloc(addresses->items, (addresses->len + 1) * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    addresses->items = items;
    items[addresses->len] = strdup(address);
    return items[addresses->len] != NULL ? (addresses->len++, 0) : -ENOMEM;
}

static int collect_own(struct tree *tree, struct addresses *addresses)
{
    struct inbox_view views[INBOXES_AT_ONCE];
    uint64_t positions[INBOXES_AT_ONCE];
    uint64_t position = 0;
    int error = 0;
    size_t count;
    do {
        count = store_list_inboxes(tree->store, position, views, positions, INBOXES_AT_ONCE);
        for (size_t i = 0; i < count && error == 0; i++)
            error = add_address(addresses, views[i].address);
        if (count > 0)
            position = positions[count - 1];
    } while (count > 0 && error == 0);
    return error;
}

static int read_head(struct tree *tree, const struct tree_caller *caller, uint32_t email,
                     struct email_content *ret_head)
{
    struct store_content *content;
    int error = store_content_get(tree->store, email, caller->cancel, &content);
    if (error != 0)
        return error;
    error = store_content_read_head(content, ret_head);
    store_content_unref(tree->store, content);
    return error;
}

int answer_door_prepare(struct tree *tree, const struct tree_caller *caller, const struct answer_door *door,
                        char **ret_answers, char **ret_name)
{
    _cleanup_(addresses_release) struct addresses own = {0};
    _cleanup_email_content_ struct email_content head = {0};
    struct email_view view;
    struct inbox_view inbox;
    const char *id = store_get_email_id(tree->store, door->email);
    if (id == NULL || !store_get_email(tree->store, door->email, &view) ||
        !store_get_inbox(tree->store, view.inbox, &inbox))
        return -ENOENT;
    int error = read_head(tree, caller, door->email, &head);
    error = error != 0 ? error : collect_own(tree, &own);
    if (error != 0)
        return error;

    const struct reply_original original = {
        .email_id = id,
        .inbox_address = inbox.address,
        .head = &head,
        .own_addresses = (const char *const *)own.items,
        .own_addresses_len = own.len,
    };
    _cleanup_free_ char *answers = NULL;
    error = reply_make(door->kind, &original, &answers);
    if (error != 0)
        return error;
    *ret_name = reply_file_name(answers);
    if (*ret_name == NULL)
        return -ENOMEM;
    *ret_answers = TAKE_PTR(answers);
    return 0;
}

/* ---------------------------------------------------------------- open files */

/* The kernel has one inode for all who write to a door at a time, so it must not cache: each of them writes a
 * message of its own, which is made at the first write. */

struct answer_handle {
    struct tree_handle base;
    struct answer_door door;
    char *answers; /* NULL: not known yet */
    char *name;

    pthread_mutex_t making;               /* held while the file is made */
    _Atomic(struct outbox_handle *) file; /* NULL: nothing was written yet */
    uint64_t number;                      /* of the message; set before `file` */
    atomic_llong end;                     /* where O_APPEND writes, which the kernel cannot know */
};

static struct outbox_handle *find_file(const struct tree_handle *handle)
{
    return atomic_load(&((const struct answer_handle *)handle)->file);
}

static int prepare(struct answer_handle *answer, const struct tree_caller *caller)
{
    if (answer->answers != NULL)
        return 0;
    return answer_door_prepare(answer->base.tree, caller, &answer->door, &answer->answers, &answer->name);
}

static int make_file_locked(struct answer_handle *answer, const struct tree_caller *caller)
{
    struct outbox_handle *file = NULL;
    struct outbox_stat stat;
    if (atomic_load(&answer->file) != NULL)
        return 0;
    int error = prepare(answer, caller);
    if (error == 0)
        error = outbox_create_answer(answer->base.tree->outbox, answer->answers, answer->name, caller->pid,
                                     &file, &stat);
    if (error == 0) {
        answer->number = stat.number;
        atomic_store(&answer->file, file);
    }
    return error;
}

/* The file, made if it is not there. */
static int need_file(struct tree_handle *handle, const struct tree_caller *caller,
                     struct outbox_handle **ret_file)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    int error = 0;
    if (find_file(handle) == NULL) {
        pthread_mutex_lock(&answer->making);
        error = make_file_locked(answer, caller);
        pthread_mutex_unlock(&answer->making);
    }
    *ret_file = find_file(handle);
    return error;
}

static bool answer_write_may_wait(struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    return file == NULL || outbox_write_may_wait(file);
}

/* The kernel lets one write at a time through. */
static ssize_t write_answer(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                            size_t len, off_t offset)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    struct outbox_handle *file;
    int error = need_file(handle, caller, &file);
    if (error != 0)
        return error;
    off_t end = (off_t)atomic_load(&answer->end);
    if ((handle->flags & O_APPEND) != 0)
        offset = end;
    ssize_t written = outbox_write(file, bytes, len, offset, caller->pid);
    if (written > 0 && end < offset + written)
        atomic_store(&answer->end, offset + written);
    return written;
}

static int set_answer_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    struct outbox_handle *file;
    if (size == 0 && find_file(handle) == NULL)
        return 0;
    int error = need_file(handle, caller, &file);
    if (error == 0)
        error = outbox_set_size(handle->tree->outbox, answer->number, file, size, caller->pid);
    if (error == 0)
        atomic_store(&answer->end, size);
    return error;
}

static int allocate_answer(struct tree_handle *handle, const struct tree_caller *caller, int mode,
                           off_t offset, off_t len)
{
    struct outbox_handle *file;
    int error = need_file(handle, caller, &file);
    return error != 0 ? error : outbox_allocate(file, mode, offset, len);
}

static int sync_answer(struct tree_handle *handle, bool is_data_only)
{
    struct outbox_handle *file = find_file(handle);
    (void)is_data_only;
    return file == NULL ? 0 : outbox_sync_file(file);
}

static int flush_answer(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct outbox_handle *file = find_file(handle);
    return file == NULL ? 0 : outbox_flush(file, caller->pid);
}

static bool is_answer_closed_well(const struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    return file == NULL || outbox_is_flushed(file);
}

static void free_answer(struct tree_handle *handle)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    pthread_mutex_destroy(&answer->making);
    free(answer->answers);
    free(answer->name);
    free(answer);
}

static void release_answer(struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    if (file != NULL)
        outbox_release(file);
    free_answer(handle);
}

static void abandon_answer(struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    if (file != NULL)
        outbox_abandon(file);
    free_answer(handle);
}

static struct answer_handle *new_answer(struct tree *tree, const struct answer_door *door, int flags)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE,
        .may_wait = true,
        .next_write_may_wait = answer_write_may_wait,
        .write = write_answer,
        .set_size = set_answer_size,
        .allocate = allocate_answer,
        .sync = sync_answer,
        .flush = flush_answer,
        .is_closed_well = is_answer_closed_well,
        .release = release_answer,
        .abandon = abandon_answer,
    };
    struct answer_handle *answer = handle_new(tree, &ops, sizeof(*answer), flags);
    if (answer == NULL)
        return NULL;
    pthread_mutex_init(&answer->making, NULL);
    answer->door = *door;
    return answer;
}

int answer_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                struct tree_handle **ret_handle)
{
    const struct answer_door door = answer_door_of(ino);
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    struct answer_handle *answer = new_answer(tree, &door, flags);
    if (answer == NULL)
        return -ENOMEM;
    int error = prepare(answer, caller);
    if (error != 0)
        free_answer(&answer->base);
    else
        *ret_handle = &answer->base;
    return error;
}

/* Creating may not wait: what is to be known is found out at the first write. */
int answer_create(struct tree *tree, const struct answer_door *door, int flags, struct tree_entry *ret_entry,
                  struct tree_handle **ret_handle)
{
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    if (!answer_door_get(tree, door, ret_entry))
        return -ENOENT;
    struct answer_handle *answer = new_answer(tree, door, flags);
    if (answer == NULL)
        return -ENOMEM;
    *ret_handle = &answer->base;
    return 0;
}
