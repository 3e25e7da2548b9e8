/* SPDX-License-Identifier: MIT */
/*
 * Receipts, as indented JSON.
 */
#include "mail/receipt.h"

#include <errno.h>
#include <string.h>

#include "mail/json_reader.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

/* It was harmless JSON when it was written. Of an envelope that was damaged since, what is still JSON is made
 * harmless again, and what is not is shown as what it is: a text. */
static void write_request(struct json_writer *writer, const char *request)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    struct json_writer copy;
    if (request == NULL) {
        json_write_null(writer);
        return;
    }
    json_writer_init(&copy, &out, 0);
    if (json_rewrite(request, strlen(request), &copy) == 0)
        json_write_verbatim(writer, strbuf_str(&out));
    else
        json_write_string(writer, request);
}

int receipt_format(const struct envelope *envelope, struct strbuf *out)
{
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "state", envelope->state);
    json_member_string(&writer, "kind", envelope->kind == ENVELOPE_MESSAGE ? "message" : "attachment");
    json_member_string(&writer, "id", envelope->id);
    json_member_string(&writer, "idempotency_key", text_or_null(envelope->key));
    json_member_date(&writer, "accepted_at", envelope->accepted_ms);
    json_member_date(&writer, "finished_at", envelope->finished_ms);
    json_member_integer(&writer, "attempts", envelope->attempts);
    json_key(&writer, "http_status");
    if (envelope->http_status == 0)
        json_write_null(&writer);
    else
        json_write_integer(&writer, envelope->http_status);
    json_member_string(&writer, "error", envelope->error);
    json_key(&writer, "request");
    write_request(&writer, envelope->request);
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}

static const char end[] = "\n}\n";

int receipt_delivery_format(const char *record, size_t len, struct strbuf *out)
{
    static const char *const names[] = {"status", "latest_event"};
    _cleanup_json_ json_t *value = json_loadb(record, len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(value))
        return -EBADMSG;
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    writer.depth = 1; /* within a receipt that has members already */
    writer.is_empty = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *member = json_object_get(value, names[i]);
        if (member == NULL)
            continue;
        json_key(&writer, names[i]);
        json_value_write(member, &writer);
    }
    return out->error;
}

size_t receipt_end(const char *receipt, size_t len)
{
    size_t end_len = strlen(end);
    return len >= end_len && memcmp(receipt + len - end_len, end, end_len) == 0 ? len - end_len : len;
}
