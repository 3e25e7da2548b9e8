/* SPDX-License-Identifier: MIT */
/*
 * Outgoing: what the service hands to others by itself. There are two kinds: an email for a recipient
 * elsewhere, which goes to the relay (relay.c), and news of an email for the program of an inbox's owner
 * (webhook.c).
 *
 * Each is a row of the table `outgoing`, written in the same transaction as the email that makes it
 * necessary. Each kind has a thread, which makes an attempt at one row after the other as they become due,
 * and writes down what came of it. A row that failed is tried again after pauses that double from 1 second to
 * 1 hour, and given up after a number of attempts: the clock may jump, and the machine may be off for a week.
 * Among the rows that are due, the one with the fewest attempts is next, so that no row stops those behind
 * it. A row is gone only when the other side has said yes, or when it was given up and the sender or the log
 * has the reason. So everything goes out at least once: where the program died, or the connection was lost,
 * between the other's yes and its being written down here, the other side gets it again.
 */
#ifndef INBOXFS_SERVICE_OUTGOING_H
#define INBOXFS_SERVICE_OUTGOING_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"
#include "service/tables.h"

enum outgoing_kind {
    OUTGOING_RELAY,   /* of an email that was sent to a recipient */
    OUTGOING_WEBHOOK, /* of an email that was received, to an inbox's webhook */
};

struct outgoing_row {
    int64_t seq;
    int64_t email;    /* seq in `outbound` or `emails` */
    char *address;    /* the recipient's address, or the inbox's id; owned */
    int64_t attempts; /* before this one */
};

enum outgoing_outcome {
    OUTGOING_DONE,
    OUTGOING_LATER,
    OUTGOING_FAILED, /* for good */
};

/* What came of an attempt. */
struct outgoing_result {
    enum outgoing_outcome outcome;
    bool is_away;    /* nothing of this row was sent: the other side would not take any other row either */
    int status;      /* of a webhook's answer; 0: there was none */
    char words[512]; /* why it failed, on one line; "" with OUTGOING_DONE */
};

struct outgoing_work {
    enum outgoing_kind kind;
    bool has_one_target;  /* all rows go to the same place, not to one for each address */
    int64_t attempts_max; /* at a row: the last one that fails gives it up */
    void *context;        /* borrowed, first argument of: */

    /* Makes one attempt, outside of any transaction, and ends soon after the cancel is set. The result is all
     * zeros before. 0; -errno: the email cannot be read here, so that the attempt is to be made later. */
    int (*attempt)(void *context, struct database *database, const struct outgoing_row *row,
                   struct cancel *cancel, struct outgoing_result *result);

    /* Inside the transaction in which the result was written down: writes down what else it means. The row is
     * gone, but with OUTGOING_LATER. 0 or -errno. */
    int (*settle)(void *context, sqlite3 *db, const struct outgoing_row *row,
                  const struct outgoing_result *result);
};

struct outgoing;

/* Says in the database whether this service has work of a kind, so that rows are added by whoever writes to
 * it, other programs too. 0 or -errno. */
int outgoing_declare(struct database *database, enum outgoing_kind kind, bool is_done);

/* Adds a row that is due now, inside a write transaction; nothing where the service does no such work, or the
 * row is there. 0 or -errno. */
int outgoing_add(sqlite3 *db, enum outgoing_kind kind, int64_t email, const char *address);

/* Starts the thread. `work` and `database` are borrowed until outgoing_stop(). 0 or -errno. */
int outgoing_start(const struct outgoing_work *work, struct database *database,
                   struct outgoing **ret_outgoing);

/* Ends an attempt that is being made, waits for the thread, frees. NULL-safe. */
void outgoing_stop(struct outgoing *outgoing);

/* Makes the words of a result from what the other side or a library said: one line of plain text. */
__attribute__((format(printf, 2, 3))) void outgoing_explain(struct outgoing_result *result,
                                                            const char *format, ...);

#endif
