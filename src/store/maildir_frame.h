/* SPDX-License-Identifier: MIT */
/*
 * What the records of the Maildirs' memory look like on disk. A box or message that changes is appended anew;
 * the last one counts, but for the folders' times, of which the latest does.
 */
#ifndef INBOXFS_STORE_MAILDIR_FRAME_H
#define INBOXFS_STORE_MAILDIR_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/maildir_box.h"
#include "store/record_log.h"

enum maildir_frame_kind {
    MAILDIR_FRAME_BOX = 1, /* struct maildir_box_frame, then the inbox's id and a NUL */
    MAILDIR_FRAME_MAIL,    /* struct maildir_mail_frame */
};

enum {
    MAILDIR_BOXES_MAX = 1 << 20
};

struct maildir_box_frame {
    uint32_t number; /* of the box, in this file */
    uint32_t uidvalidity;
    int64_t changed_ns[MAILDIR_FOLDERS];
};

enum maildir_frame_bit {
    MAILDIR_FRAME_IN_CUR = 1,
    MAILDIR_FRAME_HAS_INFO = 2,
    MAILDIR_FRAME_IS_GONE = 4,
    MAILDIR_FRAME_CHANGED_NEW = 8, /* by this, new/ changed at changed_ns */
    MAILDIR_FRAME_CHANGED_CUR = 16,
};

struct maildir_mail_frame {
    uint32_t box;
    uint32_t uid;
    unsigned char digest[MAILDIR_DIGEST_BYTES];
    int64_t epoch_s;
    int64_t size;
    uint64_t flags;
    int64_t changed_ns;
    uint32_t bits;  /* enum maildir_frame_bit */
    uint32_t spare; /* 0 */
};

/* Into a batch. 0, -ENOMEM, -EMSGSIZE. */
int maildir_frame_add_box(struct record_batch *batch, const struct maildir_box *box);
/* `changed`: bit 1 << enum maildir_folder for each folder that changes by it. */
int maildir_frame_add_mail(struct record_batch *batch, const struct maildir_box *box,
                           const struct maildir_mail *mail, unsigned int changed, int64_t changed_ns);

/* NULL: the payload is no such frame. */
const struct maildir_box_frame *maildir_frame_read_box(const void *payload, size_t len, const char **ret_id);
const struct maildir_mail_frame *maildir_frame_read_mail(const void *payload, size_t len,
                                                         struct maildir_mail *ret);

#endif
