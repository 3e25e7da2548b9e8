/* SPDX-License-Identifier: MIT */
#include "outbox/item.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "mail/receipt.h"
#include "outbox/outbox.h"

/* ================================================================ rows */

/* The strings that a row owns. */
static const size_t row_strings[] = {
    offsetof(struct row, name),       offsetof(struct row, reply_template), offsetof(struct row, from),
    offsetof(struct row, replies_to), offsetof(struct row, not_carried),    offsetof(struct row, id),
    offsetof(struct row, error),
};

static char **string_at(const struct row *row, size_t index)
{
    return (char **)((char *)row + row_strings[index]);
}

void row_release(struct row *row)
{
    for (size_t i = 0; i < row->pieces_len; i++) {
        free(row->pieces[i].name);
        free(row->pieces[i].pool_id);
    }
    free(row->pieces);
    for (size_t i = 0; i < ARRAY_LEN(row_strings); i++)
        free(*string_at(row, i));
    *row = (struct row){0};
}

void row_set_string(char **string, const char *value)
{
    char *copy = g_strdup(value);
    free(*string);
    *string = copy;
}

struct piece *row_add_piece(struct row *row, const char *name)
{
    row->pieces = g_renew(struct piece, row->pieces, row->pieces_len + 1);
    struct piece *piece = &row->pieces[row->pieces_len++];
    *piece = (struct piece){.name = g_strdup(name)};
    return piece;
}

void row_add_not_carried(struct row *row, const char *description)
{
    char *list = row->not_carried == NULL ? g_strdup(description)
                                          : g_strdup_printf("%s\n%s", row->not_carried, description);
    free(row->not_carried);
    row->not_carried = list;
}

void row_copy(const struct row *row, struct row *ret_row)
{
    struct row copy = *row;
    for (size_t i = 0; i < ARRAY_LEN(row_strings); i++)
        *string_at(&copy, i) = g_strdup(*string_at(row, i));
    copy.pieces = g_memdup2(row->pieces, row->pieces_len * sizeof(*row->pieces));
    for (size_t i = 0; i < row->pieces_len; i++) {
        copy.pieces[i].name = g_strdup(row->pieces[i].name);
        copy.pieces[i].pool_id = g_strdup(row->pieces[i].pool_id);
    }
    *ret_row = copy;
}

void item_digest(const void *bytes, size_t len, char ret_digest[ITEM_DIGEST_SIZE])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(bytes, len, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(ret_digest + 2 * i, 3, "%02x", digest[i]);
}

void row_clear_outcome(struct row *row)
{
    struct row cleared = {
        .number = row->number,
        .position = row->position,
        .kind = row->kind,
        .state = row->state,
        .name = TAKE_PTR(row->name),
        .reply_template = TAKE_PTR(row->reply_template),
        .replies_to = TAKE_PTR(row->replies_to),
        .was_unknown = row->was_unknown,
    };
    memcpy(cleared.digest, row->digest, sizeof(cleared.digest));
    memcpy(cleared.key, row->key, sizeof(cleared.key));
    row_release(row);
    *row = cleared;
}

static void write_not_carried(struct json_writer *writer, const char *lines)
{
    g_auto(GStrv) parts = g_strsplit(lines, "\n", -1);
    json_key(writer, "not_carried");
    json_begin_array(writer);
    for (char **part = parts; *part != NULL; part++)
        json_write_string(writer, *part);
    json_end_array(writer);
}

/* json_writer accepts any bytes of a sender. */
int row_format_receipt(const struct row *row, const char *request, struct strbuf *out)
{
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "state", item_states[row->state].name);
    json_member_string(&writer, "kind", item_kind_name(row->kind));
    json_member_string(&writer, "id", row->id);
    json_member_string(&writer, "idempotency_key", row->key[0] == '\0' ? NULL : row->key);
    json_member_date(&writer, "accepted_at", row->accepted_ms);
    json_member_date(&writer, "finished_at", row->finished_ms);
    json_member_integer(&writer, "attempts", row->attempts);
    json_key(&writer, "http_status");
    if (row->http_status == 0)
        json_write_null(&writer);
    else
        json_write_integer(&writer, row->http_status);
    json_member_string(&writer, "error", row->error);
    if (row->not_carried != NULL)
        write_not_carried(&writer, row->not_carried);
    json_key(&writer, "request");
    if (request == NULL)
        json_write_null(&writer);
    else
        json_write_verbatim(&writer, request, strlen(request));
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}

/* ================================================================ states */

#define TO(state) (1U << (state))

enum {
    NOWHERE = OUTBOX_FOLDER_NONE,
    OUT = OUTBOX_FOLDER_OUTBOX,
    SENT = OUTBOX_FOLDER_SENT,
    FAILED = OUTBOX_FOLDER_FAILED,
    ATTACHED = OUTBOX_FOLDER_ATTACHMENTS,
};

/* The user can hand in a settled or waiting item again, or remove it. */
#define AGAIN (TO(ITEM_QUEUED) | TO(ITEM_UPLOADING) | TO(ITEM_WAITING) | TO(ITEM_GONE))
#define END (TO(ITEM_FAILED) | TO(ITEM_UNKNOWN))

/* A state follows itself when only other fields of the row change: the name, the pool ids of pieces. */
const struct item_state_facts item_states[ITEM_STATES] = {
    [ITEM_GONE] = {NULL, TO(ITEM_WRITING) | AGAIN, NOWHERE, NOWHERE, false, false},
    [ITEM_WRITING] = {"writing", TO(ITEM_WRITING) | AGAIN | END | TO(ITEM_INTERRUPTED), OUT, ATTACHED, false,
                      false},
    [ITEM_WAITING] = {"waiting", TO(ITEM_WRITING) | AGAIN | END | TO(ITEM_INTERRUPTED), OUT, ATTACHED, false,
                      false},
    [ITEM_QUEUED] = {"queued", TO(ITEM_WRITING) | AGAIN | TO(ITEM_SENDING) | END | TO(ITEM_INTERRUPTED), OUT,
                     NOWHERE, true, false},
    [ITEM_SENDING] = {"sending", TO(ITEM_QUEUED) | TO(ITEM_SENT) | END, OUT, NOWHERE, true, false},
    [ITEM_SENT] = {"sent", AGAIN, SENT, NOWHERE, false, true},
    [ITEM_UPLOADING] = {"uploading", TO(ITEM_WRITING) | AGAIN | TO(ITEM_UPLOADED) | TO(ITEM_FAILED), NOWHERE,
                        ATTACHED, true, true},
    [ITEM_UPLOADED] = {"uploaded", TO(ITEM_WRITING) | AGAIN, NOWHERE, ATTACHED, false, true},
    [ITEM_FAILED] = {"failed", AGAIN, FAILED, FAILED, false, true},
    [ITEM_UNKNOWN] = {"unknown outcome", AGAIN, FAILED, FAILED, false, true},
    [ITEM_INTERRUPTED] = {"interrupted", AGAIN, FAILED, FAILED, false, true},
};

const char *item_kind_name(enum item_kind kind)
{
    return kind == ITEM_MESSAGE ? "message" : "attachment";
}

int item_state_from_name(const char *name, enum item_state *ret_state)
{
    for (unsigned int i = 0; i < ITEM_STATES; i++) {
        if (item_states[i].name != NULL && strcmp(item_states[i].name, name) == 0) {
            *ret_state = (enum item_state)i;
            return 0;
        }
    }
    return -EBADMSG;
}

bool item_state_may_follow(enum item_state from, enum item_state to)
{
    return (item_states[from].followers & TO(to)) != 0;
}

enum outbox_folder item_state_folder(enum item_state state, enum item_kind kind)
{
    return kind == ITEM_MESSAGE ? item_states[state].message_folder : item_states[state].attachment_folder;
}

/* ================================================================ items */

struct item *item_new(uint64_t number, enum item_kind kind)
{
    struct item *item = g_new0(struct item, 1);
    item->number = number;
    item->refs = 1;
    item->row = (struct row){.number = number, .position = number, .kind = kind};
    item->schedule.backoff = (struct backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    return item;
}

struct item *item_ref(struct item *item)
{
    item->refs++;
    return item;
}

void item_unref(struct item *item)
{
    if (item == NULL || --item->refs > 0)
        return;
    row_release(&item->row);
    g_clear_pointer(&item->file.wrote, g_hash_table_unref);
    free(item);
}

enum outbox_folder item_folder(const struct item *item)
{
    return item_state_folder(item->row.state, item->row.kind);
}

void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret)
{
    enum outbox_folder folder = item_folder(item);
    if (folder == OUTBOX_FOLDER_NONE) /* the item was removed while it was open */
        folder = item->row.kind == ITEM_MESSAGE ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_ATTACHMENTS;
    bool is_settled = folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED;
    *ret = (struct outbox_stat){
        .number = item->number,
        .aspect = aspect,
        .folder = folder,
        .size = aspect == OUTBOX_CONTENT ? item->size : (off_t)item->row.receipt_bytes,
        .mtime = item->mtime,
        .mode = aspect == OUTBOX_RECEIPT || is_settled ? 0444 : 0600,
    };
    int64_t settled_ms = item->row.finished_ms;
    if (aspect == OUTBOX_RECEIPT && settled_ms > 0)
        ret->mtime = (struct timespec){.tv_sec = settled_ms / 1000, .tv_nsec = settled_ms % 1000 * 1000000};
}

bool item_may_have_been_sent(const struct item *item)
{
    return item->row.state == ITEM_UNKNOWN || item->row.may_have_been_sent || item->row.was_unknown;
}

bool item_is_busy(const struct item *item)
{
    return item_folder(item) == OUTBOX_FOLDER_OUTBOX &&
           (item->claim == CLAIM_SERVICE || item->row.state == ITEM_SENDING || item->row.may_have_been_sent);
}

void item_update_stat(struct item *item, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    item->size = status.st_size;
    item->mtime = status.st_mtim;
}

/* ================================================================ the table of items */

static void unref_item_value(void *item)
{
    item_unref(item);
}

void item_table_init(struct item_table *table)
{
    table->by_number = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, unref_item_value);
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++) {
        table->folders[i].names = g_hash_table_new(hash_string, g_str_equal);
        table->folders[i].reserved = g_hash_table_new(hash_string, g_str_equal);
        table->folders[i].ids = g_hash_table_new_full(hash_string, g_str_equal, g_free, NULL);
    }
}

void item_table_release(struct item_table *table)
{
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++) {
        g_clear_pointer(&table->folders[i].names, g_hash_table_unref);
        g_clear_pointer(&table->folders[i].reserved, g_hash_table_unref);
        g_clear_pointer(&table->folders[i].ids, g_hash_table_unref);
    }
    g_clear_pointer(&table->by_number, g_hash_table_unref);
}

void item_table_add(struct item_table *table, struct item *item)
{
    g_hash_table_replace(table->by_number, &item->row.number, item);
}

void item_table_remove(struct item_table *table, struct item *item)
{
    g_hash_table_steal(table->by_number, &item->row.number);
}

struct item *item_table_get(const struct item_table *table, uint64_t number)
{
    return g_hash_table_lookup(table->by_number, &number);
}

struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    return g_hash_table_lookup(table->folders[folder].names, name);
}

struct item *item_table_next(GHashTableIter *position)
{
    void *found;
    return g_hash_table_iter_next(position, NULL, &found) ? found : NULL;
}

bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    const struct item_folder *view = &table->folders[folder];
    return g_hash_table_contains(view->names, name) || g_hash_table_contains(view->reserved, name);
}

void item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name)
{
    g_hash_table_add(table->folders[folder].reserved, (char *)name);
}

void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name)
{
    g_hash_table_remove(table->folders[folder].reserved, name);
}

/* The service may give several items the same id. */
static void count_id(GHashTable *ids, const char *id, int change)
{
    if (id == NULL)
        return;
    int count = GPOINTER_TO_INT(g_hash_table_lookup(ids, id)) + change;
    if (count > 0)
        g_hash_table_replace(ids, g_strdup(id), GINT_TO_POINTER(count));
    else
        g_hash_table_remove(ids, id);
}

bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id)
{
    return g_hash_table_contains(table->folders[folder].ids, id);
}

void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    g_hash_table_remove(table->folders[folder].reserved, item->row.name);
    g_hash_table_replace(table->folders[folder].names, item->row.name, item);
    count_id(table->folders[folder].ids, item->row.id, 1);
}

void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    const struct item_folder *view = &table->folders[folder];
    if (g_hash_table_lookup(view->names, item->row.name) != item)
        return;
    g_hash_table_remove(view->names, item->row.name);
    count_id(view->ids, item->row.id, -1);
}

/* ================================================================ names */

enum {
    NUMBER_MAX_BYTES = 12,                                                  /* "-4294967295", and "~" */
    NAME_MAX_BYTES = FILE_NAME_MAX_BYTES - (int)sizeof(RECEIPT_SUFFIX) + 1, /* leaves room for the suffix */
};

bool item_is_receipt_name(const char *name)
{
    return g_str_has_suffix(name, RECEIPT_SUFFIX) && strcmp(name, RECEIPT_SUFFIX) != 0;
}

bool item_is_never_sent(enum item_kind kind, const char *name)
{
    return file_name_is_temporary(name) || (kind == ITEM_MESSAGE && file_name_is_backup(name));
}

int item_check_name(enum outbox_folder folder, const char *name)
{
    bool is_message = folder == OUTBOX_FOLDER_OUTBOX;
    if ((!is_message && folder != OUTBOX_FOLDER_ATTACHMENTS) || item_is_receipt_name(name))
        return -EPERM;
    if (strlen(name) > (is_message ? FILE_NAME_MAX_BYTES : NAME_MAX_BYTES))
        return -ENAMETOOLONG;
    return (is_message ? file_name_is_text(name) : file_name_is_valid(name)) ? 0 : -EILSEQ;
}

/* Returns the name, shortened to leave room for the receipt's suffix, and with a number unless the number is
 * 1. The result is never sent if and only if `name` is never sent, and is not a receipt's name. */
static char *make_variant(enum item_kind kind, const char *name, unsigned int number)
{
    bool may_be_sent = !item_is_never_sent(kind, name);
    size_t max = number == 1 ? NAME_MAX_BYTES : NAME_MAX_BYTES - NUMBER_MAX_BYTES;
    if (!may_be_sent && strlen(name) > max)
        max -= strlen("~");
    _cleanup_free_ char *shortened = file_name_shortened(name, max);
    size_t len = strlen(shortened);
    while (len > 1 &&
           (item_is_receipt_name(shortened) || (may_be_sent && item_is_never_sent(kind, shortened))))
        shortened[--len] = '\0';
    _cleanup_free_ char *numbered = number == 1 ? TAKE_PTR(shortened) : file_name_numbered(shortened, number);
    if (may_be_sent || item_is_never_sent(kind, numbered))
        return TAKE_PTR(numbered);
    return g_strdup_printf("%s~", numbered);
}

/* After "x-2" comes "x-3", not "x-2-2", if "x" is taken. */
char *item_table_choose_name(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    enum item_kind kind = folder == OUTBOX_FOLDER_ATTACHMENTS ? ITEM_ATTACHMENT : ITEM_MESSAGE;
    char *chosen = make_variant(kind, name, 1);
    _cleanup_free_ char *unnumbered = file_name_unnumbered(name);
    if (unnumbered != NULL && item_table_is_taken(table, folder, unnumbered))
        name = unnumbered;
    for (unsigned int number = 2; item_table_is_taken(table, folder, chosen); number++) {
        free(chosen);
        chosen = make_variant(kind, name, number);
    }
    return chosen;
}
