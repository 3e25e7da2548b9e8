/* SPDX-License-Identifier: MIT */
/*
 * Content types. Formats that are text or zip archives inside are told by their extensions: libmagic sees the
 * outside.
 */
#include "outbox/content_type.h"

#include <ctype.h>
#include <magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/log.h"

#define OPEN_XML "application/vnd.openxmlformats-officedocument."
#define OPEN_DOCUMENT "application/vnd.oasis.opendocument."

static const struct {
    const char *extension;
    const char *type;
} by_extension[] = {
    {"csv", "text/csv"},
    {"css", "text/css"},
    {"docx", OPEN_XML "wordprocessingml.document"},
    {"eml", "message/rfc822"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ics", "text/calendar"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"md", "text/markdown"},
    {"odp", OPEN_DOCUMENT "presentation"},
    {"ods", OPEN_DOCUMENT "spreadsheet"},
    {"odt", OPEN_DOCUMENT "text"},
    {"pptx", OPEN_XML "presentationml.presentation"},
    {"svg", "image/svg+xml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"vcf", "text/vcard"},
    {"xlsx", OPEN_XML "spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
};

void content_type_release(struct content_type *type)
{
    if (type->magic != NULL)
        magic_close(type->magic);
    *type = (struct content_type){0};
}

static magic_t open_magic(struct content_type *type)
{
    if (type->is_opened)
        return type->magic;
    type->is_opened = 1;
    magic_t magic = magic_open(MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS);
    if (magic != NULL && magic_load(magic, NULL) != 0) {
        log_warning("libmagic has no database; content types come from names alone");
        magic_close(magic);
        magic = NULL;
    }
    type->magic = magic;
    return magic;
}

/* Whether the content is of a kind that other formats hide in: only then may the name say more. */
static bool is_vague(const char *type)
{
    return strncmp(type, "text/", 5) == 0 || strcmp(type, "application/octet-stream") == 0 ||
           strcmp(type, "application/zip") == 0 || strcmp(type, "application/json") == 0;
}

static const char *find_by_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < ARRAY_LEN(by_extension); i++)
        if (strcasecmp(dot + 1, by_extension[i].extension) == 0)
            return by_extension[i].type;
    return NULL;
}

/* What libmagic says becomes a header field: only "token/token" is let through. */
static bool is_type(const char *text)
{
    const char *slash = strchr(text, '/');
    if (slash == NULL || slash == text || slash[1] == '\0' || strlen(text) >= CONTENT_TYPE_SIZE)
        return false;
    for (const char *c = text; *c != '\0'; c++)
        if (c != slash && !isalnum((unsigned char)*c) && strchr("!#$&^_.+-", *c) == NULL)
            return false;
    return true;
}

void content_type_find(struct content_type *type, const char *name, const void *bytes, size_t len,
                       char ret_type[CONTENT_TYPE_SIZE])
{
    const char *found = NULL;
    magic_t magic = open_magic(type);
    if (magic != NULL)
        found = magic_buffer(magic, bytes, len);
    if (found == NULL || !is_type(found))
        found = "application/octet-stream";
    const char *named = is_vague(found) ? find_by_name(name) : NULL;
    snprintf(ret_type, CONTENT_TYPE_SIZE, "%s", named != NULL ? named : found);
}
