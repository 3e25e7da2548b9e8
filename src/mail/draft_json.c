/* SPDX-License-Identifier: MIT */
/*
 * The JSON form of a message: the service's send request, also with addresses as strings and attachments by
 * name. All fields and types are checked, since the service would report an error late or not at all.
 */
#include <ctype.h>
#include <errno.h>
#include <glib.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft_reading.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "mail/reason.h"

enum {
    PATH_BYTES = 80 /* size of the path of a value, such as "to_addresses[12].name" */
};

static int refuse(const struct draft_reading *reading, const char *path, const char *words)
{
    return reason_give(reading->ret_reason, -EBADMSG, "%s: %s", path, words);
}

static int read_text_field(struct draft_reading *reading, const char *path, const json_t *value, void *target)
{
    if (!json_is_string(value))
        return refuse(reading, path, "not a string");
    g_free(*(char **)target);
    *(char **)target = g_strdup(json_string_value(value));
    return 0;
}

/* Compares names regardless of case and separators: Reply-To, replyTo and reply_to are equal. */
static bool is_same_field(const char *name, const char *other)
{
    for (;;) {
        name += strspn(name, "_- ");
        other += strspn(other, "_- ");
        if (tolower((unsigned char)*name) != tolower((unsigned char)*other))
            return false;
        if (*name == '\0')
            return true;
        name++;
        other++;
    }
}

/* Refuses an unknown field. `meant` is the name that the user probably means, or NULL. Returns -EBADMSG. */
static int refuse_field(const struct draft_reading *reading, const char *path, const char *name,
                        const char *meant)
{
    if (meant == NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "%sunknown field \"%.40s\"", path, name);
    return reason_give(reading->ret_reason, -EBADMSG, "%sunknown field \"%.40s\": it is called \"%s\" here",
                       path, name, meant);
}

static int read_address_object(struct draft_reading *reading, const char *path, const json_t *object,
                               struct address_list *list)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        char prefix[PATH_BYTES + 2];
        snprintf(prefix, sizeof(prefix), "%s: ", path);
        if (strcmp(key, "address") != 0 && strcmp(key, "name") != 0)
            return refuse_field(reading, prefix, key, is_same_field(key, "email") ? "address" : NULL);
    }

    const char *address = json_string_value(json_object_get(object, "address"));
    const json_t *name = json_object_get(object, "name");
    if (address == NULL || !address_is_valid(address))
        return draft_refuse_address(reading, path, address);
    if (name != NULL && !json_is_null(name) && !json_is_string(name))
        return refuse(reading, path, "the name is not a string");
    return address_list_append(list, address, json_string_value(name)) != 0
               ? refuse(reading, path, "the name holds a control character")
               : 0;
}

static int read_one_address(struct draft_reading *reading, const char *path, const json_t *value,
                            struct address_list *list)
{
    size_t before = list->len;
    if (json_is_object(value))
        return read_address_object(reading, path, value, list);
    if (!json_is_string(value))
        return refuse(reading, path, "neither a string nor an object with address and name");
    int error = draft_read_addresses(reading, path, json_string_value(value), list);
    return error == 0 && list->len != before + 1 ? refuse(reading, path, "not one email address") : error;
}

/* The value may be a string with several addresses, like a header; a string in an array holds one. */
static int read_addresses_field(struct draft_reading *reading, const char *field, const json_t *value,
                                void *target)
{
    struct address_list *list = target;
    draft_begin_list(reading, list);
    if (json_is_string(value))
        return draft_read_addresses(reading, field, json_string_value(value), list);
    if (json_is_object(value))
        return read_address_object(reading, field, value, list);
    if (!json_is_array(value))
        return refuse(reading, field, "not an array of addresses");

    int error = 0;
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++) {
        char path[PATH_BYTES];
        const json_t *one = json_array_get(value, i);
        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        if (reading->is_from_email && json_is_string(one) && list->unusable == NULL)
            list->unusable = g_strdup(json_string_value(one));
        else
            error = read_one_address(reading, path, one, list);
    }
    return error;
}

static int read_from_field(struct draft_reading *reading, const char *field, const json_t *value, void *from)
{
    _cleanup_(address_list_release) struct address_list list = {0};
    int error = read_one_address(reading, field, value, &list);
    if (error != 0 || list.len == 0) /* clang-tidy cannot see that refusals are never 0 */
        return error;
    g_free(*(char **)from);
    *(char **)from = TAKE_PTR(list.items[0].address);
    return 0;
}

static int read_boolean_field(struct draft_reading *reading, const char *field, const json_t *value,
                              void *target)
{
    if (!json_is_boolean(value))
        return refuse(reading, field, "neither true nor false");
    *(bool *)target = json_is_true(value);
    return 0;
}

static int read_message_type_field(struct draft_reading *reading, const char *field, const json_t *value,
                                   void *target)
{
    const char *type = json_string_value(value);
    if (type != NULL && strcmp(type, "new") == 0)
        return 0;
    if (type == NULL || (strcmp(type, "reply") != 0 && strcmp(type, "forward") != 0))
        return refuse(reading, field, "not one of \"new\", \"reply\" and \"forward\"");
    return read_text_field(reading, field, value, target);
}

/* Reads file names into reading->attachment_names, or ids into reading->attachment_ids. */
static int read_attachments_field(struct draft_reading *reading, const char *field, const json_t *value,
                                  void *target)
{
    GPtrArray *list = *(GPtrArray **)target;
    bool has_names = list == reading->attachment_names;
    if (!json_is_array(value))
        return refuse(reading, field, "not an array of strings");
    if (json_array_size(value) > ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "%s: more than %d", field, ATTACHMENTS_MAX);

    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        if (text == NULL || (has_names ? !file_name_is_valid(text) : text[0] == '\0'))
            return refuse(reading, path, has_names ? "not the name of a file in attachments/" : "not an id");
        g_ptr_array_add(list, g_strdup(text));
    }
    return 0;
}

#define AT(member) offsetof(struct draft_reading, member)

static const struct field {
    const char *name;
    const char *other_names; /* in other mail APIs; separated by blanks, and compared by is_same_field() */
    int (*read)(struct draft_reading *reading, const char *field, const json_t *value, void *target);
    size_t target; /* offset in struct draft_reading */
} fields[] = {
    {"from_address", "from sender from_email", read_from_field, AT(from)},
    {"to_addresses", "to recipient recipients to_address", read_addresses_field, AT(to)},
    {"cc_addresses", "cc", read_addresses_field, AT(cc)},
    {"bcc_addresses", "bcc", read_addresses_field, AT(bcc)},
    {"reply_to_addresses", "reply_to", read_addresses_field, AT(reply_to)},
    {"subject", "title", read_text_field, AT(subject)},
    {"plain_text", "body text plain content message body_text text_body", read_text_field, AT(plain_text)},
    {"html", "html_body body_html", read_text_field, AT(html)},
    {"alternative_content", "", read_boolean_field, AT(alternative_content)},
    {"existing_email_id", "in_reply_to", read_text_field, AT(existing_email_id)},
    {"message_type", "", read_message_type_field, AT(message_type)},
    {"attachments", "attachment attach files", read_attachments_field, AT(attachment_names)},
    {"attachment_ids", "", read_attachments_field, AT(attachment_ids)},
};

static const char *find_meant_field(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        g_auto(GStrv) others = g_strsplit(fields[i].other_names, " ", -1);
        bool is_meant = is_same_field(name, fields[i].name);
        for (char **other = others; *other != NULL; other++)
            is_meant = is_meant || is_same_field(name, *other);
        if (is_meant)
            return fields[i].name;
    }
    return NULL;
}

static int read_field(struct draft_reading *reading, const char *name, const json_t *value)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        return json_is_null(value) ? 0
                                   : fields[i].read(reading, name, value, (char *)reading + fields[i].target);
    }
    return refuse_field(reading, "", name, find_meant_field(name));
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
    if (reading->subject != NULL && !address_name_is_valid(reading->subject))
        return refuse(reading, "subject", "holds a control character");
    if (reading->existing_email_id != NULL && reading->existing_email_id[0] == '\0')
        return refuse(reading, "existing_email_id", "empty");
    if (reading->message_type != NULL && reading->existing_email_id == NULL)
        return refuse(reading, "existing_email_id", "needed for a reply or forward");
    if (reading->message_type == NULL && reading->existing_email_id != NULL)
        return refuse(reading, "existing_email_id", "needs message_type \"reply\" or \"forward\"");
    return 0;
}
