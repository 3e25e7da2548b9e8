/* SPDX-License-Identifier: MIT */
/*
 * One request driven through libcurl's multi interface, since curl_easy_perform looks at its callbacks only
 * once a second. What left for the server is counted by the debug callback, which libcurl calls after each
 * write that succeeded: that tells exactly whether the whole request can have arrived.
 */
#include "http/http_transfer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "http/http_body.h"

enum {
    CANCEL_LOOK_MS = 50,
    IDLE_LOOK_MS = 1000,
    RECEIVE_BUFFER_BYTES = 128 * 1024,
    RETRY_AFTER_MAX_S = 24 * 60 * 60,
    /* Servers close idle connections (uvicorn and Node after 5 s). A POST that meets such a close in flight
     * cannot be told from one that was acted on, so it takes only a connection that was used just now. */
    POST_IDLE_MAX_S = 3,
    GET_IDLE_MAX_S = 60,
};

struct transfer {
    const struct http_request *request;
    struct http_response *response;
    CURL *easy;
    int error;          /* decided here; goes before libcurl's */
    size_t body_len;    /* of the request */
    size_t body_read;   /* handed to libcurl */
    unsigned int match; /* how much of CR LF CR LF the last bytes sent are; 4: the head is out */
    uint64_t body_out;  /* bytes written behind the head, in this attempt */
    size_t head_bytes;  /* of the answer */
    uint64_t body_bytes;
    bool has_news;                    /* the sink was called since the last pause */
    int64_t progress_ms;              /* when a byte last went either way */
    char words[HTTP_WORDS_MAX_BYTES]; /* go with `error` */
    char curl_words[CURL_ERROR_SIZE]; /* libcurl's */
};

static void note_progress(struct transfer *transfer)
{
    transfer->progress_ms = clock_monotonic_ms(clock_system());
}

/* ---------------------------------------------------------------- what goes out */

static void count_sent(struct transfer *transfer, const char *bytes, size_t len)
{
    static const char head_end[] = "\r\n\r\n";
    size_t i = 0;
    for (; i < len && transfer->match < 4; i++) {
        if (bytes[i] == head_end[transfer->match])
            transfer->match++;
        else
            transfer->match = bytes[i] == '\r' ? 1 : 0;
    }
    transfer->body_out += len - i;
    transfer->response->sent_bytes += len;
    if (transfer->match == 4 && transfer->body_out >= transfer->body_len)
        transfer->response->is_written = true;
    note_progress(transfer);
}

static int on_debug(CURL *easy, curl_infotype type, char *bytes, size_t len, void *context)
{
    struct transfer *transfer = context;
    (void)easy;
    /* A second head after a complete one is libcurl's next attempt on a fresh connection. */
    if (type == CURLINFO_HEADER_OUT && transfer->match == 4) {
        transfer->match = 0;
        transfer->body_out = 0;
    }
    if (type == CURLINFO_HEADER_OUT || type == CURLINFO_DATA_OUT)
        count_sent(transfer, bytes, len);
    return 0;
}

static size_t on_read(char *buffer, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    ssize_t len = http_body_read(&transfer->request->body, transfer->body_read, buffer, size * count);
    if (len < 0) {
        transfer->error = (int)len;
        snprintf(transfer->words, sizeof(transfer->words),
                 "the file to send cannot be read, or became shorter");
        return CURL_READFUNC_ABORT;
    }
    transfer->body_read += (size_t)len;
    return (size_t)len;
}

/* libcurl repeats a request by itself when a kept connection turns out to be dead, a POST too, and rewinds
 * the body for it. It may, as long as the whole of it has not left once: refusing the rewind ends the
 * request. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    if (origin != SEEK_SET || offset != 0 || transfer->response->is_written)
        return CURL_SEEKFUNC_FAIL;
    transfer->body_read = 0;
    return CURL_SEEKFUNC_OK;
}

/* ---------------------------------------------------------------- what comes in */

/* libcurl undoes any transfer coding, asked for or not, and what is packed may be a thousand times as long: a
 * few megabytes would cost the time and the memory of gigabytes. None but chunks is ever asked for. */
static bool is_packed(const char *line, size_t len)
{
    static const char name[] = "transfer-encoding:";
    static const char chunks[] = "chunked";
    size_t name_len = sizeof(name) - 1;
    if (len < name_len || strncasecmp(line, name, name_len) != 0)
        return false;
    line += name_len;
    len -= name_len;
    while (len > 0 && strchr(" \t", *line) != NULL)
        line++, len--;
    while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL)
        len--;
    return len != sizeof(chunks) - 1 || strncasecmp(line, chunks, len) != 0;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t len = size * count;
    note_progress(transfer);
    transfer->response->received_bytes += len;
    transfer->head_bytes += len;
    if (transfer->head_bytes > HTTP_HEAD_MAX_BYTES) {
        transfer->error = -EFBIG;
        snprintf(transfer->words, sizeof(transfer->words), "the answer's head is longer than %d bytes",
                 HTTP_HEAD_MAX_BYTES);
        return CURL_WRITEFUNC_ERROR;
    }
    if (is_packed(bytes, len)) {
        transfer->error = -EPROTO;
        snprintf(transfer->words, sizeof(transfer->words),
                 "the answer is packed in a way that was not asked for");
        return CURL_WRITEFUNC_ERROR;
    }
    if (len <= 2 && (bytes[0] == '\r' || bytes[0] == '\n')) {
        long status = 0;
        curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200)
            transfer->response->status = (int)status;
    }
    return len;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    const struct http_request *request = transfer->request;
    size_t len = size * count;
    transfer->response->received_bytes += len;
    transfer->body_bytes += len;
    if (transfer->body_bytes > request->max_body_bytes) {
        transfer->error = -EFBIG;
        snprintf(transfer->words, sizeof(transfer->words), "the answer is longer than %llu bytes",
                 (unsigned long long)request->max_body_bytes);
        return CURL_WRITEFUNC_ERROR;
    }
    if (request->sink != NULL) {
        transfer->has_news = true;
        transfer->error = request->sink(request->context, transfer->response->status, bytes, len);
        if (transfer->error != 0)
            return CURL_WRITEFUNC_ERROR;
    }
    note_progress(transfer); /* after the sink, whose time is no stall */
    return len;
}

/* ---------------------------------------------------------------- options */

/* The same for every request. */
static const struct {
    CURLoption option;
    long value;
} fixed_options[] = {
    {CURLOPT_NOSIGNAL, 1},
    {CURLOPT_QUICK_EXIT, 1}, /* an end does not wait for a name server */
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1}, /* what is out is counted in its framing */
    {CURLOPT_SSL_VERIFYPEER, 1},
    {CURLOPT_SSL_VERIFYHOST, 2},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_DISALLOW_USERNAME_IN_URL, 1},
    {CURLOPT_CONNECTTIMEOUT_MS, HTTP_CONNECT_TIMEOUT_MS},
    {CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_BYTES},
    {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
    {CURLOPT_HEADEROPT, CURLHEADER_SEPARATE}, /* no key to a proxy */
    {CURLOPT_VERBOSE, 1},                     /* for the debug callback; nothing is printed */
};

#define SET(option, value)                                            \
    do {                                                              \
        if (rc == CURLE_OK)                                           \
            rc = curl_easy_setopt(transfer->easy, (option), (value)); \
    } while (0)

static CURLcode set_connection(struct transfer *transfer, const struct http_target *target)
{
    const struct http_request *request = transfer->request;
    bool is_post = request->body.content_type != NULL;
    CURLcode rc = CURLE_OK;
    for (size_t i = 0; i < ARRAY_LEN(fixed_options); i++)
        SET(fixed_options[i].option, fixed_options[i].value);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_TIMEOUT_MS, (long)(request->timeout_ms > 0 ? request->timeout_ms : 1));
    SET(CURLOPT_MAXAGE_CONN, is_post ? (long)POST_IDLE_MAX_S : (long)GET_IDLE_MAX_S);
    if (!target->uses_proxy)
        SET(CURLOPT_PROXY, "");
    if (target->unix_socket != NULL)
        SET(CURLOPT_UNIX_SOCKET_PATH, target->unix_socket);
    return rc;
}

static CURLcode set_callbacks(struct transfer *transfer)
{
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_ERRORBUFFER, transfer->curl_words);
    SET(CURLOPT_DEBUGFUNCTION, on_debug);
    SET(CURLOPT_DEBUGDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    return rc;
}

static CURLcode set_request(struct transfer *transfer, const struct http_target *target,
                            struct curl_slist *headers)
{
    const struct http_request *request = transfer->request;
    CURLcode rc = CURLE_OK;
    char url[8192];
    int len = snprintf(url, sizeof(url), "%s%s", target->base_url, request->target);
    if (len < 0 || (size_t)len >= sizeof(url))
        return CURLE_URL_MALFORMAT;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_HTTPHEADER, headers);
    if (request->body.content_type != NULL) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body_len);
        SET(CURLOPT_READFUNCTION, on_read);
        SET(CURLOPT_READDATA, transfer);
        SET(CURLOPT_SEEKFUNCTION, on_seek);
        SET(CURLOPT_SEEKDATA, transfer);
    } else {
        SET(CURLOPT_HTTPGET, 1L);
    }
    return rc;
}

#undef SET

/* ---------------------------------------------------------------- the run */

static bool is_given_up(struct transfer *transfer)
{
    const struct http_request *request = transfer->request;
    if (cancel_is_set(request->cancel)) {
        transfer->error = -ECANCELED;
        snprintf(transfer->words, sizeof(transfer->words), "cancelled");
        return true;
    }
    int64_t idle_ms = clock_monotonic_ms(clock_system()) - transfer->progress_ms;
    if (request->stall_ms > 0 && idle_ms >= request->stall_ms) {
        transfer->error = -ETIMEDOUT;
        snprintf(transfer->words, sizeof(transfer->words), "nothing came or went for %lld ms",
                 (long long)idle_ms);
        return true;
    }
    return false;
}

static bool has_arrived_more(CURLM *multi)
{
    int ready = 0;
    return curl_multi_poll(multi, NULL, 0, 0, &ready) == CURLM_OK && ready > 0;
}

static void tell_of_pause(struct transfer *transfer)
{
    if (transfer->has_news && transfer->request->pause != NULL)
        transfer->request->pause(transfer->request->context);
    transfer->has_news = false;
}

/* There is a pause when nothing more has arrived, not when libcurl has handed on what its buffer holds. */
static void wait_for_more(CURLM *multi, struct transfer *transfer, int look_ms)
{
    if (transfer->has_news && has_arrived_more(multi))
        return;
    tell_of_pause(transfer);
    curl_multi_poll(multi, NULL, 0, look_ms, NULL);
}

static int look_interval_ms(const struct http_request *request)
{
    if (request->cancel != NULL || (request->stall_ms > 0 && request->stall_ms < IDLE_LOOK_MS))
        return CANCEL_LOOK_MS;
    return IDLE_LOOK_MS;
}

static CURLcode drive(CURLM *multi, struct transfer *transfer)
{
    if (curl_multi_add_handle(multi, transfer->easy) != CURLM_OK)
        return CURLE_FAILED_INIT;
    note_progress(transfer);
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    int look_ms = look_interval_ms(transfer->request);
    while (!is_given_up(transfer)) {
        int running = 0;
        if (curl_multi_perform(multi, &running) != CURLM_OK) {
            result = CURLE_FAILED_INIT;
            break;
        }
        int left;
        const CURLMsg *message = curl_multi_info_read(multi, &left);
        if (message != NULL) {
            result = message->data.result;
            tell_of_pause(transfer);
            break;
        }
        wait_for_more(multi, transfer, look_ms);
    }
    curl_multi_remove_handle(multi, transfer->easy);
    return result;
}

static int error_of(CURLcode code, const struct transfer *transfer)
{
    curl_off_t connected_us = 0;
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        curl_easy_getinfo(transfer->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
        return connected_us == 0 ? -EHOSTUNREACH : -ETIMEDOUT;
    case CURLE_UNSUPPORTED_PROTOCOL: /* an answer in HTTP/0.9 is told by this code */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return -EPROTO;
    case CURLE_URL_MALFORMAT:
        return -EINVAL;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND:
        return -ECONNRESET;
    default:
        return -EIO;
    }
}

/* Of an answer's line of 100 kB and more libcurl says nothing but that. */
static void note_long_line(CURLcode code, struct transfer *transfer)
{
    if (code != CURLE_OUT_OF_MEMORY || !transfer->response->is_written || transfer->error != 0)
        return;
    transfer->error = -EFBIG;
    snprintf(transfer->words, sizeof(transfer->words), "a header of the answer is longer than can be read");
}

static const char *words_of(CURLcode code, const struct transfer *transfer)
{
    if (transfer->error != 0)
        return transfer->words[0] != '\0' ? transfer->words : strerror(-transfer->error);
    if (transfer->curl_words[0] != '\0')
        return transfer->curl_words;
    return code != CURLE_OK ? curl_easy_strerror(code) : "the request cannot be made";
}

static void read_head(CURL *easy, struct http_response *response)
{
    curl_off_t seconds = 0;
    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
        response->retry_after_ms = (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S) * 1000;
    struct curl_header *etag;
    if (curl_easy_header(easy, "ETag", 0, CURLH_HEADER, -1, &etag) == CURLHE_OK &&
        strlen(etag->value) < sizeof(response->etag))
        snprintf(response->etag, sizeof(response->etag), "%s", etag->value);
    char *content_type = NULL;
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &content_type);
    response->is_html = content_type != NULL && strncasecmp(content_type, "text/html", 9) == 0;
}

void http_transfer_run(CURLM *multi, CURL *easy, const struct http_target *target,
                       const struct http_request *request, struct http_response *ret)
{
    struct transfer transfer = {
        .request = request,
        .response = ret,
        .easy = easy,
        .body_len = http_body_len(&request->body),
    };
    struct http_head head = {.len = 0};
    bool is_post = strcmp(request->method, "POST") == 0;
    int rc = is_post == (transfer.body_len > 0) ? http_head_build(&head, target, request) : -EINVAL;

    CURLcode code = CURLE_OK;
    curl_easy_reset(easy);
    if (rc == 0)
        code = set_connection(&transfer, target);
    if (rc == 0 && code == CURLE_OK)
        code = set_callbacks(&transfer);
    if (rc == 0 && code == CURLE_OK)
        code = set_request(&transfer, target, head.nodes);
    if (rc == 0 && code == CURLE_OK) {
        code = drive(multi, &transfer);
        note_long_line(code, &transfer);
        read_head(easy, ret);
    }
    if (rc == 0)
        rc = transfer.error != 0 ? transfer.error : error_of(code, &transfer);
    ret->error = rc;
    if (rc != 0)
        snprintf(ret->words, sizeof(ret->words), "%s", words_of(code, &transfer));
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL); /* ends with this function */
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, NULL);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 0L); /* closing the connection later tells nobody */
}
