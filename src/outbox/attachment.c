/* SPDX-License-Identifier: MIT */
/*
 * Binds files of attachments/ to messages, and uploads contents of the spool with the type that their name
 * and their first bytes show.
 */
#include "outbox/attachment.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/crash_point.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "mail/reason.h"

/* ================================================================ binding */

/* Waits while a thread has claimed the file for the disk. An item in ITEM_WAITING (empty, or never sent)
 * cannot be attached. */
static struct item *find_file_locked(struct outbox *outbox, const char *name)
{
    struct item *item;
    while ((item = item_table_find(&outbox->table, OUTBOX_FOLDER_ATTACHMENTS, name)) != NULL &&
           item->claim == CLAIM_DISK)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    bool is_file = item != NULL && (item->row.state == ITEM_UPLOADING || item->row.state == ITEM_UPLOADED ||
                                    item->row.state == ITEM_WRITING);
    return is_file ? item : NULL;
}

/* While the content is linked, no thread can claim the file to change it. */
static int bind_file(struct outbox *outbox, struct change *change, const char *name, int64_t *bytes)
{
    LOCK_GUARD(&outbox->lock);
    struct item *file = find_file_locked(outbox, name);
    if (file == NULL)
        return -ENODATA;
    if (file->row.state == ITEM_WRITING) {
        change->awaits = file->number;
        return 0;
    }
    struct piece *piece = row_add_piece(&change->next, file->row.name);
    if (piece == NULL)
        return -ENOMEM;
    piece->size = file->row.size;
    memcpy(piece->digest, file->row.digest, sizeof(piece->digest));
    piece->content = spool_take_number(outbox->spool);
    *bytes += piece->size;
    item_ref(file)->linking++;
    pthread_mutex_unlock(&outbox->lock);
    int error = spool_link_content(outbox->spool, file->number, piece->content);
    pthread_mutex_lock(&outbox->lock);
    file->linking--;
    pthread_cond_broadcast(&outbox->changed);
    item_unref(file);
    return error;
}

int attachment_bind(struct outbox *outbox, struct change *change, const struct draft *draft,
                    int64_t *ret_bytes, char **ret_reason)
{
    int error = 0;
    for (size_t i = 0; i < draft->attachment_names_len && error == 0; i++) {
        error = bind_file(outbox, change, draft->attachment_names[i], ret_bytes);
        if (error == -ENODATA)
            return reason_give(ret_reason, error, "there is no file attachments/%.255s, or it is empty",
                               draft->attachment_names[i]);
    }
    crash_point("linked");
    return error == 0 && change->next.pieces_len > 0 ? spool_sync_names(outbox->spool) : error;
}

/* ================================================================ content types */

#define OPEN_XML "application/vnd.openxmlformats-officedocument."
#define OPEN_DOCUMENT "application/vnd.oasis.opendocument."

enum {
    CONTENT_TYPE_SIZE = 128
};

static const struct {
    const char *extension;
    const char *type;
} by_extension[] = {
    {"csv", "text/csv"},
    {"css", "text/css"},
    {"docx", OPEN_XML "wordprocessingml.document"},
    {"eml", "message/rfc822"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ics", "text/calendar"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"md", "text/markdown"},
    {"odp", OPEN_DOCUMENT "presentation"},
    {"ods", OPEN_DOCUMENT "spreadsheet"},
    {"odt", OPEN_DOCUMENT "text"},
    {"pptx", OPEN_XML "presentationml.presentation"},
    {"svg", "image/svg+xml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"vcf", "text/vcard"},
    {"xlsx", OPEN_XML "spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
};

/* The type becomes a header field, so only "token/token" is accepted. */
static bool is_content_type(const char *type)
{
    const char *slash = strchr(type, '/');
    if (slash == NULL || slash == type || slash[1] == '\0' || strlen(type) >= CONTENT_TYPE_SIZE)
        return false;
    for (const char *c = type; *c != '\0'; c++)
        if (c != slash && !isalnum((unsigned char)*c) && strchr("!#$&^_.+-", *c) == NULL)
            return false;
    return true;
}

/* Finds the "type/subtype" of a content, or "application/octet-stream". `bytes`: its beginning. */
static void find_content_type(const char *name, const void *bytes, size_t len,
                              char ret_type[CONTENT_TYPE_SIZE])
{
    magic_t magic = magic_open(MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS);
    bool is_loaded = magic != NULL && magic_load(magic, NULL) == 0;
    const char *found = is_loaded ? magic_buffer(magic, bytes, len) : NULL;
    if (!is_loaded)
        log_warning("libmagic has no database; content types come from names alone");
    if (found == NULL || !is_content_type(found))
        found = "application/octet-stream";
    const char *dot = strrchr(name, '.');
    /* Several formats share each of these types, so the name decides. */
    bool is_vague = strncmp(found, "text/", 5) == 0 || strcmp(found, "application/octet-stream") == 0 ||
                    strcmp(found, "application/zip") == 0 || strcmp(found, "application/json") == 0;
    for (size_t i = 0; is_vague && dot != NULL && i < ARRAY_LEN(by_extension); i++)
        if (strcasecmp(dot + 1, by_extension[i].extension) == 0)
            found = by_extension[i].type;
    snprintf(ret_type, CONTENT_TYPE_SIZE, "%s", found);
    if (magic != NULL)
        magic_close(magic);
}

/* ================================================================ uploading */

enum {
    MAGIC_BYTES = 64 * 1024 /* length of the file's beginning that libmagic examines */
};

/* No other thread changes the content: its item is claimed, or the content belongs to a message. */
int content_upload(struct outbox *outbox, uint64_t content, const char *name, int64_t size,
                   struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct mail_service *service = outbox->config.service;
    char content_type[CONTENT_TYPE_SIZE];
    struct stat status;
    _cleanup_close_ int fd = -1;
    *ret = (struct service_result){.retry_after_ms = -1};
    int error = spool_open_content(outbox->spool, content, O_RDONLY, &fd);
    if (error == 0 && fstat(fd, &status) != 0)
        error = -errno;
    if (error == 0 && size != 0 && status.st_size != size)
        error = -EBADMSG;
    if (error != 0)
        return error;
    _cleanup_free_ char *beginning = malloc(MAGIC_BYTES);
    ssize_t magic_len = beginning == NULL ? -ENOMEM : file_pread_all(fd, beginning, MAGIC_BYTES, 0);
    if (magic_len < 0)
        return (int)magic_len;
    find_content_type(name, beginning, (size_t)magic_len, content_type);
    free(TAKE_PTR(beginning));
    const struct upload_request request = {
        .name = name, .content_type = content_type, .fd = fd, .len = (size_t)status.st_size};
    service->ops->upload(service, &request, cancel, ret_id, ret);
    return 0;
}
