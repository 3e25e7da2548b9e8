/* SPDX-License-Identifier: MIT */
/*
 * First the form of one file: writing it, and reading it with its checksums. Then the folder: its bound, and
 * what becomes of names. The time of change of a file says when it was last used.
 */
#include "store/content_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/strbuf.h"

enum {
    FORM = 3, /* to be raised whenever what an entry says or how it is made changes */
    TABLE_MAX_BYTES = 8 * 1024 * 1024,
    CHUNK_BYTES = 64 * 1024,
    USE_INTERVAL_S = 60 * 60, /* a use within this time of the last is not written down */
    KEPT_PERCENT = 90,        /* of the bound, after room was made */
    NAME_CHARS = 66,          /* of a file that is kept: digest, dot, kind */
};

static const char magic[8] = "ifxcont";
static const char temporary_prefix[] = "new-";

/* ---------------------------------------------------------------- the form of a file */

/* Numbers are in the machine's own order: the file is a cache of this machine's. */
struct trailer {
    char magic[8];
    uint32_t form;
    uint32_t entries;
    uint64_t table_offset;
    uint64_t table_len;
    uint64_t table_hash;
    uint64_t hash; /* of the trailer before it */
};

struct row { /* then name and id, each with a NUL */
    uint32_t kind;
    uint32_t name_len;
    uint32_t id_len;
    uint32_t spare;
    uint64_t offset;
    uint64_t len;
    uint64_t hash;
    int64_t date_ms;
};

/* In pieces of one size, so that it comes to the same wherever the bytes are. */
static uint64_t hash_memory(const char *bytes, size_t len)
{
    uint64_t hash = len;
    for (size_t at = 0; at < len; at += CHUNK_BYTES)
        hash = hash_bytes(hash, bytes + at, len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES);
    return hash;
}

static int hash_file(int fd, uint64_t offset, uint64_t len, uint64_t *ret_hash)
{
    _cleanup_free_ char *chunk = malloc(CHUNK_BYTES);
    uint64_t hash = len;
    if (chunk == NULL)
        return -ENOMEM;
    for (uint64_t at = 0; at < len; at += CHUNK_BYTES) {
        size_t part = len - at < CHUNK_BYTES ? (size_t)(len - at) : (size_t)CHUNK_BYTES;
        ssize_t got = file_pread_all(fd, chunk, part, (off_t)(offset + at));
        if (got < 0)
            return (int)got;
        if ((size_t)got < part)
            return -EBADMSG;
        hash = hash_bytes(hash, chunk, part);
    }
    *ret_hash = hash;
    return 0;
}

/* ---------------------------------------------------------------- writing a file */

static void append_row(struct strbuf *table, const struct content_entry *entry)
{
    const struct row row = {
        .kind = entry->kind,
        .name_len = (uint32_t)strlen(entry->name),
        .id_len = (uint32_t)strlen(entry->id),
        .offset = entry->offset,
        .len = entry->len,
        .hash = entry->hash,
        .date_ms = entry->date_ms,
    };
    strbuf_append(table, &row, sizeof(row));
    strbuf_append(table, entry->name, row.name_len + 1);
    strbuf_append(table, entry->id, row.id_len + 1);
}

static int write_table(int fd, const struct strbuf *table, uint32_t entries, uint64_t offset)
{
    struct trailer trailer = {
        .form = FORM,
        .entries = entries,
        .table_offset = offset,
        .table_len = table->len,
        .table_hash = hash_memory(strbuf_str(table), table->len),
    };
    if (table->error != 0)
        return table->error;
    memcpy(trailer.magic, magic, sizeof(magic));
    trailer.hash = hash_bytes(0, &trailer, offsetof(struct trailer, hash));
    int error = file_pwrite_all(fd, strbuf_str(table), table->len, (off_t)offset);
    return error != 0 ? error : file_pwrite_all(fd, &trailer, sizeof(trailer), (off_t)(offset + table->len));
}

int content_cache_write(const struct content_temporary *file, const struct content_folder *folder)
{
    _cleanup_strbuf_ struct strbuf table = STRBUF_INIT(TABLE_MAX_BYTES);
    uint64_t offset = 0;
    for (size_t i = 0; i < folder->len; i++) {
        struct content_entry entry = folder->entries[i];
        entry.offset = offset;
        entry.hash = hash_memory(entry.bytes, entry.len);
        append_row(&table, &entry);
        int error = file_pwrite_all(file->fd, entry.bytes, entry.len, (off_t)offset);
        if (error != 0)
            return error;
        offset += entry.len;
    }
    return write_table(file->fd, &table, (uint32_t)folder->len, offset);
}

int content_cache_seal(const struct content_temporary *file, uint64_t len)
{
    _cleanup_strbuf_ struct strbuf table = STRBUF_INIT(TABLE_MAX_BYTES);
    char nothing[] = "";
    struct content_entry entry = {.kind = CONTENT_BYTES, .name = nothing, .id = nothing, .len = len};
    int error = hash_file(file->fd, 0, len, &entry.hash);
    append_row(&table, &entry);
    return error != 0 ? error : write_table(file->fd, &table, 1, len);
}

/* ---------------------------------------------------------------- reading a file */

static int read_trailer(int fd, struct trailer *ret)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (status.st_size < (off_t)sizeof(*ret))
        return -EBADMSG;
    uint64_t end = (uint64_t)status.st_size - sizeof(*ret);
    ssize_t got = file_pread_all(fd, ret, sizeof(*ret), (off_t)end);
    if (got < 0)
        return (int)got;
    bool is_right = (size_t)got == sizeof(*ret) && memcmp(ret->magic, magic, sizeof(magic)) == 0 &&
                    ret->hash == hash_bytes(0, ret, offsetof(struct trailer, hash)) && ret->form == FORM &&
                    ret->table_len <= TABLE_MAX_BYTES && ret->table_len <= end &&
                    ret->table_offset == end - ret->table_len;
    return is_right ? 0 : -EBADMSG;
}

/* Takes a row from the table. */
static int read_row(const char **at, const char *end, uint64_t data_len, struct content_folder *folder)
{
    struct row row;
    if ((size_t)(end - *at) < sizeof(row))
        return -EBADMSG;
    memcpy(&row, *at, sizeof(row));
    const char *name = *at + sizeof(row);
    uint64_t texts_len = (uint64_t)row.name_len + 1 + row.id_len + 1;
    if (texts_len > (size_t)(end - name))
        return -EBADMSG;
    const char *id = name + row.name_len + 1;
    if (name[row.name_len] != '\0' || id[row.id_len] != '\0' || row.len > data_len ||
        row.offset > data_len - row.len)
        return -EBADMSG;
    struct content_entry *entry = content_folder_add(folder, (enum content_kind)row.kind, name, id);
    if (entry == NULL)
        return -ENOMEM;
    entry->offset = row.offset;
    entry->len = row.len;
    entry->hash = row.hash;
    entry->date_ms = row.date_ms;
    *at = name + texts_len;
    return 0;
}

static int check_bytes(int fd, const struct content_folder *folder)
{
    for (size_t i = 0; i < folder->len; i++) {
        const struct content_entry *entry = &folder->entries[i];
        uint64_t hash = 0;
        int error = hash_file(fd, entry->offset, entry->len, &hash);
        if (error != 0)
            return error;
        if (hash != entry->hash)
            return -EBADMSG;
    }
    return 0;
}

static int read_table(int fd, const struct trailer *trailer, struct content_folder *folder)
{
    _cleanup_free_ char *table = malloc(trailer->table_len + 1);
    if (table == NULL)
        return -ENOMEM;
    ssize_t got = file_pread_all(fd, table, trailer->table_len, (off_t)trailer->table_offset);
    if (got < 0)
        return (int)got;
    if ((size_t)got < trailer->table_len || hash_memory(table, trailer->table_len) != trailer->table_hash)
        return -EBADMSG;
    const char *at = table;
    int error = 0;
    for (uint32_t i = 0; i < trailer->entries && error == 0; i++)
        error = read_row(&at, table + trailer->table_len, trailer->table_offset, folder);
    return error;
}

int content_cache_read(int fd, enum content_check check, struct content_folder *ret_folder)
{
    struct trailer trailer = {.table_len = 0};
    struct content_folder folder = {.len = 0};
    int error = read_trailer(fd, &trailer);
    if (error == 0)
        error = read_table(fd, &trailer, &folder);
    if (error == 0 && check == CONTENT_CHECK_ALL)
        error = check_bytes(fd, &folder);
    if (error != 0) {
        content_folder_release(&folder);
        return error;
    }
    *ret_folder = folder;
    return 0;
}

/* ---------------------------------------------------------------- the folder */

void content_cache_init(struct content_cache *cache, int dir_fd, uint64_t max_bytes)
{
    *cache = (struct content_cache){.dir_fd = dir_fd, .max_bytes = max_bytes};
    /* Files of a process before this one are told from those being written now. */
    uint32_t mark = (uint32_t)getpid();
    random_bytes(&mark, sizeof(mark));
    snprintf(cache->prefix, sizeof(cache->prefix), "%s%08x-", temporary_prefix, mark);
    pthread_mutex_init(&cache->lock, NULL);
}

void content_cache_release(struct content_cache *cache)
{
    cleanup_close(&cache->dir_fd);
    pthread_mutex_destroy(&cache->lock);
}

/* Each id is hashed by itself first: no two pairs of ids make one name. */
void content_cache_name(enum content_part part, const char *email_id, const char *attachment_id,
                        char ret_name[CONTENT_NAME_SIZE])
{
    static const char kinds[] = {
        [CONTENT_PART_FOLDER] = 'c', [CONTENT_PART_RAW] = 'r', [CONTENT_PART_ATTACHMENT] = 'a'};
    char digest[65];
    hash_sha256(email_id, strlen(email_id), digest);
    if (part == CONTENT_PART_ATTACHMENT) {
        char digests[128];
        char other[65];
        hash_sha256(attachment_id, strlen(attachment_id), other);
        memcpy(digests, digest, 64);
        memcpy(digests + 64, other, 64);
        hash_sha256(digests, sizeof(digests), digest);
    }
    snprintf(ret_name, CONTENT_NAME_SIZE, "%s.%c", digest, kinds[part]);
}

struct kept_file {
    char name[CONTENT_NAME_SIZE];
    uint64_t bytes;
    struct timespec used;
};

struct kept_files {
    struct kept_file *files;
    size_t len;
    size_t capacity;
    uint64_t bytes;
};

/* `name` has NAME_CHARS characters. */
static int add_file(struct kept_files *files, const char *name, const struct stat *status)
{
    if (files->len == files->capacity) {
        size_t capacity = files->capacity * 2 + 256;
        struct kept_file *grown = realloc(files->files, capacity * sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        files->files = grown;
        files->capacity = capacity;
    }
    struct kept_file *file = &files->files[files->len++];
    memcpy(file->name, name, NAME_CHARS + 1);
    file->bytes = (uint64_t)status->st_blocks * 512;
    file->used = status->st_mtim;
    files->bytes += file->bytes;
    return 0;
}

static bool is_left_over(const struct content_cache *cache, const char *name)
{
    return strncmp(name, temporary_prefix, strlen(temporary_prefix)) == 0 &&
           strncmp(name, cache->prefix, strlen(cache->prefix)) != 0;
}

static int list_files(struct content_cache *cache, struct kept_files *files)
{
    _cleanup_closedir_ DIR *dir = file_opendirat(cache->dir_fd, ".");
    if (dir == NULL)
        return -EIO;
    int error = 0;
    const struct dirent *item;
    while (error == 0 && (item = readdir(dir)) != NULL) {
        struct stat status;
        if (is_left_over(cache, item->d_name)) {
            unlinkat(cache->dir_fd, item->d_name, 0);
        } else if (strlen(item->d_name) == NAME_CHARS &&
                   fstatat(cache->dir_fd, item->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(status.st_mode)) {
            error = add_file(files, item->d_name, &status);
        }
    }
    return error;
}

static int compare_use(const void *one, const void *other)
{
    const struct timespec *a = &((const struct kept_file *)one)->used;
    const struct timespec *b = &((const struct kept_file *)other)->used;
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* Removes files down to KEPT_PERCENT where there are too many. Returns whether that was enough: files that
 * were added meanwhile may be counted twice, until the folder is read again. */
static bool trim_once(struct content_cache *cache)
{
    struct kept_files files = {.len = 0};
    pthread_mutex_lock(&cache->lock);
    uint64_t before = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    int error = list_files(cache, &files);
    if (error == 0 && files.bytes > cache->max_bytes) {
        uint64_t aim = cache->max_bytes / 100 * KEPT_PERCENT;
        qsort(files.files, files.len, sizeof(*files.files), compare_use);
        for (size_t i = 0; i < files.len && files.bytes > aim; i++) {
            unlinkat(cache->dir_fd, files.files[i].name, 0);
            files.bytes -= files.files[i].bytes;
        }
    }
    free(files.files);
    pthread_mutex_lock(&cache->lock);
    uint64_t came = cache->bytes - before;
    if (error == 0)
        cache->bytes = files.bytes + came;
    bool is_done = error != 0 || came == 0 || cache->bytes <= cache->max_bytes;
    if (is_done)
        cache->is_trimming = false;
    pthread_mutex_unlock(&cache->lock);
    return is_done;
}

static void trim(struct content_cache *cache)
{
    while (!trim_once(cache))
        continue;
}

void content_cache_scan(struct content_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    cache->is_trimming = true;
    pthread_mutex_unlock(&cache->lock);
    trim(cache);
}

static void count(struct content_cache *cache, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    pthread_mutex_lock(&cache->lock);
    cache->bytes += (uint64_t)status.st_blocks * 512;
    bool must_trim = cache->bytes > cache->max_bytes && !cache->is_trimming;
    cache->is_trimming = cache->is_trimming || must_trim;
    pthread_mutex_unlock(&cache->lock);
    if (must_trim)
        trim(cache);
}

/* ---------------------------------------------------------------- names in it */

static void set_used(int fd)
{
    struct stat status;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &status) == 0 &&
        (status.st_mtim.tv_sec + USE_INTERVAL_S < now.tv_sec || status.st_mtim.tv_sec > now.tv_sec))
        futimens(fd, NULL);
}

int content_cache_open(struct content_cache *cache, const char *name)
{
    int fd = openat(cache->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    set_used(fd);
    return fd;
}

bool content_cache_has(struct content_cache *cache, const char *name)
{
    return faccessat(cache->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int content_cache_create(struct content_cache *cache, struct content_temporary *ret)
{
    pthread_mutex_lock(&cache->lock);
    uint64_t number = ++cache->temporaries;
    pthread_mutex_unlock(&cache->lock);
    snprintf(ret->name, sizeof(ret->name), "%s%llu", cache->prefix, (unsigned long long)number);
    ret->fd = openat(cache->dir_fd, ret->name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return ret->fd < 0 ? -errno : 0;
}

int content_cache_keep(struct content_cache *cache, struct content_temporary *file, const char *name)
{
    if (renameat(cache->dir_fd, file->name, cache->dir_fd, name) != 0)
        return -errno;
    file->name[0] = '\0';
    count(cache, file->fd);
    return 0;
}

void content_cache_end(struct content_cache *cache, struct content_temporary *file)
{
    if (file->fd >= 0 && file->name[0] != '\0')
        unlinkat(cache->dir_fd, file->name, 0);
    cleanup_close(&file->fd);
    file->fd = -1;
}

void content_cache_remove(struct content_cache *cache, const char *name)
{
    unlinkat(cache->dir_fd, name, 0);
}
