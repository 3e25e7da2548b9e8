/* SPDX-License-Identifier: MIT */
/*
 * The rows and files of parts, and their bound. zlib's checksum reveals damage to a row; the hash in the row
 * reveals damage to a file.
 */
#include "store/content_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"

enum {
    PART_MAX_BYTES = 1000 * 1000 * 1000, /* SQLite's limit for a value */
    CHUNK_BYTES = 64 * 1024,
    LEVEL = 1,                /* zlib's level; level 6 makes texts 8 % shorter in twice the time */
    USE_INTERVAL_S = 60 * 60, /* a use of a settled part is recorded only if the last recorded one is older */
    AGAIN_INTERVAL_S = 60,    /* likewise for a passing part, which its first reader may still be reading */
    ROW_BYTES = 100,          /* size of a part's row without its bytes */
    SETTLED_PERCENT = 90,     /* of the bound: a new part is settled if all parts then take no more */
    LEFT_PERCENT = 95,        /* of the bound: once all parts exceed it, parts are removed down to this */
};

/* ---------------------------------------------------------------- bytes */

void content_bytes_release(struct content_bytes *bytes)
{
    free(bytes->bytes);
    cleanup_close(&bytes->fd);
    *bytes = (struct content_bytes){.fd = -1};
}

static int uncompress_bytes(const void *compressed, size_t compressed_len, uint64_t len,
                            struct content_bytes *ret)
{
    if (len > PART_MAX_BYTES || compressed == NULL)
        return -EBADMSG;
    _cleanup_free_ char *bytes = malloc(len + 1);
    if (bytes == NULL)
        return -ENOMEM;
    uLongf got = len;
    if (uncompress((Bytef *)bytes, &got, compressed, compressed_len) != Z_OK || got != len)
        return -EBADMSG;
    bytes[len] = '\0';
    *ret = (struct content_bytes){.bytes = TAKE_PTR(bytes), .fd = -1, .len = len};
    return 0;
}

static int hash_file(int fd, uint64_t len, uint64_t *ret_hash)
{
    struct stat status;
    g_autofree char *chunk = g_malloc(CHUNK_BYTES);
    if (fstat(fd, &status) != 0)
        return -errno;
    if ((uint64_t)status.st_size != len)
        return -EBADMSG;
    *ret_hash = len;
    for (uint64_t at = 0; at < len; at += CHUNK_BYTES) {
        size_t part = len - at < CHUNK_BYTES ? (size_t)(len - at) : (size_t)CHUNK_BYTES;
        ssize_t got = file_pread_all(fd, chunk, part, (off_t)at);
        if (got < 0)
            return (int)got;
        *ret_hash = hash_bytes(*ret_hash, chunk, (size_t)got);
    }
    return 0;
}

/* ---------------------------------------------------------------- keys, files, and the folder */

/* The length keeps the ids apart: no two pairs of ids make the same text. */
int64_t content_cache_key(enum content_part part, const char *email_id, const char *attachment_id)
{
    g_autofree char *all = g_strdup_printf(
        "%d %s %zu %s %s", (int)part, part == CONTENT_PART_TEXTS ? CONTENT_FOLDER_VERSION : "",
        strlen(email_id), email_id, part == CONTENT_PART_ATTACHMENT ? attachment_id : "");
    return cache_digest(all);
}

enum {
    NAME_SIZE = 32
};

static void name_file(int64_t number, char ret_name[NAME_SIZE])
{
    snprintf(ret_name, NAME_SIZE, "%lld", (long long)number);
}

static int open_file(const struct content_cache *content, int64_t number, int flags)
{
    char name[NAME_SIZE];
    name_file(number, name);
    int fd = openat(content->dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

static void remove_file(const struct content_cache *content, int64_t number)
{
    char name[NAME_SIZE];
    name_file(number, name);
    unlinkat(content->dir_fd, name, 0);
}

static int64_t next_number(struct content_cache *content)
{
    return atomic_fetch_add(&content->last_number, 1) + 1;
}

int content_cache_create_file(struct content_cache *content, struct content_bytes *ret)
{
    int64_t number = next_number(content);
    int fd = open_file(content, number, O_RDWR | O_CREAT | O_TRUNC);
    if (fd < 0)
        return fd;
    *ret = (struct content_bytes){.fd = fd, .new_file = number};
    return 0;
}

void content_cache_drop_file(struct content_cache *content, struct content_bytes *bytes)
{
    if (bytes->new_file != 0)
        remove_file(content, bytes->new_file);
    bytes->new_file = 0;
}

/* Finds the highest number of a part. Removes unfinished files that a kill left, and the files of a database
 * that was set aside. */
static int read_folder(struct content_cache *content)
{
    _cleanup_reader_ struct connection *reader = NULL;
    int64_t last = 0;
    int error = database_take_reader(content->cache->database, &reader);
    if (error == 0)
        error = query_integers(reader, &last, 1, "SELECT ifnull(max(number), 0) FROM parts", "");
    content->last_number = last;
    _cleanup_closedir_ DIR *dir = file_opendirat(content->dir_fd, ".");
    const struct dirent *item;
    while (error == 0 && dir != NULL && (item = readdir(dir)) != NULL) {
        int64_t is_known;
        if (item->d_name[0] == '.')
            continue;
        error = query_integers(reader, &is_known, 1,
                               "SELECT EXISTS (SELECT 1 FROM parts WHERE number = ? AND is_file)", "i",
                               (int64_t)strtoll(item->d_name, NULL, 10));
        if (error == 0 && is_known == 0)
            unlinkat(content->dir_fd, item->d_name, 0);
    }
    return cache_report_error(content->cache, error);
}

int content_cache_open(struct content_cache *content, struct cache *cache, int dir_fd, uint64_t max_bytes)
{
    int parts_fd = file_open_dir(dir_fd, "parts");
    if (parts_fd < 0)
        return parts_fd;
    *content = (struct content_cache){.cache = cache, .dir_fd = parts_fd, .max_bytes = max_bytes};
    content->used = g_hash_table_new(NULL, NULL);
    pthread_mutex_init(&content->lock, NULL);
    (void)read_folder(content);
    return 0;
}

/* ---------------------------------------------------------------- use */

struct part_row {
    int64_t number;
    int64_t len;
    int64_t used_s;
    int64_t is_passing;
    int64_t is_file;
    int64_t hash;
};

/* Writes, in the caller's turn, which parts have been used since the last call. */
static int write_used(struct content_cache *content, struct connection *writer)
{
    GHashTableIter position;
    gpointer number;
    gpointer used_s;
    int error = 0;
    pthread_mutex_lock(&content->lock);
    GHashTable *used = content->used;
    content->used = g_hash_table_new(NULL, NULL);
    pthread_mutex_unlock(&content->lock);
    g_hash_table_iter_init(&position, used);
    while (error == 0 && g_hash_table_iter_next(&position, &number, &used_s))
        error = query_execute(writer, "UPDATE parts SET used_s = ?, is_passing = 0 WHERE number = ?", "ii",
                              (int64_t)GPOINTER_TO_SIZE(used_s), (int64_t)GPOINTER_TO_SIZE(number));
    g_hash_table_unref(used);
    return error;
}

static void note_use(struct content_cache *content, const struct part_row *row)
{
    int64_t now_s = (int64_t)time(NULL);
    int64_t age_s = now_s - row->used_s;
    if (age_s >= 0 && age_s < (row->is_passing != 0 ? AGAIN_INTERVAL_S : USE_INTERVAL_S))
        return;
    LOCK_GUARD(&content->lock);
    g_hash_table_insert(content->used, GSIZE_TO_POINTER(row->number), GSIZE_TO_POINTER(now_s));
}

void content_cache_release(struct content_cache *content)
{
    struct connection *writer = NULL;
    if (content->cache == NULL)
        return;
    if (g_hash_table_size(content->used) > 0 && cache_begin_write(content->cache, &writer) == 0)
        (void)cache_end_write(content->cache, write_used(content, writer));
    g_hash_table_unref(content->used);
    cleanup_close(&content->dir_fd);
    pthread_mutex_destroy(&content->lock);
}

/* ---------------------------------------------------------------- reading */

/* Opens the file of a part if it is undamaged. */
static int open_part(const struct content_cache *content, const struct part_row *row,
                     struct content_bytes *ret)
{
    uint64_t hash;
    _cleanup_close_ int fd = open_file(content, row->number, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? -EBADMSG : fd;
    int error = hash_file(fd, (uint64_t)row->len, &hash);
    if (error == 0 && (int64_t)hash != row->hash)
        error = -EBADMSG;
    if (error == 0)
        *ret = (struct content_bytes){.fd = TAKE_FD(fd), .len = (uint64_t)row->len};
    return error;
}

static int read_row(struct connection *connection, int64_t key, struct part_row *row,
                    struct content_bytes *ret)
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(connection, &statement,
                            "SELECT parts.number, len, used_s, is_passing, is_file, hash, bytes FROM parts"
                            " LEFT JOIN part_bytes ON part_bytes.number = parts.number WHERE key = ?",
                            "i", key);
    if (error == 0) {
        *row = (struct part_row){
            .number = sqlite3_column_int64(statement.row, 0),
            .len = sqlite3_column_int64(statement.row, 1),
            .used_s = sqlite3_column_int64(statement.row, 2),
            .is_passing = sqlite3_column_int64(statement.row, 3),
            .is_file = sqlite3_column_int64(statement.row, 4),
            .hash = sqlite3_column_int64(statement.row, 5),
        };
        if (row->is_file == 0)
            error = uncompress_bytes(sqlite3_column_blob(statement.row, 6),
                                     (size_t)sqlite3_column_bytes(statement.row, 6), (uint64_t)row->len, ret);
    }
    return error;
}

int content_cache_read(struct content_cache *content, int64_t key, struct content_bytes *ret)
{
    struct connection *connection = NULL;
    struct part_row row = {.number = 0};
    int error = database_take_reader(content->cache->database, &connection);
    if (error == 0) {
        error = read_row(connection, key, &row, ret);
        database_return_reader(connection);
    }
    if (error == 0 && row.is_file != 0)
        error = open_part(content, &row, ret);
    if (error == 0)
        note_use(content, &row);
    if (error == -EBADMSG)
        log_debug("a damaged part of the cache is fetched again when it is read");
    return error == -EBADMSG ? -ENOENT : cache_report_error(content->cache, error);
}

int content_cache_read_texts(struct connection *connection, const char *email_id,
                             struct content_folder *ret_folder)
{
    struct part_row row;
    struct content_bytes bytes = {.bytes = NULL};
    int error = read_row(connection, content_cache_key(CONTENT_PART_TEXTS, email_id, NULL), &row, &bytes);
    if (error == 0)
        error = row.is_file != 0 ? -ENOENT : content_folder_unpack(bytes.bytes, bytes.len, ret_folder);
    return error == -EBADMSG ? -ENOENT : error;
}

int content_cache_get_len(struct content_cache *content, int64_t key, uint64_t *ret_len)
{
    _cleanup_reader_ struct connection *reader = NULL;
    int64_t len;
    int error = database_take_reader(content->cache->database, &reader);
    if (error == 0)
        error = query_integers(reader, &len, 1, "SELECT len FROM parts WHERE key = ?", "i", key);
    if (error == 0)
        *ret_len = (uint64_t)len;
    return cache_report_error(content->cache, error);
}

/* ---------------------------------------------------------------- room */

static int delete_part(struct content_cache *content, struct connection *writer, int64_t number, bool is_file,
                       uint64_t kept)
{
    content->bytes -= MIN(kept, content->bytes);
    if (is_file)
        remove_file(content, number);
    int error = query_execute(writer, "DELETE FROM parts WHERE number = ?", "i", number);
    return error != 0 ? error : query_execute(writer, "DELETE FROM part_bytes WHERE number = ?", "i", number);
}

static int count_parts(struct content_cache *content, struct connection *writer)
{
    int64_t bytes;
    unsigned int renewals = atomic_load(&content->cache->renewals);
    if (content->is_counted && content->renewals == renewals)
        return 0;
    int error = query_integers(writer, &bytes, 1, "SELECT ifnull(sum(kept), 0) FROM parts", "");
    if (error != 0)
        return error;
    content->bytes = (uint64_t)bytes;
    content->renewals = renewals;
    content->is_counted = true;
    return 0;
}

/* If all parts exceed the bound, deletes passing parts, then settled ones, the least recently used first and
 * never the newest. */
static int make_room(struct content_cache *content, struct connection *writer, int64_t newest)
{
    uint64_t target_bytes = content->max_bytes / 100 * LEFT_PERCENT;
    _cleanup_statement_ struct statement statement = {0};
    int more = 0;
    if (content->bytes <= content->max_bytes)
        return 0;
    int error = write_used(content, writer);
    /* SQLite sorts the rows, so it has read all of them before the first is deleted. */
    if (error == 0)
        error = query_begin(writer, &statement,
                            "SELECT number, is_file, kept FROM parts WHERE number <> ?"
                            " ORDER BY is_passing DESC, used_s, number",
                            "i", newest);
    while (error == 0 && content->bytes > target_bytes && (more = query_step(statement.row)) > 0)
        error = delete_part(content, writer, sqlite3_column_int64(statement.row, 0),
                            sqlite3_column_int64(statement.row, 1) != 0,
                            (uint64_t)sqlite3_column_int64(statement.row, 2));
    return error != 0 ? error : more < 0 ? more : 0;
}

/* ---------------------------------------------------------------- writing */

static int compress_bytes(const struct content_bytes *bytes, char **ret_compressed, uint64_t *ret_len)
{
    uLongf len = compressBound(bytes->len);
    _cleanup_free_ char *compressed = malloc(len);
    if (compressed == NULL ||
        compress2((Bytef *)compressed, &len, (const Bytef *)bytes->bytes, bytes->len, LEVEL) != Z_OK)
        return -ENOMEM;
    *ret_compressed = TAKE_PTR(compressed);
    *ret_len = len;
    return 0;
}

static int delete_older_part(struct content_cache *content, struct connection *writer, int64_t key)
{
    int64_t row[3];
    int error = query_integers(writer, row, ARRAY_LEN(row),
                               "SELECT number, is_file, kept FROM parts WHERE key = ?", "i", key);
    if (error == 0)
        error = delete_part(content, writer, row[0], row[1] != 0, (uint64_t)row[2]);
    return error == -ENOENT ? 0 : error;
}

/* Adds a part that takes `stored` bytes. `compressed` is NULL if they are in a file. */
static int add_part(struct content_cache *content, struct connection *writer,
                    const struct content_new_part *part, int64_t number, const void *compressed,
                    uint64_t stored)
{
    uint64_t kept = stored + ROW_BYTES;
    bool is_passing = content->bytes + kept > content->max_bytes / 100 * SETTLED_PERCENT;
    uint64_t hash = 0;
    int error = compressed == NULL ? hash_file(part->bytes->fd, part->bytes->len, &hash)
                                   : query_execute(writer, "INSERT OR REPLACE INTO part_bytes VALUES (?, ?)",
                                                   "ib", number, compressed, (size_t)stored);
    if (error != 0)
        return error;
    content->bytes += kept;
    return query_execute(writer, "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", "iiiiiiii", number,
                         part->key, (int64_t)part->bytes->len, (int64_t)kept, (int64_t)time(NULL),
                         (int64_t)is_passing, (int64_t)(compressed == NULL), (int64_t)hash);
}

int content_cache_put(struct content_cache *content, const struct content_new_part *part)
{
    struct content_bytes *bytes = part->bytes;
    struct connection *writer = NULL;
    _cleanup_free_ char *compressed = NULL;
    uint64_t stored = bytes->len;
    int64_t number = bytes->new_file != 0 ? bytes->new_file : next_number(content);
    int error = bytes->bytes == NULL ? 0 : compress_bytes(bytes, &compressed, &stored);
    if (error == 0 && stored + ROW_BYTES > content->max_bytes)
        error = -EFBIG;
    if (error == 0)
        error = cache_begin_write(content->cache, &writer);
    if (error != 0)
        return error;
    error = count_parts(content, writer);
    if (error == 0)
        error = delete_older_part(content, writer, part->key);
    if (error == 0)
        error = add_part(content, writer, part, number, compressed, stored);
    if (error == 0 && part->message_id != NULL)
        error = cache_add_message_id(writer, part->message_id, part->email_id);
    if (error == 0 && part->has_texts)
        error = cache_add_pending(writer, part->email, true);
    if (error == 0)
        error = make_room(content, writer, number);
    error = cache_end_write(content->cache, error);
    if (error == 0)
        bytes->new_file = 0;
    else
        content->is_counted = false; /* the transaction was rolled back, so `bytes` is wrong */
    return error;
}
