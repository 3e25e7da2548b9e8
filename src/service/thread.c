/* SPDX-License-Identifier: MIT */
/*
 * Threads. A message that an inbox sent to itself is there once, as received.
 */
#include "service/thread.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "service/prompt.h"
#include "sql/query.h"

enum {
    EMAILS_MAX = 100,
    TEXT_MAX_BYTES = 4 * 1024 * 1024, /* of all bodies; the newest email before is always there */
    PROMPT_MAX_BYTES = 64 * 1024 * 1024,
};

static const char previous_sql[] =
    "SELECT m.seq, m.thread, e.inbox, e.record, m.header, c.plain_text, c.html"
    " FROM messages m JOIN emails e ON e.message = m.seq JOIN contents c ON c.message = m.seq"
    " WHERE m.thread = ?1 AND m.seq < ?2 AND e.inbox = ?3 AND e.is_valid"
    " UNION ALL "
    "SELECT m.seq, m.thread, o.inbox, o.record, m.header, c.plain_text, c.html"
    " FROM messages m JOIN outbound o ON o.message = m.seq JOIN contents c ON c.message = m.seq"
    " WHERE m.thread = ?1 AND m.seq < ?2 AND o.inbox = ?3 AND NOT EXISTS"
    " (SELECT 1 FROM emails e WHERE e.message = m.seq AND e.inbox = ?3 AND e.is_valid)"
    " ORDER BY 1 DESC LIMIT ?4";

static json_t *column_json(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? json_loads(text, 0, NULL) : NULL;
}

static json_t *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? json_string(text) : json_null();
}

/* Where a field of a content record comes from; what is LATER has its place and is set afterwards. */
enum field_source {
    FROM_RECORD,
    FROM_HEADER,
    LATER,
};

static const struct {
    const char *name;
    enum field_source source;
} fields[] = {
    {"id", FROM_RECORD},
    {"inbox_id", FROM_RECORD},
    {"subject", FROM_HEADER},
    {"date", FROM_HEADER},
    {"from_address", FROM_HEADER},
    {"to_addresses", FROM_HEADER},
    {"cc_addresses", FROM_HEADER},
    {"bcc_addresses", FROM_RECORD},
    {"reply_to_addresses", FROM_HEADER},
    {"message_id", FROM_HEADER},
    {"in_reply_to_id", FROM_HEADER},
    {"references", FROM_HEADER},
    {"prompt", LATER},
    {"thread_prompt", LATER},
    {"plain_text", LATER},
    {"html", LATER},
    {"alternative_content", FROM_HEADER},
    {"attachments", FROM_HEADER},
    {"previous_emails", LATER},
};

static json_t *build_record(sqlite3_stmt *statement, const json_t *record, const json_t *header)
{
    json_t *result = json_object();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        json_t *value = json_null();
        if (fields[i].source != LATER)
            value = json_object_get(fields[i].source == FROM_HEADER ? header : record, fields[i].name);
        json_object_set(result, fields[i].name, value);
    }
    json_object_set_new(result, "plain_text", column_text(statement, 5));
    json_object_set_new(result, "html", column_text(statement, 6));
    return result;
}

static int add_prompt(json_t *record)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(PROMPT_MAX_BYTES);
    int error = prompt_append_email(&text, record, 1);
    if (error != 0)
        return error;
    json_t *prompt = json_string(strbuf_str(&text));
    int result = json_object_set(record, "prompt", prompt) | json_object_set(record, "thread_prompt", prompt);
    json_decref(prompt);
    return result == 0 ? 0 : -ENOMEM;
}

int thread_email_from_row(sqlite3_stmt *statement, struct thread_email *ret_email)
{
    json_t *record = column_json(statement, 3);
    json_t *header = column_json(statement, 4);
    json_t *result = NULL;
    if (record != NULL && header != NULL)
        result = build_record(statement, record, header);
    json_decref(record);
    json_decref(header);
    int error = result != NULL ? add_prompt(result) : -EUCLEAN;
    if (error != 0) {
        json_decref(result);
        return error;
    }
    *ret_email = (struct thread_email){
        .message = sqlite3_column_int64(statement, 0),
        .thread = sqlite3_column_int64(statement, 1),
        .inbox = sqlite3_column_int64(statement, 2),
        .record = result,
    };
    return 0;
}

int thread_load_previous(sqlite3 *db, const struct thread_email *email, json_t **ret_list)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, previous_sql, "iiii", email->thread, email->message,
                              email->inbox, (int64_t)EMAILS_MAX);
    if (error != 0)
        return error;
    json_t *list = json_array();
    size_t bytes = 0;
    int step = 0;
    while (error == 0 && (step = query_step(statement)) > 0) {
        bytes += (size_t)sqlite3_column_bytes(statement, 5) + (size_t)sqlite3_column_bytes(statement, 6);
        if (bytes > TEXT_MAX_BYTES && json_array_size(list) > 0)
            break;
        struct thread_email previous;
        error = thread_email_from_row(statement, &previous);
        if (error == 0)
            json_array_insert_new(list, 0, previous.record);
    }
    if (error == 0 && step < 0)
        error = step;
    if (error != 0) {
        json_decref(list);
        return error;
    }
    *ret_list = list;
    return 0;
}
