/* SPDX-License-Identifier: MIT */
#include "service/search_index.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/thread.h"

enum {
    TRIGRAMS_MAX = 8,                 /* trigrams that a search looks up; more take time and exclude little */
    BATCH_MESSAGES = 64,              /* messages that are indexed in one turn to write */
    BATCH_CHARACTERS = 128 * 1024,    /* the message that exceeds them is the last of its batch */
    TEXT_MAX_CHARACTERS = 256 * 1024, /* of a text that is indexed; for a longer text, see TOO_LONG */
    PAUSE_MS = 100,
    QUIET_MS = 1000,
    PATIENCE_MS = 5000,  /* after this time a batch is indexed, even while messages are being stored */
    IDLE_MS = 60 * 1000, /* between looks for messages of other processes, which do not wake the thread */
};

/* Stands in the index for a text that is too long. Each search looks it up as well. */
#define TOO_LONG "\1\1\1"

/* ---------------------------------------------------------------- searching */

int search_index_match(struct connection *reader, const char *term, int64_t emails, int64_t limit,
                       char **ret_match)
{
    *ret_match = NULL;
    long trigrams = g_utf8_strlen(term, -1) - 2;
    if (trigrams < 1)
        return 0;
    /* Looks up the first and the last trigram, and some at even distances between them. */
    long used = trigrams < TRIGRAMS_MAX ? trigrams : TRIGRAMS_MAX;
    _cleanup_strbuf_ struct strbuf match = STRBUF_INIT(1024);
    for (long i = 0; i < used; i++) {
        const char *text = g_utf8_offset_to_pointer(term, used > 1 ? i * (trigrams - 1) / (used - 1) : 0);
        const char *end = g_utf8_offset_to_pointer(text, 3);
        strbuf_append_str(&match, i > 0 ? " AND \"" : "(\"");
        for (; text < end; text++)
            strbuf_appendf(&match, *text == '"' ? "\"%c" : "%c", *text);
        strbuf_append_char(&match, '"');
    }
    if (strbuf_append_str(&match, ") OR \"" TOO_LONG "\"") != 0)
        return match.error;

    /* With c candidates, a search with the index reads c texts, and without it about limit * emails / c. */
    int64_t max = 1;
    while (max < emails / 2 && max * max < limit * emails / 2)
        max *= 2;
    int64_t count = 0;
    int error = query_integers(
        reader, &count, 1, "SELECT count(*) FROM (SELECT 1 FROM " SEARCH_INDEX_CANDIDATES("?1") " LIMIT ?2)",
        "si", strbuf_str(&match), max);
    if (error != 0 || count >= max)
        return error;
    *ret_match = strbuf_take(&match, NULL);
    return 0;
}

/* ---------------------------------------------------------------- indexing */

/* Finds the last indexed message and the last one of the next batch, which are the same if all are indexed.
 * Reads the texts of this batch alone: later texts may be long. */
static int find_batch(struct database *database, int64_t ret_messages[2])
{
    _cleanup_reader_ struct connection *reader = NULL;
    int error = database_take_reader(database, &reader);
    if (error != 0)
        return error;
    return query_integers(reader, ret_messages, 2,
                          "WITH RECURSIVE batch(seq, len, characters) AS"
                          " (SELECT value, 0, 0 FROM settings WHERE name = 'indexed' UNION ALL"
                          " SELECT m.seq, len + 1, characters + length(m.search_text) FROM batch"
                          " JOIN messages m ON m.seq = (SELECT min(seq) FROM messages WHERE seq > batch.seq)"
                          " WHERE len < ?1 AND characters < ?2)"
                          " SELECT min(seq), max(seq) FROM batch",
                          "ii", (int64_t)BATCH_MESSAGES, (int64_t)BATCH_CHARACTERS);
}

/* Return: 0; -ENOENT if all messages are indexed; -errno. */
static int index_batch(struct database *database)
{
    struct connection *connection = NULL;
    int64_t messages[2];
    int error = find_batch(database, messages);
    if (error == 0 && messages[0] == messages[1])
        error = -ENOENT;
    if (error == 0)
        error = database_begin_write(database, &connection);
    if (error != 0)
        return error;
    error = query_execute(connection,
                          "INSERT INTO trigrams (rowid, text) SELECT seq, iif(length(search_text) > ?3, ?4,"
                          " search_text) FROM messages WHERE seq > ?1 AND seq <= ?2",
                          "iiis", messages[0], messages[1], (int64_t)TEXT_MAX_CHARACTERS, TOO_LONG);
    if (error == 0)
        error = query_execute(connection, "UPDATE settings SET value = ? WHERE name = 'indexed'", "i",
                              messages[1]);
    return database_end_write(database, error);
}

static int64_t time_after(int64_t ms)
{
    return clock_monotonic_ms(clock_system()) + ms;
}

static void *index_thread(void *argument)
{
    struct search_index *index = argument;
    bool is_error_logged = false;
    while (!cancel_is_set(&index->cancel)) {
        /* Waits until no commit comes for PAUSE_MS or, after a commit, QUIET_MS; at most PATIENCE_MS. */
        int64_t until_ms = time_after(PATIENCE_MS);
        int64_t wait_ms = PAUSE_MS;
        while (time_after(0) < until_ms &&
               database_await_commit(index->database, database_commits(index->database), time_after(wait_ms),
                                     &index->cancel) == 0)
            wait_ms = QUIET_MS;
        uint64_t commits = database_commits(index->database);
        int error = index_batch(index->database);
        if (error != 0 && error != -ENOENT && !is_error_logged)
            log_error("messages cannot be indexed for searches: %s", strerrordesc_np(-error));
        is_error_logged = error != 0 && error != -ENOENT;
        if (error != 0)
            (void)database_await_commit(index->database, commits, time_after(IDLE_MS), &index->cancel);
    }
    return NULL;
}

int search_index_start(struct search_index *index, struct database *database)
{
    index->database = database;
    cancel_init(&index->cancel);
    int error = thread_start(&index->thread, "inboxd-index", index_thread, index);
    index->has_thread = error == 0;
    if (error != 0)
        cancel_release(&index->cancel);
    return error;
}

void search_index_stop(struct search_index *index)
{
    if (!index->has_thread)
        return;
    cancel_set(&index->cancel);
    pthread_join(index->thread, NULL);
    cancel_release(&index->cancel);
}
