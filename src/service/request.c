/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd's post processor (0.9.75) is not used for forms: it splits parts that are multipart, refuses
 * a file with a line that begins like the boundary, and cuts a name at a backslashed quote.
 */
#include "service/request.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "mail/file_name.h"
#include "mail/header_text.h"
#include "mail/mime.h"

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

json_t *request_read_object(const struct request *request, struct reply *reply)
{
    json_error_t error;
    json_t *value = json_loadb(strbuf_str(&request->body), request->body.len, JSON_DECODE_ANY, &error);
    if (json_is_object(value))
        return value;
    if (value == NULL)
        reply_invalid_at(reply, json_pack("[s, i]", "body", error.position), "json_invalid", error.text);
    else
        reply_invalid_at(reply, json_pack("[s]", "body"), "model_attributes_type",
                         "Input should be a valid dictionary");
    json_decref(value);
    return NULL;
}

/* ---------------------------------------------------------------- forms */

/* Returns NULL if the name is not valid. In a name, browsers and curl encode only quotes, as %22 (WHATWG,
 * "multipart/form-data"). */
static char *read_file_name(const char *given)
{
    const char *slash = strrchr(given, '/');
    g_autoptr(GString) name = g_string_new(slash != NULL ? slash + 1 : given);
    g_string_replace(name, "%22", "\"", 0);
    return file_name_is_valid(name->str) ? g_strdup(name->str) : NULL;
}

/* Returns -ENOENT if the part has another name, or no file name. */
static int read_part(struct span part, const char *field, struct multipart_file *ret_file)
{
    struct span header, body;
    mime_split(part, &header, &body);
    g_autofree char *part_name = mime_read_parameter(header, "Content-Disposition", "name");
    g_autofree char *given = mime_read_parameter(header, "Content-Disposition", "filename");
    if (g_strcmp0(part_name, field) != 0 || given == NULL)
        return -ENOENT;
    if (body.bytes == header.bytes + header.len) /* there is no blank line */
        return -EBADMSG;
    ret_file->name = read_file_name(given);
    if (ret_file->name == NULL)
        return -EINVAL;
    mime_read_type(header, MIME_TYPE_OF_BYTES, ret_file->content_type);
    ret_file->bytes = body.bytes;
    ret_file->len = body.len;
    return 0;
}

int multipart_find_file(const char *content_type, const char *body, size_t len, const char *field,
                        struct multipart_file *ret_file)
{
    struct mime_parts parts;
    struct span part;
    g_autofree char *boundary = header_text_decode_parameter(content_type, strlen(content_type), "boundary");
    if (boundary == NULL)
        return -EBADMSG;
    mime_parts_init(&parts, (struct span){body, len}, boundary);
    while (mime_next_part(&parts, &part)) {
        bool is_cut_off = !parts.is_closed && parts.rest.len == 0;
        int error = is_cut_off ? -EBADMSG : read_part(part, field, ret_file);
        if (error != -ENOENT)
            return error;
    }
    return parts.is_closed ? -ENOENT : -EBADMSG;
}
