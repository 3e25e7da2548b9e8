/* SPDX-License-Identifier: MIT */
/*
 * The rows and files of parts, their bound, and the serialized form of texts. zlib's checksum reveals damage
 * to a row; the hash in the row reveals damage to a file.
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
#include "base/strbuf.h"
#include "store/search_index.h"

enum {
    PACKED_MAX_BYTES = 1000 * 1000 * 1000, /* SQLite's limit for a value */
    CHUNK_BYTES = 64 * 1024,
    LEVEL = 1,                /* zlib's level; level 6 makes texts 8 % shorter in twice the time */
    USE_INTERVAL_S = 60 * 60, /* a use of a settled part is recorded only if the last recorded one is older */
    AGAIN_INTERVAL_S = 60,    /* likewise for a passing part, which its first reader may still be reading */
    ROW_BYTES = 100,          /* size of a part's row without its bytes */
    SETTLED_PERCENT = 90,     /* of the bound: a new part is settled if all parts then take no more */
    LEFT_PERCENT = 95,        /* of the bound: once all parts exceed it, parts are removed down to this */
};

/* ---------------------------------------------------------------- serialized texts */

/* Part of the key of texts. Raise it whenever struct packed_entry or the content of an entry changes, so
 * that old parts are no longer found. */
static const char pack_version[] = "4";

/* The numbers are in the machine's byte order. The bytes of name, id and content follow the struct. */
struct packed_entry {
    uint32_t kind;
    uint32_t name_len;
    uint32_t id_len;
    uint32_t spare;
    uint64_t len;
    int64_t date_ms;
};

int content_cache_pack(const struct content_folder *folder, struct content_bytes *ret)
{
    _cleanup_strbuf_ struct strbuf packed = STRBUF_INIT(PACKED_MAX_BYTES);
    for (size_t i = 0; i < folder->len; i++) {
        const struct content_entry *entry = &folder->entries[i];
        const struct packed_entry head = {
            .kind = entry->kind,
            .name_len = (uint32_t)strlen(entry->name),
            .id_len = (uint32_t)strlen(entry->id),
            .len = entry->len,
            .date_ms = entry->date_ms,
        };
        strbuf_append(&packed, &head, sizeof(head));
        strbuf_append(&packed, entry->name, head.name_len);
        strbuf_append(&packed, entry->id, head.id_len);
        strbuf_append(&packed, entry->bytes, entry->len);
    }
    if (packed.error != 0)
        return packed.error;
    size_t len;
    *ret = (struct content_bytes){.bytes = strbuf_take(&packed, &len), .fd = -1};
    ret->len = len;
    return ret->bytes == NULL ? -ENOMEM : 0;
}

static char *take_text(const char **at, size_t len)
{
    char *text = malloc(len + 1);
    if (text == NULL)
        return NULL;
    memcpy(text, *at, len);
    text[len] = '\0';
    *at += len;
    return text;
}

static int unpack_entry(const char **at, const char *end, struct content_folder *folder)
{
    struct packed_entry head;
    if ((size_t)(end - *at) < sizeof(head))
        return -EBADMSG;
    memcpy(&head, *at, sizeof(head));
    *at += sizeof(head);
    uint64_t remaining = (uint64_t)(end - *at);
    if (head.len > remaining || (uint64_t)head.name_len + head.id_len > remaining - head.len)
        return -EBADMSG;
    _cleanup_free_ char *name = take_text(at, head.name_len);
    _cleanup_free_ char *id = take_text(at, head.id_len);
    struct content_entry *entry = name == NULL || id == NULL
                                      ? NULL
                                      : content_folder_add(folder, (enum content_kind)head.kind, name, id);
    if (entry == NULL)
        return -ENOMEM;
    entry->date_ms = head.date_ms;
    entry->len = head.len;
    entry->bytes = take_text(at, head.len);
    return entry->bytes == NULL ? -ENOMEM : 0;
}

int content_cache_unpack(const struct content_bytes *bytes, struct content_folder *ret_folder)
{
    struct content_folder folder = {.len = 0};
    const char *at = bytes->bytes;
    int error = 0;
    while (error == 0 && at < bytes->bytes + bytes->len)
        error = unpack_entry(&at, bytes->bytes + bytes->len, &folder);
    if (error != 0)
        content_folder_release(&folder);
    else
        *ret_folder = folder;
    return error;
}

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
    if (len > PACKED_MAX_BYTES || compressed == NULL)
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
    _cleanup_free_ char *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL)
        return -ENOMEM;
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
    g_autofree char *all =
        g_strdup_printf("%d %s %zu %s %s", (int)part, part == CONTENT_PART_TEXTS ? pack_version : "",
                        strlen(email_id), email_id, part == CONTENT_PART_ATTACHMENT ? attachment_id : "");
    return cache_digest(all);
}

static void name_file(int64_t number, char ret_name[CONTENT_FILE_NAME_SIZE])
{
    snprintf(ret_name, CONTENT_FILE_NAME_SIZE, "%lld", (long long)number);
}

int content_cache_create_file(struct content_cache *content, char ret_name[CONTENT_FILE_NAME_SIZE])
{
    snprintf(ret_name, CONTENT_FILE_NAME_SIZE, "new-%u", atomic_fetch_add(&content->files, 1));
    int fd = openat(content->dir_fd, ret_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

void content_cache_unlink(struct content_cache *content, const char *name)
{
    unlinkat(content->dir_fd, name, 0);
}

/* Removes unfinished files that a kill left, and the files of a database that was set aside. */
static void remove_orphans(struct content_cache *content)
{
    _cleanup_reader_ struct connection *reader = NULL;
    if (cache_report_error(content->cache, database_take_reader(content->cache->database, &reader)) != 0)
        return;
    _cleanup_closedir_ DIR *dir = file_opendirat(content->dir_fd, ".");
    const struct dirent *item;
    while (dir != NULL && (item = readdir(dir)) != NULL) {
        int64_t is_known = 0;
        char *end;
        long long number = strtoll(item->d_name, &end, 10);
        if (*end == '\0')
            (void)query_integers(reader, &is_known, 1,
                                 "SELECT EXISTS (SELECT 1 FROM parts WHERE number = ? AND is_file)", "i",
                                 (int64_t)number);
        if (item->d_name[0] != '.' && is_known == 0)
            content_cache_unlink(content, item->d_name);
    }
}

int content_cache_open(struct content_cache *content, struct cache *cache, int dir_fd, uint64_t max_bytes)
{
    int parts_fd = file_open_dir(dir_fd, "parts");
    if (parts_fd < 0)
        return parts_fd;
    *content = (struct content_cache){.cache = cache, .dir_fd = parts_fd, .max_bytes = max_bytes};
    pthread_mutex_init(&content->lock, NULL);
    remove_orphans(content);
    return 0;
}

/* ---------------------------------------------------------------- use */

/* Writes, in the caller's turn, which parts have been used since the last call. */
static int write_used(struct content_cache *content, struct connection *writer)
{
    int64_t keys[CONTENT_USED_MAX];
    pthread_mutex_lock(&content->lock);
    size_t len = content->used_len;
    memcpy(keys, content->used, len * sizeof(*keys));
    content->used_len = 0;
    pthread_mutex_unlock(&content->lock);
    int error = 0;
    for (size_t i = 0; error == 0 && i < len; i++)
        error = query_execute(writer, "UPDATE parts SET used_s = ?, is_passing = 0 WHERE key = ?", "ii",
                              (int64_t)time(NULL), keys[i]);
    return error;
}

bool content_cache_must_write(struct content_cache *content)
{
    LOCK_GUARD(&content->lock);
    return content->used_len == CONTENT_USED_MAX;
}

static void write_used_alone(struct content_cache *content)
{
    struct connection *writer = NULL;
    if (cache_begin_write(content->cache, &writer) == 0)
        (void)cache_end_write(content->cache, write_used(content, writer));
}

static void note_use(struct content_cache *content, int64_t key, int64_t used_s, bool is_passing)
{
    int64_t age_s = (int64_t)time(NULL) - used_s;
    if (content_cache_must_write(content))
        write_used_alone(content);
    if (age_s >= 0 && age_s < (is_passing ? AGAIN_INTERVAL_S : USE_INTERVAL_S))
        return;
    LOCK_GUARD(&content->lock);
    if (content->used_len < CONTENT_USED_MAX)
        content->used[content->used_len++] = key;
}

void content_cache_release(struct content_cache *content)
{
    if (content->cache == NULL)
        return;
    if (content->used_len > 0)
        write_used_alone(content);
    cleanup_close(&content->dir_fd);
    pthread_mutex_destroy(&content->lock);
}

/* ---------------------------------------------------------------- reading */

struct part_row {
    int64_t number;
    int64_t len;
    int64_t used_s;
    int64_t is_passing;
    int64_t is_file;
    int64_t hash;
};

static int open_file(const struct content_cache *content, const struct part_row *row,
                     struct content_bytes *ret)
{
    char name[CONTENT_FILE_NAME_SIZE];
    uint64_t hash;
    name_file(row->number, name);
    _cleanup_close_ int fd = openat(content->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? -EBADMSG : -errno;
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

static int delete_part(struct content_cache *content, struct connection *writer, int64_t number, bool is_file)
{
    char name[CONTENT_FILE_NAME_SIZE];
    name_file(number, name);
    if (is_file)
        content_cache_unlink(content, name);
    int error = query_execute(writer, "DELETE FROM parts WHERE number = ?", "i", number);
    return error != 0 ? error : query_execute(writer, "DELETE FROM part_bytes WHERE number = ?", "i", number);
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
        error = open_file(content, &row, ret);
    if (error == 0)
        note_use(content, key, row.used_s, row.is_passing != 0);
    if (error == -EBADMSG)
        log_debug("a damaged part of the cache is fetched again when it is read");
    return error == -EBADMSG ? -ENOENT : cache_report_error(content->cache, error);
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

/* If all parts exceed the bound, deletes passing parts, then settled ones, the least recently used first and
 * never the newest. */
static int make_room(struct content_cache *content, struct connection *writer)
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
                            "i", content->last_number);
    while (error == 0 && content->bytes > target_bytes && (more = query_step(statement.row)) > 0) {
        uint64_t bytes = (uint64_t)sqlite3_column_int64(statement.row, 2);
        error = delete_part(content, writer, sqlite3_column_int64(statement.row, 0),
                            sqlite3_column_int64(statement.row, 1) != 0);
        content->bytes -= MIN(bytes, content->bytes);
    }
    return error != 0 ? error : more < 0 ? more : 0;
}

/* ---------------------------------------------------------------- writing */

static int count_parts(struct content_cache *content, struct connection *writer)
{
    int64_t counted[2];
    unsigned int renewals = atomic_load(&content->cache->renewals);
    if (content->is_counted && content->renewals == renewals)
        return 0;
    int error = query_integers(writer, counted, 2,
                               "SELECT ifnull(sum(kept), 0), ifnull(max(number), 0) FROM parts", "");
    if (error != 0)
        return error;
    content->bytes = (uint64_t)counted[0];
    content->last_number = counted[1];
    content->renewals = renewals;
    content->is_counted = true;
    return 0;
}

/* Adds a part. No other part has its key. */
static int put_part(struct content_cache *content, struct connection *writer,
                    const struct content_new_part *part, const char *compressed, size_t compressed_len)
{
    const struct content_bytes *bytes = part->bytes;
    bool is_file = bytes->bytes == NULL;
    uint64_t stored_bytes = (is_file ? bytes->len : compressed_len) + ROW_BYTES;
    bool is_passing = content->bytes + stored_bytes > content->max_bytes / 100 * SETTLED_PERCENT;
    char name[CONTENT_FILE_NAME_SIZE];
    uint64_t hash = 0;
    int error = 0;
    name_file(++content->last_number, name);
    if (!is_file) {
        error = query_execute(writer, "INSERT OR REPLACE INTO part_bytes VALUES (?, ?)", "ib",
                              content->last_number, (const void *)compressed, compressed_len);
    } else {
        error = hash_file(bytes->fd, bytes->len, &hash);
        if (error == 0 && renameat(content->dir_fd, part->file_name, content->dir_fd, name) != 0)
            error = -errno;
    }
    if (error != 0)
        return error;
    content->bytes += stored_bytes;
    return query_execute(writer, "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", "iiiiiiii",
                         content->last_number, part->key, (int64_t)bytes->len, (int64_t)stored_bytes,
                         (int64_t)time(NULL), (int64_t)is_passing, (int64_t)is_file, (int64_t)hash);
}

int content_cache_put(struct content_cache *content, const struct content_new_part *part)
{
    struct connection *writer = NULL;
    _cleanup_free_ char *compressed = NULL;
    uLongf len = 0;
    if (part->bytes->bytes != NULL) {
        len = compressBound(part->bytes->len);
        compressed = malloc(len);
        if (compressed == NULL || compress2((Bytef *)compressed, &len, (const Bytef *)part->bytes->bytes,
                                            part->bytes->len, LEVEL) != Z_OK)
            return -ENOMEM;
    }
    if ((part->bytes->bytes == NULL ? part->bytes->len : len) + ROW_BYTES > content->max_bytes)
        return -EFBIG;
    int error = cache_begin_write(content->cache, &writer);
    if (error != 0)
        return error;
    error = count_parts(content, writer);
    int64_t row[3];
    if (error == 0) {
        error = query_integers(writer, row, ARRAY_LEN(row),
                               "SELECT number, is_file, kept FROM parts WHERE key = ?", "i", part->key);
        if (error == 0) { /* an older part with this key is replaced */
            content->bytes -= MIN((uint64_t)row[2], content->bytes);
            error = delete_part(content, writer, row[0], row[1] != 0);
        } else if (error == -ENOENT) {
            error = 0;
        }
    }
    if (error == 0)
        error = put_part(content, writer, part, compressed, len);
    if (error == 0 && part->message_id != NULL)
        error = cache_add_message_id(writer, part->message_id, part->email_id);
    if (error == 0 && part->texts != NULL)
        error = search_index_add_pending_content(writer, part->email, part->texts);
    if (error == 0)
        error = make_room(content, writer);
    error = cache_end_write(content->cache, error);
    if (error != 0)
        content->is_counted = false; /* the transaction was rolled back, so `bytes` is wrong */
    return error;
}
