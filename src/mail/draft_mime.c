/* SPDX-License-Identifier: MIT */
/*
 * Reads the RFC 5322 form of a message: checks its header section against the grammar, then reads its parts.
 */
#include <errno.h>
#include <glib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/draft_reading.h"
#include "mail/file_name.h"
#include "mail/header_text.h"
#include "mail/message_id.h"
#include "mail/reason.h"

enum {
    NOT_CARRIED_MAX = 32, /* descriptions that are kept; one more says "and more" */
};

static gboolean has_same_letters(const void *one, const void *other)
{
    return strcasecmp(one, other) == 0;
}

/* Adds a description of a part of the message that the request cannot express, unless already noted. */
__attribute__((format(printf, 2, 3))) static void note_not_carried(struct draft_reading *reading,
                                                                   const char *format, ...)
{
    GPtrArray *list = reading->not_carried;
    if (list->len > NOT_CARRIED_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *words = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    if (!g_ptr_array_find_with_equal_func(list, words, has_same_letters, NULL))
        g_ptr_array_add(list, g_strdup(list->len == NOT_CARRIED_MAX ? "and more" : words));
}

/* ---- header sections: any file may be put into the outbox, and mime.h accepts any bytes, so the header
 * sections of the message and of its parts are checked against the grammar of RFC 5322 */

enum {
    HEADER_SECTION_MAX_BYTES = 1000 * 1000,
    HEADER_NAME_MAX_BYTES = 998, /* the longest line of RFC 5322 */
    HEADER_NAME_SHOWN = 80,
};

static int read_text_header(struct draft_reading *reading, const char *name, const char *raw, void *target)
{
    g_autofree char *text = header_text_decode(raw, strlen(raw));
    if (!address_name_is_valid(text))
        return reason_give(reading->ret_reason, -EBADMSG, "%s: holds a control character", name);
    g_free(*(char **)target);
    *(char **)target = g_steal_pointer(&text);
    return 0;
}

static int read_attach_header(struct draft_reading *reading, const char *name, const char *raw, void *names)
{
    _cleanup_free_ char *file = NULL;
    int error = read_text_header(reading, name, raw, &file);
    if (error != 0)
        return error;
    if (!file_name_is_valid(file))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "Attach: \"%.80s\" is not the name of a file in attachments/", file);
    g_ptr_array_add(*(GPtrArray **)names, g_strdup(file));
    return 0;
}

static int read_from_header(struct draft_reading *reading, const char *name, const char *raw, void *from)
{
    _cleanup_(address_list_release) struct address_list list = {0};
    int error = draft_read_addresses(reading, name, raw, &list);
    if (error == 0 && list.len > 1)
        return reason_give(reading->ret_reason, -EBADMSG, "From: more than one address");
    if (error != 0 || list.len == 0)
        return error;
    g_free(*(char **)from);
    *(char **)from = TAKE_PTR(list.items[0].address);
    return 0;
}

static int read_addresses_header(struct draft_reading *reading, const char *name, const char *raw, void *list)
{
    draft_begin_list(reading, list);
    return draft_read_addresses(reading, name, raw, list);
}

/* Keeps the first ids of In-Reply-To, since it begins with the id of the answered email, and the last ids of
 * References, since it begins with the oldest email of the thread. */
static int read_ids_header(struct draft_reading *reading, const char *name, const char *raw, void *target)
{
    g_auto(GStrv) ids = message_id_list(raw, strlen(raw));
    GPtrArray *list = *(GPtrArray **)target;
    for (size_t i = 0; ids[i] != NULL; i++) {
        bool is_full = list->len == DRAFT_MESSAGE_IDS_MAX;
        if (is_full && list == reading->in_reply_to)
            break;
        if (is_full)
            g_ptr_array_remove_index(list, 0);
        g_ptr_array_add(list, g_strdup(ids[i]));
    }
    return 0;
}

enum header_trait {
    HEADER_COUNTS = 1,        /* an answer that begins with this header is a message, not a body alone */
    HEADER_IS_SINGLE = 2,     /* may not be given twice */
    HEADER_MAKES_MESSAGE = 4, /* a message needs at least one header with this trait */
};

/* The known headers. `read` is NULL for headers that are not read here: MIME headers, and headers that the
 * service sets or the recipients do not need. `target` is the offset of the field in struct draft_reading. */
static const struct header {
    const char *name;
    unsigned int traits;
    int (*read)(struct draft_reading *reading, const char *name, const char *raw, void *target);
    size_t target;
} headers[] = {
    {"To", HEADER_COUNTS | HEADER_MAKES_MESSAGE, read_addresses_header, offsetof(struct draft_reading, to)},
    {"Cc", HEADER_COUNTS | HEADER_MAKES_MESSAGE, read_addresses_header, offsetof(struct draft_reading, cc)},
    {"Bcc", HEADER_COUNTS | HEADER_MAKES_MESSAGE, read_addresses_header, offsetof(struct draft_reading, bcc)},
    {"Subject", HEADER_COUNTS | HEADER_MAKES_MESSAGE | HEADER_IS_SINGLE, read_text_header,
     offsetof(struct draft_reading, subject)},
    {"From", HEADER_COUNTS | HEADER_MAKES_MESSAGE | HEADER_IS_SINGLE, read_from_header,
     offsetof(struct draft_reading, from)},
    {"Reply-To", HEADER_COUNTS, read_addresses_header, offsetof(struct draft_reading, reply_to)},
    {"Attach", HEADER_COUNTS, read_attach_header, offsetof(struct draft_reading, attachment_names)},
    {"In-Reply-To", 0, read_ids_header, offsetof(struct draft_reading, in_reply_to)},
    {"References", 0, read_ids_header, offsetof(struct draft_reading, references)},
    {"MIME-Version", HEADER_COUNTS, NULL, 0},
    {"Content-Type", HEADER_COUNTS | HEADER_IS_SINGLE, NULL, 0},
    {"Content-Transfer-Encoding", HEADER_COUNTS | HEADER_IS_SINGLE, NULL, 0},
    {"Date", 0, NULL, 0},
    {"Message-ID", 0, NULL, 0},
    {"Received", 0, NULL, 0},
    {"Return-Path", 0, NULL, 0},
    {"User-Agent", 0, NULL, 0},
    {"X-Mailer", 0, NULL, 0},
};

static const struct header *find_header(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        if (span_is(name, headers[i].name))
            return &headers[i];
    return NULL;
}

/* Ignores the case of ASCII letters. */
static bool has_prefix(struct span name, const char *prefix)
{
    return name.len >= strlen(prefix) && strncasecmp(name.bytes, prefix, strlen(prefix)) == 0;
}

/* Returns false if the name is too long, or has a blank before the colon, as only RFC 822 allows. */
static bool has_header_name(const struct mime_field *field)
{
    return field->name.len <= HEADER_NAME_MAX_BYTES &&
           field->value.bytes == field->name.bytes + field->name.len + 1;
}

/* Some mail programs read a carriage return without a line feed as a line end. */
static bool has_bare_return(struct span text)
{
    const char *end = text.bytes + text.len;
    for (const char *at = text.bytes; (at = memchr(at, '\r', (size_t)(end - at))) != NULL; at++)
        if (at + 1 == end || at[1] != '\n')
            return true;
    return false;
}

static int refuse_header_line(const struct draft_reading *reading, const char *where, const char *line)
{
    unsigned int number = 1;
    for (const char *c = reading->message; c < line; c++)
        number += *c == '\n';
    return reason_give(reading->ret_reason, -EBADMSG,
                       "%sline %u is neither a header nor the blank line after them",
                       where[0] == '\0' ? "not a message: " : where, number);
}

/* Checks that a message begins with header lines up to a blank line, at least one of them with the trait that
 * a message needs. A part, whose `where` is not "" (format_part_location()), needs no header, and may end
 * after its headers. Return: 0; -EMSGSIZE; -EBADMSG if not, or if a HEADER_IS_SINGLE is repeated. */
static int check_header_section(const struct draft_reading *reading, const char *where, struct span header,
                                struct span body)
{
    bool seen[ARRAY_LEN(headers)] = {false};
    unsigned int traits = 0;
    struct mime_field field;
    bool has_blank_line = body.bytes != header.bytes + header.len;
    if (header.len > HEADER_SECTION_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE, "%sthe headers are larger than %d bytes", where,
                           HEADER_SECTION_MAX_BYTES);
    while (mime_take_field(&header, &field)) {
        if (!has_header_name(&field) || has_bare_return(field.line))
            return refuse_header_line(reading, where, field.line.bytes);
        const struct header *known = find_header(field.name);
        if (known == NULL)
            continue;
        if ((known->traits & HEADER_IS_SINGLE) != 0 && seen[known - headers])
            return reason_give(reading->ret_reason, -EBADMSG, "%s%s: given twice", where, known->name);
        seen[known - headers] = true;
        traits |= known->traits;
    }
    if (!has_blank_line && body.len > 0)
        return refuse_header_line(reading, where, body.bytes);
    if (where[0] != '\0')
        return 0;
    if ((traits & (reading->is_answer ? HEADER_COUNTS : HEADER_MAKES_MESSAGE)) == 0)
        return reason_give(reading->ret_reason, -EBADMSG,
                           "not a message: no To, Cc, Bcc, Subject or From among its headers");
    /* A message that ends within its headers may be cut in the middle of an address. */
    if (!has_blank_line)
        return reason_give(reading->ret_reason, -EBADMSG,
                           "the message is cut off: no blank line ends its headers");
    return 0;
}

/* Returns true if the first line is a header with the trait HEADER_COUNTS. */
static bool begins_with_counted_header(struct span text)
{
    struct mime_field field;
    if (!mime_take_field(&text, &field) || !has_header_name(&field))
        return false;
    const struct header *header = find_header(field.name);
    return header != NULL && (header->traits & HEADER_COUNTS) != 0;
}

static int read_other_header(struct draft_reading *reading, struct span name)
{
    int shown = (int)(name.len < HEADER_NAME_SHOWN ? name.len : HEADER_NAME_SHOWN);
    if (has_prefix(name, "Content-"))
        return 0;
    /* No standard header begins with "Attach". The user means Attach, and would miss the file. */
    if (has_prefix(name, "Attach"))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "%.*s: no such header; Attach: NAME attaches a file of attachments/", shown,
                           name.bytes);
    note_not_carried(reading, "the header %.*s", shown, name.bytes);
    return 0;
}

static int read_headers(struct draft_reading *reading, struct span section)
{
    struct mime_field field;
    int error = 0;
    while (error == 0 && mime_take_field(&section, &field)) {
        const struct header *header = find_header(field.name);
        if (header == NULL) {
            error = read_other_header(reading, field.name);
        } else if (header->read != NULL) {
            g_autofree char *value = g_strndup(field.value.bytes, field.value.len);
            error = header->read(reading, header->name, value, (char *)reading + header->target);
        }
    }
    return error;
}

/* ---- parts. The texts become the bodies, and every other leaf an attachment, even a signature or a part of
 * an encrypted message, so that nothing is dropped. Decoding is strict, since a message that cannot be read
 * whole must not be sent in part. */

enum {
    WHERE_BYTES = 16 + MIME_NESTING_MAX * 6,
};

/* Formats the beginning of a reason: "" for the whole message, or "part 2.1: " for a part. */
static void format_part_location(const struct mime_entity *entity, char ret_where[WHERE_BYTES])
{
    ret_where[0] = '\0';
    if (entity->around == NULL)
        return;
    format_part_location(entity->around, ret_where);
    size_t len = strlen(ret_where);
    if (len == 0)
        snprintf(ret_where, WHERE_BYTES, "part %u: ", entity->number);
    else
        snprintf(ret_where + len - 2, WHERE_BYTES - len + 2, ".%u: ", entity->number);
}

__attribute__((format(printf, 3, 4))) static int
refuse_part(const struct draft_reading *reading, const struct mime_entity *part, const char *format, ...)
{
    char where[WHERE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *words = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    format_part_location(part, where);
    return reason_give(reading->ret_reason, -EBADMSG, "%s%s", where, words);
}

/* Returns true for a piece of a message, or a reference to one (RFC 2046 section 5.2). Such a part cannot be
 * read without the parameters of its Content-Type, such as its number among the pieces. */
static bool is_incomplete_message(const struct mime_entity *part)
{
    return mime_has_type(part, "message/partial") || mime_has_type(part, "message/external-body");
}

/* Notes the properties of a part that an attachment of the service cannot have. */
static void note_attachment(struct draft_reading *reading, const struct mime_entity *part, const char *name)
{
    if (is_incomplete_message(part))
        note_not_carried(reading, "what the type of %s, %s, says besides", name, part->type);
    if (!mime_has_type(part, "text/"))
        return;
    if (!mime_is_file(part)) {
        note_not_carried(reading, "%s as a text of the message: it is attached, as %s", part->type, name);
        return;
    }
    g_autofree char *charset = mime_read_parameter(part->header, "Content-Type", "charset");
    if (charset != NULL && strcasecmp(charset, "utf-8") != 0 && strcasecmp(charset, "us-ascii") != 0)
        note_not_carried(reading, "the charset of %s, %.40s", name, charset);
}

static int read_attachment(struct draft_reading *reading, const struct mime_entity *part)
{
    if (reading->parts->len >= ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d attachments", ATTACHMENTS_MAX);
    _cleanup_free_ char *damage = NULL;
    struct draft_part draft_part = {0};
    if (mime_decode(part, &draft_part.bytes, &draft_part.len, &damage) != 0)
        return refuse_part(reading, part, "%s", damage);
    struct span content_id = mime_find_field(part->header, "Content-ID");
    draft_part.name = mime_name_file(part, reading->parts->len + 1);
    draft_part.content_type = g_strdup(part->type);
    draft_part.content_id = message_id_first(content_id.bytes, content_id.len);
    struct span bare_id = mime_first_token(content_id);
    if (draft_part.content_id == NULL && bare_id.len > 0)
        draft_part.content_id = g_strndup(bare_id.bytes, bare_id.len);
    g_array_append_val(reading->parts, draft_part);
    note_attachment(reading, part, draft_part.name);
    return 0;
}

static int read_leaf(void *context, const struct mime_entity *leaf, enum mime_role role)
{
    struct draft_reading *reading = context;
    if (leaf->around == NULL && is_incomplete_message(leaf))
        return refuse_part(reading, leaf, "a piece of a message, or a reference to one, cannot be sent");
    if (role == MIME_ATTACHMENT)
        return read_attachment(reading, leaf);
    _cleanup_free_ char *damage = NULL;
    return mime_texts_add(&reading->texts, leaf, role, &damage) != 0
               ? refuse_part(reading, leaf, "%s", damage)
               : 0;
}

static int begin_entity(void *context, const struct mime_entity *entity)
{
    struct draft_reading *reading = context;
    char where[WHERE_BYTES];
    format_part_location(entity, where);
    int error = check_header_section(reading, where, entity->header, entity->body);
    if (error == 0 && entity->around == NULL)
        error = read_headers(reading, entity->header);
    if (error == 0 && mime_has_type(entity, "multipart/signed"))
        note_not_carried(reading, "multipart/signed: the signature is attached, and cannot be verified");
    if (error == 0 && mime_has_type(entity, "multipart/encrypted"))
        note_not_carried(reading, "multipart/encrypted: its parts are attached one by one");
    return error;
}

static int refuse_defect(void *context, const struct mime_entity *entity, enum mime_defect defect)
{
    struct draft_reading *reading = context;
    switch (defect) {
    case MIME_NO_PARTS:
        return refuse_part(reading, entity, "a multipart message without its parts");
    case MIME_CUT_OFF:
        return refuse_part(reading, entity,
                           "the message is cut off: the closing boundary \"--%.70s--\" is missing",
                           entity->boundary);
    case MIME_TOO_MANY:
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d parts", MIME_ENTITIES_MAX);
    case MIME_TOO_DEEP:
        return reason_give(reading->ret_reason, -EBADMSG, "parts within parts, more than %d deep",
                           MIME_NESTING_MAX);
    }
    return 0;
}

/* Notes the pictures that the HTML names by Content-ID, since attachments of the service have no
 * Content-ID. */
static void note_content_ids(struct draft_reading *reading)
{
    if (reading->html == NULL || reading->parts->len == 0)
        return;
    g_autoptr(GHashTable) parts = g_hash_table_new(g_str_hash, g_str_equal);
    for (unsigned int i = 0; i < reading->parts->len; i++) {
        const struct draft_part *part = &g_array_index(reading->parts, struct draft_part, i);
        if (part->content_id != NULL)
            g_hash_table_insert(parts, part->content_id, part->name);
    }
    const char *at = reading->html;
    while ((at = strcasestr(at, "cid:")) != NULL) {
        const char *escaped = at + strlen("cid:");
        at = escaped + strcspn(escaped, "\"'<>() \t\r\n");
        g_autofree char *id = g_uri_unescape_segment(escaped, at, NULL);
        const char *name = id == NULL || *id == '\0' ? NULL : g_hash_table_lookup(parts, id);
        if (name != NULL)
            note_not_carried(reading, "Content-ID of %s: the html names it as cid:%s", name, id);
    }
}

/* Returns true if another message of an mbox file follows: a blank line, a line "From …", and a header. */
static bool has_second_message(struct span text)
{
    bool is_after_blank_line = false;
    struct mime_field field;
    while (text.len > 0) {
        struct span line = mime_take_line(&text);
        struct span rest = text;
        if (is_after_blank_line && span_begins_with(line, "From ") && mime_take_field(&rest, &field))
            return true;
        is_after_blank_line = span_is(line, "\n") || span_is(line, "\r\n");
    }
    return false;
}

/* A body that is too long is cut after a character at most four bytes above its bound, so that
 * check_recipients_and_sizes() (draft.c) still refuses it. */
static void join_texts(struct draft_reading *reading)
{
    mime_texts_join(&reading->texts, DRAFT_BODY_MAX_BYTES + 4, &reading->plain_text, &reading->html,
                    &reading->alternative_content);
}

int draft_read_mime(struct draft_reading *reading, const char *bytes, size_t len)
{
    struct span message = {bytes, len};
    struct mime_visitor visitor = {reading, begin_entity, read_leaf, refuse_defect};
    size_t mbox_len = mime_mbox_line_len(message);
    reading->message = bytes;
    span_skip(&message, mbox_len);
    if (mbox_len > 0 && has_second_message(message))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "a mailbox with more than one message; hand in each by itself");
    int error = mime_read(message, &visitor);
    if (error != 0)
        return error;
    join_texts(reading);
    note_content_ids(reading);
    return 0;
}

int draft_read_answer_text(struct draft_reading *reading, const char *bytes, size_t len)
{
    struct span header, body;
    struct span text = {bytes, len};
    reading->message = bytes;
    mime_split(text, &header, &body);
    int error = check_header_section(reading, "", header, body);
    if (error == 0)
        return draft_read_mime(reading, bytes, len);
    if (error != -EBADMSG || begins_with_counted_header(text))
        return error;
    free(TAKE_PTR(*reading->ret_reason));
    const struct mime_entity alone = {.header = {"", 0}, .body = text, .type = "text/plain"};
    error = read_leaf(reading, &alone, MIME_PLAIN);
    join_texts(reading);
    return error;
}
