/* SPDX-License-Identifier: MIT */
/*
 * The database of the spool and its files: the format, rows to and from statements, and the order in which
 * contents are created and removed.
 */
#include "outbox/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "base/log.h"
#include "mail/reason.h"

#define VERSION_FILE "version"
#define QUARANTINE "quarantine"
#define DATABASE_NAME "outbox.sqlite3"

/* ================================================================ the database */

static const struct database_step steps[] = {
    {.sql = "CREATE TABLE spool(id INTEGER PRIMARY KEY CHECK(id = 1), is_taken_over INTEGER NOT NULL,"
            " next_number INTEGER NOT NULL, day INTEGER NOT NULL, sent INTEGER NOT NULL);"
            "INSERT INTO spool VALUES(1, 0, 1, 0, 0);"
            "CREATE TABLE item(number INTEGER PRIMARY KEY, position INTEGER NOT NULL, kind TEXT NOT NULL,"
            " state TEXT NOT NULL, name TEXT NOT NULL, size INTEGER, digest TEXT, key TEXT, answers TEXT,"
            " sender TEXT, replies_to TEXT, not_carried TEXT, sequence TEXT, may_have_been_sent INTEGER,"
            " was_unknown INTEGER, was_reuploaded INTEGER, quota_day INTEGER, attempts INTEGER,"
            " accepted_ms INTEGER, finished_ms INTEGER, http_status INTEGER, id TEXT, error TEXT,"
            " receipt_bytes INTEGER, replaces INTEGER);"
            "CREATE TABLE piece(item INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT,"
            " content INTEGER NOT NULL, size INTEGER NOT NULL, digest TEXT, pool_id TEXT,"
            " PRIMARY KEY(item, place)) WITHOUT ROWID;"
            "CREATE TABLE request(item INTEGER PRIMARY KEY, json TEXT NOT NULL);"
            "CREATE TABLE pool(number INTEGER PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL,"
            " id TEXT NOT NULL, UNIQUE(digest, name));"},
};

static const struct database_format format = {
    .name = DATABASE_NAME,
    .steps = steps,
    .steps_len = ARRAY_LEN(steps),
};

struct spool {
    int dir_fd;
    struct database *database;
    atomic_uint_least64_t next_number;
};

/* Checks the version file. Older programs read it first, and refuse a newer spool, whose files they would
 * otherwise treat as foreign. Only inboxfs 0.2 can read a spool of version 0.1. */
static int check_version(int dir_fd, char **ret_reason)
{
    enum {
        OLDEST = 2,
        VERSION = 3,
    };
    _cleanup_free_ char *text = NULL;
    size_t len;
    int error = file_read_at(dir_fd, VERSION_FILE, 64, &text, &len);
    long version = error == 0 ? strtol(text, NULL, 10) : OLDEST;
    if (error != 0 && error != -ENOENT)
        return reason_give(ret_reason, error, "the spool's version file cannot be read: %s",
                           strerror(-error));
    if (version > VERSION)
        return reason_give(ret_reason, -EPROTO, "the spool is of version %ld, this program knows version %d",
                           version, VERSION);
    if (version < OLDEST)
        return reason_give(ret_reason, -EPROTO,
                           "the spool is of inboxfs 0.1: start inboxfs 0.2 with it once, which converts it");
    return 0;
}

static int open_database(struct spool *spool, char **ret_reason)
{
    int error = database_open(spool->dir_fd, &format, DATABASE_ALONE, &spool->database);
    if (error == -EUCLEAN)
        return reason_give(ret_reason, error,
                           "spool/" DATABASE_NAME
                           " is damaged. Messages in the spool are not lost: move that "
                           "file (and " DATABASE_NAME "-wal) away, and the next mount shows each in failed/ "
                           "with an unknown outcome: some of them may have been sent");
    if (error == -EPROTO)
        return reason_give(ret_reason, error, "the spool is of a newer version of this program");
    if (error != 0)
        return reason_give(ret_reason, error, "spool/" DATABASE_NAME " cannot be opened: %s",
                           strerror(-error));
    return 0;
}

int spool_read_head(struct spool *spool, struct spool_head *ret)
{
    int64_t values[4];
    _cleanup_reader_ struct connection *reader = NULL;
    int error = database_take_reader(spool->database, &reader);
    if (error == 0)
        error = query_integers(reader, values, ARRAY_LEN(values),
                               "SELECT is_taken_over, next_number, day, sent FROM spool", "");
    if (error == 0)
        *ret = (struct spool_head){.is_taken_over = values[0] != 0,
                                   .next_number = (uint64_t)values[1],
                                   .day = values[2],
                                   .sent = values[3]};
    return error;
}

int spool_open(int state_dir_fd, struct spool **ret_spool, char **ret_reason)
{
    struct spool *spool = g_new0(struct spool, 1);
    struct spool_head head;
    spool->dir_fd = file_open_dir(state_dir_fd, "spool");
    int error = spool->dir_fd < 0 ? reason_give(ret_reason, spool->dir_fd, "the spool cannot be opened: %s",
                                                strerror(-spool->dir_fd))
                                  : check_version(spool->dir_fd, ret_reason);
    error = error != 0 ? error : open_database(spool, ret_reason);
    if (error == 0 && (error = spool_read_head(spool, &head)) != 0)
        reason_give(ret_reason, error, "the spool cannot be read: %s", strerror(-error));
    if (error != 0) {
        spool_free(spool);
        return error;
    }
    atomic_init(&spool->next_number, head.next_number);
    *ret_spool = spool;
    return 0;
}

void spool_free(struct spool *spool)
{
    if (spool == NULL)
        return;
    database_free(spool->database);
    if (spool->dir_fd >= 0)
        close(spool->dir_fd);
    free(spool);
}

int spool_dir_fd(const struct spool *spool)
{
    return spool->dir_fd;
}

uint64_t spool_take_number(struct spool *spool)
{
    return atomic_fetch_add(&spool->next_number, 1);
}

void spool_skip_number(struct spool *spool, uint64_t number)
{
    uint64_t next = atomic_load(&spool->next_number);
    while (next <= number && !atomic_compare_exchange_weak(&spool->next_number, &next, number + 1))
        continue;
}

int spool_begin(struct spool *spool, struct connection **ret_turn)
{
    return database_begin_write(spool->database, ret_turn);
}

int spool_end(struct spool *spool, struct connection *turn, int error)
{
    if (error == 0)
        error = query_execute(turn, "UPDATE spool SET next_number = ?1 WHERE next_number < ?1", "i",
                              (int64_t)atomic_load(&spool->next_number));
    return database_end_write(spool->database, error);
}

int spool_save_row(struct connection *turn, const struct row *row)
{
    int error = query_execute(
        turn, "INSERT OR REPLACE INTO item VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "iisssisssssssiiiiiiiissii", (int64_t)row->number, (int64_t)row->position, item_kind_name(row->kind),
        item_states[row->state].name, row->name, row->size, row->digest, row->key, row->reply_template,
        row->from, row->replies_to, row->not_carried, row->sequence, (int64_t)row->may_have_been_sent,
        (int64_t)row->was_unknown, (int64_t)row->was_reuploaded, row->quota_day, (int64_t)row->attempts,
        row->accepted_ms, row->finished_ms, (int64_t)row->http_status, row->id, row->error,
        (int64_t)row->receipt_bytes, (int64_t)row->replaces);
    if (error == 0)
        error = query_execute(turn, "DELETE FROM piece WHERE item = ?", "i", (int64_t)row->number);
    for (size_t i = 0; i < row->pieces_len && error == 0; i++) {
        const struct piece *piece = &row->pieces[i];
        error = query_execute(turn, "INSERT INTO piece VALUES(?,?,?,?,?,?,?)", "iisiiss",
                              (int64_t)row->number, (int64_t)i, piece->name, (int64_t)piece->content,
                              piece->size, piece->digest, piece->pool_id);
    }
    return error;
}

int spool_remove_row(struct connection *turn, uint64_t number)
{
    int error = query_execute(turn, "DELETE FROM item WHERE number = ?", "i", (int64_t)number);
    if (error == 0)
        error = query_execute(turn, "DELETE FROM piece WHERE item = ?", "i", (int64_t)number);
    return error != 0 ? error : spool_save_request(turn, number, NULL);
}

int spool_save_request(struct connection *turn, uint64_t number, const char *request)
{
    return request == NULL ? query_execute(turn, "DELETE FROM request WHERE item = ?", "i", (int64_t)number)
                           : query_execute(turn, "INSERT OR REPLACE INTO request VALUES(?,?)", "is",
                                           (int64_t)number, request);
}

int spool_count_sent(struct connection *turn, int64_t day)
{
    return query_execute(turn, "UPDATE spool SET sent = CASE day WHEN ?1 THEN sent + 1 ELSE 1 END, day = ?1",
                         "i", day);
}

int spool_save_pool_id(struct connection *turn, const struct piece *piece)
{
    int error = query_execute(turn, "INSERT OR REPLACE INTO pool(digest, name, id) VALUES(?,?,?)", "sss",
                              piece->digest, piece->name, piece->pool_id);
    return error != 0
               ? error
               : query_execute(turn, "DELETE FROM pool WHERE number <= (SELECT max(number) FROM pool) - 1000",
                               "");
}

char *spool_find_pool_id(struct spool *spool, const char *digest, const char *name)
{
    _cleanup_reader_ struct connection *reader = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int error = database_take_reader(spool->database, &reader);
    if (error == 0)
        error = query_first(reader, &statement, "SELECT id FROM pool WHERE digest = ? AND name = ?", "ss",
                            digest, name);
    return error == 0 ? query_column_copy(statement.row, 0, NULL) : NULL;
}

void spool_forget_pool_id(struct spool *spool, const char *pool_id)
{
    struct connection *turn;
    int error = spool_begin(spool, &turn);
    if (error == 0)
        error = spool_end(spool, turn, query_execute(turn, "DELETE FROM pool WHERE id = ?", "s", pool_id));
    if (error != 0)
        log_warning("the spool could not forget what the pool has forgotten: %s", strerror(-error));
}

int spool_read_request(struct spool *spool, uint64_t number, char **ret_request)
{
    *ret_request = NULL;
    _cleanup_reader_ struct connection *reader = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int error = database_take_reader(spool->database, &reader);
    if (error == 0)
        error =
            query_first(reader, &statement, "SELECT json FROM request WHERE item = ?", "i", (int64_t)number);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    *ret_request = query_column_copy(statement.row, 0, NULL);
    return 0;
}

static int read_row(sqlite3_stmt *statement, struct row *row)
{
    row->number = (uint64_t)sqlite3_column_int64(statement, 0);
    row->position = (uint64_t)sqlite3_column_int64(statement, 1);
    row->kind = strcmp(query_column_text(statement, 2), item_kind_name(ITEM_MESSAGE)) == 0 ? ITEM_MESSAGE
                                                                                           : ITEM_ATTACHMENT;
    row->name = query_column_copy(statement, 4, NULL);
    row->size = sqlite3_column_int64(statement, 5);
    g_strlcpy(row->digest, query_column_text(statement, 6), sizeof(row->digest));
    g_strlcpy(row->key, query_column_text(statement, 7), sizeof(row->key));
    row->reply_template = query_column_copy(statement, 8, NULL);
    row->from = query_column_copy(statement, 9, NULL);
    row->replies_to = query_column_copy(statement, 10, NULL);
    if (query_column_text(statement, 11)[0] != '\0') /* older programs saved "" for none */
        row->not_carried = query_column_copy(statement, 11, NULL);
    g_strlcpy(row->sequence, query_column_text(statement, 12), sizeof(row->sequence));
    row->may_have_been_sent = sqlite3_column_int(statement, 13) != 0;
    row->was_unknown = sqlite3_column_int(statement, 14) != 0;
    row->was_reuploaded = sqlite3_column_int(statement, 15) != 0;
    row->quota_day = sqlite3_column_int64(statement, 16);
    row->attempts = (unsigned int)sqlite3_column_int64(statement, 17);
    row->accepted_ms = sqlite3_column_int64(statement, 18);
    row->finished_ms = sqlite3_column_int64(statement, 19);
    row->http_status = sqlite3_column_int(statement, 20);
    row->id = query_column_copy(statement, 21, NULL);
    row->error = query_column_copy(statement, 22, NULL);
    row->receipt_bytes = (size_t)sqlite3_column_int64(statement, 23);
    row->replaces = (uint64_t)sqlite3_column_int64(statement, 24);
    int error = item_state_from_name(query_column_text(statement, 3), &row->state);
    bool needs_sender = row->state == ITEM_QUEUED || row->state == ITEM_SENDING;
    bool is_valid = item_state_folder(row->state, row->kind) != OUTBOX_FOLDER_NONE &&
                    (!needs_sender || row->from != NULL);
    return error == 0 && !is_valid ? -EBADMSG : error;
}

static int read_pieces(struct connection *reader, struct row *row)
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_begin(reader, &statement,
                            "SELECT name, content, size, digest, pool_id FROM piece WHERE item = ?"
                            " ORDER BY place",
                            "i", (int64_t)row->number);
    if (error != 0)
        return error;
    while ((error = query_step(statement.row)) == 1) {
        struct piece *piece = row_add_piece(row, NULL);
        piece->content = (uint64_t)sqlite3_column_int64(statement.row, 1);
        piece->size = sqlite3_column_int64(statement.row, 2);
        g_strlcpy(piece->digest, query_column_text(statement.row, 3), sizeof(piece->digest));
        piece->name = query_column_copy(statement.row, 0, NULL);
        piece->pool_id = query_column_copy(statement.row, 4, NULL);
    }
    return error;
}

int spool_load(struct spool *spool, int (*visit)(void *context, struct row *row), void *context)
{
    _cleanup_reader_ struct connection *reader = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int error = database_begin_read(spool->database, &reader);
    if (error == 0)
        error = query_begin(reader, &statement, "SELECT * FROM item ORDER BY position", "");
    while (error == 0 && (error = query_step(statement.row)) == 1) {
        struct row row = {0};
        error = read_row(statement.row, &row);
        if (error == 0 && row.kind == ITEM_MESSAGE && row.state != ITEM_SENT)
            error = read_pieces(reader, &row);
        error = error != 0 ? error : visit(context, &row);
        row_release(&row);
    }
    return error;
}

/* ================================================================ contents */

enum {
    NAME_SIZE = 32,
    COPY_MAX_BYTES = 256 * 1024 * 1024, /* no content is longer */
    QUARANTINE_TRIES = 1000,
};

struct content_name {
    char string[NAME_SIZE];
};

static struct content_name name_of(uint64_t number)
{
    struct content_name name;
    snprintf(name.string, sizeof(name.string), "%" PRIu64 ".data", number);
    return name;
}

int spool_open_content(struct spool *spool, uint64_t number, int flags, int *ret_fd)
{
    int fd = openat(spool->dir_fd, name_of(number).string, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int spool_read_content(struct spool *spool, uint64_t number, size_t max_bytes, char **ret_bytes,
                       size_t *ret_len)
{
    return file_read_at(spool->dir_fd, name_of(number).string, max_bytes, ret_bytes, ret_len);
}

int spool_stat_content(struct spool *spool, uint64_t number, struct stat *ret_status)
{
    return fstatat(spool->dir_fd, name_of(number).string, ret_status, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

int spool_sync_names(struct spool *spool)
{
    return file_sync(spool->dir_fd);
}

/* Makes a durable copy, which appears whole, with the times of the content. */
static int copy_content(struct spool *spool, uint64_t number, uint64_t to)
{
    struct stat status;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    int error = spool_stat_content(spool, number, &status);
    error = error != 0 ? error : spool_read_content(spool, number, COPY_MAX_BYTES, &bytes, &len);
    error = error != 0 ? error : file_replace_lazily_at(spool->dir_fd, name_of(to).string, bytes, len, 0600);
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    if (error == 0)
        (void)utimensat(spool->dir_fd, name_of(to).string, times, AT_SYMLINK_NOFOLLOW);
    return error;
}

int spool_link_content(struct spool *spool, uint64_t number, uint64_t to)
{
    if (linkat(spool->dir_fd, name_of(number).string, spool->dir_fd, name_of(to).string, 0) == 0)
        return 0;
    bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK && errno != ENOSYS;
    return has_links ? -errno : copy_content(spool, number, to);
}

int spool_renew_content(struct spool *spool, uint64_t number, bool *ret_is_renewed)
{
    struct stat status;
    int error = spool_stat_content(spool, number, &status);
    *ret_is_renewed = error == 0 && status.st_nlink > 1;
    return *ret_is_renewed ? copy_content(spool, number, number) : error;
}

int spool_move_in(struct spool *spool, uint64_t number, int dir_fd, const char *name)
{
    struct content_name content = name_of(number);
    if (renameat(dir_fd, name, spool->dir_fd, content.string) != 0)
        return -errno;
    crash_point("moved_in");
    int error = file_sync(spool->dir_fd);
    error = error != 0 ? error : file_sync(dir_fd);
    if (error != 0 && renameat2(spool->dir_fd, content.string, dir_fd, name, RENAME_NOREPLACE) != 0) {
        log_error("the spool could not be synced (%s), nor the file moved back (%s)", strerror(-error),
                  strerror(errno));
        return 0;
    }
    return error;
}

int spool_move_out(struct spool *spool, uint64_t number, int dir_fd, const char *name, unsigned int flags)
{
    if (renameat2(spool->dir_fd, name_of(number).string, dir_fd, name, flags) != 0)
        return -errno;
    crash_point("moved_out");
    int error = file_sync(spool->dir_fd);
    error = error != 0 ? error : file_sync(dir_fd);
    if (error != 0)
        log_error("a file was moved out of the spool, but not durably: %s", strerror(-error));
    return 0;
}

int spool_unlink_content(struct spool *spool, uint64_t number)
{
    return unlinkat(spool->dir_fd, name_of(number).string, 0) == 0 ? file_sync(spool->dir_fd) : -errno;
}

void spool_discard_content(struct spool *spool, uint64_t number)
{
    if (unlinkat(spool->dir_fd, name_of(number).string, 0) != 0 && errno != ENOENT)
        log_warning("a file of the spool could not be removed, which the next start will do: %s",
                    strerror(errno));
}

void spool_remove_pieces(struct spool *spool, const struct row *from, const struct row *except)
{
    for (size_t i = 0; i < from->pieces_len; i++) {
        uint64_t content = from->pieces[i].content;
        bool is_removed = content != 0;
        for (size_t other = 0; except != NULL && other < except->pieces_len; other++)
            is_removed = is_removed && except->pieces[other].content != content;
        if (is_removed)
            spool_discard_content(spool, content);
    }
}

/* Returns the number in a content's file name, or 0 if name_of() does not make exactly this name. Accepts
 * only numbers below 2^62, so that later numbers cannot overflow. */
static uint64_t parse_name(const char *name)
{
    uint64_t number = strtoull(name, NULL, 10);
    return number >> 62 == 0 && strcmp(name, name_of(number).string) == 0 ? number : 0;
}

int spool_scan(struct spool *spool, int (*visit)(void *context, const char *name, uint64_t number),
               void *context)
{
    _cleanup_closedir_ DIR *dir = file_opendirat(spool->dir_fd, ".");
    const struct dirent *entry;
    int error = 0;
    if (dir == NULL)
        return -errno;
    while (error == 0) {
        errno = 0;
        entry = readdir(dir);
        if (entry == NULL)
            return -errno;
        bool is_file = entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, QUARANTINE) != 0 && strcmp(entry->d_name, VERSION_FILE) != 0 &&
            strncmp(entry->d_name, DATABASE_NAME, strlen(DATABASE_NAME)) != 0)
            error = visit(context, entry->d_name, is_file ? parse_name(entry->d_name) : 0);
    }
    return error;
}

void spool_quarantine(struct spool *spool, const char *name, const char *why)
{
    char target[NAME_MAX + 16];
    _cleanup_close_ int folder = file_open_dir(spool->dir_fd, QUARANTINE);
    int error = folder < 0 ? folder : -EEXIST;
    log_warning("a file of the spool was set aside in spool/" QUARANTINE ": %s", why);
    for (unsigned int i = 0; error == -EEXIST && i < QUARANTINE_TRIES; i++) {
        if (i == 0)
            snprintf(target, sizeof(target), "%s", name);
        else
            snprintf(target, sizeof(target), "%.240s-%u", name, i);
        error = renameat2(spool->dir_fd, name, folder, target, RENAME_NOREPLACE) == 0 ? 0 : -errno;
    }
    if (error != 0 && error != -ENOENT)
        log_error("a file of the spool could not be set aside: %s", strerror(-error));
}
