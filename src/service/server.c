/* SPDX-License-Identifier: MIT */
/*
 * The stages of a request are, in this order: head, key, route, body, endpoint, reply. libmicrohttpd calls
 * the functions of the last section.
 */
#include "service/server.h"

#include <errno.h>
#include <glib.h>
#include <microhttpd.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/connections.h"
#include "service/endpoints.h"
#include "service/keys.h"
#include "service/request_head.h"

enum {
    CONNECTIONS_MAX = 256,
    CONNECTIONS_SPARE = 256, /* for connections that were shut down, until they are closed */
    IDLE_S = 30,             /* between two bytes of a client */
    DRAIN_MS = 10 * 1000,
    STACK_BYTES = 2 * 1024 * 1024, /* the parsers of JSON and MIME recurse, within bounds */

    REQUEST_MAX_BYTES = 256 * 1024, /* for target, parameters, headers of request and reply; not for bodies */

    SMALL_BODY_MAX_BYTES = 1024 * 1024,
    SEND_BODY_MAX_BYTES = 20 * 1000 * 1000,
    FORM_BODY_MAX_BYTES = 10 * 1000 * 1000 + 64 * 1024, /* a file and the form around it */
    DISCARD_MAX_BYTES = 32 * 1000 * 1000,
    BODIES_MAX_BYTES = 256 * 1000 * 1000, /* bodies of all requests under way, together */

    MAKERS_MAX = 4, /* threads that make large replies; each needs several times its reply's size in memory */
    REPLIES_MAX_BYTES = 256 * 1000 * 1000, /* of large replies that clients have not read yet */
};

/* ---------------------------------------------------------------- the routes */

static const char json[] = "application/json";
static const char form[] = "multipart/form-data";

struct route {
    const char *method;
    const char *pattern; /* "*" stands for a segment that is a parameter */
    int (*answer)(struct request *request, struct reply *reply);
    const char *body_type; /* NULL if a body is discarded */
    size_t body_max_bytes;
    enum email_side side;
    const char *part; /* the answer is this part of an email, in memory as a whole, and may have many MB */
};

/* If two patterns match a path, the pattern with the fixed segment is first. A path has one method. */
static const struct route routes[] = {
    {"GET", "/api/v1/inbox", endpoint_inbox_list, NULL, 0, SIDE_RECEIVED, NULL},
    {"POST", "/api/v1/inbox/upsert", endpoint_inbox_upsert, json, SMALL_BODY_MAX_BYTES, SIDE_RECEIVED, NULL},
    {"GET", "/api/v1/email", endpoint_email_list, NULL, 0, SIDE_RECEIVED, NULL},
    {"POST", "/api/v1/email/add-attachment-to-pool", endpoint_pool_add, form, FORM_BODY_MAX_BYTES,
     SIDE_RECEIVED, NULL},
    {"POST", "/api/v1/email/send", endpoint_send, json, SEND_BODY_MAX_BYTES, SIDE_RECEIVED, NULL},
    {"GET", "/api/v1/email/outbound", endpoint_email_list, NULL, 0, SIDE_SENT, NULL},
    {"GET", "/api/v1/email/outbound/*", endpoint_email_content, NULL, 0, SIDE_SENT, "email"},
    {"GET", "/api/v1/email/outbound/*/attachment/*", endpoint_email_attachment, NULL, 0, SIDE_SENT,
     "attachment"},
    {"GET", "/api/v1/email/*", endpoint_email_content, NULL, 0, SIDE_RECEIVED, "email"},
    {"GET", "/api/v1/email/*/raw", endpoint_email_raw, NULL, 0, SIDE_RECEIVED, "email"},
    {"GET", "/api/v1/email/*/attachment/*", endpoint_email_attachment, NULL, 0, SIDE_RECEIVED, "attachment"},
    {"POST", "/api/v1/email/*/mark/*", endpoint_email_mark, NULL, 0, SIDE_RECEIVED, NULL},
};

/* ---------------------------------------------------------------- the head */

/* A stranger's web page can make its own name resolve to this machine, and then send requests to this service
 * from a user's browser. But the browser puts that name into Host. It sends an address as Host only for pages
 * from that address. */
static bool is_name_of_service(const char *value, const struct service_context *context)
{
    static const char localhost[] = ".localhost";
    g_autofree char *url = g_strconcat("http://", value, NULL);
    g_autofree char *host = NULL;
    if (strpbrk(value, "/?#@%") != NULL ||
        !g_uri_split_network(url, G_URI_FLAGS_NONE, NULL, &host, NULL, NULL))
        return false;
    size_t len = strlen(host);
    size_t suffix_len = strlen(localhost);
    bool is_loopback_name = strcasecmp(host, localhost + 1) == 0 ||
                            (len > suffix_len && strcasecmp(host + len - suffix_len, localhost) == 0);
    if (g_hostname_is_ip_address(host) || is_loopback_name || strcasecmp(host, context->domain) == 0)
        return true;
    for (const char *const *name = context->hosts; name != NULL && *name != NULL; name++) {
        if (strcasecmp(host, *name) == 0)
            return true;
    }
    return false;
}

/* Sets the reply if the head is refused. */
static void check_head(const struct request *request, const struct request_head *head, const char *version,
                       struct reply *reply)
{
    const char *host = request_header(request, MHD_HTTP_HEADER_HOST);
    if (!head->has_one_end)
        reply_error(reply, MHD_HTTP_BAD_REQUEST,
                    "The header does not say in one way where the request ends.");
    else if (head->hosts > 1 || (head->hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0))
        reply_error(reply, MHD_HTTP_BAD_REQUEST, "One Host is needed.");
    else if (host != NULL && !is_name_of_service(host, request->context))
        reply_error(
            reply, MHD_HTTP_MISDIRECTED_REQUEST,
            "The service does not go by the name in Host: use its address, or start it with --allow-host.");
}

/* ---------------------------------------------------------------- the route of a request */

static bool is_get(const struct route *route)
{
    return strcmp(route->method, "GET") == 0;
}

/* A "/" at the end of a path is ignored. */
static bool path_matches(const char *pattern, const char *path, struct request *request)
{
    size_t parameters = 0;
    for (; *pattern != '\0'; pattern++) {
        bool is_parameter = *pattern == '*';
        size_t len = is_parameter ? strcspn(path, "/") : 1;
        if (is_parameter ? len == 0 || len >= REQUEST_PARAMETER_SIZE : *pattern != *path)
            return false;
        if (is_parameter)
            snprintf(request->parameters[parameters++], REQUEST_PARAMETER_SIZE, "%.*s", (int)len, path);
        path += len;
    }
    return *path == '\0' || strcmp(path, "/") == 0;
}

/* Finds the route of a path and sets the request's parameters. Returns NULL after a reply of 404 or 405. */
static const struct route *find_route(struct request *request, const char *path, const char *method,
                                      struct reply *reply)
{
    const struct route *route = routes;
    while (route < routes + ARRAY_LEN(routes) && !path_matches(route->pattern, path, request))
        route++;
    if (route == routes + ARRAY_LEN(routes)) {
        reply_error(reply, MHD_HTTP_NOT_FOUND, "Not Found");
        return NULL;
    }
    request->side = route->side;
    if (strcmp(route->method, method) == 0 || (is_get(route) && strcmp(method, "HEAD") == 0))
        return route;
    reply_error(reply, MHD_HTTP_METHOD_NOT_ALLOWED, "Method Not Allowed");
    reply_add_header(reply, MHD_HTTP_HEADER_ALLOW, is_get(route) ? "GET, HEAD" : route->method);
    return NULL;
}

/* ---------------------------------------------------------------- one request and its reply */

struct server {
    struct MHD_Daemon *daemon;
    struct connections *connections;
    const struct service_context *context;
    sem_t makers;             /* counts the threads that may still begin a large reply */
    atomic_size_t body_bytes; /* of all requests under way */
};

/* libmicrohttpd passes a request in pieces, which are put together here, within bounds. If the head is
 * refused, the answer is sent after the body was read, up to DISCARD_MAX_BYTES, and discarded: a client may
 * lose the answer if the connection is closed while bytes are unread. */
struct exchange {
    struct server *server; /* borrowed */
    struct request request;
    struct reply reply;        /* its status is 0 until it is set */
    const struct route *route; /* NULL until the key was checked and the route found */
    size_t discarded_bytes;
    bool is_settled; /* the reply is sent before the body is read */
    bool is_last;    /* the connection must end after the reply */
};

static void release_body(struct exchange *exchange)
{
    atomic_fetch_sub(&exchange->server->body_bytes, exchange->request.body.len);
    strbuf_release(&exchange->request.body);
}

static void authenticate(struct exchange *exchange)
{
    static const char scheme[] = "Bearer ";
    const struct request *request = &exchange->request;
    const char *value = request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    int known = 0;
    if (value != NULL && strncasecmp(value, scheme, strlen(scheme)) == 0) {
        const char *key = value + strlen(scheme);
        known = keys_is_valid(request->context->database, key + strspn(key, " "));
    }
    if (known < 0) {
        reply_failure(&exchange->reply, known);
    } else if (known == 0) {
        reply_error(&exchange->reply, MHD_HTTP_UNAUTHORIZED, "The API key is missing or not valid.");
        reply_add_header(&exchange->reply, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
}

/* Returns 0 if no length is declared. */
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

/* Checks the body's declared type and length. */
static void check_declared_body(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    const struct route *route = exchange->route;
    if (route->body_type == NULL)
        return;
    const char *type = request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    size_t len = strlen(route->body_type);
    if (type == NULL || strncasecmp(type, route->body_type, len) != 0 || strchr("; \t", type[len]) == NULL)
        reply_error(&exchange->reply, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "The body must be %s.",
                    route->body_type);
    else if (declared_length(request) > route->body_max_bytes)
        reply_too_large(exchange);
    else
        request->body = STRBUF_INIT(route->body_max_bytes);
}

/* Checks the head, key, route, and declared type and length of the body. */
static struct exchange *exchange_begin(struct server *server, struct MHD_Connection *connection,
                                       const char *path, const char *method, const char *version)
{
    struct exchange *exchange = g_new0(struct exchange, 1);
    exchange->server = server;
    struct request *request = &exchange->request;
    request->context = server->context;
    request->connection = connection;
    struct request_head head;
    request_head_read(connection, &head);
    check_head(request, &head, version, &exchange->reply);
    exchange->is_last = !head.has_one_end;
    if (exchange->reply.status == 0)
        authenticate(exchange);
    if (exchange->reply.status == 0)
        exchange->route = find_route(request, path, method, &exchange->reply);
    if (exchange->reply.status == 0)
        check_declared_body(exchange);

    /* With "Expect", or if the body is too long to discard, a refusal is sent before the body is read. */
    bool asks_first = request_header(request, MHD_HTTP_HEADER_EXPECT) != NULL;
    bool is_too_much = declared_length(request) > DISCARD_MAX_BYTES || head.is_endless;
    exchange->is_settled = exchange->reply.status != 0 && (asks_first || is_too_much);
    return exchange;
}

/* Takes a piece of the body. Returns false if the connection must be closed. */
static bool exchange_receive(struct exchange *exchange, const char *bytes, size_t len)
{
    bool is_wanted = exchange->reply.status == 0 && exchange->route->body_type != NULL;
    if (is_wanted) {
        if (strbuf_append(&exchange->request.body, bytes, len) != 0)
            reply_too_large(exchange);
        else if (atomic_fetch_add(&exchange->server->body_bytes, len) + len <= BODIES_MAX_BYTES)
            return true;
        else
            reply_failure(&exchange->reply, -EBUSY);
        release_body(exchange);
    }
    exchange->discarded_bytes += len;
    return exchange->discarded_bytes <= DISCARD_MAX_BYTES;
}

static void make_reply(struct exchange *exchange)
{
    const struct route *route = exchange->route;
    struct request *request = &exchange->request;
    int error = is_get(route) ? database_begin_read(request->context->database, &request->reader) : 0;
    if (error == 0)
        error = route->answer(request, &exchange->reply);
    database_return_reader(TAKE_PTR(request->reader));
    if (error == -ENOENT && route->part != NULL)
        error = reply_error(&exchange->reply, MHD_HTTP_NOT_FOUND, "There is no such %s.", route->part);
    if (error == 0)
        return;
    reply_failure(&exchange->reply, error);
    log_error("%s %s could not be answered: %s", route->method, route->pattern, strerrordesc_np(-error));
}

/* The wait for the semaphore is short: no thread that has it waits for a client. */
static void make_large_reply(struct exchange *exchange)
{
    struct server *server = exchange->server;
    while (sem_wait(&server->makers) != 0)
        ;
    if (reply_bytes_in_memory() >= REPLIES_MAX_BYTES || connections_is_draining(server->connections))
        reply_failure(&exchange->reply, -EBUSY);
    else
        make_reply(exchange);
    sem_post(&server->makers);
}

/* ---------------------------------------------------------------- the calls of libmicrohttpd */

/* Returns NULL if connections_add() refused the connection. */
static struct open_connection *client_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = connections_add(server->connections, info->connect_fd);
        if (*socket_context == NULL)
            shutdown(info->connect_fd, SHUT_RDWR);
    } else if (*socket_context != NULL) {
        connections_remove(server->connections, *socket_context);
    }
}

/* Answers a request. Without a valid key and a route, the connection stays idle, so that it can be shut down
 * if the client reads no answers. */
static enum MHD_Result answer_request(struct exchange *exchange, struct open_connection *client)
{
    struct connections *connections = exchange->server->connections;
    const struct route *route = exchange->route;
    if (route != NULL)
        connections_set_phase(connections, client, CONNECTION_WORKING);
    bool closes = exchange->is_last || connections_is_draining(connections);
    bool is_unanswered = route != NULL && exchange->reply.status == 0;
    if (is_unanswered && route->part != NULL)
        make_large_reply(exchange);
    else if (is_unanswered)
        make_reply(exchange);
    enum MHD_Result result = reply_send(&exchange->reply, exchange->request.connection, closes);
    if (route != NULL)
        connections_set_phase(connections, client, CONNECTION_SENDING);
    return result;
}

/* libmicrohttpd calls this after the header, then for each piece of the body, then at the end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **request_context)
{
    struct server *server = context;
    struct open_connection *client = client_of(connection);
    struct exchange *exchange = *request_context;
    if (client == NULL)
        return MHD_NO;
    if (exchange == NULL) {
        exchange = *request_context = exchange_begin(server, connection, url, method, version);
        if (exchange->reply.status == 0)
            connections_set_phase(server->connections, client, CONNECTION_RECEIVING);
        return exchange->is_settled ? answer_request(exchange, client) : MHD_YES;
    }
    if (*upload_data_size == 0)
        return answer_request(exchange, client);
    bool is_taken = exchange_receive(exchange, upload_data, *upload_data_size);
    *upload_data_size = 0;
    return is_taken ? MHD_YES : MHD_NO;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    struct server *server = context;
    struct open_connection *client = client_of(connection);
    struct exchange *exchange = *request_context;
    if (exchange != NULL) {
        reply_release(&exchange->reply);
        release_body(exchange);
        free(exchange);
    }
    if (client != NULL)
        connections_set_phase(server->connections, client, CONNECTION_IDLE);
}

void server_free(struct server *server)
{
    if (server == NULL)
        return;
    if (server->daemon != NULL) {
        /* Otherwise the kernel would queue clients, instead of refusing them. */
        shutdown(MHD_quiesce_daemon(server->daemon), SHUT_RDWR);
        connections_end(server->connections, DRAIN_MS);
        MHD_stop_daemon(server->daemon);
    }
    connections_free(server->connections);
    sem_destroy(&server->makers);
    free(server);
}

DEFINE_CLEANUP_FREE(server)

int server_start(int listen_fd, const struct service_context *context, struct server **ret_server)
{
    _cleanup_(cleanup_server_free) struct server *server = g_new0(struct server, 1);
    server->context = context;
    sem_init(&server->makers, 0, MAKERS_MAX);
    server->connections = connections_new(clock_system(), CONNECTIONS_MAX);
    /* Without MHD_USE_POLL libmicrohttpd calls select(), which cannot wait for descriptors above 1,023. In
     * inboxfs, the files that users have open may take the lower numbers. */
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL,
        NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)(CONNECTIONS_MAX + CONNECTIONS_SPARE), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MAX_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_END);
    if (server->daemon == NULL)
        return -EIO;
    *ret_server = TAKE_PTR(server);
    return 0;
}
