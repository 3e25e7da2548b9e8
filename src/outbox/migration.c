/* SPDX-License-Identifier: MIT */
/*
 * Reads the envelopes of version 0.2, NUMBER.json, and writes rows. Contents stay where they are; a file that
 * messages had bound gets a hard link for each of these messages.
 */
#include "outbox/migration.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "mail/draft.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "mail/reason.h"
#include "mail/receipt.h"
#include "outbox/change.h"

#define VERSION_FILE "version"
#define VERSION_TEXT "3\n"

enum {
    ENVELOPE_MAX_BYTES = 64 * 1000 * 1000
};

/* An item of version 0.2. */
struct old_item {
    struct row row;
    json_t *envelope; /* NULL if the item has only a content */
    bool is_dropped;  /* not saved, because it has no content, was replaced, or only records a key */
    bool is_hidden;   /* not saved as an item, though messages may bind its content */
    off_t size;
};

struct migration {
    struct spool *spool;
    GArray *items; /* of struct old_item */
    bool is_old;   /* the spool is of version 0.2 */
};

bool migration_is_leftover(const char *name)
{
    static const char *const names[] = {"numbers", "sent-today"};
    static const char *const endings[] = {".json", ".new"};
    size_t len = strlen(name);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++)
        if (len > strlen(endings[i]) && strcmp(name + len - strlen(endings[i]), endings[i]) == 0)
            return true;
    return false;
}

/* ---------------------------------------------------------------- reading */

static const char *get_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int64_t get_integer(const json_t *object, const char *key)
{
    int64_t value = json_integer_value(json_object_get(object, key));
    return value < 0 ? 0 : value;
}

static void take_short_text(const json_t *object, const char *key, char *ret, size_t size)
{
    const char *text = get_text(object, key);
    snprintf(ret, size, "%s", text == NULL ? "" : text);
}

static int take_texts(const json_t *envelope, struct row *row)
{
    const json_t *words = json_object_get(envelope, "not_carried");
    int error = row_set_string(&row->name, get_text(envelope, "name"));
    error = error != 0 ? error : row_set_string(&row->reply_template, get_text(envelope, "answers"));
    error = error != 0 ? error : row_set_string(&row->from, get_text(envelope, "from"));
    error = error != 0 ? error : row_set_string(&row->replies_to, get_text(envelope, "replies_to"));
    error = error != 0 ? error : row_set_string(&row->id, get_text(envelope, "id"));
    error = error != 0 ? error : row_set_string(&row->error, get_text(envelope, "error"));
    for (size_t i = 0; i < json_array_size(words) && error == 0; i++) {
        const char *text = json_string_value(json_array_get(words, i));
        error = text == NULL ? 0 : row_add_not_carried(row, text);
    }
    return error;
}

/* Two state names of version 0.2, `drafted` and `held`, no longer exist. */
static int take_state(const char *name, struct old_item *item)
{
    struct row *row = &item->row;
    item->is_dropped = strcmp(name, "drafted") == 0;
    if (strcmp(name, "held") != 0)
        return item->is_dropped ? 0 : item_state_from_name(name, &row->state);
    bool is_kept = item->size == 0 || item_is_never_sent(row->kind, row->name);
    row->state = is_kept ? ITEM_WAITING : ITEM_INTERRUPTED;
    item->is_dropped = item->is_hidden;
    return is_kept || row->error != NULL
               ? 0
               : row_set_string(&row->error, "not sent: it was to replace a message that was out already");
}

/* Returns 0; -EBADMSG if the envelope is incomplete or foreign; -ENOMEM. */
static int take_envelope(struct old_item *item, uint64_t number)
{
    const json_t *envelope = item->envelope;
    struct row *row = &item->row;
    const char *kind = get_text(envelope, "kind");
    const char *state = get_text(envelope, "state");
    if (kind == NULL || state == NULL || get_text(envelope, "name") == NULL ||
        get_integer(envelope, "number") != (int64_t)number)
        return -EBADMSG;
    row->kind = strcmp(kind, "attachment") == 0 ? ITEM_ATTACHMENT : ITEM_MESSAGE;
    row->position = (uint64_t)get_integer(envelope, "order");
    row->size = get_integer(envelope, "size");
    row->may_have_been_sent = json_is_true(json_object_get(envelope, "may_have_been_sent"));
    row->was_unknown = json_is_true(json_object_get(envelope, "was_unknown"));
    row->was_reuploaded = json_is_true(json_object_get(envelope, "was_reuploaded"));
    row->quota_day = get_integer(envelope, "quota_day");
    row->attempts = (unsigned int)get_integer(envelope, "attempts");
    row->accepted_ms = get_integer(envelope, "accepted_ms");
    row->finished_ms = get_integer(envelope, "finished_ms");
    row->http_status = (int)get_integer(envelope, "http_status");
    take_short_text(envelope, "digest", row->digest, sizeof(row->digest));
    take_short_text(envelope, "idempotency_key", row->key, sizeof(row->key));
    take_short_text(envelope, "lane", row->sequence, sizeof(row->sequence));
    item->is_hidden = json_is_true(json_object_get(envelope, "is_hidden"));
    int error = take_texts(envelope, row);
    return error != 0 ? error : take_state(state, item);
}

/* Reads the envelope of this number; the caller unrefs *ret_envelope. Returns 0, -EBADMSG, or the disk's
 * error. */
static int read_envelope(const struct migration *migration, uint64_t number, json_t **ret_envelope)
{
    char name[32];
    _cleanup_free_ char *text = NULL;
    size_t len;
    snprintf(name, sizeof(name), "%" PRIu64 ".json", number);
    int error = file_read_at(spool_dir_fd(migration->spool), name, ENVELOPE_MAX_BYTES, &text, &len);
    if (error == 0)
        *ret_envelope = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    return error == 0 && *ret_envelope == NULL ? -EBADMSG : error;
}

static int read_item(struct migration *migration, uint64_t number, struct old_item *ret)
{
    struct stat status = {0};
    struct old_item item = {.row = {.number = number, .position = number}};
    bool has_content = spool_stat_content(migration->spool, number, &status) == 0;
    item.size = status.st_size;
    int error = read_envelope(migration, number, &item.envelope);
    if (error == 0)
        error = json_is_object(item.envelope) ? take_envelope(&item, number) : -EBADMSG;
    json_object_del(item.envelope, "request"); /* may be large, and is read again when it is needed */
    item.is_dropped = item.is_dropped || !has_content;
    if (error == 0) {
        *ret = item;
        return 0;
    }
    json_decref(item.envelope);
    row_release(&item.row);
    return error;
}

/* ---------------------------------------------------------------- finding the items */

static struct old_item *item_at(const struct migration *migration, guint index)
{
    return &g_array_index(migration->items, struct old_item, index);
}

static void set_aside(struct migration *migration, uint64_t number, const char *why)
{
    char name[32];
    snprintf(name, sizeof(name), "%" PRIu64 ".data", number);
    spool_quarantine(migration->spool, name, why);
    snprintf(name, sizeof(name), "%" PRIu64 ".json", number);
    spool_quarantine(migration->spool, name, why);
}

static int find_old(void *context, const char *name, uint64_t number)
{
    struct migration *migration = context;
    struct old_item item;
    struct stat status;
    char *end;
    uint64_t found = strtoull(name, &end, 10);
    bool is_envelope = found > 0 && found >> 62 == 0 && strcmp(end, ".json") == 0;
    if (number == 0 && !is_envelope)
        return 0;
    int error = is_envelope ? read_item(migration, found, &item) : -ENOENT;
    if (error == 0) {
        g_array_append_val(migration->items, item);
        return 0;
    }
    if (error == -EBADMSG)
        set_aside(migration, found, "its envelope cannot be understood");
    if (number == 0 || spool_stat_content(migration->spool, number, &status) != 0 || status.st_size == 0)
        return error == -ENOMEM ? error : 0;
    char envelope[32];
    snprintf(envelope, sizeof(envelope), "%" PRIu64 ".json", number);
    nlink_t links = status.st_nlink; /* 2 if an interrupted migration linked it for a message */
    if (fstatat(spool_dir_fd(migration->spool), envelope, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (links > 1)
        spool_discard_content(migration->spool, number);
    else
        set_aside(migration, number, "it has no envelope");
    return 0;
}

/* Makes an item of a content whose row was lost with the database: its name, and whether it was sent, are
 * unknown. */
static int find_content(void *context, const char *name, uint64_t number)
{
    struct migration *migration = context;
    struct stat status;
    char shown[64];
    if (number == 0 || spool_stat_content(migration->spool, number, &status) != 0 || status.st_size == 0)
        return 0;
    struct old_item item = {
        .row = {.number = number, .position = number, .kind = ITEM_MESSAGE, .state = ITEM_UNKNOWN}};
    snprintf(shown, sizeof(shown), "recovered-%" PRIu64, number);
    int error = row_set_string(&item.row.name, shown);
    error = error != 0
                ? error
                : row_set_string(&item.row.error, "the spool's database was lost: this may be a message, "
                                                  "sent or not, or an attachment; look before you send it");
    g_array_append_val(migration->items, item);
    return error;
}

/* ---------------------------------------------------------------- connecting the items */

static struct old_item *find_number(struct migration *migration, uint64_t number)
{
    for (guint i = 0; i < migration->items->len; i++)
        if (item_at(migration, i)->row.number == number)
            return item_at(migration, i);
    return NULL;
}

/* Drops each message that an edited text replaced, if the program ended before it removed the message. */
static void drop_superseded(struct migration *migration)
{
    for (guint i = 0; i < migration->items->len; i++) {
        int64_t number = get_integer(item_at(migration, i)->envelope, "supersedes");
        struct old_item *superseded = number == 0 ? NULL : find_number(migration, (uint64_t)number);
        if (superseded != NULL && superseded != item_at(migration, i) &&
            item_states[superseded->row.state].is_unsettled)
            superseded->is_dropped = true;
    }
}

/* Hides an item if a later one has its name: the program ended before it hid or removed the replaced item. */
static void drop_replaced(struct migration *migration, struct old_item *item)
{
    enum outbox_folder folder = item_state_folder(item->row.state, item->row.kind);
    if (item->is_dropped || item->is_hidden ||
        (folder != OUTBOX_FOLDER_ATTACHMENTS && item->row.state != ITEM_WAITING))
        return;
    for (guint i = 0; i < migration->items->len; i++) {
        const struct old_item *other = item_at(migration, i);
        bool is_later = other->row.state != ITEM_WAITING || item->row.state != ITEM_WAITING
                            ? other->row.state != ITEM_WAITING && item->row.state == ITEM_WAITING
                            : other->row.position > item->row.position;
        if (folder == OUTBOX_FOLDER_ATTACHMENTS)
            is_later = other->row.position > item->row.position;
        if (other != item && !other->is_dropped && !other->is_hidden && is_later &&
            item_state_folder(other->row.state, other->row.kind) == folder &&
            strcmp(other->row.name, item->row.name) == 0)
            item->is_hidden = true;
    }
}

static int read_digest(struct migration *migration, struct old_item *attachment)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    if (attachment->row.digest[0] != '\0')
        return 0;
    int error =
        spool_read_content(migration->spool, attachment->row.number, ATTACHMENTS_MAX_BYTES, &bytes, &len);
    if (error == 0)
        hash_sha256(bytes, len, attachment->row.digest);
    return error;
}

/* Returns an attachment with this content, or NULL. Prefers a hidden item, which exists only for messages. */
static struct old_item *find_bound(struct migration *migration, int64_t content)
{
    struct old_item *found = NULL;
    for (guint i = 0; i < migration->items->len; i++) {
        struct old_item *item = item_at(migration, i);
        bool is_there = !item->is_dropped && item->row.kind == ITEM_ATTACHMENT &&
                        (item->row.state == ITEM_UPLOADING || item->row.state == ITEM_UPLOADED);
        if (is_there && get_integer(item->envelope, "content") == content &&
            (found == NULL || item->is_hidden))
            found = item;
    }
    return found;
}

static int bind(struct migration *migration, struct old_item *message, const json_t *bound)
{
    struct old_item *file = find_bound(migration, get_integer(bound, "content"));
    if (file == NULL || read_digest(migration, file) != 0)
        return -ENODATA;
    struct piece *piece = row_add_piece(&message->row, get_text(bound, "name"));
    if (piece == NULL)
        return -ENOMEM;
    piece->content = spool_take_number(migration->spool);
    piece->size = file->row.size;
    memcpy(piece->digest, file->row.digest, sizeof(piece->digest));
    int error = row_set_string(&piece->pool_id, file->row.state == ITEM_UPLOADED ? file->row.id : NULL);
    return error != 0 ? error : spool_link_content(migration->spool, file->row.number, piece->content);
}

static int fail_message(struct row *row)
{
    row->state = row->may_have_been_sent || row->was_unknown ? ITEM_UNKNOWN : ITEM_FAILED;
    return row_set_string(&row->error, "an attachment that it names was not uploaded");
}

static int collect_pieces(struct migration *migration, struct old_item *message)
{
    const json_t *files = json_object_get(message->envelope, "attachments");
    const json_t *ids = json_object_get(message->envelope, "part_ids");
    int error = 0;
    for (size_t i = 0; i < json_array_size(files) && error == 0; i++)
        error = bind(migration, message, json_array_get(files, i));
    if (error == -ENODATA)
        return fail_message(&message->row);
    for (size_t i = 0; i < json_array_size(ids) && error == 0; i++) {
        struct piece *piece = row_add_piece(&message->row, NULL);
        error = piece == NULL ? -ENOMEM
                              : row_set_string(&piece->pool_id, json_string_value(json_array_get(ids, i)));
    }
    return error;
}

static int measure_receipt(const struct migration *migration, struct old_item *item)
{
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(RECEIPT_MAX_BYTES);
    _cleanup_json_ json_t *envelope = NULL;
    if (!item_states[item->row.state].has_receipt)
        return 0;
    int error = item->envelope == NULL ? 0 : read_envelope(migration, item->row.number, &envelope);
    error = error != 0 ? error : row_format_receipt(&item->row, get_text(envelope, "request"), &receipt);
    item->row.receipt_bytes = receipt.len;
    return error;
}

static int connect_items(struct migration *migration)
{
    int error = 0;
    drop_superseded(migration);
    for (guint i = 0; i < migration->items->len; i++)
        drop_replaced(migration, item_at(migration, i));
    for (guint i = 0; i < migration->items->len && error == 0; i++) {
        struct old_item *item = item_at(migration, i);
        if (item->is_dropped)
            continue;
        if (item->row.kind == ITEM_ATTACHMENT)
            (void)read_digest(migration, item); /* on an error its pool id is not recorded */
        else if (item_states[item->row.state].is_unsettled)
            error = collect_pieces(migration, item);
        error = error != 0 ? error : measure_receipt(migration, item);
    }
    return error;
}

/* ---------------------------------------------------------------- writing */

static int save_item(const struct migration *migration, struct connection *turn, const struct old_item *item)
{
    _cleanup_json_ json_t *envelope = NULL;
    const struct row *row = &item->row;
    struct piece piece = {.name = row->name, .pool_id = row->id};
    memcpy(piece.digest, row->digest, sizeof(piece.digest));
    int error = spool_save_row(turn, row);
    if (error == 0 && item->envelope != NULL)
        error = read_envelope(migration, row->number, &envelope);
    if (error == 0)
        error = spool_save_request(turn, row->number, get_text(envelope, "request"));
    if (error == 0 && row->state == ITEM_UPLOADED && row->id != NULL && row->digest[0] != '\0')
        error = spool_save_pool_id(turn, &piece);
    return error;
}

static int save_count(struct migration *migration, struct connection *turn)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    if (file_read_at(spool_dir_fd(migration->spool), "sent-today", 256, &text, &len) != 0)
        return 0;
    char *end;
    int64_t day = strtoll(text, &end, 10);
    int64_t count = strtoll(end, NULL, 10);
    return query_execute(turn, "UPDATE spool SET day = ?, sent = ?", "ii", day, count);
}

static int save_all(struct migration *migration)
{
    struct connection *turn;
    int error = spool_sync_names(migration->spool);
    crash_point("migrating");
    error = error != 0 ? error : spool_begin(migration->spool, &turn);
    if (error != 0)
        return error;
    for (guint i = 0; i < migration->items->len && error == 0; i++)
        if (!item_at(migration, i)->is_dropped && !item_at(migration, i)->is_hidden)
            error = save_item(migration, turn, item_at(migration, i));
    if (error == 0 && migration->is_old)
        error = save_count(migration, turn);
    if (error == 0)
        error = spool_set_taken_over(turn);
    error = spool_end(migration->spool, turn, error);
    crash_point("migrated");
    return error;
}

/* ---------------------------------------------------------------- the whole migration */

static uint64_t read_mark(struct migration *migration)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    if (file_read_at(spool_dir_fd(migration->spool), "numbers", 64, &text, &len) != 0)
        return 0;
    return strtoull(text, NULL, 10) & (UINT64_MAX >> 2);
}

static int take_over(struct migration *migration)
{
    int error = spool_scan(migration->spool, migration->is_old ? find_old : find_content, migration);
    for (guint i = 0; i < migration->items->len; i++) {
        spool_skip_number(migration->spool, item_at(migration, i)->row.number);
        spool_skip_number(migration->spool, item_at(migration, i)->row.position);
    }
    spool_skip_number(migration->spool, read_mark(migration));
    if (migration->items->len > 0)
        log_info("%s: %u items are taken over",
                 migration->is_old ? "the spool is of version 0.2" : "the spool's database is gone",
                 migration->items->len);
    error = error != 0 ? error : connect_items(migration);
    return error != 0 ? error : save_all(migration);
}

static bool has_version(struct spool *spool, const char *version)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    return file_read_at(spool_dir_fd(spool), VERSION_FILE, 64, &text, &len) == 0 &&
           strcmp(text, version) == 0;
}

int migration_run(struct spool *spool, char **ret_reason)
{
    struct migration migration = {.spool = spool,
                                  .is_old = has_version(spool, "2\n"),
                                  .items = g_array_new(FALSE, FALSE, sizeof(struct old_item))};
    struct spool_head head;
    int error = spool_read_head(spool, &head);
    if (error == 0 && !head.is_taken_over)
        error = take_over(&migration);
    for (guint i = 0; i < migration.items->len; i++) {
        json_decref(item_at(&migration, i)->envelope);
        row_release(&item_at(&migration, i)->row);
    }
    g_array_unref(migration.items);
    if (error == 0 && !has_version(spool, VERSION_TEXT))
        error = file_replace_at(spool_dir_fd(spool), VERSION_FILE, VERSION_TEXT, strlen(VERSION_TEXT), 0600);
    return error == 0
               ? 0
               : reason_give(ret_reason, error, "the spool cannot be taken over: %s", strerror(-error));
}
