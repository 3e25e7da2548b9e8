/* SPDX-License-Identifier: MIT */
/*
 * Makes rows of the index from records and contents, and an FTS5 expression from a query.
 */
#include "store/search_index.h"

#include <errno.h>
#include <glib.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "store/content_cache.h"

/* Words of the column `attached`. They are private use characters, since a user's words are searched in all
 * columns. */
static const char attached_none[] = "\uE001";
static const char attached_some[] = "\uE002";

/* ---------------------------------------------------------------- sources */

int search_index_remove(struct connection *connection, uint32_t email)
{
    return query_execute(connection, "DELETE FROM search_rows WHERE source IN (2 * ?1, 2 * ?1 + 1)", "i",
                         (int64_t)email);
}

/* ---------------------------------------------------------------- indexing */

enum {
    SOURCES_AT_ONCE = 512,           /* indexing them takes some 50 ms */
    BYTES_AT_ONCE = 4 * 1024 * 1024, /* of records and bodies, which SQLite keeps in memory */
};

/* All strings in a JSON value, in the order of the record; the text is cut at its bound. An address is an
 * object with a name and an address; some servers send a string. */
#define STRINGS_OF(value)                                         \
    "(SELECT substr(group_concat(atom, char(10)), 1, 256 * 1024)" \
    " FROM json_tree(" value ") WHERE type = 'text')"
#define SENDER STRINGS_OF("?1 -> '$.from_address'")
#define RECIPIENTS STRINGS_OF("json_extract(?1, '$.to_addresses', '$.cc_addresses', '$.bcc_addresses')")
#define REPLY_TO STRINGS_OF("?1 -> '$.reply_to_addresses'")

/* Not INSERT ... SELECT: at its start, FTS5 writes the words of earlier rows, which it keeps in memory. */
static const char index_record[] =
    "INSERT INTO search (rowid, subject, sender, recipients, reply_to, attached)"
    " VALUES (last_insert_rowid(), ?1 ->> '$.subject', " SENDER ", " RECIPIENTS ", " REPLY_TO ", ?2)";
static const char index_texts[] =
    "INSERT INTO search (rowid, body, attached) VALUES (last_insert_rowid(), ?1, ?2)";

/* Gives the source a row with a new number. `sql` adds the row of that number to the table `search`. */
static int add_row(struct connection *connection, int64_t source, const char *sql, const char *text,
                   const char *attached)
{
    int error =
        query_execute(connection, "INSERT OR REPLACE INTO search_rows (source) VALUES (?)", "i", source);
    return error != 0 ? error : query_execute(connection, sql, "ss", text, attached);
}

/* Does nothing if the content is no longer in the cache. */
static int index_content(struct connection *connection, int64_t source, const char *email_id, size_t *bytes)
{
    struct content_folder folder;
    int error = content_cache_read_texts(connection, email_id, &folder);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    /* Names come before the body, which may be cut. */
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * SEARCH_BODY_MAX_BYTES);
    for (size_t i = 0; i < folder.len; i++)
        if (folder.entries[i].kind == CONTENT_ATTACHMENT)
            strbuf_appendf(&text, "%s\n", folder.entries[i].name);
    const char *attached = text.len > 0 ? attached_some : attached_none;
    const struct content_entry *body = content_folder_find(&folder, CONTENT_TEXT, "body.txt");
    if (body != NULL)
        strbuf_append(&text, body->bytes, MIN(body->len, (size_t)SEARCH_BODY_MAX_BYTES));
    strbuf_truncate(&text, character_cut(strbuf_str(&text), text.len, SEARCH_BODY_MAX_BYTES));
    *bytes += folder.packed_len;
    content_folder_release(&folder);
    return add_row(connection, source, index_texts, strbuf_str(&text), attached);
}

int search_index_process_pending(struct cache *cache)
{
    struct connection *connection = NULL;
    struct statement pending = {0};
    int64_t end = 0; /* stays 0 if no source is pending */
    size_t bytes = 0;
    int more = 1;
    int error = cache_begin_write(cache, &connection);
    if (error != 0)
        return error;
    /* An email that is gone has no key and no record. */
    error = query_begin(connection, &pending,
                        "SELECT source, key, CAST(json AS TEXT) FROM search_pending"
                        " LEFT JOIN emails ON emails.number = source / 2"
                        " LEFT JOIN records ON records.number = text AND source % 2 = 0"
                        " AND json_valid(CAST(json AS TEXT))"
                        " ORDER BY source LIMIT ?",
                        "i", (int64_t)SOURCES_AT_ONCE);
    while (error == 0 && bytes < BYTES_AT_ONCE && (more = query_step(pending.row)) > 0) {
        int64_t source = sqlite3_column_int64(pending.row, 0);
        const char *record = query_column_text(pending.row, 2);
        end = source + 1;
        bytes += strlen(record);
        if (source % 2 != 0)
            error = index_content(connection, source, query_column_text(pending.row, 1), &bytes);
        else if (record[0] != '\0')
            error = add_row(connection, source, index_record, record, NULL);
    }
    query_end(&pending);
    if (error == 0)
        error = more < 0 ? more
                         : query_execute(connection, "DELETE FROM search_pending WHERE source < ?", "i", end);
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
    };
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MATCH_MAX_BYTES);
    for (size_t i = 0; i < len; i++) {
        const struct search_term *term = &terms[i];
        const char *word = kinds[term->kind].word;
        strbuf_appendf(&text, "%s%s\"%s\"%s", i > 0 ? " OR " : "", kinds[term->kind].column,
                       word != NULL ? word : term->text, word != NULL || term->is_quoted ? "" : "*");
    }
    return strbuf_take(&text, NULL);
}

static int check_cancel(void *cancel)
{
    return cancel_is_set(cancel) ? 1 : 0;
}

/* Passes the emails that `sql` selects to the sink; `expression` is its parameter, or NULL if it has none. */
static int find(struct cache *cache, const char *sql, const char *expression, search_hit_sink sink,
                void *context, struct cancel *cancel)
{
    struct connection *connection = NULL;
    struct statement rows = {0};
    int error = cache_report_error(cache, database_take_reader(cache->database, &connection));
    if (error != 0)
        return error;
    sqlite3_progress_handler(connection->db, STEPS_BETWEEN_CHECKS, check_cancel, cancel);
    int more = query_begin(connection, &rows, sql, expression != NULL ? "s" : "", expression);
    while (more >= 0 && (more = query_step(rows.row)) > 0)
        sink(context, (uint32_t)sqlite3_column_int64(rows.row, 0));
    query_end(&rows);
    sqlite3_progress_handler(connection->db, 0, NULL, NULL);
    database_return_reader(connection);
    return more < 0 && cancel_is_set(cancel) ? -EINTR : cache_report_error(cache, more);
}

int search_index_find(struct cache *cache, const struct search_term *terms, size_t len, search_hit_sink sink,
                      void *context, struct cancel *cancel)
{
    _cleanup_free_ char *expression = match_expression(terms, len);
    /* With CROSS JOIN, SQLite begins with the hits. */
    return find(cache,
                "SELECT source / 2 FROM search CROSS JOIN search_rows ON search_rows.number = search.rowid"
                " WHERE search MATCH ?",
                expression, sink, context, cancel);
}

int search_index_find_unread(struct cache *cache, search_hit_sink sink, void *context, struct cancel *cancel)
{
    return find(cache,
                "SELECT source / 2 FROM search_rows AS record WHERE source % 2 = 0 AND NOT EXISTS"
                " (SELECT 1 FROM search_rows WHERE source = record.source + 1)",
                NULL, sink, context, cancel);
}
