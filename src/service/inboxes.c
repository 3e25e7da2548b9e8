/* SPDX-License-Identifier: MIT */
/*
 * Inboxes: rows of the table `inboxes`, read and written as records.
 */
#include "service/inboxes.h"

#include <errno.h>

#include "base/cleanup.h"
#include "sql/query.h"

void inbox_release(struct inbox *inbox)
{
    json_decref(inbox->record);
    inbox->record = NULL;
}

const char *inbox_id(const struct inbox *inbox)
{
    return json_string_value(json_object_get(inbox->record, "id"));
}

const char *inbox_address(const struct inbox *inbox)
{
    return json_string_value(json_object_get(inbox->record, "email_address"));
}

const char *inbox_name(const struct inbox *inbox)
{
    const char *name = json_string_value(json_object_get(inbox->record, "name"));
    return name != NULL && name[0] != '\0' ? name : NULL;
}

static int find(sqlite3 *db, const char *sql, const char *value, struct inbox *ret_inbox)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, sql, "s", value);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0)
        return step < 0 ? step : -ENOENT;
    json_t *record = json_loads((const char *)sqlite3_column_text(statement, 1), 0, NULL);
    if (record == NULL)
        return -EUCLEAN;
    *ret_inbox = (struct inbox){.seq = sqlite3_column_int64(statement, 0), .record = record};
    return 0;
}

int inboxes_find_by_id(sqlite3 *db, const char *id, struct inbox *ret_inbox)
{
    return find(db, "SELECT seq, record FROM inboxes WHERE id = ?", id, ret_inbox);
}

int inboxes_find_by_address(sqlite3 *db, const char *address, struct inbox *ret_inbox)
{
    return find(db, "SELECT seq, record FROM inboxes WHERE address = ?", address, ret_inbox);
}

int inboxes_insert(sqlite3 *db, struct inbox *inbox)
{
    _cleanup_free_ char *record = json_dumps(inbox->record, JSON_COMPACT);
    if (record == NULL)
        return -ENOMEM;
    int error = query_execute(db, "INSERT INTO inboxes (id, address, record) VALUES (?, ?, ?)", "sss",
                              inbox_id(inbox), inbox_address(inbox), record);
    if (error == 0)
        inbox->seq = sqlite3_last_insert_rowid(db);
    return error;
}

int inboxes_update(sqlite3 *db, const struct inbox *inbox)
{
    _cleanup_free_ char *record = json_dumps(inbox->record, JSON_COMPACT);
    if (record == NULL)
        return -ENOMEM;
    return query_execute(db, "UPDATE inboxes SET address = ?, record = ? WHERE seq = ?", "ssi",
                         inbox_address(inbox), record, inbox->seq);
}

int inboxes_is_empty(sqlite3 *db)
{
    int64_t count = 0;
    int error = query_integer(db, &count, "SELECT count(*) FROM (SELECT 1 FROM inboxes LIMIT 1)", "");
    return error != 0 ? error : count == 0;
}
