/* SPDX-License-Identifier: MIT */
#include "mail/receipt.h"

#include <errno.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "mail/json_writer.h"

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
