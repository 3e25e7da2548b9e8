/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server: keys, methods, paths, content types, sizes, misbehaving clients, many clients at once.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "unit/service/service_fixture.h"

#define JSON_TYPE "Content-Type: application/json\r\n"
#define FORM_TYPE "Content-Type: multipart/form-data; boundary=X\r\n"
#define SEND "/api/v1/email/send"
#define POOL "/api/v1/email/add-attachment-to-pool"

static const struct {
    const char *what;
    const char *method;
    const char *target;
    const char *headers;
    const char *body;
    int status;
    const char *header; /* expected name and value */
    const char *value;
} cases[] = {
    {"unknown path", "GET", "/api/v1/nothing", "", NULL, 404, NULL, NULL},
    {"root", "GET", "/", "", NULL, 404, NULL, NULL},
    {"too deep", "GET", "/api/v1/email/a/attachment/b/c/d/e/f/g/h/i", "", NULL, 404, NULL, NULL},
    {"unknown email", "GET", "/api/v1/email/nothing", "", NULL, 404, NULL, NULL},
    {"slash inside an id", "GET", "/api/v1/email/a%2Fraw", "", NULL, 404, NULL, NULL},
    {"unknown raw", "GET", "/api/v1/email/nothing/raw", "", NULL, 404, NULL, NULL},
    {"unknown sent", "GET", "/api/v1/email/outbound/nothing", "", NULL, 404, NULL, NULL},
    {"trailing slash", "GET", "/api/v1/email/", "", NULL, 200, NULL, NULL},
    {"delete", "DELETE", "/api/v1/email", "", NULL, 405, "Allow", "GET, HEAD"},
    {"get of send", "GET", SEND, "", NULL, 405, "Allow", "POST"},
    {"post of a list", "POST", "/api/v1/inbox", JSON_TYPE, "{}", 405, "Allow", "GET, HEAD"},
    {"head", "HEAD", "/api/v1/email", "", NULL, 200, NULL, NULL},
    {"no type", "POST", SEND, "", "{}", 415, NULL, NULL},
    {"wrong type", "POST", SEND, "Content-Type: text/plain\r\n", "{}", 415, NULL, NULL},
    {"a longer type", "POST", SEND, "Content-Type: application/jsonx\r\n", "{}", 415, NULL, NULL},
    {"type with charset", "POST", SEND, "Content-Type: Application/JSON; charset=utf-8\r\n", "{}", 422, NULL,
     NULL},
    {"form for JSON", "POST", SEND, FORM_TYPE, "{}", 415, NULL, NULL},
    {"JSON for a form", "POST", POOL, JSON_TYPE, "{}", 415, NULL, NULL},
    {"bad JSON", "POST", SEND, JSON_TYPE, "{", 422, NULL, NULL},
    {"no object", "POST", SEND, JSON_TYPE, "[]", 422, NULL, NULL},
    {"invalid UTF-8", "POST", SEND, JSON_TYPE, "{\"subject\":\"\xff\"}", 422, NULL, NULL},
    {"empty body", "POST", SEND, JSON_TYPE, "", 422, NULL, NULL},
    {"empty form", "POST", POOL, FORM_TYPE, "", 422, NULL, NULL},
    {"broken form", "POST", POOL, FORM_TYPE, "--X\r\n", 422, NULL, NULL},
    {"declared far too large", "POST", SEND, JSON_TYPE "Content-Length: 99999999999\r\n", NULL, 413, NULL,
     NULL},
    {"declared too large, asking first", "POST", SEND,
     JSON_TYPE "Content-Length: 20000001\r\nExpect: 100-continue\r\n", NULL, 413, NULL, NULL},
};

TEST_WITH(every_refusal_has_its_status_and_a_detail, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_answer answer;
        http_client_request(&fixture->client, cases[i].method, cases[i].target, cases[i].headers,
                            cases[i].body, cases[i].body != NULL ? strlen(cases[i].body) : 0, &answer);
        if (answer.status != cases[i].status)
            fail_msg("%s: %d instead of %d", cases[i].what, answer.status, cases[i].status);
        if (cases[i].header != NULL) {
            char *value = http_answer_header(&answer, cases[i].header);
            assert_string_equal(cases[i].value, value);
            free(value);
        }
        if (answer.status >= 400) {
            json_t *error = json_loads(answer.body, 0, NULL);
            assert_members(error, "detail");
            json_decref(error);
        }
        http_answer_release(&answer);
    }
}

/* A browser must not run a stranger's email as a page of the service. */
TEST_WITH(no_answer_can_run_as_a_web_page, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char *const headers[][2] = {{"X-Content-Type-Options", "nosniff"},
                                             {"Content-Security-Policy", "default-src 'none'; sandbox"},
                                             {"Cache-Control", "private, no-cache"}};
    static const char *const targets[] = {"/api/v1/inbox", "/api/v1/email/nothing", "/nothing"};
    for (size_t i = 0; i < 9; i++) {
        struct http_answer answer;
        http_client_request(&fixture->client, "GET", targets[i / 3], "", NULL, 0, &answer);
        char *value = http_answer_header(&answer, headers[i % 3][0]);
        if (value == NULL || strcmp(value, headers[i % 3][1]) != 0)
            fail_msg("%s: %s: %s", targets[i / 3], headers[i % 3][0], value);
        free(value);
        http_answer_release(&answer);
    }
}

TEST_WITH(a_request_without_a_valid_key_is_refused, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char wrong[65];
    memset(wrong, 'a', 64);
    wrong[64] = '\0';
    static const char *const targets[] = {"/api/v1/email", "/api/v1/inbox", "/nothing", POOL};
    const char *const keys[] = {NULL, wrong, "", "'--", "short"};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 5; j++) {
            struct http_client client = {service_address(fixture->service, 0), keys[j]};
            struct http_answer answer;
            http_client_request(&client, "GET", targets[i], "", NULL, 0, &answer);
            assert_int_equal(401, answer.status);
            char *scheme = http_answer_header(&answer, "WWW-Authenticate");
            assert_string_equal("Bearer", scheme);
            free(scheme);
            http_answer_release(&answer);
        }
    }
}

/* Replaces the table with a view that fails when it is read, as a damaged table would. */
static void break_table(const struct fixture *fixture, const char *table, const char *columns)
{
    char statement[400];
    snprintf(
        statement, sizeof(statement),
        "ALTER TABLE %s RENAME TO sound; CREATE VIEW %s (%s) AS SELECT abs(-9223372036854775807 - rowid), "
        "rowid, rowid, rowid, NULL FROM (SELECT 1 AS rowid)",
        table, table, columns);
    run_sql(fixture, statement);
}

TEST_WITH(a_missing_value_fails_only_requests_that_need_it, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *lost;
        const char *method;
        const char *part; /* path below the email; NULL for an update of the inbox */
        int status;
    } rows[] = {
        {"UPDATE emails SET record = json_set(record, '$.status', null)", "POST", "/mark/false", 200},
        {"UPDATE emails SET is_valid = 1; UPDATE messages SET header = json_set(header, '$.attachments',"
         " json('[{}]'))",
         "GET", "/attachment/x", 404},
        {"", "GET", "", 200},
        {"UPDATE messages SET header = json_set(header, '$.subject', null)", "GET", "", 500},
        {"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')", "GET",
         "/raw", 200},
        {"UPDATE contents SET raw = NULL", "GET", "/raw", 500},
        {"UPDATE inboxes SET record = NULL", "POST", NULL, 500},
    };
    char *ann = create_inbox(fixture, "ann@inbox.localhost", NULL);
    free(send_message(fixture, message_to("ann@inbox.localhost", "ann@inbox.localhost", "Subject")));
    char *email = take_text(newest_email(fixture, ann, ""), "id");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char target[200];
        json_t *request = NULL;
        run_sql(fixture, rows[i].lost);
        snprintf(target, sizeof(target), "/api/v1/email/%s%s", email,
                 rows[i].part != NULL ? rows[i].part : "");
        if (rows[i].part == NULL) {
            strcpy(target, "/api/v1/inbox/upsert");
            request =
                json_pack("{s:s, s:s, s:s}", "id", ann, "name", "A", "email_address", "ann@inbox.localhost");
        }
        json_decref(call(fixture, rows[i].method, target, request, rows[i].status));
    }
    free(email);
    free(ann);
}

/* After an answer of 401 or 404, a client would give up its key or its inbox. */
TEST_WITH(a_failing_database_causes_status_500, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *id = create_inbox(fixture, "ann@inbox.localhost", NULL);
    json_t *update =
        json_pack("{s:s, s:s, s:s}", "id", id, "name", "Ann", "email_address", "ann@inbox.localhost");
    json_decref(call(fixture, "POST", "/api/v1/inbox/upsert", json_incref(update), 200));
    break_table(fixture, "inboxes", "id, seq, address, record, email_changes");
    json_decref(call(fixture, "POST", "/api/v1/inbox/upsert", update, 500));
    free(id);
}

TEST_WITH(no_key_is_accepted_while_the_database_fails, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    json_decref(get(fixture, "/api/v1/inbox"));
    break_table(fixture, "api_keys", "digest, id, prefix, created_ms, revoked_ms");
    json_decref(call(fixture, "GET", "/api/v1/inbox", NULL, 500));
    json_decref(call(fixture, "GET", "/api/v1/nothing", NULL, 500));
}

static int status_with_key(const struct fixture *fixture, const char *key)
{
    struct http_client client = {service_address(fixture->service, 0), key};
    struct http_answer answer;
    http_client_request(&client, "GET", "/api/v1/inbox", "", NULL, 0, &answer);
    int status = answer.status;
    http_answer_release(&answer);
    return status;
}

TEST_WITH(a_key_with_one_wrong_digit_is_refused, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char key[70];
    for (size_t i = 0; i < 64; i++) {
        snprintf(key, sizeof(key), "%s", fixture->key);
        key[i] = key[i] == '0' ? '1' : '0';
        if (status_with_key(fixture, key) != 401)
            fail_msg("digit %zu is not compared", i);
    }
    assert_int_equal(200, status_with_key(fixture, fixture->key));
    snprintf(key, sizeof(key), "%s0", fixture->key);
    assert_int_equal(401, status_with_key(fixture, key));
    snprintf(key, sizeof(key), "%.8s", fixture->key);
    assert_int_equal(401, status_with_key(fixture, key));
}

#define HEAD(version, headers) "GET /api/v1/inbox HTTP/" version "\r\n" headers
#define HOST "Host: localhost\r\n"
#define CLOSE "Connection: close\r\n"

static const struct {
    const char *what;
    const char *head; /* the request line and headers without the key */
    const char *body;
    int status;
} heads[] = {
    {"plain", HEAD("1.1", HOST CLOSE), "", 200},
    {"chunks", HEAD("1.1", HOST CLOSE "Transfer-Encoding: Chunked\r\n"), "0\r\n\r\n", 200},
    {"no host in HTTP/1.0", HEAD("1.0", ""), "", 200},
    {"a foreign host in HTTP/1.0", HEAD("1.0", "Host: evil.example\r\n"), "", 421},
    {"no host", HEAD("1.1", CLOSE), "", 400},
    {"two hosts", HEAD("1.1", HOST HOST CLOSE), "", 400},
    /* the service closes the connection, although the client did not ask for that */
    {"two lengths", HEAD("1.1", HOST "Content-Length: 0\r\nContent-Length: 5\r\n"), "", 400},
    {"the same length twice", HEAD("1.1", HOST "Content-Length: 1\r\nContent-Length: 1\r\n"), "x", 400},
    {"two lengths in one line", HEAD("1.1", HOST "Content-Length: 5, 5\r\n"), "", 400},
    {"length and chunks", HEAD("1.1", HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
     "0\r\n\r\n", 400},
    {"chunks twice", HEAD("1.1", HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
     "0\r\n\r\n", 400},
    {"another encoding", HEAD("1.1", HOST "Transfer-Encoding: gzip\r\n"), "", 400},
    {"gzip before chunks", HEAD("1.1", HOST "Transfer-Encoding: gzip, chunked\r\n"), "", 400},
    {"a blank before the colon", HEAD("1.1", HOST "Transfer-Encoding : chunked\r\n"), "", 400},
};

TEST_WITH(a_head_with_an_ambiguous_end_is_refused, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char request[1024];
        int len = snprintf(request, sizeof(request), "%sAuthorization: Bearer %s\r\n\r\n%s", heads[i].head,
                           fixture->key, heads[i].body);
        struct http_answer answer;
        http_client_exchange(&fixture->client, request, (size_t)len, &answer);
        char *connection = http_answer_header(&answer, "Connection");
        if (answer.status != heads[i].status || connection == NULL || strcasecmp(connection, "close") != 0)
            fail_msg("%s: %d instead of %d, connection: %s", heads[i].what, answer.status, heads[i].status,
                     connection);
        free(connection);
        http_answer_release(&answer);
    }
}

static const struct {
    const char *host;
    int status;
} hosts[] = {
    {"localhost", 200},
    {"LocalHost:8025", 200},
    {"inbox.localhost", 200},
    {"any.localhost:1", 200},
    {"127.0.0.1", 200},
    {"127.0.0.1:80", 200},
    {"[::1]:8025", 200},
    {"192.0.2.7:8025", 200},
    {"mail.example", 200},
    {"Mail.Example:443", 200},
    {"post.example", 200},
    {"evil.example", 421},
    {"localhost.evil.example", 421},
    {"notlocalhost", 421},
    {"mail.example.evil.example", 421},
    {"127.0.0.1.evil.example", 421},
    {"a.mail.example", 421},
    {"", 421},
    {"localhost:x", 421},
    {"localhost:80@evil", 421},
    {"[::1", 421},
    {"[::1]x", 421},
    {":80", 421},
    {"http://localhost", 421},
};

TEST_WITH(a_foreign_name_in_host_is_refused, fixture_set_up, fixture_tear_down)
{
    struct fixture *fixture = *state;
    fixture_stop(fixture);
    static const char *const further[] = {"mail.example", "post.example", NULL};
    struct service_config config = fixture_config(fixture);
    config.hosts = further;
    fixture_start_with(fixture, &config);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        char request[1024];
        int len = snprintf(request, sizeof(request),
                           HEAD("1.1", CLOSE "Host: %s\r\nAuthorization: Bearer %s\r\n\r\n"), hosts[i].host,
                           fixture->key);
        struct http_answer answer;
        http_client_exchange(&fixture->client, request, (size_t)len, &answer);
        if (answer.status != hosts[i].status)
            fail_msg("%s: %d instead of %d", hosts[i].host, answer.status, hosts[i].status);
        http_answer_release(&answer);
    }
}

TEST_WITH(a_target_that_is_too_long_is_refused, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *target = malloc(300 * 1000 + 1);
    memset(target, 'a', 300 * 1000);
    target[0] = '/';
    target[300 * 1000] = '\0';
    struct http_answer answer;
    http_client_request(&fixture->client, "GET", target, "", NULL, 0, &answer);
    assert_int_equal(414, answer.status);
    http_answer_release(&answer);
    /* the longest list that the service reads */
    size_t at = (size_t)sprintf(target, "/api/v1/email?limit=1");
    for (int i = 0; i < 1000; i++)
        at += (size_t)sprintf(target + at, "&inbox_ids=%08x-0000-0000-0000-000000000000", i);
    assert_int_equal(0, count_of(fixture, target));
    strcpy(target + at, "&inbox_ids=1");
    json_decref(call(fixture, "GET", target, NULL, 422));
    free(target);
}

TEST_WITH(a_body_as_long_as_the_limit_is_accepted, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char start[] = "{\"id\":null,\"name\":\"A\",\"email_address\":\"ann@inbox.localhost\"}";
    size_t len = 1024 * 1024;
    char *body = malloc(len + 1);
    memset(body, ' ', len + 1);
    memcpy(body, start, sizeof(start) - 1);
    for (size_t more = 2; more-- > 0;) {
        struct http_answer answer;
        http_client_request(&fixture->client, "POST", "/api/v1/inbox/upsert", JSON_TYPE, body, len + more,
                            &answer);
        assert_int_equal(more > 0 ? 413 : 200, answer.status);
        http_answer_release(&answer);
    }
    free(body);
}

TEST_WITH(incomplete_requests_make_room_for_other_clients, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char *const halves[] = {
        "", "GET", "GET / HTTP/1.1\r\nHost: localhost\r\n",
        "POST /api/v1/email/send HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"};
    int held[400];
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        held[i] = http_client_connect(&fixture->client);
        const char *half = halves[i % 4];
        assert_int_equal(strlen(half), write(held[i], half, strlen(half)));
    }
    int fd = http_client_connect(&fixture->client);
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_int_equal(sizeof(request) - 1, write(fd, request, sizeof(request) - 1));
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    assert_int_equal(1, poll(&waiting, 1, 15 * 1000));
    char status[13] = "";
    assert_int_equal(12, recv(fd, status, 12, MSG_WAITALL));
    assert_string_equal("HTTP/1.1 401", status);
    close(fd);
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
        close(held[i]);
}

/* Connects, sends requests, and reads no answers, until the service waits for the client. */
static int connect_deaf(const struct fixture *fixture)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char many[1000 * (sizeof(request) - 1)];
    for (size_t i = 0; i < sizeof(many); i += sizeof(request) - 1)
        memcpy(many + i, request, sizeof(request) - 1);
    int fd = http_client_connect(&fixture->client);
    size_t sent = 0;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    while (poll(&ready, 1, 500) > 0) {
        /* continues within the request that the last send() has cut */
        ssize_t len = send(fd, many + sent % (sizeof(request) - 1), sizeof(many) / 2, MSG_DONTWAIT);
        if (len <= 0)
            break;
        sent += (size_t)len;
    }
    return fd;
}

TEST_WITH(a_client_that_reads_no_refusals_is_cut_off_for_others, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    int deaf = connect_deaf(fixture);
    int held[300];
    struct pollfd cut = {.fd = deaf, .events = POLLRDHUP};
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        held[i] = -1;
    /* the phase of the deaf client changes with each answer, so other connections may have waited longer */
    int64_t until_ms = clock_monotonic_ms(clock_system()) + 60 * 1000;
    for (size_t i = 0; poll(&cut, 1, 20) == 0 && clock_monotonic_ms(clock_system()) < until_ms; i++) {
        close(held[i % ARRAY_LEN(held)]);
        held[i % ARRAY_LEN(held)] = http_client_connect(&fixture->client);
    }
    assert_int_equal(1, poll(&cut, 1, 0));
    close(deaf);
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        close(held[i]);
}

/* select() cannot wait for descriptors above 1,023, which the service gets if the others are in use. */
TEST_WITH(a_thousand_open_files_do_not_prevent_connections, fixture_set_up, fixture_tear_down)
{
    struct fixture *fixture = *state;
    struct rlimit limit;
    int files[1100];
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &limit));
    const struct rlimit before = limit;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max < 2 * ARRAY_LEN(files) || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        skip();
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(200, status_with_key(fixture, fixture->key));
    fixture_stop(fixture);
    fixture_start(fixture);
    assert_int_equal(200, status_with_key(fixture, fixture->key));
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        close(files[i]);
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST_WITH(a_client_that_sends_a_refused_body_gets_the_answer, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    size_t len = 20 * 1000 * 1000 + 1;
    char *body = malloc(len);
    memset(body, ' ', len);
    struct http_answer answer;
    http_client_request(&fixture->client, "POST", SEND, JSON_TYPE, body, len, &answer);
    assert_int_equal(413, answer.status);
    http_answer_release(&answer);
    struct http_client stranger = {service_address(fixture->service, 0), NULL};
    http_client_request(&stranger, "POST", SEND, JSON_TYPE, body, len, &answer);
    assert_int_equal(401, answer.status);
    http_answer_release(&answer);
    free(body);
}

TEST_WITH(the_bodies_of_all_requests_are_bounded_together, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static char body[19 * 1000 * 1000];
    int clients[18];
    unsigned int refused = 0;
    char request[1024];
    int len = snprintf(request, sizeof(request),
                       "POST " SEND " HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                       "Authorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
                       fixture->key, sizeof(body));
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        clients[i] = http_client_connect(&fixture->client);
        assert_int_equal(len, send(clients[i], request, (size_t)len, 0));
        for (size_t at = 0; at < sizeof(body) - 1;) { /* sends all but the last byte */
            ssize_t sent = send(clients[i], body + at, sizeof(body) - 1 - at, 0);
            assert_true(sent > 0);
            at += (size_t)sent;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        char status[13] = "";
        assert_int_equal(1, send(clients[i], body, 1, 0));
        assert_int_equal(12, recv(clients[i], status, 12, MSG_WAITALL));
        refused += strcmp(status, "HTTP/1.1 503") == 0;
        close(clients[i]);
    }
    if (refused == 0 || refused == ARRAY_LEN(clients))
        fail_msg("%u were refused", refused);
}

TEST_WITH(a_chunked_body_is_bounded, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    size_t len = 1024 * 1024;
    char *request = malloc(len * 3);
    int head = sprintf(request,
                       "POST /api/v1/inbox/upsert HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       "Authorization: Bearer %s\r\n" JSON_TYPE "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                       fixture->key, len + 1);
    memset(request + head, ' ', len + 1);
    size_t end = (size_t)head + len + 1;
    strcpy(request + end, "\r\n0\r\n\r\n");
    struct http_answer answer;
    http_client_exchange(&fixture->client, request, end + 7, &answer);
    assert_int_equal(413, answer.status);
    http_answer_release(&answer);

    head = sprintf(request,
                   "POST /api/v1/inbox/upsert HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   "Authorization: Bearer %s\r\n" JSON_TYPE "Transfer-Encoding: chunked\r\n\r\n"
                   "10\r\n{\"name\":\"x\",\"ema\r\n"
                   "22\r\nil_address\":\"a@inbox.localhost\"}  \r\n0\r\n\r\n",
                   fixture->key);
    http_client_exchange(&fixture->client, request, (size_t)head, &answer);
    assert_int_equal(200, answer.status);
    http_answer_release(&answer);
    free(request);
}

TEST_WITH(garbage_does_not_stop_the_service, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char *const texts[] = {"\r\n\r\n\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02",
                                        "GET / HTTP/9.9\r\n\r\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int fd = http_client_connect(&fixture->client);
        assert_true(write(fd, texts[i], strlen(texts[i])) > 0);
        close(fd);
    }
    assert_int_equal(0, count_of(fixture, "/api/v1/inbox"));
}

struct sender {
    pthread_t thread;
    const struct fixture *fixture;
    unsigned int index;
};

static void *send_some(void *argument)
{
    const struct sender *sender = argument;
    for (int i = 0; i < 4; i++) {
        json_t *request = message_to("ann@inbox.localhost", "ann@inbox.localhost", "Parallel");
        /* two senders share each key, so only one email is sent */
        json_object_set_new(request, "idempotency_key", json_sprintf("%u-%d", sender->index / 2, i));
        free(send_message(sender->fixture, request));
        json_decref(get(sender->fixture, "/api/v1/email?limit=50"));
    }
    return NULL;
}

TEST_WITH(fifty_clients_are_served_at_once, fixture_set_up, fixture_tear_down)
{
    struct fixture *fixture = *state;
    free(create_inbox(fixture, "ann@inbox.localhost", NULL));
    struct sender senders[50];
    for (unsigned int i = 0; i < 50; i++) {
        senders[i] = (struct sender){.fixture = fixture, .index = i};
        assert_int_equal(0, pthread_create(&senders[i].thread, NULL, send_some, &senders[i]));
    }
    for (unsigned int i = 0; i < 50; i++)
        pthread_join(senders[i].thread, NULL);
    assert_int_equal(100, count_of(fixture, "/api/v1/email/outbound?limit=1000"));
    assert_int_equal(101, count_of(fixture, "/api/v1/email?limit=1000"));
}
