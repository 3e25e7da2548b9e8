/* SPDX-License-Identifier: MIT */
/*
 * A row has 64 bits of a digest of the Message-ID, which nobody can make another Message-ID for, so rows stay
 * small however long it is. A hash shows that a row is damaged: it is passed over. The file is made anew
 * where SQLite cannot make sense of it.
 */
#include "store/message_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

enum {
    VERSION = 1,
    PAGE_BYTES = 4096,
    LOG_PAGES = 1000,
    EMAIL_ID_MAX_BYTES = 255, /* one that is longer is not noted */
};

/* The entries of an index have the row's number behind them, so those of one Message-ID are in its order. */
static const char schema[] = "CREATE TABLE message_ids (number INTEGER PRIMARY KEY, digest INTEGER NOT NULL,"
                             " email TEXT NOT NULL, hash INTEGER NOT NULL);"
                             "CREATE INDEX by_digest ON message_ids (digest);";

enum statement {
    FIND,
    ADD,
    TRIM,
};

static const char *const statements[] = {
    [FIND] = "SELECT email, hash FROM message_ids WHERE digest = ? ORDER BY number LIMIT ?",
    [ADD] = "INSERT INTO message_ids (digest, email, hash) VALUES (?, ?, ?)",
    [TRIM] = "DELETE FROM message_ids WHERE number <= (SELECT max(number) FROM message_ids) - ?",
};

static const struct state_file_format format = {
    .name = "message_ids.sqlite3",
    .version = VERSION,
    .schema = schema,
    .statements = statements,
    .page_bytes = PAGE_BYTES,
    .log_pages = LOG_PAGES,
};

int message_ids_open(struct message_ids *ids, int dir_fd, int64_t max)
{
    ids->max = max;
    pthread_mutex_init(&ids->lock, NULL);
    return state_file_open(&ids->file, dir_fd, &format);
}

void message_ids_release(struct message_ids *ids)
{
    if (ids->file.format == NULL)
        return;
    state_file_release(&ids->file);
    pthread_mutex_destroy(&ids->lock);
}

/* ---------------------------------------------------------------- rows */

static int64_t digest_of(const char *message_id)
{
    char hex[65];
    hash_sha256(message_id, strlen(message_id), hex);
    hex[16] = '\0';
    return (int64_t)strtoull(hex, NULL, 16);
}

static int64_t hash_row(int64_t digest, const char *email_id)
{
    return (int64_t)hash_bytes((uint64_t)digest, email_id, strlen(email_id));
}

/* 0, -ENOMEM; -EUCLEAN: the row is not what was written. The caller frees. */
static int take_email(sqlite3_stmt *row, int64_t digest, char **ret_email_id)
{
    const char *email_id = (const char *)sqlite3_column_text(row, 0);
    if (email_id == NULL)
        return sqlite3_errcode(sqlite3_db_handle(row)) == SQLITE_NOMEM ? -ENOMEM : -EUCLEAN;
    if (strlen(email_id) != (size_t)sqlite3_column_bytes(row, 0) ||
        sqlite3_column_int64(row, 1) != hash_row(digest, email_id))
        return -EUCLEAN;
    *ret_email_id = strdup(email_id);
    return *ret_email_id == NULL ? -ENOMEM : 0;
}

/* A damaged row is passed over. *ret_len counts what there is to be freed, after an error too. */
static int find_locked(struct message_ids *ids, int64_t digest, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                       size_t *ret_len)
{
    sqlite3_stmt *row = NULL;
    if (ids->file.db == NULL)
        return ids->file.error;
    int more =
        statements_begin(&ids->file.statements, FIND, &row, "ii", digest, (int64_t)MESSAGE_IDS_EMAILS_MAX);
    while (more > 0 && *ret_len < MESSAGE_IDS_EMAILS_MAX) {
        int error = take_email(row, digest, &ret_email_ids[*ret_len]);
        *ret_len += error == 0;
        more = error == -ENOMEM ? error : query_step(row);
    }
    statements_end(row);
    if (more == -EINVAL) /* the tables are others than ours */
        more = -EUCLEAN;
    return state_file_note(&ids->file, more) == -EUCLEAN || more > 0 ? 0 : more;
}

static int find(struct message_ids *ids, int64_t digest, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                size_t *ret_len)
{
    size_t len = 0;
    state_file_lock(&ids->file);
    int error = find_locked(ids, digest, ret_email_ids, &len);
    state_file_unlock(&ids->file);
    while (error != 0 && len > 0)
        free(ret_email_ids[--len]);
    *ret_len = len;
    return error;
}

int message_ids_find(struct message_ids *ids, const char *message_id,
                     char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX], size_t *ret_len)
{
    return find(ids, digest_of(message_id), ret_email_ids, ret_len);
}

/* ---------------------------------------------------------------- noting */

/* Whether there is nothing to be added: it is known, or there are as many as may be. */
static bool is_settled(struct message_ids *ids, int64_t digest, const char *email_id)
{
    char *known[MESSAGE_IDS_EMAILS_MAX];
    size_t len;
    if (find(ids, digest, known, &len) != 0)
        return false; /* then adding it fails, too, or does no harm */
    bool is_known = len == MESSAGE_IDS_EMAILS_MAX;
    for (size_t i = 0; i < len; i++) {
        is_known = is_known || strcmp(known[i], email_id) == 0;
        free(known[i]);
    }
    return is_known;
}

static int add(struct message_ids *ids, int64_t digest, const char *email_id)
{
    int error = state_file_begin(&ids->file, false);
    if (error != 0)
        return error;
    error = state_file_execute(&ids->file, ADD, "isi", digest, email_id, hash_row(digest, email_id));
    if (error == 0)
        error = state_file_execute(&ids->file, TRIM, "i", ids->max);
    if (error == 0)
        return state_file_commit(&ids->file);
    state_file_abandon(&ids->file);
    return error;
}

void message_ids_note(struct message_ids *ids, const char *message_id, const char *email_id)
{
    int64_t digest = digest_of(message_id);
    if (strlen(email_id) > EMAIL_ID_MAX_BYTES)
        return;
    pthread_mutex_lock(&ids->lock);
    if (atomic_load(&ids->file.is_damaged))
        (void)state_file_renew(&ids->file);
    int error = is_settled(ids, digest, email_id) ? 0 : add(ids, digest, email_id);
    if (error == -EINVAL) /* the tables are not those of the format: damage that SQLite does not see */
        state_file_note(&ids->file, -EUCLEAN);
    pthread_mutex_unlock(&ids->lock);
    if (error != 0)
        log_debug("a Message-ID could not be noted: %s", strerror(-error));
}
