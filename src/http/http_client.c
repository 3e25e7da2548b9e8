/* SPDX-License-Identifier: MIT */
/*
 * The client has a stack of idle libcurl handles, each with the connection that it used last. A request takes
 * the handle that was used last, so that few connections serve many requests. The other handles are closed
 * when they are old, or when one connection proves dead, since then most of them are dead.
 *
 * A request goes through libcurl's multi interface, since curl_easy_perform() checks for a cancel only once a
 * second. libcurl calls the debug callback after each successful write. The callback counts the bytes that
 * the kernel got, to show whether the whole request can have arrived. After the kernel has given a
 * connection up, find_never_sent() finds out how many bytes the kernel never sent.
 */
#include "http/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    CONNECT_TIMEOUT_MS = 9000,  /* for the name lookup, the connection and TLS together */
    HEAD_MAX_BYTES = 64 * 1024, /* all header lines of an answer together */
    IDLE_SLOTS_MAX = 64,
    KEY_MAX_BYTES = 4096,
    LINES_MAX = 6, /* lines of a request's head that libcurl does not write itself */
    LINE_MAX_BYTES = 512,
    CANCEL_CHECK_MS = 50,
    UNSENT_BYTES = 64 * 1024,
    STALL_BYTES_PER_S = 100,
    RECEIVE_BUFFER_BYTES = 128 * 1024,
    RETRY_AFTER_MAX_S = 60 * 60,
    /* Servers close idle connections (uvicorn and Node after 5 s). If that happens during a POST, its outcome
     * is unknown, so a POST takes only a connection that was used within the last 3 s. */
    POST_IDLE_MAX_MS = 3 * 1000,
    GET_IDLE_MAX_MS = 60 * 1000,
};

#define AUTHORIZATION "Authorization: Bearer "

/* A handle and the connection that it keeps. */
struct http_slot {
    CURLM *multi;
    CURL *easy;
    int fd;              /* socket of the connection, owned by libcurl; -1 if unknown or if there is none */
    uint64_t never_sent; /* result of find_never_sent() for a connection closed in this attempt */
    int64_t unacked_ms;  /* how long bytes may stay unacknowledged; 0: the kernel's default */
    int64_t used_ms;     /* time of the last use, by clock_boottime_ms() */
    struct http_slot *next;
};

struct http_client {
    char *base_url;
    char *authorization; /* the whole header line, or NULL */
    pthread_mutex_t lock;
    CURL *prototype;        /* protected by `lock`, like all below; has the options of fixed_options */
    struct http_slot *idle; /* stack; the slot that was used last is first */
    unsigned int idle_len;
};

/* ---------------------------------------------------------------- the head of a request */

/* libcurl borrows the list of headers, so the nodes can be on the stack, and the key is not copied. */
struct http_head {
    struct curl_slist nodes[LINES_MAX];
    char if_none_match[LINE_MAX_BYTES];
    unsigned int len;
};

static void add_header_line(struct http_head *head, const char *line)
{
    struct curl_slist *node = &head->nodes[head->len];
    node->data = (char *)(uintptr_t)line; /* libcurl only reads it */
    node->next = NULL;
    if (head->len > 0)
        head->nodes[head->len - 1].next = node;
    head->len++;
}

/* Fills in `head` (all zeros before), which borrows from `client` and must not move afterwards. Return: 0;
 * -EINVAL if the ETag is too long or has a line break, by which a stranger could add a header line. */
static int build_header_lines(struct http_head *head, const struct http_client *client,
                              const struct http_request *request)
{
    add_header_line(head, "User-Agent: inboxfs/" INBOXFS_VERSION);
    add_header_line(head, request->takes_any_type ? "Accept: */*" : "Accept: application/json");
    add_header_line(head, "Expect:"); /* do not wait for a 100 Continue */
    if (client->authorization != NULL)
        add_header_line(head, client->authorization);
    if (request->json != NULL)
        add_header_line(head, "Content-Type: application/json");
    if (request->if_none_match == NULL)
        return 0;
    int len = snprintf(head->if_none_match, LINE_MAX_BYTES, "If-None-Match: %s", request->if_none_match);
    if (len < 0 || len >= LINE_MAX_BYTES || strpbrk(head->if_none_match, "\r\n") != NULL)
        return -EINVAL;
    add_header_line(head, head->if_none_match);
    return 0;
}

/* ---------------------------------------------------------------- one transfer */

struct transfer {
    const struct http_request *request;
    struct http_response *response;
    struct http_slot *slot;
    CURL *easy;
    curl_mime *mime;  /* the parts around a file; NULL without one */
    int error;        /* set by the callbacks; overrides libcurl's error */
    const char *body; /* the text or file to send; NULL without one */
    size_t body_len;
    size_t body_read;   /* bytes of it handed to libcurl */
    unsigned int match; /* length of the part of CR LF CR LF that was written last; 4 after the whole head */
    uint64_t out;       /* bytes written in this attempt, without the framing of TLS */
    uint64_t body_out;  /* bytes of `out` after the head */
    size_t head_bytes;  /* size of the answer's head so far */
    uint64_t body_bytes;
    char reason[HTTP_REASON_MAX_BYTES]; /* reason for `error` */
    char curl_reason[CURL_ERROR_SIZE];  /* reason given by libcurl */
};

/* ---------------------------------------------------------------- the socket */

/* Makes the kernel end the connection if the peer acknowledges nothing for `unacked_ms`. */
static void set_unacked_limit(int fd, int64_t unacked_ms)
{
    unsigned int limit = (unsigned int)unacked_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit,
               sizeof(limit)); /* fails on a Unix socket, which does no harm */
}

static int on_socket(void *context, curl_socket_t fd, curlsocktype purpose)
{
    struct http_slot *slot = context;
    slot->fd = fd;
    set_unacked_limit(fd, slot->unacked_ms);
    /* Without this limit the kernel buffers some megabytes at once. A slow line takes minutes to send them,
     * and meanwhile libcurl would see no progress. */
    const int unsent_limit = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_limit, sizeof(unsent_limit));
    return CURL_SOCKOPT_OK;
}

/* Returns the number of bytes that the kernel never sent and never will send. The number is certain only when
 * the kernel has given the connection up (in TCP_CLOSE it sends no more data) and has not passed the bytes to
 * IP even once, because there was no route or the machine has a new address. Bytes that were sent but not
 * acknowledged may have arrived: the acknowledgement may be lost, or a server may act and then reset. */
static uint64_t find_never_sent(int fd)
{
    int unsent = 0;
    struct tcp_info info;
    socklen_t size = sizeof(info);
    bool is_sure = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE &&
                   ioctl(fd, SIOCOUTQNSD, &unsent) == 0;
    return is_sure && unsent > 0 ? (uint64_t)unsent : 0;
}

static int on_socket_close(void *context, curl_socket_t fd)
{
    struct http_slot *slot = context;
    /* libcurl may try two addresses at once and close the socket that it opened last. The fd of the other
     * socket is then unknown, and all written bytes count as sent. */
    if (fd == slot->fd) {
        uint64_t never_sent = find_never_sent(fd);
        if (never_sent > 0) /* 0 may also mean that there was no connection yet */
            slot->never_sent = never_sent;
        slot->fd = -1;
    }
    return close(fd);
}

/* ---------------------------------------------------------------- sending */

/* The kernel got `out` bytes of the request, and more with TLS. If `out` or more bytes were never sent, the
 * request is incomplete. */
static void apply_never_sent(struct transfer *transfer)
{
    if (transfer->slot->never_sent >= transfer->out && transfer->out > 0)
        transfer->response->is_written = false;
}

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
    transfer->out += len;
    transfer->body_out += len - i;
    transfer->response->sent_bytes += len;
    /* With a file, the body is longer: the request counts as written a little too early. */
    bool has_body = transfer->body_read == transfer->body_len && transfer->body_out >= transfer->body_len;
    if (transfer->match == 4 && has_body)
        transfer->response->is_written = true;
}

static int on_debug(CURL *easy, curl_infotype type, char *bytes, size_t len, void *context)
{
    struct transfer *transfer = context;
    /* A second head after a complete one belongs to libcurl's next attempt, on a new connection. */
    if (type == CURLINFO_HEADER_OUT && transfer->match == 4) {
        transfer->match = 0;
        transfer->out = 0;
        transfer->body_out = 0;
    }
    if (transfer->out == 0)
        transfer->slot->never_sent = 0;
    if (type == CURLINFO_HEADER_OUT || type == CURLINFO_DATA_OUT)
        count_sent(transfer, bytes, len);
    return 0;
}

static size_t on_read(char *buffer, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t left = transfer->body_len - transfer->body_read;
    size_t len = left < size * count ? left : size * count;
    if (len > 0)
        memcpy(buffer, transfer->body + transfer->body_read, len);
    transfer->body_read += len;
    return len;
}

/* If a reused connection is dead, libcurl rewinds the body and repeats the request, even a POST. This
 * function refuses to rewind a request that was written as a whole: libcurl then ends the request. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    apply_never_sent(transfer);
    if (origin != SEEK_SET || offset != 0 || transfer->response->is_written)
        return CURL_SEEKFUNC_FAIL;
    transfer->body_read = 0;
    return CURL_SEEKFUNC_OK;
}

/* ---------------------------------------------------------------- receiving */

/* libcurl decodes any transfer coding, even one that was not requested, and a few megabytes may decompress to
 * gigabytes. So only "chunked" is accepted. */
static bool is_compressed(CURL *easy)
{
    struct curl_header *coding;
    return curl_easy_header(easy, "Transfer-Encoding", 0, CURLH_HEADER | CURLH_1XX, -1, &coding) ==
               CURLHE_OK &&
           (coding->amount > 1 || strcasecmp(coding->value, "chunked") != 0);
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t len = size * count;
    transfer->response->received_bytes += len;
    transfer->head_bytes += len;
    if (transfer->head_bytes > HEAD_MAX_BYTES) {
        transfer->error = -EFBIG;
        snprintf(transfer->reason, sizeof(transfer->reason), "the answer's head is longer than %d bytes",
                 HEAD_MAX_BYTES);
        return CURL_WRITEFUNC_ERROR;
    }
    bool is_end = len <= 2 && (bytes[0] == '\r' || bytes[0] == '\n');
    if (!is_end)
        return len;
    if (is_compressed(transfer->easy)) {
        transfer->error = -EPROTO;
        snprintf(transfer->reason, sizeof(transfer->reason),
                 "the answer is packed in a way that was not asked for");
        return CURL_WRITEFUNC_ERROR;
    }
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200)
        transfer->response->status = (int)status;
    return len;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    const struct http_request *request = transfer->request;
    size_t len = size * count;
    curl_off_t announced = -1;
    curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    transfer->response->received_bytes += len;
    transfer->body_bytes += len;
    if (transfer->body_bytes > request->max_body_bytes ||
        (announced > 0 && (uint64_t)announced > request->max_body_bytes)) {
        transfer->error = -EFBIG;
        snprintf(transfer->reason, sizeof(transfer->reason), "the answer is longer than %llu bytes",
                 (unsigned long long)request->max_body_bytes);
        return CURL_WRITEFUNC_ERROR;
    }
    int status = transfer->response->status;
    if (request->refusal != NULL && (status < 200 || status > 299))
        transfer->error = strbuf_append(request->refusal, bytes, len);
    else if (request->sink != NULL)
        transfer->error = request->sink(request->context, bytes, len);
    return transfer->error == 0 ? len : CURL_WRITEFUNC_ERROR;
}

/* ---------------------------------------------------------------- options */

/* Set once, in the prototype of all handles: after a failed name lookup, libcurl 7.88 refuses to set
 * CURLOPT_BUFFERSIZE. */
static const struct {
    CURLoption option;
    long value;
} fixed_options[] = {
    {CURLOPT_NOSIGNAL, 1},
    {CURLOPT_QUICK_EXIT, 1}, /* do not wait for a name server when the handle is freed */
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1}, /* count_sent() parses HTTP/1.1 framing */
    {CURLOPT_SSL_VERIFYPEER, 1},
    {CURLOPT_SSL_VERIFYHOST, 2},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_DISALLOW_USERNAME_IN_URL, 1},
    {CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS},
    {CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_BYTES},
    {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
    {CURLOPT_HEADEROPT, CURLHEADER_SEPARATE}, /* do not send the key to a proxy */
};

#define SET(option, value)                                  \
    do {                                                    \
        if (rc == CURLE_OK)                                 \
            rc = curl_easy_setopt(easy, (option), (value)); \
    } while (0)

static CURLcode set_fixed(CURL *easy, const struct http_config *config, bool is_https)
{
    CURLcode rc = CURLE_OK;
    struct stat status;
    for (size_t i = 0; i < ARRAY_LEN(fixed_options); i++)
        SET(fixed_options[i].option, fixed_options[i].value);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_socket_close);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_READFUNCTION, on_read);
    SET(CURLOPT_SEEKFUNCTION, on_seek);
    if (config->ca_path != NULL) {
        bool is_directory = stat(config->ca_path, &status) == 0 && S_ISDIR(status.st_mode);
        SET(CURLOPT_CAINFO, is_directory ? NULL : config->ca_path);
        SET(CURLOPT_CAPATH, is_directory ? config->ca_path : NULL);
    }
    /* Plain HTTP does not use the proxy of the environment, which would see the key. */
    if (!is_https || config->unix_socket != NULL)
        SET(CURLOPT_PROXY, "");
    if (config->unix_socket != NULL)
        SET(CURLOPT_UNIX_SOCKET_PATH, config->unix_socket);
    return rc;
}

static CURLcode set_callback_data(struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_VERBOSE, 1L); /* needed for the debug callback; prints nothing */
    SET(CURLOPT_DEBUGFUNCTION, on_debug);
    SET(CURLOPT_DEBUGDATA, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->curl_reason);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_READDATA, transfer);
    SET(CURLOPT_SEEKDATA, transfer);
    return rc;
}

static CURLcode set_file(struct transfer *transfer)
{
    const struct http_file *file = transfer->request->file;
    transfer->mime = curl_mime_init(transfer->easy);
    curl_mimepart *part = transfer->mime != NULL ? curl_mime_addpart(transfer->mime) : NULL;
    if (part == NULL)
        return CURLE_OUT_OF_MEMORY;
    CURLcode rc = curl_mime_name(part, "file");
    if (rc == CURLE_OK)
        rc = curl_mime_filename(part, file->name);
    if (rc == CURLE_OK)
        rc = curl_mime_type(part, file->type);
    if (rc == CURLE_OK)
        rc = curl_mime_data_cb(part, (curl_off_t)file->len, on_read, on_seek, NULL, transfer);
    return rc == CURLE_OK ? curl_easy_setopt(transfer->easy, CURLOPT_MIMEPOST, transfer->mime) : rc;
}

static CURLcode set_request(struct transfer *transfer, const char *base_url, struct curl_slist *headers)
{
    const struct http_request *request = transfer->request;
    CURL *easy = transfer->easy;
    CURLcode rc = set_callback_data(transfer);
    char url[8192];
    int len = snprintf(url, sizeof(url), "%s%s", base_url, request->target);
    if (len < 0 || (size_t)len >= sizeof(url))
        return CURLE_URL_MALFORMAT;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    SET(CURLOPT_LOW_SPEED_LIMIT, request->stall_s > 0 ? (long)STALL_BYTES_PER_S : 0L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)request->stall_s);
    if (rc == CURLE_OK && request->file != NULL)
        return set_file(transfer);
    if (request->json != NULL) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body_len);
    } else {
        SET(CURLOPT_HTTPGET, 1L);
    }
    return rc;
}

#undef SET

/* ---------------------------------------------------------------- the transfer */

static CURLcode drive_transfer(CURLM *multi, struct transfer *transfer)
{
    if (curl_multi_add_handle(multi, transfer->easy) != CURLM_OK)
        return CURLE_FAILED_INIT;
    CURLcode result = CURLE_FAILED_INIT;
    int count;
    while (!cancel_is_set(transfer->request->cancel) && curl_multi_perform(multi, &count) == CURLM_OK) {
        const CURLMsg *message = curl_multi_info_read(multi, &count);
        if (message != NULL) {
            result = message->data.result;
            curl_multi_remove_handle(multi, transfer->easy);
            return result;
        }
        curl_multi_poll(multi, NULL, 0, CANCEL_CHECK_MS, NULL);
    }
    if (cancel_is_set(transfer->request->cancel)) {
        transfer->error = -EINTR;
        snprintf(transfer->reason, sizeof(transfer->reason), "no answer within the time given");
    }
    curl_multi_remove_handle(multi, transfer->easy);
    return result;
}

static int convert_curl_code(CURLcode code, const struct transfer *transfer)
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
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PROXY:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_FAIL_REWIND:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        curl_easy_getinfo(transfer->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
        return connected_us == 0 ? -EHOSTUNREACH : -ETIMEDOUT;
    case CURLE_UNSUPPORTED_PROTOCOL: /* libcurl's code for an answer in HTTP/0.9 */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return -EPROTO;
    case CURLE_URL_MALFORMAT:
        return -EINVAL;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EIO;
    }
}

/* libcurl reports a header line of 100 kB or more as a lack of memory. */
static void explain_long_header_line(CURLcode code, struct transfer *transfer)
{
    if (code != CURLE_OUT_OF_MEMORY || !transfer->response->is_written || transfer->error != 0)
        return;
    transfer->error = -EFBIG;
    snprintf(transfer->reason, sizeof(transfer->reason), "a header of the answer is longer than can be read");
}

/* When a reused connection ends, libcurl repeats the request on another one. Its words are then about that
 * connection, or about on_seek(), and sound as if the request had not left. */
static void explain_repeated_request(CURLcode code, struct transfer *transfer)
{
    bool is_repeated = code == CURLE_COULDNT_CONNECT || code == CURLE_SEND_FAIL_REWIND;
    if (!is_repeated || !transfer->response->is_written || transfer->error != 0)
        return;
    transfer->error = convert_curl_code(code, transfer);
    snprintf(transfer->reason, sizeof(transfer->reason),
             "the connection ended after the request was written");
}

/* libcurl reports a missing file descriptor as a failed connection. */
static void explain_missing_descriptor(CURLcode code, struct transfer *transfer)
{
    if (code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST &&
        code != CURLE_COULDNT_RESOLVE_PROXY)
        return;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
        return;
    transfer->error = -errno;
    snprintf(transfer->reason, sizeof(transfer->reason), "no file descriptor is left for a connection: %s",
             strerror(errno));
}

/* libcurl writes "after 3 ms" or "after 3 milliseconds". Without the number, which changes each time, status
 * and log show the reason of an outage once. */
static void drop_duration(char *reason)
{
    char *begin = strstr(reason, " after ");
    if (begin == NULL)
        return;
    const char *number = begin + strlen(" after ");
    const char *unit = number + strspn(number, "0123456789");
    size_t unit_len = strncmp(unit, " milliseconds", 13) == 0 ? 13 : 3;
    if (unit > number && strncmp(unit, " m", 2) == 0)
        memmove(begin, unit + unit_len, strlen(unit + unit_len) + 1);
}

static const char *choose_reason(CURLcode code, const struct transfer *transfer)
{
    if (transfer->error != 0)
        return transfer->reason[0] != '\0' ? transfer->reason : strerror(-transfer->error);
    if (transfer->curl_reason[0] != '\0')
        return transfer->curl_reason;
    return code != CURLE_OK ? curl_easy_strerror(code) : "the request cannot be made";
}

static void read_response_headers(CURL *easy, struct http_response *response)
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

/* Returns true if the reused connection was dead (libcurl may then have opened another), or the server did
 * not answer. Idle connections are then probably dead, too. */
static bool has_found_dead_connection(CURL *easy, bool had_connection, int error)
{
    long connections = 0;
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
    return (had_connection && connections > 0) || error == -ETIMEDOUT || error == -EHOSTUNREACH;
}

/* Return: as has_found_dead_connection(). */
static bool run_transfer(struct http_slot *slot, const struct http_client *client,
                         const struct http_request *request, struct http_response *ret)
{
    CURL *easy = slot->easy;
    struct transfer transfer = {
        .request = request,
        .response = ret,
        .slot = slot,
        .easy = easy,
    };
    if (request->file != NULL) {
        transfer.body = request->file->bytes;
        transfer.body_len = request->file->len;
    } else if (request->json != NULL) {
        transfer.body = request->json;
        transfer.body_len = strlen(request->json);
    }
    struct http_head head = {.len = 0};
    int rc = build_header_lines(&head, client, request);
    CURLcode code = CURLE_OK;
    bool had_connection = slot->fd >= 0;
    if (rc == 0)
        code = set_request(&transfer, client->base_url, head.nodes);
    if (rc == 0 && code == CURLE_OK) {
        code = drive_transfer(slot->multi, &transfer);
        apply_never_sent(&transfer);
        explain_long_header_line(code, &transfer);
        explain_repeated_request(code, &transfer);
        explain_missing_descriptor(code, &transfer);
        read_response_headers(easy, ret);
    }
    if (rc == 0)
        rc = transfer.error != 0 ? transfer.error : convert_curl_code(code, &transfer);
    ret->error = rc;
    if (rc != 0)
        snprintf(ret->reason, sizeof(ret->reason), "%s", choose_reason(code, &transfer));
    drop_duration(ret->reason);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL); /* curl_reason ends with this function */
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, NULL);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 0L); /* a later close must not call on_debug() */
    curl_mime_free(transfer.mime);
    return has_found_dead_connection(easy, had_connection, rc);
}

/* ---------------------------------------------------------------- handles, and the connections they keep */

static void slots_free(struct http_slot *slots)
{
    while (slots != NULL) {
        struct http_slot *slot = slots;
        slots = slot->next;
        curl_easy_cleanup(slot->easy);
        curl_multi_cleanup(slot->multi);
        free(slot);
    }
}

static struct http_slot *slot_new(struct http_client *client)
{
    struct http_slot *slot = calloc(1, sizeof(*slot));
    if (slot == NULL)
        return NULL;
    slot->fd = -1;
    slot->multi = curl_multi_init();
    pthread_mutex_lock(&client->lock);
    slot->easy = curl_easy_duphandle(client->prototype);
    pthread_mutex_unlock(&client->lock);
    if (slot->multi == NULL || slot->easy == NULL ||
        curl_easy_setopt(slot->easy, CURLOPT_SOCKOPTDATA, slot) != CURLE_OK ||
        curl_easy_setopt(slot->easy, CURLOPT_CLOSESOCKETDATA, slot) != CURLE_OK) {
        slots_free(slot);
        return NULL;
    }
    curl_multi_setopt(slot->multi, CURLMOPT_MAXCONNECTS, 1L);
    return slot;
}

/* Takes out the idle handles last used before `used_ms`; the caller frees them with slots_free(). */
static struct http_slot *take_older_slots_locked(struct http_client *client, int64_t used_ms)
{
    struct http_slot **at = &client->idle;
    client->idle_len = 0;
    for (; *at != NULL && (*at)->used_ms >= used_ms; at = &(*at)->next)
        client->idle_len++;
    return TAKE_PTR(*at);
}

/* The age of a connection includes suspends, in which the peer or a router may have dropped it. */
static struct http_slot *take_slot(struct http_client *client, int64_t idle_max_ms)
{
    int64_t now_ms = clock_boottime_ms();
    pthread_mutex_lock(&client->lock);
    struct http_slot *too_old = take_older_slots_locked(client, now_ms - GET_IDLE_MAX_MS);
    struct http_slot *slot = client->idle;
    if (slot != NULL && slot->used_ms < now_ms - idle_max_ms)
        slot = NULL;
    if (slot != NULL) {
        client->idle = TAKE_PTR(slot->next);
        client->idle_len--;
    }
    pthread_mutex_unlock(&client->lock);
    slots_free(too_old);
    return slot != NULL ? slot : slot_new(client);
}

/* Frees a handle whose request failed, since it caches the server's address: a new handle looks it up. */
static void put_slot(struct http_client *client, struct http_slot *slot, bool has_failed, bool are_dead)
{
    struct http_slot *dead = NULL;
    slot->used_ms = clock_boottime_ms();
    pthread_mutex_lock(&client->lock);
    if (are_dead)
        dead = take_older_slots_locked(client, INT64_MAX);
    if (!has_failed && client->idle_len < IDLE_SLOTS_MAX) {
        slot->next = client->idle;
        client->idle = slot;
        client->idle_len++;
    } else {
        slot->next = dead;
        dead = slot;
    }
    pthread_mutex_unlock(&client->lock);
    slots_free(dead);
}

/* ---------------------------------------------------------------- the client */

static bool is_printable(const char *text, size_t max_bytes)
{
    size_t len = 0;
    for (; text[len] != '\0'; len++) {
        if ((unsigned char)text[len] <= ' ' || text[len] == 0x7f)
            return false;
    }
    return len > 0 && len <= max_bytes;
}

int http_client_new(const struct http_config *config, struct http_client **ret_client)
{
    bool is_https = strncasecmp(config->base_url, "https://", 8) == 0;
    if ((!is_https && strncasecmp(config->base_url, "http://", 7) != 0) ||
        !is_printable(config->base_url, SIZE_MAX) ||
        (config->api_key != NULL && !is_printable(config->api_key, KEY_MAX_BYTES)))
        return -EINVAL;
    struct http_client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return -ENOMEM;
    pthread_mutex_init(&client->lock, NULL);
    curl_global_init(CURL_GLOBAL_DEFAULT); /* libcurl counts the calls, and several threads may make them */
    client->base_url = strdup(config->base_url);
    client->prototype = curl_easy_init();
    if (config->api_key != NULL && asprintf(&client->authorization, AUTHORIZATION "%s", config->api_key) < 0)
        client->authorization = NULL;
    if (client->base_url == NULL || client->prototype == NULL ||
        (config->api_key != NULL && client->authorization == NULL) ||
        set_fixed(client->prototype, config, is_https) != CURLE_OK) {
        http_client_free(client);
        return -ENOMEM;
    }
    *ret_client = client;
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (client == NULL)
        return;
    slots_free(client->idle);
    curl_easy_cleanup(client->prototype);
    if (client->authorization != NULL)
        explicit_bzero(client->authorization, strlen(client->authorization));
    free(client->authorization);
    free(client->base_url);
    pthread_mutex_destroy(&client->lock);
    curl_global_cleanup();
    free(client);
}

void http_client_perform(struct http_client *client, const struct http_request *request,
                         struct http_response *ret)
{
    *ret = (struct http_response){.retry_after_ms = -1};
    bool is_post = request->json != NULL || request->file != NULL;
    struct http_slot *slot = take_slot(client, is_post ? POST_IDLE_MAX_MS : GET_IDLE_MAX_MS);
    if (slot == NULL) {
        ret->error = -ENOMEM;
        snprintf(ret->reason, sizeof(ret->reason), "out of memory");
        return;
    }
    /* A GET leaves half of the time for libcurl's second attempt. A POST takes most of the time, since the
     * kernel cannot tell a server that does not read for a while from one that is gone. */
    int64_t stall_ms = INT64_C(1000) * request->stall_s;
    slot->unacked_ms = is_post ? stall_ms * 5 / 6 : stall_ms / 2;
    set_unacked_limit(slot->fd, slot->unacked_ms);
    bool are_dead = run_transfer(slot, client, request, ret);
    put_slot(client, slot, ret->error != 0, are_dead);
}

void http_client_redact(const struct http_client *client, char *text, size_t len)
{
    if (client->authorization == NULL)
        return;
    const char *key = client->authorization + strlen(AUTHORIZATION);
    size_t key_len = strlen(key);
    for (char *hit = text; (hit = memmem(hit, len - (size_t)(hit - text), key, key_len)) != NULL;)
        memset(hit, '*', key_len);
}
