/* SPDX-License-Identifier: MIT */
/*
 * Received and sent emails over HTTP: lists, content, attachments, raw text, marks.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/content.h"
#include "service/emails.h"
#include "service/endpoints.h"
#include "service/listing.h"

static void reply_no_email(struct reply *reply)
{
    reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no such email.");
}

int endpoint_email_list(struct request *request, struct reply *reply)
{
    return listing_answer(request, LISTING_RECEIVED, reply);
}

int endpoint_outbound_list(struct request *request, struct reply *reply)
{
    return listing_answer(request, LISTING_SENT, reply);
}

static int answer_content(struct request *request, enum content_side side, struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_read(request->account->database, &db);
    if (error != 0)
        return error;
    json_t *record = NULL;
    error = content_load(db, side, request->parameters[0], &record);
    database_end_read(request->account->database, db);
    if (error == 0)
        reply_json(reply, MHD_HTTP_OK, record);
    else if (error == -ENOENT)
        reply_no_email(reply);
    return error == -ENOENT ? 0 : error;
}

int endpoint_email_content(struct request *request, struct reply *reply)
{
    return answer_content(request, CONTENT_RECEIVED, reply);
}

int endpoint_outbound_content(struct request *request, struct reply *reply)
{
    return answer_content(request, CONTENT_SENT, reply);
}

static int answer_attachment(struct request *request, enum content_side side, struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_read(request->account->database, &db);
    if (error != 0)
        return error;
    struct attachment attachment = {0};
    error = content_load_attachment(db, side, request->parameters[0], request->parameters[1], &attachment);
    database_end_read(request->account->database, db);
    if (error == -ENOENT)
        reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no such attachment.");
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    reply_bytes(reply, attachment.content_type, TAKE_PTR(attachment.bytes), attachment.len);
    reply->file_name = TAKE_PTR(attachment.name);
    attachment_release(&attachment);
    return 0;
}

int endpoint_email_attachment(struct request *request, struct reply *reply)
{
    return answer_attachment(request, CONTENT_RECEIVED, reply);
}

int endpoint_outbound_attachment(struct request *request, struct reply *reply)
{
    return answer_attachment(request, CONTENT_SENT, reply);
}

int endpoint_email_raw(struct request *request, struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_read(request->account->database, &db);
    if (error != 0)
        return error;
    char *raw = NULL;
    size_t len = 0;
    error = content_load_raw(db, CONTENT_RECEIVED, request->parameters[0], &raw, &len);
    database_end_read(request->account->database, db);
    if (error == 0) {
        reply_bytes(reply, "message/rfc822", raw, len);
        reply->file_name = strdup("message.eml");
    } else if (error == -ENOENT) {
        reply_no_email(reply);
    }
    return error == -ENOENT ? 0 : error;
}

int endpoint_email_mark(struct request *request, struct reply *reply)
{
    bool is_valid = false;
    if (!validate_read_boolean_word(request->parameters[1], &is_valid)) {
        json_t *problem =
            json_pack("{s:[s, s], s:s, s:s}", "loc", "path", "mark", "msg",
                      "Input should be a valid boolean, unable to interpret input", "type", "bool_parsing");
        reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:[o]}", "detail", problem));
        return 0;
    }
    sqlite3 *db = NULL;
    int error = database_begin_write(request->account->database, &db);
    if (error != 0)
        return error;
    json_t *record = NULL;
    error = emails_mark(db, request->parameters[0], is_valid, &record);
    if (error == 0)
        error = database_commit(request->account->database);
    else
        database_rollback(request->account->database);
    if (error == 0)
        reply_json(reply, MHD_HTTP_OK, json_incref(record));
    else if (error == -ENOENT)
        reply_no_email(reply);
    json_decref(record);
    return error == -ENOENT ? 0 : error;
}
