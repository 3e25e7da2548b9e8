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
#include "mail/message_id.h"
#include "mail/new_text.h"
#include "mail/reply.h"

enum {
    HEAD_MAX_BYTES = 4 * 1024 * 1024,
    NAME_SPARE_BYTES = 16,                 /* room for a number that makes the name unique */
    PACKED_MAX_BYTES = 1000 * 1000 * 1000, /* more than CONTENT_MAX_BYTES of JSON can become */
    NUMBERS_IN_TURN = 20,                  /* make_unique_name() skips no number below this one */
};

/* The body.txt of an email whose HTML body has no text, such as an email of pictures alone. */
static const char nothing_to_read[] = "(This email has no text; what it shows is in body.html.)\n";

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
    free(folder->entries);
    free(folder->packed);
    free(folder->email_id);
    free(folder->message_id);
    *folder = (struct content_folder){.len = 0};
}

/* ---------------------------------------------------------------- the packed form */

/* Begins an entry, in the machine's byte order. Name, id and text follow it, each with a NUL after it. */
struct packed_head {
    uint64_t kind;
    uint64_t len;
    int64_t date_ms;
};

/* The text may have been cut at its bound. */
static void pack_entry(struct strbuf *packed, enum content_kind kind, const char *name, const char *id,
                       int64_t date_ms, const struct strbuf *text)
{
    const struct packed_head head = {.kind = kind, .len = text->len, .date_ms = date_ms};
    strbuf_append(packed, &head, sizeof(head));
    strbuf_append(packed, name, strlen(name) + 1);
    strbuf_append(packed, id, strlen(id) + 1);
    strbuf_append(packed, strbuf_str(text), text->len + 1);
}

/* Returns the position after the entry at `at`; NULL if the entry is damaged. */
static const char *unpack_entry(const char *at, const char *end, struct content_entry *ret)
{
    struct packed_head head;
    if ((size_t)(end - at) < sizeof(head))
        return NULL;
    memcpy(&head, at, sizeof(head));
    const char *name = at + sizeof(head);
    const char *id = name + strlen(name) + 1;
    const char *bytes = id < end ? id + strlen(id) + 1 : end;
    if (bytes >= end || head.len >= (uint64_t)(end - bytes) || bytes[head.len] != '\0')
        return NULL;
    *ret = (struct content_entry){
        .kind = (enum content_kind)head.kind,
        .name = name,
        .id = id,
        .bytes = bytes,
        .len = head.len,
        .date_ms = head.date_ms,
    };
    return bytes + head.len + 1;
}

int content_folder_unpack(char *packed, size_t len, struct content_folder *ret_folder)
{
    struct content_folder folder = {.packed = packed, .packed_len = len};
    const char *end = packed + len;
    const char *at = packed;
    while (at != NULL && at < end) {
        folder.entries = g_renew(struct content_entry, folder.entries, folder.len + 1);
        at = unpack_entry(at, end, &folder.entries[folder.len++]);
    }
    if (at == NULL) {
        content_folder_release(&folder);
        return -EBADMSG;
    }
    *ret_folder = folder;
    return 0;
}

/* ---------------------------------------------------------------- texts */

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
        size_t plain = json_plain_len(text + i, len - i);
        strbuf_append(out, text + i, plain);
        i += plain;
        if (i == len)
            break;
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

static void pack_readable(struct strbuf *packed, const char *name, const json_t *text)
{
    _cleanup_strbuf_ struct strbuf readable = STRBUF_INIT(CONTENT_MAX_BYTES);
    if (!json_is_string(text))
        return;
    append_readable(&readable, json_string_value(text), json_string_length(text));
    pack_entry(packed, CONTENT_TEXT, name, "", 0, &readable);
}

static void append_html(struct strbuf *text, const json_t *html)
{
    _cleanup_strbuf_ struct strbuf of_html = STRBUF_INIT(CONTENT_MAX_BYTES);
    html_to_text(&of_html, json_string_value(html), json_string_length(html));
    append_readable(text, strbuf_str(&of_html), of_html.len);
}

static void end_line(struct strbuf *text)
{
    if (text->len > 0 && text->data[text->len - 1] != '\n')
        strbuf_append_char(text, '\n');
}

/* Packs new.txt. */
static void pack_new_text(struct strbuf *packed, const json_t *email, const struct strbuf *body)
{
    const char *subject = json_value_text(json_object_get(email, "subject"));
    enum reply_mark mark = subject != NULL ? reply_mark_of(subject) : REPLY_MARK_NONE;
    bool is_in_thread = json_is_string(json_object_get(email, "in_reply_to_id")) ||
                        json_array_size(json_object_get(email, "references")) > 0;
    enum new_text_kind kind = mark == REPLY_MARK_FORWARD                 ? NEW_TEXT_OF_FORWARD
                              : mark == REPLY_MARK_REPLY || is_in_thread ? NEW_TEXT_OF_ANSWER
                                                                         : NEW_TEXT_OF_FIRST;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONTENT_MAX_BYTES);
    new_text_append(&text, kind, strbuf_str(body), body->len);
    pack_entry(packed, CONTENT_TEXT, "new.txt", "", 0, &text);
}

/* Packs body.txt and new.txt. */
static void pack_body(struct strbuf *packed, const json_t *email)
{
    const json_t *plain = json_object_get(email, "plain_text");
    const json_t *html = json_object_get(email, "html");
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONTENT_MAX_BYTES);
    if (!json_is_string(plain) && !json_is_string(html))
        return;
    bool has_plain =
        json_is_string(plain) && strspn(json_string_value(plain), " \t\n\v\f\r") < json_string_length(plain);
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
    pack_entry(packed, CONTENT_TEXT, "body.txt", "", 0, &text);
    pack_new_text(packed, email, &text);
}

/* Packs the HTML unchanged, for browsers. */
static void pack_html(struct strbuf *packed, const json_t *html)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONTENT_MAX_BYTES);
    if (!json_is_string(html))
        return;
    strbuf_append(&text, json_string_value(html), json_string_length(html));
    pack_entry(packed, CONTENT_TEXT, "body.html", "", 0, &text);
}

/* Packs the fields that an answer needs, unless they are too long for an answer. */
static void pack_head(struct strbuf *packed, const json_t *email)
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
    if (text.error != -EMSGSIZE)
        pack_entry(packed, CONTENT_HEAD, "", "", 0, &text);
}

/* ---------------------------------------------------------------- attachments, and the thread */

/* Makes the sender's file name safe: replaces slashes, control characters and characters that change the
 * direction of text, and removes leading dots, blanks and dashes (`tar cf x *` would take the name for an
 * option). The caller frees. */
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
    return name.len == 0 ? g_strdup("attachment")
                         : file_name_shortened(strbuf_str(&name), FILE_NAME_MAX_BYTES - NAME_SPARE_BYTES);
}

/* Returns `name`, with a number if `taken` already has its file_name_fold(), and adds the fold of the result
 * to `taken`. The caller frees. */
static char *make_unique_name(GHashTable *taken, const char *name)
{
    char *unique = g_strdup(name);
    /* Later numbers grow in larger steps, since a sender may give a thousand files the same name. */
    for (unsigned int number = 2; !g_hash_table_add(taken, file_name_fold(unique));
         number += number < NUMBERS_IN_TURN ? 1 : g_hash_table_size(taken)) {
        free(unique);
        unique = file_name_numbered(name, number);
    }
    return unique;
}

/* Packs the attachments that have an id. */
static void pack_attachments(struct strbuf *packed, const json_t *list)
{
    const struct strbuf no_text = STRBUF_INIT(0);
    g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    size_t len = MIN(json_array_size(list), (size_t)CONTENT_ATTACHMENTS_MAX);
    for (size_t i = 0; i < len; i++) {
        const json_t *attachment = json_array_get(list, i);
        _cleanup_free_ char *id = json_value_read_id(json_object_get(attachment, "id"));
        if (id == NULL)
            continue;
        _cleanup_free_ char *name =
            make_attachment_name(json_value_text(json_object_get(attachment, "filename")));
        _cleanup_free_ char *unique = make_unique_name(taken, name);
        pack_entry(packed, CONTENT_ATTACHMENT, unique, id, 0, &no_text);
    }
}

static void pack_previous_email(struct strbuf *packed, const json_t *email, GHashTable *taken)
{
    const char *date = json_value_text(json_object_get(email, "date"));
    const json_t *prompt = json_object_get(email, "prompt");
    const json_t *text = json_is_string(prompt) ? prompt : json_object_get(email, "plain_text");
    int64_t date_ms = 0;
    bool has_date = date != NULL && date_parse(date, &date_ms) == 0;
    _cleanup_free_ char *id = json_value_read_id(json_object_get(email, "id"));
    const char *known_id = id != NULL ? id : "";
    _cleanup_free_ char *stem =
        file_name_stem(has_date, date_ms, json_value_text(json_object_get(email, "subject")), known_id);
    g_autofree char *name = g_strdup_printf("%s.%s", stem, json_is_string(prompt) ? "md" : "txt");
    _cleanup_free_ char *unique = make_unique_name(taken, name);
    _cleanup_strbuf_ struct strbuf readable = STRBUF_INIT(CONTENT_MAX_BYTES);
    append_readable(&readable, json_string_value(text), json_string_length(text));
    pack_entry(packed, CONTENT_PREVIOUS, unique, known_id, date_ms, &readable);
}

static void pack_thread(struct strbuf *packed, const json_t *list)
{
    g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    size_t len = MIN(json_array_size(list), (size_t)CONTENT_PREVIOUS_MAX);
    for (size_t i = 0; i < len; i++)
        if (json_is_object(json_array_get(list, i)))
            pack_previous_email(packed, json_array_get(list, i), taken);
}

/* ---------------------------------------------------------------- the folder */

static int pack_email(const json_t *email, struct content_folder *ret_folder)
{
    _cleanup_strbuf_ struct strbuf packed = STRBUF_INIT(PACKED_MAX_BYTES);
    size_t len;
    pack_head(&packed, email);
    pack_body(&packed, email);
    pack_html(&packed, json_object_get(email, "html"));
    pack_readable(&packed, "prompt.md", json_object_get(email, "prompt"));
    pack_readable(&packed, "thread.md", json_object_get(email, "thread_prompt"));
    pack_attachments(&packed, json_object_get(email, "attachments"));
    pack_thread(&packed, json_object_get(email, "previous_emails"));
    char *bytes = strbuf_take(&packed, &len);
    return bytes == NULL ? -EMSGSIZE : content_folder_unpack(g_realloc(bytes, len + 1), len, ret_folder);
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
    if (error == 0)
        error = has_content ? pack_email(email, ret_folder) : -EBADMSG;
    if (error != 0)
        return error;
    const char *message_id = json_value_text(json_object_get(email, "message_id"));
    if (message_id != NULL)
        ret_folder->message_id = message_id_first(message_id, strlen(message_id));
    ret_folder->email_id = json_value_read_id(json_object_get(email, "id"));
    return 0;
}
