/* SPDX-License-Identifier: MIT */
/*
 * Mail that was sent from the account, whoever sent it: the service's outbound list, kept as an inbox is, in
 * a index of its own with a single inbox. Each sync lists it along with the inboxes (sync.h). What the user
 * does not want to see is held back in it.
 */
#ifndef INBOXFS_STORE_OUTBOUND_H
#define INBOXFS_STORE_OUTBOUND_H

#include "mail/mail_service.h"
#include "store/index.h"

struct outbound {
    struct mail_service as_inbox; /* a service whose only inbox is the list; first */
    struct mail_service *service; /* borrowed */
    struct index index;
    uint32_t inbox;
};

/* Loads what is in the file of `received` (borrowed), just opened, and takes over what version 0.1 left in
 * `dir_fd`. `listener`: its email_changed is told, of numbers of this index. 0, -ENOMEM.
 */
int outbound_open(struct outbound *outbound, struct mail_service *service,
                  const struct store_listener *listener, struct index *received, int dir_fd);
/* What was never opened, too. Before `received` is released. */
void outbound_release(struct outbound *outbound);

/* Hides the mail of this id from now on, known or not. 0, -ENOMEM. */
int outbound_hide(struct outbound *outbound, const char *id);

#endif
