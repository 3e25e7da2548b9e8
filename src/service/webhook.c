/* SPDX-License-Identifier: MIT */
#include "service/webhook.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "mail/date.h"
#include "mail/json_writer.h"
#include "mail/webhook.h"
#include "service/endpoints.h"
#include "service/outgoing.h"
#include "service/transfer.h"
#include "sql/query.h"

enum {
    CONNECT_TIMEOUT_S = 5,
    TIMEOUT_S = 15,
    ATTEMPTS_MAX = 12 + 24 - 1, /* the pauses between them take a day (outgoing.h) */
};

struct webhook {
    struct outgoing outgoing; /* first, because its address is cast to a webhook */
    char *secret;
    bool is_anywhere_allowed;
};

/* ---------------------------------------------------------------- one POST */

struct webhook_transfer {
    struct transfer base;
    const struct webhook *webhook;
    bool is_forbidden; /* the URL leads to an address to which webhooks may not connect */
};

static bool is_this_machine(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct webhook_transfer *transfer = context;
    if (!transfer->webhook->is_anywhere_allowed && !is_this_machine(&address->addr)) {
        transfer->is_forbidden = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Discards the answer's body: the holder of an API key chooses the URL, and must not be able to read what
 * other programs answer only to this machine. */
static size_t on_answer(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes, (void)context;
    return size * count;
}

static void add_headers(struct transfer *transfer, const char *secret, const char *body)
{
    char line[128];
    char signature[65];
    hash_hmac_sha256(secret, strlen(secret), body, strlen(body), signature);
    snprintf(line, sizeof(line), WEBHOOK_SIGNATURE_HEADER ": %s", signature);
    transfer_append(transfer, line);
    transfer_append(transfer, "Content-Type: application/json");
    transfer_append(transfer, "Expect:");
    TRANSFER_SET(transfer, CURLOPT_HTTPHEADER, transfer->list);
}

static void set_result(const struct webhook_transfer *transfer, long status, struct outgoing_result *result)
{
    CURLcode rc = transfer->base.result;
    bool is_unusable = rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL;
    bool is_forbidden = rc != CURLE_OK && transfer->is_forbidden;
    bool is_done = rc == CURLE_OK && status / 100 == 2;
    bool is_too_large = rc == CURLE_OK && status == 413; /* the next attempt would send the same body */
    result->outcome = is_done                                       ? OUTGOING_DONE
                      : is_unusable || is_forbidden || is_too_large ? OUTGOING_FAILED
                                                                    : OUTGOING_LATER;
    result->is_away = rc != CURLE_OK && !transfer->base.has_begun;
    if (is_forbidden)
        outgoing_set_reason(result, "a webhook leads away from this machine: --webhook-anywhere allows that");
    else if (rc != CURLE_OK)
        outgoing_set_reason(result, "a webhook cannot be sent: %s", transfer_reason(&transfer->base));
    else if (!is_done)
        outgoing_set_reason(result, "a webhook was answered with %ld", status);
    if (rc == CURLE_OK)
        result->status = (int)status;
}

static void send_request(const struct webhook *webhook, const char *url, const char *body,
                         struct cancel *cancel, struct outgoing_result *result)
{
    struct webhook_transfer request = {.webhook = webhook};
    struct transfer *transfer = &request.base;
    transfer_init(transfer, cancel, CONNECT_TIMEOUT_S, TIMEOUT_S);
    add_headers(transfer, webhook->secret, body);
    TRANSFER_SET(transfer, CURLOPT_PROTOCOLS_STR, "http,https");
    TRANSFER_SET(transfer, CURLOPT_FOLLOWLOCATION, 0L);
    TRANSFER_SET(transfer, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    TRANSFER_SET(transfer, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    TRANSFER_SET(transfer, CURLOPT_OPENSOCKETDATA, &request);
    TRANSFER_SET(transfer, CURLOPT_WRITEFUNCTION, on_answer);
    TRANSFER_SET(transfer, CURLOPT_URL, url);
    TRANSFER_SET(transfer, CURLOPT_DEFAULT_PROTOCOL, "none"); /* else libcurl guesses the protocol */
    TRANSFER_SET(transfer, CURLOPT_POSTFIELDS, body);
    TRANSFER_SET(transfer, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    set_result(&request, transfer_perform(transfer), result);
    transfer_release(transfer);
}

/* ---------------------------------------------------------------- an email */

/* Returns the body; NULL when out of memory. Receivers such as inboxfs take WEBHOOK_BODY_MAX_BYTES, so in a
 * longer body fields become null until it fits. GET /api/v1/email/ID answers with all fields. */
static char *write_body(json_t *content)
{
    static const char *const fields[] = {
        "previous_emails",    "thread_prompt", "prompt",       "html",
        "plain_text",         "references",    "to_addresses", "cc_addresses",
        "reply_to_addresses", "attachments"};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (json_dumpb(content, NULL, 0, JSON_COMPACT) <= WEBHOOK_BODY_MAX_BYTES)
            break;
        json_object_set_new(content, fields[i], json_null());
    }
    return json_dumps(content, JSON_COMPACT);
}

/* Loads the URL and the body. Return: 0; -ENOENT if the inbox has no webhook any more; -errno. */
static int load_request(struct database *database, int64_t email, char **ret_url, char **ret_body)
{
    _cleanup_reader_ struct connection *connection = NULL;
    _cleanup_statement_ struct statement statement = {0};
    _cleanup_json_ json_t *content = NULL;
    int error = database_begin_read(database, &connection);
    if (error == 0)
        error = query_first(connection, &statement,
                            "SELECT i.record ->> '$.webhook_url', e.id FROM emails e"
                            " JOIN inboxes i ON i.seq = e.inbox WHERE e.seq = ?",
                            "i", email);
    if (error == 0 && sqlite3_column_bytes(statement.row, 0) == 0)
        error = -ENOENT;
    if (error == 0) {
        *ret_url = query_column_copy(statement.row, 0, NULL);
        const char *id = query_column_text(statement.row, 1);
        error = *ret_url != NULL ? email_load_content(connection, SIDE_RECEIVED, id, &content) : -ENOMEM;
    }
    char date[32];
    date_format(clock_realtime_ms(clock_system()), date);
    if (error == 0 && json_object_set_new(content, "timestamp", json_string(date)) == 0)
        *ret_body = write_body(content);
    return error == 0 && *ret_body == NULL ? -ENOMEM : error;
}

static int attempt(struct outgoing *outgoing, const struct outgoing_row *row, struct outgoing_result *result)
{
    _cleanup_free_ char *url = NULL;
    _cleanup_free_ char *body = NULL;
    int error = load_request(outgoing->database, row->email, &url, &body);
    if (error == 0)
        send_request((const struct webhook *)outgoing, url, body, &outgoing->cancel, result);
    else if (error == -ENOENT)
        result->outcome = OUTGOING_DONE;
    return error == -ENOENT ? 0 : error;
}

/* Puts the attempt, if one was made, into the email's record. */
static int settle(struct outgoing *outgoing, struct connection *turn, const struct outgoing_row *row,
                  const struct outgoing_result *result)
{
    (void)outgoing;
    if (result->status == 0 && result->reason[0] == '\0')
        return 0;
    char id[37];
    char date[32];
    random_uuid(id);
    date_format(clock_realtime_ms(clock_system()), date);
    int error =
        query_execute(turn,
                      "UPDATE emails SET record = json_set(record, '$.latest_webhook_log', json_object("
                      "'id', ?, 'status_code', nullif(?, 0), 'response_body', NULL, 'created_at', ?))"
                      " WHERE seq = ?",
                      "sisi", id, (int64_t)result->status, date, row->email);
    if (error == 0 && result->outcome == OUTGOING_FAILED)
        log_warning("the webhook of inbox %s was given up: %s", row->address, result->reason);
    return error;
}

/* ---------------------------------------------------------------- configuration */

static void release(struct outgoing *outgoing)
{
    struct webhook *webhook = (struct webhook *)outgoing;
    secret_free(webhook->secret);
    free(webhook);
}

int webhook_new(const struct webhook_config *config, struct outgoing **ret_webhook, char **ret_reason)
{
    *ret_webhook = NULL;
    if (config->secret_file == NULL)
        return 0;
    struct webhook *webhook = calloc(1, sizeof(*webhook));
    if (webhook == NULL)
        return -ENOMEM;
    webhook->is_anywhere_allowed = config->is_anywhere_allowed;
    webhook->outgoing = (struct outgoing){
        .kind = OUTGOING_WEBHOOK,
        .attempts_max = ATTEMPTS_MAX,
        .attempt = attempt,
        .settle = settle,
        .release = release,
    };
    *ret_webhook = &webhook->outgoing;
    return secret_file_read(config->secret_file, "the webhook secret file", &webhook->secret, ret_reason);
}
