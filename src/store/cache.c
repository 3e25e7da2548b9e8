/* SPDX-License-Identifier: MIT */
/*
 * The tables, their statements, and the hashes that reveal damaged rows.
 */
#include "store/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"

/* ---------------------------------------------------------------- the file */

/* Makes an empty search index, and lists the records and fetched contents of all emails as pending. */
static const char renew_search[] =
    "DROP TABLE IF EXISTS search; DROP TABLE IF EXISTS search_rows; DROP TABLE IF EXISTS search_pending;"
    "CREATE VIRTUAL TABLE search USING fts5 (subject, sender, recipients, reply_to, body, attached,"
    " content = '', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');"
    "CREATE TABLE search_rows (number INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL UNIQUE);"
    "CREATE TABLE search_pending (source INTEGER PRIMARY KEY);"
    "INSERT INTO search_pending SELECT 2 * number FROM emails WHERE inbox IN (SELECT number FROM inboxes);"
    "INSERT INTO search_pending SELECT source + 1 FROM search_pending";

/* email_view.is_quarantined is the column is_held, and email_view.record is the column text. */
static const struct database_step steps[] = {
    {.sql =
         "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
         "CREATE TABLE inboxes (number INTEGER PRIMARY KEY, origin INTEGER NOT NULL,"
         " is_backfilling INTEGER NOT NULL, is_gone INTEGER NOT NULL, record_ms INTEGER NOT NULL,"
         " changed_ms INTEGER NOT NULL, id TEXT NOT NULL, address TEXT, name TEXT NOT NULL,"
         " json BLOB NOT NULL, hash INTEGER NOT NULL);"
         "CREATE TABLE emails (number INTEGER PRIMARY KEY, inbox INTEGER NOT NULL, json_len INTEGER NOT NULL,"
         " line_len INTEGER NOT NULL, date_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL,"
         " is_held INTEGER NOT NULL, text INTEGER NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,"
         " hash INTEGER NOT NULL);"
         "CREATE TABLE records (number INTEGER PRIMARY KEY, hash INTEGER NOT NULL, json BLOB NOT NULL);"
         "CREATE TABLE replaced_records (number INTEGER PRIMARY KEY);"
         "CREATE TABLE parts (number INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, len INTEGER NOT NULL,"
         " kept INTEGER NOT NULL, used_s INTEGER NOT NULL, is_passing INTEGER NOT NULL,"
         " is_file INTEGER NOT NULL, hash INTEGER NOT NULL);"
         "CREATE TABLE part_bytes (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
         "CREATE TABLE message_ids (number INTEGER PRIMARY KEY, digest INTEGER NOT NULL,"
         " email TEXT NOT NULL);"
         "CREATE INDEX message_ids_by_digest ON message_ids (digest)"},
    {.sql = renew_search}, /* instead of an index that also had the texts as they are */
};

static const struct database_format format = {
    .name = "mail.sqlite3",
    .steps = steps,
    .steps_len = ARRAY_LEN(steps),
    /* The write-ahead log may grow to 64 MB, so that a long list is checkpointed rarely. Debian's SQLite
     * would overwrite what is deleted: by FAST it does so only where that writes no further page. */
    .pragmas = "PRAGMA page_size = 8192; PRAGMA wal_autocheckpoint = 8192; PRAGMA cache_size = -4096;"
               "PRAGMA secure_delete = FAST",
    .is_expendable = true,
};

static const char mark_first_sync[] = "first_sync";

int cache_open(struct cache *cache, int dir_fd)
{
    *cache = (struct cache){.database = NULL};
    return database_open(dir_fd, &format, DATABASE_ALONE, &cache->database);
}

void cache_release(struct cache *cache)
{
    database_free(cache->database);
    cache->database = NULL;
}

int64_t cache_digest(const char *text)
{
    char hex[65];
    hash_sha256(text, strlen(text), hex);
    hex[16] = '\0';
    return (int64_t)strtoull(hex, NULL, 16);
}

int cache_report_error(struct cache *cache, int error)
{
    if (error != -EUCLEAN)
        return error;
    atomic_store(&cache->is_damaged, true);
    return -EIO;
}

int cache_renew(struct cache *cache)
{
    int error = database_renew(cache->database);
    atomic_fetch_add(&cache->renewals, 1);
    if (error == 0)
        atomic_store(&cache->is_damaged, false);
    return error;
}

int cache_begin_write(struct cache *cache, struct connection **ret_connection)
{
    return cache_report_error(cache, database_begin_write(cache->database, ret_connection));
}

int cache_end_write(struct cache *cache, int error)
{
    return cache_report_error(cache, database_end_write(cache->database, error));
}

/* ---------------------------------------------------------------- hashes */

static uint64_t hash_text(uint64_t seed, const char *text)
{
    return text == NULL ? seed : hash_bytes(seed, text, strlen(text) + 1);
}

static int64_t hash_inbox(const struct inbox_row *row)
{
    const int64_t numbers[] = {row->number,  row->origin,    row->is_backfilling,
                               row->is_gone, row->record_ms, row->changed_ms};
    uint64_t hash = hash_bytes(0, numbers, sizeof(numbers));
    hash = hash_text(hash_text(hash_text(hash, row->id), row->address), row->name);
    return (int64_t)hash_bytes(hash, row->json, row->json_len);
}

static int64_t hash_email(const struct email_view *email, const char *key)
{
    const int64_t numbers[] = {email->number,  email->inbox,   email->json_len,       email->line_len,
                               email->date_ms, email->seen_ms, email->is_quarantined, (int64_t)email->record};
    return (int64_t)hash_text(hash_text(hash_bytes(0, numbers, sizeof(numbers)), key), email->name);
}

/* ---------------------------------------------------------------- writing */

int cache_put_inbox(struct connection *connection, const struct inbox_row *row)
{
    return query_execute(
        connection, "INSERT OR REPLACE INTO inboxes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", "iiiiiisssbi",
        (int64_t)row->number, (int64_t)row->origin, (int64_t)row->is_backfilling, (int64_t)row->is_gone,
        row->record_ms, row->changed_ms, row->id, row->address, row->name, (const void *)row->json,
        row->json_len, hash_inbox(row));
}

int cache_put_email(struct connection *connection, const struct email_view *email, const char *key)
{
    return query_execute(connection, "INSERT OR REPLACE INTO emails VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         "iiiiiiiissi", (int64_t)email->number, (int64_t)email->inbox,
                         (int64_t)email->json_len, (int64_t)email->line_len, email->date_ms, email->seen_ms,
                         (int64_t)email->is_quarantined, (int64_t)email->record, key, email->name,
                         hash_email(email, key));
}

int cache_delete_email(struct connection *connection, uint32_t number)
{
    return query_execute(connection, "DELETE FROM emails WHERE number = ?", "i", (int64_t)number);
}

int cache_add_record(struct connection *connection, uint64_t record, const char *json, size_t len)
{
    return query_execute(connection, "INSERT OR REPLACE INTO records VALUES (?, ?, ?)", "iib",
                         (int64_t)record, (int64_t)hash_bytes(record, json, len), (const void *)json, len);
}

int cache_add_replaced(struct connection *connection, uint64_t record)
{
    return query_execute(connection, "INSERT OR REPLACE INTO replaced_records VALUES (?)", "i",
                         (int64_t)record);
}

int cache_set_first_sync_done(struct connection *connection)
{
    return query_execute(connection, "INSERT OR REPLACE INTO marks VALUES (?, ?)", "si", mark_first_sync,
                         INT64_C(1));
}

int cache_add_pending(struct connection *connection, uint32_t email, bool is_content)
{
    return query_execute(connection,
                         "INSERT OR IGNORE INTO search_pending SELECT 2 * ?1 + ?2 WHERE NOT ?2"
                         " OR NOT EXISTS (SELECT 1 FROM search_rows WHERE source = 2 * ?1 + 1)",
                         "ii", (int64_t)email, (int64_t)is_content);
}

int cache_add_message_id(struct connection *connection, const char *message_id, const char *email_id)
{
    if (strlen(email_id) > CACHE_EMAIL_ID_MAX_BYTES)
        return 0;
    int error =
        query_execute(connection,
                      "INSERT INTO message_ids (digest, email) SELECT ?1, ?2"
                      " WHERE (SELECT count(*) FROM message_ids WHERE digest = ?1) < ?3"
                      " AND NOT EXISTS (SELECT 1 FROM message_ids WHERE digest = ?1 AND email = ?2)",
                      "isi", cache_digest(message_id), email_id, (int64_t)CACHE_EMAILS_OF_MESSAGE_ID_MAX);
    return error != 0
               ? error
               : query_execute(
                     connection,
                     "DELETE FROM message_ids WHERE number <= (SELECT max(number) FROM message_ids) - ?", "i",
                     (int64_t)CACHE_MESSAGE_IDS_MAX);
}

/* Runs a script in one turn, if the condition is true. Ignores errors (such as a full disk). */
static void run_script_if(struct cache *cache, const char *condition, const char *sql)
{
    struct connection *connection = NULL;
    int64_t is_true = 0;
    if (cache_begin_write(cache, &connection) != 0)
        return;
    int error = query_integers(connection, &is_true, 1, condition, "");
    if (error == 0 && is_true != 0)
        error = query_script(connection->db, sql);
    (void)cache_end_write(cache, error);
}

void cache_delete_replaced(struct cache *cache)
{
    run_script_if(cache, "SELECT EXISTS (SELECT 1 FROM replaced_records)",
                  "DELETE FROM records WHERE number IN (SELECT number FROM replaced_records);"
                  "DELETE FROM replaced_records");
    run_script_if(cache, "SELECT seq > 2 * (SELECT count(*) FROM search_rows) + 10000 FROM sqlite_sequence",
                  renew_search);
}

/* ---------------------------------------------------------------- records */

/* Returns the record of a row, or NULL if the row is damaged. */
static const char *record_of_row(sqlite3_stmt *row, uint64_t record, size_t len)
{
    const char *json = sqlite3_column_blob(row, 2);
    bool is_intact = json != NULL && (size_t)sqlite3_column_bytes(row, 2) == len &&
                     sqlite3_column_int64(row, 1) == (int64_t)hash_bytes(record, json, len);
    return is_intact ? json : NULL;
}

int cache_find_record(struct cache *cache, struct connection *reader, struct statement *rows, uint64_t record,
                      size_t len, const char **ret_json)
{
    bool is_next = rows->row != NULL && sqlite3_column_int64(rows->row, 0) == (int64_t)record + 1;
    int error = 0;
    if (!is_next || query_step(rows->row) <= 0) {
        query_end(rows);
        error = query_first(reader, rows,
                            "SELECT number, hash, json FROM records WHERE number <= ? ORDER BY number DESC",
                            "i", (int64_t)record);
    }
    if (error == 0 && sqlite3_column_int64(rows->row, 0) != (int64_t)record)
        error = -ENOENT;
    if (error == 0 && (*ret_json = record_of_row(rows->row, record, len)) == NULL)
        error = -EUCLEAN;
    return cache_report_error(cache, error);
}

int cache_read_record(struct cache *cache, uint64_t record, size_t len, char **ret_json)
{
    _cleanup_reader_ struct connection *reader = NULL;
    _cleanup_statement_ struct statement rows = {0};
    const char *json = NULL;
    int error = cache_report_error(cache, database_take_reader(cache->database, &reader));
    if (error == 0)
        error = cache_find_record(cache, reader, &rows, record, len, &json);
    if (error == 0)
        *ret_json = g_strndup(json, len);
    return error;
}

/* ---------------------------------------------------------------- loading */

/* Returns NULL if the value is not a text, or contains a NUL. */
static const char *column_text(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text != NULL && strlen(text) == (size_t)sqlite3_column_bytes(row, column) ? text : NULL;
}

static int visit_inbox(sqlite3_stmt *row, const struct cache_visitor *visitor)
{
    const struct inbox_row inbox = {
        .number = (uint32_t)sqlite3_column_int64(row, 0),
        .origin = (enum inbox_origin)sqlite3_column_int64(row, 1),
        .is_backfilling = sqlite3_column_int64(row, 2) != 0,
        .is_gone = sqlite3_column_int64(row, 3) != 0,
        .record_ms = sqlite3_column_int64(row, 4),
        .changed_ms = sqlite3_column_int64(row, 5),
        .id = column_text(row, 6),
        .address = column_text(row, 7),
        .name = column_text(row, 8),
        .json = sqlite3_column_blob(row, 9),
        .json_len = (size_t)sqlite3_column_bytes(row, 9),
    };
    bool is_intact = inbox.id != NULL && inbox.name != NULL && inbox.name[0] != '\0' && inbox.json != NULL &&
                     sqlite3_column_int64(row, 10) == hash_inbox(&inbox);
    return is_intact ? visitor->visit_inbox(visitor->context, &inbox) : -EUCLEAN;
}

static int visit_email(sqlite3_stmt *row, const struct cache_visitor *visitor)
{
    const char *key = column_text(row, 8);
    const struct email_view email = {
        .number = (uint32_t)sqlite3_column_int64(row, 0),
        .inbox = (uint32_t)sqlite3_column_int64(row, 1),
        .json_len = (uint32_t)sqlite3_column_int64(row, 2),
        .line_len = (uint32_t)sqlite3_column_int64(row, 3),
        .date_ms = sqlite3_column_int64(row, 4),
        .seen_ms = sqlite3_column_int64(row, 5),
        .is_quarantined = sqlite3_column_int64(row, 6) != 0,
        .record = (uint64_t)sqlite3_column_int64(row, 7),
        .name = column_text(row, 9),
    };
    bool is_intact = key != NULL && email.name != NULL && email.name[0] != '\0' &&
                     sqlite3_column_int64(row, 10) == hash_email(&email, key);
    return is_intact ? visitor->visit_email(visitor->context, &email, key) : -EUCLEAN;
}

static int visit_rows(struct connection *connection, const char *sql,
                      int (*visit)(sqlite3_stmt *row, const struct cache_visitor *visitor),
                      const struct cache_visitor *visitor)
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_begin(connection, &statement, sql, "");
    int more = 0;
    while (error == 0 && (more = query_step(statement.row)) > 0)
        error = visit(statement.row, visitor);
    return error != 0 ? error : more;
}

#define GONE_INBOXES "(SELECT number FROM inboxes WHERE is_gone)"

int cache_load(struct cache *cache, const struct cache_visitor *visitor, struct cache_state *ret_state)
{
    _cleanup_reader_ struct connection *connection = NULL;
    int64_t last = 0;
    int64_t is_done = 0;
    /* If this fails, the rows are passed over below, and the next start deletes them. */
    run_script_if(
        cache, "SELECT EXISTS (SELECT 1 FROM inboxes WHERE is_gone)",
        "INSERT OR REPLACE INTO replaced_records SELECT text FROM emails WHERE inbox IN " GONE_INBOXES ";"
        "DELETE FROM emails WHERE inbox IN " GONE_INBOXES ";"
        "DELETE FROM search_rows WHERE source / 2 NOT IN (SELECT number FROM emails);"
        "DELETE FROM inboxes WHERE is_gone");
    cache_delete_replaced(cache);
    int error = database_begin_read(cache->database, &connection);
    if (error != 0)
        return error;
    error = query_integers(connection, &last, 1, "SELECT ifnull(max(number), 0) FROM records", "");
    if (error == 0)
        error = query_integers(connection, &is_done, 1, "SELECT value FROM marks WHERE name = ?", "s",
                               mark_first_sync);
    *ret_state = (struct cache_state){.next_record = (uint64_t)last + 1, .is_first_sync_done = is_done != 0};
    if (error == 0 || error == -ENOENT)
        error = visit_rows(connection, "SELECT * FROM inboxes ORDER BY number", visit_inbox, visitor);
    if (error == 0)
        error =
            visit_rows(connection, "SELECT * FROM emails WHERE inbox NOT IN " GONE_INBOXES " ORDER BY number",
                       visit_email, visitor);
    return error;
}
