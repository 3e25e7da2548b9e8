/* SPDX-License-Identifier: MIT */
/*
 * The emails of a thread, as one inbox sees it: what it received (and is valid), and what was sent from it.
 */
#ifndef INBOXFS_SERVICE_THREAD_H
#define INBOXFS_SERVICE_THREAD_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdint.h>

/* What an email is in a row of this shape: message, thread, inbox, record, header, plain_text, html. */
struct thread_email {
    int64_t message;
    int64_t thread;
    int64_t inbox;
    json_t *record; /* content record, its thread_prompt and previous_emails not yet filled in; owned */
};

/* From a statement's row whose first columns are those. 0, -EUCLEAN or -ENOMEM. */
int thread_email_from_row(sqlite3_stmt *statement, struct thread_email *ret_email);

/* The content records of the thread before `email`, oldest first, one level deep; bounded: the newest that
 * fit. The caller owns *ret_list. 0 or -errno. */
int thread_load_previous(sqlite3 *db, const struct thread_email *email, json_t **ret_list);

#endif
