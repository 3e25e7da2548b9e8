/* SPDX-License-Identifier: MIT */
/*
 * Functions for reading both forms of a draft: reasons for refusals, lists of recipients, and notes.
 */
#include "mail/draft_reading.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/reason.h"

void draft_parts_free(struct draft_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free(parts[i].name);
        free(parts[i].content_type);
        free(parts[i].content_id);
        free(parts[i].bytes);
    }
    g_free(parts);
}

void draft_reading_init(struct draft_reading *reading, char **ret_reason)
{
    *reading = (struct draft_reading){
        .attachment_ids = g_ptr_array_new_null_terminated(0, g_free, true),
        .attachment_names = g_ptr_array_new_null_terminated(0, g_free, true),
        .in_reply_to = g_ptr_array_new_null_terminated(0, g_free, true),
        .references = g_ptr_array_new_null_terminated(0, g_free, true),
        .not_carried = g_ptr_array_new_null_terminated(0, g_free, true),
        .parts = g_array_new(false, false, sizeof(struct draft_part)),
        .ret_reason = ret_reason,
    };
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
    g_ptr_array_unref(reading->attachment_ids);
    g_ptr_array_unref(reading->attachment_names);
    g_ptr_array_unref(reading->in_reply_to);
    g_ptr_array_unref(reading->references);
    g_ptr_array_unref(reading->not_carried);
    size_t parts_len = reading->parts->len;
    draft_parts_free((struct draft_part *)(void *)g_array_free(reading->parts, false), parts_len);
    mime_texts_release(&reading->texts);
}

int draft_refuse_recipients(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d recipients", DRAFT_RECIPIENTS_MAX);
}

int draft_refuse_address(const struct draft_reading *reading, const char *path, const char *address)
{
    if (address == NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address", path);
    return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address: \"%.80s\"", path, address);
}

/* Returns true if `refused` is the beginning of a name whose comma lacks quotes: "Smith" in "Smith, John
 * <j@x.example>". */
static bool has_unquoted_comma(const char *text, const char *refused)
{
    const char *after = strstr(text, refused); /* NULL if the item was folded */
    if (after == NULL || strchr(refused, '@') != NULL)
        return false;
    after += strlen(refused);
    after += strspn(after, " \t\r\n");
    return *after == ',' && after[1 + strcspn(after + 1, "<,@")] == '<';
}

int draft_read_addresses(struct draft_reading *reading, const char *path, const char *text,
                         struct address_list *list)
{
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse(list, text, NULL, &refused);
    if (error == -EMSGSIZE)
        return draft_refuse_recipients(reading);
    if (error == -EBADMSG && refused != NULL && has_unquoted_comma(text, refused))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "%s: not an email address: \"%.80s\"; a name with a comma needs quotes", path,
                           refused);
    return error == -EBADMSG ? draft_refuse_address(reading, path, refused) : error;
}

void draft_note_list_given(struct draft_reading *reading, const struct address_list *list)
{
    reading->has_to = reading->has_to || list == &reading->to;
    reading->has_cc = reading->has_cc || list == &reading->cc;
}
