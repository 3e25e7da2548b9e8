/* SPDX-License-Identifier: MIT */
/*
 * Prompts. What senders wrote into header fields stays on its line, so that it cannot pass for another field.
 */
#include "service/prompt.h"

#include <stdbool.h>
#include <string.h>

#include "mail/html_text.h"

static void append_address(struct strbuf *out, const json_t *address)
{
    const char *name = json_string_value(json_object_get(address, "name"));
    const char *text = json_string_value(json_object_get(address, "address"));
    if (name != NULL && name[0] != '\0')
        strbuf_appendf(out, "%s <%s>", name, text);
    else
        strbuf_append_str(out, text);
}

static void append_addresses(struct strbuf *out, const char *label, const json_t *list)
{
    if (json_array_size(list) == 0)
        return;
    strbuf_appendf(out, "- **%s:** ", label);
    size_t i;
    const json_t *address;
    json_array_foreach (list, i, address) {
        if (i > 0)
            strbuf_append_str(out, ", ");
        append_address(out, address);
    }
    strbuf_append_char(out, '\n');
}

static void append_attachments(struct strbuf *out, const json_t *list)
{
    if (json_array_size(list) == 0)
        return;
    strbuf_append_str(out, "- **Attachments:** ");
    size_t i;
    const json_t *attachment;
    json_array_foreach (list, i, attachment)
        strbuf_appendf(out, "%s%s (%s)", i > 0 ? ", " : "",
                       json_string_value(json_object_get(attachment, "filename")),
                       json_string_value(json_object_get(attachment, "content_type")));
    strbuf_append_char(out, '\n');
}

static void append_body(struct strbuf *out, const json_t *record)
{
    const char *plain = json_string_value(json_object_get(record, "plain_text"));
    const char *html = json_string_value(json_object_get(record, "html"));
    bool is_alternative = json_is_true(json_object_get(record, "alternative_content"));
    if (plain != NULL)
        strbuf_append_str(out, plain);
    if (html != NULL && (plain == NULL || !is_alternative)) {
        if (plain != NULL)
            strbuf_append_str(out, "\n\n");
        html_to_text(out, html, strlen(html));
    }
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        strbuf_append_char(out, '\n');
}

int prompt_append_email(struct strbuf *out, const json_t *record, unsigned int level)
{
    const char *subject = json_string_value(json_object_get(record, "subject"));
    strbuf_appendf(out, "%.*s %s\n\n", (int)level, "######", subject[0] != '\0' ? subject : "(no subject)");
    strbuf_append_str(out, "- **From:** ");
    append_address(out, json_object_get(record, "from_address"));
    strbuf_append_char(out, '\n');
    append_addresses(out, "To", json_object_get(record, "to_addresses"));
    append_addresses(out, "Cc", json_object_get(record, "cc_addresses"));
    append_addresses(out, "Bcc", json_object_get(record, "bcc_addresses"));
    append_addresses(out, "Reply-To", json_object_get(record, "reply_to_addresses"));
    strbuf_appendf(out, "- **Date:** %s\n", json_string_value(json_object_get(record, "date")));
    append_attachments(out, json_object_get(record, "attachments"));
    strbuf_append_char(out, '\n');
    append_body(out, record);
    return out->error;
}

int prompt_append_thread(struct strbuf *out, const json_t *previous, const json_t *content_record)
{
    size_t count = json_array_size(previous) + 1;
    strbuf_appendf(out, "# Thread of %zu email%s\n", count, count == 1 ? "" : "s");
    size_t i;
    const json_t *record;
    json_array_foreach (previous, i, record) {
        strbuf_append_char(out, '\n');
        prompt_append_email(out, record, 2);
    }
    strbuf_append_char(out, '\n');
    return prompt_append_email(out, content_record, 2);
}
