/* SPDX-License-Identifier: MIT */
/*
 * Requests as endpoints read them: headers, JSON bodies, forms.
 *
 * The boundaries of a form are found here, since GMime would take apart parts that are messages themselves.
 * libmicrohttpd's post processor (0.9.75) would take apart parts that are multipart, refuse a file with a
 * line that begins like the boundary, and cut a name at a backslashed quote. Content-Types are GMime's to
 * read; it would take every backslash out of a name.
 */
#include "service/request.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "mail/file_name.h"
#include "mail/header_text.h"

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static void reply_not_json(struct reply *reply, const json_error_t *error)
{
    json_t *problem = json_pack("{s:[s, i], s:s, s:s, s:{s:s}}", "loc", "body", error->position, "msg",
                                "JSON decode error", "type", "json_invalid", "ctx", "error", error->text);
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:[o]}", "detail", problem));
}

json_t *request_read_object(const struct request *request, struct reply *reply)
{
    json_error_t error;
    json_t *value = json_loadb(strbuf_str(&request->body), request->body.len, JSON_DECODE_ANY, &error);
    if (value == NULL) {
        reply_not_json(reply, &error);
        return NULL;
    }
    if (json_is_object(value))
        return value;
    json_decref(value);
    reply_invalid_at(reply, &(struct location){.name = "body"}, "model_attributes_type",
                     "Input should be a valid dictionary");
    return NULL;
}

/* ---------------------------------------------------------------- forms */

enum {
    BOUNDARY_MAX_BYTES = 200, /* RFC 2046 allows 70; some clients are longer */
    HEADERS_MAX_BYTES = 16384,
    CONTENT_TYPE_MAX_BYTES = 255,
};

struct form {
    const char *at; /* what was not read yet */
    const char *end;
    char delimiter[BOUNDARY_MAX_BYTES + 5]; /* "\r\n--boundary" */
    size_t delimiter_len;
};

static int find_boundary(const char *content_type, struct form *form)
{
    GMimeContentType *type = g_mime_content_type_parse(NULL, content_type);
    const char *boundary = g_mime_content_type_get_parameter(type, "boundary");
    int error = -EBADMSG;
    if (boundary != NULL && boundary[0] != '\0' && strlen(boundary) <= BOUNDARY_MAX_BYTES) {
        form->delimiter_len =
            (size_t)snprintf(form->delimiter, sizeof(form->delimiter), "\r\n--%s", boundary);
        error = 0;
    }
    g_object_unref(type);
    return error;
}

/* Past a delimiter that ends at `at`: the start of the next line, or NULL when that was no delimiter line. */
static const char *delimiter_line_end(const char *at, const char *end, bool *ret_is_last)
{
    *ret_is_last = end - at >= 2 && at[0] == '-' && at[1] == '-';
    if (*ret_is_last)
        return at + 2;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return end - at >= 2 && at[0] == '\r' && at[1] == '\n' ? at + 2 : NULL;
}

/* The content up to the next delimiter line, past which form->at is moved. */
static int next_content(struct form *form, const char **ret_end, bool *ret_is_last)
{
    const char *from = form->at;
    for (;;) {
        const char *found = memmem(from, (size_t)(form->end - from), form->delimiter, form->delimiter_len);
        if (found == NULL)
            return -EBADMSG;
        const char *next = delimiter_line_end(found + form->delimiter_len, form->end, ret_is_last);
        if (next != NULL) {
            *ret_end = found;
            form->at = next;
            return 0;
        }
        from = found + 2;
    }
}

/* A copy of a header's value from the lines of `headers`; NULL when it is not there. Folded lines (RFC 5322)
 * are not allowed in forms and not read. */
static char *copy_header(const char *headers, const char *end, const char *name)
{
    size_t name_len = strlen(name);
    while (headers < end) {
        const char *line_end = memmem(headers, (size_t)(end - headers), "\r\n", 2);
        if (line_end == NULL)
            line_end = end;
        if ((size_t)(line_end - headers) > name_len && strncasecmp(headers, name, name_len) == 0 &&
            headers[name_len] == ':') {
            const char *value = headers + name_len + 1;
            return strndup(value, (size_t)(line_end - value));
        }
        headers = line_end + 2;
    }
    return NULL;
}

/* Browsers and curl write a quote in a name as %22, and nothing else (WHATWG, "multipart/form-data"). */
static void decode_quotes(char *name)
{
    char *to = name;
    for (const char *from = name; *from != '\0'; to++) {
        bool is_quote = strncmp(from, "%22", 3) == 0;
        *to = is_quote ? '"' : *from;
        from += is_quote ? 3 : 1;
    }
    *to = '\0';
}

static int check_name(const char *given, char **ret_name)
{
    const char *slash = strrchr(given, '/');
    _cleanup_free_ char *name = strdup(slash != NULL ? slash + 1 : given);
    if (name == NULL)
        return -ENOMEM;
    decode_quotes(name);
    if (!file_name_is_valid(name))
        return -EINVAL;
    *ret_name = TAKE_PTR(name);
    return 0;
}

/* The file name when the part is the field that is searched for. 0, -ENOENT, -EINVAL, -ENOMEM. */
static int read_disposition(const char *headers, const char *end, const char *field, char **ret_name)
{
    _cleanup_free_ char *value = copy_header(headers, end, "Content-Disposition");
    if (value == NULL)
        return -ENOENT;
    _cleanup_free_ char *part = NULL;
    _cleanup_free_ char *name = NULL;
    int error = header_text_decode_parameter(value, strlen(value), "name", &part);
    if (error == 0 && strcmp(part, field) != 0)
        error = -ENOENT;
    if (error == 0)
        error = header_text_decode_parameter(value, strlen(value), "filename", &name);
    return error != 0 ? error : check_name(name, ret_name);
}

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if (!g_ascii_isgraph(*text))
            return false;
    }
    return true;
}

static char *read_content_type(const char *headers, const char *end)
{
    _cleanup_free_ char *value = copy_header(headers, end, "Content-Type");
    if (value == NULL || strchr(value, '/') == NULL)
        return strdup("application/octet-stream");
    GMimeContentType *type = g_mime_content_type_parse(NULL, value);
    char *mime_type = g_mime_content_type_get_mime_type(type);
    bool is_usable = strlen(mime_type) <= CONTENT_TYPE_MAX_BYTES && is_printable(mime_type);
    char *copy = strdup(is_usable ? mime_type : "application/octet-stream");
    g_free(mime_type);
    g_object_unref(type);
    return copy;
}

static int read_part(const char *part, const char *end, const char *field, struct multipart_file *ret_file)
{
    size_t len = (size_t)(end - part);
    const char *blank = memmem(part, len < HEADERS_MAX_BYTES ? len : HEADERS_MAX_BYTES, "\r\n\r\n", 4);
    if (blank == NULL)
        return -EBADMSG;
    _cleanup_free_ char *name = NULL;
    int error = read_disposition(part, blank, field, &name);
    if (error != 0)
        return error;
    char *content_type = read_content_type(part, blank);
    if (content_type == NULL)
        return -ENOMEM;
    *ret_file = (struct multipart_file){
        .name = TAKE_PTR(name),
        .content_type = content_type,
        .bytes = blank + 4,
        .len = (size_t)(end - (blank + 4)),
    };
    return 0;
}

int multipart_find_file(const char *content_type, const char *body, size_t len, const char *field,
                        struct multipart_file *ret_file)
{
    struct form form = {.at = body, .end = body + len};
    int error = find_boundary(content_type, &form);
    if (error != 0)
        return error;

    bool is_last = false;
    const char *end = NULL;
    size_t first_len = form.delimiter_len - 2;
    bool has_preamble = len < first_len || memcmp(body, form.delimiter + 2, first_len) != 0;
    if (has_preamble)
        error = next_content(&form, &end, &is_last);
    else if ((form.at = delimiter_line_end(body + first_len, form.end, &is_last)) == NULL)
        error = -EBADMSG;

    while (error == 0 && !is_last) {
        /* An empty part's delimiter shares the line end of the one before. */
        const char *part = form.at;
        form.at -= 2;
        error = next_content(&form, &end, &is_last);
        if (error != 0 || end < part)
            continue;
        error = read_part(part, end, field, ret_file);
        if (error != -ENOENT)
            return error;
        error = 0;
    }
    return error != 0 ? error : -ENOENT;
}

void multipart_file_release(struct multipart_file *file)
{
    free(file->name);
    free(file->content_type);
    *file = (struct multipart_file){0};
}
