/* SPDX-License-Identifier: MIT */
/*
 * Marks on received emails.
 */
#include "service/emails.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "sql/query.h"

static int load_record(sqlite3 *db, const char *id, json_t **ret_record)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, "SELECT record FROM emails WHERE id = ?", "s", id);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0)
        return step < 0 ? step : -ENOENT;
    json_t *record = json_loads((const char *)sqlite3_column_text(statement, 0), 0, NULL);
    if (record == NULL)
        return -EUCLEAN;
    *ret_record = record;
    return 0;
}

static int store_mark(sqlite3 *db, const char *id, bool mark, json_t *record)
{
    if (json_object_set_new(record, "user_mark_status", json_boolean(mark)) != 0)
        return -ENOMEM;
    bool is_valid = mark || strcmp(json_string_value(json_object_get(record, "status")), "valid") == 0;
    _cleanup_free_ char *text = json_dumps(record, JSON_COMPACT);
    if (text == NULL)
        return -ENOMEM;
    return query_execute(db, "UPDATE emails SET record = ?, is_valid = ? WHERE id = ?", "sis", text,
                         (int64_t)is_valid, id);
}

int emails_mark(sqlite3 *db, const char *id, bool mark, json_t **ret_record)
{
    json_t *record = NULL;
    int error = load_record(db, id, &record);
    if (error == 0)
        error = store_mark(db, id, mark, record);
    if (error != 0) {
        json_decref(record);
        return error;
    }
    *ret_record = record;
    return 0;
}
