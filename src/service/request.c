/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd's post processor (0.9.75) is not used for forms: it splits parts that are multipart, refuses
 * a file with a line that begins like the boundary, and cuts a name at a backslashed quote.
 */
#include "service/request.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
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

/* In a name, browsers and curl encode only quotes, as %22 (WHATWG, "multipart/form-data"). */
static int read_file_name(const char *given, char **ret_name)
{
    const char *slash = strrchr(given, '/');
    _cleanup_free_ char *name = g_strdup(slash != NULL ? slash + 1 : given);
    char *to = name;
    for (const char *from = name; *from != '\0'; to++) {
        bool is_quote = strncmp(from, "%22", 3) == 0;
        *to = is_quote ? '"' : *from;
        from += is_quote ? 3 : 1;
    }
    *to = '\0';
    if (!file_name_is_valid(name))
        return -EINVAL;
    *ret_name = TAKE_PTR(name);
    return 0;
}

/* Returns -ENOENT if the part has another name, or no file name. */
static int read_part(struct span part, const char *field, struct multipart_file *ret_file)
{
    struct span header, body;
    char content_type[MIME_TYPE_SIZE];
    _cleanup_free_ char *name = NULL;
    mime_split(part, &header, &body);
    g_autofree char *part_name = mime_read_parameter(header, "Content-Disposition", "name");
    g_autofree char *given = mime_read_parameter(header, "Content-Disposition", "filename");
    if (g_strcmp0(part_name, field) != 0 || given == NULL)
        return -ENOENT;
    int error = read_file_name(given, &name);
    bool has_blank_line = body.bytes != header.bytes + header.len;
    if (error != 0 || !has_blank_line)
        return error != 0 ? error : -EBADMSG;
    mime_read_type(header, MIME_TYPE_OF_BYTES, content_type);
    *ret_file = (struct multipart_file){TAKE_PTR(name), g_strdup(content_type), body.bytes, body.len};
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

void multipart_file_release(struct multipart_file *file)
{
    free(file->name);
    free(file->content_type);
    *file = (struct multipart_file){0};
}
