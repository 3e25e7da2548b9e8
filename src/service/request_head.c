/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd 0.9.75 ends a line at its first null, and keeps the rest from its callers: a key with a null
 * and more behind it would count as the key. But the lines stand in one buffer of the library's, in order and
 * with their ends, so the rest shows between the end of a value and the name that follows.
 */
#include "service/request_head.h"

#include <string.h>
#include <strings.h>

struct head_lines {
    unsigned int lengths, encodings, hosts;
    bool has_bad_name;
    bool has_rest;   /* of a line, behind a null */
    const char *end; /* of the newest value: its null */
};

static bool is_blank(char c)
{
    return c == '\0' || strchr("\r\n\t ", c) != NULL;
}

/* Returns true if there is text between a value and the next line's name, where that follows in memory. */
static bool has_rest(const char *end, const char *next)
{
    for (const char *at = end; at != NULL && at < next; at++)
        if (!is_blank(*at))
            return true;
    return false;
}

/* RFC 9110, section 5.6.2. A blank before the colon makes it another name to this server than to others. */
static bool is_token(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

static enum MHD_Result read_line(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct head_lines *lines = context;
    lines->has_rest = lines->has_rest || has_rest(lines->end, name);
    lines->end = value != NULL ? value + strlen(value) : NULL;
    lines->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    lines->encodings += strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    lines->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    if (!is_token(name))
        lines->has_bad_name = true;
    return MHD_YES;
}

void request_head_read(struct MHD_Connection *connection, struct request_head *ret_head)
{
    struct head_lines lines = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, read_line, &lines);
    /* Behind the last line there is a blank one. */
    bool has_null = lines.has_rest || (lines.end != NULL && !is_blank(lines.end[1]));
    const char *encoding =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    bool is_endless = encoding != NULL && strcasecmp(encoding, "chunked") != 0;
    *ret_head = (struct request_head){
        .hosts = lines.hosts,
        .is_endless = is_endless,
        .has_one_end =
            lines.lengths + lines.encodings <= 1 && !lines.has_bad_name && !has_null && !is_endless,
    };
}
