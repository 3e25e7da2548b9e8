/* SPDX-License-Identifier: MIT */
#include "mail/draft_reading.h"

#include <errno.h>
#include <glib.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "mail/reason.h"

enum {
    NOT_CARRIED_MAX = 32, /* lines of words; what is beyond is "and more" */
};

int string_list_append(struct string_list *list, const char *text)
{
    char **items = realloc(list->items, (list->len + 1) * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    list->items = items;
    items[list->len] = strdup(text);
    if (items[list->len] == NULL)
        return -ENOMEM;
    list->len++;
    return 0;
}

void draft_strings_free(char **strings, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free(strings[i]);
    free(strings);
}

void draft_parts_free(struct draft_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free(parts[i].name);
        free(parts[i].content_type);
        free(parts[i].bytes);
    }
    free(parts);
}

int draft_add_part(struct draft_reading *reading, const char *name, const char *content_type, char *bytes,
                   size_t len)
{
    struct draft_part *parts = realloc(reading->parts, (reading->parts_len + 1) * sizeof(*parts));
    if (parts == NULL) {
        free(bytes);
        return -ENOMEM;
    }
    reading->parts = parts;
    struct draft_part *part = &parts[reading->parts_len++];
    *part = (struct draft_part){strdup(name), strdup(content_type), bytes, len};
    return part->name == NULL || part->content_type == NULL ? -ENOMEM : 0;
}

void draft_reading_release(struct draft_reading *reading)
{
    free(reading->from);
    address_list_release(&reading->to);
    address_list_release(&reading->cc);
    address_list_release(&reading->bcc);
    address_list_release(&reading->reply_to);
    free(reading->subject);
    free(reading->plain_text);
    free(reading->html);
    free(reading->existing_email_id);
    free(reading->message_type);
    draft_strings_free(reading->attachment_ids.items, reading->attachment_ids.len);
    draft_strings_free(reading->attachment_names.items, reading->attachment_names.len);
    draft_parts_free(reading->parts, reading->parts_len);
    draft_strings_free(reading->in_reply_to.items, reading->in_reply_to.len);
    draft_strings_free(reading->references.items, reading->references.len);
    draft_strings_free(reading->content_ids.items, reading->content_ids.len);
    draft_strings_free(reading->not_carried.items, reading->not_carried.len);
    mime_texts_release(&reading->texts);
    *reading = (struct draft_reading){.ret_reason = reading->ret_reason};
}

__attribute__((format(printf, 2, 3))) int draft_note_not_carried(struct draft_reading *reading,
                                                                 const char *format, ...)
{
    struct string_list *list = &reading->not_carried;
    if (list->len > NOT_CARRIED_MAX)
        return 0;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *words = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < list->len; i++)
        if (strcasecmp(list->items[i], words) == 0)
            return 0;
    return string_list_append(list, list->len == NOT_CARRIED_MAX ? "and more" : words);
}

int draft_refuse_recipients(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d recipients", DRAFT_RECIPIENTS_MAX);
}

size_t draft_blank_len(const char *bytes, size_t len)
{
    size_t blank = 0;
    while (blank < len && strchr(" \t\r\n", bytes[blank]) != NULL)
        blank++;
    return blank;
}

int draft_refuse_address(const struct draft_reading *reading, const char *path, const char *address)
{
    if (address == NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address", path);
    return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address: \"%.80s\"", path, address);
}

/* "Smith, John <j@x.example>": without quotes, the comma ends the item. */
static bool is_half_a_name(const char *text, const char *refused)
{
    const char *behind = strstr(text, refused); /* NULL: it was folded */
    if (behind == NULL || strchr(refused, '@') != NULL)
        return false;
    behind += strlen(refused);
    behind += strspn(behind, " \t\r\n");
    return *behind == ',' && behind[1 + strcspn(behind + 1, "<,@")] == '<';
}

int draft_read_addresses(struct draft_reading *reading, const char *path, const char *text,
                         struct address_list *list)
{
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse(list, text, &refused);
    if (error == -EMSGSIZE)
        return draft_refuse_recipients(reading);
    if (error == -EBADMSG && refused != NULL && is_half_a_name(text, refused))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "%s: not an email address: \"%.80s\"; a name with a comma needs quotes", path,
                           refused);
    return error == -EBADMSG ? draft_refuse_address(reading, path, refused) : error;
}

void draft_note_given(struct draft_reading *reading, const struct address_list *list)
{
    reading->says_to = reading->says_to || list == &reading->to;
    reading->says_cc = reading->says_cc || list == &reading->cc;
}
