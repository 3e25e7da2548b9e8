/* SPDX-License-Identifier: MIT */
/*
 * Each byte is read once, since comments and quoted strings outside brackets are skipped as a whole.
 */
#include "mail/message_id.h"

#include <glib.h>
#include <string.h>

#include "base/character.h"
#include "mail/header_text.h"
#include "mail/mime.h"

enum {
    VALUE_MAX_BYTES = 64 * 1024
};

/* Copies an id without the blanks that folding leaves in it. */
static void add_id(GPtrArray *ids, const char *begin, size_t len)
{
    g_autofree char *id = g_malloc(len + 1);
    size_t id_len = 0;
    for (size_t i = 0; i < len; i++)
        if (!character_is_blank(begin[i]))
            id[id_len++] = begin[i];
    id[id_len] = '\0';
    if (id_len > 0 && id_len <= MESSAGE_ID_MAX_BYTES && !character_has(id, CHARACTER_CONTROL))
        g_ptr_array_add(ids, g_steal_pointer(&id));
}

static void add_bracketed_ids(GPtrArray *ids, const char *at)
{
    while (at != NULL && *at != '\0') {
        if (*at == '(') {
            at = header_text_skip_comment(at);
        } else if (*at == '"') {
            at = header_text_skip_quoted(at);
        } else if (*at++ == '<') {
            size_t len = strcspn(at, "<>");
            if (at[len] == '>')
                add_id(ids, at, len);
            at += len;
        }
    }
}

static void add_bare_ids(GPtrArray *ids, const char *at)
{
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, " ,;()>\"");
        const char *sign = memchr(at, '@', len);
        if (*at == '(') {
            at = header_text_skip_comment(at);
        } else if (len == 0) {
            at++;
        } else if (sign == NULL || sign == at || sign == at + len - 1) {
            g_ptr_array_set_size(ids, 0);
            return;
        } else {
            add_id(ids, at, len);
            at += len;
        }
    }
}

char **message_id_list(const char *value, size_t len)
{
    size_t skipped = len > VALUE_MAX_BYTES ? len - VALUE_MAX_BYTES : 0;
    g_autofree char *text = header_text_decode(value + skipped, len - skipped);
    GPtrArray *ids = g_ptr_array_new_null_terminated(0, g_free, true);
    add_bracketed_ids(ids, text);
    if (strchr(text, '<') == NULL)
        add_bare_ids(ids, text);
    return (char **)g_ptr_array_free(ids, false);
}

char *message_id_first(const char *value, size_t len)
{
    g_auto(GStrv) ids = message_id_list(value, len);
    return g_strdup(ids[0]);
}

char *message_id_of(const char *bytes, size_t len)
{
    struct span header, body;
    mime_split((struct span){bytes, len}, &header, &body);
    struct span value = mime_find_field(header, "Message-ID");
    return message_id_first(value.bytes, value.len);
}
