/* SPDX-License-Identifier: MIT */
/*
 * A message is written once, in `messages` and `contents`, however many inboxes receive it; `emails` has a
 * row for each inbox that received it, and `outbound` one for the inbox that sent it. The records of lists
 * are kept as the JSON text that is sent, so that a list of 100,000 is a copy. Large columns have a table of
 * their own, or come last, so that scans do not read them.
 */
#include "service/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "service/rereading.h"
#include "service/search_index.h"

/* ---------------------------------------------------------------- the tables */

static const char version_1[] =
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE api_keys (id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, prefix TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, revoked_ms INTEGER);"
    "CREATE TABLE inboxes (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " address TEXT NOT NULL UNIQUE COLLATE NOCASE, record TEXT NOT NULL,"
    " email_changes INTEGER NOT NULL DEFAULT 0);"
    /* message_id: the key by which replies find the message; a random one if another message has the same.
     * thread: seq of its first message. header: the fields that all its content records have in common. */
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
    /* ETags contain how often a list changed. Received mail is counted by inbox, too, so that a client that
     * polls one inbox does not get the whole list again after a change in another. */
    "INSERT INTO settings VALUES ('inbox_changes', 0), ('email_changes', 0), ('outbound_changes', 0);"
    "CREATE TRIGGER inbox_inserted AFTER INSERT ON inboxes BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'inbox_changes'; END;"
    "CREATE TRIGGER inbox_updated AFTER UPDATE OF record ON inboxes BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'inbox_changes'; END;"
    "CREATE TRIGGER emails_inserted AFTER INSERT ON emails BEGIN"
    " UPDATE inboxes SET email_changes = email_changes + 1 WHERE seq = new.inbox;"
    " UPDATE settings SET value = value + 1 WHERE name = 'email_changes'; END;"
    "CREATE TRIGGER emails_updated AFTER UPDATE ON emails BEGIN"
    " UPDATE inboxes SET email_changes = email_changes + 1 WHERE seq = new.inbox;"
    " UPDATE settings SET value = value + 1 WHERE name = 'email_changes'; END;"
    "CREATE TRIGGER outbound_inserted AFTER INSERT ON outbound BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'outbound_changes'; END;";

/* The queue of outgoing.h. */
static const char version_2[] =
    "CREATE TABLE outgoing (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, email INTEGER NOT NULL,"
    " address TEXT NOT NULL COLLATE NOCASE, attempts INTEGER NOT NULL DEFAULT 0, begun_ms INTEGER NOT NULL,"
    " due_ms INTEGER, failure TEXT, UNIQUE (kind, email, address));"
    "CREATE INDEX outgoing_due ON outgoing (kind, due_ms);"
    "CREATE TRIGGER outbound_updated AFTER UPDATE OF record ON outbound BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'outbound_changes'; END;";

static const struct database_step steps[] = {
    {version_1, NULL},
    {version_2, NULL},
    {"", rereading_run},
    {"ALTER TABLE outgoing DROP COLUMN begun_ms", NULL}, /* unused */
    {TABLES_NAME_INSTANCE, NULL},
    {SEARCH_INDEX_TABLES, NULL}, /* its thread fills it, so that the start does not wait */
    /* due_ms was NULL in a row that had failed for good. */
    {"UPDATE outgoing SET due_ms = 0 WHERE due_ms IS NULL; ALTER TABLE outgoing DROP COLUMN failure", NULL},
};

static const struct database_format format = {
    .name = "inbox.sqlite3", .steps = steps, .steps_len = ARRAY_LEN(steps)};

int tables_open(int dir_fd, enum database_sharing sharing, struct database **ret_database)
{
    return database_open(dir_fd, &format, sharing, ret_database);
}

int tables_open_existing(const char *data_dir, struct database **ret_database)
{
    _cleanup_close_ int dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || faccessat(dir_fd, format.name, F_OK, 0) != 0)
        return -errno;
    return tables_open(dir_fd, DATABASE_SHARED, ret_database);
}

/* ---------------------------------------------------------------- large messages */

/* One lock for the whole process, because it bounds the memory of the process. */
static pthread_mutex_t large = PTHREAD_MUTEX_INITIALIZER;

void large_message_begin(void)
{
    pthread_mutex_lock(&large);
}

void large_message_end(void)
{
    pthread_mutex_unlock(&large);
}
