/* SPDX-License-Identifier: MIT */
/*
 * Content on the disk. Numbers are in the machine's own order: the file is a cache of this machine's.
 */
#include "store/content_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/strbuf.h"

enum {
    FORM = 2, /* to be raised whenever what an entry says or how it is made changes */
    TABLE_MAX_BYTES = 8 * 1024 * 1024,
    CHUNK_BYTES = 64 * 1024,
};

static const char magic[8] = "ifxcont";

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

/* ---------------------------------------------------------------- hashes */

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

/* ---------------------------------------------------------------- writing */

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

int content_file_write(int fd, const struct content_folder *folder)
{
    _cleanup_strbuf_ struct strbuf table = STRBUF_INIT(TABLE_MAX_BYTES);
    uint64_t offset = 0;
    for (size_t i = 0; i < folder->len; i++) {
        struct content_entry entry = folder->entries[i];
        entry.offset = offset;
        entry.hash = hash_memory(entry.bytes, entry.len);
        append_row(&table, &entry);
        int error = file_pwrite_all(fd, entry.bytes, entry.len, (off_t)offset);
        if (error != 0)
            return error;
        offset += entry.len;
    }
    return write_table(fd, &table, (uint32_t)folder->len, offset);
}

int content_file_seal(int fd, uint64_t len)
{
    _cleanup_strbuf_ struct strbuf table = STRBUF_INIT(TABLE_MAX_BYTES);
    char nothing[] = "";
    struct content_entry entry = {.kind = CONTENT_BYTES, .name = nothing, .id = nothing, .len = len};
    int error = hash_file(fd, 0, len, &entry.hash);
    append_row(&table, &entry);
    return error != 0 ? error : write_table(fd, &table, 1, len);
}

/* ---------------------------------------------------------------- reading */

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

int content_file_look(int fd, uint64_t *ret_len)
{
    struct trailer trailer = {.form = 0};
    int error = read_trailer(fd, &trailer);
    if (error == 0)
        *ret_len = trailer.table_offset;
    return error;
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
    return error != 0 ? error : check_bytes(fd, folder);
}

int content_file_read(int fd, struct content_folder *ret_folder)
{
    struct trailer trailer = {.table_len = 0};
    struct content_folder folder = {.len = 0};
    int error = read_trailer(fd, &trailer);
    if (error == 0)
        error = read_table(fd, &trailer, &folder);
    if (error != 0) {
        content_folder_release(&folder);
        return error;
    }
    *ret_folder = folder;
    return 0;
}
