/* SPDX-License-Identifier: MIT */
/*
 * Sends one message to one recipient by libcurl, interprets the server's answer, and records the result: the
 * email's status, or its bounce.
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
    ENDING_MS = 5000,          /* when the service ends, for the answer to a message that was sent whole */
    ANSWER_MAX_BYTES = 1000,
    MESSAGE_MAX_BYTES = 200 * 1000 * 1000,
    ATTEMPTS_MAX = 12 + 5 * 24 - 1, /* the pauses between them take five days (outgoing.h) */
};

struct relay {
    struct outgoing_work work;
    struct outgoing *outgoing;
    const char *domain;
    char *url;         /* its path is our name in EHLO */
    char *credentials; /* "USER:PASSWORD" or NULL */
    bool needs_tls;    /* if not by smtps://, by STARTTLS */
};

/* ---------------------------------------------------------------- one message */

/* A message on its way to one recipient. */
struct relay_transfer {
    struct transfer base;
    char *sender; /* both are from message_ascii_address() */
    char *recipient;
    struct strbuf text;
    size_t offset;        /* of the next byte to be read */
    struct strbuf answer; /* the newest one, cut; its lines as they came */
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
    if (len == 0) /* the last dot is sent, or will be next */
        transfer->base.ending_ms = ENDING_MS;
    return len;
}

/* Takes a line of the server's answer: every line but the last begins with "250-", the last with "250 ". */
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

static void set_server(struct transfer *transfer, const struct relay *relay)
{
    TRANSFER_SET(transfer, CURLOPT_URL, relay->url);
    TRANSFER_SET(transfer, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    TRANSFER_SET(transfer, CURLOPT_USE_SSL, relay->needs_tls ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_NONE);
    if (relay->credentials != NULL)
        TRANSFER_SET(transfer, CURLOPT_USERPWD, relay->credentials);
    TRANSFER_SET(transfer, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)ANSWER_TIMEOUT_S);
}

/* Sets no length: libcurl would stop too early, because it also counts the dots that it adds to the text. */
static void set_message(struct relay_transfer *message, struct curl_slist *recipients)
{
    struct transfer *transfer = &message->base;
    TRANSFER_SET(transfer, CURLOPT_MAIL_FROM, message->sender);
    TRANSFER_SET(transfer, CURLOPT_MAIL_RCPT, recipients);
    TRANSFER_SET(transfer, CURLOPT_UPLOAD, 1L);
    TRANSFER_SET(transfer, CURLOPT_READFUNCTION, on_read);
    TRANSFER_SET(transfer, CURLOPT_READDATA, message);
    TRANSFER_SET(transfer, CURLOPT_HEADERFUNCTION, on_answer);
    TRANSFER_SET(transfer, CURLOPT_HEADERDATA, message);
    TRANSFER_SET(transfer, CURLOPT_WRITEFUNCTION, on_answer);
    TRANSFER_SET(transfer, CURLOPT_WRITEDATA, message);
}

/* 421 and 530 (authentication required) refuse no message for good, at whatever step they come. */
static void judge(const struct relay_transfer *transfer, long status, struct outgoing_result *result)
{
    bool is_done = transfer->base.result == CURLE_OK;
    bool has_begun = transfer->base.has_begun;
    bool is_refused = has_begun && status / 100 == 5 && status != 530;
    result->outcome = is_done ? OUTGOING_DONE : is_refused ? OUTGOING_FAILED : OUTGOING_LATER;
    result->is_away = !is_done && !has_begun;
    if (is_done)
        return;
    if (status >= 400)
        outgoing_explain(result, "the relay answered: %s", strbuf_str(&transfer->answer));
    else if (has_begun)
        outgoing_explain(result, "the relay did not take a message: %s", transfer_reason(&transfer->base));
    else
        outgoing_explain(result, "the relay cannot be reached: %s", transfer_reason(&transfer->base));
}

/* The recipient's address cannot smuggle in another one: it was checked when the email was sent. */
static void transfer_message(const struct relay *relay, struct relay_transfer *transfer,
                             struct cancel *cancel, struct outgoing_result *result)
{
    transfer_init(&transfer->base, cancel, CONNECT_TIMEOUT_S, TIMEOUT_S);
    struct curl_slist *recipients = curl_slist_append(NULL, transfer->recipient);
    if (recipients == NULL)
        transfer->base.result = CURLE_OUT_OF_MEMORY;
    set_server(&transfer->base, relay);
    set_message(transfer, recipients);
    judge(transfer, transfer_perform(&transfer->base), result);
    transfer_release(&transfer->base);
    curl_slist_free_all(recipients);
}

/* Fills a transfer that has its recipient. Return: 0; -ENOENT if there is no such email; -errno. */
static int load(struct database *database, int64_t outbound, struct relay_transfer *transfer)
{
    struct connection *connection = NULL;
    int error = database_begin_read(database, &connection);
    if (error != 0)
        return error;
    sqlite3_stmt *statement = NULL;
    error = query_first(connection->db, &statement,
                        "SELECT o.record ->> '$.from_address.address', c.raw FROM outbound o"
                        " JOIN contents c ON c.message = o.message WHERE o.seq = ?",
                        "i", outbound);
    if (error == 0) {
        transfer->sender = message_ascii_address(query_column_text(statement, 0));
        error = transfer->sender != NULL ? 0 : -ENOMEM;
    }
    if (error == 0)
        error = message_write_for_relay(sqlite3_column_blob(statement, 1),
                                        (size_t)sqlite3_column_bytes(statement, 1), &transfer->text);
    sqlite3_finalize(statement);
    database_end_read(database, connection);
    return error;
}

static int attempt(void *context, struct database *database, const struct outgoing_row *row,
                   struct cancel *cancel, struct outgoing_result *result)
{
    struct relay_transfer transfer = {
        .recipient = message_ascii_address(row->address),
        .text = STRBUF_INIT(MESSAGE_MAX_BYTES),
        .answer = STRBUF_INIT(ANSWER_MAX_BYTES),
    };
    int error = transfer.recipient != NULL ? load(database, row->email, &transfer) : -ENOMEM;
    if (error == 0)
        transfer_message(context, &transfer, cancel, result);
    free(transfer.sender);
    free(transfer.recipient);
    strbuf_release(&transfer.text);
    strbuf_release(&transfer.answer);
    return error;
}

/* ---------------------------------------------------------------- what becomes of the email */

static int set_status(sqlite3 *db, int64_t outbound, const char *status)
{
    return query_execute(db,
                         "UPDATE outbound SET record = json_set(record, '$.status', ?)"
                         " WHERE seq = ? AND record ->> '$.status' = 'pending'",
                         "si", status, outbound);
}

static int bounce(const struct relay *relay, sqlite3 *db, const struct outgoing_row *row, const char *why)
{
    _cleanup_strbuf_ struct strbuf reason = STRBUF_INIT(SENDING_REASONS_MAX_BYTES);
    int error = sending_give_reason(&reason, row->address, "5.0.0", why);
    if (error == 0)
        error = sending_bounce(db, row->email, relay->domain, strbuf_str(&reason));
    return error == 0 ? set_status(db, row->email, "failed") : error;
}

static int settle(void *context, sqlite3 *db, const struct outgoing_row *row,
                  const struct outgoing_result *result)
{
    int64_t left = 0;
    int error = result->outcome == OUTGOING_FAILED ? bounce(context, db, row, result->reason) : 0;
    if (error == 0)
        error = query_integer(db, &left, "SELECT count(*) FROM outgoing WHERE kind = ? AND email = ?", "ii",
                              (int64_t)OUTGOING_RELAY, row->email);
    return error == 0 && left == 0 ? set_status(db, row->email, "sent") : error;
}

/* ---------------------------------------------------------------- start and stop */

/* Lists only forms that no name server can redirect. */
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

static int read_credentials(struct relay *relay, const struct relay_config *config, char **ret_reason)
{
    if (config->credentials_file == NULL)
        return 0;
    int error = secret_file_read(config->credentials_file, "the relay's credentials file",
                                 &relay->credentials, ret_reason);
    if (error == 0 && strchr(relay->credentials, ':') == NULL)
        return reason_give(ret_reason, -EINVAL, "the relay's credentials file has to hold USER:PASSWORD");
    return error;
}

void relay_stop(struct relay *relay)
{
    if (relay == NULL)
        return;
    outgoing_stop(relay->outgoing);
    g_free(relay->url);
    secret_free(relay->credentials);
    free(relay);
}

static void cleanup_relay(struct relay **relay)
{
    relay_stop(*relay);
}

static int start(const struct relay_config *config, const char *domain, struct database *database,
                 struct relay **ret_relay, char **ret_reason)
{
    _cleanup_(cleanup_relay) struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    relay->domain = domain;
    relay->work = (struct outgoing_work){
        .kind = OUTGOING_RELAY,
        .has_one_target = true,
        .attempts_max = ATTEMPTS_MAX,
        .context = relay,
        .attempt = attempt,
        .settle = settle,
    };
    int error = read_url(relay, config, ret_reason);
    if (error == 0)
        error = read_credentials(relay, config, ret_reason);
    if (error == 0)
        error = outgoing_start(&relay->work, database, &relay->outgoing);
    if (error == 0)
        *ret_relay = TAKE_PTR(relay);
    return error;
}

int relay_start(const struct relay_config *config, const char *domain, struct database *database,
                struct relay **ret_relay, char **ret_reason)
{
    *ret_relay = NULL;
    int error = config->url != NULL ? start(config, domain, database, ret_relay, ret_reason) : 0;
    return error == 0 ? outgoing_declare(database, OUTGOING_RELAY, config->url != NULL) : error;
}
