/* SPDX-License-Identifier: MIT */
/*
 * Frames, written and read.
 */
#include "store/maildir_frame.h"

#include <string.h>

int maildir_frame_add_box(struct record_batch *batch, const struct maildir_box *box)
{
    struct maildir_box_frame frame = {.number = box->number, .uidvalidity = box->uidvalidity};
    size_t offset;
    memcpy(frame.changed_ns, box->changed_ns, sizeof(frame.changed_ns));
    const struct iovec parts[] = {
        {.iov_base = &frame, .iov_len = sizeof(frame)},
        {.iov_base = box->id, .iov_len = strlen(box->id) + 1},
    };
    return record_batch_add(batch, MAILDIR_FRAME_BOX, parts, 2, &offset);
}

int maildir_frame_add_mail(struct record_batch *batch, const struct maildir_box *box,
                           const struct maildir_mail *mail, unsigned int changed, int64_t changed_ns)
{
    struct maildir_mail_frame frame = {
        .box = box->number,
        .uid = mail->uid,
        .epoch_s = mail->epoch_s,
        .size = mail->size,
        .flags = mail->flags,
        .changed_ns = changed_ns,
        .bits = (mail->folder == MAILDIR_CUR ? MAILDIR_FRAME_IN_CUR : 0U) |
                (mail->has_info ? MAILDIR_FRAME_HAS_INFO : 0U) |
                (mail->is_gone ? MAILDIR_FRAME_IS_GONE : 0U) |
                ((changed & 1U << MAILDIR_NEW) != 0 ? MAILDIR_FRAME_CHANGED_NEW : 0U) |
                ((changed & 1U << MAILDIR_CUR) != 0 ? MAILDIR_FRAME_CHANGED_CUR : 0U),
    };
    size_t offset;
    memcpy(frame.digest, mail->digest, sizeof(frame.digest));
    const struct iovec part = {.iov_base = &frame, .iov_len = sizeof(frame)};
    return record_batch_add(batch, MAILDIR_FRAME_MAIL, &part, 1, &offset);
}

const struct maildir_box_frame *maildir_frame_read_box(const void *payload, size_t len, const char **ret_id)
{
    const struct maildir_box_frame *frame = payload;
    const char *id = (const char *)(frame + 1);
    if (len <= sizeof(*frame) || id[len - sizeof(*frame) - 1] != '\0' || frame->number >= MAILDIR_BOXES_MAX ||
        frame->uidvalidity == 0)
        return NULL;
    *ret_id = id;
    return frame;
}

const struct maildir_mail_frame *maildir_frame_read_mail(const void *payload, size_t len,
                                                         struct maildir_mail *ret)
{
    const struct maildir_mail_frame *frame = payload;
    if (len != sizeof(*frame) || frame->box >= MAILDIR_BOXES_MAX || frame->size < -1)
        return NULL;
    *ret = (struct maildir_mail){
        .epoch_s = frame->epoch_s,
        .size = frame->size,
        .flags = frame->flags,
        .uid = frame->uid,
        .email = NUMBER_NONE,
        .folder = (frame->bits & MAILDIR_FRAME_IN_CUR) != 0 ? MAILDIR_CUR : MAILDIR_NEW,
        .has_info = (frame->bits & MAILDIR_FRAME_HAS_INFO) != 0,
        .is_gone = (frame->bits & MAILDIR_FRAME_IS_GONE) != 0,
    };
    memcpy(ret->digest, frame->digest, sizeof(ret->digest));
    return frame;
}
