/* SPDX-License-Identifier: MIT */
/*
 * Inbox records, and the requests that make and change inboxes.
 */
#include "mail/inbox_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

enum {
    INBOX_RECORD_MAX_BYTES = 4 * 1024 * 1024
};

static int write_text(const json_t *object, char **ret_text, size_t *ret_len)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(INBOX_RECORD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 2);
    json_value_write(object, &writer);
    strbuf_append_char(&text, '\n');
    if (text.error != 0)
        return text.error == -ENOMEM ? -ENOMEM : -EBADMSG;
    *ret_text = strbuf_take(&text, ret_len);
    return *ret_text == NULL ? -ENOMEM : 0;
}

static int fill_in(const json_t *object, struct inbox_record *record)
{
    int error = json_value_read_id(json_object_get(object, "id"), &record->id);
    if (error != 0 || record->id == NULL)
        return error != 0 ? error : -EBADMSG;
    const char *address = json_string_value(json_object_get(object, "email_address"));
    if (address != NULL && address_is_valid(address)) {
        record->address = strdup(address);
        if (record->address == NULL)
            return -ENOMEM;
    }
    return write_text(object, &record->json, &record->json_len);
}

int inbox_record_from_json(const json_t *object, struct inbox_record *ret_record)
{
    struct inbox_record record = {0};
    int error = json_is_object(object) ? fill_in(object, &record) : -EBADMSG;
    if (error != 0) {
        inbox_record_release(&record);
        return error;
    }
    *ret_record = record;
    return 0;
}

int inbox_record_from_id(const char *id, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_pack("{s:s}", "id", id);
    return inbox_record_from_json(object, ret_record);
}

int inbox_record_from_text(const char *json, size_t len, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_loadb(json, len, JSON_ALLOW_NUL, NULL);
    return inbox_record_from_json(object, ret_record);
}

static char *copy_string(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

int inbox_record_copy(const struct inbox_record *record, struct inbox_record *ret_record)
{
    struct inbox_record copy = {
        .id = copy_string(record->id),
        .address = copy_string(record->address),
        .json = malloc(record->json_len + 1),
        .json_len = record->json_len,
    };
    if (copy.id == NULL || (copy.address == NULL && record->address != NULL) || copy.json == NULL) {
        inbox_record_release(&copy);
        return -ENOMEM;
    }
    memcpy(copy.json, record->json, record->json_len + 1);
    *ret_record = copy;
    return 0;
}

void inbox_record_release(struct inbox_record *record)
{
    free(record->id);
    free(record->address);
    free(record->json);
    *record = (struct inbox_record){0};
}

int inbox_record_created(const char *request, const char *id, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_loads(request, 0, NULL);
    if (!json_is_object(object))
        return -EBADMSG;
    if (json_object_set_new(object, "id", json_string(id)) != 0)
        return -EBADMSG;
    return inbox_record_from_json(object, ret_record);
}
