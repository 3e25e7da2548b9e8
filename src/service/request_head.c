/* SPDX-License-Identifier: MIT */
#include "service/request_head.h"

#include <string.h>
#include <strings.h>

struct head_lines {
    unsigned int lengths, encodings, hosts;
    bool has_bad_name;
};

/* RFC 9110, section 5.6.2. A blank before the colon makes it another name to this server than to others. */
static bool is_token(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

static enum MHD_Result read_line(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind, (void)value;
    struct head_lines *lines = context;
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
    const char *encoding =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    bool is_endless = encoding != NULL && strcasecmp(encoding, "chunked") != 0;
    *ret_head = (struct request_head){
        .hosts = lines.hosts,
        .is_endless = is_endless,
        .has_one_end = lines.lengths + lines.encodings <= 1 && !lines.has_bad_name && !is_endless,
    };
}
