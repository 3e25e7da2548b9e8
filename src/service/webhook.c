/* SPDX-License-Identifier: MIT */
#include "service/webhook.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "mail/json_writer.h"
#include "mail/reason.h"
#include "mail/webhook.h"
#include "service/endpoints.h"
#include "service/outgoing.h"
#include "sql/query.h"

enum {
    CONNECT_TIMEOUT_S = 5,
    TIMEOUT_S = 15,
    ATTEMPTS_MAX = 12 + 24 - 1, /* the pauses between them take a day (outgoing.h) */
};

/* The date in the form of records. */
#define NOW " strftime('%Y-%m-%dT%H:%M:%fZ')"

struct webhook {
    struct outgoing outgoing; /* first, because its address is cast to a webhook */
    char *secret;
    bool is_anywhere_allowed;
    bool is_forbidden; /* the URL of this attempt leads to an address to which webhooks may not connect */
};

/* ---------------------------------------------------------------- one POST */

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
    struct webhook *webhook = context;
    if (!webhook->is_anywhere_allowed && !is_this_machine(&address->addr)) {
        webhook->is_forbidden = true;
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

static void add_headers(struct attempt *attempt, const char *secret, const char *body)
{
    char line[128];
    char signature[65];
    hash_hmac_sha256(secret, strlen(secret), body, strlen(body), signature);
    snprintf(line, sizeof(line), WEBHOOK_SIGNATURE_HEADER ": %s", signature);
    attempt_append(attempt, line);
    attempt_append(attempt, "Content-Type: application/json");
    attempt_append(attempt, "Expect:");
    ATTEMPT_SET(attempt, CURLOPT_HTTPHEADER, attempt->list);
}

static void set_outcome(const struct webhook *webhook, struct attempt *attempt, long status)
{
    bool has_answer = attempt->result == CURLE_OK;
    bool is_unusable =
        attempt->result == CURLE_URL_MALFORMAT || attempt->result == CURLE_UNSUPPORTED_PROTOCOL;
    bool is_too_large = has_answer && status == 413; /* the next attempt would send the same body */
    attempt->status = has_answer ? (int)status : 0;
    if (has_answer && status / 100 == 2)
        return;
    bool is_forbidden = !has_answer && webhook->is_forbidden;
    attempt->outcome = is_unusable || is_forbidden || is_too_large ? OUTGOING_FAILED : OUTGOING_LATER;
    if (has_answer)
        reason_give(&attempt->reason, 0, "a webhook was answered with %ld", status);
    else if (is_forbidden)
        reason_give(&attempt->reason, 0,
                    "a webhook leads away from this machine: --webhook-anywhere allows that");
    else
        reason_give(&attempt->reason, 0, "a webhook cannot be sent: %s", attempt_curl_reason(attempt));
}

static void send_request(struct webhook *webhook, struct attempt *attempt, const char *url, const char *body)
{
    add_headers(attempt, webhook->secret, body);
    ATTEMPT_SET(attempt, CURLOPT_PROTOCOLS_STR, "http,https");
    ATTEMPT_SET(attempt, CURLOPT_FOLLOWLOCATION, 0L);
    ATTEMPT_SET(attempt, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    ATTEMPT_SET(attempt, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    ATTEMPT_SET(attempt, CURLOPT_OPENSOCKETDATA, webhook);
    ATTEMPT_SET(attempt, CURLOPT_WRITEFUNCTION, on_answer);
    ATTEMPT_SET(attempt, CURLOPT_URL, url);
    ATTEMPT_SET(attempt, CURLOPT_DEFAULT_PROTOCOL, "none"); /* else libcurl guesses the protocol */
    ATTEMPT_SET(attempt, CURLOPT_POSTFIELDS, body);
    ATTEMPT_SET(attempt, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    webhook->is_forbidden = false;
    long status = attempt_perform(attempt);
    set_outcome(webhook, attempt, status);
}

/* ---------------------------------------------------------------- an email */

/* Returns the body. Receivers such as inboxfs take WEBHOOK_BODY_MAX_BYTES, so in a longer body fields become
 * null until it fits. GET /api/v1/email/ID answers with all fields. */
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
                            "SELECT e.id, i.record ->> '$.webhook_url' AS url," NOW " FROM emails e"
                            " JOIN inboxes i ON i.seq = e.inbox WHERE e.seq = ? AND url != ''",
                            "i", email);
    if (error == 0)
        error = email_load_content(connection, SIDE_RECEIVED, query_column_text(statement.row, 0), &content);
    if (error != 0)
        return error;
    json_object_set_new(content, "timestamp", json_string(query_column_text(statement.row, 2)));
    *ret_url = g_strdup(query_column_text(statement.row, 1));
    *ret_body = write_body(content);
    return 0;
}

static int make_attempt(struct outgoing *outgoing, struct attempt *attempt)
{
    _cleanup_free_ char *url = NULL;
    _cleanup_free_ char *body = NULL;
    int error = load_request(outgoing->database, attempt->email, &url, &body);
    if (error == 0)
        send_request((struct webhook *)outgoing, attempt, url, body);
    return error == -ENOENT ? 0 : error;
}

/* Puts the attempt, if one was made, into the email's record. */
static int settle(struct outgoing *outgoing, struct connection *turn, const struct attempt *attempt)
{
    (void)outgoing;
    if (attempt->status == 0 && attempt->reason == NULL)
        return 0;
    int error =
        query_execute(turn,
                      "UPDATE emails SET record = json_set(record, '$.latest_webhook_log', json_object("
                      "'id', lower(hex(randomblob(16))), 'status_code', nullif(?, 0), 'response_body', NULL,"
                      " 'created_at'," NOW ")) WHERE seq = ?",
                      "ii", (int64_t)attempt->status, attempt->email);
    if (error == 0 && attempt->outcome == OUTGOING_FAILED)
        log_warning("the webhook of inbox %s was given up: %s", attempt->address, attempt->reason);
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
    struct webhook *webhook = g_new0(struct webhook, 1);
    webhook->is_anywhere_allowed = config->is_anywhere_allowed;
    webhook->outgoing = (struct outgoing){
        .kind = OUTGOING_WEBHOOK,
        .attempts_max = ATTEMPTS_MAX,
        .connect_timeout_s = CONNECT_TIMEOUT_S,
        .timeout_s = TIMEOUT_S,
        .make = make_attempt,
        .settle = settle,
        .release = release,
    };
    *ret_webhook = &webhook->outgoing;
    return secret_file_read(config->secret_file, "the webhook secret file", &webhook->secret, ret_reason);
}
