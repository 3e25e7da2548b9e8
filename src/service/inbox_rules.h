/* SPDX-License-Identifier: MIT */
/*
 * Who may write to an inbox: its allow and block lists, and whether it may be reached by Cc and Bcc.
 */
#ifndef INBOXFS_SERVICE_INBOX_RULES_H
#define INBOXFS_SERVICE_INBOX_RULES_H

#include <jansson.h>

/* How a message reached an inbox; of several ways the most open one counts. */
enum delivery_way {
    DELIVERY_TO,
    DELIVERY_CC,
    DELIVERY_BCC,
};

struct verdict {
    const char *status;  /* the record's `status`: "valid", "blocked_from_address" … */
    const char *message; /* its `status_message`; NULL when valid */
};

/* `inbox_record`: the published inbox record. A block wins over everything; an allow list without entries
 * allows all. */
struct verdict inbox_rules_judge(const json_t *inbox_record, const char *from_address, enum delivery_way way);

#endif
