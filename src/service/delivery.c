/* SPDX-License-Identifier: MIT */
/*
 * A message of another program is not refused for missing headers. Without a sender it gets the sender of the
 * envelope; without a date, the current time; without a Message-ID, a random one.
 */
#include "service/delivery.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/random.h"
#include "mail/address.h"
#include "mail/date.h"
#include "mail/json_writer.h"
#include "mail/mime.h"
#include "service/outgoing.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- rows */

json_t *delivery_date(int64_t date_ms)
{
    char date[32];
    date_format(date_ms, date);
    return json_string(date);
}

int delivery_store(struct connection *turn, const struct message *message, int64_t *ret_seq)
{
    /* The first message of a thread gets its own seq, which is the next one, as its thread. */
    int error =
        query_execute(turn,
                      "INSERT INTO messages (message_id, thread, forward_depth, date_ms, header, search_text)"
                      " VALUES (iif(EXISTS (SELECT 1 FROM messages WHERE message_id = ?1),"
                      " lower(hex(randomblob(16))), ?1),"
                      " iif(?2 = 0, (SELECT ifnull(max(seq), 0) + 1 FROM messages), ?2), ?3, ?4, ?5, ?6)",
                      "siiiss", message->message_id, message->thread, message->forward_depth,
                      message->date_ms, message->header, message->search_text);
    if (error != 0)
        return error;
    *ret_seq = sqlite3_last_insert_rowid(turn->db);
    return query_execute(turn, "INSERT INTO contents VALUES (?, ?, ?, ?)", "issb", *ret_seq,
                         message->plain_text, message->html, (const void *)message->raw, message->raw_len);
}

int delivery_add_email(struct connection *turn, const struct message *message, int64_t seq,
                       enum recipient_header header, const json_t *recipient)
{
    _cleanup_inbox_ struct service_inbox inbox = {0};
    const char *address = json_string_value(json_object_get(recipient, "address"));
    int error = service_inbox_find_for_mail(turn, address, &inbox);
    if (error != 0)
        return error;
    const char *from = json_string_value(json_object_get(message->from, "address"));
    struct verdict verdict = inbox_judge(inbox.record, from, message->authors, header);
    bool is_valid = strcmp(verdict.status, "valid") == 0;
    char id[37];
    random_uuid(id);
    json_t *bcc = header == DELIVERY_BCC ? json_pack("[O]", recipient) : json_array();
    _cleanup_json_ json_t *record = json_pack(
        "{s:s, s:s, s:s?, s:b, s:s, s:s, s:O, s:O, s:O, s:o, s:O, s:o, s:n}", "id", id, "status",
        verdict.status, "status_message", verdict.message, "user_mark_status", false, "inbox_id",
        service_inbox_id(&inbox), "subject", message->subject, "from_address", message->from, "to_addresses",
        message->to, "cc_addresses", message->cc, "bcc_addresses", bcc, "reply_to_addresses",
        message->reply_to, "date", delivery_date(message->date_ms), "latest_webhook_log");
    _cleanup_free_ char *text = json_dumps(record, JSON_COMPACT);
    error = query_execute(turn,
                          "INSERT INTO emails (id, inbox, message, is_valid, from_address, record)"
                          " SELECT ?1, ?2, ?3, ?4, ?5, ?6"
                          " WHERE NOT EXISTS (SELECT 1 FROM emails WHERE message = ?3 AND inbox = ?2)",
                          "siiiss", id, inbox.seq, seq, (int64_t)is_valid, from, text);
    bool is_new = error == 0 && sqlite3_changes(turn->db) > 0;
    bool has_webhook = json_is_string(json_object_get(inbox.record, "webhook_url"));
    return is_new && is_valid && has_webhook
               ? outgoing_add(turn, OUTGOING_WEBHOOK, sqlite3_last_insert_rowid(turn->db),
                              service_inbox_id(&inbox))
               : error;
}

/* ---------------------------------------------------------------- completing a message from elsewhere */

static const char *domain_of(const char *recipient)
{
    const char *at = strrchr(recipient, '@');
    return at != NULL ? at + 1 : recipient;
}

/* `sender` may be a user name without a domain, from a program on this machine, or "", in a bounce. If there
 * is no sender, Reply-To gets the text in From, so that a reply is refused with a reason. */
static void set_sender(const char *sender, const char *domain, struct message *message)
{
    bool has_sender = sender[0] != '\0';
    bool is_whole = has_sender && address_is_valid(sender);
    g_autofree char *address = g_strdup_printf("%s@%s", has_sender ? sender : "MAILER-DAEMON", domain);
    const char *from = is_whole ? sender : address_is_valid(address) ? address : "MAILER-DAEMON@localhost";
    message->from = json_pack("{s:s, s:s?}", "address", from, "name", message->sender_text);
    if (!has_sender && message->sender_text != NULL && json_array_size(message->reply_to) == 0) {
        json_decref(message->reply_to);
        message->reply_to = json_pack("[{s:s, s:n}]", "address", message->sender_text, "name");
    }
}

/* A date in the future is replaced: clients would list the message before later ones. */
static void complete_message(const struct smtp_message *received, struct message *message)
{
    const char *domain = domain_of(received->recipients[0]);
    int64_t now = clock_realtime_ms(clock_system());
    if (message->from == NULL)
        set_sender(received->sender, domain, message);
    if (message->date_ms <= 0 || message->date_ms > now)
        message->date_ms = now;
    if (message->message_id == NULL)
        message_make_id(message, address_is_valid(received->recipients[0]) ? domain : "localhost");
}

/* ---------------------------------------------------------------- storing a message, in the turn to write */

static int find_thread(struct connection *turn, const json_t *message_id, int64_t *ret_thread)
{
    int error = query_integers(turn, ret_thread, 1, "SELECT thread FROM messages WHERE message_id = ?", "s",
                               json_string_value(message_id));
    return error == -ENOENT ? 0 : error;
}

/* A message joins the thread of the message that it replies to or, if the service has no such message, of the
 * last message in References that it has. */
static int join_thread(struct connection *turn, struct message *message)
{
    int error = 0;
    for (size_t i = 0; i < json_array_size(message->in_reply_to) && error == 0 && message->thread == 0; i++)
        error = find_thread(turn, json_array_get(message->in_reply_to, i), &message->thread);
    for (size_t i = json_array_size(message->references); i > 0 && error == 0 && message->thread == 0; i--)
        error = find_thread(turn, json_array_get(message->references, i - 1), &message->thread);
    return error;
}

/* Stores a message, unless its bytes are stored already: mail servers deliver to each recipient separately,
 * and repeat a delivery whose answer they lost. */
static int store_once(struct connection *turn, struct message *message, int64_t *ret_seq)
{
    int error = query_integers(turn, ret_seq, 1,
                               "SELECT seq FROM messages JOIN contents ON message = seq"
                               " WHERE message_id = ? AND raw = ?",
                               "sb", message->message_id, (const void *)message->raw, message->raw_len);
    if (error != -ENOENT)
        return error;
    error = join_thread(turn, message);
    return error == 0 ? delivery_store(turn, message, ret_seq) : error;
}

static bool list_has_address(const json_t *list, const char *recipient)
{
    size_t i;
    const json_t *address;
    json_array_foreach (list, i, address) {
        if (address_equals(json_string_value(json_object_get(address, "address")), recipient))
            return true;
    }
    return false;
}

bool delivery_is_in_domain(const char *address, const char *domain)
{
    return strchr(address, '@') != NULL && strcasecmp(domain_of(address), domain) == 0;
}

bool delivery_makes_inbox(const char *new_inboxes, const char *address)
{
    return new_inboxes != NULL && (new_inboxes[0] == '\0' || delivery_is_in_domain(address, new_inboxes));
}

static int make_inbox(struct connection *turn, const char *address)
{
    int64_t inboxes = 0;
    int error = query_integers(turn, &inboxes, 1, "SELECT count(*) FROM inboxes", "");
    if (error == 0 && inboxes >= DELIVERY_INBOXES_MAX)
        error = -EUSERS;
    if (error != 0)
        return error;
    _cleanup_json_ json_t *settings = inbox_settings_default(address);
    return settings != NULL ? service_inbox_store(turn, 0, settings) : -ENOENT;
}

static int put_into_inboxes(struct connection *turn, const struct smtp_message *received,
                            const char *new_inboxes, const struct message *message, int64_t seq,
                            size_t *ret_unknown)
{
    int error = 0;
    for (size_t i = 0; i < received->recipients_len && error == 0; i++) {
        const char *address = received->recipients[i];
        /* A recipient whom no header names counts as reached by Bcc, even if a list or an alias named it. */
        enum recipient_header header = list_has_address(message->to, address)   ? DELIVERY_TO
                                       : list_has_address(message->cc, address) ? DELIVERY_CC
                                                                                : DELIVERY_BCC;
        /* json_pack() returns NULL if the address is not UTF-8. No inbox has such an address. */
        _cleanup_json_ json_t *recipient = json_pack("{s:s, s:n}", "address", address, "name");
        error = recipient != NULL ? delivery_add_email(turn, message, seq, header, recipient) : -ENOENT;
        if (error == -ENOENT && recipient != NULL && delivery_makes_inbox(new_inboxes, address)) {
            error = make_inbox(turn, address);
            if (error == 0)
                error = delivery_add_email(turn, message, seq, header, recipient);
        }
        if (error == -ENOENT)
            *ret_unknown = i;
    }
    return error;
}

static int receive_message(struct database *database, const struct smtp_message *received,
                           const char *new_inboxes, size_t *ret_unknown)
{
    /* Programs that deliver from an mbox put its "From " line before the message. */
    size_t mbox_len = mime_mbox_line_len((struct span){received->text, received->text_len});
    _cleanup_(message_release) struct message message = {0};
    struct connection *connection = NULL;
    message_read(received->text + mbox_len, received->text_len - mbox_len, &message);
    complete_message(received, &message);
    message_make_columns(&message);
    int error = database_begin_write(database, &connection);
    if (error != 0)
        return error;
    int64_t seq = 0;
    error = store_once(connection, &message, &seq);
    if (error == 0)
        error = put_into_inboxes(connection, received, new_inboxes, &message, seq, ret_unknown);
    return database_end_write(database, error);
}

int delivery_receive(struct database *database, const struct smtp_message *received, const char *new_inboxes,
                     size_t *ret_unknown)
{
    if (received->text_len < LARGE_MESSAGE_BYTES)
        return receive_message(database, received, new_inboxes, ret_unknown);
    LOCK_GUARD(&large_messages);
    return receive_message(database, received, new_inboxes, ret_unknown);
}
