/* SPDX-License-Identifier: MIT */
/*
 * One connection writes, and a search has one of its own, so that they do not wait for each other.
 */
#include "store/search_index.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "mail/search_record.h"
#include "sql/query.h"
#include "store/search_file.h"

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
    BODY_LENGTH,
    CHANGE_BODY,
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
    [ADD_EMAIL] = "INSERT INTO emails VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
    [ADD_TEXTS] = "INSERT INTO texts (rowid, subject, people, body) VALUES (last_insert_rowid(), ?, ?, '')",
    [CHANGE_EMAIL] = "UPDATE emails SET digest = ?, pass = ?, date_ms = ?, sender = ? WHERE id = ?",
    [CHANGE_TEXTS] = "UPDATE texts SET subject = ?, people = ? WHERE rowid = ?",
    [BODY_LENGTH] = "SELECT length(CAST(body AS BLOB)) FROM texts WHERE rowid = ?",
    [CHANGE_BODY] = "UPDATE texts SET body = ? WHERE rowid = ?",
    [REMOVE_TEXTS] = "DELETE FROM texts WHERE rowid = ?",
    [REMOVE_EMAIL] = "DELETE FROM emails WHERE id = ?",
    [REMOVE_OTHER_TEXTS] = "DELETE FROM texts WHERE rowid IN (SELECT id FROM emails WHERE pass <> ?)",
    [REMOVE_OTHER_EMAILS] = "DELETE FROM emails WHERE pass <> ?",
    [GET_MARK] = "SELECT value FROM marks WHERE name = ?",
    [SET_MARK] = "INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)",
};
_Static_assert(ARRAY_LEN(texts) <= STATEMENTS_MAX, "room for all of them");

struct search_index {
    struct search_file file;
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

/* ---------------------------------------------------------------- the file */

static int open_writer(struct search_index *index)
{
    int error = search_file_open_to_write(&index->file, &index->writer);
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
    search_file_remove(&index->file);
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
    int error = search_file_locate(dir_fd, &index->file);
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
    int error =
        statements_execute(&index->kept, ADD_EMAIL, "issiiis", name_hash(entry->inbox_id, entry->key),
                           entry->inbox_id, entry->key, entry->digest, pass, entry->date_ms, record->sender);
    return error != 0 ? error
                      : statements_execute(&index->kept, ADD_TEXTS, "ss", record->subject, record->people);
}

static int change(struct search_index *index, int64_t row, const struct search_entry *entry,
                  const struct search_record *record, int64_t pass)
{
    int error = statements_execute(&index->kept, CHANGE_EMAIL, "iiisi", entry->digest, pass, entry->date_ms,
                                   record->sender, row);
    return error != 0
               ? error
               : statements_execute(&index->kept, CHANGE_TEXTS, "ssi", record->subject, record->people, row);
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
    struct found found;
    int64_t len_before = 0;
    _cleanup_free_ char *body = strndup(text, body_len(text, len));
    if (body == NULL)
        return -ENOMEM;
    int error = find_email(index, inbox_id, key, &found);
    if (error == 0)
        error = statements_integers(&index->kept, BODY_LENGTH, &len_before, 1, "i", found.row);
    /* What an id stands for never changes. */
    if (error == 0 && (size_t)len_before != strlen(body))
        error = statements_execute(&index->kept, CHANGE_BODY, "si", body, found.row);
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

int search_index_find(struct search_index *index, const struct search_query *query, search_hit_sink sink,
                      search_stop stop, void *context)
{
    sqlite3 *db = NULL;
    pthread_rwlock_rdlock(&index->file_lock);
    int error = search_file_open_to_read(&index->file, &db);
    if (error == 0) {
        error = search_match_find(db, query, sink, stop, context);
        sqlite3_close(db);
    }
    pthread_rwlock_unlock(&index->file_lock);
    if (error != 0 && stop(context))
        return -EINTR;
    return note(index, error);
}
