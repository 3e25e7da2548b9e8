/* SPDX-License-Identifier: MIT */
/*
 * Makes a row of the index from a record and a body, and an FTS5 expression from a query.
 */
#include "store/search_index.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

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
    int error = query_execute(connection, "DELETE FROM search_pending WHERE number = ?", "i", (int64_t)email);
    return error != 0 ? error
                      : query_execute(connection, "DELETE FROM search WHERE rowid = ?", "i", (int64_t)email);
}

int search_index_add_pending_content(struct connection *connection, uint32_t email,
                                     const struct content_folder *folder)
{
    int64_t is_known = 0;
    int error =
        query_integers(connection, &is_known, 1,
                       "SELECT EXISTS (SELECT 1 FROM search_pending WHERE number = ?1 AND attached NOT NULL)"
                       " OR EXISTS (SELECT 1 FROM search WHERE rowid = ?1 AND attached <> ?2)",
                       "is", (int64_t)email, attached_unknown);
    if (error != 0 || is_known != 0)
        return error;
    /* Names come before the body, which may be cut. */
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * SEARCH_BODY_MAX_BYTES);
    for (size_t i = 0; i < folder->len; i++)
        if (folder->entries[i].kind == CONTENT_ATTACHMENT)
            strbuf_appendf(&text, "%s\n", folder->entries[i].name);
    const char *attached = text.len > 0 ? attached_some : attached_none;
    const struct content_entry *body = content_folder_find(folder, CONTENT_TEXT, "body.txt");
    if (body != NULL)
        strbuf_append(&text, body->bytes, MIN(body->len, (size_t)SEARCH_BODY_MAX_BYTES));
    /* The text is cut at a NUL, and at the last whole character within the bound. */
    size_t len = character_cut(strbuf_str(&text), text.len, SEARCH_BODY_MAX_BYTES);
    _cleanup_free_ char *indexed = strndup(strbuf_str(&text), len);
    if (indexed == NULL)
        return -ENOMEM;
    return query_execute(connection, "INSERT OR REPLACE INTO search_pending VALUES (?, ?, ?)", "iss",
                         (int64_t)email, attached, indexed);
}

/* ---------------------------------------------------------------- indexing */

enum {
    EMAILS_AT_ONCE = 512 /* indexing them takes some 50 ms */
};

/* Indexes the email of a row of index_next(). Skips an email that is gone: it has no record. */
static int index_row(struct connection *connection, sqlite3_stmt *row)
{
    struct search_record record;
    int64_t email = sqlite3_column_int64(row, 0);
    const char *attached = (const char *)sqlite3_column_text(row, 1);
    const char *body = (const char *)sqlite3_column_text(row, 2);
    const char *json = sqlite3_column_blob(row, 3);
    if (json == NULL)
        return 0;
    int error = search_record_read(json, (size_t)sqlite3_column_bytes(row, 3), &record);
    if (error != 0)
        return error == -EBADMSG ? 0 : error;
    bool has_row = false;
    if (attached == NULL) { /* the row keeps its body and attachments */
        error = query_execute(
            connection,
            "UPDATE search SET subject = ?2, sender = ?3, recipients = ?4, reply_to = ?5 WHERE rowid = ?1",
            "issss", email, record.subject, record.sender, record.recipients, record.reply_to);
        has_row = sqlite3_changes(connection->db) > 0;
    }
    if (error == 0 && !has_row)
        error = query_execute(
            connection,
            "INSERT OR REPLACE INTO search (rowid, subject, sender, recipients, reply_to, body, attached)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            "issssss", email, record.subject, record.sender, record.recipients, record.reply_to,
            attached == NULL ? "" : body, attached == NULL ? attached_unknown : attached);
    search_record_release(&record);
    return error;
}

/* Indexes the first pending email from *number on, and sets *number to its number plus 1. Return: 1; 0 when
 * there is none; -errno. */
static int index_next(struct connection *connection, int64_t *number)
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(connection, &statement,
                            "SELECT p.number, p.attached, p.body, r.json FROM search_pending AS p"
                            " LEFT JOIN emails AS e ON e.number = p.number"
                            " LEFT JOIN records AS r ON r.number = e.text WHERE p.number >= ?"
                            " ORDER BY p.number LIMIT 1",
                            "i", *number);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    *number = sqlite3_column_int64(statement.row, 0);
    error = index_row(connection, statement.row);
    if (error == 0)
        error = query_execute(connection, "DELETE FROM search_pending WHERE number = ?", "i", (*number)++);
    return error != 0 ? error : 1;
}

int search_index_process_pending(struct cache *cache)
{
    struct connection *connection = NULL;
    int64_t number = 0;
    int more = 1;
    int error = cache_begin_write(cache, &connection);
    if (error != 0)
        return error;
    for (int i = 0; i < EMAILS_AT_ONCE && more > 0; i++)
        more = index_next(connection, &number);
    error = cache_end_write(cache, more < 0 ? more : 0);
    return error != 0 ? error : more;
}

/* ---------------------------------------------------------------- finding */

enum {
    MATCH_MAX_BYTES = 64 * 1024,
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
    if (expression == NULL)
        return -ENOMEM;
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
