/* SPDX-License-Identifier: MIT */
/*
 * The JSON form of a draft: the send request of the interface, with its conveniences. Every field and type is
 * checked, for the service would not tell, or only after the message was handed in.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft_reading.h"
#include "mail/file_name.h"
#include "mail/json_value.h"
#include "mail/reason.h"

enum {
    PATH_BYTES = 80 /* of the name of a value, such as "to_addresses[12].name" */
};

static int refuse(const struct draft_reading *reading, const char *path, const char *words)
{
    return reason_give(reading->ret_reason, -EBADMSG, "%s: %s", path, words);
}

static int read_text(struct draft_reading *reading, const char *path, const json_t *value, char **ret_text)
{
    if (!json_is_string(value))
        return refuse(reading, path, "not a string");
    *ret_text = strdup(json_string_value(value));
    return *ret_text == NULL ? -ENOMEM : 0;
}

/* ---- addresses */

static int read_address_object(struct draft_reading *reading, const char *path, const json_t *object,
                               struct address_list *list)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value)
        if (strcmp(key, "address") != 0 && strcmp(key, "name") != 0)
            return reason_give(reading->ret_reason, -EBADMSG, "%s: unknown field \"%.40s\"", path, key);

    const char *address = json_string_value(json_object_get(object, "address"));
    const json_t *name = json_object_get(object, "name");
    if (address == NULL || !address_is_valid(address))
        return refuse(reading, path, "not an email address");
    if (name != NULL && !json_is_null(name) && !json_is_string(name))
        return refuse(reading, path, "the name is not a string");
    int error = address_list_append(list, address, json_string_value(name));
    return error == -EBADMSG ? refuse(reading, path, "the name holds a control character") : error;
}

static int read_address_text(struct draft_reading *reading, const char *path, const char *text,
                             struct address_list *list)
{
    int error = address_list_parse(list, text);
    if (error == -EMSGSIZE)
        return draft_refuse_recipients(reading);
    return error == -EBADMSG ? refuse(reading, path, "not an email address") : error;
}

static int read_one_address(struct draft_reading *reading, const char *path, const json_t *value,
                            struct address_list *list)
{
    size_t before = list->len;
    if (json_is_object(value))
        return read_address_object(reading, path, value, list);
    if (!json_is_string(value))
        return refuse(reading, path, "neither a string nor an object with address and name");
    int error = read_address_text(reading, path, json_string_value(value), list);
    return error == 0 && list->len != before + 1 ? refuse(reading, path, "not one email address") : error;
}

/* A string may hold several addresses, like a header; a string in an array holds one. */
static int read_addresses(struct draft_reading *reading, const char *field, const json_t *value,
                          struct address_list *list)
{
    if (json_is_string(value))
        return read_address_text(reading, field, json_string_value(value), list);
    if (json_is_object(value))
        return read_address_object(reading, field, value, list);
    if (!json_is_array(value))
        return refuse(reading, field, "not an array of addresses");

    int error = 0;
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        error = read_one_address(reading, path, json_array_get(value, i), list);
    }
    return error;
}

static int read_from(struct draft_reading *reading, const char *field, const json_t *value)
{
    struct address_list list = {0};
    int error = read_one_address(reading, field, value, &list);
    if (error == 0)
        reading->from = TAKE_PTR(list.items[0].address);
    address_list_release(&list);
    return error;
}

static int read_to(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_addresses(reading, field, value, &reading->to);
}

static int read_cc(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_addresses(reading, field, value, &reading->cc);
}

static int read_bcc(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_addresses(reading, field, value, &reading->bcc);
}

static int read_reply_to(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_addresses(reading, field, value, &reading->reply_to);
}

/* ---- text */

static int read_subject(struct draft_reading *reading, const char *field, const json_t *value)
{
    int error = read_text(reading, field, value, &reading->subject);
    if (error == 0 && !address_name_is_valid(reading->subject))
        error = refuse(reading, field, "holds a control character");
    return error;
}

static int read_plain_text(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_text(reading, field, value, &reading->plain_text);
}

static int read_html(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_text(reading, field, value, &reading->html);
}

static int read_alternative_content(struct draft_reading *reading, const char *field, const json_t *value)
{
    if (!json_is_boolean(value))
        return refuse(reading, field, "neither true nor false");
    reading->alternative_content = json_is_true(value);
    return 0;
}

static int read_existing_email_id(struct draft_reading *reading, const char *field, const json_t *value)
{
    int error = read_text(reading, field, value, &reading->existing_email_id);
    if (error == 0 && reading->existing_email_id[0] == '\0')
        error = refuse(reading, field, "empty");
    return error;
}

static int read_message_type(struct draft_reading *reading, const char *field, const json_t *value)
{
    const char *type = json_string_value(value);
    if (type != NULL && strcmp(type, "new") == 0)
        return 0;
    if (type == NULL || (strcmp(type, "reply") != 0 && strcmp(type, "forward") != 0))
        return refuse(reading, field, "not one of \"new\", \"reply\" and \"forward\"");
    return read_text(reading, field, value, &reading->message_type);
}

/* ---- attachments */

static bool is_id(const char *text)
{
    return text[0] != '\0';
}

static int read_strings(struct draft_reading *reading, const char *field, const json_t *value,
                        bool (*is_right)(const char *text), const char *words, struct string_list *list)
{
    if (!json_is_array(value))
        return refuse(reading, field, "not an array of strings");
    if (json_array_size(value) > ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "%s: more than %d", field, ATTACHMENTS_MAX);

    int error = 0;
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        error =
            text == NULL || !is_right(text) ? refuse(reading, path, words) : string_list_append(list, text);
    }
    return error;
}

static int read_attachments(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_strings(reading, field, value, file_name_is_valid, "not the name of a file in attachments/",
                        &reading->attachment_names);
}

static int read_attachment_ids(struct draft_reading *reading, const char *field, const json_t *value)
{
    return read_strings(reading, field, value, is_id, "not an id", &reading->attachment_ids);
}

static int refuse_idempotency_key(struct draft_reading *reading, const char *field, const json_t *value)
{
    (void)value;
    return refuse(reading, field, "is made by the filesystem, and cannot be given");
}

/* ---- the whole */

static const struct field {
    const char *name;
    int (*read)(struct draft_reading *reading, const char *field, const json_t *value);
} fields[] = {
    {"from_address", read_from},
    {"to_addresses", read_to},
    {"cc_addresses", read_cc},
    {"bcc_addresses", read_bcc},
    {"reply_to_addresses", read_reply_to},
    {"subject", read_subject},
    {"plain_text", read_plain_text},
    {"html", read_html},
    {"alternative_content", read_alternative_content},
    {"existing_email_id", read_existing_email_id},
    {"message_type", read_message_type},
    {"attachments", read_attachments},
    {"attachment_ids", read_attachment_ids},
    {"idempotency_key", refuse_idempotency_key},
};

static int read_field(struct draft_reading *reading, const char *name, const json_t *value)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        return json_is_null(value) ? 0 : fields[i].read(reading, name, value);
    }
    return reason_give(reading->ret_reason, -EBADMSG, "unknown field \"%.40s\"", name);
}

static int check_reply(const struct draft_reading *reading)
{
    if (reading->message_type != NULL && reading->existing_email_id == NULL)
        return refuse(reading, "existing_email_id", "needed for a reply or forward");
    if (reading->message_type == NULL && reading->existing_email_id != NULL)
        return refuse(reading, "existing_email_id", "needs message_type \"reply\" or \"forward\"");
    return 0;
}

int draft_read_json(struct draft_reading *reading, const char *bytes, size_t len)
{
    json_error_t problem;
    _cleanup_json_ json_t *object = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &problem);
    if (object == NULL) {
        bool is_nul = json_error_code(&problem) == json_error_null_character;
        return reason_give(reading->ret_reason, -EBADMSG, "not JSON: line %d, column %d: %s", problem.line,
                           problem.column, is_nul ? "a string holds a NUL character" : problem.text);
    }

    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        int error = read_field(reading, name, value);
        if (error != 0)
            return error;
    }
    return check_reply(reading);
}
