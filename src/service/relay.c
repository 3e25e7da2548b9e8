/* SPDX-License-Identifier: MIT */
/*
 * An email's status is `failed` as soon as it was given up for a recipient, else `pending` until the relay
 * has it for all recipients, else `sent`.
 */
#include "service/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/secret_file.h"
#include "base/strbuf.h"
#include "mail/reason.h"
#include "service/message.h"
#include "service/outgoing.h"
#include "service/sending.h"
#include "service/transfer.h"
#include "sql/query.h"

enum {
    CONNECT_TIMEOUT_S = 30,
    ANSWER_TIMEOUT_S = 5 * 60, /* RFC 5321 section 4.5.3.2 */
    TIMEOUT_S = 30 * 60,       /* of the whole attempt */
    ENDING_MS = 5000,          /* if the service ends: time for the answer to a message that was sent whole */
    ANSWER_MAX_BYTES = 1000,
    MESSAGE_MAX_BYTES = 200 * 1000 * 1000,
    ATTEMPTS_MAX = 12 + 5 * 24 - 1, /* the pauses between them take five days (outgoing.h) */
};

struct relay {
    struct outgoing outgoing; /* first, because its address is cast to a relay */
    const char *domain;
    char *url;         /* its path is the name that inboxd gives in EHLO */
    char *credentials; /* "USER:PASSWORD" or NULL */
    bool needs_tls;    /* an smtp:// URL works only with STARTTLS */
};

/* ---------------------------------------------------------------- one message */

struct relay_transfer {
    struct transfer base;
    char *sender; /* owned, by message_ascii_address(), as is recipient */
    char *recipient;
    struct strbuf text;
    size_t offset;        /* index in `text` of the next byte to be sent */
    struct strbuf answer; /* the last answer, cut at ANSWER_MAX_BYTES */
    bool is_answer_open;  /* another line of the answer follows */
};

static size_t on_read(char *buffer, size_t size, size_t count, void *context)
{
    struct relay_transfer *transfer = context;
    size_t len = transfer->text.len - transfer->offset;
    if (len > size * count)
        len = size * count;
    memcpy(buffer, transfer->text.data + transfer->offset, len);
    transfer->offset += len;
    if (len == 0) /* libcurl has sent the final dot, or sends it next */
        transfer->base.ending_ms = ENDING_MS;
    return len;
}

/* Takes one line of the server's answer. In all lines except the last, a "-" follows the code. */
static size_t on_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct relay_transfer *transfer = context;
    struct strbuf *answer = &transfer->answer;
    size_t len = size * count;
    bool is_farewell = len >= 3 && memcmp(bytes, "221", 3) == 0;
    if (is_farewell)
        return len;
    if (!transfer->is_answer_open)
        strbuf_clear(answer);
    transfer->is_answer_open = len > 3 && bytes[3] == '-';
    if (answer->len > 0)
        strbuf_append_char(answer, '\n');
    while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
        len--;
    size_t room = ANSWER_MAX_BYTES - answer->len;
    strbuf_append(answer, bytes, len < room ? len : room);
    return size * count;
}

/* 530 (authentication required) is not about the message, at any step of SMTP. */
static void set_result(const struct relay_transfer *transfer, long status, struct outgoing_result *result)
{
    bool is_done = transfer->base.result == CURLE_OK;
    bool has_begun = transfer->base.has_begun;
    bool is_refused = has_begun && status / 100 == 5 && status != 530;
    result->outcome = is_done ? OUTGOING_DONE : is_refused ? OUTGOING_FAILED : OUTGOING_LATER;
    result->is_away = !is_done && !has_begun;
    if (is_done)
        return;
    if (status >= 400)
        outgoing_set_reason(result, "the relay answered: %s", strbuf_str(&transfer->answer));
    else if (has_begun)
        outgoing_set_reason(result, "the relay did not take a message: %s", transfer_reason(&transfer->base));
    else
        outgoing_set_reason(result, "the relay cannot be reached: %s", transfer_reason(&transfer->base));
}

static void transfer_message(struct relay *relay, struct relay_transfer *message,
                             struct outgoing_result *result)
{
    struct transfer *transfer = &message->base;
    transfer_init(transfer, &relay->outgoing.cancel, CONNECT_TIMEOUT_S, TIMEOUT_S);
    /* The address was checked when the email was sent, and cannot smuggle in another recipient. */
    transfer_append(transfer, message->recipient);
    TRANSFER_SET(transfer, CURLOPT_URL, relay->url);
    TRANSFER_SET(transfer, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    TRANSFER_SET(transfer, CURLOPT_USE_SSL, relay->needs_tls ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_NONE);
    if (relay->credentials != NULL)
        TRANSFER_SET(transfer, CURLOPT_USERPWD, relay->credentials);
    TRANSFER_SET(transfer, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)ANSWER_TIMEOUT_S);
    TRANSFER_SET(transfer, CURLOPT_MAIL_FROM, message->sender);
    TRANSFER_SET(transfer, CURLOPT_MAIL_RCPT, transfer->list);
    /* No length is set: libcurl counts the dots that it adds to the text, and would stop too early. */
    TRANSFER_SET(transfer, CURLOPT_UPLOAD, 1L);
    TRANSFER_SET(transfer, CURLOPT_READFUNCTION, on_read);
    TRANSFER_SET(transfer, CURLOPT_READDATA, message);
    TRANSFER_SET(transfer, CURLOPT_HEADERFUNCTION, on_answer);
    TRANSFER_SET(transfer, CURLOPT_HEADERDATA, message);
    TRANSFER_SET(transfer, CURLOPT_WRITEFUNCTION, on_answer);
    TRANSFER_SET(transfer, CURLOPT_WRITEDATA, message);
    set_result(message, transfer_perform(transfer), result);
    transfer_release(transfer);
}

/* Sets the sender and the text. Return: 0; -ENOENT if there is no such email; -errno. */
static int load_email(struct database *database, int64_t outbound, struct relay_transfer *transfer)
{
    _cleanup_reader_ struct connection *connection = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int error = database_begin_read(database, &connection);
    if (error == 0)
        error = query_first(connection, &statement,
                            "SELECT o.record ->> '$.from_address.address', c.raw FROM outbound o"
                            " JOIN contents c ON c.message = o.message WHERE o.seq = ?",
                            "i", outbound);
    if (error != 0)
        return error;
    transfer->sender = message_ascii_address(query_column_text(statement.row, 0));
    if (transfer->sender == NULL)
        return -ENOMEM;
    return message_write_for_relay(sqlite3_column_blob(statement.row, 1),
                                   (size_t)sqlite3_column_bytes(statement.row, 1), &transfer->text);
}

static int attempt(struct outgoing *outgoing, const struct outgoing_row *row, struct outgoing_result *result)
{
    struct relay_transfer transfer = {
        .recipient = message_ascii_address(row->address),
        .text = STRBUF_INIT(MESSAGE_MAX_BYTES),
        .answer = STRBUF_INIT(ANSWER_MAX_BYTES),
    };
    int error = transfer.recipient != NULL ? load_email(outgoing->database, row->email, &transfer) : -ENOMEM;
    if (error == 0)
        transfer_message((struct relay *)outgoing, &transfer, result);
    free(transfer.sender);
    free(transfer.recipient);
    strbuf_release(&transfer.text);
    strbuf_release(&transfer.answer);
    return error;
}

/* ---------------------------------------------------------------- the email's status */

static int bounce(const struct relay *relay, struct connection *turn, const struct outgoing_row *row,
                  const struct outgoing_result *result)
{
    g_autoptr(GString) reason = g_string_new(NULL);
    sending_append_reason(reason, row->address, "5.0.0", result->reason);
    return sending_bounce(turn, row->email, relay->domain, reason->str);
}

static int settle(struct outgoing *outgoing, struct connection *turn, const struct outgoing_row *row,
                  const struct outgoing_result *result)
{
    bool has_failed = result->outcome == OUTGOING_FAILED;
    int error = has_failed ? bounce((const struct relay *)outgoing, turn, row, result) : 0;
    if (error != 0)
        return error;
    return query_execute(turn,
                         "UPDATE outbound SET record = json_set(record, '$.status', ?1)"
                         " WHERE seq = ?2 AND record ->> '$.status' = 'pending' AND"
                         " (?3 OR NOT EXISTS (SELECT 1 FROM outgoing WHERE kind = ?4 AND email = ?2))",
                         "siii", has_failed ? "failed" : "sent", row->email, (int64_t)has_failed,
                         (int64_t)OUTGOING_RELAY);
}

/* ---------------------------------------------------------------- configuration */

/* Accepts only names and addresses that no name server can redirect. */
static bool is_this_machine(const char *host)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

/* The reason does not repeat the URL, which may contain a password. */
static int read_url(struct relay *relay, const struct relay_config *config, char **ret_reason)
{
    g_autoptr(GUri) url = g_uri_parse(config->url, G_URI_FLAGS_HAS_PASSWORD, NULL);
    bool is_smtps = url != NULL && strcmp(g_uri_get_scheme(url), "smtps") == 0;
    bool is_smtp = url != NULL && strcmp(g_uri_get_scheme(url), "smtp") == 0;
    const char *host = url != NULL ? g_uri_get_host(url) : NULL;
    const char *path = url != NULL ? g_uri_get_path(url) : "";
    if ((!is_smtp && !is_smtps) || host == NULL || host[0] == '\0' ||
        strcmp(path + (path[0] == '/'), "") != 0 || g_uri_get_userinfo(url) != NULL ||
        g_uri_get_query(url) != NULL || g_uri_get_fragment(url) != NULL)
        return reason_give(
            ret_reason, -EINVAL,
            "the relay has to be smtp://HOST[:PORT] or smtps://HOST[:PORT]; USER:PASSWORD is for "
            "--relay-credentials-file");
    relay->needs_tls = is_smtp && !config->is_clear_allowed && !is_this_machine(host);
    g_autofree char *domain = g_hostname_to_ascii(relay->domain);
    g_autofree char *greeting = g_strconcat("/", domain != NULL ? domain : relay->domain, NULL);
    relay->url = g_uri_join(G_URI_FLAGS_NONE, g_uri_get_scheme(url), NULL, host, g_uri_get_port(url),
                            greeting, NULL, NULL);
    return 0;
}

static int read_credentials(struct relay *relay, const char *file, char **ret_reason)
{
    if (file == NULL)
        return 0;
    int error = secret_file_read(file, "the relay's credentials file", &relay->credentials, ret_reason);
    return error == 0 && strchr(relay->credentials, ':') == NULL
               ? reason_give(ret_reason, -EINVAL, "the relay's credentials file has to hold USER:PASSWORD")
               : error;
}

static void release(struct outgoing *outgoing)
{
    struct relay *relay = (struct relay *)outgoing;
    g_free(relay->url);
    secret_free(relay->credentials);
    free(relay);
}

int relay_new(const struct relay_config *config, const char *domain, struct outgoing **ret_relay,
              char **ret_reason)
{
    *ret_relay = NULL;
    if (config->url == NULL)
        return 0;
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return -ENOMEM;
    relay->domain = domain;
    relay->outgoing = (struct outgoing){
        .kind = OUTGOING_RELAY,
        .has_one_target = true,
        .attempts_max = ATTEMPTS_MAX,
        .attempt = attempt,
        .settle = settle,
        .release = release,
    };
    *ret_relay = &relay->outgoing;
    int error = read_url(relay, config, ret_reason);
    return error == 0 ? read_credentials(relay, config->credentials_file, ret_reason) : error;
}
