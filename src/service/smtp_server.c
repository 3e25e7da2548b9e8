/* SPDX-License-Identifier: MIT */
/*
 * One thread accepts connections, and each of them gets a thread of a pool. A connection (connections.h) is
 * idle before a command, receiving during the text of a message, working while the message is stored, and
 * sending during an answer.
 */
#include "service/smtp_server.h"

#include <errno.h>
#include <glib.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "service/connections.h"
#include "service/delivery.h"
#include "service/inbox.h"

enum {
    CONNECTIONS_SPARE = 32, /* for connections that were shut down, until they are closed */
    DRAIN_MS = 10 * 1000,
    NO_RESOURCES_MS = 100, /* pause between a failed accept() and the next */
    LINGER_MS = 500,       /* time for bytes that a client still sends after the last answer */
    LINGER_READS_MAX = 64,
    READ_BYTES = 16 * 1024,
    TEXTS_MAX_BYTES = 250 * 1000 * 1000, /* texts of all messages under way, together */
    ANSWERS_MAX_BYTES = 1024 * 1024,     /* longer than the answers to READ_BYTES of commands */
};

struct smtp_server {
    struct smtp_server_config config;
    struct connections *connections;
    struct worker_pool *pool;
    pthread_t thread;
    bool has_thread;
    atomic_size_t clients;
    atomic_size_t text_bytes; /* of the messages under way */
};

struct smtp_client {
    struct worker_job job;
    struct smtp_server *server;
    struct open_connection *connection;
    int fd;
    SSL *tls; /* NULL before STARTTLS */
    struct strbuf answers;
};

/* ---------------------------------------------------------------- the calls of a session */

static const char *check_recipient(void *context, const char *address)
{
    const struct smtp_client *client = context;
    const struct smtp_server_config *config = &client->server->config;
    if (delivery_makes_inbox(config->new_inboxes, address))
        return NULL;
    _cleanup_reader_ struct connection *connection = NULL;
    _cleanup_inbox_ struct service_inbox inbox = {0};
    int error = database_begin_read(config->database, &connection);
    if (error == 0)
        error = service_inbox_find_for_mail(connection, address, &inbox);
    if (error == -ENOENT)
        return config->new_inboxes == NULL
                   ? "550 5.1.1 No inbox has this address"
                   : "550 5.7.1 No inbox has this address, and mail to other domains is not taken by SMTP";
    return error != 0 ? "451 4.3.0 Whether there is such an inbox cannot be seen now; try again later" : NULL;
}

const char *smtp_server_answer(int error)
{
    switch (error) {
    case 0:
        return "250 2.0.0 The message is kept";
    case -ENOMEM:
        return "452 4.3.1 There is not enough memory for the message now; try again later";
    case -ENOSPC:
    case -EDQUOT:
        return "452 4.3.1 The disk is full; try again later";
    case -EBUSY:
        return "451 4.3.0 The data are in use by another program; try again later";
    case -EUSERS:
        return "452 4.3.1 There are 10,000 inboxes; mail makes no more of them";
    case -ENOENT: /* the address of an inbox was changed after RCPT; the client should repeat RCPT */
        return "451 4.2.1 A recipient's inbox is gone; try again";
    default:
        return "451 4.3.0 The message could not be kept; try again later";
    }
}

static const char *deliver_message(void *context, const struct smtp_message *message)
{
    const struct smtp_client *client = context;
    const struct smtp_server_config *config = &client->server->config;
    size_t unknown = 0;
    connections_set_phase(client->server->connections, client->connection, CONNECTION_WORKING);
    int error = delivery_receive(config->database, message, config->new_inboxes, &unknown);
    if (error != 0)
        log_error("a message that came in could not be kept: %s", strerrordesc_np(-error));
    return smtp_server_answer(error);
}

/* ---------------------------------------------------------------- a connection */

static bool send_all(const struct smtp_client *client, const char *bytes, size_t len)
{
    if (client->tls != NULL)
        return SSL_write(client->tls, bytes, (int)len) > 0;
    while (len > 0) {
        ssize_t sent = send(client->fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* Sends the answers and enters the next phase. Returns false if the connection must be closed. */
static bool send_answers(struct smtp_client *client, const struct smtp_session *session)
{
    struct connections *connections = client->server->connections;
    connections_set_phase(connections, client->connection, CONNECTION_SENDING);
    bool is_in_message = smtp_session_is_in_message(session);
    bool is_last = smtp_session_must_close(session);
    if (!is_last && !is_in_message && connections_is_draining(connections)) {
        strbuf_append_str(&client->answers, "421 4.3.2 The service is ending\r\n");
        is_last = true;
    }
    if (!send_all(client, strbuf_str(&client->answers), client->answers.len) || is_last)
        return false;
    strbuf_clear(&client->answers);
    connections_set_phase(connections, client->connection,
                          is_in_message ? CONNECTION_RECEIVING : CONNECTION_IDLE);
    return true;
}

/* Returns the number of bytes; 0 at the end of the connection, after an error, or after the time-out. */
static size_t receive(const struct smtp_client *client, char bytes[READ_BYTES])
{
    static const char late[] = "421 4.4.2 Nothing came for too long\r\n";
    ssize_t len = client->tls != NULL ? SSL_read(client->tls, bytes, READ_BYTES)
                                      : recv(client->fd, bytes, READ_BYTES, 0);
    if (len < 0 &&
        (client->tls != NULL ? SSL_get_error(client->tls, (int)len) == SSL_ERROR_WANT_READ : errno == EAGAIN))
        send_all(client, late, strlen(late));
    return len > 0 ? (size_t)len : 0;
}

/* The connection stays idle during the handshake, so that it can be cut off to make room for others. */
static bool begin_tls(struct smtp_client *client, struct smtp_session *session)
{
    SSL *tls = SSL_new(client->server->config.tls);
    if (tls == NULL || SSL_set_fd(tls, client->fd) != 1 || SSL_accept(tls) != 1) {
        log_error("TLS with a client that brings mail failed: %s", tls_describe_error());
        SSL_free(tls);
        return false;
    }
    client->tls = tls;
    smtp_session_restart_with_tls(session);
    return true;
}

static void run_session(struct smtp_client *client, struct smtp_session *session)
{
    char bytes[READ_BYTES];
    size_t len;
    bool is_open = send_answers(client, session);
    while (is_open && (len = receive(client, bytes)) > 0) {
        smtp_session_receive(session, bytes, len);
        explicit_bzero(bytes, len); /* the bytes may contain a password */
        is_open = client->answers.len == 0 || send_answers(client, session);
        if (is_open && smtp_session_wants_tls(session))
            is_open = begin_tls(client, session);
    }
    if (client->tls != NULL)
        SSL_shutdown(client->tls);
    shutdown(client->fd, SHUT_WR);
    /* If a socket is closed while bytes are unread, the client may lose the last answer. */
    struct pollfd wanted = {.fd = client->fd, .events = POLLIN};
    for (unsigned int i = 0; i < LINGER_READS_MAX; i++) {
        if (poll(&wanted, 1, LINGER_MS) <= 0 || recv(client->fd, bytes, sizeof(bytes), 0) <= 0)
            break;
    }
}

static void client_free(struct smtp_client *client)
{
    struct smtp_server *server = client->server;
    connections_remove(server->connections, client->connection);
    SSL_free(client->tls);
    ERR_clear_error(); /* the next client of this thread must not get these errors */
    close(client->fd);
    strbuf_release(&client->answers);
    free(client);
    atomic_fetch_sub(&server->clients, 1);
}

static void serve_client(struct worker_job *job)
{
    struct smtp_client *client = (struct smtp_client *)job;
    const struct smtp_server_config *config = &client->server->config;
    const struct smtp_host host = {
        .context = client,
        .dialect = config->dialect,
        .program = "inboxd",
        .domain = config->domain,
        .takes_login = config->dialect == DIALECT_SMTP,
        .offers_tls = config->tls != NULL,
        .message_max_bytes = DELIVERY_MAX_BYTES,
        .texts_max_bytes = TEXTS_MAX_BYTES,
        .text_bytes = &client->server->text_bytes,
        .check_recipient = check_recipient,
        .deliver = deliver_message,
    };
    struct smtp_session *session = smtp_session_new(&host, &client->answers);
    run_session(client, session);
    smtp_session_free(session);
    client_free(client);
}

/* ---------------------------------------------------------------- accepting */

/* Takes ownership of the socket. */
static void add_client(struct smtp_server *server, int fd)
{
    static const char busy[] = "421 4.3.2 Too many connections; try again later\r\n";
    const struct timeval idle = {.tv_sec = server->config.idle_ms / 1000,
                                 .tv_usec = server->config.idle_ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
    struct open_connection *connection = NULL;
    if (atomic_load(&server->clients) < server->config.connections_max + CONNECTIONS_SPARE)
        connection = connections_add(server->connections, fd);
    if (connection == NULL) {
        send(fd, busy, strlen(busy), MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
        return;
    }
    atomic_fetch_add(&server->clients, 1);
    struct smtp_client *client = g_new(struct smtp_client, 1);
    *client =
        (struct smtp_client){.job.run = serve_client, .server = server, .connection = connection, .fd = fd};
    client->answers = STRBUF_INIT(ANSWERS_MAX_BYTES);
    if (worker_pool_submit(server->pool, &client->job) != 0)
        client_free(client);
}

static void *accept_clients(void *argument)
{
    struct smtp_server *server = argument;
    for (;;) {
        int fd = accept4(server->config.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            add_client(server, fd);
        else if (errno == EINVAL) /* smtp_server_free() has shut the socket down */
            return NULL;
        else if (errno != ECONNABORTED)
            poll(NULL, 0, NO_RESOURCES_MS);
    }
}

/* ---------------------------------------------------------------- the server */

void smtp_server_free(struct smtp_server *server)
{
    if (server == NULL)
        return;
    if (server->has_thread) {
        shutdown(server->config.listen_fd, SHUT_RDWR); /* wakes the thread that accepts */
        pthread_join(server->thread, NULL);
        connections_end(server->connections, DRAIN_MS);
    }
    worker_pool_free(server->pool);
    connections_free(server->connections);
    free(server);
}

DEFINE_CLEANUP_FREE(smtp_server)

int smtp_server_start(const struct smtp_server_config *config, struct smtp_server **ret_server)
{
    _cleanup_(cleanup_smtp_server_free) struct smtp_server *server = g_new0(struct smtp_server, 1);
    server->config = *config;
    server->connections = connections_new(clock_system(), config->connections_max);
    server->pool = worker_pool_new("inboxd-smtp", (unsigned int)config->connections_max + CONNECTIONS_SPARE);
    int error = thread_start(&server->thread, "inboxd-accept", accept_clients, server);
    if (error != 0)
        return error;
    server->has_thread = true;
    *ret_server = TAKE_PTR(server);
    return 0;
}
