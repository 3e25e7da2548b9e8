/* SPDX-License-Identifier: MIT */
/*
 * Requests to a scripted server: the bytes that arrive on both sides, the connections that are reused, and
 * the results of requests that fail.
 */
#include "http/http_client.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "support/scripted_server.h"
#include "support/shifted_clock.h"
#include "support/test.h"

#define KEY "secret-key-0123456789"

struct fixture {
    struct scripted_server *server;
    struct http_client *client;
    struct strbuf body;
    int sink_error;
};

static int collect(void *context, const void *bytes, size_t len)
{
    struct fixture *fixture = context;
    strbuf_append(&fixture->body, bytes, len);
    return fixture->sink_error;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->body = STRBUF_INIT(1 << 20);
    fixture->server = scripted_server_start();
    struct http_config config = {.base_url = scripted_server_url(fixture->server), .api_key = KEY};
    assert_int_equal(http_client_new(&config, &fixture->client), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    http_client_free(fixture->client);
    scripted_server_stop(fixture->server);
    strbuf_release(&fixture->body);
    free(fixture);
    return 0;
}

static struct http_request get_request(struct fixture *fixture)
{
    return (struct http_request){
        .target = "/api/v1/thing?x=1",
        .sink = collect,
        .context = fixture,
        .max_body_bytes = 1 << 20,
        .timeout_ms = 20000,
    };
}

static struct http_request post_request(struct fixture *fixture, const char *text)
{
    struct http_request request = get_request(fixture);
    request.json = text;
    return request;
}

static struct http_response perform(struct fixture *fixture, const struct http_request *request)
{
    struct http_response response;
    strbuf_clear(&fixture->body);
    http_client_perform(fixture->client, request, &response);
    assert_null(strstr(response.reason, KEY));
    assert_true((response.error == 0) == (response.reason[0] == '\0'));
    return response;
}

/* ---------------------------------------------------------------- requests and answers */

TEST_WITH(a_get_returns_body_status_and_etag, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(fixture->server,
                         (struct scripted_step){.headers = "ETag: \"v1\"\r\n", .body = "[1, 2]"});
    struct http_request request = get_request(fixture);
    request.if_none_match = "\"v0\"";
    struct http_response response = perform(fixture, &request);
    assert_int_equal(response.error, 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(response.etag, "\"v1\"");
    assert_string_equal(strbuf_str(&fixture->body), "[1, 2]");
    assert_true(response.is_written);
    assert_true(response.sent_bytes > 0 && response.received_bytes > 6);

    const struct scripted_request *got = scripted_server_request(fixture->server, 0);
    assert_string_equal(got->method, "GET");
    assert_string_equal(got->target, "/api/v1/thing?x=1");
    assert_string_equal(scripted_request_header(got, "Authorization"), "Bearer " KEY);
    assert_string_equal(scripted_request_header(got, "User-Agent"), "inboxfs/" INBOXFS_VERSION);
    assert_string_equal(scripted_request_header(got, "If-None-Match"), "\"v0\"");
    assert_null(scripted_request_header(got, "Expect"));
}

TEST_WITH(a_post_sends_json, set_up, tear_down)
{
    struct fixture *fixture = *state;
    _cleanup_free_ char *text = calloc(1, 300001);
    assert_non_null(text);
    memset(text, 'x', 300000);
    struct http_request request = post_request(fixture, text);
    struct http_response response = perform(fixture, &request);
    assert_int_equal(response.error, 0);
    assert_true(response.is_written);

    const struct scripted_request *got = scripted_server_request(fixture->server, 0);
    assert_int_equal(got->body_len, 300000);
    assert_memory_equal(got->body, text, 300000);
    assert_string_equal(scripted_request_header(got, "Content-Type"), "application/json");
    assert_null(scripted_request_header(got, "Expect"));
    assert_null(scripted_request_header(got, "Transfer-Encoding"));
}

TEST_WITH(a_post_sends_a_file_as_a_part_of_a_form, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char file_bytes[300000];
    for (size_t i = 0; i < sizeof(file_bytes); i++)
        file_bytes[i] = (char)('a' + i % 23);
    const struct http_file file = {
        .name = "f", .type = "text/plain", .bytes = file_bytes, .len = sizeof(file_bytes)};
    struct http_request request = get_request(fixture);
    request.file = &file;
    struct http_response response = perform(fixture, &request);
    assert_int_equal(response.error, 0);
    assert_true(response.is_written);

    const struct scripted_request *got = scripted_server_request(fixture->server, 0);
    const char *content = strstr(got->body, "\r\n\r\n") + 4;
    assert_memory_equal(content, file_bytes, sizeof(file_bytes));
    assert_memory_equal(content + sizeof(file_bytes), "\r\n--", 4);
    assert_null(scripted_request_header(got, "Expect"));
    assert_null(scripted_request_header(got, "Transfer-Encoding"));
    /* The handle is reused. */
    request = get_request(fixture);
    assert_int_equal(perform(fixture, &request).error, 0);
    assert_string_equal(scripted_server_request(fixture->server, 1)->method, "GET");
}

TEST_WITH(file_names_are_quoted, set_up, tear_down)
{
    static const struct {
        const char *name;
        const char *expected;
    } cases[] = {
        {"report.pdf", "filename=\"report.pdf\"\r\n"},
        {"Übersicht 한글.pdf", "filename=\"Übersicht 한글.pdf\"\r\n"},
        {"a\"; name=\"other", "filename=\"a%22; name=%22other\"\r\n"},
        {"a\r\nX-Evil: 1", "filename=\"a%0D%0AX-Evil: 1\"\r\n"},
        {"back\\slash", "filename=\"back\\slash\"\r\n"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct http_file file = {.name = cases[i].name, .type = "text/plain", .bytes = "x", .len = 1};
        struct http_request request = get_request(fixture);
        request.file = &file;
        assert_int_equal(perform(fixture, &request).error, 0);
        const char *body = scripted_server_request(fixture->server, (unsigned int)i)->body;
        assert_non_null(strstr(body, cases[i].expected));
        assert_non_null(strstr(body, "form-data; name=\"file\"; "));
        assert_null(strstr(body, "filename*"));
        assert_null(strstr(body, "\nX-Evil"));
    }
}

TEST_WITH(a_redirect_is_not_followed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(
        fixture->server,
        (struct scripted_step){.status = 302, .headers = "Location: /elsewhere\r\n", .body = "x"});
    struct http_request request = get_request(fixture);
    assert_int_equal(perform(fixture, &request).status, 302);
    assert_int_equal(scripted_server_requests(fixture->server), 1);
}

TEST_WITH(a_compressed_transfer_coding_is_refused, set_up, tear_down)
{
    static const char *const codings[] = {"gzip, chunked", "GZip", "chunked,gzip", "deflate"};
    struct fixture *fixture = *state;
    char headers[64];
    for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
        snprintf(headers, sizeof(headers), "transfer-ENCODING:\t%s \r\n", codings[i]);
        scripted_server_push(fixture->server,
                             (struct scripted_step){.status = 200, .headers = headers, .body = "x"});
        struct http_request request = get_request(fixture);
        struct http_response response = perform(fixture, &request);
        assert_int_equal(response.error, -EPROTO);
        assert_non_null(strstr(response.reason, "packed"));
        assert_int_equal(fixture->body.len, 0);
    }
}

TEST_WITH(retry_after_is_read_in_both_forms, set_up, tear_down)
{
    struct fixture *fixture = *state;
    time_t then = time(NULL) + 100;
    struct tm utc;
    char date[64];
    strftime(date, sizeof(date), "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&then, &utc));
    const struct {
        const char *header;
        int64_t min_ms;
        int64_t max_ms;
    } cases[] = {
        {"Retry-After: 7\r\n", 7000, 7000},
        {date, 90000, 100000},
        {"Retry-After: soon\r\n", -1, -1},
        {"Retry-After: -5\r\n", -1, -1},
        {"Retry-After: Thu, 01 Jan 1998 00:00:00 GMT\r\n", -1, -1},
        {"Retry-After: 99999999999999999999\r\n", -1, 60 * 60 * 1000},
        {"Retry-After: 90000\r\n", 60 * 60 * 1000, 60 * 60 * 1000},
        {"", -1, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scripted_server_push(fixture->server,
                             (struct scripted_step){.status = 429, .headers = cases[i].header});
        struct http_request request = get_request(fixture);
        struct http_response response = perform(fixture, &request);
        assert_int_equal(response.status, 429);
        assert_in_range((uint64_t)response.retry_after_ms + 1, (uint64_t)cases[i].min_ms + 1,
                        (uint64_t)cases[i].max_ms + 1);
    }
}

TEST_WITH(an_html_answer_is_recognised, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(fixture->server,
                         (struct scripted_step){.headers = "Content-Type: text/html; charset=x\r\n"});
    scripted_server_push(fixture->server,
                         (struct scripted_step){.headers = "Content-Type: application/json\r\n"});
    struct http_request request = get_request(fixture);
    assert_true(perform(fixture, &request).is_html);
    assert_false(perform(fixture, &request).is_html);
}

/* ---------------------------------------------------------------- connections */

TEST_WITH(one_connection_serves_many_requests, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct http_request get = get_request(fixture);
    struct http_request post = post_request(fixture, "{}");
    for (int i = 0; i < 10; i++)
        assert_int_equal(perform(fixture, i % 2 == 0 ? &get : &post).error, 0);
    assert_int_equal(scripted_server_requests(fixture->server), 10);
    assert_int_equal(scripted_server_connections(fixture->server), 1);
}

TEST_WITH(a_connection_closed_between_requests_is_replaced_or_reported, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_ANSWER_THEN_CLOSE});
    struct http_request post = post_request(fixture, "{}");
    assert_int_equal(perform(fixture, &post).error, 0);
    struct http_response response = perform(fixture, &post);
    /* If the client has not seen the close before the second request, the outcome is unknown. */
    assert_true(response.error == 0 || (response.error == -EHOSTUNREACH && response.is_written));
}

TEST_WITH(a_post_on_a_reused_connection_is_never_sent_twice, set_up, tear_down)
{
    static const enum scripted_fault faults[] = {SCRIPTED_RESET_AFTER, SCRIPTED_CLOSE_AFTER};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        scripted_server_clear(fixture->server);
        struct http_request post = post_request(fixture, "{\"send\": true}");
        assert_int_equal(perform(fixture, &post).error, 0);
        scripted_server_push(fixture->server, (struct scripted_step){.fault = faults[i]});
        struct http_response response = perform(fixture, &post);
        assert_int_equal(response.error, -EHOSTUNREACH);
        assert_int_equal(response.status, 0);
        assert_true(response.is_written);
        assert_string_equal(response.reason, "the connection ended after the request was written");
        assert_int_equal(scripted_server_requests(fixture->server), 2);
    }
}

/* If the reset arrives before the body was sent, the client must use a new connection. If the reset arrives
 * later, the outcome is unknown. */
TEST_WITH(a_post_reset_at_its_first_byte_is_repeated_or_reported, set_up, tear_down)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 20; i++) {
        scripted_server_clear(fixture->server);
        struct http_request post = post_request(fixture, "{\"send\": true}");
        assert_int_equal(perform(fixture, &post).error, 0);
        scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_RESET_BEFORE});
        struct http_response response = perform(fixture, &post);
        size_t requests = scripted_server_requests(fixture->server);
        if (response.error == 0)
            assert_int_equal(requests, 3);
        else
            assert_int_equal(requests, 2);
    }
}

/* ---------------------------------------------------------------- connections that died */

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

TEST_WITH(a_get_on_a_silent_connection_is_repeated, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct http_request request = get_request(fixture);
    request.stall_s = 2;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_ANSWER_THEN_DEAF});
    assert_int_equal(perform(fixture, &request).error, 0);
    scripted_server_push(fixture->server, (struct scripted_step){.body = "[]"});
    assert_int_equal(perform(fixture, &request).error, 0);
    assert_string_equal(strbuf_str(&fixture->body), "[]");
    assert_int_equal(scripted_server_connections(fixture->server), 2);
}

/* Makes a second request while the first one's connection is in use. */
static int make_another_request(void *context, const void *bytes, size_t len)
{
    struct fixture *fixture = context;
    struct http_request request = get_request(fixture);
    struct http_response response;
    (void)bytes, (void)len;
    http_client_perform(fixture->client, &request, &response);
    return response.error;
}

TEST_WITH(a_dead_connection_closes_all_idle_connections, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct http_request request = get_request(fixture);
    const struct scripted_step deaf = {.fault = SCRIPTED_ANSWER_THEN_DEAF, .body = "[]"};
    request.sink = make_another_request;
    scripted_server_push(fixture->server, deaf);
    scripted_server_push(fixture->server, deaf);
    assert_int_equal(perform(fixture, &request).error, 0);
    assert_int_equal(scripted_server_connections(fixture->server), 2);

    size_t before = count_descriptors();
    request.sink = collect;
    request.stall_s = 2;
    assert_int_equal(perform(fixture, &request).error, 0);
    assert_int_equal(scripted_server_connections(fixture->server), 3);
    /* The new connection has two descriptors in this process; the two dead ones had at least as many. */
    assert_true(count_descriptors() <= before);
}

/* The server may have got bytes that it did not acknowledge. */
TEST_WITH(a_post_to_a_silent_server_counts_as_written, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct http_request request = post_request(fixture, "{}");
    request.stall_s = 2;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_ANSWER_THEN_DEAF});
    assert_int_equal(perform(fixture, &request).error, 0);
    struct http_response response = perform(fixture, &request);
    assert_true(response.error == -EHOSTUNREACH || response.error == -ETIMEDOUT);
    assert_true(response.is_written);
    assert_int_equal(scripted_server_requests(fixture->server), 1);
}

/* A thread with a network namespace of its own, which has only a loopback device. */
struct network {
    struct http_response cut_off;
    struct http_response again;
    size_t requests;
    bool is_missing; /* the namespace could not be made: only root can */
};

static bool set_address(const char *text)
{
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(text)};
    struct ifreq request = {.ifr_name = "lo"};
    memcpy(&request.ifr_addr, &address, sizeof(address));
    if (ioctl(fd, SIOCSIFADDR, &request) != 0)
        return false;
    request.ifr_flags = IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

static void *lose_the_network(void *argument)
{
    struct network *network = argument;
    network->is_missing = unshare(CLONE_NEWNET) != 0;
    if (network->is_missing || !set_address("127.0.0.1"))
        return NULL;
    struct scripted_server *server = scripted_server_start();
    struct http_config config = {.base_url = scripted_server_url(server), .api_key = KEY};
    struct http_client *client = NULL;
    struct http_request request = post_request(NULL, "{}");
    request.sink = NULL;
    request.stall_s = 2;
    if (http_client_new(&config, &client) == 0) {
        http_client_perform(client, &request, &network->cut_off);
        set_address("192.0.2.1");
        http_client_perform(client, &request, &network->cut_off);
        set_address("127.0.0.1");
        http_client_perform(client, &request, &network->again);
    }
    network->requests = scripted_server_requests(server);
    http_client_free(client);
    scripted_server_stop(server);
    return NULL;
}

TEST_WITH(a_post_that_the_kernel_never_sent_counts_as_unwritten, set_up, tear_down)
{
    struct network network = {.requests = 0};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "network", lose_the_network, &network), 0);
    pthread_join(thread, NULL);
    if (network.is_missing)
        skip();
    assert_int_equal(network.cut_off.error, -EHOSTUNREACH);
    assert_false(network.cut_off.is_written);
    assert_int_equal(network.again.error, 0);
    assert_int_equal(network.requests, 2);
}

TEST_WITH(a_suspend_counts_as_idle_time, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct http_request get = get_request(fixture);
    struct http_request post = post_request(fixture, "{}");
    const struct {
        const struct http_request *request;
        int slept_s;
        unsigned int connections;
    } steps[] = {{&get, 0, 1}, {&post, 0, 1}, {&get, 50, 1}, {&get, 70, 2}, {&post, 4, 3}, {&get, 0, 3}};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        shifted_clock_suspend(steps[i].slept_s);
        assert_int_equal(perform(fixture, steps[i].request).error, 0);
        assert_int_equal(scripted_server_connections(fixture->server), steps[i].connections);
    }
}

TEST_WITH(requests_use_the_unix_socket_and_no_proxy, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/inboxfs-test-http-%d.sock", getpid());
    struct scripted_server *server = scripted_server_start_unix(path);
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    struct http_config config = {.base_url = "http://localhost", .unix_socket = path, .api_key = KEY};
    struct http_client *client;
    assert_int_equal(http_client_new(&config, &client), 0);
    struct http_request request = get_request(fixture);
    struct http_response response;
    http_client_perform(client, &request, &response);
    assert_int_equal(response.error, 0);
    assert_int_equal(perform(fixture, &request).error, 0); /* requests to loopback use no proxy either */
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    http_client_free(client);
    scripted_server_stop(server);
    unlink(path);
}

/* ---------------------------------------------------------------- failures */

TEST_WITH(an_answer_longer_than_the_maximum_is_refused, set_up, tear_down)
{
    static const char body[] = "[1, 2]";
    struct fixture *fixture = *state;
    for (size_t room = strlen(body) - 1; room <= strlen(body); room++) {
        scripted_server_push(fixture->server, (struct scripted_step){.body = body});
        struct http_request request = get_request(fixture);
        request.max_body_bytes = room;
        struct http_response response = perform(fixture, &request);
        assert_int_equal(response.error, room < strlen(body) ? -EFBIG : 0);
        if (response.error == 0)
            assert_string_equal(strbuf_str(&fixture->body), body);
    }
}

TEST_WITH(an_announced_length_above_the_maximum_ends_the_request, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(fixture->server,
                         (struct scripted_step){.fault = SCRIPTED_HALF_BODY, .body = "[1, 2]"});
    struct http_request request = get_request(fixture);
    request.max_body_bytes = 5;
    assert_int_equal(perform(fixture, &request).error, -EFBIG);
}

TEST_WITH(failures_report_whether_the_request_can_have_arrived, set_up, tear_down)
{
    static const struct {
        enum scripted_fault fault;
        int error;
        int status;
        bool is_written;
    } cases[] = {
        {SCRIPTED_RESET_AFTER, -EHOSTUNREACH, 0, true}, {SCRIPTED_CLOSE_AFTER, -EHOSTUNREACH, 0, true},
        {SCRIPTED_HALF_HEAD, -EHOSTUNREACH, 0, true},   {SCRIPTED_HALF_BODY, -EHOSTUNREACH, 200, true},
        {SCRIPTED_BAD_CHUNK, -EHOSTUNREACH, 200, true}, {SCRIPTED_GARBAGE, -EPROTO, 0, true},
        {SCRIPTED_ENDLESS_HEAD, -EFBIG, 0, true},       {SCRIPTED_ENDLESS_BODY, -EFBIG, 200, true},
        {SCRIPTED_ENDLESS_LINE, -EFBIG, 0, true},       {SCRIPTED_STALL, -ETIMEDOUT, 0, true},
        {SCRIPTED_STALL_IN_HEAD, -ETIMEDOUT, 0, true},  {SCRIPTED_STALL_IN_BODY, -ETIMEDOUT, 200, true},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scripted_server_push(fixture->server,
                             (struct scripted_step){.fault = cases[i].fault, .body = "[{\"id\": \"1\"}]"});
        struct http_request request = post_request(fixture, "{}");
        request.stall_s = 2; /* long enough to write the request on a busy machine */
        struct http_response response = perform(fixture, &request);
        if (response.error != cases[i].error || response.status != cases[i].status)
            fail_msg("case %zu: error %d, status %d (%s)", i, response.error, response.status,
                     response.reason);
        assert_int_equal(response.is_written, cases[i].is_written);
        if (cases[i].fault == SCRIPTED_ENDLESS_LINE)
            assert_string_equal(response.reason, "a header of the answer is longer than can be read");
    }
}

TEST_WITH(a_request_body_cut_off_on_its_way_counts_as_unwritten, set_up, tear_down)
{
    struct fixture *fixture = *state;
    size_t len = 32 * 1024 * 1024; /* more than the sockets' buffers hold */
    _cleanup_free_ char *text = calloc(1, len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_RESET_IN_REQUEST});
    struct http_request request = post_request(fixture, text);
    struct http_response response = perform(fixture, &request);
    assert_int_equal(response.error, -EHOSTUNREACH);
    assert_false(response.is_written);
}

/* The server closes the connection before it has read the body, so its answer may be lost. */
TEST_WITH(an_early_refusal_leaves_the_request_unwritten, set_up, tear_down)
{
    struct fixture *fixture = *state;
    size_t len = 32 * 1024 * 1024;
    _cleanup_free_ char *text = calloc(1, len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    struct scripted_step step = {.status = 413, .body = "too big", .fault = SCRIPTED_ANSWER_BEFORE_BODY};
    scripted_server_push(fixture->server, step);
    struct http_request request = post_request(fixture, text);
    struct http_response response = perform(fixture, &request);
    assert_false(response.is_written);
    if (response.error == 0)
        assert_int_equal(response.status, 413);
    else
        assert_int_equal(response.error, -EHOSTUNREACH);
}

TEST_WITH(a_refused_connection_leaves_the_request_unwritten, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct scripted_server *gone = scripted_server_start();
    struct http_config config = {.base_url = scripted_server_url(gone), .api_key = KEY};
    struct http_client *client;
    assert_int_equal(http_client_new(&config, &client), 0);
    scripted_server_stop(gone);
    struct http_request request = post_request(fixture, "{}");
    struct http_response response;
    http_client_perform(client, &request, &response);
    assert_int_equal(response.error, -EHOSTUNREACH);
    assert_false(response.is_written);
    assert_non_null(strstr(response.reason, "onnect"));
    assert_null(strstr(response.reason, " ms")); /* drop_duration() */
    http_client_free(client);
}

/* A name of 127.0.0.1. Its next `failing_lookups` lookups fail. */
#define NAME "service.test"
static atomic_uint failing_lookups;

/* libcurl calls this function, since the program's symbols precede those of the C library. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name == NULL || strcmp(name, NAME) != 0)
        return next(name, service, hints, ret);
    if (atomic_load(&failing_lookups) == 0)
        return next("127.0.0.1", service, hints, ret);
    atomic_fetch_sub(&failing_lookups, 1);
    return EAI_AGAIN;
}

TEST_WITH(a_failed_name_lookup_is_repeated_by_the_next_request, set_up, tear_down)
{
    enum {
        FAILURES = 3
    };
    struct fixture *fixture = *state;
    char url[64];
    snprintf(url, sizeof(url), "http://" NAME "%s", strrchr(scripted_server_url(fixture->server), ':'));
    struct http_config config = {.base_url = url, .api_key = KEY};
    http_client_free(fixture->client);
    assert_int_equal(http_client_new(&config, &fixture->client), 0);
    struct http_request get = get_request(fixture);
    struct http_request post = post_request(fixture, "{}");
    atomic_store(&failing_lookups, FAILURES);
    for (unsigned int i = 0; i < FAILURES; i++) {
        struct http_response response = perform(fixture, i % 2 == 0 ? &get : &post);
        assert_int_equal(response.error, -EHOSTUNREACH);
        assert_non_null(strstr(response.reason, NAME));
        assert_false(response.is_written);
    }
    assert_int_equal(perform(fixture, &post).error, 0);
    assert_int_equal(perform(fixture, &get).error, 0);
    assert_int_equal(scripted_server_connections(fixture->server), 1);
}

TEST_WITH(a_lack_of_descriptors_leaves_the_request_unwritten, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int lowest = dup(STDIN_FILENO);
    assert_true(lowest >= 0);
    close(lowest);
    const struct rlimit none = {(rlim_t)lowest, before.rlim_max};
    struct http_request request = post_request(fixture, "{}");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct http_response response = perform(fixture, &request);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(response.error, -EMFILE);
    assert_false(response.is_written);
    assert_non_null(strstr(response.reason, "no file descriptor is left"));
    scripted_server_push(fixture->server, (struct scripted_step){.body = "[]"});
    assert_int_equal(perform(fixture, &request).error, 0);
}

TEST_WITH(https_to_a_server_without_tls_fails, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char url[128];
    snprintf(url, sizeof(url), "https%s", scripted_server_url(fixture->server) + strlen("http"));
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_GARBAGE});
    struct http_config config = {.base_url = url, .api_key = KEY};
    struct http_client *client;
    assert_int_equal(http_client_new(&config, &client), 0);
    struct http_request request = post_request(fixture, "{}");
    request.timeout_ms = 1000;
    struct http_response response;
    http_client_perform(client, &request, &response);
    assert_int_equal(response.error, -EHOSTUNREACH);
    assert_false(response.is_written);
    http_client_free(client);
}

TEST_WITH(a_deadline_ends_a_request, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_STALL});
    struct http_request request = get_request(fixture);
    request.timeout_ms = 200;
    int64_t start_ms = clock_monotonic_ms(clock_system());
    struct http_response response = perform(fixture, &request);
    assert_int_equal(response.error, -ETIMEDOUT);
    assert_in_range(clock_monotonic_ms(clock_system()) - start_ms, 190, 5000);
}

/* The kernel takes the upload at once, but the server reads it for longer than the stall limit. */
TEST_WITH(a_slow_upload_is_not_ended_while_it_makes_progress, set_up, tear_down)
{
    struct fixture *fixture = *state;
    size_t len = 3 * 1024 * 1024;
    _cleanup_free_ char *text = calloc(1, len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    scripted_server_push(fixture->server, (struct scripted_step){.read_pause_ms = 50});
    struct http_request request = post_request(fixture, text);
    request.stall_s = 2;
    struct http_response response = perform(fixture, &request);
    assert_string_equal(response.reason, "");
    assert_int_equal(scripted_server_request(fixture->server, 0)->body_len, len);
}

static void pause_before_chunk(void *context, size_t sent_bytes)
{
    const struct timespec pause = {.tv_nsec = 40 * 1000 * 1000};
    (void)context, (void)sent_bytes;
    nanosleep(&pause, NULL);
}

TEST_WITH(a_trickling_answer_ends_the_request, set_up, tear_down)
{
    struct fixture *fixture = *state;
    static char text[200]; /* static: the server still sends it after the test */
    memset(text, 'x', sizeof(text));
    struct http_request request = get_request(fixture);
    request.timeout_ms = 0;
    request.stall_s = 2;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_CHUNKED,
                                                                 .body = text,
                                                                 .body_len = sizeof(text),
                                                                 .before_chunk = pause_before_chunk});
    struct http_response response = perform(fixture, &request);
    assert_int_equal(response.error, -ETIMEDOUT);
    assert_in_range(fixture->body.len, 1, sizeof(text) - 1);
}

struct cancelling {
    struct cancel cancel;
    struct scripted_server *server;
    int64_t at_ms;
};

static void *cancel_after_first_request(void *argument)
{
    struct cancelling *cancelling = argument;
    scripted_server_wait(cancelling->server, 1);
    cancelling->at_ms = clock_monotonic_ms(clock_system());
    cancel_set(&cancelling->cancel);
    return NULL;
}

TEST_WITH(a_cancel_ends_a_request_at_once, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct cancelling cancelling = {.server = fixture->server};
    cancel_init(&cancelling.cancel);
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_STALL});
    struct http_request request = get_request(fixture);
    request.cancel = &cancelling.cancel;
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "cancel", cancel_after_first_request, &cancelling), 0);
    struct http_response response = perform(fixture, &request);
    int64_t end_ms = clock_monotonic_ms(clock_system());
    pthread_join(thread, NULL);
    assert_int_equal(response.error, -EINTR);
    assert_true(response.is_written);
    /* The limit is a tenth of a second; the test allows more, since the machine may be busy. */
    assert_in_range(end_ms - cancelling.at_ms, 0, 2000);

    scripted_server_clear(fixture->server);
    response = perform(fixture, &request);
    assert_int_equal(response.error, -EINTR);
    assert_false(response.is_written);
    assert_int_equal(scripted_server_requests(fixture->server), 0);
    cancel_release(&cancelling.cancel);
}

TEST_WITH(a_failing_sink_ends_the_request, set_up, tear_down)
{
    struct fixture *fixture = *state;
    scripted_server_push(fixture->server, (struct scripted_step){.body = "something"});
    fixture->sink_error = -ENOSPC;
    struct http_request request = get_request(fixture);
    assert_int_equal(perform(fixture, &request).error, -ENOSPC);
}

TEST_WITH(line_breaks_never_reach_a_header, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct http_client *client;
    static const char *const keys[] = {"a\r\nX: y", "a\nb", "", "a b", "\x7f"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct http_config config = {.base_url = "http://localhost", .api_key = keys[i]};
        assert_int_equal(http_client_new(&config, &client), -EINVAL);
    }
    struct http_request request = get_request(fixture);
    request.if_none_match = "\"v0\"\r\nX-Evil: 1";
    assert_int_equal(perform(fixture, &request).error, -EINVAL);
    assert_int_equal(scripted_server_requests(fixture->server), 0);
}

TEST_WITH(an_echoed_key_is_redacted, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char text[] = "you sent " KEY ", yes " KEY KEY;
    http_client_redact(fixture->client, text, strlen(text));
    assert_null(strstr(text, "secret"));
    assert_non_null(strstr(text, ", yes *"));
}

/* ---------------------------------------------------------------- many at once */

enum {
    THREADS = 6,
    REQUESTS_EACH = 40,
};

static void *make_requests(void *argument)
{
    struct fixture *fixture = argument;
    struct http_request request = post_request(fixture, "{\"a\": 1}");
    request.sink = NULL;
    size_t failures = 0;
    for (int i = 0; i < REQUESTS_EACH; i++) {
        struct http_response response;
        http_client_perform(fixture->client, &request, &response);
        failures += response.error != 0 || response.status != 200;
    }
    return (void *)failures;
}

TEST_WITH(several_threads_can_share_a_client, set_up, tear_down)
{
    struct fixture *fixture = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(thread_start(&threads[i], "requests", make_requests, fixture), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_null(failures);
    }
    assert_int_equal(scripted_server_requests(fixture->server), THREADS * REQUESTS_EACH);
    assert_in_range(scripted_server_connections(fixture->server), 1, THREADS);
}

struct stalled {
    struct fixture *fixture;
    struct cancel cancel;
};

static void *make_stalled_request(void *argument)
{
    struct stalled *stalled = argument;
    struct http_request request = get_request(stalled->fixture);
    struct http_response response;
    request.cancel = &stalled->cancel;
    http_client_perform(stalled->fixture->client, &request, &response);
    return NULL;
}

/* The number of concurrent requests exceeds the number of idle handles that the client keeps. */
TEST(requests_of_many_threads_leave_no_descriptor_open)
{
    enum {
        MANY = 100
    };
    size_t before = count_descriptors();
    void *own_state = NULL;
    set_up(&own_state);
    struct stalled stalled = {.fixture = own_state};
    pthread_t threads[MANY];
    cancel_init(&stalled.cancel);
    scripted_server_set_default(stalled.fixture->server, (struct scripted_step){.fault = SCRIPTED_STALL});
    for (int i = 0; i < MANY; i++)
        assert_int_equal(thread_start(&threads[i], "stalled", make_stalled_request, &stalled), 0);
    scripted_server_wait(stalled.fixture->server, MANY);
    cancel_set(&stalled.cancel);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    cancel_release(&stalled.cancel);
    tear_down(&own_state);
    assert_int_equal(count_descriptors(), before);
}
