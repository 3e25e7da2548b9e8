/* SPDX-License-Identifier: MIT */
/*
 * One email, received or sent: its content record, attachments, raw text, and marks. The paths are
 * /api/v1/email/ID and /api/v1/email/outbound/ID, and those below them.
 *
 * A content record (interface, GET /api/v1/email/ID) has the email, the earlier emails of its thread, and
 * both as Markdown for a language model (the prompts). An inbox sees the emails of a thread that it received
 * as valid or that were sent from it. A message to oneself is in the thread once, as received.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/html_text.h"
#include "mail/json_writer.h"
#include "service/endpoints.h"
#include "service/message.h"
#include "service/validation.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- bounds */

/* An answer must stay below what inboxfs reads (CONTENT_MAX_BYTES, 96 MiB), whatever strangers wrote: a
 * control character takes six bytes in JSON, and in a prompt a line of HTML can begin with a hundred blanks.
 * So each text is cut by its length in JSON. The other fields of a record, mainly addresses, are below 5 MB
 * together, and a record with both prompts is below 34 MB. The answer has one such record, the earlier
 * records (one of any size, or several of PREVIOUS_MAX_BYTES together), and the prompts of all, and is below
 * 95 MB. */
enum {
    BODY_MAX_BYTES = 10 * 1000 * 1000,
    PROMPT_MAX_BYTES = 4 * 1000 * 1000,    /* of the prompt of one email */
    PREVIOUS_MAX_BYTES = 12 * 1000 * 1000, /* of all records of earlier emails, unless one alone has more */
    PREVIOUS_MAX = 100,                    /* earlier emails */
};

/* Returns the length of the longest beginning that ends with a whole character and takes at most `max_bytes`
 * when jansson writes it as a string. */
static size_t prefix_within(const char *text, size_t len, size_t max_bytes)
{
    size_t at = 0;
    while (at < len) {
        const struct character character = character_at(text + at, len - at);
        bool is_escaped = character.code == '"' || character.code == '\\' ||
                          (character.code != 0 && character.code < 0x20 &&
                           strchr("\b\t\n\f\r", (int)character.code) != NULL);
        size_t bytes = is_escaped ? 2 : character.code < 0x20 ? 6 : character.len;
        if (character.kind == CHARACTER_INVALID || bytes > max_bytes)
            break;
        max_bytes -= bytes;
        at += character.len;
    }
    return at;
}

/* ---------------------------------------------------------------- prompts */

/* Returns "" if the member is missing, as it may be in a damaged database. */
static const char *member_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

/* A name is on one line (message_read()), so that its text cannot pass for another line of the prompt. */
static void append_address(struct strbuf *out, const json_t *address)
{
    const char *name = member_text(address, "name");
    const char *text = member_text(address, "address");
    if (name[0] != '\0')
        strbuf_appendf(out, "%s <%s>", name, text);
    else
        strbuf_append_str(out, text);
}

static void append_addresses(struct strbuf *out, const char *label, const json_t *list)
{
    if (json_array_size(list) == 0)
        return;
    strbuf_appendf(out, "- **%s:** ", label);
    size_t i;
    const json_t *address;
    json_array_foreach (list, i, address) {
        if (i > 0)
            strbuf_append_str(out, ", ");
        append_address(out, address);
    }
    strbuf_append_char(out, '\n');
}

/* `level`: the level of the Markdown heading. */
static void append_uncut_email(struct strbuf *out, const json_t *record, unsigned int level)
{
    const char *subject = member_text(record, "subject");
    strbuf_appendf(out, "%.*s %s\n\n", (int)level, "######", subject[0] != '\0' ? subject : "(no subject)");
    strbuf_append_str(out, "- **From:** ");
    append_address(out, json_object_get(record, "from_address"));
    strbuf_append_char(out, '\n');
    append_addresses(out, "To", json_object_get(record, "to_addresses"));
    append_addresses(out, "Cc", json_object_get(record, "cc_addresses"));
    append_addresses(out, "Bcc", json_object_get(record, "bcc_addresses"));
    append_addresses(out, "Reply-To", json_object_get(record, "reply_to_addresses"));
    strbuf_appendf(out, "- **Date:** %s\n", member_text(record, "date"));
    size_t i;
    const json_t *attachment;
    json_array_foreach (json_object_get(record, "attachments"), i, attachment)
        strbuf_appendf(out, "%s%s (%s)", i > 0 ? ", " : "- **Attachments:** ",
                       member_text(attachment, "filename"), member_text(attachment, "content_type"));
    strbuf_append_str(out, i > 0 ? "\n\n" : "\n");

    const char *plain = json_string_value(json_object_get(record, "plain_text"));
    const char *html = json_string_value(json_object_get(record, "html"));
    bool is_alternative = json_is_true(json_object_get(record, "alternative_content"));
    size_t plain_len = plain != NULL ? strlen(plain) : 0;
    size_t room = out->max_bytes - out->len;
    if (out->error == 0 && plain_len > room)
        strbuf_append(out, plain, room); /* the next append sets the error */
    strbuf_append(out, plain, plain_len);
    if (html != NULL && (plain == NULL || !is_alternative)) {
        if (plain != NULL)
            strbuf_append_str(out, "\n\n");
        html_to_markdown(out, html, strlen(html), level);
    }
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        strbuf_append_char(out, '\n');
}

/* Appends the prompt of a content record, cut if it is too long. */
static void append_email(struct strbuf *out, const json_t *record, unsigned int level)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(PROMPT_MAX_BYTES);
    append_uncut_email(&text, record, level);
    size_t len = prefix_within(strbuf_str(&text), text.len, PROMPT_MAX_BYTES);
    strbuf_append(out, strbuf_str(&text), len);
    if (text.error != 0 || len < text.len)
        strbuf_append_char(out, '\n');
}

/* ---------------------------------------------------------------- content records */

static json_t *column_json(sqlite3_stmt *statement, int column)
{
    return json_loads(query_column_text(statement, column), 0, NULL);
}

static json_t *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    size_t len = (size_t)sqlite3_column_bytes(statement, column);
    return text != NULL ? json_stringn(text, prefix_within(text, len, BODY_MAX_BYTES)) : json_null();
}

/* A received email counts only if it is valid. */
#define OF(table)                                            \
    " FROM " table " e JOIN messages m ON m.seq = e.message" \
    " JOIN contents c ON c.message = m.seq WHERE e.id = ?1"
#define OF_RECEIVED OF("emails") " AND e.is_valid"
#define OF_SENT OF("outbound")

/* The rows are an email and, newest first, the emails of its thread before it. SQLite reads each row when it
 * is wanted, since strangers decide how long a thread is: CROSS JOIN sets the order of the search (by thread,
 * then by message, and because of the "+" not by inbox), and a join with `this` would sort the rows. */
#define EMAIL_COLUMNS                                                                        \
    "SELECT m.seq, iif(json_valid(m.header), json_set(m.header, '$.id', e.id, '$.inbox_id'," \
    " e.record ->> '$.inbox_id', '$.bcc_addresses', e.record -> '$.bcc_addresses'), NULL),"  \
    " c.plain_text, c.html"
#define BEFORE(table)                                                                          \
    " UNION ALL " EMAIL_COLUMNS " FROM messages m CROSS JOIN " table " e ON e.message = m.seq" \
    " CROSS JOIN contents c ON c.message = m.seq WHERE m.thread = (SELECT thread FROM this)"   \
    " AND m.seq < (SELECT seq FROM this) AND +e.inbox = (SELECT inbox FROM this) AND "
#define IS_RECEIVED \
    "EXISTS (SELECT 1 FROM emails r WHERE r.message = m.seq AND +r.inbox = e.inbox AND r.is_valid)"
#define THREAD_SQL(email)                                                                        \
    "WITH this AS (SELECT m.seq, m.thread, e.inbox" email                                        \
    ") " EMAIL_COLUMNS email BEFORE("emails") "e.is_valid" BEFORE("outbound") "NOT " IS_RECEIVED \
                                                                              " ORDER BY 1 DESC LIMIT ?2"

/* Returns the content record in a row of THREAD_SQL, as if the thread had no other email; the caller owns the
 * record. Return: 0; -EUCLEAN if the row is damaged. */
static int read_email(sqlite3_stmt *row, json_t **ret_record)
{
    _cleanup_json_ json_t *content = column_json(row, 1);
    json_object_set_new(content, "plain_text", column_text(row, 2));
    json_object_set_new(content, "html", column_text(row, 3));
    json_object_set_new(content, "previous_emails", json_null());
    if (json_unpack_ex(content, NULL, JSON_VALIDATE_ONLY, "{s:s, s:s, s:s, s:s, s:s, s:{s:s}}", "id",
                       "inbox_id", "subject", "date", "message_id", "from_address", "address") != 0)
        return -EUCLEAN;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
    append_email(&text, content, 1);
    _cleanup_json_ json_t *prompt = json_string(strbuf_str(&text));
    json_object_set(content, "prompt", prompt);
    json_object_set(content, "thread_prompt", prompt);
    *ret_record = TAKE_PTR(content);
    return 0;
}

/* Lists the content records of the other rows: the newest that fit, oldest first, without previous_emails of
 * their own. Return: 0 or -errno. */
static int read_previous(sqlite3_stmt *row, json_t *list)
{
    size_t json_bytes = 0;
    int step;
    while ((step = query_step(row)) > 0) {
        _cleanup_json_ json_t *previous = NULL;
        int error = read_email(row, &previous);
        if (error != 0)
            return error;
        json_bytes += json_dumpb(previous, NULL, 0, JSON_COMPACT);
        if (json_bytes > PREVIOUS_MAX_BYTES && json_array_size(list) > 0)
            return 0;
        json_array_insert(list, 0, previous);
    }
    return step;
}

static void add_previous(json_t *record, json_t *previous)
{
    _cleanup_strbuf_ struct strbuf prompt = STRBUF_INIT(SIZE_MAX / 2);
    size_t count = json_array_size(previous);
    strbuf_appendf(&prompt, "# Thread of %zu email%s\n", count + 1, count == 0 ? "" : "s");
    for (size_t i = 0; i <= count; i++) {
        strbuf_append_char(&prompt, '\n');
        append_email(&prompt, i < count ? json_array_get(previous, i) : record, 2);
    }
    json_object_set_new(record, "thread_prompt", json_string(strbuf_str(&prompt)));
    json_object_set(record, "previous_emails", count == 0 ? json_null() : previous);
}

int email_load_content(struct connection *reader, enum email_side side, const char *id, json_t **ret_record)
{
    static const char *const sql[] = {
        [SIDE_RECEIVED] = THREAD_SQL(OF_RECEIVED), [SIDE_SENT] = THREAD_SQL(OF_SENT)};
    _cleanup_statement_ struct statement statement = {0};
    _cleanup_json_ json_t *record = NULL;
    _cleanup_json_ json_t *previous = json_array();
    int error = query_first(reader, &statement, sql[side], "si", id, (int64_t)PREVIOUS_MAX + 1);
    if (error == 0)
        error = read_email(statement.row, &record);
    if (error == 0)
        error = read_previous(statement.row, previous);
    if (error != 0)
        return error;
    add_previous(record, previous);
    *ret_record = TAKE_PTR(record);
    return 0;
}

/* ---------------------------------------------------------------- parts of an email */

/* The next three endpoints return -ENOENT if there is no such part or the email is of the other side. */

int endpoint_email_content(struct request *request, struct reply *reply)
{
    json_t *record = NULL;
    int error = email_load_content(request->reader, request->side, request->parameters[0], &record);
    if (error == 0)
        reply_json(reply, MHD_HTTP_OK, record);
    return error;
}

int endpoint_email_raw(struct request *request, struct reply *reply)
{
    static const char *const sql[] = {
        [SIDE_RECEIVED] = "SELECT c.raw" OF_RECEIVED, [SIDE_SENT] = "SELECT c.raw" OF_SENT};
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(request->reader, &statement, sql[request->side], "s", request->parameters[0]);
    if (error != 0)
        return error;
    size_t len = 0;
    char *raw = query_column_copy(statement.row, 0, &len);
    if (raw == NULL)
        return -EUCLEAN;
    reply_file(reply, "message/rfc822", raw, len);
    return 0;
}

/* The header lists the attachments in the order of message_read_attachment(). */
#define ATTACHMENT_SQL(email)                                                            \
    "SELECT this.raw, a.key, a.value ->> '$.content_type' FROM"                          \
    " (SELECT c.raw, m.header" email ") this, json_each(this.header, '$.attachments') a" \
    " WHERE a.value ->> '$.id' = ?2"

int endpoint_email_attachment(struct request *request, struct reply *reply)
{
    static const char *const sql[] = {
        [SIDE_RECEIVED] = ATTACHMENT_SQL(OF_RECEIVED), [SIDE_SENT] = ATTACHMENT_SQL(OF_SENT)};
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(request->reader, &statement, sql[request->side], "ss", request->parameters[0],
                            request->parameters[1]);
    if (error != 0)
        return error;
    char *bytes = NULL;
    size_t len = 0;
    error = message_read_attachment(sqlite3_column_blob(statement.row, 0),
                                    (size_t)sqlite3_column_bytes(statement.row, 0),
                                    (size_t)sqlite3_column_int64(statement.row, 1), &bytes, &len);
    if (error != 0)
        return error == -ENOENT ? -EUCLEAN : error;
    reply_file(reply, query_column_text(statement.row, 2), bytes, len);
    return 0;
}

/* ---------------------------------------------------------------- marks */

/* Sets the record's user_mark_status, and replies with the record. An email counts as valid if its status is
 * `valid` or a user marked it as valid. Return: 0; -ENOENT if there is no such email; -errno. */
static int mark_email(struct connection *turn, const char *id, bool mark, struct reply *reply)
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(turn, &statement,
                            "UPDATE emails SET record = json_set(record, '$.user_mark_status', json(?)),"
                            " is_valid = ? OR record ->> '$.status' IS 'valid' WHERE id = ? RETURNING record",
                            "sis", mark ? "true" : "false", (int64_t)mark, id);
    if (error == 0)
        reply_json(reply, MHD_HTTP_OK, column_json(statement.row, 0));
    return error;
}

int endpoint_email_mark(struct request *request, struct reply *reply)
{
    bool is_valid = false;
    if (!validate_read_boolean_word(request->parameters[1], &is_valid))
        return reply_invalid_at(reply, json_pack("[s, s]", "path", "mark"), "bool_parsing",
                                "Input should be a valid boolean, unable to interpret input");
    struct connection *connection = NULL;
    int error = database_begin_write(request->context->database, &connection);
    if (error != 0)
        return error;
    error = database_end_write(request->context->database,
                               mark_email(connection, request->parameters[0], is_valid, reply));
    return error != -ENOENT ? error : reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no such email.");
}
