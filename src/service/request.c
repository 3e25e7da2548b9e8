/* SPDX-License-Identifier: MIT */
/*
 * Requests: headers, JSON bodies, ETags.
 */
#include "service/request.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/content_digest.h"
#include "sql/query.h"

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static void reply_not_json(struct reply *reply, const json_error_t *error)
{
    json_t *problem = json_pack("{s:[s, i], s:s, s:s, s:{s:s}}", "loc", "body", error->position, "msg",
                                "JSON decode error", "type", "json_invalid", "ctx", "error", error->text);
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:[o]}", "detail", problem));
}

json_t *request_read_object(const struct request *request, struct reply *reply)
{
    json_error_t error;
    json_t *value = json_loadb(strbuf_str(&request->body), request->body.len, JSON_DECODE_ANY, &error);
    if (value == NULL) {
        reply_not_json(reply, &error);
        return NULL;
    }
    if (json_is_object(value))
        return value;
    json_decref(value);
    json_t *problem = json_pack("{s:[s], s:s, s:s}", "loc", "body", "msg",
                                "Input should be a valid dictionary", "type", "model_attributes_type");
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:[o]}", "detail", problem));
    return NULL;
}

bool request_is_unchanged(const struct request *request, const char *etag, struct reply *reply)
{
    const char *known = request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (known == NULL || (strcmp(known, "*") != 0 && strstr(known, etag) == NULL))
        return false;
    reply_release(reply);
    reply->status = MHD_HTTP_NOT_MODIFIED;
    snprintf(reply->etag, sizeof(reply->etag), "%s", etag);
    return true;
}

int request_make_etag(const struct request *request, sqlite3 *db, int64_t changes,
                      char ret_etag[REPLY_ETAG_SIZE])
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_prepare(db, &statement, "SELECT value FROM settings WHERE name = 'instance'", "");
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0)
        return step < 0 ? step : -EUCLEAN;
    _cleanup_free_ char *state = NULL;
    int len = asprintf(&state, "%s %s %lld %s", INBOXFS_VERSION,
                       (const char *)sqlite3_column_text(statement, 0), (long long)changes, request->target);
    if (len < 0)
        return -ENOMEM;
    char digest[65];
    content_digest(state, (size_t)len, digest);
    snprintf(ret_etag, REPLY_ETAG_SIZE, "\"%s\"", digest);
    return 0;
}
