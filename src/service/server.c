/* SPDX-License-Identifier: MIT */
/*
 * The ways from libmicrohttpd to an exchange, and its settings.
 */
#include "service/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/connections.h"
#include "service/exchange.h"

enum {
    CONNECTIONS_MAX = 128,
    CONNECTIONS_SPARE = 64, /* taken while others make room; beyond, they wait unanswered */
    IDLE_S = 30,            /* between two bytes */
    TARGET_MAX_BYTES = 64 * 1024,
    PARAMETERS_MAX = 1024,
    /* Without the body: the target, its parameters as the library keeps them, headers, and the answer's. */
    REQUEST_MAX_BYTES = 256 * 1024,
    STACK_BYTES = 2 * 1024 * 1024, /* JSON and MIME nest, within their libraries' bounds */
    DRAIN_MS = 10 * 1000,
};

struct server {
    struct MHD_Daemon *daemon;
    struct connections *connections;
    const struct account *account;
};

/* Who is connected. The exchange is kept here, for the library tells of the end of every connection, but not
 * of every request: what it gives up on while it parses has none. */
struct client {
    struct connection *connection;
    struct exchange *exchange; /* NULL between two requests */
};

static struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static struct client *client_new(struct connections *connections, int socket_fd)
{
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return NULL;
    client->connection = connections_add(connections, socket_fd);
    if (client->connection == NULL) {
        free(client);
        return NULL;
    }
    return client;
}

static void client_free(struct client *client, struct connections *connections)
{
    if (client == NULL)
        return;
    exchange_free(client->exchange);
    connections_remove(connections, client->connection);
    free(client);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = client_new(server->connections, info->connect_fd);
    } else {
        client_free(*socket_context, server->connections);
        *socket_context = NULL;
    }
}

static size_t count_parameters(const char *target)
{
    size_t count = 1;
    for (const char *at = target; (at = strchr(at, '&')) != NULL; at++)
        count++;
    return count;
}

/* Called with the library's own copy of the target, before it looks for parameters there. Where these do not
 * fit into its memory it ends the connection without an answer: such a query is cut off before, and then
 * refused. */
static void *on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    const struct server *server = context;
    struct client *client = client_of(connection);
    if (client == NULL)
        return NULL;
    exchange_free(client->exchange);
    client->exchange = exchange_new(server->account, target);
    char *query = strchr((char *)target, '?');
    if (query != NULL && (strlen(target) > TARGET_MAX_BYTES || count_parameters(query) > PARAMETERS_MAX)) {
        query[1] = '\0';
        if (client->exchange != NULL)
            exchange_refuse_target(client->exchange, TARGET_MAX_BYTES, PARAMETERS_MAX);
    }
    return client->exchange;
}

static enum MHD_Result answer(struct server *server, struct client *client)
{
    enum MHD_Result result = exchange_answer(client->exchange, connections_is_draining(server->connections));
    connections_enter(server->connections, client->connection, CONNECTION_SENDING);
    return result;
}

/* Called first with the header alone, then for each piece of the body, then without one. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **request_context)
{
    (void)url, (void)request_context;
    struct server *server = context;
    struct client *client = client_of(connection);
    if (client == NULL || client->exchange == NULL)
        return MHD_NO;
    if (exchange_begin(client->exchange, connection, method, version)) {
        if (exchange_is_accepted(client->exchange))
            connections_enter(server->connections, client->connection, CONNECTION_RECEIVING);
        return exchange_is_settled(client->exchange) ? answer(server, client) : MHD_YES;
    }
    if (*upload_data_size == 0)
        return answer(server, client);
    bool is_taken = exchange_receive(client->exchange, upload_data, *upload_data_size);
    *upload_data_size = 0;
    return is_taken ? MHD_YES : MHD_NO;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    (void)request_context, (void)code;
    struct server *server = context;
    struct client *client = client_of(connection);
    if (client == NULL)
        return;
    exchange_free(client->exchange);
    client->exchange = NULL;
    connections_enter(server->connections, client->connection, CONNECTION_IDLE);
}

int server_start(int listen_fd, const struct account *account, struct server **ret_server)
{
    struct server *server = calloc(1, sizeof(*server));
    int error =
        server != NULL ? connections_new(clock_system(), CONNECTIONS_MAX, &server->connections) : -ENOMEM;
    if (error != 0) {
        close(listen_fd);
        free(server);
        return error;
    }
    server->account = account;
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL,
        NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)(CONNECTIONS_MAX + CONNECTIONS_SPARE), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MAX_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        server, MHD_OPTION_URI_LOG_CALLBACK, on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        server, MHD_OPTION_END);
    if (server->daemon == NULL) {
        close(listen_fd);
        server_free(server);
        return -EIO;
    }
    *ret_server = server;
    return 0;
}

void server_free(struct server *server)
{
    if (server == NULL)
        return;
    if (server->daemon != NULL) {
        int listen_fd = MHD_quiesce_daemon(server->daemon);
        /* Who comes now is told at once, and does not write a request that nobody will read. */
        if (listen_fd >= 0)
            shutdown(listen_fd, SHUT_RDWR);
        connections_drain(server->connections, DRAIN_MS);
        connections_close(server->connections);
        MHD_stop_daemon(server->daemon);
        if (listen_fd >= 0)
            close(listen_fd);
    }
    connections_free(server->connections);
    free(server);
}
