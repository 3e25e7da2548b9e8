/* SPDX-License-Identifier: MIT */
/*
 * Checks what is handed in, and chooses its idempotency key: a new one, or the one that is remembered for
 * this content.
 */
#include "outbox/accept.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "mail/draft.h"
#include "mail/reason.h"
#include "outbox/removal.h"
#include "outbox/transition.h"

DEFINE_CLEANUP_FREE(draft)

size_t accept_max_bytes(enum envelope_kind kind)
{
    return kind == ENVELOPE_MESSAGE ? DRAFT_MAX_BYTES : ATTACHMENTS_MAX_BYTES;
}

/* What the check needs: of an attachment the length alone, of what is never sent no content. 0, -EMSGSIZE or
 * an errno of the disk. */
static int read_content(struct outbox *outbox, const struct item *item, enum envelope_kind kind,
                        const char *name, char **ret_bytes, size_t *ret_len)
{
    pthread_mutex_lock(&outbox->lock); /* whoever sets the times of a file claims nothing */
    *ret_len = (size_t)item->size;
    pthread_mutex_unlock(&outbox->lock);
    if (kind == ENVELOPE_ATTACHMENT || *ret_len == 0 || item_is_never_sent(kind, name))
        return 0;
    int error = spool_read_data(outbox->spool, item->number, accept_max_bytes(kind), ret_bytes, ret_len);
    return error == -EFBIG ? -EMSGSIZE : error;
}

int accept_begin(struct outbox *outbox, const struct item *item, enum envelope_kind kind, const char *name,
                 struct acceptance *ret)
{
    ret->memory = NULL;
    int error = transition_begin(outbox, item, ITEM_ON_HOLD, &ret->transition);
    if (error != 0)
        return error;
    struct envelope *next = &ret->transition.next;
    envelope_clear_outcome(next);
    next->was_unknown = item_may_have_been_sent(item);
    next->kind = kind;
    if (item->state == ITEM_SENT) { /* the user sends it once more, as another message */
        next->key[0] = '\0';
        next->digest[0] = '\0';
    }
    free(next->name);
    next->name = strdup(name);
    return next->name == NULL ? -ENOMEM : 0;
}

void accept_release(struct acceptance *acceptance)
{
    if (acceptance->memory != NULL)
        claim_release(acceptance->transition.outbox, acceptance->memory);
    acceptance->memory = NULL;
    transition_release(&acceptance->transition);
}

void accept_done(struct acceptance *acceptance)
{
    if (acceptance->memory != NULL)
        key_memory_forget(acceptance->transition.outbox, TAKE_PTR(acceptance->memory));
}

/* ---------------------------------------------------------------- messages */

static int find_sender(struct acceptance *acceptance, const struct draft *draft, char **ret_reason)
{
    const struct outbox_config *config = &acceptance->transition.outbox->config;
    const char *named = draft->from != NULL ? draft->from : config->default_from;
    int error =
        config->senders.find_sender(config->senders.context, named, &acceptance->transition.next.from);
    if (error == 0)
        return 0;
    if (named != NULL)
        return reason_give(ret_reason, error, "%.254s is not one of your inboxes", named);
    return reason_give(ret_reason, error,
                       "neither the message (From) nor the mount (--from) names one of your inboxes");
}

static int pin_attachments(struct acceptance *acceptance, const struct draft *draft, char **ret_reason)
{
    struct transition *transition = &acceptance->transition;
    const char *missing = NULL;
    int64_t bytes = 0;
    for (size_t i = 0; i < draft->parts_len; i++)
        bytes += (int64_t)draft->parts[i].len;

    int error = binding_pin(transition->outbox, draft->attachment_names, draft->attachment_names_len,
                            &transition->next, &transition->binding, &bytes, &missing);
    if (error == -ENODATA)
        return reason_give(ret_reason, error, "there is no file attachments/%.255s", missing);
    if (error == 0 && bytes > ATTACHMENTS_MAX_BYTES)
        return reason_give(ret_reason, -EMSGSIZE, "the attachments are larger than %d bytes together",
                           ATTACHMENTS_MAX_BYTES);
    return error;
}

void accept_digest(const struct envelope *envelope, const char *bytes, size_t len,
                   char ret_digest[ENVELOPE_DIGEST_SIZE])
{
    char both[2 * ENVELOPE_DIGEST_SIZE];
    hash_sha256(bytes, len, ret_digest);
    if (envelope->answers == NULL)
        return;
    memcpy(both, ret_digest, ENVELOPE_DIGEST_SIZE);
    hash_sha256(envelope->answers, strlen(envelope->answers), both + ENVELOPE_DIGEST_SIZE);
    hash_sha256(both, sizeof(both), ret_digest);
}

/* A key belongs to a content. The item's own key is kept if the content is still the same; else a
 * remembered key of the same content is taken over; else there is a new one. */
static int choose_key(struct acceptance *acceptance, size_t parts_len, const char *bytes, size_t len)
{
    struct outbox *outbox = acceptance->transition.outbox;
    struct envelope *next = &acceptance->transition.next;
    char digest[ENVELOPE_DIGEST_SIZE];
    accept_digest(next, bytes, len, digest);
    bool is_unedited = next->key[0] != '\0' && strcmp(next->digest, digest) == 0;
    memcpy(next->digest, digest, sizeof(digest));
    int error = is_unedited && next->part_ids_len == parts_len ? 0 : envelope_new_part_ids(next, parts_len);
    if (error != 0 || is_unedited)
        return error;
    next->was_unknown = false;
    error = key_memory_take(outbox, next, false, &acceptance->memory);
    return error == 0 && acceptance->memory == NULL ? random_uuid(next->key) : error;
}

/* The likeliest email that is known. 0; -ENOENT: none is; -EXDEV: one is, in another inbox; -ENOMEM;
 * another -errno: it cannot be found out. */
static int find_email(const struct email_directory *emails, const struct draft *draft, const char *from,
                      char **ret_email_id)
{
    bool is_elsewhere = false;
    int error = -ENOENT;
    for (size_t i = 0; i < draft->message_ids_len && emails->find_email != NULL; i++) {
        error = emails->find_email(emails->context, draft->message_ids[i], from, ret_email_id);
        if (error != -ENOENT && error != -EXDEV)
            return error;
        is_elsewhere = is_elsewhere || error == -EXDEV;
    }
    return is_elsewhere ? -EXDEV : -ENOENT;
}

#define NEW_THREAD "In-Reply-To, References: sent as a new thread, "

/* Says once whether the thread that the message names is left, and why. */
static int tell_thread(struct envelope *next, const struct draft *draft, const char *words)
{
    size_t len = next->not_carried_len;
    if (len > 0 && strncmp(next->not_carried[len - 1], NEW_THREAD, strlen(NEW_THREAD)) == 0)
        free(next->not_carried[--next->not_carried_len]);
    bool is_carried = draft->message_ids_len == 0 || next->replies_to != NULL;
    return is_carried ? 0 : envelope_add_not_carried(next, words);
}

int accept_keep_thread(struct envelope *next, const struct draft *draft)
{
    return tell_thread(next, draft, NEW_THREAD "as it was before");
}

/* What the message says of the email that it answers. The key does not depend on that: a text that may have
 * been sent must not get another one because a message was opened here meanwhile. Nor does what goes out
 * under such a key change: a service may take another request for a mistake. */
static int find_thread(struct acceptance *acceptance, const struct draft *draft)
{
    struct envelope *next = &acceptance->transition.next;
    if (next->was_unknown)
        return accept_keep_thread(next, draft);
    free(TAKE_PTR(next->replies_to));
    int error =
        find_email(&acceptance->transition.outbox->config.emails, draft, next->from, &next->replies_to);
    if (error == -ENOMEM)
        return error;
    const char *words = error == -EXDEV ? NEW_THREAD "for the email that they name is in another inbox"
                        : error == -ENOENT
                            ? NEW_THREAD "for no message that they name was opened in this mount"
                            : NEW_THREAD "for it cannot be read which messages were opened here";
    return tell_thread(next, draft, words);
}

static int take_not_carried(struct envelope *next, const struct draft *draft)
{
    int error = 0;
    for (size_t i = 0; i < draft->not_carried_len && error == 0; i++)
        error = envelope_add_not_carried(next, draft->not_carried[i]);
    return error;
}

static int check_message(struct acceptance *acceptance, const char *bytes, size_t len, char **ret_reason)
{
    _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
    struct envelope *next = &acceptance->transition.next;
    acceptance->transition.state = ITEM_QUEUED;
    int error = draft_parse(bytes, len, next->answers, &draft, ret_reason);
    error = error != 0 ? error : find_sender(acceptance, draft, ret_reason);
    error = error != 0 ? error : draft_sequence(draft->request, next->from, next->sequence);
    error = error != 0 ? error : take_not_carried(next, draft);
    error = error != 0 ? error : choose_key(acceptance, draft->parts_len, bytes, len);
    error = error != 0 ? error : find_thread(acceptance, draft);
    return error != 0 ? error : pin_attachments(acceptance, draft, ret_reason);
}

/* ---------------------------------------------------------------- both kinds */

static int check_attachment(struct acceptance *acceptance, size_t len, char **ret_reason)
{
    acceptance->transition.state = ITEM_UPLOADING;
    acceptance->transition.next.size = (int64_t)len;
    if (len > ATTACHMENTS_MAX_BYTES)
        return reason_give(ret_reason, -EFBIG, "an attachment can have at most %d bytes",
                           ATTACHMENTS_MAX_BYTES);
    return 0;
}

int accept_check(struct acceptance *acceptance, const char *bytes, size_t len, char **ret_reason)
{
    struct outbox *outbox = acceptance->transition.outbox;
    struct envelope *next = &acceptance->transition.next;
    if (len == 0 || item_is_never_sent(next->kind, next->name))
        return 0;
    int error = next->kind == ENVELOPE_MESSAGE ? check_message(acceptance, bytes, len, ret_reason)
                                               : check_attachment(acceptance, len, ret_reason);
    if (error == 0)
        error = spool_take_number(outbox->spool, &next->order);
    if (error == 0)
        next->accepted_ms = outbox_realtime_ms(outbox);
    return error;
}

int accept_prepare(struct outbox *outbox, const struct item *item, enum envelope_kind kind, const char *name,
                   struct acceptance *ret, char **ret_reason)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    int error = read_content(outbox, item, kind, name, &bytes, &len);
    error = error != 0 ? error : accept_begin(outbox, item, kind, name, ret);
    return error != 0 ? error : accept_check(ret, bytes, len, ret_reason);
}
