/* SPDX-License-Identifier: MIT */
/*
 * Reads the addresses of an email as services write them: as objects, as texts, or as texts of headers.
 */
#include "mail/email_head.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "mail/json_value.h"

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

static void add_address(const json_t *value, struct address_list *list)
{
    const json_t *address = json_is_object(value) ? json_object_get(value, "address") : value;
    const char *text = json_string_value(address);
    const char *name = json_string_value(json_object_get(value, "name"));
    size_t len = json_string_length(address);
    if (text == NULL)
        return;
    bool has_nul = strlen(text) != len;
    /* Some services send the text of the header: "Bob <bob@x.example>", "undisclosed-recipients:;". */
    if (!has_nul && address_is_valid(text))
        address_list_append(list, text, name != NULL && address_name_is_valid(name) ? name : NULL);
    else if (has_nul || address_list_parse(list, text, NULL, NULL) != 0)
        note_unusable(text, len, list);
}

/* The value is one address or an array of them. */
static void read_addresses(const json_t *value, struct address_list *list)
{
    if (!json_is_array(value))
        add_address(value, list);
    for (size_t i = 0; i < json_array_size(value); i++)
        add_address(json_array_get(value, i), list);
}

int email_head_read(const char *json, size_t len, struct email_head *ret_head)
{
    _cleanup_json_ json_t *object = NULL;
    int error = json_value_read(json, len, 0, &object);
    if (error != 0 || !json_is_object(object))
        return error != 0 ? error : -EBADMSG;
    *ret_head = (struct email_head){.subject = g_strdup(json_value_text(json_object_get(object, "subject")))};
    read_addresses(json_object_get(object, "from_address"), &ret_head->from);
    read_addresses(json_object_get(object, "to_addresses"), &ret_head->to);
    read_addresses(json_object_get(object, "cc_addresses"), &ret_head->cc);
    read_addresses(json_object_get(object, "reply_to_addresses"), &ret_head->reply_to);
    return 0;
}

void email_head_release(struct email_head *head)
{
    g_free(head->subject);
    address_list_release(&head->from);
    address_list_release(&head->to);
    address_list_release(&head->cc);
    address_list_release(&head->reply_to);
    *head = (struct email_head){0};
}
