/* SPDX-License-Identifier: MIT */
/*
 * Content of received and sent emails. Both sides differ in the table that says who may see a message.
 */
#include "service/content.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "service/message.h"
#include "service/prompt.h"
#include "service/thread.h"
#include "sql/query.h"

enum {
    THREAD_PROMPT_MAX_BYTES = 128 * 1024 * 1024
};

static const char *const email_sql[] = {
    [CONTENT_RECEIVED] = "SELECT m.seq, m.thread, e.inbox, e.record, m.header, c.plain_text, c.html"
                         " FROM emails e JOIN messages m ON m.seq = e.message"
                         " JOIN contents c ON c.message = e.message WHERE e.id = ? AND e.is_valid",
    [CONTENT_SENT] = "SELECT m.seq, m.thread, o.inbox, o.record, m.header, c.plain_text, c.html"
                     " FROM outbound o JOIN messages m ON m.seq = o.message"
                     " JOIN contents c ON c.message = o.message WHERE o.id = ?",
};

static const char *const raw_sql[] = {
    [CONTENT_RECEIVED] = "SELECT m.header, c.raw FROM emails e JOIN messages m ON m.seq = e.message"
                         " JOIN contents c ON c.message = e.message WHERE e.id = ? AND e.is_valid",
    [CONTENT_SENT] = "SELECT m.header, c.raw FROM outbound o JOIN messages m ON m.seq = o.message"
                     " JOIN contents c ON c.message = o.message WHERE o.id = ?",
};

static int step_to(sqlite3 *db, const char *sql, const char *id, sqlite3_stmt **ret_statement)
{
    sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, sql, "s", id);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0) {
        sqlite3_finalize(statement);
        return step < 0 ? step : -ENOENT;
    }
    *ret_statement = statement;
    return 0;
}

static int add_thread(sqlite3 *db, const struct thread_email *email)
{
    json_t *previous = NULL;
    int error = thread_load_previous(db, email, &previous);
    if (error != 0)
        return error;
    _cleanup_strbuf_ struct strbuf prompt = STRBUF_INIT(THREAD_PROMPT_MAX_BYTES);
    prompt_append_thread(&prompt, previous, email->record);
    json_object_set_new(email->record, "thread_prompt", json_string(strbuf_str(&prompt)));
    bool is_alone = json_array_size(previous) == 0;
    json_object_set(email->record, "previous_emails", is_alone ? json_null() : previous);
    json_decref(previous);
    return prompt.error;
}

int content_load(sqlite3 *db, enum content_side side, const char *id, json_t **ret_record)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    struct thread_email email = {0};
    int error = step_to(db, email_sql[side], id, &statement);
    if (error == 0)
        error = thread_email_from_row(statement, &email);
    if (error != 0)
        return error;
    error = add_thread(db, &email);
    if (error != 0) {
        json_decref(email.record);
        return error;
    }
    *ret_record = email.record;
    return 0;
}

int content_load_raw(sqlite3 *db, enum content_side side, const char *id, char **ret_raw, size_t *ret_len)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = step_to(db, raw_sql[side], id, &statement);
    if (error != 0)
        return error;
    char *raw = query_column_copy(statement, 1, ret_len);
    if (raw == NULL)
        return -ENOMEM;
    *ret_raw = raw;
    return 0;
}

/* The attachment's place in the message; -1: it has none of this id. */
static json_int_t find_attachment(const json_t *list, const char *attachment_id)
{
    size_t i;
    const json_t *item;
    json_array_foreach (list, i, item) {
        if (strcmp(json_string_value(json_object_get(item, "id")), attachment_id) == 0)
            return (json_int_t)i;
    }
    return -1;
}

static int read_attachment(sqlite3_stmt *statement, const json_t *header, const char *attachment_id,
                           struct attachment *ret_attachment)
{
    const json_t *list = json_object_get(header, "attachments");
    json_int_t index = find_attachment(list, attachment_id);
    if (index < 0)
        return -ENOENT;
    const json_t *item = json_array_get(list, (size_t)index);
    struct attachment attachment = {
        .name = strdup(json_string_value(json_object_get(item, "filename"))),
        .content_type = strdup(json_string_value(json_object_get(item, "content_type"))),
    };
    const char *raw = sqlite3_column_blob(statement, 1);
    size_t len = (size_t)sqlite3_column_bytes(statement, 1);
    int error = attachment.name == NULL || attachment.content_type == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = message_read_attachment(raw, len, (size_t)index, &attachment.bytes, &attachment.len);
    if (error != 0) {
        attachment_release(&attachment);
        return error == -ENOENT ? -EUCLEAN : error;
    }
    *ret_attachment = attachment;
    return 0;
}

int content_load_attachment(sqlite3 *db, enum content_side side, const char *id, const char *attachment_id,
                            struct attachment *ret_attachment)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = step_to(db, raw_sql[side], id, &statement);
    if (error != 0)
        return error;
    json_t *header = json_loads((const char *)sqlite3_column_text(statement, 0), 0, NULL);
    error = header != NULL ? read_attachment(statement, header, attachment_id, ret_attachment) : -EUCLEAN;
    json_decref(header);
    return error;
}

void attachment_release(struct attachment *attachment)
{
    free(attachment->name);
    free(attachment->content_type);
    free(attachment->bytes);
    *attachment = (struct attachment){0};
}
