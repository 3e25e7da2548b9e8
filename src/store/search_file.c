/* SPDX-License-Identifier: MIT */
/*
 * A table of emails, and beside it, by the same row numbers, one of texts.
 */
#include "store/search_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sql/query.h"

enum {
    FORMAT_VERSION = 2,
    /* A connection that opens the file first after a kill reads its log, and others wait for that. */
    BUSY_TIMEOUT_MS = 10 * 1000,
};

static const char file_name[] = "search.sqlite3";
static const char *const file_suffixes[] = {"", "-wal", "-shm", "-journal"};

int search_file_locate(int dir_fd, struct search_file *ret_file)
{
    char link[64];
    char dir[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    ssize_t len = readlink(link, dir, sizeof(dir) - 1);
    if (len < 0)
        return -errno;
    dir[len] = '\0';
    int written = snprintf(ret_file->path, PATH_MAX, "%s/%s", dir, file_name);
    return written < 0 || written >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* With this, SQLite keeps what its connections share in memory. Else that is a file, which SQLite maps, and
 * which another program could cut off: a signal that ends this one. The file is locked against others. */
static const char vfs_name[] = "unix-excl";

static int open_connection(const char *path, int flags, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int result = sqlite3_open_v2(
        path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW, vfs_name);
    int error = query_error_on(db, result);
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    *ret_db = db;
    return 0;
}

static int make_tables(sqlite3 *db)
{
    static const char schema[] =
        "BEGIN;"
        "CREATE TABLE emails (id INTEGER PRIMARY KEY, name_hash INTEGER NOT NULL, inbox TEXT NOT NULL,"
        " key TEXT NOT NULL, digest INTEGER NOT NULL, pass INTEGER NOT NULL, date_ms INTEGER NOT NULL,"
        " sender TEXT NOT NULL);"
        "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE VIRTUAL TABLE texts USING fts5 (subject, people, body, columnsize = 0,"
        " tokenize = 'unicode61 remove_diacritics 2');"
        "PRAGMA user_version = 2;"
        "COMMIT";
    _Static_assert(FORMAT_VERSION == 2, "user_version in the schema");
    return query_error(sqlite3_exec(db, schema, NULL, NULL, NULL));
}

/* -EUCLEAN: what is there is not an index of this version. */
static int check_tables(sqlite3 *db)
{
    int64_t version = 0;
    int64_t tables = 0;
    int error = query_integer(db, &version, "PRAGMA user_version", "");
    if (error == 0)
        error = query_integer(db, &tables, "SELECT count(*) FROM sqlite_schema", "");
    if (error == 0 && version == 0 && tables == 0)
        return make_tables(db);
    return error == 0 && version != FORMAT_VERSION ? -EUCLEAN : error;
}

/* SQLite would make it by the umask; its other files take their mode from this one. Closed before SQLite
 * opens it: a later close would drop the process's locks. */
static int make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : close(fd);
}

/* Losing the last moments to a power cut is nothing; being damaged by it would be. */
int search_file_open_to_write(const struct search_file *file, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int error = make_file(file->path);
    if (error == 0)
        error = open_connection(file->path, SQLITE_OPEN_READWRITE, &db);
    if (error == 0)
        error = query_error_on(
            db, sqlite3_exec(db,
                             "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                             "PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 4194304",
                             NULL, NULL, NULL));
    if (error == 0)
        error = check_tables(db);
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

int search_file_open_to_read(const struct search_file *file, sqlite3 **ret_db)
{
    return open_connection(file->path, SQLITE_OPEN_READWRITE, ret_db);
}

void search_file_remove(const struct search_file *file)
{
    for (size_t i = 0; i < ARRAY_LEN(file_suffixes); i++) {
        char path[PATH_MAX + 16];
        snprintf(path, sizeof(path), "%s%s", file->path, file_suffixes[i]);
        unlink(path);
    }
}
