/* SPDX-License-Identifier: MIT */
/*
 * One look at the mail of one inbox, or of all at once: records go into the mirror while they arrive, and
 * what a complete answer lacks is removed. A service gives at most `limit` records and has no paging
 * (interface, GET /api/v1/email): an answer as long as the limit is followed by a question for more.
 */
#ifndef INBOXFS_STORE_LOOK_H
#define INBOXFS_STORE_LOOK_H

#include "base/cancel.h"
#include "mail/mail_service.h"
#include "store/mirror.h"

enum look_depth {
    LOOK_NEWEST,   /* some records, and more while unknown ones keep coming */
    LOOK_COMPLETE, /* all there are */
};

enum {
    LOOK_FIRST_LIMIT = 100,
    LOOK_LIMIT_MAX = 100 * 1000 * 1000,
};

/* Looks at one inbox. `with_held`: what the service holds back as well; where it refuses to tell, without.
 * Waits for the network. `ret` is the outcome (service_result_release()); SERVICE_OK: all that was asked for
 * is in the mirror. */
void look_at_inbox(struct mirror *mirror, struct mail_service *service, uint32_t inbox, bool with_held,
                   enum look_depth depth, struct cancel *cancel, struct service_result *ret);

/* Looks without asking for an inbox: finds inboxes by the mail that names them, and mail that names none. */
void look_at_all(struct mirror *mirror, struct mail_service *service, enum look_depth depth,
                 struct cancel *cancel, struct service_result *ret);

#endif
