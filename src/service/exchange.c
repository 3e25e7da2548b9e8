/* SPDX-License-Identifier: MIT */
/*
 * An exchange. A request that is refused by its header is answered only after its body was thrown away, for a
 * connection that is closed on unread bytes loses the answer too; but nothing big is taken only to be thrown
 * away.
 */
#include "service/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "service/keys.h"
#include "service/request_head.h"
#include "service/router.h"

enum {
    DISCARD_MAX_BYTES = 32 * 1000 * 1000,
};

struct exchange {
    struct request request;
    struct reply reply; /* status 0: none yet */
    const struct route *route;
    size_t discarded_bytes;
    bool is_settled;
    bool is_last; /* nothing that follows on the connection can be believed */
};

struct exchange *exchange_new(const struct account *account, const char *target)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL)
        return NULL;
    exchange->request.account = account;
    exchange->request.body_fd = -1;
    exchange->request.target = strdup(target);
    if (exchange->request.target == NULL) {
        exchange_free(exchange);
        return NULL;
    }
    return exchange;
}

void exchange_free(struct exchange *exchange)
{
    if (exchange == NULL)
        return;
    reply_release(&exchange->reply);
    strbuf_release(&exchange->request.body);
    if (exchange->request.body_fd >= 0)
        close(exchange->request.body_fd);
    free(exchange->request.path);
    free(exchange->request.target);
    free(exchange);
}

void exchange_refuse_target(struct exchange *exchange, size_t max_bytes, size_t max_parameters)
{
    reply_error(&exchange->reply, MHD_HTTP_URI_TOO_LONG,
                "The target is too long: at most %zu bytes and %zu parameters.", max_bytes, max_parameters);
}

static int check_key(const struct request *request, bool *ret_is_known)
{
    static const char scheme[] = "Bearer ";
    *ret_is_known = false;
    const char *value = request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    if (value == NULL || strncasecmp(value, scheme, strlen(scheme)) != 0)
        return 0;
    const char *key = value + strlen(scheme);
    key += strspn(key, " ");
    if (!keys_is_well_formed(key))
        return 0;
    sqlite3 *db = NULL;
    int error = database_begin_read(request->account->database, &db);
    if (error != 0)
        return error;
    int known = keys_is_known(db, key);
    database_end_read(request->account->database, db);
    *ret_is_known = known > 0;
    return known < 0 ? known : 0;
}

static void authenticate(struct exchange *exchange)
{
    bool is_known = false;
    int error = check_key(&exchange->request, &is_known);
    if (error != 0)
        reply_failure(&exchange->reply, error);
    else if (!is_known)
        reply_error(&exchange->reply, MHD_HTTP_UNAUTHORIZED, "The API key is missing or not valid.");
}

static bool has_media_type(const struct request *request, const char *type)
{
    const char *value = request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    size_t len = strlen(type);
    return value != NULL && strncasecmp(value, type, len) == 0 && strchr("; \t", value[len]) != NULL;
}

/* The declared length; 0 where none is. */
static uint64_t declared_length(const struct request *request)
{
    const char *value = request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

static void reply_too_large(struct exchange *exchange)
{
    reply_error(&exchange->reply, MHD_HTTP_CONTENT_TOO_LARGE, "The request is too large: at most %zu bytes.",
                exchange->route->body_max_bytes);
}

/* Opens what the body is collected in. */
static void expect_body(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    enum route_body body = exchange->route->body;
    const char *type = body == ROUTE_JSON_BODY ? "application/json" : "multipart/form-data";
    if (body == ROUTE_NO_BODY)
        return;
    if (!has_media_type(request, type)) {
        reply_error(&exchange->reply, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "The body must be %s.", type);
    } else if (declared_length(request) > exchange->route->body_max_bytes) {
        reply_too_large(exchange);
    } else if (body == ROUTE_JSON_BODY) {
        request->body = STRBUF_INIT(exchange->route->body_max_bytes);
    } else {
        request->body_fd = openat(request->account->pool_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (request->body_fd < 0)
            reply_failure(&exchange->reply, -errno);
    }
}

bool exchange_begin(struct exchange *exchange, struct MHD_Connection *connection, const char *method,
                    const char *version)
{
    struct request *request = &exchange->request;
    if (request->connection != NULL)
        return false;
    request->connection = connection;
    exchange->is_last = !request_head_check(request, version, &exchange->reply);
    if (exchange->reply.status == 0)
        authenticate(exchange);
    if (exchange->reply.status == 0)
        exchange->route = router_find(request, method, &exchange->reply);
    if (exchange->reply.status == 0)
        expect_body(exchange);

    /* A client that asks before it sends gets its answer before; so does one that announces too much. */
    bool asks_first = request_header(request, MHD_HTTP_HEADER_EXPECT) != NULL;
    bool is_too_much = declared_length(request) > DISCARD_MAX_BYTES || request_head_is_endless(request);
    exchange->is_settled = exchange->reply.status != 0 && (asks_first || is_too_much);
    return true;
}

bool exchange_is_accepted(const struct exchange *exchange)
{
    return exchange->reply.status == 0;
}

bool exchange_is_settled(const struct exchange *exchange)
{
    return exchange->is_settled;
}

/* 0, -EMSGSIZE or -errno. */
static int collect(struct request *request, size_t max_bytes, const char *bytes, size_t len)
{
    if (len > max_bytes - request->body_len)
        return -EMSGSIZE;
    int error = request->body_fd >= 0 ? file_write_all(request->body_fd, bytes, len)
                                      : strbuf_append(&request->body, bytes, len);
    if (error == 0)
        request->body_len += len;
    return error;
}

bool exchange_receive(struct exchange *exchange, const char *bytes, size_t len)
{
    bool is_wanted = exchange->reply.status == 0 && exchange->route->body != ROUTE_NO_BODY;
    if (is_wanted) {
        int error = collect(&exchange->request, exchange->route->body_max_bytes, bytes, len);
        if (error == 0)
            return true;
        if (error == -EMSGSIZE)
            reply_too_large(exchange);
        else
            reply_failure(&exchange->reply, error);
        strbuf_release(&exchange->request.body);
    }
    exchange->discarded_bytes += len;
    return exchange->discarded_bytes <= DISCARD_MAX_BYTES;
}

enum MHD_Result exchange_answer(struct exchange *exchange, bool closes)
{
    if (exchange->reply.status == 0) {
        int error = exchange->route->answer(&exchange->request, &exchange->reply);
        if (error != 0) {
            reply_failure(&exchange->reply, error);
            log_error("%s %s could not be answered: %s", exchange->route->method, exchange->route->pattern,
                      strerrordesc_np(-error));
        }
    }
    return reply_send(&exchange->reply, exchange->request.connection, closes || exchange->is_last);
}
