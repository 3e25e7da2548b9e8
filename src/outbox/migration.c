/* SPDX-License-Identifier: MIT */
/*
 * Reads the envelopes of version 0.2, NUMBER.json, into a table `old`, and makes rows of them by SQL.
 * Contents stay where they are; a file that messages had bound gets a hard link for each of these messages.
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
#include "base/log.h"
#include "mail/draft.h"
#include "mail/json_writer.h"
#include "mail/reason.h"
#include "outbox/spool.h"

#define VERSION_FILE "version"
#define VERSION_TEXT "3\n"

enum {
    ENVELOPE_MAX_BYTES = 64 * 1000 * 1000
};

struct migration {
    struct spool *spool;
    struct connection *turn;
};

bool migration_is_leftover(const char *name)
{
    return strcmp(name, "numbers") == 0 || strcmp(name, "sent-today") == 0 ||
           g_str_has_suffix(name, ".json") || g_str_has_suffix(name, ".new");
}

/* ---------------------------------------------------------------- statements */

/* No item is made of a hidden row, though messages may have bound its content. */
static const char create_table[] =
    "CREATE TABLE old(number INTEGER PRIMARY KEY, position INTEGER, kind TEXT, state TEXT, name TEXT,"
    " digest TEXT, content INTEGER, is_hidden INTEGER, data TEXT); CREATE INDEX old_name ON old(name);";

#define INSERT_OLD "INSERT INTO old VALUES(?,?,?,?,?,?,?,?,?)"

/* Version 0.2 may have ended before it removed a message that an edited text had replaced, or before it hid
 * an item whose name a later one had taken. */
static const char drop_replaced[] =
    "DELETE FROM old WHERE state IN ('queued', 'sending', 'uploading')"
    " AND number IN (SELECT json_extract(data, '$.supersedes') FROM old);"
    "UPDATE old SET is_hidden = 1 WHERE NOT is_hidden AND (kind = 'attachment' OR state = 'waiting')"
    " AND state IN ('writing', 'waiting', 'uploading', 'uploaded')"
    " AND EXISTS (SELECT 1 FROM old AS later WHERE later.kind = old.kind AND later.name = old.name"
    " AND later.position > old.position AND NOT later.is_hidden"
    " AND later.state IN ('writing', 'waiting', 'queued', 'sending', 'uploading', 'uploaded'));";

static const char make_items[] =
    "INSERT INTO item SELECT number, position, kind, state, name, json_extract(data, '$.size'), digest,"
    " json_extract(data, '$.idempotency_key'), json_extract(data, '$.answers'),"
    " json_extract(data, '$.from'), json_extract(data, '$.replies_to'),"
    " (SELECT group_concat(value, char(10)) FROM json_each(data, '$.not_carried')),"
    " json_extract(data, '$.lane'), json_extract(data, '$.may_have_been_sent'),"
    " json_extract(data, '$.was_unknown'), json_extract(data, '$.was_reuploaded'),"
    " json_extract(data, '$.quota_day'), json_extract(data, '$.attempts'),"
    " json_extract(data, '$.accepted_ms'), json_extract(data, '$.finished_ms'),"
    " json_extract(data, '$.http_status'), json_extract(data, '$.id'),"
    " coalesce(json_extract(data, '$.error'), CASE WHEN json_extract(data, '$.state') = 'held'"
    " AND state = 'interrupted' THEN 'not sent: it was to replace a message that was out already' END),"
    " 0, 0 FROM old WHERE NOT is_hidden;"
    "INSERT INTO request SELECT number, json_extract(data, '$.request') FROM old"
    " WHERE NOT is_hidden AND json_extract(data, '$.request') IS NOT NULL;"
    "INSERT OR REPLACE INTO pool(digest, name, id) SELECT digest, name, id FROM item"
    " WHERE kind = 'attachment' AND state = 'uploaded' AND id IS NOT NULL AND digest IS NOT NULL;";

/* Finds the file of each piece: of two items with one content, the hidden one, which exists only for
 * messages. A message whose file is gone fails. */
static const char find_pieces[] =
    "CREATE TABLE bound AS SELECT message.number AS message, entry.key AS place,"
    " json_extract(entry.value, '$.name') AS name, file.number AS file, max(file.is_hidden)"
    " FROM item JOIN old AS message ON message.number = item.number,"
    " json_each(message.data, '$.attachments') AS entry"
    " LEFT JOIN old AS file ON file.content = json_extract(entry.value, '$.content')"
    " AND file.kind = 'attachment' AND file.state IN ('uploading', 'uploaded') AND file.digest IS NOT NULL"
    " WHERE item.kind = 'message' AND item.state IN ('queued', 'sending') GROUP BY message.number, entry.key;"
    "UPDATE item SET error = 'an attachment that it names was not uploaded',"
    " state = CASE WHEN may_have_been_sent OR was_unknown THEN 'unknown outcome' ELSE 'failed' END"
    " WHERE number IN (SELECT message FROM bound WHERE file IS NULL);"
    "DELETE FROM bound WHERE message NOT IN (SELECT number FROM item WHERE state IN ('queued', 'sending'));"
    "INSERT INTO piece SELECT item.number,"
    " coalesce(json_array_length(data, '$.attachments'), 0) + part.key, NULL, 0, 0, NULL, part.value"
    " FROM item JOIN old ON old.number = item.number, json_each(data, '$.part_ids') AS part"
    " WHERE item.state IN ('queued', 'sending');";

static const char make_piece[] =
    "INSERT INTO piece SELECT ?, ?, ?, ?, coalesce(json_extract(data, '$.size'), 0), digest,"
    " CASE state WHEN 'uploaded' THEN json_extract(data, '$.id') END FROM old WHERE number = ?";

static const char end_tables[] = "DROP TABLE old; DROP TABLE bound; UPDATE spool SET is_taken_over = 1;";

/* ---------------------------------------------------------------- reading */

static const char *get_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int64_t get_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Not each attachment has its digest in the envelope. Sets *ret_digest to "" if the content cannot be read.
 */
static void find_digest(struct migration *migration, uint64_t number, enum item_kind kind,
                        const json_t *envelope, char ret_digest[ITEM_DIGEST_SIZE])
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    const char *digest = get_text(envelope, "digest");
    snprintf(ret_digest, ITEM_DIGEST_SIZE, "%s", digest == NULL ? "" : digest);
    if (kind == ITEM_ATTACHMENT && ret_digest[0] == '\0' &&
        spool_read_content(migration->spool, number, ATTACHMENTS_MAX_BYTES, &bytes, &len) == 0)
        item_digest(bytes, len, ret_digest);
}

/* Two states of version 0.2 no longer exist: `drafted` only recorded a key, and `held` was a file that was
 * not to be sent yet, or no more. Returns NULL if no item is made of this one. */
static const char *find_state(const char *state, enum item_kind kind, const char *name, off_t size)
{
    if (strcmp(state, "held") != 0)
        return strcmp(state, "drafted") == 0 ? NULL : state;
    return item_states[size == 0 || item_is_never_sent(kind, name) ? ITEM_WAITING : ITEM_INTERRUPTED].name;
}

/* Adds the item of an envelope. Returns 0; -EBADMSG if the envelope is incomplete or foreign; or the disk's
 * error. */
static int add_item(struct migration *migration, uint64_t number, const char *file)
{
    char digest[ITEM_DIGEST_SIZE];
    _cleanup_free_ char *text = NULL;
    size_t len;
    struct stat status;
    enum item_state known;
    int error = file_read_at(spool_dir_fd(migration->spool), file, ENVELOPE_MAX_BYTES, &text, &len);
    if (error != 0)
        return error;
    _cleanup_json_ json_t *envelope = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const char *name = get_text(envelope, "name");
    const char *kind_name = get_text(envelope, "kind");
    const char *old_state = get_text(envelope, "state");
    if (name == NULL || kind_name == NULL || old_state == NULL ||
        get_integer(envelope, "number") != (int64_t)number)
        return -EBADMSG;
    if (spool_stat_content(migration->spool, number, &status) != 0)
        return 0;
    enum item_kind kind = strcmp(kind_name, "attachment") == 0 ? ITEM_ATTACHMENT : ITEM_MESSAGE;
    const char *state = find_state(old_state, kind, name, status.st_size);
    if (state == NULL || item_state_from_name(state, &known) != 0)
        return state == NULL ? 0 : -EBADMSG;
    find_digest(migration, number, kind, envelope, digest);
    return query_execute(migration->turn, INSERT_OLD, "iissssiis", (int64_t)number,
                         get_integer(envelope, "order"), item_kind_name(kind), state, name,
                         digest[0] == '\0' ? NULL : digest, get_integer(envelope, "content"),
                         (int64_t)json_is_true(json_object_get(envelope, "is_hidden")), text);
}

static void set_aside(struct migration *migration, uint64_t number, const char *why)
{
    char name[32];
    snprintf(name, sizeof(name), "%" PRIu64 ".data", number);
    spool_quarantine(migration->spool, name, why);
    snprintf(name, sizeof(name), "%" PRIu64 ".json", number);
    spool_quarantine(migration->spool, name, why);
}

/* Handles a content that is not empty and has no envelope. An interrupted migration linked it for a message
 * if it has a second link. */
static void check_lone_content(struct migration *migration, uint64_t number)
{
    char envelope[32];
    struct stat status;
    struct stat content;
    snprintf(envelope, sizeof(envelope), "%" PRIu64 ".json", number);
    if (spool_stat_content(migration->spool, number, &content) != 0 || content.st_size == 0 ||
        fstatat(spool_dir_fd(migration->spool), envelope, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return;
    if (content.st_nlink > 1)
        spool_discard_content(migration->spool, number);
    else
        set_aside(migration, number, "it has no envelope");
}

static int find_old(void *context, const char *name, uint64_t number)
{
    struct migration *migration = context;
    char *end;
    uint64_t found = strtoull(name, &end, 10);
    if (number != 0)
        check_lone_content(migration, number);
    if (found == 0 || found >> 62 != 0 || strcmp(end, ".json") != 0)
        return 0;
    int error = add_item(migration, found, name);
    if (error != -EBADMSG)
        return error;
    set_aside(migration, found, "its envelope cannot be understood");
    return 0;
}

#define LOST_ENVELOPE                                                                         \
    "{\"error\": \"the spool's database was lost: this may be a message, sent or not, or an " \
    "attachment; look before you send it\"}"

/* Makes an item of a content whose row was lost with the database: its name, and whether it was sent, are
 * unknown. */
static int find_content(void *context, const char *name, uint64_t number)
{
    const struct migration *migration = context;
    struct stat status;
    char shown[64];
    if (number == 0 || spool_stat_content(migration->spool, number, &status) != 0 || status.st_size == 0)
        return 0;
    snprintf(shown, sizeof(shown), "recovered-%" PRIu64, number);
    return query_execute(migration->turn, INSERT_OLD, "iissssiis", (int64_t)number, (int64_t)number,
                         item_kind_name(ITEM_MESSAGE), item_states[ITEM_UNKNOWN].name, shown, NULL,
                         INT64_C(0), INT64_C(0), LOST_ENVELOPE);
}

/* ---------------------------------------------------------------- writing */

/* Returns the number that begins a file of version 0.2; 0 if there is no file. *ret_second is the number
 * after it. */
static uint64_t read_numbers(struct spool *spool, const char *name, uint64_t *ret_second)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    char *end;
    if (file_read_at(spool_dir_fd(spool), name, 256, &text, &len) != 0)
        return 0;
    uint64_t first = strtoull(text, &end, 10);
    *ret_second = strtoull(end, NULL, 10);
    return first & (UINT64_MAX >> 2);
}

static int skip_numbers(struct migration *migration, bool is_old)
{
    int64_t values[2];
    uint64_t second;
    int error = query_integers(migration->turn, values, ARRAY_LEN(values),
                               "SELECT count(*), coalesce(max(max(number, position)), 0) FROM old", "");
    if (error != 0)
        return error;
    if (values[0] > 0)
        log_info("%s: %" PRId64 " items are taken over",
                 is_old ? "the spool is of version 0.2" : "the spool's database is gone", values[0]);
    spool_skip_number(migration->spool, (uint64_t)values[1]);
    spool_skip_number(migration->spool, read_numbers(migration->spool, "numbers", &second));
    return 0;
}

static int link_pieces(struct migration *migration)
{
    struct connection *turn = migration->turn;
    _cleanup_statement_ struct statement bound = {0};
    int error = query_begin(turn, &bound, "SELECT message, place, name, file FROM bound", "");
    while (error == 0 && (error = query_step(bound.row)) == 1) {
        int64_t file = sqlite3_column_int64(bound.row, 3);
        uint64_t content = spool_take_number(migration->spool);
        error = spool_link_content(migration->spool, (uint64_t)file, content);
        if (error == 0)
            error = query_execute(turn, make_piece, "iisii", sqlite3_column_int64(bound.row, 0),
                                  sqlite3_column_int64(bound.row, 1), query_column_text(bound.row, 2),
                                  (int64_t)content, file);
    }
    return error;
}

static int save_count(struct migration *migration)
{
    uint64_t count;
    uint64_t day = read_numbers(migration->spool, "sent-today", &count);
    return day == 0 ? 0
                    : query_execute(migration->turn, "UPDATE spool SET day = ?, sent = ?", "ii", (int64_t)day,
                                    (int64_t)count);
}

static int convert(struct migration *migration, bool is_old)
{
    sqlite3 *db = migration->turn->db;
    int error = query_script(db, create_table);
    error = error != 0 ? error : spool_scan(migration->spool, is_old ? find_old : find_content, migration);
    error = error != 0 ? error : skip_numbers(migration, is_old);
    error = error != 0 ? error : query_script(db, drop_replaced);
    error = error != 0 ? error : query_script(db, make_items);
    error = error != 0 ? error : query_script(db, find_pieces);
    error = error != 0 ? error : link_pieces(migration);
    error = error != 0 ? error : save_count(migration);
    error = error != 0 ? error : query_script(db, end_tables);
    error = error != 0 ? error : spool_sync_names(migration->spool);
    crash_point("migrating");
    return error;
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
    struct migration migration = {.spool = spool};
    struct spool_head head;
    int error = spool_read_head(spool, &head);
    if (error == 0 && !head.is_taken_over) {
        error = spool_begin(spool, &migration.turn);
        if (error == 0)
            error = spool_end(spool, migration.turn, convert(&migration, has_version(spool, "2\n")));
        crash_point("migrated");
    }
    if (error == 0 && !has_version(spool, VERSION_TEXT))
        error = file_replace_at(spool_dir_fd(spool), VERSION_FILE, VERSION_TEXT, strlen(VERSION_TEXT), 0600);
    return error == 0
               ? 0
               : reason_give(ret_reason, error, "the spool cannot be taken over: %s", strerror(-error));
}
