/* SPDX-License-Identifier: MIT */
/*
 * The scripted server: accepts connections, reads requests, and keeps them. scripted_answer.c writes the
 * answers.
 */
#include "support/scripted_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "support/scripted_answer.h"

enum {
    STEPS_MAX = 256,
    REQUESTS_MAX = 4096,
    CONNECTIONS_MAX = 1024,
    HEAD_MAX_BYTES = 64 * 1024,
    BODY_MAX_BYTES = 256 * 1024 * 1024,
    SLOW_READ_BYTES = 64 * 1024,
    HEADER_VALUE_MAX_BYTES = 4096,
    WAIT_S = 10,
};

struct connection {
    struct scripted_server *server;
    int fd;
    unsigned int number;
    pthread_t thread;
    char *read_ahead; /* bytes that came after the last request */
    size_t read_ahead_len;
};

struct scripted_server {
    int listen_fd;
    int stop_fd; /* readable when the server stops */
    char url[256];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct scripted_step steps[STEPS_MAX]; /* protected by `lock`, like all members below */
    size_t first_step;
    size_t steps_len;
    struct scripted_step default_step;
    struct scripted_request *requests[REQUESTS_MAX]; /* pointers, so that callers can keep them */
    size_t requests_len;
    struct connection *connections[CONNECTIONS_MAX];
    unsigned int connections_len;
};

static void check(bool is_fine, const char *what)
{
    if (is_fine)
        return;
    perror(what);
    abort();
}

static void *checked(void *memory)
{
    check(memory != NULL, "scripted server: memory");
    return memory;
}

/* ---------------------------------------------------------------- reading requests */

static struct scripted_step take_step(struct scripted_server *server)
{
    pthread_mutex_lock(&server->lock);
    struct scripted_step step = server->default_step;
    if (server->first_step < server->steps_len)
        step = server->steps[server->first_step++];
    pthread_mutex_unlock(&server->lock);
    return step;
}

static void request_free(struct scripted_request *request)
{
    free(request->method);
    free(request->target);
    free(request->head);
    free(request->body);
    free(request);
}

static void keep_request(struct scripted_server *server, struct scripted_request *request)
{
    pthread_mutex_lock(&server->lock);
    check(server->requests_len < REQUESTS_MAX, "scripted server: too many requests");
    server->requests[server->requests_len++] = request;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Waits for bytes without reading them. Returns false if the peer closed, or the server stops. */
static bool wait_readable(struct connection *connection)
{
    struct pollfd polled[] = {{.fd = connection->fd, .events = POLLIN},
                              {.fd = connection->server->stop_fd, .events = POLLIN}};
    if (poll(polled, 2, -1) < 0 || polled[1].revents != 0)
        return false;
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK) == 1;
}

static size_t receive(struct connection *connection, char *buffer, size_t len)
{
    if (!wait_readable(connection))
        return 0;
    ssize_t got = recv(connection->fd, buffer, len, 0);
    return got > 0 ? (size_t)got : 0;
}

/* Reads a head and the part of the body that came with it. Returns the text, or NULL. */
static char *read_head(struct connection *connection, size_t *ret_len, size_t *ret_head_len)
{
    char *text = checked(calloc(1, HEAD_MAX_BYTES + 1));
    size_t len = connection->read_ahead_len;
    if (len > 0)
        memcpy(text, connection->read_ahead, len);
    connection->read_ahead_len = 0;
    char *end;
    while ((end = memmem(text, len, "\r\n\r\n", 4)) == NULL) {
        size_t got = len < HEAD_MAX_BYTES ? receive(connection, text + len, HEAD_MAX_BYTES - len) : 0;
        if (got == 0) {
            free(text);
            return NULL;
        }
        len += got;
    }
    *ret_len = len;
    *ret_head_len = (size_t)(end - text) + 4;
    return text;
}

static struct scripted_request *parse_head(const char *text, size_t head_len)
{
    struct scripted_request *request = checked(calloc(1, sizeof(*request)));
    char *line_end = checked(memmem(text, head_len, "\r\n", 2));
    request->method = checked(strndup(text, strcspn(text, " ")));
    const char *target = text + strlen(request->method) + 1;
    request->target = checked(strndup(target, strcspn(target, " \r")));
    request->head = checked(strndup(line_end + 2, head_len - (size_t)(line_end - text) - 2));
    return request;
}

/* Returns false if the connection ended before the end of the body. */
static bool read_body(struct connection *connection, struct scripted_request *request, const char *ahead,
                      size_t ahead_len, size_t stop_after, int pause_ms)
{
    const char *length = scripted_request_header(request, "Content-Length");
    size_t total = length != NULL ? strtoul(length, NULL, 10) : 0;
    size_t wanted = total < stop_after ? total : stop_after;
    check(total < BODY_MAX_BYTES, "scripted server: too long a body");
    request->body = checked(calloc(1, total + 1));
    size_t len = ahead_len < total ? ahead_len : total;
    memcpy(request->body, ahead, len);
    size_t behind = ahead_len - len; /* bytes of the next request */
    if (behind > 0) {
        connection->read_ahead = checked(realloc(connection->read_ahead, behind));
        memcpy(connection->read_ahead, ahead + len, behind);
        connection->read_ahead_len = behind;
    }
    struct pollfd stop = {.fd = connection->server->stop_fd, .events = POLLIN};
    size_t most = pause_ms > 0 ? SLOW_READ_BYTES : total;
    while (len < wanted && (pause_ms == 0 || poll(&stop, 1, pause_ms) == 0)) {
        size_t left = total - len;
        size_t got = receive(connection, request->body + len, left < most ? left : most);
        if (got == 0)
            break;
        len += got;
    }
    request->body_len = len;
    return len >= wanted;
}

/* Reads one request and answers it. Returns false at the end of the connection. */
static bool serve_one(struct connection *connection)
{
    struct scripted_server *server = connection->server;
    if (connection->read_ahead_len == 0 && !wait_readable(connection))
        return false;
    struct scripted_step step = take_step(server);
    if (step.fault == SCRIPTED_RESET_BEFORE) {
        struct scripted_request *nothing = checked(calloc(1, sizeof(*nothing)));
        nothing->connection = connection->number;
        keep_request(server, nothing);
        scripted_answer(connection->fd, server->stop_fd, &step);
        return false;
    }
    size_t len, head_len;
    char *text = read_head(connection, &len, &head_len);
    if (text == NULL)
        return false;
    struct scripted_request *request = parse_head(text, head_len);
    request->connection = connection->number;
    size_t stop_after = SIZE_MAX;
    if (step.fault == SCRIPTED_ANSWER_BEFORE_BODY)
        stop_after = 0;
    if (step.fault == SCRIPTED_RESET_IN_REQUEST)
        stop_after = 1;
    bool is_whole =
        read_body(connection, request, text + head_len, len - head_len, stop_after, step.read_pause_ms);
    free(text);
    keep_request(server, request);
    return is_whole && scripted_answer(connection->fd, server->stop_fd, &step);
}

static void *run_connection(void *argument)
{
    struct connection *connection = argument;
    while (serve_one(connection))
        ;
    close(connection->fd);
    return NULL;
}

static void *run_accept(void *argument)
{
    struct scripted_server *server = argument;
    struct pollfd polled[] = {{.fd = server->listen_fd, .events = POLLIN},
                              {.fd = server->stop_fd, .events = POLLIN}};
    while (poll(polled, 2, -1) > 0 && polled[1].revents == 0) {
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        struct connection *connection = checked(calloc(1, sizeof(*connection)));
        connection->server = server;
        connection->fd = fd;
        pthread_mutex_lock(&server->lock);
        check(server->connections_len < CONNECTIONS_MAX, "scripted server: too many connections");
        server->connections[server->connections_len++] = connection;
        connection->number = server->connections_len;
        pthread_mutex_unlock(&server->lock);
        check(pthread_create(&connection->thread, NULL, run_connection, connection) == 0, "pthread_create");
    }
    return NULL;
}

/* ---------------------------------------------------------------- start and stop */

static struct scripted_server *start(int listen_fd)
{
    struct scripted_server *server = checked(calloc(1, sizeof(*server)));
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    server->listen_fd = listen_fd;
    server->stop_fd = eventfd(0, EFD_CLOEXEC);
    check(server->stop_fd >= 0, "eventfd");
    check(listen(listen_fd, 128) == 0, "listen");
    snprintf(server->url, sizeof(server->url), "http://localhost");
    check(pthread_create(&server->thread, NULL, run_accept, server) == 0, "pthread_create");
    return server;
}

struct scripted_server *scripted_server_start(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0, "bind");
    check(getsockname(fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    struct scripted_server *server = start(fd);
    snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
    return server;
}

struct scripted_server *scripted_server_start_unix(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
    return start(fd);
}

void scripted_server_stop(struct scripted_server *server)
{
    check(eventfd_write(server->stop_fd, 1) == 0, "eventfd_write");
    pthread_join(server->thread, NULL);
    for (unsigned int i = 0; i < server->connections_len; i++) {
        pthread_join(server->connections[i]->thread, NULL);
        free(server->connections[i]->read_ahead);
        free(server->connections[i]);
    }
    scripted_server_clear(server);
    close(server->listen_fd);
    close(server->stop_fd);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *scripted_server_url(const struct scripted_server *server)
{
    return server->url;
}

/* ---------------------------------------------------------------- the script and the record */

void scripted_server_push(struct scripted_server *server, struct scripted_step step)
{
    pthread_mutex_lock(&server->lock);
    check(server->steps_len < STEPS_MAX, "scripted server: too many steps");
    server->steps[server->steps_len++] = step;
    pthread_mutex_unlock(&server->lock);
}

void scripted_server_set_default(struct scripted_server *server, struct scripted_step step)
{
    pthread_mutex_lock(&server->lock);
    server->default_step = step;
    pthread_mutex_unlock(&server->lock);
}

void scripted_server_clear(struct scripted_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->requests_len; i++)
        request_free(server->requests[i]);
    server->requests_len = 0;
    server->first_step = 0;
    server->steps_len = 0;
    pthread_mutex_unlock(&server->lock);
}

unsigned int scripted_server_connections(struct scripted_server *server)
{
    pthread_mutex_lock(&server->lock);
    unsigned int number = server->connections_len;
    pthread_mutex_unlock(&server->lock);
    return number;
}

size_t scripted_server_requests(struct scripted_server *server)
{
    pthread_mutex_lock(&server->lock);
    size_t number = server->requests_len;
    pthread_mutex_unlock(&server->lock);
    return number;
}

void scripted_server_wait(struct scripted_server *server, size_t requests)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    int rc = 0;
    pthread_mutex_lock(&server->lock);
    while (server->requests_len < requests && rc == 0)
        rc = pthread_cond_timedwait(&server->changed, &server->lock, &until);
    pthread_mutex_unlock(&server->lock);
}

const struct scripted_request *scripted_server_request(struct scripted_server *server, size_t number)
{
    pthread_mutex_lock(&server->lock);
    const struct scripted_request *request = number < server->requests_len ? server->requests[number] : NULL;
    pthread_mutex_unlock(&server->lock);
    return request;
}

const char *scripted_request_header(const struct scripted_request *request, const char *name)
{
    static _Thread_local char value[HEADER_VALUE_MAX_BYTES];
    size_t name_len = strlen(name);
    for (const char *line = request->head; line != NULL && *line != '\0' && *line != '\r';) {
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            const char *start = line + name_len + 1;
            start += strspn(start, " ");
            snprintf(value, sizeof(value), "%.*s", (int)strcspn(start, "\r"), start);
            return value;
        }
        line = strstr(line, "\r\n");
        line = line != NULL ? line + 2 : NULL;
    }
    return NULL;
}
