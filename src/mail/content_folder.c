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
#include "mail/date.h"
#include "mail/file_name.h"
#include "mail/html_text.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"
#include "mail/new_text.h"
#include "mail/reply.h"

enum {
    HEAD_MAX_BYTES = 4 * 1024 * 1024,
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
    free(folder->email_id);
    free(folder->message_id);
    *folder = (struct content_folder){.len = 0};
}

/* Adds an entry with the text, which may be cut at its bound. */
static int add_entry(struct content_folder *folder, enum content_kind kind, const char *name, const char *id,
                     struct strbuf *text)
{
    if (text->error == -EMSGSIZE)
        text->error = 0;
    size_t len = 0;
    char *bytes = strbuf_take(text, &len);
    if (bytes == NULL)
        return -ENOMEM;
    struct content_entry *entry = content_folder_add(folder, kind, name, id);
    entry->bytes = g_realloc(bytes, len + 1); /* without the spare room of the buffer */
    entry->len = len;
    return 0;
}

/* Returns the length of the line end at `text`; 0 if there is none. CR CR LF is CRLF that was converted
 * twice. */
static size_t line_end_len(const char *text, size_t len)
{
    if (*text != '\r')
        return *text == '\n' ? 1 : 0;
    if (len > 2 && text[1] == '\r' && text[2] == '\n')
        return 3;
    return len > 1 && text[1] == '\n' ? 2 : 1;
}

/* Appends a stranger's text in a form that is safe for cat(1). CHARACTER_MARK is not replaced, since texts in
 * Hebrew and Arabic need such characters. */
static void append_readable(struct strbuf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const struct character character = character_at(text + i, len - i);
        size_t line_end = line_end_len(text + i, len - i);
        bool is_control = character.kind == CHARACTER_CONTROL && text[i] != '\t';
        if (line_end > 0 || character.kind == CHARACTER_LINE_END)
            strbuf_append_char(out, '\n');
        else if (is_control || character.kind == CHARACTER_DIRECTION)
            strbuf_append_str(out, "\uFFFD");
        else
            strbuf_append(out, text + i, character.len);
        i += line_end > 0 ? line_end : character.len;
    }
}

static int add_text(struct content_folder *folder, const char *name, const json_t *text)
{
    _cleanup_strbuf_ struct strbuf readable = STRBUF_INIT(CONTENT_MAX_BYTES);
    if (!json_is_string(text))
        return 0;
    append_readable(&readable, json_string_value(text), json_string_length(text));
    return add_entry(folder, CONTENT_TEXT, name, "", &readable);
}

static void append_html(struct strbuf *text, const json_t *html)
{
    _cleanup_strbuf_ struct strbuf of_html = STRBUF_INIT(CONTENT_MAX_BYTES);
    int error = html_to_text(&of_html, json_string_value(html), json_string_length(html));
    if (error == -ENOMEM)
        text->error = error;
    append_readable(text, strbuf_str(&of_html), of_html.len);
}

static void end_line(struct strbuf *text)
{
    if (text->len > 0 && text->data[text->len - 1] != '\n')
        strbuf_append_char(text, '\n');
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!g_ascii_isspace(text[i]))
            return false;
    return true;
}

/* Adds new.txt, made of the entry that was added last. */
static int add_new_text(struct content_folder *folder, const json_t *email)
{
    const struct content_entry *body = &folder->entries[folder->len - 1];
    const char *subject = json_value_text(json_object_get(email, "subject"));
    enum reply_mark mark = subject != NULL ? reply_mark_of(subject) : REPLY_MARK_NONE;
    bool is_in_thread = json_is_string(json_object_get(email, "in_reply_to_id")) ||
                        json_array_size(json_object_get(email, "references")) > 0;
    enum new_text_kind kind = mark == REPLY_MARK_FORWARD                 ? NEW_TEXT_OF_FORWARD
                              : mark == REPLY_MARK_REPLY || is_in_thread ? NEW_TEXT_OF_ANSWER
                                                                         : NEW_TEXT_OF_FIRST;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONTENT_MAX_BYTES);
    new_text_append(&text, kind, body->bytes, body->len);
    return add_entry(folder, CONTENT_TEXT, "new.txt", "", &text);
}

/* Adds body.txt and new.txt. */
static int add_body(struct content_folder *folder, const json_t *email)
{
    const json_t *plain = json_object_get(email, "plain_text");
    const json_t *html = json_object_get(email, "html");
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONTENT_MAX_BYTES);
    if (!json_is_string(plain) && !json_is_string(html))
        return 0;
    bool has_plain = !is_blank(json_string_value(plain), json_string_length(plain));
    bool has_other_html = json_is_false(json_object_get(email, "alternative_content"));
    bool needs_html = json_is_string(html) && (!has_plain || has_other_html);
    if (has_plain || !needs_html)
        append_readable(&text, json_string_value(plain), json_string_length(plain));
    end_line(&text);
    if (needs_html)
        append_html(&text, html);
    end_line(&text);
    if (text.len == 0 && json_is_string(html))
        strbuf_append_str(&text, nothing_to_read);
    int error = add_entry(folder, CONTENT_TEXT, "body.txt", "", &text);
    return error != 0 ? error : add_new_text(folder, email);
}

/* Adds the HTML unchanged, for browsers. */
static int add_html(struct content_folder *folder, const json_t *html)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONTENT_MAX_BYTES);
    if (!json_is_string(html))
        return 0;
    strbuf_append(&text, json_string_value(html), json_string_length(html));
    return add_entry(folder, CONTENT_TEXT, "body.html", "", &text);
}

/* Adds the fields that an answer needs, unless they are too long for an answer. */
static int add_head(struct content_folder *folder, const json_t *email)
{
    static const char *const names[] = {"subject", "from_address", "to_addresses", "cc_addresses",
                                        "reply_to_addresses"};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(HEAD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *value = json_object_get(email, names[i]);
        if (value == NULL)
            continue;
        json_key(&writer, names[i]);
        json_write_value(&writer, value);
    }
    json_end_object(&writer);
    return text.error == -EMSGSIZE ? 0 : add_entry(folder, CONTENT_HEAD, "", "", &text);
}

/* Makes the sender's file name safe: replaces slashes, control characters and characters that change the
 * direction of text, and removes leading dots, blanks and dashes (`tar cf x *` would take the name for an
 * option). The caller frees; NULL when out of memory. */
static char *make_attachment_name(const char *filename)
{
    g_autofree char *valid = g_utf8_make_valid(filename != NULL ? filename : "", -1);
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

static size_t bounded_len(const json_t *list, size_t max)
{
    size_t len = json_array_size(list);
    return len < max ? len : max;
}

/* Adds the attachments that have an id. */
static int add_attachments(struct content_folder *folder, const json_t *list)
{
    g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (size_t i = 0; i < bounded_len(list, CONTENT_ATTACHMENTS_MAX); i++) {
        const json_t *attachment = json_array_get(list, i);
        _cleanup_free_ char *id = NULL;
        int error = json_value_read_id(json_object_get(attachment, "id"), &id);
        if (id == NULL && error == 0)
            continue;
        _cleanup_free_ char *name =
            make_attachment_name(json_value_text(json_object_get(attachment, "filename")));
        _cleanup_free_ char *unique = name == NULL ? NULL : make_unique_name(taken, name);
        if (error != 0 || unique == NULL)
            return -ENOMEM;
        content_folder_add(folder, CONTENT_ATTACHMENT, unique, id);
    }
    return 0;
}

static int add_previous_email(struct content_folder *folder, const json_t *email, GHashTable *taken)
{
    const char *date = json_value_text(json_object_get(email, "date"));
    const json_t *prompt = json_object_get(email, "prompt");
    const json_t *text = json_is_string(prompt) ? prompt : json_object_get(email, "plain_text");
    int64_t date_ms = 0;
    bool has_date = date != NULL && date_parse(date, &date_ms) == 0;
    _cleanup_free_ char *id = NULL;
    if (json_value_read_id(json_object_get(email, "id"), &id) != 0)
        return -ENOMEM;
    _cleanup_free_ char *stem = file_name_stem(
        has_date, date_ms, json_value_text(json_object_get(email, "subject")), id != NULL ? id : "");
    g_autofree char *name = g_strdup_printf("%s.%s", stem, json_is_string(prompt) ? "md" : "txt");
    _cleanup_free_ char *unique = make_unique_name(taken, name);
    _cleanup_strbuf_ struct strbuf readable = STRBUF_INIT(CONTENT_MAX_BYTES);
    append_readable(&readable, json_string_value(text), json_string_length(text));
    int error = stem == NULL || unique == NULL
                    ? -ENOMEM
                    : add_entry(folder, CONTENT_PREVIOUS, unique, id != NULL ? id : "", &readable);
    if (error == 0)
        folder->entries[folder->len - 1].date_ms = date_ms;
    return error;
}

static int add_thread(struct content_folder *folder, const json_t *list)
{
    g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    int error = 0;
    for (size_t i = 0; i < bounded_len(list, CONTENT_PREVIOUS_MAX) && error == 0; i++)
        if (json_is_object(json_array_get(list, i)))
            error = add_previous_email(folder, json_array_get(list, i), taken);
    return error;
}

static int add_all(struct content_folder *folder, const json_t *email)
{
    folder->message_id = g_strdup(json_value_text(json_object_get(email, "message_id")));
    int error = json_value_read_id(json_object_get(email, "id"), &folder->email_id);
    if (error == 0)
        error = add_head(folder, email);
    if (error == 0)
        error = add_body(folder, email);
    if (error == 0)
        error = add_html(folder, json_object_get(email, "html"));
    if (error == 0)
        error = add_text(folder, "prompt.md", json_object_get(email, "prompt"));
    if (error == 0)
        error = add_text(folder, "thread.md", json_object_get(email, "thread_prompt"));
    if (error == 0)
        error = add_attachments(folder, json_object_get(email, "attachments"));
    return error != 0 ? error : add_thread(folder, json_object_get(email, "previous_emails"));
}

int content_folder_read(const char *json, size_t len, struct content_folder *ret_folder)
{
    _cleanup_json_ json_t *email = NULL;
    if (len > CONTENT_MAX_BYTES)
        return -EMSGSIZE;
    int error = json_value_read(json, len, 0, &email);
    bool has_content = json_object_get(email, "plain_text") != NULL ||
                       json_object_get(email, "html") != NULL || json_object_get(email, "prompt") != NULL ||
                       json_object_get(email, "attachments") != NULL;
    if (error != 0 || !has_content)
        return error != 0 ? error : -EBADMSG;
    struct content_folder folder = {.len = 0};
    error = add_all(&folder, email);
    if (error != 0)
        content_folder_release(&folder);
    else
        *ret_folder = folder;
    return error;
}
