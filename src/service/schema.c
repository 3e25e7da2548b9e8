/* SPDX-License-Identifier: MIT */
/*
 * The tables. A message is written once, however many inboxes it is delivered to: `messages` and `contents`
 * hold it, `emails` and `outbound` say who received and who sent it. The records that lists answer with are
 * kept as the JSON text they are sent as, so that a list of 100,000 is a copy. Large columns have a table of
 * their own, or come last, so that scans do not wade through them.
 */
#include "service/schema.h"

#include <errno.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "sql/query.h"

static const char version_1[] =
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE api_keys (id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, prefix TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, revoked_ms INTEGER);"
    "CREATE TABLE inboxes (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " address TEXT NOT NULL UNIQUE COLLATE NOCASE, record TEXT NOT NULL,"
    " email_changes INTEGER NOT NULL DEFAULT 0);"
    /* thread: seq of its first message. header: what the content records of all who see it have in common. */
    "CREATE TABLE messages (seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE,"
    " thread INTEGER NOT NULL, forward_depth INTEGER NOT NULL, date_ms INTEGER NOT NULL, header TEXT NOT "
    "NULL, search_text TEXT NOT NULL);"
    "CREATE INDEX messages_thread ON messages (thread);"
    "CREATE TABLE contents (message INTEGER PRIMARY KEY REFERENCES messages, plain_text TEXT, html TEXT,"
    " raw BLOB NOT NULL);"
    "CREATE TABLE emails (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " inbox INTEGER NOT NULL REFERENCES inboxes, message INTEGER NOT NULL REFERENCES messages,"
    " is_valid INTEGER NOT NULL, from_address TEXT NOT NULL COLLATE NOCASE, record TEXT NOT NULL);"
    "CREATE INDEX emails_inbox ON emails (inbox);"
    "CREATE INDEX emails_message ON emails (message);"
    "CREATE TABLE outbound (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " inbox INTEGER NOT NULL REFERENCES inboxes, message INTEGER NOT NULL REFERENCES messages,"
    " date_ms INTEGER NOT NULL, record TEXT NOT NULL);"
    "CREATE INDEX outbound_inbox ON outbound (inbox);"
    "CREATE INDEX outbound_message ON outbound (message);"
    "CREATE INDEX outbound_date ON outbound (date_ms);"
    "CREATE TABLE idempotency_keys (key TEXT PRIMARY KEY, digest TEXT NOT NULL,"
    " outbound_id TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE pool (id TEXT PRIMARY KEY, name TEXT NOT NULL, content_type TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL) WITHOUT ROWID;"
    /* What ETags are made of: how often each list changed, received mail by inbox too, so that a client that
     * polls one inbox is not sent all of it again for what happened elsewhere. */
    "INSERT INTO settings VALUES ('inbox_changes', 0), ('email_changes', 0), ('outbound_changes', 0);"
    "CREATE TRIGGER inboxes_inserted AFTER INSERT ON inboxes BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'inbox_changes'; END;"
    "CREATE TRIGGER inboxes_updated AFTER UPDATE OF record ON inboxes BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'inbox_changes'; END;"
    "CREATE TRIGGER emails_inserted AFTER INSERT ON emails BEGIN"
    " UPDATE inboxes SET email_changes = email_changes + 1 WHERE seq = new.inbox;"
    " UPDATE settings SET value = value + 1 WHERE name = 'email_changes'; END;"
    "CREATE TRIGGER emails_updated AFTER UPDATE ON emails BEGIN"
    " UPDATE inboxes SET email_changes = email_changes + 1 WHERE seq = new.inbox;"
    " UPDATE settings SET value = value + 1 WHERE name = 'email_changes'; END;"
    "CREATE TRIGGER outbound_inserted AFTER INSERT ON outbound BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'outbound_changes'; END;";

static const char *const versions[] = {version_1};

int schema_version(void)
{
    return (int)ARRAY_LEN(versions);
}

/* What ETags of this database differ by from those of another that stood in its place. */
static int name_instance(sqlite3 *db)
{
    char instance[37];
    int error = random_uuid(instance);
    if (error != 0)
        return error;
    return query_execute(db, "INSERT OR IGNORE INTO settings VALUES ('instance', ?)", "s", instance);
}

static int migrate_locked(sqlite3 *db)
{
    int64_t version = 0;
    int error = query_integer(db, &version, "PRAGMA user_version", "");
    if (error != 0)
        return error;
    if (version < 0 || version > schema_version())
        return -EPROTO;
    if (version == schema_version())
        return 0;
    for (int64_t next = version; error == 0 && next < schema_version(); next++)
        error = query_error(sqlite3_exec(db, versions[next], NULL, NULL, NULL));
    if (error == 0)
        error = name_instance(db);
    if (error != 0)
        return error;
    char statement[64];
    snprintf(statement, sizeof(statement), "PRAGMA user_version = %d", schema_version());
    return query_execute(db, statement, "");
}

int schema_migrate(sqlite3 *db)
{
    int error = query_execute(db, "BEGIN IMMEDIATE", "");
    if (error != 0)
        return error;
    error = migrate_locked(db);
    if (error == 0)
        error = query_execute(db, "COMMIT", "");
    if (error != 0)
        (void)query_execute(db, "ROLLBACK", "");
    return error;
}
