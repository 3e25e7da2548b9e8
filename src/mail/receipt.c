/* SPDX-License-Identifier: MIT */
/*
 * Receipts, as indented JSON.
 */
#include "mail/receipt.h"

#include "mail/json_writer.h"

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
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
    json_write_verbatim(&writer, envelope->request);
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}
