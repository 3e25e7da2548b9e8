/* SPDX-License-Identifier: MIT */
/*
 * Makes the files of an email's folder: texts without characters that a terminal obeys, a plain body if the
 * email has only HTML, safe and unique names for attachments and for earlier emails of the thread.
 */
#include "mail/content_folder.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/html_text.h"
#include "mail/json_writer.h"
#include "mail/new_text.h"
#include "mail/reply.h"

enum {
    HEAD_MAX_BYTES = 4 * 1024 * 1024,
    TEXT_MAX_BYTES = EMAIL_CONTENT_MAX_BYTES,
    NAME_SPARE_BYTES = 16, /* room for a number that makes the name unique */
    NUMBERS_IN_TURN = 20,  /* make_unique_name() skips no number below this one */
};

/* The body.txt of an email whose HTML body has no text, such as an email of pictures alone. */
static const char nothing_to_read[] = "(This email has no text; what it shows is in body.html.)\n";

struct content_entry *content_folder_add(struct content_folder *folder, enum content_kind kind,
                                         const char *name, const char *id)
{
    folder->entries = g_renew(struct content_entry, folder->entries, folder->len + 1);
    struct content_entry *entry = &folder->entries[folder->len++];
    *entry = (struct content_entry){.kind = kind, .name = g_strdup(name), .id = g_strdup(id)};
    return entry;
}

const struct content_entry *content_folder_find(const struct content_folder *folder, enum content_kind kind,
                                                const char *name)
{
    for (size_t i = 0; i < folder->len; i++)
        if (folder->entries[i].kind == kind && strcmp(folder->entries[i].name, name) == 0)
            return &folder->entries[i];
    return NULL;
}

void content_folder_release(struct content_folder *folder)
{
    for (size_t i = 0; i < folder->len; i++) {
        free(folder->entries[i].name);
        free(folder->entries[i].id);
        free(folder->entries[i].bytes);
    }
    free(folder->entries);
    *folder = (struct content_folder){.len = 0};
}

static int add_bytes(struct content_folder *folder, enum content_kind kind, const char *name, const char *id,
                     const char *bytes, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    struct content_entry *entry = content_folder_add(folder, kind, name, id);
    entry->bytes = copy;
    entry->len = len;
    return 0;
}

static const char control_shown[] = "\xef\xbf\xbd";

/* Returns the text that replaces the first character, or NULL if the character is shown unchanged. Line ends
 * become LF. CHARACTER_MARK is not replaced, since texts in Hebrew and Arabic need such characters. */
static const char *find_replacement(const char *text, size_t len, size_t *ret_character_len)
{
    const struct character character = character_at(text, len);
    *ret_character_len = character.len;
    if (*text == '\t' || *text == '\n')
        return NULL;
    if (*text == '\r') {
        bool is_crlf = len > 1 && text[1] == '\n';
        bool is_doubled = len > 2 && text[1] == '\r' && text[2] == '\n'; /* CRLF that was converted twice */
        return is_crlf || is_doubled ? "" : "\n";
    }
    if (character.kind == CHARACTER_LINE_END)
        return "\n";
    bool is_obeyed = character.kind == CHARACTER_CONTROL || character.kind == CHARACTER_DIRECTION;
    return is_obeyed ? control_shown : NULL;
}

/* Appends a stranger's text in a form that is safe for cat(1). */
static int append_readable(struct strbuf *out, const char *text, size_t len)
{
    size_t start = 0;
    size_t character_len;
    for (size_t i = 0; i < len; i += character_len) {
        const char *shown = find_replacement(text + i, len - i, &character_len);
        if (shown != NULL) {
            strbuf_append(out, text + start, i - start);
            strbuf_append_str(out, shown);
            start = i + character_len;
        }
    }
    return strbuf_append(out, text + start, len - start);
}

static int add_readable(struct content_folder *folder, enum content_kind kind, const char *name,
                        const char *id, const struct email_text *text)
{
    _cleanup_strbuf_ struct strbuf readable = STRBUF_INIT(TEXT_MAX_BYTES);
    int error = text->bytes == NULL ? 0 : append_readable(&readable, text->bytes, text->len);
    if (error != 0 && error != -EMSGSIZE)
        return error;
    return add_bytes(folder, kind, name, id, strbuf_str(&readable), readable.len);
}

static int add_text(struct content_folder *folder, const char *name, const struct email_text *text)
{
    return text->bytes == NULL ? 0 : add_readable(folder, CONTENT_TEXT, name, "", text);
}

/* Appends the text of the HTML on a new line. */
static int append_html(struct strbuf *text, const struct email_text *html)
{
    _cleanup_strbuf_ struct strbuf of_html = STRBUF_INIT(TEXT_MAX_BYTES);
    int error = html_to_text(&of_html, html->bytes, html->len);
    if (error != 0 && error != -EMSGSIZE)
        return error;
    if (text->len > 0 && text->data[text->len - 1] != '\n')
        strbuf_append_char(text, '\n');
    return of_html.len > 0 ? append_readable(text, of_html.data, of_html.len) : 0;
}

static int add_body(struct content_folder *folder, const struct email_content *content)
{
    const struct email_text *plain = &content->plain_text;
    const struct email_text *html = &content->html;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX_BYTES);
    if (html->bytes == NULL && plain->bytes == NULL)
        return 0;
    bool is_plain_blank = true;
    for (size_t i = 0; i < plain->len && is_plain_blank; i++)
        is_plain_blank = g_ascii_isspace(plain->bytes[i]);
    bool needs_html = html->bytes != NULL && (is_plain_blank || !content->alternative_content);
    int error = is_plain_blank && needs_html ? 0 : append_readable(&text, plain->bytes, plain->len);
    if (error == 0 && needs_html)
        error = append_html(&text, html);
    if (error != 0 && error != -EMSGSIZE)
        return error;
    if (text.len == 0 && html->bytes != NULL)
        strbuf_append_str(&text, nothing_to_read);
    if (text.len > 0 && text.data[text.len - 1] != '\n')
        strbuf_append_char(&text, '\n');
    return add_bytes(folder, CONTENT_TEXT, "body.txt", "", strbuf_str(&text), text.len);
}

static int add_new_text(struct content_folder *folder, const struct email_content *content)
{
    const struct content_entry *body = content_folder_find(folder, CONTENT_TEXT, "body.txt");
    if (body == NULL)
        return 0;
    enum reply_mark mark = content->subject != NULL ? reply_mark_of(content->subject) : REPLY_MARK_NONE;
    enum new_text_kind kind = mark == REPLY_MARK_FORWARD                          ? NEW_TEXT_OF_FORWARD
                              : mark == REPLY_MARK_REPLY || content->is_in_thread ? NEW_TEXT_OF_ANSWER
                                                                                  : NEW_TEXT_OF_FIRST;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX_BYTES);
    int error = new_text_append(&text, kind, body->bytes, body->len);
    if (error != 0 && error != -EMSGSIZE)
        return error;
    return add_bytes(folder, CONTENT_TEXT, "new.txt", "", strbuf_str(&text), text.len);
}

/* Adds the fields that an answer needs, and plain_text, without which email_content_from_text() fails. */
static int add_head(struct content_folder *folder, const struct email_content *content)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(HEAD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    json_member_string(&writer, "subject", content->subject);
    address_list_write(&content->from, &writer, "from_address");
    address_list_write(&content->to, &writer, "to_addresses");
    address_list_write(&content->cc, &writer, "cc_addresses");
    address_list_write(&content->reply_to, &writer, "reply_to_addresses");
    json_member_string(&writer, "plain_text", NULL);
    json_end_object(&writer);
    if (text.error == -EMSGSIZE)
        return 0; /* too many recipients for an answer */
    return text.error != 0 ? text.error : add_bytes(folder, CONTENT_HEAD, "", "", text.data, text.len);
}

/* Makes the sender's file name safe: replaces slashes, control characters and characters that change the
 * direction of text, and removes leading dots, blanks and dashes (`tar cf x *` would take the name for an
 * option). The caller frees; NULL when out of memory. */
static char *make_attachment_name(const struct email_attachment *attachment)
{
    g_autofree char *valid = g_utf8_make_valid(attachment->filename != NULL ? attachment->filename : "", -1);
    _cleanup_strbuf_ struct strbuf name = STRBUF_INIT(strlen(valid));
    for (const char *c = valid + strspn(valid, ".- "); *c != '\0'; c = g_utf8_next_char(c)) {
        gunichar character = g_utf8_get_char(c);
        GUnicodeType type = g_unichar_type(character);
        bool is_bad = character == '/' || type == G_UNICODE_CONTROL || type == G_UNICODE_FORMAT ||
                      type == G_UNICODE_LINE_SEPARATOR || type == G_UNICODE_PARAGRAPH_SEPARATOR;
        strbuf_append(&name, is_bad ? "_" : c, is_bad ? 1 : (size_t)(g_utf8_next_char(c) - c));
    }
    return name.len == 0 ? strdup("attachment")
                         : file_name_shortened(strbuf_str(&name), FILE_NAME_MAX_BYTES - NAME_SPARE_BYTES);
}

/* Returns `name`, with a number if `taken` already has its file_name_fold(), and adds the fold of the result
 * to `taken`. The caller frees; NULL when out of memory. */
static char *make_unique_name(GHashTable *taken, const char *name)
{
    char *unique = strdup(name);
    /* Later numbers grow in larger steps, since a sender may give a thousand files the same name. */
    for (unsigned int number = 2; unique != NULL && !g_hash_table_add(taken, file_name_fold(unique));
         number += number < NUMBERS_IN_TURN ? 1 : g_hash_table_size(taken)) {
        free(unique);
        unique = file_name_numbered(name, number);
    }
    return unique;
}

static int add_attachments(struct content_folder *folder, const struct email_content *content)
{
    g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (size_t i = 0; i < content->attachments_len; i++) {
        const struct email_attachment *attachment = &content->attachments[i];
        _cleanup_free_ char *name = make_attachment_name(attachment);
        _cleanup_free_ char *unique = name == NULL ? NULL : make_unique_name(taken, name);
        if (unique == NULL)
            return -ENOMEM;
        content_folder_add(folder, CONTENT_ATTACHMENT, unique, attachment->id);
    }
    return 0;
}

static int add_thread(struct content_folder *folder, const struct email_content *content)
{
    g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (size_t i = 0; i < content->previous_emails_len; i++) {
        const struct email_content *email = &content->previous_emails[i];
        const char *id = email->id != NULL ? email->id : "";
        bool has_prompt = email->prompt.bytes != NULL;
        _cleanup_free_ char *stem = file_name_stem(email->has_date, email->date_ms, email->subject, id);
        _cleanup_free_ char *name = NULL;
        if (stem == NULL || asprintf(&name, "%s.%s", stem, has_prompt ? "md" : "txt") < 0)
            return -ENOMEM;
        _cleanup_free_ char *unique = make_unique_name(taken, name);
        int error = unique == NULL ? -ENOMEM
                                   : add_readable(folder, CONTENT_PREVIOUS, unique, id,
                                                  has_prompt ? &email->prompt : &email->plain_text);
        if (error != 0)
            return error;
        folder->entries[folder->len - 1].date_ms = email->has_date ? email->date_ms : 0;
    }
    return 0;
}

int content_folder_from_content(const struct email_content *content, struct content_folder *ret_folder)
{
    struct content_folder folder = {.len = 0};
    int error = add_head(&folder, content);
    if (error == 0)
        error = add_body(&folder, content);
    if (error == 0)
        error = add_new_text(&folder, content);
    if (error == 0 && content->html.bytes != NULL) /* unchanged, for browsers */
        error = add_bytes(&folder, CONTENT_TEXT, "body.html", "", content->html.bytes, content->html.len);
    if (error == 0)
        error = add_text(&folder, "prompt.md", &content->prompt);
    if (error == 0)
        error = add_text(&folder, "thread.md", &content->thread_prompt);
    if (error == 0)
        error = add_attachments(&folder, content);
    if (error == 0)
        error = add_thread(&folder, content);
    if (error != 0) {
        content_folder_release(&folder);
        return error;
    }
    *ret_folder = folder;
    return 0;
}
