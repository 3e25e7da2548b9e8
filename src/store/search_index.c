/* SPDX-License-Identifier: MIT */
/*
 * A table of emails, and beside it, by the same row numbers, one of texts. One connection writes, and a
 * search has one of its own, so that they do not wait for each other.
 */
#include "store/search_index.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "mail/search_query.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- the file */

enum {
    FORMAT_VERSION = 3,
    /* A connection that opens the file first after a kill reads its log, and others wait for that. */
    BUSY_TIMEOUT_MS = 10 * 1000,
};

struct file {
    char path[PATH_MAX];
};

static const char file_name[] = "search.sqlite3";
static const char *const file_suffixes[] = {"", "-wal", "-shm", "-journal"};

static int locate_file(int dir_fd, struct file *ret_file)
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

/* To read it, too: who reads a database with a log leaves a mark there. */
static int open_connection(const char *path, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int result = sqlite3_open_v2(
        path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW,
        vfs_name);
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
        " key TEXT NOT NULL, digest INTEGER NOT NULL, pass INTEGER NOT NULL, date_ms INTEGER NOT NULL);"
        "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE VIRTUAL TABLE texts USING fts5 (subject, sender, recipients, reply_to, body, attached,"
        " columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');"
        "PRAGMA user_version = 3;"
        "COMMIT";
    _Static_assert(FORMAT_VERSION == 3, "user_version in the schema");
    return query_script(db, schema);
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
static int open_to_write(const struct file *file, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int error = make_file(file->path);
    if (error == 0)
        error = open_connection(file->path, &db);
    if (error == 0)
        error = query_script(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                                 "PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 4194304");
    if (error == 0)
        error = check_tables(db);
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

static void remove_file(const struct file *file)
{
    for (size_t i = 0; i < ARRAY_LEN(file_suffixes); i++) {
        char path[PATH_MAX + 16];
        snprintf(path, sizeof(path), "%s%s", file->path, file_suffixes[i]);
        unlink(path);
    }
}

/* Words of the column `attached`: none that anybody looks for, since words are looked for in all columns. */
static const char attached_unknown[] = "\uE000";
static const char attached_none[] = "\uE001";
static const char attached_some[] = "\uE002";

/* What the writer runs. */
enum {
    BEGIN,
    COMMIT,
    ROLLBACK,
    HAS_EMAILS,
    INDEX_NAMES,
    FIND_EMAIL,
    MEET_EMAIL,
    ADD_EMAIL,
    ADD_TEXTS,
    CHANGE_EMAIL,
    CHANGE_TEXTS,
    IS_CONTENT_KNOWN,
    CHANGE_CONTENT,
    REMOVE_TEXTS,
    REMOVE_EMAIL,
    REMOVE_OTHER_TEXTS,
    REMOVE_OTHER_EMAILS,
    GET_MARK,
    SET_MARK,
};

static const char *const texts[] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [HAS_EMAILS] = "SELECT EXISTS (SELECT 1 FROM emails)",
    [INDEX_NAMES] = "CREATE INDEX IF NOT EXISTS emails_by_name ON emails (name_hash)",
    [FIND_EMAIL] = "SELECT id, digest FROM emails WHERE name_hash = ? AND key = ? AND inbox = ?",
    [MEET_EMAIL] = "UPDATE emails SET pass = ? WHERE id = ?",
    [ADD_EMAIL] = "INSERT INTO emails VALUES (NULL, ?, ?, ?, ?, ?, ?)",
    [ADD_TEXTS] = ("INSERT INTO texts (rowid, subject, sender, recipients, reply_to, body, attached)"
                   " VALUES (last_insert_rowid(), ?, ?, ?, ?, '', ?)"),
    [CHANGE_EMAIL] = "UPDATE emails SET digest = ?, pass = ?, date_ms = ? WHERE id = ?",
    [CHANGE_TEXTS] = "UPDATE texts SET subject = ?, sender = ?, recipients = ?, reply_to = ? WHERE rowid = ?",
    [IS_CONTENT_KNOWN] = "SELECT attached <> ? AND length(CAST(body AS BLOB)) = ? FROM texts WHERE rowid = ?",
    [CHANGE_CONTENT] = "UPDATE texts SET body = ?, attached = ? WHERE rowid = ?",
    [REMOVE_TEXTS] = "DELETE FROM texts WHERE rowid = ?",
    [REMOVE_EMAIL] = "DELETE FROM emails WHERE id = ?",
    [REMOVE_OTHER_TEXTS] = "DELETE FROM texts WHERE rowid IN (SELECT id FROM emails WHERE pass <> ?)",
    [REMOVE_OTHER_EMAILS] = "DELETE FROM emails WHERE pass <> ?",
    [GET_MARK] = "SELECT value FROM marks WHERE name = ?",
    [SET_MARK] = "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
};
_Static_assert(ARRAY_LEN(texts) <= STATEMENTS_MAX, "room for all of them");

struct search_index {
    struct file file;
    sqlite3 *writer; /* the writing thread's, as is the next; NULL: there is no index now */
    struct statements kept;
    bool is_filling;
    bool has_names;             /* can find emails by their names */
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

/* ---------------------------------------------------------------- opened and renewed */

static int open_writer(struct search_index *index)
{
    int error = open_to_write(&index->file, &index->writer);
    statements_init(&index->kept, index->writer, texts);
    return error;
}

static void close_writer(struct search_index *index)
{
    statements_release(&index->kept);
    sqlite3_close(index->writer);
    index->writer = NULL;
    index->is_filling = index->has_names = false;
}

int search_index_renew(struct search_index *index)
{
    pthread_rwlock_wrlock(&index->file_lock);
    close_writer(index);
    remove_file(&index->file);
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

int search_index_open(int dir_fd, struct search_index **ret_index)
{
    struct search_index *index = calloc(1, sizeof(*index));
    if (index == NULL)
        return -ENOMEM;
    pthread_rwlock_init(&index->file_lock, NULL);
    int error = locate_file(dir_fd, &index->file);
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
    close_writer(index);
    pthread_rwlock_destroy(&index->file_lock);
    free(index);
}

/* ---------------------------------------------------------------- writing */

int search_index_begin(struct search_index *index)
{
    return note(index, statements_execute(&index->kept, BEGIN, ""));
}

int search_index_end(struct search_index *index)
{
    int error = statements_execute(&index->kept, COMMIT, "");
    if (error != 0)
        search_index_abandon(index);
    return note(index, error);
}

void search_index_abandon(struct search_index *index)
{
    index->has_names = false; /* perhaps */
    if (index->writer != NULL && sqlite3_get_autocommit(index->writer) == 0)
        (void)statements_execute(&index->kept, ROLLBACK, "");
}

void search_index_begin_filling(struct search_index *index)
{
    int64_t has_emails = 0;
    int error = statements_integers(&index->kept, HAS_EMAILS, &has_emails, 1, "");
    index->is_filling = note(index, error) == 0 && has_emails == 0;
}

void search_index_end_filling(struct search_index *index)
{
    index->is_filling = false;
}

/* What is known of an email. */
struct found {
    int64_t row;
    int64_t digest;
};

/* What emails are looked up by: an index of their ids would be five times as large. */
static int64_t name_hash(const char *inbox_id, const char *key)
{
    return (int64_t)hash_bytes(hash_bytes(0, inbox_id, strlen(inbox_id)), key, strlen(key));
}

/* An index that is kept up while many emails are added in no order has most of its pages written anew with
 * every transaction. Made at once, it is sorted and written once. */
static int index_names(struct search_index *index)
{
    int error = index->has_names ? 0 : statements_execute(&index->kept, INDEX_NAMES, "");
    index->has_names = error == 0;
    return error;
}

/* 0; -ENOENT: no such email. */
static int find_email(struct search_index *index, const char *inbox_id, const char *key, struct found *ret)
{
    int64_t values[2];
    int error = index_names(index);
    if (error == 0)
        error = statements_integers(&index->kept, FIND_EMAIL, values, 2, "iss", name_hash(inbox_id, key), key,
                                    inbox_id);
    if (error == 0)
        *ret = (struct found){.row = values[0], .digest = values[1]};
    return error;
}

static int add(struct search_index *index, const struct search_entry *entry,
               const struct search_record *record, int64_t pass)
{
    int error = statements_execute(&index->kept, ADD_EMAIL, "issiii", name_hash(entry->inbox_id, entry->key),
                                   entry->inbox_id, entry->key, entry->digest, pass, entry->date_ms);
    return error != 0 ? error
                      : statements_execute(&index->kept, ADD_TEXTS, "sssss", record->subject, record->sender,
                                           record->recipients, record->reply_to, attached_unknown);
}

static int change(struct search_index *index, int64_t row, const struct search_entry *entry,
                  const struct search_record *record, int64_t pass)
{
    int error =
        statements_execute(&index->kept, CHANGE_EMAIL, "iiii", entry->digest, pass, entry->date_ms, row);
    return error != 0 ? error
                      : statements_execute(&index->kept, CHANGE_TEXTS, "ssssi", record->subject,
                                           record->sender, record->recipients, record->reply_to, row);
}

int search_index_put(struct search_index *index, const struct search_entry *entry, int64_t pass)
{
    struct search_record record;
    struct found found = {.row = 0};
    int error = index->is_filling ? -ENOENT : find_email(index, entry->inbox_id, entry->key, &found);
    bool is_new = error == -ENOENT;
    if (error == 0 && found.digest == entry->digest)
        return note(index, statements_execute(&index->kept, MEET_EMAIL, "ii", pass, found.row));
    if (error != 0 && !is_new)
        return note(index, error);
    error = search_record_read(entry->json, entry->json_len, &record);
    if (error != 0)
        return error == -EBADMSG ? 0 : error; /* then there is nothing in it to be found */
    error = is_new ? add(index, entry, &record, pass) : change(index, found.row, entry, &record, pass);
    search_record_release(&record);
    return note(index, error);
}

int search_index_put_content(struct search_index *index, const char *inbox_id, const char *key,
                             const struct search_content *content)
{
    struct found found;
    int64_t is_there = 0;
    size_t len = character_cut(content->text, content->len, SEARCH_BODY_MAX_BYTES);
    _cleanup_free_ char *body = strndup(content->text, len);
    if (body == NULL)
        return -ENOMEM;
    int error = find_email(index, inbox_id, key, &found);
    /* What an id stands for never changes. */
    if (error == 0)
        error = statements_integers(&index->kept, IS_CONTENT_KNOWN, &is_there, 1, "sii", attached_unknown,
                                    (int64_t)strlen(body), found.row);
    if (error == 0 && is_there == 0)
        error = statements_execute(&index->kept, CHANGE_CONTENT, "ssi", body,
                                   content->has_attachment ? attached_some : attached_none, found.row);
    return note(index, error);
}

int search_index_remove(struct search_index *index, const char *inbox_id, const char *key)
{
    struct found found;
    int error = find_email(index, inbox_id, key, &found);
    if (error == 0)
        error = statements_execute(&index->kept, REMOVE_TEXTS, "i", found.row);
    if (error == 0)
        error = statements_execute(&index->kept, REMOVE_EMAIL, "i", found.row);
    return error == -ENOENT ? 0 : note(index, error);
}

int search_index_remove_others(struct search_index *index, int64_t pass)
{
    int error = statements_execute(&index->kept, REMOVE_OTHER_TEXTS, "i", pass);
    if (error == 0)
        error = statements_execute(&index->kept, REMOVE_OTHER_EMAILS, "i", pass);
    return note(index, error);
}

int search_index_get_mark(struct search_index *index, const char *name, int64_t *ret_value)
{
    int64_t value = 0;
    int error = statements_integers(&index->kept, GET_MARK, &value, 1, "s", name);
    *ret_value = error == 0 ? value : 0;
    return error == -ENOENT ? 0 : note(index, error);
}

int search_index_set_mark(struct search_index *index, const char *name, int64_t value)
{
    return note(index, statements_execute(&index->kept, SET_MARK, "si", name, value));
}

/* ---------------------------------------------------------------- finding */

enum {
    MATCH_MAX_BYTES = 64 * 1024,
    STEPS_BETWEEN_LOOKS = 20000, /* of SQLite's machine: some milliseconds */
};

/* A string of FTS5, in which nothing but a quote has a meaning, and terms hold none. "*" behind it: the last
 * word of it goes on. */
static void append_term(struct strbuf *text, const struct search_term *term)
{
    static const struct {
        const char *column;
        const char *word; /* NULL: that of the term */
    } kinds[] = {
        [SEARCH_WORD] = {"", NULL},
        [SEARCH_SUBJECT] = {"subject : ", NULL},
        [SEARCH_FROM] = {"sender : ", NULL},
        [SEARCH_TO] = {"recipients : ", NULL},
        [SEARCH_ATTACHMENT] = {"attached : ", attached_some},
        [SEARCH_NO_ATTACHMENT] = {"attached : ", attached_none},
        [SEARCH_UNKNOWN_ATTACHMENT] = {"attached : ", attached_unknown},
    };
    const char *word = kinds[term->kind].word;
    strbuf_appendf(text, "%s\"%s\"%s", kinds[term->kind].column, word != NULL ? word : term->text,
                   word != NULL || term->is_quoted ? "" : "*");
}

/* NULL: no memory. */
static char *match_expression(const struct search_query *query)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MATCH_MAX_BYTES);
    for (size_t i = 0; i < query->len; i++) {
        const struct search_term *term = &query->terms[i];
        bool goes_on = i + 1 < query->len && query->terms[i + 1].is_alternative;
        strbuf_appendf(&text, "%s", i == 0 ? "(" : term->is_alternative ? " OR " : " AND (");
        append_term(&text, term);
        strbuf_appendf(&text, "%s", goes_on ? "" : ")");
    }
    return strbuf_take(&text, NULL);
}

struct finding {
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
        if (inbox_id == NULL || key == NULL)
            return sqlite3_errcode(sqlite3_db_handle(statement)) == SQLITE_NOMEM ? -ENOMEM : -EUCLEAN;
        if (!finding->sink(finding->context, inbox_id, key))
            return 0;
    }
    return more;
}

static int find_with(sqlite3 *db, struct finding *finding, const struct search_query *query)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    _cleanup_free_ char *expression = match_expression(query);
    if (expression == NULL)
        return -ENOMEM;
    int error = query_prepare(db, &statement,
                              "SELECT e.inbox, e.key FROM texts AS t JOIN emails AS e ON e.id = t.rowid"
                              " WHERE texts MATCH ? ORDER BY e.date_ms DESC, e.id DESC",
                              "s", expression);
    return error != 0 ? error : step_through(finding, statement);
}

static int find_in(sqlite3 *db, const struct search_query *query, search_hit_sink sink, search_stop stop,
                   void *context)
{
    struct finding finding = {.sink = sink, .stop = stop, .context = context};
    sqlite3_progress_handler(db, STEPS_BETWEEN_LOOKS, look_whether_to_stop, &finding);
    int error = find_with(db, &finding, query);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    return error;
}

int search_index_find(struct search_index *index, const struct search_query *query, search_hit_sink sink,
                      search_stop stop, void *context)
{
    sqlite3 *db = NULL;
    pthread_rwlock_rdlock(&index->file_lock);
    int error = open_connection(index->file.path, &db);
    if (error == 0) {
        error = find_in(db, query, sink, stop, context);
        sqlite3_close(db);
    }
    pthread_rwlock_unlock(&index->file_lock);
    if (error != 0 && stop(context))
        return -EINTR;
    return note(index, error);
}
