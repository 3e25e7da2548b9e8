/* SPDX-License-Identifier: MIT */
/*
 * Each thread looks for a due row after every commit of this process, and at least once a second, because
 * rows become due and `inboxd deliver` adds rows in a process of its own.
 */
#include "service/outgoing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "base/thread.h"
#include "mail/reason.h"
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

/* ---------------------------------------------------------------- transfers */

static int on_ready(void *context, char *server_address, char *own_address, int server_port, int own_port)
{
    (void)server_address, (void)own_address, (void)server_port, (void)own_port;
    ((struct attempt *)context)->has_begun = true;
    return CURL_PREREQFUNC_OK;
}

/* libcurl calls this at least once a second, even while it waits. */
static int on_progress(void *context, curl_off_t download_total, curl_off_t download_now,
                       curl_off_t upload_total, curl_off_t upload_now)
{
    (void)download_total, (void)download_now, (void)upload_total, (void)upload_now;
    struct attempt *attempt = context;
    if (!cancel_is_set(attempt->cancel))
        return 0;
    int64_t now = clock_monotonic_ms(clock_system());
    if (attempt->give_up_ms == 0)
        attempt->give_up_ms = now + attempt->ending_ms;
    return now >= attempt->give_up_ms;
}

static void init_transfer(struct attempt *attempt, struct outgoing *outgoing)
{
    attempt->cancel = &outgoing->cancel;
    attempt->easy = curl_easy_init();
    if (attempt->easy == NULL)
        attempt->result = CURLE_OUT_OF_MEMORY;
    ATTEMPT_SET(attempt, CURLOPT_PROXY, "");
    ATTEMPT_SET(attempt, CURLOPT_SSL_VERIFYPEER, 1L);
    ATTEMPT_SET(attempt, CURLOPT_SSL_VERIFYHOST, 2L);
    ATTEMPT_SET(attempt, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    ATTEMPT_SET(attempt, CURLOPT_NOSIGNAL, 1L);
    ATTEMPT_SET(attempt, CURLOPT_QUICK_EXIT, 1L);
    ATTEMPT_SET(attempt, CURLOPT_FORBID_REUSE, 1L);
    ATTEMPT_SET(attempt, CURLOPT_CONNECTTIMEOUT, outgoing->connect_timeout_s);
    ATTEMPT_SET(attempt, CURLOPT_TIMEOUT, outgoing->timeout_s);
    ATTEMPT_SET(attempt, CURLOPT_PREREQFUNCTION, on_ready);
    ATTEMPT_SET(attempt, CURLOPT_PREREQDATA, attempt);
    ATTEMPT_SET(attempt, CURLOPT_NOPROGRESS, 0L);
    ATTEMPT_SET(attempt, CURLOPT_XFERINFOFUNCTION, on_progress);
    ATTEMPT_SET(attempt, CURLOPT_XFERINFODATA, attempt);
    ATTEMPT_SET(attempt, CURLOPT_ERRORBUFFER, attempt->curl_reason);
}

void attempt_append(struct attempt *attempt, const char *text)
{
    struct curl_slist *list = curl_slist_append(attempt->list, text);
    if (list != NULL)
        attempt->list = list;
    else if (attempt->result == CURLE_OK)
        attempt->result = CURLE_OUT_OF_MEMORY;
}

long attempt_perform(struct attempt *attempt)
{
    long status = 0;
    if (attempt->result == CURLE_OK)
        attempt->result = curl_easy_perform(attempt->easy);
    if (attempt->easy != NULL)
        curl_easy_getinfo(attempt->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

const char *attempt_curl_reason(const struct attempt *attempt)
{
    return attempt->curl_reason[0] != '\0' ? attempt->curl_reason : curl_easy_strerror(attempt->result);
}

static void attempt_release(struct attempt *attempt)
{
    curl_easy_cleanup(attempt->easy);
    curl_slist_free_all(attempt->list);
    free(attempt->address);
    free(attempt->reason);
}

/* ---------------------------------------------------------------- attempts */

/* If a row is due later than the longest pause from now, the clock was set back, and the row counts as due.
 * Return: 0; -ENOENT if no row is due; -errno. */
static int find_due(struct outgoing *outgoing, struct attempt *attempt)
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
    attempt->seq = sqlite3_column_int64(statement.row, 0);
    attempt->email = sqlite3_column_int64(statement.row, 1);
    attempt->address = g_strdup(query_column_text(statement.row, 2));
    attempt->earlier = sqlite3_column_int64(statement.row, 3);
    return 0;
}

/* If the target cannot be reached, the attempt counts for all of its rows that are due. If the target was
 * reached, but did not answer, its other due rows wait a moment, so that the rows of other targets are tried
 * first. The target's other rows then go before this row, which has more attempts. */
static int postpone(const struct outgoing *outgoing, struct connection *turn, const struct attempt *attempt)
{
    bool is_away = attempt->result != CURLE_OK && !attempt->has_begun;
    bool others_wait = is_away || (attempt->status == 0 && !outgoing->has_one_target);
    return query_execute(turn,
                         "UPDATE outgoing SET attempts = attempts + (seq = ?1 OR ?2),"
                         " due_ms = ?3 + iif(seq = ?1 OR ?2, min(?4, ?5 << min(attempts, ?6)), ?5)"
                         " WHERE seq = ?1 OR (?7 AND kind = ?8 AND due_ms <= ?3 AND (?9 OR address = ?10))",
                         "iiiiiiiiis", attempt->seq, (int64_t)is_away, clock_realtime_ms(clock_system()),
                         (int64_t)PAUSE_MAX_MS, (int64_t)PAUSE_MIN_MS, (int64_t)DOUBLINGS_MAX,
                         (int64_t)others_wait, (int64_t)outgoing->kind, (int64_t)outgoing->has_one_target,
                         attempt->address);
}

/* Sleeps for `wait_ms`, or until there were more than `commits` commits, or the cancel is set. */
static void sleep_until_commit(struct outgoing *outgoing, uint64_t commits, int64_t wait_ms)
{
    int64_t until = clock_monotonic_ms(clock_system()) + wait_ms;
    (void)database_await_commit(outgoing->database, commits, until, &outgoing->cancel);
}

/* Repeats until the outcome is recorded or the cancel is set: else the thread would send this row again. */
static void record_outcome(struct outgoing *outgoing, const struct attempt *attempt)
{
    struct backoff backoff = {PAUSE_MIN_MS, POLL_MS * 60, 0};
    for (;;) {
        struct connection *connection = NULL;
        int error = database_begin_write(outgoing->database, &connection);
        if (error == 0) {
            error = attempt->outcome == OUTGOING_LATER
                        ? postpone(outgoing, connection, attempt)
                        : query_execute(connection, "DELETE FROM outgoing WHERE seq = ?", "i", attempt->seq);
            if (error == 0)
                error = outgoing->settle(outgoing, connection, attempt);
            error = database_end_write(outgoing->database, error);
        }
        if (error == 0 || cancel_is_set(&outgoing->cancel))
            return;
        log_error("what became of outgoing mail cannot be written down: %s", strerrordesc_np(-error));
        sleep_until_commit(outgoing, database_commits(outgoing->database), backoff_next_ms(&backoff));
    }
}

static void make_attempt(struct outgoing *outgoing, struct attempt *attempt)
{
    crash_point("outgoing_due");
    init_transfer(attempt, outgoing);
    int error = outgoing->make(outgoing, attempt);
    if (error != 0) {
        attempt->outcome = OUTGOING_LATER;
        reason_give(&attempt->reason, 0, "the email cannot be read here: %s", strerrordesc_np(-error));
    }
    crash_point("outgoing_attempted");
    /* The outcome of an attempt that outgoing_free() broke off is not recorded. */
    bool is_broken_off = attempt->outcome != OUTGOING_DONE && cancel_is_set(&outgoing->cancel);
    if (attempt->outcome == OUTGOING_LATER && attempt->earlier + 1 >= outgoing->attempts_max)
        attempt->outcome = OUTGOING_FAILED;
    if (attempt->outcome == OUTGOING_LATER && attempt->status == 0 && !is_broken_off)
        log_warning("%s", attempt->reason);
    if (!is_broken_off)
        record_outcome(outgoing, attempt);
    crash_point("outgoing_recorded");
}

/* ---------------------------------------------------------------- the thread */

static void *outgoing_thread(void *argument)
{
    struct outgoing *outgoing = argument;
    bool is_error_logged = false;
    while (!cancel_is_set(&outgoing->cancel)) {
        struct attempt attempt = {0};
        uint64_t commits = database_commits(outgoing->database);
        int error = find_due(outgoing, &attempt);
        if (error == 0)
            make_attempt(outgoing, &attempt);
        attempt_release(&attempt);
        if (error != 0 && error != -ENOENT && !is_error_logged)
            log_error("what is outgoing cannot be read: %s", strerrordesc_np(-error));
        is_error_logged = error != 0 && error != -ENOENT;
        if (error != 0)
            sleep_until_commit(outgoing, commits, POLL_MS);
    }
    return NULL;
}

int outgoing_start(struct database *database, enum outgoing_kind kind, struct outgoing *outgoing)
{
    struct connection *connection = NULL;
    int error = database_begin_write(database, &connection);
    if (error == 0)
        error = database_end_write(database,
                                   query_execute(connection,
                                                 "INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE"
                                                 " SET value = excluded.value WHERE value != excluded.value",
                                                 "si", settings[kind], (int64_t)(outgoing != NULL)));
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
