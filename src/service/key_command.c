/* SPDX-License-Identifier: MIT */
/*
 * Key commands. They go by SQLite's own locks, and never make a directory that is not there.
 */
#include "service/key_command.h"

#include <errno.h>
#include <string.h>

#include "mail/email_record.h"
#include "service/database.h"
#include "service/keys.h"
#include "sql/query.h"

static int open_existing(const char *data_dir, struct database **ret_database)
{
    char *path = NULL;
    if (asprintf(&path, "%s/inbox.sqlite3", data_dir) < 0)
        return -ENOMEM;
    int error = access(path, F_OK) == 0 ? 0 : -errno;
    free(path);
    return error == 0 ? database_open(data_dir, ret_database) : error;
}

static int end_write(struct database *database, int error)
{
    if (error == 0)
        return database_commit(database);
    database_rollback(database);
    return error;
}

int key_command_add(const char *data_dir, FILE *out)
{
    _cleanup_(cleanup_database_free) struct database *database = NULL;
    sqlite3 *db = NULL;
    char key[API_KEY_SIZE];
    int error = open_existing(data_dir, &database);
    if (error == 0)
        error = keys_generate(key);
    if (error == 0)
        error = database_begin_write(database, &db);
    if (error != 0)
        return error;
    error = end_write(database, keys_add(db, key, NULL));
    if (error == 0)
        fprintf(out, "%s\n", key);
    explicit_bzero(key, sizeof(key));
    return error;
}

static int print_keys(sqlite3 *db, FILE *out)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement,
                              "SELECT id, prefix, created_ms FROM api_keys WHERE revoked_ms IS NULL"
                              " ORDER BY created_ms",
                              "");
    if (error != 0)
        return error;
    int step;
    while ((step = query_step(statement)) > 0) {
        char date[32];
        date_format(sqlite3_column_int64(statement, 2), date);
        fprintf(out, "%s  %s...  %s\n", (const char *)sqlite3_column_text(statement, 0),
                (const char *)sqlite3_column_text(statement, 1), date);
    }
    return step;
}

int key_command_list(const char *data_dir, FILE *out)
{
    _cleanup_(cleanup_database_free) struct database *database = NULL;
    sqlite3 *db = NULL;
    int error = open_existing(data_dir, &database);
    if (error == 0)
        error = database_begin_read(database, &db);
    if (error != 0)
        return error;
    error = print_keys(db, out);
    database_end_read(database, db);
    return error;
}

int key_command_revoke(const char *data_dir, const char *id)
{
    _cleanup_(cleanup_database_free) struct database *database = NULL;
    sqlite3 *db = NULL;
    int error = open_existing(data_dir, &database);
    if (error == 0)
        error = database_begin_write(database, &db);
    return error == 0 ? end_write(database, keys_revoke(db, id)) : error;
}
