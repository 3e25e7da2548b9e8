/* SPDX-License-Identifier: MIT */
#include "service/request_head.h"

#include <string.h>
#include <strings.h>

/* RFC 9110, section 5.6.2. Other servers may ignore a blank before the colon, so names must have none. */
static bool is_token(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

static enum MHD_Result read_line(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct request_head *head = context;
    bool is_encoding = strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    head->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    head->ends += is_encoding || strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    if (is_encoding && (value == NULL || strcasecmp(value, "chunked") != 0))
        head->is_endless = true;
    if (head->ends > 1 || head->is_endless || !is_token(name))
        head->has_one_end = false;
    return MHD_YES;
}

void request_head_read(struct MHD_Connection *connection, struct request_head *ret_head)
{
    *ret_head = (struct request_head){.has_one_end = true};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, read_line, ret_head);
}
