/* SPDX-License-Identifier: MIT */
/*
 * The index in SQLite: a table of emails, and beside it, by the same row numbers, one of texts. Searches have
 * connections of their own, so that they and the writer do not wait for each other (WAL).
 */
#include "store/search_index.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "sql/query.h"

enum {
    FORMAT_VERSION = 1,
    MATCH_MAX_BYTES = 64 * 1024,
    STEPS_BETWEEN_LOOKS = 20000, /* of SQLite's machine: some milliseconds */
};

static const char file_name[] = "search.sqlite3";
static const char *const file_suffixes[] = {"", "-wal", "-shm", "-journal"};

struct search_index {
    char path[PATH_MAX];
    sqlite3 *writer;            /* the writing thread's; NULL: there is no index now */
    pthread_rwlock_t file_lock; /* held for writing while the file is replaced */
    atomic_bool is_damaged;
};

/* What SQLite says of a damaged file, it says at any time. */
static int note(struct search_index *index, int error)
{
    if (error == -EUCLEAN)
        atomic_store(&index->is_damaged, true);
    return error;
}

/* ---------------------------------------------------------------- the file */

static int open_connection(const char *path, int flags, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int error = query_error(sqlite3_open_v2(
        path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW, NULL));
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

static int make_tables(sqlite3 *db)
{
    static const char schema[] =
        "BEGIN;"
        "CREATE TABLE emails (id INTEGER PRIMARY KEY, inbox TEXT NOT NULL, key TEXT NOT NULL,"
        " digest INTEGER NOT NULL, pass INTEGER NOT NULL, date_ms INTEGER NOT NULL, sender TEXT NOT NULL,"
        " UNIQUE (inbox, key));"
        "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE VIRTUAL TABLE texts USING fts5 (subject, people, body,"
        " tokenize = 'unicode61 remove_diacritics 2');"
        "PRAGMA user_version = 1;"
        "COMMIT";
    _Static_assert(FORMAT_VERSION == 1, "user_version in the schema");
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
static int open_writer(struct search_index *index)
{
    sqlite3 *db = NULL;
    int error = make_file(index->path);
    if (error == 0)
        error = open_connection(index->path, SQLITE_OPEN_READWRITE, &db);
    if (error == 0)
        error = query_error(sqlite3_exec(db,
                                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                                         "PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 4194304",
                                         NULL, NULL, NULL));
    if (error == 0)
        error = check_tables(db);
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    index->writer = db;
    return 0;
}

static void remove_files(const struct search_index *index)
{
    for (size_t i = 0; i < ARRAY_LEN(file_suffixes); i++) {
        char path[PATH_MAX + 16];
        snprintf(path, sizeof(path), "%s%s", index->path, file_suffixes[i]);
        unlink(path);
    }
}

int search_index_renew(struct search_index *index)
{
    pthread_rwlock_wrlock(&index->file_lock);
    sqlite3_close(index->writer);
    index->writer = NULL;
    remove_files(index);
    atomic_store(&index->is_damaged, false);
    int error = open_writer(index);
    if (error != 0) /* to be tried again: nothing can be written until then */
        atomic_store(&index->is_damaged, true);
    pthread_rwlock_unlock(&index->file_lock);
    return error;
}

bool search_index_is_damaged(struct search_index *index)
{
    return atomic_load(&index->is_damaged);
}

static int find_path(int dir_fd, char ret_path[PATH_MAX])
{
    char link[64];
    char dir[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    ssize_t len = readlink(link, dir, sizeof(dir) - 1);
    if (len < 0)
        return -errno;
    dir[len] = '\0';
    int written = snprintf(ret_path, PATH_MAX, "%s/%s", dir, file_name);
    return written < 0 || written >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int search_index_open(int dir_fd, struct search_index **ret_index)
{
    struct search_index *index = calloc(1, sizeof(*index));
    if (index == NULL)
        return -ENOMEM;
    pthread_rwlock_init(&index->file_lock, NULL);
    int error = find_path(dir_fd, index->path);
    if (error == 0)
        error = open_writer(index);
    if (error == -EUCLEAN) {
        log_warning("the search index cannot be read; it is built anew");
        error = search_index_renew(index);
    }
    if (error != 0) {
        search_index_free(index);
        return error;
    }
    *ret_index = index;
    return 0;
}

void search_index_free(struct search_index *index)
{
    if (index == NULL)
        return;
    sqlite3_close(index->writer);
    pthread_rwlock_destroy(&index->file_lock);
    free(index);
}

/* ---------------------------------------------------------------- writing */

int search_index_begin(struct search_index *index)
{
    return note(index, query_execute(index->writer, "BEGIN IMMEDIATE", ""));
}

int search_index_end(struct search_index *index)
{
    int error = query_execute(index->writer, "COMMIT", "");
    if (error != 0)
        search_index_abandon(index);
    return note(index, error);
}

void search_index_abandon(struct search_index *index)
{
    if (index->writer != NULL && sqlite3_get_autocommit(index->writer) == 0)
        (void)query_execute(index->writer, "ROLLBACK", "");
}

/* 0; -ENOENT: no such row. */
static int find_row(struct search_index *index, const char *inbox_id, const char *key, int64_t *ret_row)
{
    return query_integer(index->writer, ret_row, "SELECT id FROM emails WHERE inbox = ? AND key = ?", "ss",
                         inbox_id, key);
}

static int add(struct search_index *index, const struct search_entry *entry,
               const struct search_record *record, int64_t pass)
{
    int error = query_execute(
        index->writer,
        "INSERT INTO emails (inbox, key, digest, pass, date_ms, sender) VALUES (?, ?, ?, ?, ?, ?)", "ssiiis",
        entry->inbox_id, entry->key, entry->digest, pass, entry->date_ms, record->sender);
    if (error != 0)
        return error;
    return query_execute(index->writer,
                         "INSERT INTO texts (rowid, subject, people, body) VALUES (?, ?, ?, '')", "iss",
                         (int64_t)sqlite3_last_insert_rowid(index->writer), record->subject, record->people);
}

static int change(struct search_index *index, int64_t row, const struct search_entry *entry,
                  const struct search_record *record, int64_t pass)
{
    int error = query_execute(index->writer,
                              "UPDATE emails SET digest = ?, pass = ?, date_ms = ?, sender = ? WHERE id = ?",
                              "iiisi", entry->digest, pass, entry->date_ms, record->sender, row);
    return error != 0
               ? error
               : query_execute(index->writer, "UPDATE texts SET subject = ?, people = ? WHERE rowid = ?",
                               "ssi", record->subject, record->people, row);
}

int search_index_put(struct search_index *index, const struct search_entry *entry, int64_t pass)
{
    struct search_record record;
    int64_t row = 0;
    int64_t digest = 0;
    int error = find_row(index, entry->inbox_id, entry->key, &row);
    bool is_new = error == -ENOENT;
    if (error == 0)
        error = query_integer(index->writer, &digest, "SELECT digest FROM emails WHERE id = ?", "i", row);
    if (error == 0 && digest == entry->digest)
        return note(index,
                    query_execute(index->writer, "UPDATE emails SET pass = ? WHERE id = ?", "ii", pass, row));
    if (error != 0 && !is_new)
        return note(index, error);
    error = search_record_read(entry->json, entry->json_len, &record);
    if (error != 0)
        return error == -EBADMSG ? 0 : error; /* then there is nothing in it to be found */
    error = is_new ? add(index, entry, &record, pass) : change(index, row, entry, &record, pass);
    search_record_release(&record);
    return note(index, error);
}

/* Where a text is cut, no character is cut in two. */
static size_t body_len(const char *text, size_t len)
{
    if (len <= SEARCH_BODY_MAX_BYTES)
        return len;
    len = SEARCH_BODY_MAX_BYTES;
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

int search_index_put_body(struct search_index *index, const char *inbox_id, const char *key, const char *text,
                          size_t len)
{
    int64_t row = 0;
    _cleanup_free_ char *body = strndup(text, body_len(text, len));
    if (body == NULL)
        return -ENOMEM;
    int64_t len_before = 0;
    int error = find_row(index, inbox_id, key, &row);
    if (error == 0)
        error = query_integer(index->writer, &len_before,
                              "SELECT length(CAST(body AS BLOB)) FROM texts WHERE rowid = ?", "i", row);
    /* What an id stands for never changes. */
    if (error == 0 && (size_t)len_before != strlen(body))
        error = query_execute(index->writer, "UPDATE texts SET body = ? WHERE rowid = ?", "si", body, row);
    return note(index, error);
}

int search_index_remove(struct search_index *index, const char *inbox_id, const char *key)
{
    int64_t row = 0;
    int error = find_row(index, inbox_id, key, &row);
    if (error == 0)
        error = query_execute(index->writer, "DELETE FROM texts WHERE rowid = ?", "i", row);
    if (error == 0)
        error = query_execute(index->writer, "DELETE FROM emails WHERE id = ?", "i", row);
    return error == -ENOENT ? 0 : note(index, error);
}

int search_index_remove_others(struct search_index *index, int64_t pass)
{
    int error = query_execute(
        index->writer, "DELETE FROM texts WHERE rowid IN (SELECT id FROM emails WHERE pass <> ?)", "i", pass);
    if (error == 0)
        error = query_execute(index->writer, "DELETE FROM emails WHERE pass <> ?", "i", pass);
    return note(index, error);
}

int search_index_get_mark(struct search_index *index, const char *name, int64_t *ret_value)
{
    int64_t value = 0;
    int error = query_integer(index->writer, &value, "SELECT value FROM marks WHERE name = ?", "s", name);
    *ret_value = error == 0 ? value : 0;
    return error == -ENOENT ? 0 : note(index, error);
}

int search_index_set_mark(struct search_index *index, const char *name, int64_t value)
{
    return note(index,
                query_execute(index->writer, "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)", "si",
                              name, value));
}

/* ---------------------------------------------------------------- finding */

/* A string of FTS5, in which nothing but a quote has a meaning, and terms hold none. "*" behind it: the last
 * word of it goes on. NULL: no words at all, or no memory. */
static char *match_expression(const struct search_query *query)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MATCH_MAX_BYTES);
    for (size_t i = 0; i < query->len; i++) {
        const struct search_term *term = &query->terms[i];
        if (term->kind == SEARCH_WORD || term->kind == SEARCH_PHRASE)
            strbuf_appendf(&text, "%s\"%s\"%s", text.len > 0 ? " AND " : "", term->text,
                           term->kind == SEARCH_WORD ? "*" : "");
    }
    return strbuf_take(&text, NULL);
}

struct finding {
    const struct search_query *query;
    search_hit_sink sink;
    search_stop stop;
    void *context;
};

static int look_whether_to_stop(void *context)
{
    const struct finding *finding = context;
    return finding->stop(finding->context) ? 1 : 0;
}

static int step_through(struct finding *finding, sqlite3_stmt *statement)
{
    int more;
    while ((more = query_step(statement)) > 0) {
        const char *inbox_id = (const char *)sqlite3_column_text(statement, 0);
        const char *key = (const char *)sqlite3_column_text(statement, 1);
        const char *sender = (const char *)sqlite3_column_text(statement, 2);
        if (inbox_id == NULL || key == NULL || sender == NULL)
            return -ENOMEM;
        if (search_query_accepts(finding->query, SEARCH_FROM, sender) &&
            !finding->sink(finding->context, inbox_id, key))
            return 0;
    }
    return more;
}

static int find_with(sqlite3 *db, struct finding *finding)
{
    static const char by_text[] = "SELECT e.inbox, e.key, e.sender FROM texts AS t JOIN emails AS e"
                                  " ON e.id = t.rowid WHERE texts MATCH ? ORDER BY e.date_ms DESC, e.id DESC";
    static const char all[] = "SELECT inbox, key, sender FROM emails ORDER BY date_ms DESC, id DESC";
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    bool has_words =
        search_query_has(finding->query, SEARCH_WORD) || search_query_has(finding->query, SEARCH_PHRASE);
    _cleanup_free_ char *expression = has_words ? match_expression(finding->query) : NULL;
    if (has_words && expression == NULL)
        return -ENOMEM;
    int error = has_words ? query_prepare(db, &statement, by_text, "s", expression)
                          : query_prepare(db, &statement, all, "");
    return error != 0 ? error : step_through(finding, statement);
}

int search_index_find(struct search_index *index, const struct search_query *query, search_hit_sink sink,
                      search_stop stop, void *context)
{
    sqlite3 *db = NULL;
    struct finding finding = {.query = query, .sink = sink, .stop = stop, .context = context};
    pthread_rwlock_rdlock(&index->file_lock);
    int error = open_connection(index->path, SQLITE_OPEN_READWRITE, &db);
    if (error == 0) {
        sqlite3_progress_handler(db, STEPS_BETWEEN_LOOKS, look_whether_to_stop, &finding);
        error = find_with(db, &finding);
        sqlite3_close(db);
    }
    pthread_rwlock_unlock(&index->file_lock);
    if (error != 0 && stop(context))
        return -EINTR;
    return note(index, error);
}
