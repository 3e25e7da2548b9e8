/* SPDX-License-Identifier: MIT */
#include "service/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "sql/query.h"

enum {
    BLOCK_BYTES = 64 * 1024,
    RETRY_S = 5,
};

/* ---------------------------------------------------------------- the array of records */

static void record_array_free(void *context)
{
    struct record_array *array = context;
    if (array == NULL)
        return;
    query_end(&array->statement);
    database_return_reader(array->connection);
    strbuf_release(&array->piece);
    free(array);
}

/* Reads the next piece: a record after its "[" or ",", or the "]" at the end. Return: 0 or -errno. */
static int read_piece(struct record_array *array)
{
    bool is_first = array->piece.len == 0;
    int step = query_step(array->statement.row);
    if (step < 0)
        return step;
    strbuf_clear(&array->piece);
    array->copied = 0;
    array->is_last_piece = step == 0;
    if (step == 0)
        return strbuf_append_str(&array->piece, is_first ? "[]" : "]");
    const char *record = (const char *)sqlite3_column_text(array->statement.row, 0);
    strbuf_append_char(&array->piece, is_first ? '[' : ',');
    return record != NULL ? strbuf_append_str(&array->piece, record) : -ENOMEM;
}

static ssize_t record_array_read(void *context, uint64_t position, char *ret_bytes, size_t len)
{
    struct record_array *array = context;
    size_t done = 0;
    while (done < len) {
        if (array->copied == array->piece.len) {
            if (array->is_last_piece)
                break;
            if (read_piece(array) != 0)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        size_t left = array->piece.len - array->copied;
        size_t part = left < len - done ? left : len - done;
        memcpy(ret_bytes + done, array->piece.data + array->copied, part);
        array->copied += part;
        done += part;
    }
    return done > 0 ? (ssize_t)done : MHD_CONTENT_READER_END_OF_STREAM;
}

/* ---------------------------------------------------------------- replies */

void reply_release(struct reply *reply)
{
    free(reply->body);
    if (reply->counted != NULL)
        atomic_fetch_sub(reply->counted, reply->body_len);
    record_array_free(reply->records);
    *reply = (struct reply){0};
}

void reply_bytes(struct reply *reply, const char *content_type, char *bytes, size_t len)
{
    reply_release(reply);
    reply->status = MHD_HTTP_OK;
    reply->body = bytes;
    reply->body_len = len;
    snprintf(reply->content_type, sizeof(reply->content_type), "%s", content_type);
}

void reply_json(struct reply *reply, unsigned int status, json_t *value)
{
    /* json_dumps() would double and copy its buffer until the text fits. */
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    size_t len = value != NULL ? json_dumpb(value, NULL, 0, flags) : 0;
    char *text = len > 0 ? malloc(len) : NULL;
    if (text != NULL)
        json_dumpb(value, text, len, flags);
    json_decref(value);
    reply_bytes(reply, "application/json", text, text != NULL ? len : 0);
    reply->status = text != NULL ? status : MHD_HTTP_SERVICE_UNAVAILABLE;
}

int reply_error(struct reply *reply, unsigned int status, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    reply_json(reply, status, json_pack("{s:s}", "detail", text));
    return 0;
}

int reply_invalid(struct reply *reply, const struct validation *validation)
{
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:O}", "detail", validation->problems));
    return 0;
}

int reply_invalid_at(struct reply *reply, json_t *location, const char *type, const char *message)
{
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT,
               json_pack("{s:[{s:o, s:s, s:s}]}", "detail", "loc", location, "msg", message, "type", type));
    return 0;
}

int reply_begin_records(struct reply *reply, struct database *database)
{
    reply_bytes(reply, "application/json", NULL, 0);
    struct record_array *array = calloc(1, sizeof(*array));
    if (array == NULL)
        return -ENOMEM;
    array->piece = STRBUF_INIT(SIZE_MAX / 2);
    reply->records = array;
    return database_begin_read(database, &array->connection);
}

void reply_failure(struct reply *reply, int error)
{
    if (error == -ENOSPC || error == -ENOMEM || error == -EBUSY || error == -EMFILE || error == -ENFILE) {
        reply_error(reply, MHD_HTTP_SERVICE_UNAVAILABLE, "The service cannot do this now: %s.",
                    strerrordesc_np(-error));
        reply->retry_after_s = RETRY_S;
    } else {
        reply_error(reply, MHD_HTTP_INTERNAL_SERVER_ERROR, "The service failed: %s.",
                    strerrordesc_np(-error));
    }
}

/* ---------------------------------------------------------------- sending */

/* libmicrohttpd calls this when it no longer needs the reply's body. */
static void free_sent(void *context)
{
    struct reply *sent = context;
    reply_release(sent);
    free(sent);
}

/* Takes ownership of the body. Returns NULL when out of memory. */
static struct MHD_Response *respond_with_body(struct reply *reply)
{
    struct reply *sent = malloc(sizeof(*sent));
    if (sent == NULL)
        return NULL;
    *sent = (struct reply){.body = reply->body, .body_len = reply->body_len, .counted = reply->counted};
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(sent->body_len, sent->body, free_sent, sent);
    if (response == NULL) {
        free(sent);
        return NULL;
    }
    reply->body = NULL;
    reply->counted = NULL;
    return response;
}

static void add_headers(const struct reply *reply, struct MHD_Response *response)
{
    /* A stranger's text must not run as a page of this origin. */
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy", "default-src 'none'; sandbox");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "private, no-cache");
    if (reply->content_type[0] != '\0')
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    if (reply->etag[0] != '\0')
        MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, reply->etag);
    if (reply->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (reply->allow != NULL)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
    if (reply->is_file)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, "attachment");
    if (reply->retry_after_s > 0) {
        char seconds[32];
        snprintf(seconds, sizeof(seconds), "%lld", (long long)reply->retry_after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
}

enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, bool closes)
{
    struct MHD_Response *response = NULL;
    if (reply->records != NULL) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, record_array_read,
                                                     reply->records, record_array_free);
        if (response != NULL)
            reply->records = NULL;
    } else {
        response = respond_with_body(reply);
    }
    enum MHD_Result result = MHD_NO;
    if (response != NULL) {
        add_headers(reply, response);
        if (closes)
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        result = MHD_queue_response(connection, reply->status, response);
        MHD_destroy_response(response);
    }
    reply_release(reply);
    return result;
}
