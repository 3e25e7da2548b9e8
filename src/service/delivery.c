/* SPDX-License-Identifier: MIT */
/*
 * Storing and distributing. A message that an inbox's rules are against is stored there all the same, with
 * the status that says why, and hidden from those who ask for valid mail.
 */
#include "service/delivery.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "mail/email_record.h"
#include "service/inbox_rules.h"
#include "sql/query.h"

static json_t *date_value(int64_t date_ms)
{
    char date[32];
    date_format(date_ms, date);
    return json_string(date);
}

static int insert_message(sqlite3 *db, const struct message *message, struct lineage lineage)
{
    json_t *header = message_header(message);
    _cleanup_free_ char *header_text = header != NULL ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    _cleanup_free_ char *search_text = message_search_text(message);
    if (header_text == NULL || search_text == NULL)
        return -ENOMEM;
    return query_execute(
        db,
        "INSERT INTO messages (message_id, thread, forward_depth, date_ms, header, search_text)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        "siiiss", message->message_id, lineage.thread, lineage.forward_depth, message->date_ms, header_text,
        search_text);
}

int delivery_store(sqlite3 *db, const struct message *message, const char *raw, size_t raw_len,
                   struct lineage lineage, int64_t *ret_seq)
{
    int error = insert_message(db, message, lineage);
    if (error != 0)
        return error;
    int64_t seq = sqlite3_last_insert_rowid(db);
    if (lineage.thread == 0)
        error = query_execute(db, "UPDATE messages SET thread = seq WHERE seq = ?", "i", seq);
    if (error == 0)
        error = query_execute(db, "INSERT INTO contents VALUES (?, ?, ?, ?)", "issb", seq,
                              message->plain_text, message->html, (const void *)raw, raw_len);
    if (error == 0)
        *ret_seq = seq;
    return error;
}

static json_t *email_record(const struct message *message, const struct inbox *inbox, const char *id,
                            struct verdict verdict, const json_t *reached_by_bcc)
{
    json_t *bcc = json_array();
    if (reached_by_bcc != NULL)
        json_array_append(bcc, (json_t *)reached_by_bcc);
    return json_pack("{s:s, s:s, s:s?, s:b, s:s, s:s, s:O, s:O, s:O, s:o, s:O, s:o, s:n}", "id", id, "status",
                     verdict.status, "status_message", verdict.message, "user_mark_status", false, "inbox_id",
                     inbox_id(inbox), "subject", message->subject, "from_address", message->from,
                     "to_addresses", message->to, "cc_addresses", message->cc, "bcc_addresses", bcc,
                     "reply_to_addresses", message->reply_to, "date", date_value(message->date_ms),
                     "latest_webhook_log");
}

static int deliver(sqlite3 *db, const struct message *message, int64_t seq, const struct inbox *inbox,
                   enum delivery_way way, const json_t *recipient)
{
    const char *from = json_string_value(json_object_get(message->from, "address"));
    struct verdict verdict = inbox_rules_judge(inbox->record, from, way);
    char id[37];
    int error = random_uuid(id);
    if (error != 0)
        return error;
    json_t *record = email_record(message, inbox, id, verdict, way == DELIVERY_BCC ? recipient : NULL);
    _cleanup_free_ char *text = record != NULL ? json_dumps(record, JSON_COMPACT) : NULL;
    json_decref(record);
    if (text == NULL)
        return -ENOMEM;
    return query_execute(db,
                         "INSERT INTO emails (id, inbox, message, is_valid, from_address, record)"
                         " VALUES (?, ?, ?, ?, ?, ?)",
                         "siiiss", id, inbox->seq, seq, (int64_t)(strcmp(verdict.status, "valid") == 0), from,
                         text);
}

/* Delivers to one recipient. 0 too where the inbox has the message already; -ENOENT: no inbox here. */
static int deliver_to(sqlite3 *db, const struct message *message, int64_t seq, enum delivery_way way,
                      const json_t *recipient)
{
    _cleanup_inbox_ struct inbox inbox = {0};
    const char *address = json_string_value(json_object_get(recipient, "address"));
    int error = inboxes_find_by_address(db, address, &inbox);
    if (error != 0)
        return error;
    int64_t found = 0;
    error = query_integer(db, &found, "SELECT 1 FROM emails WHERE message = ? AND inbox = ?", "ii", seq,
                          inbox.seq);
    return error == -ENOENT ? deliver(db, message, seq, &inbox, way, recipient) : error;
}

int delivery_distribute(sqlite3 *db, const struct message *message, int64_t seq, bool *ret_is_complete)
{
    const json_t *lists[] = {
        [DELIVERY_TO] = message->to, [DELIVERY_CC] = message->cc, [DELIVERY_BCC] = message->bcc};
    bool is_complete = true;
    /* To before Cc before Bcc: an inbox reached in several ways counts as reached in the most open one. */
    for (size_t way = 0; way < ARRAY_LEN(lists); way++) {
        size_t i;
        const json_t *recipient;
        json_array_foreach (lists[way], i, recipient) {
            int error = deliver_to(db, message, seq, (enum delivery_way)way, recipient);
            if (error == -ENOENT)
                is_complete = false;
            else if (error != 0)
                return error;
        }
    }
    *ret_is_complete = is_complete;
    return 0;
}

int delivery_record_sent(sqlite3 *db, const struct message *message, int64_t seq, const struct inbox *sender,
                         enum message_type type, bool is_complete, char ret_id[37])
{
    char id[37];
    int error = random_uuid(id);
    if (error != 0)
        return error;
    bool is_tracked = json_is_true(json_object_get(sender->record, "open_and_click_tracking"));
    json_t *record =
        json_pack("{s:s, s:s, s:s, s:s, s:O, s:O, s:O, s:O, s:O, s:o, s:s, s:b, s:n}", "id", id, "status",
                  is_complete ? "sent" : "pending", "inbox_id", inbox_id(sender), "subject", message->subject,
                  "from_address", message->from, "to_addresses", message->to, "cc_addresses", message->cc,
                  "bcc_addresses", message->bcc, "reply_to_addresses", message->reply_to, "date",
                  date_value(message->date_ms), "message_type", message_type_name(type),
                  "open_and_click_tracking", is_tracked, "latest_event");
    _cleanup_free_ char *text = record != NULL ? json_dumps(record, JSON_COMPACT) : NULL;
    json_decref(record);
    if (text == NULL)
        return -ENOMEM;
    error =
        query_execute(db, "INSERT INTO outbound (id, inbox, message, date_ms, record) VALUES (?, ?, ?, ?, ?)",
                      "siiis", id, sender->seq, seq, message->date_ms, text);
    if (error == 0)
        memcpy(ret_id, id, sizeof(id));
    return error;
}
