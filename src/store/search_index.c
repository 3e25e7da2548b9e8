/* SPDX-License-Identifier: MIT */
/*
 * Makes rows of the index from records and bodies, and an FTS5 expression from a query.
 */
#include "store/search_index.h"

#include <errno.h>
#include <glib.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"

/* Words of the column `attached`. They are private use characters, since a user's words are searched in all
 * columns. */
static const char attached_unknown[] = "\uE000";
static const char attached_none[] = "\uE001";
static const char attached_some[] = "\uE002";

/* ---------------------------------------------------------------- pending emails */

int search_index_add_pending(struct connection *connection, uint32_t email)
{
    return query_execute(connection, "INSERT OR IGNORE INTO search_pending VALUES (?, NULL, NULL)", "i",
                         (int64_t)email);
}

int search_index_remove(struct connection *connection, uint32_t email)
{
    return query_execute(connection, "DELETE FROM search WHERE rowid = ?", "i", (int64_t)email);
}

int search_index_add_pending_content(struct connection *connection, uint32_t email,
                                     const struct content_folder *folder)
{
    /* Names come before the body, which may be cut. */
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * SEARCH_BODY_MAX_BYTES);
    for (size_t i = 0; i < folder->len; i++)
        if (folder->entries[i].kind == CONTENT_ATTACHMENT)
            strbuf_appendf(&text, "%s\n", folder->entries[i].name);
    const char *attached = text.len > 0 ? attached_some : attached_none;
    const struct content_entry *body = content_folder_find(folder, CONTENT_TEXT, "body.txt");
    if (body != NULL)
        strbuf_append(&text, body->bytes, MIN(body->len, (size_t)SEARCH_BODY_MAX_BYTES));
    size_t len = character_cut(strbuf_str(&text), text.len, SEARCH_BODY_MAX_BYTES);
    return query_execute(
        connection,
        "INSERT OR REPLACE INTO search_pending SELECT ?1, ?2, CAST(?3 AS TEXT) WHERE NOT EXISTS"
        " (SELECT 1 FROM search_pending WHERE number = ?1 AND attached NOT NULL) AND NOT EXISTS"
        " (SELECT 1 FROM search WHERE rowid = ?1 AND attached <> ?4)",
        "isbs", (int64_t)email, attached, (const void *)strbuf_str(&text), len, attached_unknown);
}

/* ---------------------------------------------------------------- indexing */

enum {
    EMAILS_AT_ONCE = 512,            /* indexing them takes some 50 ms */
    BYTES_AT_ONCE = 4 * 1024 * 1024, /* of records and bodies, which SQLite keeps in memory */
};

/* Gives the number after the last email of the next batch, or 0. The email that exceeds BYTES_AT_ONCE is the
 * last. Reads the bodies of this batch alone: later ones may be many and long. */
static const char find_batch[] =
    "WITH RECURSIVE batch(number, len, bytes) AS (SELECT -1, 0, 0 UNION ALL"
    " SELECT next.number, len + 1, bytes + ifnull(length(body), 0)"
    " + ifnull((SELECT json_len FROM emails WHERE number = next.number), 0)"
    " FROM batch JOIN search_pending AS next"
    " ON next.number = (SELECT min(number) FROM search_pending WHERE number > batch.number)"
    " WHERE len < ?1 AND bytes < ?2)"
    " SELECT max(number) + 1 FROM batch";

/* All strings in a JSON value, in the order of the record; the text is cut at its bound. An address is an
 * object with a name and an address; some servers send a string. */
#define STRINGS_OF(value)                                         \
    "(SELECT substr(group_concat(atom, char(10)), 1, 256 * 1024)" \
    " FROM json_tree(" value ") WHERE type = 'text')"
#define SENDER STRINGS_OF("record.json -> '$.from_address'")
#define RECIPIENTS \
    STRINGS_OF("json_extract(record.json, '$.to_addresses', '$.cc_addresses', '$.bcc_addresses')")
#define REPLY_TO STRINGS_OF("record.json -> '$.reply_to_addresses'")

/* The row of a changed record keeps its body and attachments. An email that is gone has no record. With CROSS
 * JOIN, SQLite begins with the few pending emails. */
static const char index_pending[] =
    "INSERT OR REPLACE INTO search (rowid, subject, sender, recipients, reply_to, body, attached)"
    " SELECT pending.number, record.json ->> '$.subject', " SENDER ", " RECIPIENTS ", " REPLY_TO ","
    " coalesce(pending.body, search.body), coalesce(pending.attached, search.attached, ?2)"
    " FROM search_pending AS pending CROSS JOIN emails ON emails.number = pending.number CROSS JOIN"
    " (SELECT number, CAST(json AS TEXT) AS json FROM records) AS record ON record.number = emails.text"
    " LEFT JOIN search ON search.rowid = pending.number"
    " WHERE pending.number < ?1 AND json_valid(record.json)";

int search_index_process_pending(struct cache *cache)
{
    struct connection *connection = NULL;
    int64_t end = 0; /* stays 0 if no email is pending */
    int error = cache_begin_write(cache, &connection);
    if (error != 0)
        return error;
    error = query_integers(connection, &end, 1, find_batch, "ii", (int64_t)EMAILS_AT_ONCE,
                           (int64_t)BYTES_AT_ONCE);
    if (error == 0)
        error = query_execute(connection, index_pending, "is", end, attached_unknown);
    if (error == 0)
        error = query_execute(connection, "DELETE FROM search_pending WHERE number < ?", "i", end);
    error = cache_end_write(cache, error);
    return error != 0 ? error : end > 0 ? 1 : 0;
}

/* ---------------------------------------------------------------- finding */

enum {
    MATCH_MAX_BYTES = 64 * 1024, /* more than the terms of the longest query take */
    STEPS_BETWEEN_CHECKS = 2000, /* SQLite instructions between calls of check_cancel(): less than 1 ms */
};

/* Quotes each term as an FTS5 string, in which only quotes have a meaning; terms have no quotes. A "*" after
 * the string turns its last word into a prefix. */
static char *match_expression(const struct search_term *terms, size_t len)
{
    static const struct {
        const char *column;
        const char *word; /* NULL to use the term's text */
    } kinds[] = {
        [SEARCH_WORD] = {"", NULL},
        [SEARCH_SUBJECT] = {"subject : ", NULL},
        [SEARCH_FROM] = {"sender : ", NULL},
        [SEARCH_TO] = {"recipients : ", NULL},
        [SEARCH_ATTACHMENT] = {"attached : ", attached_some},
        [SEARCH_NO_ATTACHMENT] = {"attached : ", attached_none},
        [SEARCH_UNKNOWN_ATTACHMENT] = {"attached : ", attached_unknown},
    };
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MATCH_MAX_BYTES);
    for (size_t i = 0; i < len; i++) {
        const struct search_term *term = &terms[i];
        const char *word = kinds[term->kind].word;
        bool continues_group = i + 1 < len && terms[i + 1].is_alternative;
        strbuf_appendf(&text, "%s%s\"%s\"%s%s",
                       i == 0                 ? "("
                       : term->is_alternative ? " OR "
                                              : " AND (",
                       kinds[term->kind].column, word != NULL ? word : term->text,
                       word != NULL || term->is_quoted ? "" : "*", continues_group ? "" : ")");
    }
    return strbuf_take(&text, NULL);
}

static int check_cancel(void *cancel)
{
    return cancel_is_set(cancel) ? 1 : 0;
}

int search_index_find(struct cache *cache, const struct search_term *terms, size_t len, search_hit_sink sink,
                      void *context, struct cancel *cancel)
{
    struct connection *connection = NULL;
    struct statement rows = {0};
    _cleanup_free_ char *expression = match_expression(terms, len);
    int error = cache_report_error(cache, database_take_reader(cache->database, &connection));
    if (error != 0)
        return error;
    sqlite3_progress_handler(connection->db, STEPS_BETWEEN_CHECKS, check_cancel, cancel);
    int more =
        query_begin(connection, &rows, "SELECT rowid FROM search WHERE search MATCH ?", "s", expression);
    while (more >= 0 && (more = query_step(rows.row)) > 0)
        sink(context, (uint32_t)sqlite3_column_int64(rows.row, 0));
    query_end(&rows);
    sqlite3_progress_handler(connection->db, 0, NULL, NULL);
    database_return_reader(connection);
    return more < 0 && cancel_is_set(cancel) ? -EINTR : cache_report_error(cache, more);
}
