/* SPDX-License-Identifier: MIT */
/*
 * This file splits multiparts without GMime, which changes line ends at the edges of parts, rewrites enclosed
 * messages, and reports few defects.
 */
#include "mail/mime.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "mail/file_name.h"
#include "mail/header_text.h"

enum {
    VALUE_MAX_BYTES = 64 * 1024, /* length of the part of a field that is searched for parameters */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_white_space(struct span text)
{
    while (text.len > 0 && g_ascii_isspace(text.bytes[0]))
        span_skip(&text, 1);
    return text.len == 0;
}

/* ---------------------------------------------------------------- header sections */

struct span mime_take_line(struct span *text)
{
    const char *newline = text->len > 0 ? memchr(text->bytes, '\n', text->len) : NULL;
    struct span line = {text->bytes, newline == NULL ? text->len : (size_t)(newline - text->bytes) + 1};
    span_skip(text, line.len);
    return line;
}

size_t mime_mbox_line_len(struct span text)
{
    return span_begins_with(text, "From ") ? mime_take_line(&text).len : 0;
}

bool mime_take_field(struct span *text, struct mime_field *ret_field)
{
    size_t name_len = 0;
    while (name_len < text->len && g_ascii_isgraph(text->bytes[name_len]) && text->bytes[name_len] != ':')
        name_len++;
    size_t colon = name_len;
    while (colon < text->len && is_blank(text->bytes[colon]))
        colon++;
    if (name_len == 0 || colon == text->len || text->bytes[colon] != ':')
        return false;
    struct span field = *text;
    do
        mime_take_line(text);
    while (text->len > 0 && is_blank(text->bytes[0]));
    field.len = (size_t)(text->bytes - field.bytes);
    *ret_field = (struct mime_field){field, {field.bytes, name_len}, field};
    span_skip(&ret_field->value, colon + 1);
    return true;
}

void mime_split(struct span entity, struct span *ret_header, struct span *ret_body)
{
    struct mime_field field;
    struct span rest = entity;
    while (mime_take_field(&rest, &field))
        ;
    *ret_header = (struct span){entity.bytes, entity.len - rest.len};
    if (rest.len > 0 && rest.bytes[0] == '\n')
        span_skip(&rest, 1);
    else if (rest.len > 1 && rest.bytes[0] == '\r' && rest.bytes[1] == '\n')
        span_skip(&rest, 2);
    *ret_body = rest;
}

bool mime_next_field(struct span *header, const char *name, struct span *ret_value)
{
    struct mime_field field;
    while (mime_take_field(header, &field)) {
        if (span_is(field.name, name)) {
            *ret_value = field.value;
            return true;
        }
    }
    return false;
}

struct span mime_find_field(struct span header, const char *name)
{
    struct span value;
    return mime_next_field(&header, name, &value) ? value : (struct span){"", 0};
}

char *mime_read_parameter(struct span header, const char *field, const char *parameter)
{
    struct span value = mime_find_field(header, field);
    size_t len = value.len < VALUE_MAX_BYTES ? value.len : VALUE_MAX_BYTES;
    return header_text_decode_parameter(value.bytes, len, parameter);
}

struct span mime_first_token(struct span value)
{
    while (value.len > 0 && (g_ascii_isspace(value.bytes[0]) || value.bytes[0] == '"'))
        span_skip(&value, 1);
    size_t len = 0;
    while (len < value.len && g_ascii_isgraph(value.bytes[len]) &&
           strchr("()<>@,;:\\\"[]?=", value.bytes[len]) == NULL)
        len++;
    return (struct span){value.bytes, len};
}

/* A Content-Type without a subtype counts as absent (RFC 2045 section 5.2). */
void mime_read_type(struct span header, const char *without, char ret_type[MIME_TYPE_SIZE])
{
    struct span type = mime_first_token(mime_find_field(header, "Content-Type"));
    const char *slash = type.len > 0 ? memchr(type.bytes, '/', type.len) : NULL;
    const char *in_place = NULL;
    if (slash == NULL)
        in_place = without;
    else if (slash == type.bytes || slash + 1 == type.bytes + type.len || type.len >= MIME_TYPE_SIZE ||
             memchr(slash + 1, '/', (size_t)(type.bytes + type.len - slash) - 1) != NULL)
        in_place = MIME_TYPE_OF_BYTES;
    if (in_place != NULL)
        type = (struct span){in_place, strlen(in_place)};
    for (size_t i = 0; i < type.len; i++)
        ret_type[i] = g_ascii_tolower(type.bytes[i]);
    ret_type[type.len] = '\0';
}

/* ---------------------------------------------------------------- parts */

/* RFC 2046 section 5.1.1: "--", the boundary, "--" if the line closes the multipart, and blanks. */
static bool is_boundary(const struct mime_parts *parts, struct span line, bool *ret_is_last)
{
    size_t len = 2 + parts->boundary_len;
    if (line.len < len || line.bytes[0] != '-' || line.bytes[1] != '-' ||
        memcmp(line.bytes + 2, parts->boundary, parts->boundary_len) != 0)
        return false;
    span_skip(&line, len);
    *ret_is_last = line.len >= 2 && line.bytes[0] == '-' && line.bytes[1] == '-';
    span_skip(&line, *ret_is_last ? 2 : 0);
    return is_white_space(line);
}

void mime_parts_init(struct mime_parts *parts, struct span body, const char *boundary)
{
    *parts = (struct mime_parts){.rest = body, .boundary = boundary, .boundary_len = strlen(boundary)};
}

/* Takes the next line that contains the boundary; returns false if there is none. memmem() is faster than a
 * comparison of each line, which nested multiparts with many short lines would repeat at every level. */
static bool take_line_of_boundary(struct mime_parts *parts, struct span *ret_line)
{
    struct span *rest = &parts->rest;
    const char *found = memmem(rest->bytes, rest->len, parts->boundary, parts->boundary_len);
    if (found == NULL) {
        span_skip(rest, rest->len);
        return false;
    }
    const char *newline = memrchr(rest->bytes, '\n', (size_t)(found - rest->bytes));
    if (newline != NULL)
        span_skip(rest, (size_t)(newline - rest->bytes) + 1);
    *ret_line = mime_take_line(rest);
    return true;
}

bool mime_next_part(struct mime_parts *parts, struct span *ret_part)
{
    struct span line;
    if (parts->boundary_len == 0)
        return false;
    while (parts->rest.len > 0 && !parts->is_closed && take_line_of_boundary(parts, &line)) {
        bool is_last = false;
        if (!is_boundary(parts, line, &is_last))
            continue;
        const char *begin = parts->begin;
        parts->begin = parts->rest.bytes;
        parts->is_closed = is_last;
        if (begin == NULL || begin == line.bytes)
            continue;
        size_t len = (size_t)(line.bytes - begin);
        len -= len > 0; /* the line end before a boundary belongs to the boundary */
        len -= len > 0 && begin[len - 1] == '\r';
        *ret_part = (struct span){begin, len};
        return true;
    }
    const char *begin = parts->begin;
    if (begin == NULL || parts->is_closed || begin == parts->rest.bytes)
        return false;
    *ret_part = (struct span){begin, (size_t)(parts->rest.bytes - begin)};
    parts->begin = parts->rest.bytes;
    return true;
}

/* ---------------------------------------------------------------- roles */

bool mime_has_type(const struct mime_entity *entity, const char *type)
{
    size_t len = strlen(type);
    return type[len - 1] == '/' ? strncmp(entity->type, type, len) == 0 : strcmp(entity->type, type) == 0;
}

/* Returns false for types, such as text/csv, that are not written for people to read. */
static bool is_prose(const struct mime_entity *leaf)
{
    static const char *const others[] = {
        "calendar",       "vcard", "x-vcard", "directory",  "csv",        "rtf",       "tab-separated-values",
        "rfc822-headers", "xml",   "css",     "javascript", "x-amp-html", "watch-html"};
    bool is_other = !mime_has_type(leaf, "text/");
    for (size_t i = 0; i < ARRAY_LEN(others) && !is_other; i++)
        is_other = strcmp(others[i], leaf->type + strlen("text/")) == 0;
    return !is_other;
}

/* Returns the file name that the part gives, unchanged; NULL if the part gives none. */
static char *read_file_name(struct span header)
{
    char *name = mime_read_parameter(header, "Content-Disposition", "filename");
    return name != NULL ? name : mime_read_parameter(header, "Content-Type", "name");
}

/* A file name counts only within a multipart, since some programs also name a message that is one text. */
bool mime_is_file(const struct mime_entity *leaf)
{
    if (span_is(mime_first_token(mime_find_field(leaf->header, "Content-Disposition")), "attachment"))
        return true;
    g_autofree char *name = leaf->depth > 0 ? read_file_name(leaf->header) : NULL;
    return name != NULL;
}

/* Makes a name such as "attachment-2.pdf". */
static char *make_attachment_name(const char *type, size_t number)
{
    static const struct {
        const char *type;
        const char *extension;
    } known[] = {
        {"message/rfc822", ".eml"},
        {"text/plain", ".txt"},
        {"text/html", ".html"},
        {"text/calendar", ".ics"},
        {"text/csv", ".csv"},
        {"text/vcard", ".vcf"},
        {"application/pdf", ".pdf"},
        {"application/json", ".json"},
        {"application/zip", ".zip"},
        {"application/pgp-signature", ".asc"},
        {"application/pkcs7-signature", ".p7s"},
        {"application/pkcs7-mime", ".p7m"},
        {"image/png", ".png"},
        {"image/jpeg", ".jpg"},
        {"image/gif", ".gif"},
    };
    const char *extension = "";
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i].type, type) == 0)
            extension = known[i].extension;
    return g_strdup_printf("attachment-%zu%s", number, extension);
}

/* Corrects a name that is too long or has control characters, since programs need its extension. */
char *mime_name_file(const struct mime_entity *part, size_t number)
{
    g_autofree char *given = read_file_name(part->header);
    const char *name = given != NULL ? given : "";
    for (const char *c = name; *c != '\0'; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    g_autofree char *mended = file_name_shortened(name, FILE_NAME_MAX_BYTES);
    character_replace(mended, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, '_');
    return file_name_is_valid(mended) ? g_steal_pointer(&mended) : make_attachment_name(part->type, number);
}

/* Returns true if the leaf can be the text of this role in all multiparts around it, and notes the number of
 * the chosen part in each. If an outer multipart has chosen another part, no part of an inner one can be the
 * text, so its note does no harm. */
static bool choose_as_text(struct mime_entity *leaf, enum mime_role role)
{
    for (struct mime_entity *child = leaf; child->around != NULL; child = child->around) {
        struct mime_entity *around = child->around;
        bool is_alternative = mime_has_type(around, "multipart/alternative");
        bool is_related = mime_has_type(around, "multipart/related") && role == MIME_HTML;
        unsigned int *chosen = role == MIME_HTML ? &around->html_part : &around->plain_part;
        if (!is_alternative && !is_related)
            continue;
        if (*chosen != 0 && *chosen != child->number)
            return false;
        *chosen = child->number;
    }
    return true;
}

/* ---------------------------------------------------------------- entities */

struct reading {
    const struct mime_visitor *visitor;
    size_t entities_len;
};

static int report(const struct reading *reading, const struct mime_entity *entity, enum mime_defect defect)
{
    const struct mime_visitor *visitor = reading->visitor;
    return visitor->defect == NULL ? 0 : visitor->defect(visitor->context, entity, defect);
}

static int read_leaf(const struct reading *reading, struct mime_entity *leaf)
{
    enum mime_role role = mime_has_type(leaf, "text/html") ? MIME_HTML : MIME_PLAIN;
    bool is_file = !is_prose(leaf) || mime_is_file(leaf);
    /* A type without a subtype, such as "pdf", means text (RFC 2045 section 5.2), but a file of this type may
     * hold any bytes. */
    struct span type = mime_first_token(mime_find_field(leaf->header, "Content-Type"));
    if (is_file && type.len > 0 && memchr(type.bytes, '/', type.len) == NULL)
        strcpy(leaf->type, MIME_TYPE_OF_BYTES);
    if (is_file || !choose_as_text(leaf, role))
        role = MIME_ATTACHMENT;
    return reading->visitor->leaf(reading->visitor->context, leaf, role);
}

static int read_entity(struct reading *reading, struct span text, struct mime_entity *around,
                       unsigned int number);

/* A multipart without parts may hold text: some programs put the parts after the multipart. */
static int read_without_parts(const struct reading *reading, struct mime_entity *entity, bool is_cut_off)
{
    int result = report(reading, entity, is_cut_off ? MIME_CUT_OFF : MIME_NO_PARTS);
    while (entity->body.len > 0 && g_ascii_isspace(entity->body.bytes[0]))
        span_skip(&entity->body, 1);
    if (result != 0 || entity->body.len == 0)
        return result;
    strcpy(entity->type, "text/plain");
    return read_leaf(reading, entity);
}

static int read_multipart(struct reading *reading, struct mime_entity *entity)
{
    struct mime_parts parts;
    struct span part;
    unsigned int number = 0;
    int result = 0;
    entity->boundary = mime_read_parameter(entity->header, "Content-Type", "boundary");
    mime_parts_init(&parts, entity->body, entity->boundary != NULL ? g_strchomp(entity->boundary) : "");
    while (result == 0 && mime_next_part(&parts, &part)) {
        bool is_cut_off = !parts.is_closed && parts.rest.len == 0;
        if (is_cut_off)
            result = report(reading, entity, MIME_CUT_OFF);
        if (result == 0)
            result = read_entity(reading, part, entity, ++number);
    }
    return result != 0 || number > 0
               ? result
               : read_without_parts(reading, entity, parts.begin != NULL && !parts.is_closed);
}

static int read_entity(struct reading *reading, struct span text, struct mime_entity *around,
                       unsigned int number)
{
    const struct mime_visitor *visitor = reading->visitor;
    struct mime_entity entity = {
        .around = around, .number = number, .depth = around == NULL ? 0 : around->depth + 1};
    if (reading->entities_len++ >= MIME_ENTITIES_MAX)
        return report(reading, around, MIME_TOO_MANY);
    mime_split(text, &entity.header, &entity.body);
    bool is_in_digest = around != NULL && mime_has_type(around, "multipart/digest");
    mime_read_type(entity.header, is_in_digest ? "message/rfc822" : "text/plain", entity.type);
    int result = visitor->begin != NULL ? visitor->begin(visitor->context, &entity) : 0;
    bool is_multipart = mime_has_type(&entity, "multipart/");
    bool is_too_deep = is_multipart && entity.depth >= MIME_NESTING_MAX;
    if (result == 0 && is_too_deep)
        result = report(reading, &entity, MIME_TOO_DEEP);
    if (result == 0)
        result =
            is_multipart && !is_too_deep ? read_multipart(reading, &entity) : read_leaf(reading, &entity);
    g_free(entity.boundary);
    return result;
}

int mime_read(struct span message, const struct mime_visitor *visitor)
{
    return read_entity(&(struct reading){.visitor = visitor}, message, NULL, 0);
}
