/* SPDX-License-Identifier: MIT */
/*
 * The ways from libmicrohttpd to an exchange, and its settings.
 */
#include "service/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/connections.h"
#include "service/exchange.h"

enum {
    CONNECTIONS_MAX = 128,
    IDLE_S = 30,                   /* between two bytes */
    HEADER_MAX_BYTES = 128 * 1024, /* of a request; the write buffer comes from it too */
    STACK_BYTES = 2 * 1024 * 1024, /* JSON and MIME nest, within their libraries' bounds */
    DRAIN_MS = 10 * 1000,
};

struct server {
    struct MHD_Daemon *daemon;
    struct connections *connections;
    const struct account *account;
};

static struct connection *connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void enter(struct server *server, struct MHD_Connection *connection, enum connection_phase phase)
{
    struct connection *watched = connection_of(connection);
    if (watched != NULL)
        connections_enter(server->connections, watched, phase);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = connections_add(server->connections, info->connect_fd);
    } else if (*socket_context != NULL) {
        connections_remove(server->connections, *socket_context);
        *socket_context = NULL;
    }
}

static void *on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    struct server *server = context;
    enter(server, connection, CONNECTION_RECEIVING);
    return exchange_new(server->account, target);
}

static enum MHD_Result answer(struct server *server, struct exchange *exchange,
                              struct MHD_Connection *connection)
{
    enum MHD_Result result = exchange_answer(exchange, connections_is_draining(server->connections));
    enter(server, connection, CONNECTION_SENDING);
    return result;
}

/* Called first with the header alone, then for each piece of the body, then without one. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **request_context)
{
    (void)url, (void)version;
    struct server *server = context;
    struct exchange *exchange = *request_context;
    if (exchange == NULL)
        return MHD_NO;
    if (exchange_begin(exchange, connection, method))
        return exchange_is_settled(exchange) ? answer(server, exchange, connection) : MHD_YES;
    if (*upload_data_size == 0)
        return answer(server, exchange, connection);
    bool is_taken = exchange_receive(exchange, upload_data, *upload_data_size);
    *upload_data_size = 0;
    return is_taken ? MHD_YES : MHD_NO;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    (void)code;
    exchange_free(*request_context);
    *request_context = NULL;
    enter(context, connection, CONNECTION_IDLE);
}

int server_start(int listen_fd, const struct account *account, struct server **ret_server)
{
    struct server *server = calloc(1, sizeof(*server));
    int error = server != NULL ? connections_new(clock_system(), &server->connections) : -ENOMEM;
    if (error != 0) {
        close(listen_fd);
        free(server);
        return error;
    }
    server->account = account;
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL,
        NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MAX_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_URI_LOG_CALLBACK,
        on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_END);
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
        MHD_stop_daemon(server->daemon);
        if (listen_fd >= 0)
            close(listen_fd);
    }
    connections_free(server->connections);
    free(server);
}
