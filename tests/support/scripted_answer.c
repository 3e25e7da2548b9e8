/* SPDX-License-Identifier: MIT */
/*
 * Complete and broken answers of the scripted server.
 */
#include "support/scripted_answer.h"

#include <linux/filter.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static bool send_all(int fd, const void *bytes, size_t len)
{
    const char *next = bytes;
    while (len > 0) {
        ssize_t sent = send(fd, next, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        next += sent;
        len -= (size_t)sent;
    }
    return true;
}

static void set_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static bool set_deaf(int fd)
{
    struct sock_filter drop = {.code = BPF_RET | BPF_K, .k = 0};
    struct sock_fprog program = {.len = 1, .filter = &drop};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

static bool stall(int fd, int stop_fd)
{
    struct pollfd polled[] = {{.fd = fd, .events = POLLRDHUP}, {.fd = stop_fd, .events = POLLIN}};
    poll(polled, 2, -1);
    return false;
}

static bool send_forever(int fd, int stop_fd, const char *text)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    while (poll(&stop, 1, 0) == 0) {
        if (!send_all(fd, text, strlen(text)))
            return false;
    }
    return false;
}

static size_t body_len(const struct scripted_step *step)
{
    if (step->body == NULL)
        return 0;
    return step->body_len > 0 ? step->body_len : strlen(step->body);
}

static bool send_head(int fd, const struct scripted_step *step, const char *framing, bool is_half)
{
    char head[8192];
    int status = step->status > 0 ? step->status : 200;
    int len = snprintf(head, sizeof(head), "HTTP/1.1 %d Scripted\r\n%s%s\r\n\r\n", status,
                       step->headers != NULL ? step->headers : "", framing);
    return send_all(fd, head, is_half ? (size_t)len / 2 : (size_t)len);
}

static bool send_with_length(int fd, const struct scripted_step *step, bool is_half)
{
    char framing[64];
    size_t len = body_len(step);
    bool has_body = step->status != 204 && step->status != 304;
    snprintf(framing, sizeof(framing), has_body ? "Content-Length: %zu" : "X-Length: %zu", len);
    return send_head(fd, step, framing, false) &&
           (!has_body || send_all(fd, step->body, is_half ? len / 2 : len));
}

static bool send_in_chunks(int fd, const struct scripted_step *step)
{
    size_t chunk = step->chunk_bytes > 0 ? step->chunk_bytes : 1;
    size_t len = body_len(step);
    if (!send_head(fd, step, "Transfer-Encoding: chunked", false))
        return false;
    for (size_t i = 0; i < len; i += chunk) {
        char size[32];
        size_t part = len - i < chunk ? len - i : chunk;
        if (step->before_chunk != NULL)
            step->before_chunk(step->context, i);
        snprintf(size, sizeof(size), "%zx\r\n", part);
        if (!send_all(fd, size, strlen(size)) || !send_all(fd, step->body + i, part) ||
            !send_all(fd, "\r\n", 2))
            return false;
    }
    return send_all(fd, "0\r\n\r\n", 5);
}

static bool send_bad_chunk(int fd, const struct scripted_step *step)
{
    static const char chunks[] = "2\r\n[{\r\nno hex number at all\r\n";
    return send_head(fd, step, "Transfer-Encoding: chunked", false) &&
           send_all(fd, chunks, sizeof(chunks) - 1);
}

bool scripted_answer(int fd, int stop_fd, const struct scripted_step *step)
{
    if (step->delay_ms > 0) {
        struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
        if (poll(&stop, 1, step->delay_ms) != 0)
            return false;
    }
    switch (step->fault) {
    case SCRIPTED_NONE:
        return send_with_length(fd, step, false);
    case SCRIPTED_CHUNKED:
        return send_in_chunks(fd, step);
    case SCRIPTED_RESET_BEFORE:
    case SCRIPTED_RESET_IN_REQUEST:
    case SCRIPTED_RESET_AFTER:
        set_reset(fd);
        return false;
    case SCRIPTED_CLOSE_AFTER:
        return false;
    case SCRIPTED_STALL:
        return stall(fd, stop_fd);
    case SCRIPTED_STALL_IN_HEAD:
        return send_head(fd, step, "X-Half: yes", true) && stall(fd, stop_fd);
    case SCRIPTED_STALL_IN_BODY:
        return send_with_length(fd, step, true) && stall(fd, stop_fd);
    case SCRIPTED_HALF_HEAD:
        return send_head(fd, step, "X-Half: yes", true) && false;
    case SCRIPTED_HALF_BODY:
        return send_with_length(fd, step, true) && false;
    case SCRIPTED_BAD_CHUNK:
        return send_bad_chunk(fd, step) && false;
    case SCRIPTED_GARBAGE:
        return send_all(fd, "\x01\x02garbage\r\n\r\n", 13) && false;
    case SCRIPTED_ENDLESS_HEAD:
        return send_head(fd, step, "X-Half: yes", true) &&
               send_forever(fd, stop_fd, "x\r\nX-More: more\r\nX-M: ");
    case SCRIPTED_ENDLESS_LINE:
        return send_head(fd, step, "X-Half: yes", true) &&
               send_forever(fd, stop_fd, "and so on and on and on and on and on and on ");
    case SCRIPTED_ENDLESS_BODY:
        return send_head(fd, step, "Connection: close", false) &&
               send_forever(fd, stop_fd, "and so on and on and on and on and on and on ");
    case SCRIPTED_ANSWER_THEN_DEAF:
        return set_deaf(fd) && send_with_length(fd, step, false);
    case SCRIPTED_ANSWER_THEN_CLOSE:
    case SCRIPTED_ANSWER_BEFORE_BODY:
        return send_with_length(fd, step, false) && false;
    }
    return false;
}
