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

struct relay_message {
    struct attempt *attempt;
    char *sender; /* owned, by message_ascii_address(), as is recipient */
    char *recipient;
    struct strbuf text;
    size_t offset;        /* index in `text` of the next byte to be sent */
    struct strbuf answer; /* the last answer, cut at ANSWER_MAX_BYTES */
    bool is_answer_open;  /* another line of the answer follows */
};

static size_t on_read(char *buffer, size_t size, size_t count, void *context)
{
    struct relay_message *message = context;
    size_t len = message->text.len - message->offset;
    if (len > size * count)
        len = size * count;
    memcpy(buffer, message->text.data + message->offset, len);
    message->offset += len;
    if (len == 0) /* libcurl has sent the final dot, or sends it next */
        message->attempt->ending_ms = ENDING_MS;
    return len;
}

/* Takes one line of the server's answer. In all lines except the last, a "-" follows the code. */
static size_t on_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct relay_message *message = context;
    struct strbuf *answer = &message->answer;
    size_t len = size * count;
    bool is_farewell = len >= 3 && memcmp(bytes, "221", 3) == 0;
    if (is_farewell)
        return len;
    if (!message->is_answer_open)
        strbuf_clear(answer);
    message->is_answer_open = len > 3 && bytes[3] == '-';
    if (answer->len > 0)
        strbuf_append_char(answer, '\n');
    while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
        len--;
    size_t room = ANSWER_MAX_BYTES - answer->len;
    strbuf_append(answer, bytes, len < room ? len : room);
    return size * count;
}

/* 530 (authentication required) is not about the message, at any step of SMTP. */
static void set_outcome(struct attempt *attempt, long status, const char *answer)
{
    bool is_done = attempt->result == CURLE_OK;
    bool is_refused = attempt->has_begun && status / 100 == 5 && status != 530;
    attempt->outcome = is_done ? OUTGOING_DONE : is_refused ? OUTGOING_FAILED : OUTGOING_LATER;
    if (is_done)
        return;
    if (status >= 400)
        reason_give(&attempt->reason, 0, "the relay answered: %s", answer);
    else
        reason_give(&attempt->reason, 0, "the relay %s: %s",
                    attempt->has_begun ? "did not take a message" : "cannot be reached",
                    attempt_curl_reason(attempt));
}

static void send_message(struct relay *relay, struct relay_message *message)
{
    struct attempt *attempt = message->attempt;
    /* The address was checked when the email was sent, and cannot smuggle in another recipient. */
    attempt_append(attempt, message->recipient);
    ATTEMPT_SET(attempt, CURLOPT_URL, relay->url);
    ATTEMPT_SET(attempt, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    ATTEMPT_SET(attempt, CURLOPT_USE_SSL, relay->needs_tls ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_NONE);
    if (relay->credentials != NULL)
        ATTEMPT_SET(attempt, CURLOPT_USERPWD, relay->credentials);
    ATTEMPT_SET(attempt, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)ANSWER_TIMEOUT_S);
    ATTEMPT_SET(attempt, CURLOPT_MAIL_FROM, message->sender);
    ATTEMPT_SET(attempt, CURLOPT_MAIL_RCPT, attempt->list);
    /* No length is set: libcurl counts the dots that it adds to the text, and would stop too early. */
    ATTEMPT_SET(attempt, CURLOPT_UPLOAD, 1L);
    ATTEMPT_SET(attempt, CURLOPT_READFUNCTION, on_read);
    ATTEMPT_SET(attempt, CURLOPT_READDATA, message);
    ATTEMPT_SET(attempt, CURLOPT_HEADERFUNCTION, on_answer);
    ATTEMPT_SET(attempt, CURLOPT_HEADERDATA, message);
    ATTEMPT_SET(attempt, CURLOPT_WRITEFUNCTION, on_answer);
    ATTEMPT_SET(attempt, CURLOPT_WRITEDATA, message);
    long status = attempt_perform(attempt);
    set_outcome(attempt, status, strbuf_str(&message->answer));
}

/* Sets the sender and the text. Return: 0; -ENOENT if there is no such email; -errno. */
static int load_email(struct database *database, struct relay_message *message)
{
    _cleanup_reader_ struct connection *connection = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int error = database_begin_read(database, &connection);
    if (error == 0)
        error = query_first(connection, &statement,
                            "SELECT o.record ->> '$.from_address.address', c.raw FROM outbound o"
                            " JOIN contents c ON c.message = o.message WHERE o.seq = ?",
                            "i", message->attempt->email);
    if (error != 0)
        return error;
    message->sender = message_ascii_address(query_column_text(statement.row, 0));
    return message_write_for_relay(sqlite3_column_blob(statement.row, 1),
                                   (size_t)sqlite3_column_bytes(statement.row, 1), &message->text);
}

static int make_attempt(struct outgoing *outgoing, struct attempt *attempt)
{
    struct relay_message message = {
        .attempt = attempt,
        .recipient = message_ascii_address(attempt->address),
        .text = STRBUF_INIT(MESSAGE_MAX_BYTES),
        .answer = STRBUF_INIT(ANSWER_MAX_BYTES),
    };
    int error = load_email(outgoing->database, &message);
    if (error == 0)
        send_message((struct relay *)outgoing, &message);
    free(message.sender);
    free(message.recipient);
    strbuf_release(&message.text);
    strbuf_release(&message.answer);
    return error;
}

/* ---------------------------------------------------------------- the email's status */

static int bounce(const struct relay *relay, struct connection *turn, const struct attempt *attempt)
{
    g_autoptr(GString) reason = g_string_new(NULL);
    sending_append_reason(reason, attempt->address, "5.0.0", attempt->reason);
    return sending_bounce(turn, attempt->email, relay->domain, reason->str);
}

static int settle(struct outgoing *outgoing, struct connection *turn, const struct attempt *attempt)
{
    bool has_failed = attempt->outcome == OUTGOING_FAILED;
    int error = has_failed ? bounce((const struct relay *)outgoing, turn, attempt) : 0;
    if (error != 0)
        return error;
    return query_execute(turn,
                         "UPDATE outbound SET record = json_set(record, '$.status', ?1)"
                         " WHERE seq = ?2 AND record ->> '$.status' = 'pending' AND"
                         " (?3 OR NOT EXISTS (SELECT 1 FROM outgoing WHERE kind = ?4 AND email = ?2))",
                         "siii", has_failed ? "failed" : "sent", attempt->email, (int64_t)has_failed,
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
    struct relay *relay = g_new0(struct relay, 1);
    relay->domain = domain;
    relay->outgoing = (struct outgoing){
        .kind = OUTGOING_RELAY,
        .has_one_target = true,
        .attempts_max = ATTEMPTS_MAX,
        .connect_timeout_s = CONNECT_TIMEOUT_S,
        .timeout_s = TIMEOUT_S,
        .make = make_attempt,
        .settle = settle,
        .release = release,
    };
    *ret_relay = &relay->outgoing;
    int error = read_url(relay, config, ret_reason);
    return error == 0 ? read_credentials(relay, config->credentials_file, ret_reason) : error;
}
