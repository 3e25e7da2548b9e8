/* SPDX-License-Identifier: MIT */
/*
 * A message is written once, in `messages` and `contents`, however many inboxes receive it; `emails` has a
 * row for each inbox that received it, and `outbound` one for the inbox that sent it. The records of lists
 * are stored as the JSON text that is sent, so that a list is copied, not written anew. Large columns have a
 * table of their own, or are the last columns, so that scans do not read them.
 */
#include "service/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/json_writer.h"
#include "service/message.h"
#include "service/search_index.h"

pthread_mutex_t large_messages = PTHREAD_MUTEX_INITIALIZER;

/* ---------------------------------------------------------------- the step from version 0.2 */

/* Version 0.2 stored some texts of a message as attachments. This step reads such messages again, so that all
 * of their text is in the bodies. To be removed after version 0.3. */

static int update_message(struct connection *connection, int64_t seq, const struct message *message)
{
    _cleanup_json_ json_t *records = message_attachment_records(message);
    _cleanup_free_ char *attachments = json_dumps(records, JSON_COMPACT);
    _cleanup_free_ char *search_text = message_search_text(message);
    int error =
        query_execute(connection,
                      "UPDATE messages SET search_text = ?, header = json_set(header, '$.attachments',"
                      " json(?), '$.alternative_content', json(?)) WHERE seq = ?",
                      "sssi", search_text, attachments, message->alternative_content ? "true" : "false", seq);
    return error != 0
               ? error
               : query_execute(connection, "UPDATE contents SET plain_text = ?, html = ? WHERE message = ?",
                               "ssi", message->plain_text, message->html, seq);
}

static int reread_messages(struct connection *connection)
{
    int64_t seq = 0;
    int error = 0;
    while (error == 0) {
        _cleanup_statement_ struct statement statement = {0};
        error = query_first(connection, &statement,
                            "SELECT seq, json_array_length(header, '$.attachments'), raw FROM messages"
                            " JOIN contents ON message = seq WHERE seq > ?"
                            " AND header LIKE '%\"content_type\":\"text/%' ORDER BY seq LIMIT 1",
                            "i", seq);
        if (error != 0)
            break;
        seq = sqlite3_column_int64(statement.row, 0);
        size_t before = (size_t)sqlite3_column_int64(statement.row, 1);
        _cleanup_(message_release) struct message message = {0};
        message_read(sqlite3_column_blob(statement.row, 2), (size_t)sqlite3_column_bytes(statement.row, 2),
                     &message);
        /* A message that the service wrote itself keeps its attachments. If the list was full, later
         * attachments were left out, and may now have moved up into it. */
        if (message.attachments_len < before || before == ATTACHMENTS_MAX)
            error = update_message(connection, seq, &message);
    }
    return error == -ENOENT ? 0 : error;
}

/* ---------------------------------------------------------------- the tables */

static const char version_1[] =
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE api_keys (id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, prefix TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, revoked_ms INTEGER);"
    "CREATE TABLE inboxes (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " address TEXT NOT NULL UNIQUE COLLATE NOCASE, record TEXT NOT NULL,"
    " email_changes INTEGER NOT NULL DEFAULT 0);"
    /* message_id: the Message-ID by which replies find the message, or a random text if an earlier message
     * has this Message-ID. thread: seq of the thread's first message. header: the JSON fields that all
     * content records of the message have in common. */
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
    /* An ETag contains the number of changes of a list. Each inbox also counts its own changes, so that a
     * client that polls one inbox does not get the whole list again after a change in another inbox. */
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
    {"", reread_messages},
    {"ALTER TABLE outgoing DROP COLUMN begun_ms", NULL}, /* unused */
    {TABLES_NAME_INSTANCE, NULL},
    {SEARCH_INDEX_TABLES,
     NULL}, /* the thread of the search index fills them, so that the start does not wait */
    /* due_ms was NULL in a row that is never tried again. */
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
