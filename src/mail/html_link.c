/* SPDX-License-Identifier: MIT */
/*
 * Links.
 */
#include "mail/html_link.h"

#include <glib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
    LINK_MAX_BYTES = 2048
};

/* U+0080 to U+009F: to terminals they are commands. */
static bool is_c1_control(const char *c)
{
    return (unsigned char)c[0] == 0xc2 && (unsigned char)c[1] < 0xa0;
}

/* Only addresses that lead somewhere from a text file, too. */
static bool is_worth_showing(const char *address, size_t len)
{
    static const char *const schemes[] = {"http:", "https:", "mailto:", "tel:", "ftp:"};
    if (len > LINK_MAX_BYTES)
        return false;
    for (const char *c = address; c < address + len; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '<' || *c == '>' || is_c1_control(c))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(address, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

char *html_link_address(const char *href)
{
    while (g_ascii_isspace(*href))
        href++;
    size_t len = strlen(href);
    while (len > 0 && g_ascii_isspace(href[len - 1]))
        len--;
    if (!is_worth_showing(href, len))
        return NULL;
    if (strncasecmp(href, "mailto:", 7) != 0)
        return strndup(href, len);
    size_t address_len = strcspn(href + 7, "? ");
    return address_len > 0 ? strndup(href + 7, address_len) : NULL;
}

static size_t scheme_len(const char *address)
{
    const char *slashes = strstr(address, "://");
    if (slashes != NULL)
        return (size_t)(slashes - address) + strlen("://");
    return strncasecmp(address, "tel:", 4) == 0 ? 4 : 0;
}

static size_t len_without_slash(const char *text, size_t len)
{
    return len > 0 && text[len - 1] == '/' ? len - 1 : len;
}

bool html_link_is_said(const char *text, size_t len, const char *address)
{
    size_t scheme = scheme_len(address);
    const char *bare = address + scheme;
    if (len > scheme && strncasecmp(text, address, scheme) == 0) {
        text += scheme;
        len -= scheme;
    }
    len = len_without_slash(text, len);
    return len == len_without_slash(bare, strlen(bare)) && strncasecmp(text, bare, len) == 0;
}
