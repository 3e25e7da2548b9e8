/* SPDX-License-Identifier: MIT */
#include "service/reply.h"

#include <errno.h>
#include <glib.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK_BYTES = 64 * 1024,
};

static const char text_of_json[] = "application/json";

void reply_release(struct reply *reply)
{
    if (reply->response != NULL)
        MHD_destroy_response(reply->response);
    *reply = (struct reply){0};
}

void reply_add_header(struct reply *reply, const char *name, const char *value)
{
    if (reply->response != NULL)
        MHD_add_response_header(reply->response, name, value);
}

/* ---------------------------------------------------------------- bodies in memory */

/* This counter is global, because it bounds the memory of the whole process. */
static atomic_size_t bytes_in_memory;

size_t reply_bytes_in_memory(void)
{
    return bytes_in_memory;
}

/* libmicrohttpd calls this when it no longer needs the body. */
static void free_body(void *context)
{
    GBytes *body = context;
    bytes_in_memory -= g_bytes_get_size(body);
    g_bytes_unref(body);
}

/* Takes ownership of `bytes`, which may be NULL. */
static void set_body(struct reply *reply, unsigned int status, const char *content_type, char *bytes,
                     size_t len)
{
    GBytes *body = g_bytes_new_take(bytes, len);
    bytes_in_memory += len;
    reply_release(reply);
    reply->status = status;
    reply->response = MHD_create_response_from_buffer_with_free_callback_cls(len, bytes, free_body, body);
    if (reply->response == NULL)
        free_body(body);
    else if (bytes != NULL)
        reply_add_header(reply, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
}

void reply_json(struct reply *reply, unsigned int status, json_t *value)
{
    /* Most texts fit at once. json_dumps() would double and copy its buffer until a long one fits. */
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    char *text = g_malloc(BLOCK_BYTES);
    size_t len = json_dumpb(value, text, BLOCK_BYTES, flags);
    text = g_realloc(text, len);
    if (len > BLOCK_BYTES)
        json_dumpb(value, text, len, flags);
    json_decref(value);
    if (text != NULL)
        set_body(reply, status, text_of_json, text, len);
    else
        set_body(reply, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, NULL, 0);
}

void reply_file(struct reply *reply, const char *content_type, char *bytes, size_t len)
{
    set_body(reply, MHD_HTTP_OK, content_type, bytes, len);
    reply_add_header(reply, MHD_HTTP_HEADER_CONTENT_DISPOSITION, "attachment");
}

void reply_not_modified(struct reply *reply)
{
    set_body(reply, MHD_HTTP_NOT_MODIFIED, NULL, NULL, 0);
}

/* ---------------------------------------------------------------- other replies */

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

void reply_failure(struct reply *reply, int error)
{
    bool may_succeed_later =
        error == -ENOSPC || error == -ENOMEM || error == -EBUSY || error == -EMFILE || error == -ENFILE;
    if (may_succeed_later) {
        reply_error(reply, MHD_HTTP_SERVICE_UNAVAILABLE, "The service cannot do this now: %s.",
                    strerrordesc_np(-error));
        reply_add_header(reply, MHD_HTTP_HEADER_RETRY_AFTER, "5");
    } else {
        reply_error(reply, MHD_HTTP_INTERNAL_SERVER_ERROR, "The service failed: %s.",
                    strerrordesc_np(-error));
    }
}

void reply_stream(struct reply *reply, MHD_ContentReaderCallback read, MHD_ContentReaderFreeCallback release,
                  void *context)
{
    reply_release(reply);
    reply->status = MHD_HTTP_OK;
    reply->response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read, context, release);
    if (reply->response == NULL)
        release(context);
    reply_add_header(reply, MHD_HTTP_HEADER_CONTENT_TYPE, text_of_json);
}

enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, bool closes)
{
    enum MHD_Result result = MHD_NO;
    if (reply->response != NULL) {
        /* A stranger's text must not run as a page of this origin. */
        reply_add_header(reply, "X-Content-Type-Options", "nosniff");
        reply_add_header(reply, "Content-Security-Policy", "default-src 'none'; sandbox");
        reply_add_header(reply, MHD_HTTP_HEADER_CACHE_CONTROL, "private, no-cache");
        if (closes)
            reply_add_header(reply, MHD_HTTP_HEADER_CONNECTION, "close");
        result = MHD_queue_response(connection, reply->status, reply->response);
    }
    reply_release(reply);
    return result;
}
