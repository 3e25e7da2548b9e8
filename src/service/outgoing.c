/* SPDX-License-Identifier: MIT */
/*
 * Each thread looks for a due row after every commit of this process, and at least once a second, because
 * rows become due and `inboxd deliver` adds rows in a process of its own.
 */
#include "service/outgoing.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "base/thread.h"
#include "sql/query.h"

enum {
    PAUSE_MIN_MS = 1000,
    PAUSE_MAX_MS = 60 * 60 * 1000,
    DOUBLINGS_MAX = 12, /* more would exceed the longest pause */
    POLL_MS = 1000,
};

/* The name of each kind's row in the table `settings`, and of its thread. */
static const char *const settings[] = {
    [OUTGOING_RELAY] = "relay",
    [OUTGOING_WEBHOOK] = "webhooks",
};

/* ---------------------------------------------------------------- adding rows */

int outgoing_add(struct connection *turn, enum outgoing_kind kind, int64_t email, const char *address)
{
    int64_t now = clock_realtime_ms(clock_system());
    return query_execute(turn,
                         "INSERT OR IGNORE INTO outgoing (kind, email, address, due_ms)"
                         " SELECT ?, ?, ?, ? FROM settings WHERE name = ? AND value",
                         "iisis", (int64_t)kind, email, address, now, settings[kind]);
}

/* ---------------------------------------------------------------- attempts */

void outgoing_set_reason(struct outgoing_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->reason, sizeof(result->reason), format, arguments);
    va_end(arguments);
    for (char *end = result->reason; (end = strchr(end, '\n')) != NULL;)
        *end = ' ';
    character_replace(result->reason, CHARACTER_NOT_PLAIN, '?');
}

/* If a row is due later than the longest pause from now, the clock was set back, and the row counts as due.
 * Return: 0; -ENOENT if no row is due; -errno. */
static int find_due(struct outgoing *outgoing, struct outgoing_row *ret_row)
{
    _cleanup_reader_ struct connection *connection = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int64_t now = clock_realtime_ms(clock_system());
    int error = database_take_reader(outgoing->database, &connection);
    if (error == 0)
        error = query_first(connection, &statement,
                            "SELECT seq, email, address, attempts FROM outgoing WHERE kind = ?1"
                            " AND (due_ms <= ?2 OR due_ms > ?3) ORDER BY attempts, due_ms, seq LIMIT 1",
                            "iii", (int64_t)outgoing->kind, now, now + PAUSE_MAX_MS);
    if (error != 0)
        return error;
    *ret_row = (struct outgoing_row){
        .seq = sqlite3_column_int64(statement.row, 0),
        .email = sqlite3_column_int64(statement.row, 1),
        .address = query_column_copy(statement.row, 2, NULL),
        .attempts = sqlite3_column_int64(statement.row, 3),
    };
    return ret_row->address != NULL ? 0 : -ENOMEM;
}

/* The rows that share the target of row ?1 and are due at ?2. ?3 is true if all rows of the kind share it. */
#define SHARES_TARGET                                                                          \
    "kind = (SELECT kind FROM outgoing WHERE seq = ?1) AND due_ms <= ?2 AND (?3 OR address = " \
    "(SELECT address FROM outgoing WHERE seq = ?1))"

/* If the target is away, the attempt counts for all of its rows that are due. If the target was reached, but
 * did not answer, its other due rows wait a moment, so that the rows of other targets are tried first. The
 * target's other rows then go before this row, which has more attempts. */
static int postpone(const struct outgoing *outgoing, struct connection *turn, const struct outgoing_row *row,
                    const struct outgoing_result *result)
{
    int64_t now = clock_realtime_ms(clock_system());
    int error = query_execute(
        turn,
        "UPDATE outgoing SET attempts = attempts + 1, due_ms = ?2 + min(?4, ?5 << min(attempts, ?6))"
        " WHERE seq = ?1 OR (?7 AND " SHARES_TARGET ")",
        "iiiiiii", row->seq, now, (int64_t)outgoing->has_one_target, (int64_t)PAUSE_MAX_MS,
        (int64_t)PAUSE_MIN_MS, (int64_t)DOUBLINGS_MAX, (int64_t)result->is_away);
    if (error != 0 || result->is_away || result->status != 0 || outgoing->has_one_target)
        return error;
    return query_execute(turn, "UPDATE outgoing SET due_ms = ?2 + ?4 WHERE " SHARES_TARGET, "iiii", row->seq,
                         now, (int64_t)outgoing->has_one_target, (int64_t)PAUSE_MIN_MS);
}

/* Sleeps for `wait_ms`, or until there were more than `commits` commits, or the cancel is set. */
static void sleep_until_commit(struct outgoing *outgoing, uint64_t commits, int64_t wait_ms)
{
    int64_t until = clock_monotonic_ms(clock_system()) + wait_ms;
    (void)database_await_commit(outgoing->database, commits, until, &outgoing->cancel);
}

/* Repeats until the result is recorded or the cancel is set: else the thread would send this row again. */
static void record_result(struct outgoing *outgoing, const struct outgoing_row *row,
                          const struct outgoing_result *result)
{
    struct backoff backoff = {PAUSE_MIN_MS, POLL_MS * 60, 0};
    for (;;) {
        struct connection *connection = NULL;
        int error = database_begin_write(outgoing->database, &connection);
        if (error == 0) {
            error = result->outcome == OUTGOING_LATER
                        ? postpone(outgoing, connection, row, result)
                        : query_execute(connection, "DELETE FROM outgoing WHERE seq = ?", "i", row->seq);
            if (error == 0)
                error = outgoing->settle(outgoing, connection, row, result);
            error = database_end_write(outgoing->database, error);
        }
        if (error == 0 || cancel_is_set(&outgoing->cancel))
            return;
        log_error("what became of outgoing mail cannot be written down: %s", strerrordesc_np(-error));
        sleep_until_commit(outgoing, database_commits(outgoing->database), backoff_next_ms(&backoff));
    }
}

static void attempt_row(struct outgoing *outgoing, const struct outgoing_row *row)
{
    struct outgoing_result result = {0};
    crash_point("outgoing_due");
    int error = outgoing->attempt(outgoing, row, &result);
    if (error != 0) {
        result.outcome = OUTGOING_LATER;
        outgoing_set_reason(&result, "the email cannot be read here: %s", strerrordesc_np(-error));
    }
    crash_point("outgoing_attempted");
    /* The result of an attempt that outgoing_free() broke off is not recorded. */
    bool is_broken_off = result.outcome != OUTGOING_DONE && cancel_is_set(&outgoing->cancel);
    if (result.outcome == OUTGOING_LATER && row->attempts + 1 >= outgoing->attempts_max)
        result.outcome = OUTGOING_FAILED;
    if (result.outcome == OUTGOING_LATER && result.status == 0 && !is_broken_off)
        log_warning("%s", result.reason);
    if (!is_broken_off)
        record_result(outgoing, row, &result);
    crash_point("outgoing_recorded");
}

/* ---------------------------------------------------------------- the thread */

static void *outgoing_thread(void *argument)
{
    struct outgoing *outgoing = argument;
    bool is_error_logged = false;
    while (!cancel_is_set(&outgoing->cancel)) {
        struct outgoing_row row = {0};
        uint64_t commits = database_commits(outgoing->database);
        int error = find_due(outgoing, &row);
        if (error == 0)
            attempt_row(outgoing, &row);
        free(row.address);
        if (error != 0 && error != -ENOENT && !is_error_logged)
            log_error("what is outgoing cannot be read: %s", strerrordesc_np(-error));
        is_error_logged = error != 0 && error != -ENOENT;
        if (error != 0)
            sleep_until_commit(outgoing, commits, POLL_MS);
    }
    return NULL;
}

static int declare(struct database *database, enum outgoing_kind kind, bool is_enabled)
{
    struct connection *connection = NULL;
    int error = database_begin_write(database, &connection);
    if (error != 0)
        return error;
    error = query_execute(connection,
                          "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE"
                          " SET value = excluded.value WHERE value != excluded.value",
                          "si", settings[kind], (int64_t)is_enabled);
    return database_end_write(database, error);
}

int outgoing_start(struct database *database, enum outgoing_kind kind, struct outgoing *outgoing)
{
    int error = declare(database, kind, outgoing != NULL);
    if (error != 0 || outgoing == NULL)
        return error;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    outgoing->database = database;
    cancel_init(&outgoing->cancel);
    error = thread_start(&outgoing->thread, settings[kind], outgoing_thread, outgoing);
    outgoing->has_thread = error == 0;
    if (error != 0)
        cancel_release(&outgoing->cancel);
    return error;
}

void outgoing_free(struct outgoing *outgoing)
{
    if (outgoing == NULL)
        return;
    if (outgoing->has_thread) {
        cancel_set(&outgoing->cancel);
        pthread_join(outgoing->thread, NULL);
        cancel_release(&outgoing->cancel);
    }
    outgoing->release(outgoing);
}
