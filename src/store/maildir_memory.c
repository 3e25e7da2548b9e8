/* SPDX-License-Identifier: MIT */
/*
 * The memory of the Maildirs: boxes by inbox, and the file that holds them.
 */
#include "store/maildir_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/maildir_file.h"
#include "store/maildir_frame.h"
#include "store/maildir_plan.h"

enum {
    NS_PER_MS = 1000 * 1000
};

struct maildir_memory {
    struct clock *clock; /* borrowed */
    pthread_mutex_t write_lock;
    pthread_rwlock_t read_lock;
    struct record_log *log;        /* protected by write_lock */
    struct record_batch batch;     /* protected by write_lock: being put together */
    struct maildir_boxes boxes;    /* protected by both, like all below */
    struct maildir_box **by_inbox; /* by the store's number; NULL: not known */
    uint32_t by_inbox_len;
    bool has_sizes;
};

static int64_t now_ns(const struct maildir_memory *memory)
{
    return clock_realtime_ms(memory->clock) * NS_PER_MS;
}

static void lock_for_writing(struct maildir_memory *memory)
{
    pthread_rwlock_wrlock(&memory->read_lock);
}

static void unlock(struct maildir_memory *memory)
{
    pthread_rwlock_unlock(&memory->read_lock);
}

/* The box of the store's inbox, or NULL. */
static struct maildir_box *box_of(const struct maildir_memory *memory, uint32_t inbox)
{
    return inbox < memory->by_inbox_len ? memory->by_inbox[inbox] : NULL;
}

/* ---------------------------------------------------------------- made and freed */

static bool has_size(const struct maildir_box *box)
{
    for (uint32_t i = 0; i < box->len; i++)
        if (box->mails[i].size >= 0)
            return true;
    return false;
}

int maildir_memory_open(int dir_fd, struct clock *clock, struct maildir_memory **ret_memory)
{
    struct maildir_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return -ENOMEM;
    memory->clock = clock;
    pthread_mutex_init(&memory->write_lock, NULL);
    pthread_rwlock_init(&memory->read_lock, NULL);
    int error = maildir_file_open(dir_fd, &memory->boxes, &memory->log);
    if (error != 0) {
        maildir_memory_free(memory);
        return error;
    }
    for (uint32_t i = 0; i < memory->boxes.len && !memory->has_sizes; i++)
        memory->has_sizes = memory->boxes.items[i] != NULL && has_size(memory->boxes.items[i]);
    *ret_memory = memory;
    return 0;
}

void maildir_memory_free(struct maildir_memory *memory)
{
    if (memory == NULL)
        return;
    record_log_free(memory->log);
    record_batch_release(&memory->batch);
    maildir_boxes_release(&memory->boxes);
    free(memory->by_inbox);
    pthread_rwlock_destroy(&memory->read_lock);
    pthread_mutex_destroy(&memory->write_lock);
    free(memory);
}

/* ---------------------------------------------------------------- inboxes */

/* A box that the file does not have yet, and has when it returns. */
static int make_box_locked(struct maildir_memory *memory, const char *id, struct maildir_box **ret_box)
{
    if (memory->boxes.len >= MAILDIR_BOXES_MAX)
        return -EOVERFLOW;
    /* The time it was made: when this file is lost, the next one has others. */
    struct maildir_box *box =
        maildir_box_new(memory->boxes.len, (uint32_t)(clock_realtime_ms(memory->clock) / 1000), id);
    if (box == NULL)
        return -ENOMEM;
    record_batch_clear(&memory->batch);
    int error = maildir_frame_add_box(&memory->batch, box);
    if (error == 0)
        error = record_log_append_durably(memory->log, &memory->batch);
    if (error != 0)
        maildir_box_free(box);
    else
        *ret_box = box;
    return error;
}

static int reserve_inboxes(struct maildir_memory *memory, uint32_t len)
{
    if (len <= memory->by_inbox_len)
        return 0;
    struct maildir_box **by_inbox = realloc(memory->by_inbox, len * sizeof(struct maildir_box *));
    if (by_inbox == NULL)
        return -ENOMEM;
    for (uint32_t i = memory->by_inbox_len; i < len; i++)
        by_inbox[i] = NULL;
    memory->by_inbox = by_inbox;
    memory->by_inbox_len = len;
    return 0;
}

static int add_inbox_locked(struct maildir_memory *memory, uint32_t inbox, const char *id)
{
    lock_for_writing(memory);
    int error = reserve_inboxes(memory, inbox + 1);
    if (error == 0)
        error = maildir_boxes_reserve(&memory->boxes, memory->boxes.len);
    unlock(memory);

    struct maildir_box *box = maildir_boxes_find(&memory->boxes, id);
    bool is_new = box == NULL;
    if (error == 0 && is_new)
        error = make_box_locked(memory, id, &box);
    if (error != 0)
        return error;
    lock_for_writing(memory);
    if (is_new)
        maildir_boxes_add(&memory->boxes, box);
    memory->by_inbox[inbox] = box;
    unlock(memory);
    return 0;
}

int maildir_memory_add_inbox(struct maildir_memory *memory, uint32_t inbox, const char *id)
{
    if (maildir_memory_has_inbox(memory, inbox))
        return 0;
    pthread_mutex_lock(&memory->write_lock);
    int error = box_of(memory, inbox) != NULL ? 0 : add_inbox_locked(memory, inbox, id);
    pthread_mutex_unlock(&memory->write_lock);
    return error;
}

bool maildir_memory_has_inbox(struct maildir_memory *memory, uint32_t inbox)
{
    struct maildir_state state;
    return maildir_memory_get_state(memory, inbox, &state);
}

/* ---------------------------------------------------------------- looking */

bool maildir_memory_find_uid(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                             struct maildir_mail *ret)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    const struct maildir_box *box = box_of(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : maildir_box_find_uid(box, uid);
    if (mail != NULL)
        *ret = *mail;
    unlock(memory);
    return mail != NULL;
}

bool maildir_memory_find_email(struct maildir_memory *memory, uint32_t inbox, uint32_t email,
                               struct maildir_mail *ret)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    const struct maildir_box *box = box_of(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : maildir_box_find_email(box, email);
    if (mail != NULL)
        *ret = *mail;
    unlock(memory);
    return mail != NULL;
}

bool maildir_memory_get_state(struct maildir_memory *memory, uint32_t inbox, struct maildir_state *ret)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    const struct maildir_box *box = box_of(memory, inbox);
    if (box != NULL) {
        *ret = (struct maildir_state){
            .uidvalidity = box->uidvalidity, .uid_max = box->len, .is_stale = box->is_stale};
        memcpy(ret->changed_ns, box->changed_ns, sizeof(ret->changed_ns));
        memcpy(ret->present, box->present, sizeof(ret->present));
    }
    unlock(memory);
    return box != NULL;
}

bool maildir_memory_has_sizes(struct maildir_memory *memory)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    bool has_sizes = memory->has_sizes;
    unlock(memory);
    return has_sizes;
}

/* ---------------------------------------------------------------- following the inbox */

static void set_stale(struct maildir_memory *memory, uint32_t inbox)
{
    lock_for_writing(memory);
    struct maildir_box *box = box_of(memory, inbox);
    if (box != NULL)
        box->is_stale = true;
    unlock(memory);
}

void maildir_memory_mark_stale(struct maildir_memory *memory, uint32_t inbox)
{
    set_stale(memory, inbox);
}

bool maildir_memory_begin_sync(struct maildir_memory *memory, uint32_t inbox)
{
    lock_for_writing(memory);
    struct maildir_box *box = box_of(memory, inbox);
    bool was_stale = box != NULL && box->is_stale;
    if (box != NULL)
        box->is_stale = false;
    unlock(memory);
    return was_stale;
}

static int sync_locked(struct maildir_memory *memory, struct maildir_box *box,
                       const struct maildir_sighting *seen, size_t seen_len, int64_t arrived_ns)
{
    struct maildir_plan plan;
    int error = maildir_plan_make(box, seen, seen_len, arrived_ns, now_ns(memory), &plan);
    if (error == 0) {
        lock_for_writing(memory);
        error = maildir_plan_make_room(&plan, box);
        unlock(memory);
    }
    record_batch_clear(&memory->batch);
    if (error == 0)
        error = maildir_plan_add_frames(&plan, box, &memory->batch);
    if (error == 0 && memory->batch.len > 0)
        error = record_log_append_durably(memory->log, &memory->batch);
    if (error == 0) {
        lock_for_writing(memory);
        maildir_plan_apply(&plan, box);
        unlock(memory);
    }
    maildir_plan_release(&plan);
    return error;
}

int maildir_memory_sync(struct maildir_memory *memory, uint32_t inbox, const struct maildir_sighting *seen,
                        size_t seen_len, int64_t arrived_ns)
{
    pthread_mutex_lock(&memory->write_lock);
    struct maildir_box *box = box_of(memory, inbox);
    int error = box == NULL ? -ENOENT : sync_locked(memory, box, seen, seen_len, arrived_ns);
    pthread_mutex_unlock(&memory->write_lock);
    if (error != 0)
        set_stale(memory, inbox);
    return error;
}

/* The next sync finds the same, and writes it down. */
void maildir_memory_note_gone(struct maildir_memory *memory, uint32_t inbox, uint32_t email)
{
    lock_for_writing(memory);
    struct maildir_box *box = box_of(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : maildir_box_find_email(box, email);
    if (mail != NULL)
        maildir_box_touch(box, mail->folder, now_ns(memory));
    if (box != NULL)
        box->is_stale = true;
    unlock(memory);
}

/* ---------------------------------------------------------------- marking */

static int mark_locked(struct maildir_memory *memory, struct maildir_box *box, uint32_t uid,
                       const struct maildir_mark *mark)
{
    const struct maildir_mail *known = maildir_box_find_uid(box, uid);
    if (known == NULL || known->is_gone)
        return -ENOENT;
    struct maildir_mail mail = *known;
    struct maildir_box times = *box;
    unsigned int touched = 1U << known->folder | 1U << mark->folder;
    mail.folder = (uint8_t)mark->folder;
    mail.has_info = mark->has_info;
    mail.flags = mark->flags;
    int64_t ns = now_ns(memory);
    for (unsigned int i = 0; i < MAILDIR_FOLDERS; i++)
        if ((touched >> i & 1) != 0 && ns <= times.changed_ns[i])
            ns = times.changed_ns[i] + 1;
    record_batch_clear(&memory->batch);
    int error = maildir_frame_add_mail(&memory->batch, box, &mail, touched, ns);
    if (error == 0)
        error = record_log_append_durably(memory->log, &memory->batch);
    if (error != 0)
        return error;
    lock_for_writing(memory);
    maildir_box_put(box, &mail);
    for (unsigned int i = 0; i < MAILDIR_FOLDERS; i++)
        if ((touched >> i & 1) != 0)
            maildir_box_touch(box, i, ns);
    unlock(memory);
    return 0;
}

int maildir_memory_mark(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                        const struct maildir_mark *mark)
{
    pthread_mutex_lock(&memory->write_lock);
    struct maildir_box *box = box_of(memory, inbox);
    int error = box == NULL ? -ENOENT : mark_locked(memory, box, uid, mark);
    pthread_mutex_unlock(&memory->write_lock);
    return error;
}

/* ---------------------------------------------------------------- sizes */

static void note_size_locked(struct maildir_memory *memory, struct maildir_box *box, uint32_t uid,
                             int64_t size)
{
    const struct maildir_mail *known = maildir_box_find_uid(box, uid);
    if (known == NULL || known->size == size || size < 0)
        return;
    struct maildir_mail mail = *known;
    mail.size = size;
    record_batch_clear(&memory->batch);
    if (maildir_frame_add_mail(&memory->batch, box, &mail, 0, 0) == 0)
        record_log_append_batch(memory->log, &memory->batch);
    lock_for_writing(memory);
    maildir_box_put(box, &mail);
    memory->has_sizes = true;
    unlock(memory);
}

void maildir_memory_note_size(struct maildir_memory *memory, uint32_t inbox, uint32_t uid, int64_t size)
{
    pthread_mutex_lock(&memory->write_lock);
    struct maildir_box *box = box_of(memory, inbox);
    if (box != NULL)
        note_size_locked(memory, box, uid, size);
    pthread_mutex_unlock(&memory->write_lock);
}
