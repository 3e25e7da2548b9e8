/* SPDX-License-Identifier: MIT */
/*
 * Plans.
 */
#include "store/maildir_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/content_digest.h"
#include "store/maildir_frame.h"

static void add_change(struct maildir_plan *plan, const struct maildir_mail *mail)
{
    plan->changed[plan->changed_len++] = *mail;
    plan->touched |= 1U << mail->folder;
}

static void make_digest(const char *id, unsigned char ret_digest[MAILDIR_DIGEST_BYTES])
{
    char hex[65];
    content_digest(id, strlen(id), hex);
    for (size_t i = 0; i < MAILDIR_DIGEST_BYTES; i++) {
        const char byte[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        ret_digest[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
}

static void add_sighting(struct maildir_plan *plan, const struct maildir_box *box, uint8_t *is_seen,
                         const struct maildir_sighting *sighting)
{
    const struct maildir_mail *known = maildir_box_find_email(box, sighting->email);
    struct maildir_mail mail = {.epoch_s = sighting->epoch_s, .size = -1, .email = sighting->email};
    if (known == NULL && sighting->id == NULL)
        return;
    if (known == NULL) {
        make_digest(sighting->id, mail.digest);
        plan->met[plan->met_len++] = mail;
        known = maildir_box_find_digest(box, mail.digest);
    }
    if (known == NULL) {
        mail.uid = box->len + ++plan->added;
        mail.folder = MAILDIR_NEW;
        add_change(plan, &mail);
        return;
    }
    is_seen[known->uid - 1] = 1;
    if (known->is_gone) {
        mail = *known;
        mail.is_gone = false;
        add_change(plan, &mail);
    }
}

static void add_gone(struct maildir_plan *plan, const struct maildir_box *box, const uint8_t *is_seen)
{
    for (uint32_t i = 0; i < box->len; i++) {
        struct maildir_mail mail = box->mails[i];
        if (mail.uid == 0 || mail.is_gone || is_seen[i])
            continue;
        mail.is_gone = true;
        add_change(plan, &mail);
    }
}

/* What left or came back may have done so at any time since. */
static void choose_times(struct maildir_plan *plan, const struct maildir_box *box, int64_t arrived_ns,
                         int64_t now_ns)
{
    struct maildir_box times = *box;
    maildir_box_touch(&times, MAILDIR_NEW, plan->changed_len == plan->added ? arrived_ns : now_ns);
    maildir_box_touch(&times, MAILDIR_CUR, now_ns);
    memcpy(plan->folder_ns, times.changed_ns, sizeof(plan->folder_ns));
}

int maildir_plan_make(const struct maildir_box *box, const struct maildir_sighting *seen, size_t seen_len,
                      int64_t arrived_ns, int64_t now_ns, struct maildir_plan *ret)
{
    *ret = (struct maildir_plan){.changed = malloc((seen_len + box->len + 1) * sizeof(*ret->changed)),
                                 .met = malloc((seen_len + 1) * sizeof(*ret->met))};
    _cleanup_free_ uint8_t *is_seen = calloc((size_t)box->len + 1, 1);
    if (ret->changed == NULL || ret->met == NULL || is_seen == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < seen_len; i++)
        add_sighting(ret, box, is_seen, &seen[i]);
    add_gone(ret, box, is_seen);
    choose_times(ret, box, arrived_ns, now_ns);
    return 0;
}

void maildir_plan_release(struct maildir_plan *plan)
{
    free(plan->changed);
    free(plan->met);
    *plan = (struct maildir_plan){0};
}

int maildir_plan_make_room(const struct maildir_plan *plan, struct maildir_box *box)
{
    return maildir_box_reserve(box, plan->added, (uint32_t)plan->met_len);
}

int maildir_plan_add_frames(const struct maildir_plan *plan, const struct maildir_box *box,
                            struct record_batch *batch)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < plan->changed_len; i++) {
        const struct maildir_mail *mail = &plan->changed[i];
        error = maildir_frame_add_mail(batch, box, mail, 1U << mail->folder, plan->folder_ns[mail->folder]);
    }
    return error;
}

void maildir_plan_apply(const struct maildir_plan *plan, struct maildir_box *box)
{
    for (size_t i = 0; i < plan->changed_len; i++)
        maildir_box_put(box, &plan->changed[i]);
    for (size_t i = 0; i < plan->met_len; i++) {
        struct maildir_mail *mail = maildir_box_find_digest(box, plan->met[i].digest);
        if (mail != NULL && mail->email == NUMBER_NONE)
            maildir_box_bind(box, mail, plan->met[i].email);
    }
    for (unsigned int i = 0; i < MAILDIR_FOLDERS; i++)
        if ((plan->touched >> i & 1) != 0)
            box->changed_ns[i] = plan->folder_ns[i];
}
