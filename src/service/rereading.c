/* SPDX-License-Identifier: MIT */
#include "service/rereading.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/json_writer.h"
#include "service/message.h"
#include "sql/query.h"

static const char *text_of(const json_t *attachment, const char *key)
{
    const char *text = json_string_value(json_object_get(attachment, key));
    return text != NULL ? text : "";
}

/* A made-up name is not compared, because its number may have changed. */
static bool is_same(const json_t *before, const json_t *now)
{
    bool is_made_up = strncmp(text_of(now, "filename"), "attachment-", strlen("attachment-")) == 0;
    return strcmp(text_of(before, "content_type"), text_of(now, "content_type")) == 0 &&
           (is_made_up || strcmp(text_of(before, "filename"), text_of(now, "filename")) == 0);
}

/* Each attachment of now was an attachment before, in the same order. */
static void keep_ids(const json_t *before, json_t *now)
{
    size_t index = 0;
    for (size_t i = 0; i < json_array_size(now); i++) {
        json_t *attachment = json_array_get(now, i);
        while (index < json_array_size(before) && !is_same(json_array_get(before, index), attachment))
            index++;
        json_t *id = json_object_get(json_array_get(before, index++), "id");
        if (id != NULL)
            json_object_set(attachment, "id", id);
    }
}

static int update(sqlite3 *db, int64_t seq, json_t *header, const struct message *message)
{
    json_t *attachments = message_attachment_records(message);
    keep_ids(json_object_get(header, "attachments"), attachments);
    json_object_set_new(header, "attachments", attachments);
    json_object_set_new(header, "alternative_content", json_boolean(message->alternative_content));
    _cleanup_free_ char *text = json_dumps(header, JSON_COMPACT);
    _cleanup_free_ char *search_text = message_search_text(message);
    if (text == NULL || search_text == NULL)
        return -ENOMEM;
    int error = query_execute(db, "UPDATE messages SET header = ?, search_text = ? WHERE seq = ?", "ssi",
                              text, search_text, seq);
    return error != 0 ? error
                      : query_execute(db, "UPDATE contents SET plain_text = ?, html = ? WHERE message = ?",
                                      "ssi", message->plain_text, message->html, seq);
}

/* A message that the service wrote itself keeps its attachments. */
static int reread(sqlite3 *db, int64_t seq, json_t *header, const char *raw, size_t len)
{
    struct message message = {0};
    size_t before = json_array_size(json_object_get(header, "attachments"));
    int error = message_read(raw, len, &message);
    /* A full list may have left out later attachments, which may have moved up into it. */
    if (error == 0 && (message.attachments_len < before || before == ATTACHMENTS_MAX))
        error = update(db, seq, header, &message);
    message_release(&message);
    return error;
}

/* Rereads the next message after *seq. Returns -ENOENT if there is none. */
static int reread_next(sqlite3 *db, int64_t *seq)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error =
        query_first(db, &statement,
                    "SELECT seq, header, raw FROM messages JOIN contents ON message = seq WHERE seq > ?"
                    " AND header LIKE '%\"content_type\":\"text/%' ORDER BY seq LIMIT 1",
                    "i", *seq);
    if (error != 0)
        return error;
    *seq = sqlite3_column_int64(statement, 0);
    _cleanup_json_ json_t *header = json_loads(query_column_text(statement, 1), 0, NULL);
    return header == NULL ? -EUCLEAN
                          : reread(db, *seq, header, sqlite3_column_blob(statement, 2),
                                   (size_t)sqlite3_column_bytes(statement, 2));
}

int rereading_run(sqlite3 *db)
{
    int64_t seq = 0;
    int error;
    while ((error = reread_next(db, &seq)) == 0)
        ;
    return error == -ENOENT ? 0 : error;
}
