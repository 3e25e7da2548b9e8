/* SPDX-License-Identifier: MIT */
/*
 * GLib parses the URL up to its path. GLib accepts more than this program should, so each part is checked.
 * The path is copied, since GLib would normalize it.
 */
#include "api/base_url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <strings.h>

#include "mail/reason.h"

enum {
    URL_MAX_BYTES = 2048
};

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Returns NULL, with *ret_uri (the caller releases it) and *ret_path; else what is wrong with the URL. */
static const char *parse(const char *url, GUri **ret_uri, const char **ret_path)
{
    static const char url_characters[] = LETTERS_AND_DIGITS "-._~:/?#[]@!$&'()*+,;=%";
    static const char host_characters[] = LETTERS_AND_DIGITS "-._:";
    if (strlen(url) > URL_MAX_BYTES)
        return "the base URL is too long";
    if (url[strspn(url, url_characters)] != '\0')
        return "the base URL has a character that no URL has";
    if (strpbrk(url, "?#") != NULL)
        return "the base URL must not have a query or a fragment";
    if (strncasecmp(url, "https://", 8) != 0 && strncasecmp(url, "http://", 7) != 0)
        return "the base URL must start with https:// or http://";
    const char *authority = strstr(url, "//") + 2;
    const char *path = strchrnul(authority, '/');
    if (memchr(authority, '@', (size_t)(path - authority)) != NULL)
        return "the base URL must not have credentials; the key comes from a file or the environment";
    g_autofree char *start = g_strndup(url, (size_t)(path - url));
    g_autoptr(GError) error = NULL;
    g_autoptr(GUri) uri = g_uri_parse(start, G_URI_FLAGS_NONE, &error);
    if (g_error_matches(error, G_URI_ERROR, G_URI_ERROR_BAD_PORT) ||
        (uri != NULL && g_uri_get_port(uri) == 0))
        return "the base URL has no usable port";
    const char *host = uri != NULL ? g_uri_get_host(uri) : "";
    if (*host == '\0' || host[strspn(host, host_characters)] != '\0' || strchr(start, '%') != NULL)
        return "the base URL has no usable host";
    *ret_uri = g_steal_pointer(&uri);
    *ret_path = path;
    return NULL;
}

/* Returns true for hosts that no name server can redirect: "localhost" (RFC 6761), 127.0.0.0/8 and ::1. */
static bool is_loopback(const char *host)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

/* Returns the length without final slashes and without /api/v1 before them. */
static size_t base_path_len(const char *path)
{
    static const char api[] = "/api/v1";
    const size_t api_len = strlen(api);
    size_t len = strlen(path);
    for (;;) {
        if (len > 0 && path[len - 1] == '/')
            len--;
        else if (len >= api_len && memcmp(path + len - api_len, api, api_len) == 0)
            len -= api_len;
        else
            return len;
    }
}

int base_url_check(const char *url, bool allow_http, char **ret_base, char **ret_reason)
{
    g_autoptr(GUri) uri = NULL;
    const char *path;
    const char *problem = parse(url, &uri, &path);
    if (problem != NULL)
        return reason_give(ret_reason, -EINVAL, "%s", problem);
    const char *scheme = g_uri_get_scheme(uri);
    const char *host = g_uri_get_host(uri);
    int port = g_uri_get_port(uri);
    bool is_https = strcmp(scheme, "https") == 0;
    if (!is_https && !allow_http && !is_loopback(host))
        return reason_give(
            ret_reason, -EACCES,
            "plain HTTP to another host would show the key to everyone on the way; use https:// "
            "(or --allow-http)");
    GString *base = g_string_new(NULL);
    g_autofree char *lower_host = g_ascii_strdown(host, -1);
    g_string_append_printf(base, strchr(host, ':') != NULL ? "%s://[%s]" : "%s://%s", scheme, lower_host);
    if (port != -1 && port != (is_https ? 443 : 80))
        g_string_append_printf(base, ":%d", port);
    g_string_append_len(base, path, (gssize)base_path_len(path));
    *ret_base = g_string_free(base, false);
    return 0;
}
