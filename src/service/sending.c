/* SPDX-License-Identifier: MIT */
/*
 * Sending. What takes long (attachments, composing) is done before the turn to write, so that senders do not
 * wait for each other's megabytes; what must not change in between is asked again inside it.
 */
#include "service/sending.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/composing.h"
#include "service/delivery.h"
#include "sql/query.h"

enum {
    DAY_MS = 24 * 60 * 60 * 1000,
};

static int64_t daily_limit(enum service_tier tier)
{
    switch (tier) {
    case SERVICE_TIER_FREE:
        return 10;
    case SERVICE_TIER_PAID:
        return 1000;
    case SERVICE_TIER_NONE:
        break;
    }
    return INT64_MAX;
}

/* 0 with SENDING_DONE: the key is new (or there is none). */
static int check_key(sqlite3 *db, const struct submission *submission, struct sending_result *result)
{
    if (submission->idempotency_key == NULL)
        return 0;
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error =
        query_prepare(db, &statement, "SELECT digest, outbound_id FROM idempotency_keys WHERE key = ?", "s",
                      submission->idempotency_key);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0)
        return step;
    const char *digest = (const char *)sqlite3_column_text(statement, 0);
    if (strcmp(digest, submission->digest) != 0) {
        result->outcome = SENDING_KEY_REUSED;
        return 0;
    }
    result->outcome = SENDING_REPEATED;
    snprintf(result->id, sizeof(result->id), "%s", (const char *)sqlite3_column_text(statement, 1));
    return 0;
}

static int check_limit(sqlite3 *db, const struct account *account, struct sending_result *result)
{
    int64_t limit = daily_limit(account->tier);
    if (limit == INT64_MAX)
        return 0;
    int64_t now = clock_realtime_ms(clock_system());
    int64_t count = 0;
    int error = query_integer(db, &count, "SELECT count(*) FROM outbound WHERE date_ms >= ?", "i",
                              now - now % DAY_MS);
    if (error == 0 && count >= limit)
        result->outcome = SENDING_LIMIT_REACHED;
    return error;
}

static int store(sqlite3 *db, const struct submission *submission, const struct composition *composition,
                 struct sending_result *result)
{
    const struct message *message = &composition->message;
    int64_t seq = 0;
    bool is_complete = false;
    int error =
        delivery_store(db, message, composition->raw, composition->raw_len, composition->lineage, &seq);
    if (error == 0)
        error = delivery_distribute(db, message, seq, &is_complete);
    if (error == 0)
        error = delivery_record_sent(db, message, seq, &composition->sender, submission->type, is_complete,
                                     result->id);
    if (error == 0 && submission->idempotency_key != NULL)
        error = query_execute(db, "INSERT INTO idempotency_keys VALUES (?, ?, ?)", "sss",
                              submission->idempotency_key, submission->digest, result->id);
    return error;
}

static int commit(const struct account *account, const struct submission *submission,
                  const struct composition *composition, struct sending_result *result)
{
    sqlite3 *db = NULL;
    int error = database_begin_write(account->database, &db);
    if (error != 0)
        return error;
    error = check_key(db, submission, result);
    if (error == 0 && result->outcome == SENDING_DONE)
        error = check_limit(db, account, result);
    if (error == 0 && result->outcome == SENDING_DONE) {
        error = store(db, submission, composition, result);
        if (error == 0)
            return database_commit(account->database);
    }
    database_rollback(account->database);
    return error;
}

int sending_run(const struct account *account, const struct submission *submission,
                struct sending_result *ret_result)
{
    struct sending_result result = {.outcome = SENDING_DONE};
    sqlite3 *db = NULL;
    int error = database_begin_read(account->database, &db);
    if (error != 0)
        return error;
    _cleanup_composition_ struct composition composition = {0};
    error = check_key(db, submission, &result);
    if (error == 0 && result.outcome == SENDING_DONE)
        error = composing_run(account, db, submission, &composition, &result);
    database_end_read(account->database, db);

    if (error == 0 && result.outcome == SENDING_DONE)
        error = commit(account, submission, &composition, &result);
    if (error == 0)
        *ret_result = result;
    return error;
}
