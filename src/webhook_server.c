/* SPDX-License-Identifier: MIT */
#include "webhook_server.h"

#include <errno.h>
#include <glib.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "base/strbuf.h"
#include "mail/webhook.h"
#include "service/connections.h"
#include "service/listener.h"
#include "service/request_head.h"
#include "store/store.h"

enum {
    CONNECTIONS_MAX = 32,
    CONNECTIONS_SPARE = 32, /* connections accepted while others are shut down; further clients wait */
    IDLE_S = 10,            /* the longest time between two bytes */
    HEAD_MAX_BYTES = 32 * 1024,
    RECEIVED_MAX_BYTES = 2 * WEBHOOK_BODY_MAX_BYTES /* the longest body that is received to be discarded */
};

struct webhook_server {
    struct store *store;
    char *secret;
    int listen_fd;
    char *address; /* with the real port; NULL before the server listens */
    struct connections *connections;
    struct MHD_Daemon *daemon;
    bool has_logged_refusal; /* a refusal was logged since the last accepted webhook */
    struct webhook_memory memory;
};

/* ---------------------------------------------------------------- one POST */

/* A connection and the one request on it. The body of a refused request is received and discarded, because
 * closing a connection with unread bytes can discard the answer on its way. */
struct post {
    struct open_connection *connection; /* NULL if there are too many connections */
    struct strbuf body;
    uint64_t received_bytes;
    unsigned int status; /* status of the answer; 0 until it is decided */
    bool has_begun;
};

static const char *find_header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void refuse(struct post *post, unsigned int status)
{
    if (post->status == 0)
        post->status = status;
    strbuf_release(&post->body);
}

/* Checks the header. Returns true if the request is to be refused before its body is received: the client
 * waits for an answer to `Expect`, would send too much, or does not say where the body ends. */
static bool post_check_head(struct post *post, struct MHD_Connection *connection, const char *method)
{
    const char *length = find_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t body_bytes = length != NULL ? strtoull(length, NULL, 10) : 0;
    post->has_begun = true;
    post->body = STRBUF_INIT(WEBHOOK_BODY_MAX_BYTES);
    struct request_head head;
    request_head_read(connection, &head);
    if (!head.has_one_end)
        refuse(post, MHD_HTTP_BAD_REQUEST);
    else if (body_bytes > WEBHOOK_BODY_MAX_BYTES)
        refuse(post, MHD_HTTP_CONTENT_TOO_LARGE);
    else if (strcmp(method, MHD_HTTP_METHOD_POST) != 0 ||
             find_header(connection, WEBHOOK_SIGNATURE_HEADER) == NULL)
        refuse(post, MHD_HTTP_UNAUTHORIZED);
    return post->status != 0 && (find_header(connection, MHD_HTTP_HEADER_EXPECT) != NULL ||
                                 body_bytes > RECEIVED_MAX_BYTES || !head.has_one_end);
}

/* Checks the whole body, and requests the sync. Logs only the first refusal until a webhook is accepted, for
 * strangers must not fill the log. */
static void post_check_body(struct post *post, struct MHD_Connection *connection,
                            struct webhook_server *server)
{
    _cleanup_free_ char *inbox_id = NULL;
    const char *signature = find_header(connection, WEBHOOK_SIGNATURE_HEADER);
    int error = webhook_check(server->secret, signature, strbuf_str(&post->body), post->body.len,
                              clock_realtime_ms(clock_system()), &inbox_id);
    if (error == 0) {
        if (webhook_memory_add(&server->memory, signature))
            store_request_sync(server->store, inbox_id);
        server->has_logged_refusal = false;
        post->status = MHD_HTTP_NO_CONTENT;
        return;
    }
    refuse(post, MHD_HTTP_UNAUTHORIZED);
    if (server->has_logged_refusal)
        return;
    log_warning("refused a webhook: %s",
                error == -EACCES   ? "it is not signed with this secret"
                : error == -ESTALE ? "its timestamp is over five minutes away from this machine's clock"
                                   : "it is not what the service sends");
    server->has_logged_refusal = true;
}

static enum MHD_Result send_answer(const struct post *post, struct MHD_Connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, post->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---------------------------------------------------------------- the calls of libmicrohttpd */

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct webhook_server *server = context;
    struct post *post = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = post = g_new0(struct post, 1);
        post->connection = connections_add(
            server->connections,
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
        return;
    }
    if (post->connection != NULL)
        connections_remove(server->connections, post->connection);
    strbuf_release(&post->body);
    free(post);
}

/* Called first with the header alone, then for each piece of the body, then once without data. Returns MHD_NO
 * to close the connection. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **request_context)
{
    struct post *post =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (post->connection == NULL)
        return MHD_NO;
    if (!post->has_begun)
        return post_check_head(post, connection, method) ? send_answer(post, connection) : MHD_YES;
    size_t len = *upload_data_size;
    *upload_data_size = 0;
    if (len > 0) {
        if (post->status == 0 && strbuf_append(&post->body, upload_data, len) != 0)
            refuse(post, MHD_HTTP_CONTENT_TOO_LARGE);
        post->received_bytes += len;
        return post->received_bytes <= RECEIVED_MAX_BYTES ? MHD_YES : MHD_NO;
    }
    if (post->status == 0)
        post_check_body(post, connection, context);
    return send_answer(post, connection);
}

/* ---------------------------------------------------------------- life */

void webhook_server_free(struct webhook_server *server)
{
    if (server == NULL)
        return;
    if (server->daemon != NULL) {
        /* Refuses further clients at once, instead of leaving them to wait. */
        shutdown(MHD_quiesce_daemon(server->daemon), SHUT_RDWR);
        connections_end(server->connections, 0);
        MHD_stop_daemon(server->daemon);
    }
    connections_free(server->connections);
    listener_close(server->listen_fd, server->address);
    secret_free(server->secret);
    free(server);
}
DEFINE_CLEANUP_FREE(webhook_server)

int webhook_server_start(const char *listen, const char *secret_file, struct store *store,
                         struct webhook_server **ret_server)
{
    _cleanup_(cleanup_webhook_server_free) struct webhook_server *server = g_new0(struct webhook_server, 1);
    server->store = store;
    _cleanup_free_ char *reason = NULL;
    int error = secret_file_read(secret_file, "the secret of webhooks", &server->secret, &reason);
    if (error != 0)
        return complain(error, "%s", reason);
    error = listener_open(listen, &server->listen_fd, &server->address);
    server->connections = connections_new(clock_system(), CONNECTIONS_MAX);
    if (error == 0)
        server->daemon = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL, NULL, on_request, server,
            MHD_OPTION_LISTEN_SOCKET, server->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned int)(CONNECTIONS_MAX + CONNECTIONS_SPARE), MHD_OPTION_CONNECTION_TIMEOUT,
            (unsigned int)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_MAX_BYTES,
            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    if (error == 0 && server->daemon == NULL)
        error = -EIO;
    if (error != 0)
        return complain(error, "cannot listen for webhooks at %s: %s", listen,
                        error == -EINVAL ? "not ADDRESS:PORT, with an address in numbers" : strerror(-error));
    log_info("webhooks are taken at %s", server->address);
    *ret_server = TAKE_PTR(server);
    return 0;
}
