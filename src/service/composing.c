/* SPDX-License-Identifier: MIT */
/*
 * Composing. A reply carries In-Reply-To and References (RFC 5322 section 3.6.4) and joins the thread; a
 * forward encloses the original whole and starts a thread of its own.
 */
#include "service/composing.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "mail/draft.h"
#include "service/pool.h"
#include "sql/query.h"

enum {
    REFERENCES_MAX = 50,    /* of longer threads the first and the newest are kept */
    FORWARD_DEPTH_MAX = 10, /* readers of MIME recurse into what is enclosed */
    FORWARD_MAX_BYTES = 30 * 1000 * 1000,
};

void composition_release(struct composition *composition)
{
    inbox_release(&composition->sender);
    message_release(&composition->message);
    free(composition->raw);
    *composition = (struct composition){0};
}

static char *copy_text(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static const char existing_sql[] = "SELECT m.thread, m.forward_depth, m.header, m.seq FROM messages m"
                                   " WHERE m.seq = coalesce((SELECT message FROM emails WHERE id = ?1),"
                                   " (SELECT message FROM outbound WHERE id = ?1))";

static json_t *extend_references(const json_t *header)
{
    json_t *references = json_deep_copy(json_object_get(header, "references"));
    if (!json_is_array(references)) {
        json_decref(references);
        references = json_array();
    }
    json_array_append(references, json_object_get(header, "message_id"));
    while (json_array_size(references) > REFERENCES_MAX)
        json_array_remove(references, 1);
    return references;
}

static int enclose(sqlite3 *db, int64_t message, struct composition *composition)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, "SELECT raw FROM contents WHERE message = ?", "i", message);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0)
        return step < 0 ? step : -EUCLEAN;
    composition->message.forwarded = query_column_copy(statement, 0, &composition->message.forwarded_len);
    return composition->message.forwarded != NULL ? random_uuid(composition->message.forwarded_id) : -ENOMEM;
}

static int refer(sqlite3 *db, const struct submission *submission, sqlite3_stmt *row, const json_t *header,
                 struct composition *composition, struct sending_result *result)
{
    struct message *message = &composition->message;
    if (message->subject == NULL)
        message->subject = copy_text(json_string_value(json_object_get(header, "subject")));
    if (submission->type == MESSAGE_FORWARD) {
        composition->lineage.forward_depth = sqlite3_column_int64(row, 1) + 1;
        int error = enclose(db, sqlite3_column_int64(row, 3), composition);
        if (error == 0 && (composition->lineage.forward_depth > FORWARD_DEPTH_MAX ||
                           message->forwarded_len > FORWARD_MAX_BYTES))
            result->outcome = SENDING_FORWARDED_TOO_OFTEN;
        return error;
    }
    composition->lineage.thread = sqlite3_column_int64(row, 0);
    message->in_reply_to = copy_text(json_string_value(json_object_get(header, "message_id")));
    message->references = extend_references(header);
    return message->in_reply_to != NULL && message->references != NULL ? 0 : -ENOMEM;
}

static int look_up_existing(sqlite3 *db, const struct submission *submission, struct composition *composition,
                            struct sending_result *result)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, existing_sql, "s", submission->existing_email_id);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step == 0)
        result->outcome = SENDING_NO_EMAIL;
    if (step <= 0)
        return step;
    json_t *header = json_loads((const char *)sqlite3_column_text(statement, 2), 0, NULL);
    error = header != NULL ? refer(db, submission, statement, header, composition, result) : -EUCLEAN;
    json_decref(header);
    return error;
}

static int attach_one(const struct account *account, sqlite3 *db, const char *pool_id,
                      struct message_attachment *attachment, int64_t *total, struct sending_result *result)
{
    struct pool_file file = {0};
    int error = pool_find(db, pool_id, &file);
    if (error == -ENOENT)
        result->outcome = SENDING_NO_ATTACHMENT;
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    attachment->name = TAKE_PTR(file.name);
    attachment->content_type = TAKE_PTR(file.content_type);
    *total += file.bytes;
    if (*total > ATTACHMENTS_MAX_BYTES) {
        result->outcome = SENDING_TOO_LARGE;
        return 0;
    }
    error = random_uuid(attachment->id);
    return error != 0 ? error : pool_read(account, pool_id, &attachment->bytes, &attachment->len);
}

static int attach(const struct account *account, sqlite3 *db, const json_t *ids, struct message *message,
                  struct sending_result *result)
{
    size_t count = json_array_size(ids);
    if (count == 0)
        return 0;
    message->attachments = calloc(count, sizeof(*message->attachments));
    if (message->attachments == NULL)
        return -ENOMEM;
    message->attachments_len = count;
    int64_t total = 0;
    int error = 0;
    for (size_t i = 0; i < count && error == 0 && result->outcome == SENDING_DONE; i++) {
        result->index = i;
        error = attach_one(account, db, json_string_value(json_array_get(ids, i)), &message->attachments[i],
                           &total, result);
    }
    return error;
}

static int fill_in(const struct account *account, const struct submission *submission,
                   const struct inbox *sender, struct message *message)
{
    const char *name = submission->from_name != NULL ? submission->from_name : inbox_name(sender);
    message->date_ms = clock_realtime_ms(clock_system());
    message->from = json_pack("{s:s, s:s?}", "address", inbox_address(sender), "name", name);
    message->to = json_incref(submission->to);
    message->cc = json_incref(submission->cc);
    message->bcc = json_incref(submission->bcc);
    message->reply_to = json_incref(submission->reply_to);
    message->subject = copy_text(submission->subject);
    message->plain_text = copy_text(submission->plain_text);
    message->html = copy_text(submission->html);
    message->alternative_content = submission->alternative_content;
    if (message->from == NULL || (submission->subject != NULL && message->subject == NULL) ||
        (message->plain_text == NULL && message->html == NULL))
        return -ENOMEM;
    return message_name(message, account->domain);
}

int composing_run(const struct account *account, sqlite3 *db, const struct submission *submission,
                  struct composition *composition, struct sending_result *result)
{
    int error = inboxes_find_by_address(db, submission->from_address, &composition->sender);
    if (error == -ENOENT)
        result->outcome = SENDING_NO_INBOX;
    if (error != 0)
        return error == -ENOENT ? 0 : error;

    struct message *message = &composition->message;
    error = fill_in(account, submission, &composition->sender, message);
    if (error == 0 && submission->existing_email_id != NULL && submission->type != MESSAGE_NEW)
        error = look_up_existing(db, submission, composition, result);
    if (error == 0 && result->outcome == SENDING_DONE)
        error = attach(account, db, submission->attachment_ids, message, result);
    if (error != 0 || result->outcome != SENDING_DONE)
        return error;
    if (message->subject == NULL)
        return -ENOMEM;
    return message_write(message, &composition->raw, &composition->raw_len);
}
