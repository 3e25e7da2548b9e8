/* SPDX-License-Identifier: MIT */
/*
 * The tables of the cache and their statements.
 */
#include "store/cache.h"

#include <errno.h>

#include "base/cleanup.h"

/* ---------------------------------------------------------------- the file */

static const struct database_step steps[] = {
    {.sql =
         "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
         "CREATE TABLE inboxes (number INTEGER PRIMARY KEY, origin INTEGER NOT NULL, is_quiet INTEGER NOT "
         "NULL,"
         " is_gone INTEGER NOT NULL, record_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, id TEXT NOT "
         "NULL,"
         " address TEXT, name TEXT NOT NULL, json BLOB NOT NULL, hash INTEGER NOT NULL);"
         "CREATE TABLE emails (number INTEGER PRIMARY KEY, inbox INTEGER NOT NULL, json_len INTEGER NOT NULL,"
         " line_len INTEGER NOT NULL, date_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL,"
         " is_held INTEGER NOT NULL, text INTEGER NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,"
         " hash INTEGER NOT NULL);"
         "CREATE TABLE records (number INTEGER PRIMARY KEY, hash INTEGER NOT NULL, json BLOB NOT NULL);"
         "CREATE TABLE replaced_records (number INTEGER PRIMARY KEY);"
         "CREATE VIRTUAL TABLE search USING fts5 (subject, sender, recipients, reply_to, body, attached,"
         " columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');"
         "CREATE TABLE parts (number INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, len INTEGER NOT NULL,"
         " kept INTEGER NOT NULL, used_s INTEGER NOT NULL, is_passing INTEGER NOT NULL,"
         " is_file INTEGER NOT NULL, hash INTEGER NOT NULL);"
         "CREATE TABLE part_bytes (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
         "CREATE TABLE message_ids (number INTEGER PRIMARY KEY, digest INTEGER NOT NULL, email TEXT NOT "
         "NULL);"
         "CREATE INDEX message_ids_by_digest ON message_ids (digest)"},
};

#define GONE_INBOXES "(SELECT number FROM inboxes WHERE is_gone)"

static const char *const statements[] = {
    [CACHE_PUT_INBOX] = "INSERT OR REPLACE INTO inboxes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [CACHE_LIST_INBOXES] = "SELECT * FROM inboxes ORDER BY number",
    [CACHE_PUT_EMAIL] = "INSERT OR REPLACE INTO emails VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [CACHE_DELETE_EMAIL] = "DELETE FROM emails WHERE number = ?",
    [CACHE_LIST_EMAILS] = "SELECT * FROM emails ORDER BY number",
    [CACHE_ADD_RECORD] = "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
    [CACHE_READ_RECORD] = "SELECT number, hash, json FROM records WHERE number = ?",
    [CACHE_READ_RECORDS_FORWARDS] =
        "SELECT number, hash, json FROM records WHERE number >= ? ORDER BY number",
    [CACHE_READ_RECORDS_BACKWARDS] =
        "SELECT number, hash, json FROM records WHERE number <= ? ORDER BY number DESC",
    [CACHE_LAST_RECORD] = "SELECT ifnull(max(number), 0) FROM records",
    [CACHE_NOTE_REPLACED] = "INSERT OR REPLACE INTO replaced_records VALUES (?)",
    [CACHE_DELETE_REPLACED] = "DELETE FROM records WHERE number IN (SELECT number FROM replaced_records)",
    [CACHE_FORGET_REPLACED] = "DELETE FROM replaced_records",
    [CACHE_HAS_GONE] = "SELECT EXISTS (SELECT 1 FROM inboxes WHERE is_gone)",
    [CACHE_UNINDEX_GONE] =
        "DELETE FROM search WHERE rowid IN (SELECT number FROM emails WHERE inbox IN " GONE_INBOXES ")",
    [CACHE_REPLACE_GONE] =
        "INSERT OR REPLACE INTO replaced_records SELECT text FROM emails WHERE inbox IN " GONE_INBOXES,
    [CACHE_DELETE_GONE_EMAILS] = "DELETE FROM emails WHERE inbox IN " GONE_INBOXES,
    [CACHE_DELETE_GONE_INBOXES] = "DELETE FROM inboxes WHERE is_gone",
    [CACHE_SET_MARK] = "INSERT OR REPLACE INTO marks VALUES (?, ?)",
    [CACHE_GET_MARK] = "SELECT value FROM marks WHERE name = ?",
    [CACHE_INDEX_EMAIL] = "INSERT INTO search (rowid, subject, sender, recipients, reply_to, body, attached)"
                          " VALUES (?, ?, ?, ?, ?, '', ?)",
    [CACHE_REINDEX_EMAIL] =
        "UPDATE search SET subject = ?, sender = ?, recipients = ?, reply_to = ? WHERE rowid = ?",
    [CACHE_UNINDEX_EMAIL] = "DELETE FROM search WHERE rowid = ?",
    [CACHE_HAS_CONTENT] = "SELECT attached <> ? FROM search WHERE rowid = ?",
    [CACHE_INDEX_CONTENT] = "UPDATE search SET body = ?, attached = ? WHERE rowid = ?",
    [CACHE_READ_PART] = "SELECT parts.number, len, used_s, is_passing, is_file, hash, bytes FROM parts"
                        " LEFT JOIN part_bytes ON part_bytes.number = parts.number WHERE key = ?",
    [CACHE_FIND_PART] = "SELECT number, is_file, kept FROM parts WHERE key = ?",
    [CACHE_GET_PART_LEN] = "SELECT len FROM parts WHERE key = ?",
    [CACHE_HAS_PART_FILE] = "SELECT EXISTS (SELECT 1 FROM parts WHERE number = ? AND is_file)",
    [CACHE_ADD_PART] = "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [CACHE_ADD_PART_BYTES] = "INSERT OR REPLACE INTO part_bytes VALUES (?, ?)",
    [CACHE_USE_PART] = "UPDATE parts SET used_s = ?, is_passing = 0 WHERE key = ?",
    [CACHE_DELETE_PART] = "DELETE FROM parts WHERE number = ?",
    [CACHE_DELETE_PART_BYTES] = "DELETE FROM part_bytes WHERE number = ?",
    [CACHE_COUNT_PARTS] = "SELECT ifnull(sum(kept), 0), ifnull(max(number), 0) FROM parts",
    [CACHE_COUNT_PARTS_OF] = "SELECT ifnull(sum(kept), 0) FROM parts WHERE is_passing = ?",
    [CACHE_LIST_PARTS] = "SELECT number, is_file, kept FROM parts WHERE is_passing = ? AND number <> ? ORDER "
                         "BY used_s, number",
    [CACHE_FIND_MESSAGE_ID] = "SELECT email FROM message_ids WHERE digest = ? ORDER BY number LIMIT ?",
    [CACHE_ADD_MESSAGE_ID] = "INSERT INTO message_ids (digest, email) VALUES (?, ?)",
    [CACHE_TRIM_MESSAGE_IDS] =
        "DELETE FROM message_ids WHERE number <= (SELECT max(number) FROM message_ids) - ?",
};
_Static_assert(ARRAY_LEN(statements) <= STATEMENTS_MAX, "room for all of them");

static const struct database_format format = {
    .name = "mail.sqlite3",
    .steps = steps,
    .steps_len = ARRAY_LEN(steps),
    .statements = statements,
    /* 64 MB of log: a long list is copied into the file in few pieces. */
    .pragmas = "PRAGMA wal_autocheckpoint = 16384; PRAGMA cache_size = -4096",
    .is_expendable = true,
};

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

int cache_note(struct cache *cache, int error)
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
    return cache_note(cache, database_begin_write(cache->database, ret_connection));
}

int cache_end_write(struct cache *cache, int error)
{
    return cache_note(cache, database_end_write(cache->database, error));
}
