/* SPDX-License-Identifier: MIT */
/*
 * What a look at an inbox changes in the memory of its Maildir, found out before anything is changed: the new
 * messages with their U numbers, those that are gone, those that are back. Memory only; locks are the
 * caller's.
 */
#ifndef INBOXFS_STORE_MAILDIR_PLAN_H
#define INBOXFS_STORE_MAILDIR_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "store/maildir_box.h"
#include "store/record_log.h"

/* An email that the inbox holds. */
struct maildir_sighting {
    uint32_t email;  /* the store's number */
    const char *id;  /* the service's; NULL will do where the box knows the email */
    int64_t epoch_s; /* its date */
};

struct maildir_plan {
    struct maildir_mail *changed; /* as they are to be */
    size_t changed_len;
    struct maildir_mail *met; /* digest and email of those met for the first time in this mount */
    size_t met_len;
    uint32_t added;       /* new messages among the changed */
    unsigned int touched; /* 1 << enum maildir_folder for each folder that changes */
    int64_t folder_ns[MAILDIR_FOLDERS];
};

/* Reads the box alone. `arrived_ns`: when the inbox changed: the time of new/ where mail came and none left.
 * Release the plan also after an error. 0 or -ENOMEM. */
int maildir_plan_make(const struct maildir_box *box, const struct maildir_sighting *seen, size_t seen_len,
                      int64_t arrived_ns, int64_t now_ns, struct maildir_plan *ret);
void maildir_plan_release(struct maildir_plan *plan);

/* 0, -ENOMEM, -EOVERFLOW. After it maildir_plan_apply() cannot fail. */
int maildir_plan_make_room(const struct maildir_plan *plan, struct maildir_box *box);
/* What is to be durable before it is applied; nothing where nothing changes. 0 or -ENOMEM. */
int maildir_plan_add_frames(const struct maildir_plan *plan, const struct maildir_box *box,
                            struct record_batch *batch);
void maildir_plan_apply(const struct maildir_plan *plan, struct maildir_box *box);

#endif
