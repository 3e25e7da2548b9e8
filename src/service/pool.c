/* SPDX-License-Identifier: MIT */
/*
 * The attachment pool, and POST /api/v1/email/add-attachment-to-pool. Each upload is a file in the directory
 * `pool` and a row of the table `pool`, written after the file, so that each row has a whole file. Any number
 * of messages may name an upload by its id.
 */
#include "service/endpoints.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "mail/draft.h"
#include "sql/query.h"

int pool_load(const struct service_context *context, struct connection *reader, const char *id,
              size_t max_bytes, struct message_attachment *attachment)
{
    _cleanup_statement_ struct statement statement = {0};
    int error =
        query_first(reader, &statement, "SELECT name, content_type, bytes FROM pool WHERE id = ?", "s", id);
    if (error != 0)
        return error;
    if (sqlite3_column_int64(statement.row, 2) > (int64_t)max_bytes)
        return -EMSGSIZE;
    attachment->name = g_strdup(query_column_text(statement.row, 0));
    attachment->content_type = g_strdup(query_column_text(statement.row, 1));
    random_uuid(attachment->id);
    error = file_read_at(context->pool_fd, id, max_bytes, &attachment->bytes, &attachment->len);
    return error == -ENOENT ? -EUCLEAN : error;
}

/* Stores the file durably. Return: 0 or -errno. */
static int add_file(const struct service_context *context, const struct multipart_file *file, char ret_id[37])
{
    struct connection *connection = NULL;
    random_uuid(ret_id);
    int error = file_replace_at(context->pool_fd, ret_id, file->bytes, file->len, 0600);
    if (error == 0)
        error = database_begin_write(context->database, &connection);
    if (error == 0)
        error = database_end_write(context->database,
                                   query_execute(connection, "INSERT INTO pool VALUES (?, ?, ?, ?, ?)",
                                                 "sssii", ret_id, file->name, file->content_type,
                                                 (int64_t)file->len, clock_realtime_ms(clock_system())));
    /* After -EIO the row may have been committed, and would need its file. */
    if (error != 0 && error != -EIO)
        unlinkat(context->pool_fd, ret_id, 0);
    return error;
}

int endpoint_pool_add(struct request *request, struct reply *reply)
{
    struct multipart_file file = {0};
    const char *content_type = request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    int error = request->body.len == 0 ? -ENOENT
                                       : multipart_find_file(content_type, strbuf_str(&request->body),
                                                             request->body.len, "file", &file);
    if (error == -ENOENT || error == -EINVAL || error == -EBADMSG)
        return reply_invalid_at(reply, json_pack("[s, s]", "body", "file"),
                                error == -ENOENT ? "missing" : "value_error",
                                error == -ENOENT   ? "Field required"
                                : error == -EINVAL ? "The file's name is not usable"
                                                   : "The form is not well-formed");
    if (error != 0)
        return error;
    char id[37];
    if (file.len > ATTACHMENTS_MAX_BYTES) {
        reply_error(reply, MHD_HTTP_CONTENT_TOO_LARGE, "The file is over 10,000,000 bytes.");
    } else {
        error = add_file(request->context, &file, id);
        if (error == 0)
            reply_json(reply, MHD_HTTP_OK, json_pack("{s:s}", "id", id));
    }
    free(file.name);
    return error;
}
