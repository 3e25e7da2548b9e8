/* SPDX-License-Identifier: MIT */
/*
 * Reads content with jansson, field by field. A field of another type than the published one counts as
 * missing. Each list is bounded.
 */
#include "mail/email_content.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/date.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

/* Reads a string without NULs, such as a name. */
static int read_string(const json_t *value, void *target)
{
    *(char **)target = g_strdup(json_value_text(value));
    return 0;
}

static int read_id(const json_t *value, void *target)
{
    return json_value_read_id(value, target);
}

static int read_text(const json_t *value, void *target)
{
    struct email_text *ret = target;
    if (!json_is_string(value))
        return 0;
    size_t len = json_string_length(value);
    char *bytes = malloc(len + 1);
    if (bytes == NULL)
        return -ENOMEM;
    memcpy(bytes, json_string_value(value), len + 1);
    *ret = (struct email_text){.bytes = bytes, .len = len};
    return 0;
}

/* Keeps the first unusable text, for an error message. U+FFFD marks a cut: no address may contain it, so the
 * cut text cannot be read as an address later. */
static void note_unusable(const char *text, size_t len, struct address_list *list)
{
    enum {
        MAX_BYTES = 1000
    };
    size_t kept = strnlen(text, len < MAX_BYTES ? len : MAX_BYTES);
    g_autofree char *valid = g_utf8_make_valid(text, (gssize)kept);
    if (list->unusable == NULL)
        list->unusable = g_strconcat(valid, kept < len ? "\uFFFD" : "", NULL);
}

static int add_address(const json_t *value, struct address_list *list)
{
    const json_t *address = json_is_object(value) ? json_object_get(value, "address") : value;
    const char *text = json_string_value(address);
    const char *name = json_string_value(json_object_get(value, "name"));
    size_t len = json_string_length(address);
    if (text == NULL)
        return 0;
    bool has_nul = strlen(text) != len;
    if (!has_nul && address_is_valid(text))
        return address_list_append(list, text, name != NULL && address_name_is_valid(name) ? name : NULL);

    /* Some services send the text of the header: "Bob <bob@x.example>", "undisclosed-recipients:;". */
    int error = has_nul ? -EBADMSG : address_list_parse(list, text, NULL, NULL);
    if (error != -EBADMSG && error != -EMSGSIZE)
        return error;
    note_unusable(text, len, list);
    return 0;
}

/* The value is one address or an array of them. */
static int read_addresses(const json_t *value, void *target)
{
    struct address_list *list = target;
    if (!json_is_array(value))
        return value != NULL ? add_address(value, list) : 0;
    int error = 0;
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++)
        error = add_address(json_array_get(value, i), list);
    return error;
}

static size_t bounded_len(const json_t *list, size_t max)
{
    size_t len = json_is_array(list) ? json_array_size(list) : 0;
    return len < max ? len : max;
}

static int read_attachments(const json_t *object, struct email_content *content)
{
    const json_t *list = json_object_get(object, "attachments");
    size_t len = bounded_len(list, EMAIL_CONTENT_ATTACHMENTS_MAX);
    content->attachments = g_new0(struct email_attachment, len);
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++) {
        const json_t *item = json_array_get(list, i);
        struct email_attachment *attachment = &content->attachments[content->attachments_len];
        error = read_id(json_object_get(item, "id"), &attachment->id);
        if (attachment->id == NULL)
            continue;
        content->attachments_len++;
        error = read_string(json_object_get(item, "filename"), &attachment->filename);
    }
    return error;
}

/* `target` is the offset of the field in struct email_content. */
static const struct field {
    const char *key;
    int (*read)(const json_t *value, void *target);
    size_t target;
} fields[] = {
    {"id", read_id, offsetof(struct email_content, id)},
    {"subject", read_string, offsetof(struct email_content, subject)},
    {"from_address", read_addresses, offsetof(struct email_content, from)},
    {"to_addresses", read_addresses, offsetof(struct email_content, to)},
    {"cc_addresses", read_addresses, offsetof(struct email_content, cc)},
    {"reply_to_addresses", read_addresses, offsetof(struct email_content, reply_to)},
    {"message_id", read_string, offsetof(struct email_content, message_id)},
    {"prompt", read_text, offsetof(struct email_content, prompt)},
    {"thread_prompt", read_text, offsetof(struct email_content, thread_prompt)},
    {"plain_text", read_text, offsetof(struct email_content, plain_text)},
    {"html", read_text, offsetof(struct email_content, html)},
};

static int read_email(const json_t *object, struct email_content *content)
{
    const char *date = json_string_value(json_object_get(object, "date"));
    content->has_date = date != NULL && date_parse(date, &content->date_ms) == 0;
    content->alternative_content = !json_is_false(json_object_get(object, "alternative_content"));
    content->is_in_thread = json_is_string(json_object_get(object, "in_reply_to_id")) ||
                            json_array_size(json_object_get(object, "references")) > 0;
    int error = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields) && error == 0; i++)
        error = fields[i].read(json_object_get(object, fields[i].key), (char *)content + fields[i].target);
    return error != 0 ? error : read_attachments(object, content);
}

static int read_previous(const json_t *object, struct email_content *content)
{
    const json_t *list = json_object_get(object, "previous_emails");
    size_t len = bounded_len(list, EMAIL_CONTENT_PREVIOUS_MAX);
    content->previous_emails = g_new0(struct email_content, len);
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++) {
        const json_t *previous = json_array_get(list, i);
        if (json_is_object(previous))
            error = read_email(previous, &content->previous_emails[content->previous_emails_len++]);
    }
    return error;
}

int email_content_from_text(const char *text, size_t len, struct email_content *ret_content)
{
    if (len > EMAIL_CONTENT_MAX_BYTES)
        return -EMSGSIZE;
    _cleanup_json_ json_t *object = NULL;
    int error = json_value_read(text, len, 0, &object);
    bool has_content = json_object_get(object, "plain_text") != NULL ||
                       json_object_get(object, "html") != NULL || json_object_get(object, "prompt") != NULL ||
                       json_object_get(object, "attachments") != NULL;
    if (error == 0 && !has_content)
        error = -EBADMSG;
    struct email_content content = {0};
    if (error == 0)
        error = read_email(object, &content);
    if (error == 0)
        error = read_previous(object, &content);
    if (error != 0) {
        email_content_release(&content);
        return error;
    }
    *ret_content = content;
    return 0;
}

/* Releases all fields but previous_emails, which a previous email does not have. */
static void release_email(struct email_content *content)
{
    free(content->id);
    free(content->subject);
    address_list_release(&content->from);
    address_list_release(&content->to);
    address_list_release(&content->cc);
    address_list_release(&content->reply_to);
    free(content->message_id);
    free(content->prompt.bytes);
    free(content->thread_prompt.bytes);
    free(content->plain_text.bytes);
    free(content->html.bytes);
    for (size_t i = 0; i < content->attachments_len; i++) {
        free(content->attachments[i].id);
        free(content->attachments[i].filename);
    }
    free(content->attachments);
}

void email_content_release(struct email_content *content)
{
    for (size_t i = 0; i < content->previous_emails_len; i++)
        release_email(&content->previous_emails[i]);
    free(content->previous_emails);
    release_email(content);
    *content = (struct email_content){0};
}
