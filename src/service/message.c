/* SPDX-License-Identifier: MIT */
/*
 * A message's values: what the service keeps and shows of it beside its text.
 */
#include "service/message.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "mail/email_record.h"
#include "mail/html_text.h"

void message_release(struct message *message)
{
    free(message->message_id);
    free(message->in_reply_to);
    json_decref(message->references);
    json_decref(message->from);
    json_decref(message->to);
    json_decref(message->cc);
    json_decref(message->bcc);
    json_decref(message->reply_to);
    free(message->subject);
    free(message->plain_text);
    free(message->html);
    for (size_t i = 0; i < message->attachments_len; i++) {
        free(message->attachments[i].name);
        free(message->attachments[i].content_type);
        free(message->attachments[i].bytes);
    }
    free(message->attachments);
    free(message->forwarded);
    *message = (struct message){0};
}

int message_name(struct message *message, const char *domain)
{
    char id[37];
    int error = random_uuid(id);
    if (error != 0)
        return error;
    return asprintf(&message->message_id, "<%s@%s>", id, domain) < 0 ? -ENOMEM : 0;
}

static json_t *attachment_records(const struct message *message)
{
    json_t *list = json_array();
    for (size_t i = 0; i < message->attachments_len; i++) {
        const struct message_attachment *attachment = &message->attachments[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:n}", "id", attachment->id, "filename",
                                              attachment->name, "content_type", attachment->content_type,
                                              "content_encoding", "base64", "content_id"));
    }
    if (message->forwarded != NULL)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:n, s:n}", "id", message->forwarded_id,
                                              "filename", "forwarded.eml", "content_type", "message/rfc822",
                                              "content_encoding", "content_id"));
    return list;
}

json_t *message_header(const struct message *message)
{
    char date[32];
    date_format(message->date_ms, date);
    return json_pack("{s:s, s:s, s:O, s:O, s:O, s:O, s:s, s:s?, s:O?, s:b, s:o}", "subject", message->subject,
                     "date", date, "from_address", message->from, "to_addresses", message->to, "cc_addresses",
                     message->cc, "reply_to_addresses", message->reply_to, "message_id", message->message_id,
                     "in_reply_to_id", message->in_reply_to, "references", message->references,
                     "alternative_content", message->alternative_content, "attachments",
                     attachment_records(message));
}

char *message_fold(const char *text)
{
    char *folded = g_utf8_casefold(text, -1);
    char *copy = strdup(folded);
    g_free(folded);
    return copy;
}

char *message_search_text(const struct message *message)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
    strbuf_append_str(&text, message->subject);
    for (size_t i = 0; i < message->attachments_len; i++) {
        strbuf_append_char(&text, '\n');
        strbuf_append_str(&text, message->attachments[i].name);
    }
    if (message->plain_text != NULL) {
        strbuf_append_char(&text, '\n');
        strbuf_append_str(&text, message->plain_text);
    }
    if (message->html != NULL) {
        strbuf_append_char(&text, '\n');
        html_to_text(&text, message->html, strlen(message->html));
    }
    return text.error == 0 ? message_fold(strbuf_str(&text)) : NULL;
}
