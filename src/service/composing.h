/* SPDX-License-Identifier: MIT */
/*
 * From a request to send to a message ready to be stored: sender, attachments and the email replied to are
 * looked up and put together.
 */
#ifndef INBOXFS_SERVICE_COMPOSING_H
#define INBOXFS_SERVICE_COMPOSING_H

#include "service/account.h"
#include "service/delivery.h"
#include "service/sending_result.h"

struct composition {
    struct inbox sender;
    struct message message;
    struct lineage lineage;
    char *raw; /* the message's text */
    size_t raw_len;
};

/* Accepts a composition of zeros. */
void composition_release(struct composition *composition);

#define _cleanup_composition_ __attribute__((cleanup(composition_release)))

/* Fills a composition of zeros; result->outcome is changed when the request cannot be carried out. `db`
 * reads. 0 or -errno. */
int composing_run(const struct account *account, sqlite3 *db, const struct submission *submission,
                  struct composition *composition, struct sending_result *result);

#endif
