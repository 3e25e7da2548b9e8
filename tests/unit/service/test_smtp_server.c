/* SPDX-License-Identifier: MIT */
/*
 * The SMTP server: limits on clients, time-outs, and how the server ends.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "service/delivery.h"
#include "service/listener.h"
#include "service/smtp_server.h"
#include "sql/query.h"
#include "support/temp_dir.h"

enum {
    PATIENCE_MS = 30 * 1000,
};

#define BEGIN "EHLO me\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"

struct fixture {
    struct temp_dir dir;
    char listen[300];
    int listen_fd;
    char *address;
    struct database *database;
    struct smtp_server *server;
};

static void start(struct fixture *fixture, const char *new_inboxes, size_t connections_max, int64_t idle_ms)
{
    assert_int_equal(0, listener_open(fixture->listen, &fixture->listen_fd, &fixture->address));
    const struct smtp_server_config config = {
        .listen_fd = fixture->listen_fd,
        .dialect = DIALECT_SMTP,
        .domain = "here.example",
        .database = fixture->database,
        .new_inboxes = new_inboxes,
        .connections_max = connections_max,
        .idle_ms = idle_ms,
    };
    assert_int_equal(0, smtp_server_start(&config, &fixture->server));
}

static void fixture_open(struct fixture *fixture, size_t connections_max, int64_t idle_ms)
{
    temp_dir_init(&fixture->dir);
    snprintf(fixture->listen, sizeof(fixture->listen), "unix:%s/smtp", fixture->dir.path);
    assert_int_equal(0, tables_open(fixture->dir.fd, DATABASE_SHARED, &fixture->database));
    start(fixture, "", connections_max, idle_ms);
}

static void stop(struct fixture *fixture)
{
    smtp_server_free(fixture->server);
    listener_close(fixture->listen_fd, fixture->address);
}

static void fixture_restart(struct fixture *fixture, const char *new_inboxes)
{
    stop(fixture);
    start(fixture, new_inboxes, 10, PATIENCE_MS);
}

static void fixture_close(struct fixture *fixture)
{
    stop(fixture);
    database_free(fixture->database);
    temp_dir_release(&fixture->dir);
}

static int64_t count_emails(const struct fixture *fixture)
{
    struct connection *connection = NULL;
    int64_t count = 0;
    assert_int_equal(0, database_begin_read(fixture->database, &connection));
    assert_int_equal(0, query_integers(connection, &count, 1, "SELECT count(*) FROM emails", ""));
    database_return_reader(connection);
    return count;
}

/* ---------------------------------------------------------------- a client */

static struct sockaddr_un address_of(const char *listen)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = listen + strlen("unix:");
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

static int dial(const struct fixture *fixture)
{
    struct sockaddr_un address = address_of(fixture->listen);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(strlen(text), send(fd, text, strlen(text), MSG_NOSIGNAL));
}

/* Reads until the last whole line begins with `code`. Returns false if the connection ends before. */
static bool receives_code(int fd, const char *code)
{
    char text[8192] = "";
    size_t len = 0;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    for (;;) {
        char *line = len > 2 ? memrchr(text, '\n', len - 1) : NULL;
        line = line != NULL ? line + 1 : text;
        if (len > 0 && text[len - 1] == '\n' && strncmp(line, code, strlen(code)) == 0 && line[3] == ' ')
            return true;
        if (poll(&wanted, 1, PATIENCE_MS) != 1)
            fail_msg("%s does not come, but: %s", code, text);
        ssize_t got = recv(fd, text + len, sizeof(text) - len - 1, 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
    }
}

static bool is_cut_off(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* ---------------------------------------------------------------- tests */

TEST(a_silent_client_gets_421)
{
    struct fixture fixture;
    fixture_open(&fixture, 10, 50);
    int silent = dial(&fixture);
    assert_true(receives_code(silent, "421"));
    assert_false(receives_code(silent, "---"));
    int within = dial(&fixture);
    say(within, BEGIN "half a message");
    assert_true(receives_code(within, "421"));
    close(silent);
    close(within);
    fixture_close(&fixture);
}

TEST(a_client_silent_in_the_handshake_is_disconnected)
{
    struct fixture fixture;
    fixture_open(&fixture, 10, PATIENCE_MS);
    stop(&fixture);
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    assert_int_equal(0, listener_open(fixture.listen, &fixture.listen_fd, &fixture.address));
    const struct smtp_server_config config = {
        .listen_fd = fixture.listen_fd,
        .domain = "here.example",
        .database = fixture.database,
        .new_inboxes = "",
        .connections_max = 10,
        .tls = tls,
        .idle_ms = 50,
    };
    assert_int_equal(0, smtp_server_start(&config, &fixture.server));
    int client = dial(&fixture);
    say(client, "EHLO me\r\nSTARTTLS\r\n");
    assert_true(receives_code(client, "220 2.0.0"));
    assert_false(receives_code(client, "---"));
    close(client);
    fixture_close(&fixture);
    SSL_CTX_free(tls);
}

TEST(the_oldest_idle_connection_is_replaced)
{
    struct fixture fixture;
    fixture_open(&fixture, 2, PATIENCE_MS);
    int idle = dial(&fixture);
    assert_true(receives_code(idle, "220"));
    int busy = dial(&fixture);
    say(busy, BEGIN "1\r\n");
    assert_true(receives_code(busy, "354"));
    /* until the server has noticed that `idle` is idle, it refuses the new client */
    for (size_t i = 0; i < 10000 && !is_cut_off(idle); i++) {
        int other = dial(&fixture);
        receives_code(other, "220");
        close(other);
    }
    assert_true(is_cut_off(idle));
    say(busy, ".\r\nQUIT\r\n");
    assert_true(receives_code(busy, "221"));
    close(busy);
    close(idle);
    assert_int_equal(1, count_emails(&fixture));
    fixture_close(&fixture);
}

TEST(a_client_is_refused_while_all_connections_are_busy)
{
    struct fixture fixture;
    fixture_open(&fixture, 2, PATIENCE_MS);
    int busy[2];
    for (size_t i = 0; i < 2; i++) {
        busy[i] = dial(&fixture);
        say(busy[i], BEGIN "x");
        assert_true(receives_code(busy[i], "354"));
    }
    int other = dial(&fixture);
    assert_true(receives_code(other, "421"));
    close(other);
    for (size_t i = 0; i < 2; i++) {
        say(busy[i], "\r\n.\r\nQUIT\r\n");
        assert_true(receives_code(busy[i], "221"));
        close(busy[i]);
    }
    assert_int_equal(2, count_emails(&fixture));
    fixture_close(&fixture);
}

static void *free_server(void *argument)
{
    smtp_server_free(argument);
    return NULL;
}

TEST(ending_waits_for_a_message_under_way)
{
    struct fixture fixture;
    fixture_open(&fixture, 10, PATIENCE_MS);
    int idle = dial(&fixture);
    assert_true(receives_code(idle, "220"));
    int busy = dial(&fixture);
    say(busy, BEGIN "1\r\n");
    assert_true(receives_code(busy, "354"));
    pthread_t ending;
    assert_int_equal(0, pthread_create(&ending, NULL, free_server, fixture.server));
    fixture.server = NULL;
    say(busy, "2\r\n.\r\n");
    assert_false(receives_code(busy, "---"));
    pthread_join(ending, NULL);
    assert_false(receives_code(idle, "---"));
    assert_int_equal(1, count_emails(&fixture));
    close(busy);
    close(idle);
    fixture_close(&fixture);
}

TEST(half_a_message_is_not_delivered)
{
    static const char whole[] = BEGIN "Subject: s\r\n\r\ntext\r\n.\r\n";
    struct fixture fixture;
    fixture_open(&fixture, 100, PATIENCE_MS);
    for (size_t len = 1; len < sizeof(whole) - 1; len++) {
        int fd = dial(&fixture);
        assert_int_equal(len, send(fd, whole, len, MSG_NOSIGNAL));
        if (len % 2 == 0) {
            shutdown(fd, SHUT_WR);
            while (receives_code(fd, "---"))
                ;
        }
        close(fd);
    }
    int fd = dial(&fixture);
    say(fd, whole);
    say(fd, "QUIT\r\n");
    assert_true(receives_code(fd, "221"));
    close(fd);
    assert_int_equal(1, count_emails(&fixture));
    fixture_close(&fixture);
}

/* Adds inboxes to the database. */
static void add_inboxes(const struct fixture *fixture, int64_t count)
{
    struct connection *connection = NULL;
    assert_int_equal(0, database_begin_write(fixture->database, &connection));
    int error = query_execute(connection,
                              "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                              " INSERT INTO inboxes (id, address, record) SELECT i, i || '@x', '{}' FROM n",
                              "i", count);
    assert_int_equal(0, database_end_write(fixture->database, error));
}

TEST(mail_makes_no_more_than_ten_thousand_inboxes)
{
    struct fixture fixture;
    fixture_open(&fixture, 10, PATIENCE_MS);
    add_inboxes(&fixture, DELIVERY_INBOXES_MAX - 1);
    int fd = dial(&fixture);
    say(fd, BEGIN);
    assert_true(receives_code(fd, "354"));
    say(fd, ".\r\n");
    assert_true(receives_code(fd, "250"));
    say(fd, "MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nRCPT TO:<c@y>\r\nDATA\r\n.\r\n");
    assert_true(receives_code(fd, "452"));
    say(fd, BEGIN ".\r\nQUIT\r\n");
    assert_true(receives_code(fd, "221"));
    close(fd);
    assert_int_equal(2, count_emails(&fixture));
    fixture_close(&fixture);
}

struct sender {
    pthread_t thread;
    const struct fixture *fixture;
    size_t number;
};

static void *send_messages(void *argument)
{
    const struct sender *sender = argument;
    int fd = dial(sender->fixture);
    for (size_t i = 0; i < 10; i++) {
        char text[300];
        snprintf(
            text, sizeof(text),
            "EHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<r%zu@y>\r\nDATA\r\nMessage-ID: <%zu.%zu@x>\r\n\r\n.\r\n", i,
            sender->number, i);
        say(fd, text);
    }
    say(fd, "QUIT\r\n");
    assert_true(receives_code(fd, "221"));
    close(fd);
    return NULL;
}

TEST(many_clients_can_send_at_once)
{
    struct fixture fixture;
    fixture_open(&fixture, 10, PATIENCE_MS);
    struct sender senders[10];
    for (size_t i = 0; i < ARRAY_LEN(senders); i++) {
        senders[i] = (struct sender){.fixture = &fixture, .number = i};
        assert_int_equal(0, pthread_create(&senders[i].thread, NULL, send_messages, &senders[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(senders); i++)
        pthread_join(senders[i].thread, NULL);
    assert_int_equal(100, count_emails(&fixture));
    fixture_close(&fixture);
}

/* A stopped program accepts no connection: when the queue is full, connect() waits. */
TEST(a_socket_of_a_stuck_server_is_not_replaced)
{
    struct temp_dir dir;
    temp_dir_init(&dir);
    char text[300];
    snprintf(text, sizeof(text), "unix:%s/smtp", dir.path);
    struct sockaddr_un address = address_of(text);
    int stuck = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(stuck, (struct sockaddr *)&address, sizeof(address)));
    assert_int_equal(0, listen(stuck, 0));
    int clients[10];
    size_t len = 0;
    bool is_full = false;
    while (!is_full && len < ARRAY_LEN(clients)) {
        clients[len] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        is_full = connect(clients[len++], (struct sockaddr *)&address, sizeof(address)) != 0;
    }
    assert_true(is_full);
    int fd = -1;
    char *listened = NULL;
    assert_int_equal(-EADDRINUSE, listener_open(text, &fd, &listened));
    for (size_t i = 0; i < len; i++)
        close(clients[i]);
    close(stuck);
    temp_dir_release(&dir);
}

/* ---------------------------------------------------------------- mailboxes */

TEST(with_a_relay_smtp_makes_inboxes_only_in_the_domain)
{
    struct fixture fixture;
    fixture_open(&fixture, 10, PATIENCE_MS);
    int first = dial(&fixture);
    assert_true(receives_code(first, "220"));
    say(first, "EHLO me\r\nMAIL FROM:<a@x>\r\nRCPT TO:<known@y>\r\nDATA\r\n.\r\nQUIT\r\n");
    assert_true(receives_code(first, "221"));
    close(first);
    fixture_restart(&fixture, "here.example");
    static const struct {
        const char *recipient;
        const char *code;
    } cases[] = {
        {"unknown@company.example", "550 5.7.1"},
        {"unknown@not.here.example", "550 5.7.1"},
        {"known@y", "250"},
        {"unknown@HERE.example", "250"},
        {"postmaster", "250"},
    };
    int client = dial(&fixture);
    say(client, "EHLO me\r\nMAIL FROM:<a@x>\r\n");
    assert_true(receives_code(client, "250 2.1.0"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char line[200];
        snprintf(line, sizeof(line), "RCPT TO:<%s>\r\n", cases[i].recipient);
        say(client, line);
        assert_true(receives_code(client, cases[i].code));
    }
    say(client, "DATA\r\n.\r\n");
    assert_true(receives_code(client, "250 2.0.0"));
    assert_int_equal(4, count_emails(&fixture));
    close(client);
    fixture_close(&fixture);
}

TEST(a_failed_delivery_is_answered_with_its_cause)
{
    static const struct {
        int error;
        const char *code;
    } cases[] = {
        {0, "250 2.0.0"},       {-ENOSPC, "452 4.3.1"}, {-EDQUOT, "452 4.3.1"},
        {-ENOMEM, "452 4.3.1"}, {-EBUSY, "451 4.3.0"},  {-EUSERS, "452 4.3.1"},
        {-ENOENT, "451 4.2.1"}, {-EIO, "451 4.3.0"},    {-EUCLEAN, "451 4.3.0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_memory_equal(cases[i].code, smtp_server_answer(cases[i].error), strlen(cases[i].code));
}
