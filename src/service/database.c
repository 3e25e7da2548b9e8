/* SPDX-License-Identifier: MIT */
/*
 * The connections. A reader that is given back is kept for the next one.
 */
#include "service/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#include "service/schema.h"
#include "sql/query.h"

enum {
    READERS_KEPT = 16,
    BUSY_MS = 10000, /* for the key commands, which write from a process of their own */
};

struct database {
    char path[PATH_MAX];
    sqlite3 *writer;            /* protected by write_lock */
    pthread_mutex_t write_lock; /* held from begin to commit or rollback; taken before read_lock */
    pthread_mutex_t read_lock;
    sqlite3 *readers[READERS_KEPT]; /* idle; protected by read_lock */
    size_t readers_len;             /* protected by read_lock */
};

static int open_connection(const char *path, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int result =
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    int error = query_error_on(db, result);
    if (error == 0)
        sqlite3_busy_timeout(db, BUSY_MS);
    if (error == 0)
        error = query_error_on(db, sqlite3_exec(db,
                                                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                                                "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
                                                NULL, NULL, NULL));
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

int database_open(const char *dir, struct database **ret_database)
{
    _cleanup_(cleanup_database_free) struct database *database = calloc(1, sizeof(*database));
    if (database == NULL)
        return -ENOMEM;
    pthread_mutex_init(&database->write_lock, NULL);
    pthread_mutex_init(&database->read_lock, NULL);
    int length = snprintf(database->path, sizeof(database->path), "%s/inbox.sqlite3", dir);
    if (length < 0 || (size_t)length >= sizeof(database->path))
        return -ENAMETOOLONG;

    /* SQLite would make it by the umask; its other files take their mode from this one. Closed before SQLite
     * opens it: a later close would drop the process's locks, and another process would then take the log
     * from under this one. */
    int fd = open(database->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    int error = open_connection(database->path, &database->writer);
    if (error == 0)
        error = schema_migrate(database->writer);
    if (error != 0)
        return error;
    *ret_database = TAKE_PTR(database);
    return 0;
}

void database_free(struct database *database)
{
    if (database == NULL)
        return;
    for (size_t i = 0; i < database->readers_len; i++)
        sqlite3_close(database->readers[i]);
    sqlite3_close(database->writer);
    pthread_mutex_destroy(&database->read_lock);
    pthread_mutex_destroy(&database->write_lock);
    free(database);
}

int database_begin_read(struct database *database, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    pthread_mutex_lock(&database->read_lock);
    if (database->readers_len > 0)
        db = database->readers[--database->readers_len];
    pthread_mutex_unlock(&database->read_lock);

    int error = 0;
    if (db == NULL) {
        error = open_connection(database->path, &db);
        /* Lists are read once, from one end to the other: a large cache would only hold memory. */
        if (error == 0)
            error = query_execute(db, "PRAGMA cache_size = -512", "");
    }
    if (error == 0)
        error = query_execute(db, "BEGIN", "");
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

void database_end_read(struct database *database, sqlite3 *db)
{
    bool is_kept = query_execute(db, "ROLLBACK", "") == 0;
    pthread_mutex_lock(&database->read_lock);
    is_kept = is_kept && database->readers_len < READERS_KEPT;
    if (is_kept)
        database->readers[database->readers_len++] = db;
    pthread_mutex_unlock(&database->read_lock);
    if (!is_kept)
        sqlite3_close(db);
}

int database_begin_write(struct database *database, sqlite3 **ret_db)
{
    pthread_mutex_lock(&database->write_lock);
    int error = query_execute(database->writer, "BEGIN IMMEDIATE", "");
    if (error != 0) {
        pthread_mutex_unlock(&database->write_lock);
        return error;
    }
    *ret_db = database->writer;
    return 0;
}

int database_commit(struct database *database)
{
    int error =
        query_execute(database->writer, "UPDATE settings SET value = value + 1 WHERE name = 'changes'", "");
    if (error == 0)
        error = query_execute(database->writer, "COMMIT", "");
    if (error != 0 && sqlite3_get_autocommit(database->writer) == 0)
        (void)query_execute(database->writer, "ROLLBACK", "");
    pthread_mutex_unlock(&database->write_lock);
    return error;
}

void database_rollback(struct database *database)
{
    (void)query_execute(database->writer, "ROLLBACK", "");
    pthread_mutex_unlock(&database->write_lock);
}
