/* SPDX-License-Identifier: MIT */
/*
 * Reads the records of inboxes, and makes the requests that create or change an inbox. The service checks the
 * fields of requests.
 */
#include "mail/inbox_record.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"
#include "mail/reason.h"

enum {
    INBOX_RECORD_MAX_BYTES = 4 * 1024 * 1024,
};

static int write_text(const json_t *object, unsigned int indent, char **ret_text, size_t *ret_len)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(INBOX_RECORD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, indent);
    json_write_value(&writer, object);
    if (indent > 0)
        strbuf_append_char(&text, '\n');
    *ret_text = strbuf_take(&text, ret_len);
    return *ret_text == NULL ? -EINVAL : 0;
}

static int from_json(const json_t *object, struct inbox_record *ret_record)
{
    struct inbox_record record = {0};
    if (!json_is_object(object))
        return -EINVAL;
    record.id = json_value_read_id(json_object_get(object, "id"));
    if (record.id == NULL)
        return -EINVAL;
    const char *address = json_value_text(json_object_get(object, "email_address"));
    if (address != NULL && address_is_valid(address))
        record.address = g_strdup(address);
    int error = write_text(object, 2, &record.json, &record.json_len);
    if (error == 0)
        *ret_record = record;
    else
        inbox_record_release(&record);
    return error;
}

int inbox_record_from_id(const char *id, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_pack("{s:s}", "id", id);
    return from_json(object, ret_record);
}

int inbox_record_from_text(const char *text, size_t len, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = NULL;
    int error = json_value_read(text, len, JSON_REJECT_DUPLICATES, &object);
    return error != 0 ? error : from_json(object, ret_record);
}

void inbox_record_release(struct inbox_record *record)
{
    free(record->id);
    free(record->address);
    free(record->json);
    *record = (struct inbox_record){0};
}

int inbox_record_from_request(const char *request, const char *id, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_loads(request, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(object) || json_object_set_new(object, "id", json_string(id)) != 0)
        return -EBADMSG;
    return from_json(object, ret_record);
}

/* Fields that only the service sets: requests leave them out. */
static const char *const read_only_fields[] = {"updated_at", "webhook_secret"};

int inbox_request_create(const char *address, char **ret_request)
{
    if (!address_is_folder_name(address))
        return -EINVAL;
    size_t local_len = strcspn(address, "@");
    _cleanup_json_ json_t *request =
        json_pack("{s:n, s:s%, s:s}", "id", "name", address, local_len, "email_address", address);
    return write_text(request, 0, ret_request, NULL);
}

int inbox_request_update(const struct inbox_record *current, const char *edited, size_t edited_len,
                         char **ret_request, char **ret_reason)
{
    json_error_t problem;
    *ret_reason = NULL;
    _cleanup_json_ json_t *request = json_loadb(current->json, current->json_len, JSON_ALLOW_NUL, NULL);
    _cleanup_json_ json_t *changes =
        json_loadb(edited, edited_len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (changes == NULL)
        return reason_give(ret_reason, -EINVAL, "not JSON: line %d, column %d: %s", problem.line,
                           problem.column, problem.text);
    if (!json_is_object(changes))
        return reason_give(ret_reason, -EINVAL, "not a JSON object");
    _cleanup_json_ json_t *id = json_incref(json_object_get(request, "id"));
    if (id == NULL)
        return reason_give(ret_reason, -EINVAL, "the record of the inbox cannot be read");

    /* The service chooses the id of an inbox. A text without an id, or with null, means this inbox. */
    const json_t *new_id = json_object_get(changes, "id");
    if (new_id != NULL && !json_is_null(new_id) && !json_equal(id, new_id))
        return reason_give(ret_reason, -EINVAL,
                           "id: is another inbox's; the id of an inbox cannot be changed");
    json_object_update(request, changes);
    json_object_set(request, "id", id);
    for (size_t i = 0; i < ARRAY_LEN(read_only_fields); i++)
        json_object_del(request, read_only_fields[i]);

    return write_text(request, 0, ret_request, NULL);
}

bool inbox_text_is_complete(const char *text, size_t len)
{
    _cleanup_json_ json_t *value = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    return value != NULL;
}
