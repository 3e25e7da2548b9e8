/* SPDX-License-Identifier: MIT */
/*
 * POST /api/v1/email/send, and the messages that the service writes itself.
 *
 * Attachments are read and the message's text is written before the turn to write, so that senders do not
 * wait for each other's megabytes. The idempotency key is checked again in the turn, because a request with
 * the same key may have been sent since the first check.
 */
#include "service/sending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/random.h"
#include "mail/address.h"
#include "mail/draft.h"
#include "mail/json_writer.h"
#include "service/delivery.h"
#include "service/endpoints.h"
#include "service/outgoing.h"
#include "sql/query.h"

enum {
    FORWARD_DEPTH_MAX = 10,       /* MIME readers recurse into enclosed messages */
    NAMES_MAX_BYTES = 500 * 1000, /* names of all recipients together */
    FORWARD_MAX_BYTES = 30 * 1000 * 1000,
    DAY_MS = 24 * 60 * 60 * 1000,
};

/* ---------------------------------------------------------------- the request */

static const char *const type_names[] = {"new", "reply", "forward"};

/* Returns an address as in struct message, or NULL after a problem. */
static json_t *read_address(const struct input *in)
{
    if (!json_is_object(in->value)) {
        input_add_problem(in, "model_attributes_type", "Input should be a valid dictionary");
        return NULL;
    }
    const char *name = validate_line(in, "name", false);
    const char *address = validate_address(in, "address");
    return address != NULL ? json_pack("{s:s, s:s?}", "address", address, "name", name) : NULL;
}

static json_t *read_addresses(const struct input *in, const char *name, bool is_required)
{
    json_t *result = json_array();
    const struct input list = validate_array(in, name, is_required, DRAFT_RECIPIENTS_MAX);
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        const struct input item = input_item(&list, i);
        json_t *address = read_address(&item);
        if (address != NULL)
            json_array_append_new(result, address);
    }
    return result;
}

/* from_address is a string in the interface, but published clients send an object. */
static json_t *read_from(const struct input *in)
{
    const struct input from = input_member(in, "from_address");
    if (from.value != NULL && !json_is_string(from.value))
        return read_address(&from);
    const char *address = validate_address(in, "from_address");
    return address != NULL ? json_pack("{s:s, s:n}", "address", address, "name") : NULL;
}

static void read_type(const struct input *in, struct submission *submission)
{
    submission->existing_email_id = validate_line(in, "existing_email_id", false);
    submission->type = submission->existing_email_id != NULL ? MESSAGE_REPLY : MESSAGE_NEW;
    const char *name = validate_line(in, "message_type", false);
    size_t type = 0;
    while (name != NULL && type < ARRAY_LEN(type_names) && strcmp(type_names[type], name) != 0)
        type++;
    if (type == ARRAY_LEN(type_names))
        validate_add_problem(in, "message_type", "enum", "Input should be 'new', 'reply' or 'forward'");
    else if (name != NULL)
        submission->type = (enum message_type)type;
    if (submission->type != MESSAGE_NEW && submission->existing_email_id == NULL)
        validate_add_problem(in, "message_type", "value_error", "A reply or forward needs existing_email_id");
}

static char *read_body(const struct input *in, const char *name, bool is_required)
{
    const char *text = validate_text(in, name, is_required);
    if (text != NULL && strlen(text) > DRAFT_BODY_MAX_BYTES)
        validate_add_problem(in, name, "string_too_long", "The text is over 8,000,000 bytes");
    return g_strdup(text);
}

/* The names of all lists are bounded together, because clients refuse an email whose record is too long. */
static void check_recipients(const struct input *in, const struct message *message)
{
    const json_t *const lists[] = {message->to, message->cc, message->bcc, message->reply_to};
    size_t name_bytes = 0;
    size_t count =
        json_array_size(message->to) + json_array_size(message->cc) + json_array_size(message->bcc);
    for (size_t list = 0; list < ARRAY_LEN(lists); list++) {
        size_t i;
        const json_t *address;
        json_array_foreach (lists[list], i, address)
            name_bytes += json_string_length(json_object_get(address, "name"));
    }
    if (count > DRAFT_RECIPIENTS_MAX)
        validate_add_problem(in, "to_addresses", "too_long", "The email has too many recipients");
    if (count == 0 && in->validation->problems == NULL)
        validate_add_problem(in, "to_addresses", "too_short", "The email has no recipient");
    if (name_bytes > NAMES_MAX_BYTES)
        validate_add_problem(in, "to_addresses", "too_long",
                             "The names of the recipients are over 500,000 bytes together");
}

static void digest_request(const json_t *body, char ret_digest[65])
{
    _cleanup_json_ json_t *copy = json_object();
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)body, name, value) {
        if (!json_is_null(value) && strcmp(name, "idempotency_key") != 0)
            json_object_set(copy, name, value);
    }
    _cleanup_free_ char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    hash_sha256(text, strlen(text), ret_digest);
}

void submission_read(json_t *body, struct validation *validation, struct submission *ret_submission)
{
    struct submission *submission = ret_submission;
    struct message *message = &submission->message;
    *submission = (struct submission){0};
    const struct input in = {.validation = validation, .name = "body", .value = body};
    message->from = read_from(&in);
    read_type(&in, submission);
    message->subject = g_strdup(validate_line(&in, "subject", submission->type == MESSAGE_NEW));
    message->html = read_body(&in, "html", false);
    message->plain_text = read_body(&in, "plain_text", message->html == NULL);
    message->alternative_content = validate_boolean(&in, "alternative_content", false);
    message->to = read_addresses(&in, "to_addresses", true);
    message->cc = read_addresses(&in, "cc_addresses", false);
    message->bcc = read_addresses(&in, "bcc_addresses", false);
    message->reply_to = read_addresses(&in, "reply_to_addresses", false);
    const struct input ids = validate_array(&in, "attachment_ids", false, ATTACHMENTS_MAX);
    submission->attachment_ids = ids.value;
    for (size_t i = 0; i < json_array_size(ids.value); i++) {
        const struct input id = input_item(&ids, i);
        input_text(&id);
    }
    submission->idempotency_key = validate_line(&in, "idempotency_key", false);
    check_recipients(&in, message);
    digest_request(body, submission->digest);
}

void submission_release(struct submission *submission)
{
    service_inbox_release(&submission->sender);
    message_release(&submission->message);
    *submission = (struct submission){0};
}

/* ---------------------------------------------------------------- composing */

static json_t *extend_references(const json_t *header)
{
    json_t *references = json_deep_copy(json_object_get(header, "references"));
    if (!json_is_array(references)) {
        json_decref(references);
        references = json_array();
    }
    json_array_append(references, json_object_get(header, "message_id"));
    while (json_array_size(references) > MESSAGE_REFERENCES_MAX)
        json_array_remove(references, 1);
    return references;
}

/* Makes the message a reply in a thread (RFC 5322 section 3.6.4). `header` is that of the other message. */
static void join_thread(struct message *message, int64_t thread, const json_t *header)
{
    message->thread = thread;
    message->in_reply_to = json_pack("[O]", json_object_get(header, "message_id"));
    message->references = extend_references(header);
}

/* A reply joins the thread of the existing email. A forward encloses the existing email whole, and begins a
 * thread. */
static int refer_to_email(struct connection *reader, struct submission *submission, struct reply *reply)
{
    struct message *message = &submission->message;
    _cleanup_statement_ struct statement statement = {0};
    int error =
        query_first(reader, &statement,
                    "SELECT m.thread, m.header, m.forward_depth,"
                    " iif(?2, (SELECT raw FROM contents WHERE message = m.seq), '') FROM messages m"
                    " WHERE m.seq = coalesce((SELECT message FROM emails WHERE id = ?1),"
                    " (SELECT message FROM outbound WHERE id = ?1))",
                    "si", submission->existing_email_id, (int64_t)(submission->type == MESSAGE_FORWARD));
    if (error == -ENOENT)
        return reply_error(reply, MHD_HTTP_NOT_FOUND,
                           "existing_email_id: there is no such email to reply to or forward.");
    if (error != 0)
        return error;
    _cleanup_json_ json_t *header = json_loads(query_column_text(statement.row, 1), 0, NULL);
    if (header == NULL || sqlite3_column_type(statement.row, 3) == SQLITE_NULL)
        return -EUCLEAN;
    if (message->subject == NULL)
        message->subject = g_strdup(json_string_value(json_object_get(header, "subject")));
    if (submission->type == MESSAGE_REPLY) {
        join_thread(message, sqlite3_column_int64(statement.row, 0), header);
        return 0;
    }
    message->forward_depth = sqlite3_column_int64(statement.row, 2) + 1;
    if (message->forward_depth > FORWARD_DEPTH_MAX ||
        sqlite3_column_bytes(statement.row, 3) > FORWARD_MAX_BYTES)
        return reply_error(reply, MHD_HTTP_CONTENT_TOO_LARGE,
                           "The forwarded email encloses too much already.");
    message->forwarded = query_column_copy(statement.row, 3, &message->forwarded_len);
    random_uuid(message->forwarded_id);
    return 0;
}

static int attach_files(const struct service_context *context, struct connection *reader, const json_t *ids,
                        struct message *message, struct reply *reply)
{
    message->attachments = g_new0(struct message_attachment, json_array_size(ids));
    size_t left = ATTACHMENTS_MAX_BYTES;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        struct message_attachment *attachment = &message->attachments[message->attachments_len++];
        int error = pool_load(context, reader, json_string_value(json_array_get(ids, i)), left, attachment);
        if (error == -ENOENT)
            return reply_invalid_at(reply, json_pack("[s, s, i]", "body", "attachment_ids", (int)i),
                                    "value_error", "There is no attachment with this id in the pool");
        if (error == -EMSGSIZE)
            return reply_error(reply, MHD_HTTP_CONTENT_TOO_LARGE,
                               "The attachments together are over 10,000,000 bytes.");
        if (error != 0)
            return error;
        attachment->encoding = "base64";
        left -= attachment->len;
    }
    return 0;
}

/* Completes the submission's message, or sets the reply to a refusal. Return: 0 or -errno. */
static int compose(const struct service_context *context, struct connection *reader,
                   struct submission *submission, struct reply *reply)
{
    struct message *message = &submission->message;
    struct service_inbox *sender = &submission->sender;
    int error = service_inbox_find_by_address(
        reader, json_string_value(json_object_get(message->from, "address")), sender);
    if (error == -ENOENT)
        return reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no inbox with the address to send from.");
    if (error != 0)
        return error;
    const char *name = json_string_value(json_object_get(message->from, "name"));
    bool has_name = name != NULL && name[0] != '\0';
    json_t *from = json_pack("{s:s, s:s?}", "address", service_inbox_address(sender), "name",
                             has_name ? name : service_inbox_name(sender));
    json_decref(message->from);
    message->from = from;
    if (submission->type != MESSAGE_NEW)
        error = refer_to_email(reader, submission, reply);
    if (error == 0 && reply->status == 0)
        error = attach_files(context, reader, submission->attachment_ids, message, reply);
    if (error == 0 && reply->status == 0)
        message_compose(message, context->domain);
    return error;
}

/* ---------------------------------------------------------------- in the turn to write */

static char *support_address(const char *domain)
{
    return g_strconcat("support@", domain, NULL);
}

/* Adds a row for the relay, or the reason why a recipient without an inbox cannot be reached. */
static int hand_to_relay(const struct service_context *context, struct connection *turn, int64_t outbound,
                         const char *address, GString *reasons, bool *ret_is_relayed)
{
    bool is_here = delivery_is_in_domain(address, context->domain);
    *ret_is_relayed = !is_here && context->has_relay;
    if (*ret_is_relayed)
        return outgoing_add(turn, OUTGOING_RELAY, outbound, address);
    /* A reply to a bounce goes to the support address, and must not cause another bounce. */
    _cleanup_free_ char *support = support_address(context->domain);
    if (!address_equals(address, support))
        sending_append_reason(reasons, address, is_here ? "5.1.1" : "5.4.4",
                              is_here
                                  ? "no inbox of this service has this address"
                                  : "the service has no relay (--relay), which mail to other domains needs");
    return 0;
}

/* Delivers a stored message to inboxes, adds rows for the relay, and bounces it if a recipient cannot be
 * reached. */
static int distribute(const struct service_context *context, struct connection *turn,
                      const struct message *message, int64_t seq, int64_t outbound)
{
    g_autoptr(GString) reasons = g_string_new(NULL);
    bool is_pending = false, has_failed = false;
    /* An inbox that several headers name counts as reached by the first of them. */
    const json_t *lists[] = {
        [DELIVERY_TO] = message->to, [DELIVERY_CC] = message->cc, [DELIVERY_BCC] = message->bcc};
    int error = 0;
    for (size_t header = 0; header < ARRAY_LEN(lists); header++) {
        for (size_t i = 0; error == 0 && i < json_array_size(lists[header]); i++) {
            const json_t *recipient = json_array_get(lists[header], i);
            error = delivery_add_email(turn, message, seq, (enum recipient_header)header, recipient);
            if (error != -ENOENT)
                continue;
            bool is_relayed = false;
            error =
                hand_to_relay(context, turn, outbound,
                              json_string_value(json_object_get(recipient, "address")), reasons, &is_relayed);
            is_pending = is_pending || is_relayed;
            has_failed = has_failed || !is_relayed;
        }
    }
    if (error == 0 && (has_failed || is_pending))
        error =
            query_execute(turn, "UPDATE outbound SET record = json_set(record, '$.status', ?) WHERE seq = ?",
                          "si", has_failed ? "failed" : "pending", outbound);
    return error == 0 && reasons->len > 0 ? sending_bounce(turn, outbound, context->domain, reasons->str)
                                          : error;
}

/* Writes the record of a sent email (interface, GET /api/v1/email/outbound). */
static int record_sent(struct connection *turn, const struct submission *submission, int64_t seq,
                       char ret_id[37])
{
    const struct message *message = &submission->message;
    const struct service_inbox *sender = &submission->sender;
    random_uuid(ret_id);
    bool is_tracked = json_is_true(json_object_get(sender->record, "open_and_click_tracking"));
    _cleanup_json_ json_t *record = json_pack(
        "{s:s, s:s, s:s, s:s, s:O, s:O, s:O, s:O, s:O, s:o, s:s, s:b, s:n}", "id", ret_id, "status", "sent",
        "inbox_id", service_inbox_id(sender), "subject", message->subject, "from_address", message->from,
        "to_addresses", message->to, "cc_addresses", message->cc, "bcc_addresses", message->bcc,
        "reply_to_addresses", message->reply_to, "date", delivery_date(message->date_ms), "message_type",
        type_names[submission->type], "open_and_click_tracking", is_tracked, "latest_event");
    _cleanup_free_ char *text = json_dumps(record, JSON_COMPACT);
    return query_execute(turn,
                         "INSERT INTO outbound (id, inbox, message, date_ms, record) VALUES (?, ?, ?, ?, ?)",
                         "siiis", ret_id, sender->seq, seq, message->date_ms, text);
}

static void reply_with_id(struct reply *reply, const char *id)
{
    reply_json(reply, MHD_HTTP_OK, json_pack("{s:s}", "id", id));
}

static int store_message(const struct service_context *context, struct connection *turn,
                         const struct submission *submission, struct reply *reply)
{
    char id[37];
    const struct message *message = &submission->message;
    int64_t seq = 0;
    int error = delivery_store(turn, message, &seq);
    if (error == 0)
        error = record_sent(turn, submission, seq, id);
    if (error == 0)
        error = distribute(context, turn, message, seq, sqlite3_last_insert_rowid(turn->db));
    if (error == 0 && submission->idempotency_key != NULL)
        error = query_execute(turn, "INSERT INTO idempotency_keys VALUES (?, ?, ?)", "sss",
                              submission->idempotency_key, submission->digest, id);
    if (error == 0)
        reply_with_id(reply, id);
    return error;
}

/* ---------------------------------------------------------------- sending, once */

/* Sets the reply if the key was used before. Return: 0 or -errno. */
static int check_idempotency_key(struct connection *connection, const struct submission *submission,
                                 struct reply *reply)
{
    if (submission->idempotency_key == NULL)
        return 0;
    _cleanup_statement_ struct statement statement = {0};
    int error =
        query_first(connection, &statement, "SELECT digest, outbound_id FROM idempotency_keys WHERE key = ?",
                    "s", submission->idempotency_key);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    if (strcmp(query_column_text(statement.row, 0), submission->digest) != 0)
        return reply_error(reply, MHD_HTTP_CONFLICT, "The idempotency key was used for another request.");
    reply_with_id(reply, query_column_text(statement.row, 1));
    return 0;
}

static int check_daily_limit(struct connection *turn, const struct service_context *context,
                             struct reply *reply)
{
    if (context->daily_limit == 0)
        return 0;
    int64_t now = clock_realtime_ms(clock_system());
    int64_t count = 0;
    int error = query_integers(turn, &count, 1, "SELECT count(*) FROM outbound WHERE date_ms >= ?", "i",
                               now - now % DAY_MS);
    if (error != 0 || count < context->daily_limit)
        return error;
    reply_error(reply, MHD_HTTP_TOO_MANY_REQUESTS, "The daily limit of emails sent is reached.");
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%lld", (long long)(DAY_MS - now % DAY_MS) / 1000);
    reply_add_header(reply, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    return 0;
}

/* Return: 0 with the result in the reply; -EIO if the email may have been sent; another -errno if not. */
static int send_once(const struct service_context *context, struct submission *submission,
                     struct reply *reply)
{
    struct connection *connection = NULL;
    int error = database_begin_read(context->database, &connection);
    if (error != 0)
        return error;
    error = check_idempotency_key(connection, submission, reply);
    if (error == 0 && reply->status == 0)
        error = compose(context, connection, submission, reply);
    database_return_reader(connection);
    if (error == 0 && reply->status == 0)
        error = database_begin_write(context->database, &connection);
    if (error != 0 || reply->status != 0)
        return error;
    error = check_idempotency_key(connection, submission, reply);
    if (error == 0 && reply->status == 0)
        error = check_daily_limit(connection, context, reply);
    if (error == 0 && reply->status == 0)
        error = store_message(context, connection, submission, reply);
    return database_end_write(context->database, error);
}

static int read_and_send(const struct service_context *context, json_t *body, struct reply *reply)
{
    _cleanup_validation_ struct validation validation = {0};
    _cleanup_submission_ struct submission submission = {0};
    submission_read(body, &validation, &submission);
    return validation.problems != NULL ? reply_invalid(reply, &validation)
                                       : send_once(context, &submission, reply);
}

int endpoint_send(struct request *request, struct reply *reply)
{
    _cleanup_json_ json_t *body = request_read_object(request, reply);
    if (body == NULL)
        return 0;
    /* A small request may name large attachments of the pool, or a large email to be forwarded. */
    const char *type = json_string_value(json_object_get(body, "message_type"));
    bool is_large = request->body.len >= LARGE_MESSAGE_BYTES ||
                    json_array_size(json_object_get(body, "attachment_ids")) > 0 ||
                    (type != NULL && strcmp(type, type_names[MESSAGE_FORWARD]) == 0);
    if (!is_large)
        return read_and_send(request->context, body, reply);
    LOCK_GUARD(&large_messages);
    return read_and_send(request->context, body, reply);
}

/* ---------------------------------------------------------------- mail from the service itself */

static const char welcome_text[] =
    "Hello,\n"
    "\n"
    "your inbox %s is ready. Whatever is sent to it arrives here.\n"
    "\n"
    "Emails sent from it to other inboxes of this service are delivered at once.\n"
    "\n"
    "Your local email inbox service\n";

static const char bounce_text[] =
    "An email that you sent could not be delivered to everybody it was for. It was given up for:\n"
    "\n"
    "%s"
    "The email:\n"
    "\n"
    "Subject: %s\n"
    "Date: %s\n"
    "Message-ID: %s\n"
    "\n"
    "Your local email inbox service\n";

/* Delivers a message from support@domain to an inbox. The message has its text and subject. */
static int deliver_letter(struct connection *turn, struct message *message, const char *address,
                          const char *name, const char *from_name, const char *domain)
{
    _cleanup_free_ char *support = support_address(domain);
    message->from = json_pack("{s:s, s:s}", "address", support, "name", from_name);
    message->to = json_pack("[{s:s, s:s?}]", "address", address, "name", name);
    message->cc = json_array();
    message->bcc = json_array();
    message->reply_to = json_array();
    message->is_automatic = true;
    int64_t seq = 0;
    message_compose(message, domain);
    int error = delivery_store(turn, message, &seq);
    return error == 0 ? delivery_add_email(turn, message, seq, DELIVERY_TO, json_array_get(message->to, 0))
                      : error;
}

int sending_welcome(struct connection *turn, const struct service_inbox *inbox, const char *domain)
{
    _cleanup_free_ char *support = support_address(domain);
    struct verdict verdict = inbox_judge(inbox->record, support, NULL, DELIVERY_TO);
    if (strcmp(verdict.status, "valid") != 0)
        return 0;
    _cleanup_(message_release) struct message message = {
        .subject = g_strdup("Welcome to your inbox"),
        .plain_text = g_strdup_printf(welcome_text, service_inbox_address(inbox)),
    };
    return deliver_letter(turn, &message, service_inbox_address(inbox), service_inbox_name(inbox), "Support",
                          domain);
}

void sending_append_reason(GString *reasons, const char *address, const char *status, const char *why)
{
    g_string_append_printf(reasons,
                           "Final-Recipient: rfc822; %s\nAction: failed\nStatus: %s\n"
                           "Diagnostic-Code: x-inboxd; %s\n\n",
                           address, status, why);
}

int sending_bounce(struct connection *turn, int64_t outbound, const char *domain, const char *reasons)
{
    _cleanup_statement_ struct statement statement = {0};
    int error =
        query_first(turn, &statement,
                    "SELECT m.thread, m.header, i.address, nullif(i.record ->> '$.name', '') FROM outbound o"
                    " JOIN messages m ON m.seq = o.message JOIN inboxes i ON i.seq = o.inbox"
                    " WHERE o.seq = ?",
                    "i", outbound);
    if (error != 0)
        return error == -ENOENT ? -EUCLEAN : error;
    _cleanup_json_ json_t *header = json_loads(query_column_text(statement.row, 1), 0, NULL);
    const char *subject, *date, *id;
    if (json_unpack(header, "{s:s, s:s, s:s}", "subject", &subject, "date", &date, "message_id", &id) != 0)
        return -EUCLEAN;
    _cleanup_(message_release) struct message message = {
        .subject = g_strdup_printf("Undelivered: %s", subject),
        .plain_text = g_strdup_printf(bounce_text, reasons, subject, date, id),
    };
    join_thread(&message, sqlite3_column_int64(statement.row, 0), header);
    return deliver_letter(turn, &message, query_column_text(statement.row, 2),
                          (const char *)sqlite3_column_text(statement.row, 3), "Mail Delivery System",
                          domain);
}
