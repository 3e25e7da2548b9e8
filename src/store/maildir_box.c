/* SPDX-License-Identifier: MIT */
/*
 * The messages of one inbox.
 */
#include "store/maildir_box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 16
};

struct maildir_box *maildir_box_new(uint32_t number, uint32_t uidvalidity, const char *id)
{
    struct maildir_box *box = calloc(1, sizeof(*box));
    if (box == NULL)
        return NULL;
    *box = (struct maildir_box){.number = number, .uidvalidity = uidvalidity, .is_stale = true};
    box->id = strdup(id);
    if (box->id != NULL)
        return box;
    free(box);
    return NULL;
}

void maildir_box_free(struct maildir_box *box)
{
    if (box == NULL)
        return;
    free(box->id);
    free(box->mails);
    number_table_release(&box->by_email);
    number_table_release(&box->by_digest);
    free(box);
}

/* ---------------------------------------------------------------- finding */

/* Numbers in a row, spread over the table. */
static uint32_t hash_email(uint32_t email)
{
    return email * UINT32_C(2654435761);
}

static uint32_t hash_digest(const unsigned char *digest)
{
    uint32_t hash;
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

static bool email_equals(const void *context, uint32_t place, const void *key)
{
    return ((const struct maildir_box *)context)->mails[place].email == *(const uint32_t *)key;
}

static bool digest_equals(const void *context, uint32_t place, const void *key)
{
    return memcmp(((const struct maildir_box *)context)->mails[place].digest, key, MAILDIR_DIGEST_BYTES) == 0;
}

static struct maildir_mail *mail_at(const struct maildir_box *box, uint32_t place)
{
    return place == NUMBER_NONE ? NULL : &box->mails[place];
}

struct maildir_mail *maildir_box_find_uid(const struct maildir_box *box, uint32_t uid)
{
    if (uid == 0 || uid > box->len || box->mails[uid - 1].uid == 0)
        return NULL;
    return &box->mails[uid - 1];
}

struct maildir_mail *maildir_box_find_email(const struct maildir_box *box, uint32_t email)
{
    const struct number_kind kind = {email_equals, box};
    return mail_at(box, number_table_find(&box->by_email, &kind, hash_email(email), &email));
}

struct maildir_mail *maildir_box_find_digest(const struct maildir_box *box, const unsigned char *digest)
{
    const struct number_kind kind = {digest_equals, box};
    return mail_at(box, number_table_find(&box->by_digest, &kind, hash_digest(digest), digest));
}

/* ---------------------------------------------------------------- changing */

static int reserve_places(struct maildir_box *box, uint32_t len)
{
    uint32_t capacity = box->capacity == 0 ? FIRST_CAPACITY : box->capacity;
    if (len > MAILDIR_UID_MAX)
        return -EOVERFLOW;
    while (capacity < len)
        capacity *= 2;
    if (capacity == box->capacity)
        return 0;
    struct maildir_mail *mails = realloc(box->mails, capacity * sizeof(*mails));
    if (mails == NULL)
        return -ENOMEM;
    box->mails = mails;
    box->capacity = capacity;
    return 0;
}

static int enlarge(struct number_table *table, uint32_t more)
{
    struct number_table larger;
    int error = number_table_enlarge(table, more, &larger);
    if (error != 0)
        return error;
    struct number_table old = number_table_exchange(table, larger);
    number_table_release(&old);
    return 0;
}

int maildir_box_reserve(struct maildir_box *box, uint32_t more, uint32_t more_emails)
{
    if (more > MAILDIR_UID_MAX - box->len)
        return -EOVERFLOW;
    int error = reserve_places(box, box->len + more);
    if (error == 0)
        error = enlarge(&box->by_digest, more);
    if (error == 0)
        error = enlarge(&box->by_email, more_emails);
    return error;
}

static int make_place(struct maildir_box *box, uint32_t place)
{
    int error = place < box->len ? 0 : reserve_places(box, place + 1);
    if (error == 0)
        error = enlarge(&box->by_digest, 1);
    while (error == 0 && box->len <= place)
        box->mails[box->len++] = (struct maildir_mail){.email = NUMBER_NONE, .is_gone = true};
    return error;
}

int maildir_box_put(struct maildir_box *box, const struct maildir_mail *mail)
{
    if (mail->uid == 0 || mail->uid > MAILDIR_UID_MAX || mail->folder >= MAILDIR_FOLDERS)
        return -EBADMSG;
    uint32_t place = mail->uid - 1;
    int error = make_place(box, place);
    if (error != 0)
        return error;
    struct maildir_mail *known = &box->mails[place];
    if (known->uid != 0 && memcmp(known->digest, mail->digest, sizeof(mail->digest)) != 0)
        return -EBADMSG;
    bool is_new = known->uid == 0;
    uint32_t email = known->email;
    box->present[known->folder] -= !is_new && !known->is_gone;
    box->present[mail->folder] += !mail->is_gone;
    *known = *mail;
    known->email = email;
    if (is_new)
        number_table_add(&box->by_digest, hash_digest(mail->digest), place);
    return 0;
}

void maildir_box_bind(struct maildir_box *box, struct maildir_mail *mail, uint32_t email)
{
    mail->email = email;
    number_table_add(&box->by_email, hash_email(email), mail->uid - 1);
}

void maildir_box_touch(struct maildir_box *box, unsigned int folder, int64_t now_ns)
{
    int64_t *changed_ns = &box->changed_ns[folder];
    *changed_ns = now_ns > *changed_ns ? now_ns : *changed_ns + 1;
}
