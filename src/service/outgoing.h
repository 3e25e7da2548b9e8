/* SPDX-License-Identifier: MIT */
/*
 * The service hands two kinds of work to other programs: an email for a recipient of another domain goes to
 * the relay (relay.c), and the report of a received email to a program of the inbox's owner (webhook.c).
 *
 * A piece of work is a row of the table `outgoing`, written in the transaction of its email. Each kind has a
 * thread, which makes an attempt at one row after the other as they become due, and records the result. A row
 * that failed is tried again after pauses that double from 1 second to 1 hour, and given up after a number of
 * attempts, not after a time: the clock may jump, and the machine may be off for a week. The due row with
 * the fewest attempts is next, so that a row that always fails does not stop the others.
 *
 * A row is deleted only after the other side accepted it, or after the sender or the log got the reason why
 * it was given up. So each row goes out at least once: if the program dies, or the connection is lost, before
 * the acceptance is recorded, the other side gets the row again.
 *
 * Each attempt is a transfer by libcurl without a proxy, with checked certificates, and over a connection
 * that is used once.
 */
#ifndef INBOXFS_SERVICE_OUTGOING_H
#define INBOXFS_SERVICE_OUTGOING_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"
#include "service/tables.h"

enum outgoing_kind {
    OUTGOING_RELAY,   /* hands a sent email on to one recipient */
    OUTGOING_WEBHOOK, /* reports a received email to its inbox's webhook */
    OUTGOING_KINDS,
};

enum outgoing_outcome {
    OUTGOING_DONE,
    OUTGOING_LATER,  /* failed, to be tried again */
    OUTGOING_FAILED, /* never to be tried again */
};

/* One attempt at a row: a transfer by libcurl, and its outcome. */
struct attempt {
    int64_t seq;     /* of the row */
    int64_t email;   /* seq in `outbound` or `emails` */
    char *address;   /* the recipient's address, or the inbox's id; owned */
    int64_t earlier; /* number of earlier attempts */

    CURL *easy;              /* with the options that mail and webhooks share */
    struct curl_slist *list; /* the recipients or headers; owned */
    CURLcode result;         /* of the first option or call that failed, else CURLE_OK */
    bool has_begun;          /* libcurl has connected (and logged in): a later failure is about this email */
    struct cancel *cancel;   /* borrowed; ends the transfer */
    int64_t ending_ms;       /* how long the transfer may go on after a cancel; may be set while it runs */
    int64_t give_up_ms;      /* monotonic time at which a cancelled transfer ends; 0 before a cancel */
    char curl_reason[CURL_ERROR_SIZE];

    enum outgoing_outcome outcome;
    int status;   /* HTTP status of a webhook's answer; 0 if there was no answer */
    char *reason; /* why it failed, by reason_give(); NULL with OUTGOING_DONE */
};

/* Sets an option of the transfer, unless an earlier one failed. */
#define ATTEMPT_SET(attempt, option, value)                                           \
    do {                                                                              \
        if ((attempt)->result == CURLE_OK)                                            \
            (attempt)->result = curl_easy_setopt((attempt)->easy, (option), (value)); \
    } while (0)

/* Appends a copy of the text to the list. */
void attempt_append(struct attempt *attempt, const char *text);

/* Carries the transfer out, unless an option failed. Waits for the network. Returns the HTTP or SMTP status
 * of the answer, or 0 if there is no answer. */
long attempt_perform(struct attempt *attempt);

/* Returns libcurl's reason of a failure; borrowed. */
const char *attempt_curl_reason(const struct attempt *attempt);

/* The work of one kind. The creator sets the members up to `release`, and zeroes the others. */
struct outgoing {
    enum outgoing_kind kind;
    bool has_one_target;  /* all rows go to one server; else each address has a target of its own */
    int64_t attempts_max; /* a row is given up after this number of failed attempts */
    long connect_timeout_s;
    long timeout_s; /* of the whole attempt */

    /* Makes one attempt, outside of any transaction, and sets its outcome. Ends soon after the cancel is set.
     * Return: 0; -errno if the email cannot be read, and the row is tried again later. */
    int (*make)(struct outgoing *outgoing, struct attempt *attempt);

    /* Records the consequences of an attempt, in the transaction that records its outcome. The row has been
     * deleted, except with OUTGOING_LATER. Return: 0 or -errno. */
    int (*settle)(struct outgoing *outgoing, struct connection *turn, const struct attempt *attempt);

    void (*release)(struct outgoing *outgoing); /* frees the struct that begins with this one */

    struct database *database;
    struct cancel cancel;
    pthread_t thread;
    bool has_thread;
};

/* Starts the thread; `outgoing` is NULL if this service does no work of this kind. Records in the database
 * which is the case, so that all processes that write to it know whether to add rows. The database is
 * borrowed until outgoing_free(). Return: 0 or -errno. */
int outgoing_start(struct database *database, enum outgoing_kind kind, struct outgoing *outgoing);

/* Cancels the attempt under way, waits for the thread, if it was started, and frees. NULL-safe. */
void outgoing_free(struct outgoing *outgoing);

/* Adds a row that is due now. Does nothing if the service does no work of this kind, or if the row exists.
 * The caller has the turn to write. Return: 0 or -errno. */
int outgoing_add(struct connection *turn, enum outgoing_kind kind, int64_t email, const char *address);

#endif
