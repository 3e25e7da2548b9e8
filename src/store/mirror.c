/* SPDX-License-Identifier: MIT */
/*
 * The mirror's life, and its voice.
 */
#include "store/mirror.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "store/search_feed.h"

int mirror_init(struct mirror *mirror, struct clock *clock, const struct store_listener *listener,
                const struct event_listener *events)
{
    *mirror = (struct mirror){.clock = clock, .listener = *listener, .events = *events};
    mirror->emails = email_index_new();
    if (mirror->emails == NULL)
        return -ENOMEM;
    pthread_mutex_init(&mirror->write_lock, NULL);

    /* A stream of readers must not keep new mail out. */
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&mirror->read_lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    return 0;
}

void mirror_release(struct mirror *mirror)
{
    if (mirror->emails == NULL)
        return;
    inbox_table_release(&mirror->inboxes);
    email_index_free(mirror->emails);
    record_log_free(mirror->log);
    dead_frames_release(&mirror->dead);
    pthread_mutex_destroy(&mirror->write_lock);
    pthread_rwlock_destroy(&mirror->read_lock);
    *mirror = (struct mirror){0};
}

uint32_t mirror_begin_look(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (++mirror->last_look == 0)
        mirror->last_look = 1;
    uint32_t look = mirror->last_look;
    pthread_mutex_unlock(&mirror->write_lock);
    return look;
}

void mirror_end_first_sync(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (!mirror->first_sync_done) {
        mirror->first_sync_done = true;
        /* Unwritten for want of memory or disk: known again after the next start. */
        record_log_append(mirror->log, CACHE_FIRST_SYNC, NULL, 0);
    }
    pthread_mutex_unlock(&mirror->write_lock);
}

void mirror_note_held_shown(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    bool is_news = !mirror->shows_held;
    uint32_t inboxes = mirror->inboxes.len;
    if (is_news) {
        pthread_rwlock_wrlock(&mirror->read_lock);
        mirror->shows_held = true;
        pthread_rwlock_unlock(&mirror->read_lock);
    }
    pthread_mutex_unlock(&mirror->write_lock);
    for (uint32_t i = 0; is_news && i < inboxes; i++)
        mirror_tell_inbox(mirror, i, STORE_CHANGED);
}

void mirror_note_lost(struct mirror *mirror)
{
    if (!atomic_exchange(&mirror->has_lost, true))
        log_warning("records in the cache cannot be read: the file was changed, or the disk fails; "
                    "'sync' in ctl asks the service for them");
}

void mirror_give_back(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (atomic_load(&mirror->open_indexes) == 0)
        dead_frames_discard(&mirror->dead, mirror->log);
    pthread_mutex_unlock(&mirror->write_lock);
}

void mirror_tell_email(const struct mirror *mirror, uint32_t email, enum store_change change)
{
    search_feed_note(mirror->search_feed, email);
    if (mirror->listener.email_changed != NULL)
        mirror->listener.email_changed(mirror->listener.context, email, change);
}

void mirror_tell_inbox(const struct mirror *mirror, uint32_t inbox, enum store_change change)
{
    search_feed_wake(mirror->search_feed);
    if (mirror->listener.inbox_changed != NULL)
        mirror->listener.inbox_changed(mirror->listener.context, inbox, change);
}

void mirror_tell_event(const struct mirror *mirror, enum event_kind kind, const char *path, const char *id,
                       const char *error)
{
    const struct event event = {
        .time_ms = clock_realtime_ms(mirror->clock),
        .kind = kind,
        .path = path,
        .id = id,
        .error = error,
    };
    if (mirror->events.notify != NULL)
        mirror->events.notify(mirror->events.context, &event);
}
