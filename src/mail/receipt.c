/* SPDX-License-Identifier: MIT */
/*
 * Receipts are written by json_writer, which accepts any bytes of a sender.
 */
#include "mail/receipt.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/json_writer.h"

int receipt_format(const struct receipt *receipt, struct strbuf *out)
{
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "state", receipt->state);
    json_member_string(&writer, "kind", receipt->kind);
    json_member_string(&writer, "id", receipt->id);
    json_member_string(&writer, "idempotency_key", (receipt->key[0] == '\0' ? NULL : receipt->key));
    json_member_date(&writer, "accepted_at", receipt->accepted_ms);
    json_member_date(&writer, "finished_at", receipt->finished_ms);
    json_member_integer(&writer, "attempts", receipt->attempts);
    json_key(&writer, "http_status");
    if (receipt->http_status == 0)
        json_write_null(&writer);
    else
        json_write_integer(&writer, receipt->http_status);
    json_member_string(&writer, "error", receipt->error);
    if (receipt->not_carried != NULL) {
        json_key(&writer, "not_carried");
        json_begin_array(&writer);
        for (const char *line = receipt->not_carried; *line != '\0';) {
            size_t len = strcspn(line, "\n");
            json_write_string_n(&writer, line, len);
            line += len + (line[len] == '\n');
        }
        json_end_array(&writer);
    }
    json_key(&writer, "request");
    if (receipt->request == NULL)
        json_write_null(&writer);
    else
        json_write_verbatim(&writer, receipt->request, strlen(receipt->request));
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}

int receipt_delivery_format(const char *record, size_t len, struct strbuf *out)
{
    static const char *const names[] = {"status", "latest_event"};
    _cleanup_json_ json_t *value = json_loadb(record, len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(value))
        return -EBADMSG;
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    writer.depth = 1; /* inside an object that has members */
    writer.is_empty = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *member = json_object_get(value, names[i]);
        if (member == NULL)
            continue;
        json_key(&writer, names[i]);
        json_write_value(&writer, member);
    }
    return out->error;
}
