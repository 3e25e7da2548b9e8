/* SPDX-License-Identifier: MIT */
/*
 * The URL is parsed here, since libcurl's parser accepts far more than this program should.
 */
#include "api/base_url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/strbuf.h"
#include "mail/reason.h"

enum {
    URL_MAX_BYTES = 2048
};

struct url_parts {
    bool is_https;
    const char *host; /* with the brackets of an IPv6 address */
    size_t host_len;
    unsigned long port; /* 0: the default of the scheme */
    const char *path;
    size_t path_len;
};

static const char *check_characters(const char *url)
{
    if (strlen(url) > URL_MAX_BYTES)
        return "the base URL is too long";
    for (const char *c = url; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || strchr("\"<>\\^`{|}", *c) != NULL)
            return "the base URL has a character that no URL has";
    }
    if (strpbrk(url, "?#") != NULL)
        return "the base URL must not have a query or a fragment";
    return NULL;
}

/* Returns 0 if the authority does not begin with a host. */
static size_t host_length(const char *authority, size_t len)
{
    if (len == 0 || authority[0] != '[')
        return strspn(authority, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
    size_t address_len = strspn(authority + 1, "0123456789abcdefABCDEF:.");
    return authority[1 + address_len] == ']' ? address_len + 2 : 0;
}

static const char *parse_authority(const char *authority, size_t len, struct url_parts *parts)
{
    if (memchr(authority, '@', len) != NULL)
        return "the base URL must not have credentials; the key comes from a file or the environment";
    parts->host = authority;
    parts->host_len = host_length(authority, len);
    const char *port = authority + parts->host_len;
    size_t digits = len - parts->host_len;
    if (parts->host_len == 0 || (digits > 0 && *port != ':'))
        return "the base URL has no usable host";
    if (digits == 0)
        return NULL;
    if (digits > 6 || strspn(port + 1, "0123456789") < digits - 1)
        return "the base URL has no usable port";
    parts->port = digits > 1 ? strtoul(port + 1, NULL, 10) : 0;
    if (parts->port > 65535 || (parts->port == 0 && digits > 1))
        return "the base URL has no usable port";
    if (parts->port == (parts->is_https ? 443 : 80))
        parts->port = 0;
    return NULL;
}

static size_t without_slashes(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] == '/')
        len--;
    return len;
}

static const char *parse(const char *url, struct url_parts *parts)
{
    static const char api[] = "/api/v1";
    const char *problem = check_characters(url);
    if (problem != NULL)
        return problem;
    parts->is_https = strncasecmp(url, "https://", 8) == 0;
    if (!parts->is_https && strncasecmp(url, "http://", 7) != 0)
        return "the base URL must start with https:// or http://";
    const char *authority = url + (parts->is_https ? 8 : 7);
    size_t authority_len = strcspn(authority, "/");
    parts->path = authority + authority_len;
    parts->path_len = without_slashes(parts->path, strlen(parts->path));
    size_t api_len = strlen(api);
    while (parts->path_len >= api_len && memcmp(parts->path + parts->path_len - api_len, api, api_len) == 0)
        parts->path_len = without_slashes(parts->path, parts->path_len - api_len);
    return parse_authority(authority, authority_len, parts);
}

/* Only hosts that no name server can redirect: "localhost" (RFC 6761), 127.0.0.0/8 and ::1. */
static bool is_loopback(const struct url_parts *parts)
{
    char host[64];
    if (parts->host_len >= sizeof(host))
        return false;
    memcpy(host, parts->host, parts->host_len);
    host[parts->host_len] = '\0';
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0;
}

int base_url_check(const char *url, bool allow_http, char **ret_base, char **ret_reason)
{
    struct url_parts parts = {.port = 0};
    const char *problem = parse(url, &parts);
    if (problem != NULL)
        return reason_give(ret_reason, -EINVAL, "%s", problem);
    if (!parts.is_https && !allow_http && !is_loopback(&parts))
        return reason_give(
            ret_reason, -EACCES,
            "plain HTTP to another host would show the key to everyone on the way; use https:// "
            "(or --allow-http)");
    _cleanup_strbuf_ struct strbuf base = STRBUF_INIT(URL_MAX_BYTES + 16);
    strbuf_append_str(&base, parts.is_https ? "https://" : "http://");
    for (size_t i = 0; i < parts.host_len; i++)
        strbuf_append_char(&base, (char)tolower((unsigned char)parts.host[i]));
    if (parts.port != 0)
        strbuf_appendf(&base, ":%lu", parts.port);
    strbuf_append(&base, parts.path, parts.path_len);
    char *text = strbuf_take(&base, NULL);
    if (text == NULL)
        return reason_give(ret_reason, -ENOMEM, "out of memory");
    *ret_base = text;
    return 0;
}
