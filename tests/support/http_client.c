/* SPDX-License-Identifier: MIT */
/*
 * The client writes the whole request, reads until the server closes, and parses the answer.
 */
#include "support/http_client.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/strbuf.h"

enum {
    ANSWER_MAX_BYTES = 256 * 1024 * 1024,
    TIMEOUT_S = 60,
};

void http_answer_release(struct http_answer *answer)
{
    free(answer->head);
    free(answer->body);
    *answer = (struct http_answer){0};
}

int http_client_connect(const struct http_client *client)
{
    bool is_unix = strncmp(client->address, "unix:", 5) == 0;
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (is_unix) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", client->address + 5);
        assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
    } else {
        char host[64];
        snprintf(host, sizeof(host), "%s", client->address);
        char *colon = strrchr(host, ':');
        assert_non_null(colon);
        *colon = '\0';
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
        assert_int_equal(1, inet_pton(AF_INET, host, &address.sin_addr));
        assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
    }
    return fd;
}

static void read_to_end(int fd, struct strbuf *text)
{
    char buffer[65536];
    ssize_t got;
    while ((got = read(fd, buffer, sizeof(buffer))) > 0)
        assert_int_equal(0, strbuf_append(text, buffer, (size_t)got));
}

static void join_chunks(const char *from, const char *end, struct strbuf *body)
{
    for (;;) {
        char *line_end = NULL;
        unsigned long len = strtoul(from, &line_end, 16);
        assert_non_null(line_end);
        assert_memory_equal(line_end, "\r\n", 2);
        from = line_end + 2;
        if (len == 0)
            return;
        assert_true(len + 2 <= (size_t)(end - from));
        assert_int_equal(0, strbuf_append(body, from, len));
        from += len + 2;
    }
}

char *http_answer_header(const struct http_answer *answer, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = answer->head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;
            value += strspn(value, " ");
            return strndup(value, strcspn(value, "\r"));
        }
    }
    return NULL;
}

static void take_apart(const struct strbuf *text, struct http_answer *ret_answer)
{
    const char *data = strbuf_str(text);
    const char *blank = strstr(data, "\r\n\r\n");
    assert_non_null(blank);
    assert_int_equal(0, strncmp(data, "HTTP/1.1 ", 9));
    ret_answer->status = (int)strtol(data + 9, NULL, 10);
    ret_answer->head = strndup(data, (size_t)(blank - data) + 2);
    const char *rest = blank + 4;
    const char *end = data + text->len;
    struct strbuf body = STRBUF_INIT(ANSWER_MAX_BYTES);
    char *encoding = http_answer_header(ret_answer, "Transfer-Encoding");
    if (encoding != NULL && rest < end)
        join_chunks(rest, end, &body);
    else
        strbuf_append(&body, rest, (size_t)(end - rest));
    free(encoding);
    ret_answer->body_len = body.len;
    ret_answer->body = strbuf_take(&body, NULL);
    if (ret_answer->body == NULL)
        ret_answer->body = strdup("");
}

void http_client_exchange(const struct http_client *client, const void *bytes, size_t len,
                          struct http_answer *ret_answer)
{
    int fd = http_client_connect(client);
    /* The server may answer and close before it has read the whole request. */
    (void)file_write_all(fd, bytes, len);
    struct strbuf text = STRBUF_INIT(ANSWER_MAX_BYTES);
    read_to_end(fd, &text);
    close(fd);
    *ret_answer = (struct http_answer){0};
    take_apart(&text, ret_answer);
    strbuf_release(&text);
}

void http_client_request(const struct http_client *client, const char *method, const char *target,
                         const char *headers, const void *body, size_t body_len,
                         struct http_answer *ret_answer)
{
    struct strbuf text = STRBUF_INIT(ANSWER_MAX_BYTES);
    strbuf_appendf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", method, target);
    if (client->key != NULL)
        strbuf_appendf(&text, "Authorization: Bearer %s\r\n", client->key);
    strbuf_append_str(&text, headers);
    if (body != NULL)
        strbuf_appendf(&text, "Content-Length: %zu\r\n", body_len);
    strbuf_append_str(&text, "\r\n");
    if (body != NULL)
        strbuf_append(&text, body, body_len);
    assert_int_equal(0, text.error);
    http_client_exchange(client, text.data, text.len, ret_answer);
    strbuf_release(&text);
}
