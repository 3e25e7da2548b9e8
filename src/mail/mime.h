/* SPDX-License-Identifier: MIT */
/*
 * MIME (RFC 2045, 2046, 2183, 2387): splits messages and forms in memory, without copies.
 *
 * A `struct span` points into the caller's bytes; nothing is copied or changed. An entity is the whole
 * message or a part of a multipart, and has a header section and a body. A multipart's body holds further
 * entities; any other entity is a leaf. mime_read() visits all entities in the order of the text, and gives
 * each leaf a role:
 *
 * - a leaf is an attachment if its disposition says so, if it names a file within a multipart, or if its type
 *   is not prose (text/calendar, image/png);
 * - every other leaf is a text of the message, plain or HTML. One child of a multipart/alternative gives the
 *   plain text, and one the HTML. One child of a multipart/related gives the HTML.
 *
 * Roles depend on headers alone, so that two readings of the same bytes count the same attachments.
 *
 * Any bytes can be read. If they break the grammar, mime_read() reads as much as it can, and reports a defect
 * to the visitor, which may stop the reading. All functions take time in proportion to the text.
 */
#ifndef INBOXFS_MAIL_MIME_H
#define INBOXFS_MAIL_MIME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *bytes;
    size_t len;
};

static inline void span_skip(struct span *span, size_t len)
{
    span->bytes += len;
    span->len -= len;
}

static inline bool span_begins_with(struct span span, const char *prefix)
{
    return span.len >= strlen(prefix) && memcmp(span.bytes, prefix, strlen(prefix)) == 0;
}

/* Compares without regard to the case of ASCII letters. */
static inline bool span_is(struct span span, const char *text)
{
    return span.len == strlen(text) && strncasecmp(span.bytes, text, span.len) == 0;
}

/* ---------------------------------------------------------------- header sections */

/* A header field (RFC 5322 section 2.2) with the lines folded to it. */
struct mime_field {
    struct span line; /* the whole field with its line ends */
    struct span name;
    struct span value; /* after the colon, with its line ends */
};

/* Takes the first line, with its line end, off the text. */
struct span mime_take_line(struct span *text);

/* Returns the length of the line "From …" that mbox files have before a message; 0 if the text has none. */
size_t mime_mbox_line_len(struct span text);

/* Takes a field off the text. Returns false if the text does not begin with a field. A name is visible ASCII;
 * blanks may be before the colon. */
bool mime_take_field(struct span *text, struct mime_field *ret_field);

/* Splits an entity into the fields at its beginning, and the body after the blank line. A line that is
 * neither field nor blank begins the body. */
void mime_split(struct span entity, struct span *ret_header, struct span *ret_body);

/* Takes fields off the header up to the next field of this name. Returns false if there is none. */
bool mime_next_field(struct span *header, const char *name, struct span *ret_value);

/* Returns the value of the first field of this name; empty if there is none. */
struct span mime_find_field(struct span header, const char *name);

/* Returns the token (RFC 2045 section 5.1, but "/" may be part of it) at the beginning of a value. */
struct span mime_first_token(struct span value);

/* Decodes a parameter of a field (header_text.h) from the first 64 KiB of the field. Returns NULL if the
 * field lacks the parameter; the caller frees. */
char *mime_read_parameter(struct span header, const char *field, const char *parameter);

#define MIME_TYPE_OF_BYTES "application/octet-stream"

enum {
    MIME_TYPE_SIZE = 2 * 127 + 2, /* two names (RFC 6838 section 4.2), "/" and NUL */
};

/* Reads "type/subtype" in small letters; `without` if the header has no type; MIME_TYPE_OF_BYTES if the type
 * is malformed. */
void mime_read_type(struct span header, const char *without, char ret_type[MIME_TYPE_SIZE]);

/* ---------------------------------------------------------------- parts */

struct mime_parts {
    struct span rest;     /* text not read yet; after the last part, the text after the last boundary */
    const char *boundary; /* borrowed */
    size_t boundary_len;
    const char *begin; /* beginning of the current part; NULL before the first boundary */
    bool is_closed;    /* the closing boundary was seen */
};

void mime_parts_init(struct mime_parts *parts, struct span body, const char *boundary);

/* Reads the next part; returns false at the end. A last part without its closing boundary ends with the body,
 * and is_closed stays false. */
bool mime_next_part(struct mime_parts *parts, struct span *ret_part);

/* ---------------------------------------------------------------- entities */

enum {
    MIME_NESTING_MAX = 32,
    MIME_ENTITIES_MAX = 10000,
};

enum mime_role {
    MIME_PLAIN,
    MIME_HTML,
    MIME_ATTACHMENT,
};

struct mime_entity {
    struct span header;
    struct span body;
    char type[MIME_TYPE_SIZE]; /* mime_read_type() */
    unsigned int depth;
    unsigned int number;        /* position among the parts of `around`, from 1 */
    struct mime_entity *around; /* the multipart that holds the entity; NULL for the whole message */
    char *boundary;             /* boundary of a multipart, or NULL */
    unsigned int plain_part; /* number of the part that gives a multipart/alternative its plain text, or 0 */
    unsigned int html_part;  /* number of the part that gives a multipart/alternative or /related its HTML */
};

enum mime_defect {
    MIME_NO_PARTS, /* a multipart has no parts; it is read as text */
    MIME_CUT_OFF,  /* a multipart has no closing boundary */
    MIME_TOO_MANY, /* a part follows the first MIME_ENTITIES_MAX entities; the part is skipped */
    MIME_TOO_DEEP, /* multiparts are nested more than MIME_NESTING_MAX deep; the innermost is attached */
};

/* Each function returns 0 to continue; mime_read() stops at any other result, and returns it. `begin` and
 * `defect` may be NULL. */
struct mime_visitor {
    void *context;
    int (*begin)(void *context, const struct mime_entity *entity); /* before an entity is read */
    int (*leaf)(void *context, const struct mime_entity *leaf, enum mime_role role);
    int (*defect)(void *context, const struct mime_entity *entity, enum mime_defect defect);
};

/* Visits all entities. Returns the first result of the visitor that is not 0, else 0. */
int mime_read(struct span message, const struct mime_visitor *visitor);

/* Returns true if the entity has this type; "text/" matches all types that begin with it. */
bool mime_has_type(const struct mime_entity *entity, const char *type);

/* Returns true if the leaf's disposition is attachment, or if it is in a multipart and names a file. */
bool mime_is_file(const struct mime_entity *leaf);

/* Names the file of a part: by the part's own name without folders, cut to 255 bytes, with "_" for characters
 * that terminals obey; or, if the part has no name, by `number` and its type. The caller frees. */
char *mime_name_file(const struct mime_entity *part, size_t number);

#endif
