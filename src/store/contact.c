/* SPDX-License-Identifier: MIT */
/*
 * Online and offline.
 */
#include "store/contact.h"

#include <errno.h>
#include <string.h>

#include "store/result_errno.h"

void contact_init(struct contact *contact, const struct mirror *mirror)
{
    *contact = (struct contact){.mirror = mirror};
    pthread_mutex_init(&contact->lock, NULL);
}

void contact_release(struct contact *contact)
{
    pthread_mutex_destroy(&contact->lock);
}

void contact_note_online(struct contact *contact)
{
    pthread_mutex_lock(&contact->lock);
    bool is_news = contact->is_told_offline;
    contact->is_online = true;
    contact->is_told_offline = false;
    contact->last_answer_ms = clock_realtime_ms(contact->mirror->clock);
    contact->error[0] = '\0';
    pthread_mutex_unlock(&contact->lock);
    if (is_news)
        mirror_tell_event(contact->mirror, EVENT_ONLINE, NULL, NULL, NULL);
}

/* As much of the text as fits, not cut within a character. */
static void copy_words(char *to, size_t size, const char *words)
{
    size_t len = strnlen(words, size);
    if (len == size)
        for (len = size - 1; len > 0 && ((unsigned char)words[len] & 0xc0) == 0x80; len--)
            continue;
    memcpy(to, words, len);
    to[len] = '\0';
}

void contact_note_offline(struct contact *contact, const char *words)
{
    pthread_mutex_lock(&contact->lock);
    bool is_news = !contact->is_told_offline;
    contact->is_online = false;
    contact->is_told_offline = true;
    copy_words(contact->error, sizeof(contact->error), words);
    pthread_mutex_unlock(&contact->lock);
    if (is_news)
        mirror_tell_event(contact->mirror, EVENT_OFFLINE, NULL, NULL, words);
}

void contact_note(struct contact *contact, const struct service_result *result)
{
    if (result_is_answer(result))
        contact_note_online(contact);
    else if (result->outcome == SERVICE_UNAUTHORIZED ||
             (result->http_status == 0 && result->error != EINTR && result->error != ETIMEDOUT))
        contact_note_offline(contact, result_words(result));
}

void contact_note_sync(struct contact *contact, const char *words)
{
    pthread_mutex_lock(&contact->lock);
    copy_words(contact->sync_error, sizeof(contact->sync_error), words != NULL ? words : "");
    pthread_mutex_unlock(&contact->lock);
}

void contact_get_status(struct contact *contact, struct store_status *ret)
{
    pthread_mutex_lock(&contact->lock);
    ret->is_online = contact->is_online;
    ret->last_sync_ms = contact->last_answer_ms;
    memcpy(ret->error, contact->error, sizeof(ret->error));
    memcpy(ret->sync_error, contact->sync_error, sizeof(ret->sync_error));
    pthread_mutex_unlock(&contact->lock);
}
