/* SPDX-License-Identifier: MIT */
/*
 * MIME (RFC 2045, 2046, 2183, 2387): takes messages and forms apart where they lie in memory.
 *
 * A `struct span` points into the caller's bytes; nothing is copied or changed. An entity is a header section
 * and a body: the whole message, or a part of a multipart. A multipart's body holds further entities, any
 * other entity is a leaf. mime_read() visits all entities in the order of the text, and gives each leaf a
 * role:
 *
 * - a leaf that is called an attachment, or names a file within a multipart, is an attachment;
 * - so is one of a type that is no prose (text/calendar, image/png);
 * - every other text is a text of the message, plain or HTML. One child of a multipart/alternative gives the
 *   plain text, and one the HTML. One child of a multipart/related gives the HTML.
 *
 * Roles depend on headers alone, so that two readings of the same bytes count the same attachments.
 *
 * Any bytes can be read. If they break the grammar, mime_read() goes on as far as it can, and reports a
 * defect to the visitor, who may stop. All functions take time in proportion to the text.
 */
#ifndef INBOXFS_MAIL_MIME_H
#define INBOXFS_MAIL_MIME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

/* ---------------------------------------------------------------- header sections */

/* A header field (RFC 5322 section 2.2) with the lines folded to it. */
struct mime_field {
    struct span line; /* all of it, with its line ends */
    struct span name;
    struct span value; /* behind the colon, with its line ends */
};

/* Takes the first line off the text: its bytes, with the line end. */
struct span mime_take_line(struct span *text);

/* The bytes of a line "From …", which mbox files have before a message; 0: the text begins with none. */
size_t mime_mbox_line_len(struct span text);

/* Takes a field off the text. False: the text does not begin with one. A name is visible ASCII, blanks may
 * stand before the colon. */
bool mime_take_field(struct span *text, struct mime_field *ret_field);

/* Splits an entity: the fields at its beginning, and what follows the blank line. A line that is neither
 * begins the body. */
void mime_split(struct span entity, struct span *ret_header, struct span *ret_body);

/* Takes fields off the header up to the next one of this name. False: there is no more. */
bool mime_next_field(struct span *header, const char *name, struct span *ret_value);

/* The value of the first field of this name; empty: there is none. */
struct span mime_find_field(struct span header, const char *name);

/* The decoded parameter of a field (header_text.h), of which the first 64 KiB are read; *ret_text is NULL
 * where there is none. The caller frees. 0 or -ENOMEM. */
int mime_read_parameter(struct span header, const char *field, const char *parameter, char **ret_text);

#define MIME_TYPE_OF_BYTES "application/octet-stream"

enum {
    MIME_TYPE_SIZE = 2 * 127 + 2, /* RFC 6838 section 4.2, "/" and NUL */
    MIME_CONTENT_ID_SIZE = 256,
};

/* "type/subtype" in small letters; `without`: where there is none; MIME_TYPE_OF_BYTES: malformed. */
void mime_read_type(struct span header, const char *without, char ret_type[MIME_TYPE_SIZE]);

/* The Content-ID without its brackets; "": there is none that can stand in a header or a link. */
void mime_content_id(struct span header, char ret_id[MIME_CONTENT_ID_SIZE]);

/* ---------------------------------------------------------------- parts */

/* The parts of a multipart body, one by one. */
struct mime_parts {
    struct span rest;     /* what was not read yet; in the end: what stands behind the last boundary */
    const char *boundary; /* borrowed */
    size_t boundary_len;
    const char *begin; /* of the part whose end is looked for; NULL: no boundary was seen */
    bool is_closed;    /* the closing boundary was seen */
};

void mime_parts_init(struct mime_parts *parts, struct span body, const char *boundary);

/* The next part. A last one without its closing boundary ends with the body; is_closed is false then. */
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
    unsigned int number;        /* among the parts around it, from 1 */
    struct mime_entity *around; /* NULL: this is the whole message */
    char *boundary;             /* of a multipart */
    bool has_usual_text; /* of a multipart/alternative: so that Markdown and its like give no plain text */
    unsigned int plain_part; /* number of the part that gives a multipart/alternative its text; 0: none yet */
    unsigned int html_part;  /* likewise its HTML, or that of a multipart/related */
};

enum mime_defect {
    MIME_NO_PARTS, /* a multipart without any; it is read as text */
    MIME_CUT_OFF,  /* its closing boundary is missing */
    MIME_TOO_MANY, /* a part behind the first MIME_ENTITIES_MAX; it is passed over */
    MIME_TOO_DEEP, /* more than MIME_NESTING_MAX multiparts in each other; it is read as an attachment */
};

/* Each returns 0 to go on; any other number ends the reading, and mime_read() returns it. All but `leaf` may
 * be NULL. */
struct mime_visitor {
    void *context;
    int (*begin)(void *context, const struct mime_entity *entity); /* before an entity is read */
    int (*leaf)(void *context, const struct mime_entity *leaf, enum mime_role role);
    int (*defect)(void *context, const struct mime_entity *entity, enum mime_defect defect);
};

/* Visits all entities. 0, -ENOMEM, or what the visitor returned. */
int mime_read(struct span message, const struct mime_visitor *visitor);

/* Returns true if the type is this one; "text/" is true of every text. */
bool mime_is_type(const struct mime_entity *entity, const char *type);

/* 1: the leaf is called an attachment, or names a file within a multipart; 0: neither; -ENOMEM. */
int mime_is_file(const struct mime_entity *leaf);

/* The name of the part's file: as the part gives it, without folders, at most 255 bytes, "_" for what
 * terminals obey; where it gives none, one that tells its number and its type. The caller frees. 0 or
 * -ENOMEM. */
int mime_name_file(const struct mime_entity *part, size_t number, char **ret_name);

/* Equal for all leaves within the same outermost multipart/alternative; NULL: the leaf is in none. */
const void *mime_alternative_of(const struct mime_entity *leaf);

#endif
