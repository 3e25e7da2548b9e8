/* SPDX-License-Identifier: MIT */
/*
 * Checks of the header. Of two lengths a proxy before this service may have believed the other one (RFC 9112,
 * section 6.3). A page of a stranger's site can have its own name resolved to this machine, and then speaks
 * to this service from within a user's browser, but it cannot keep that name out of Host.
 */
#include "service/request_head.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
    HOST_MAX_BYTES = 255,
};

struct head {
    unsigned int lengths, encodings, hosts;
    bool has_bad_name;
};

/* RFC 9110, section 5.6.2. A blank before the colon makes it another name to this service than to others. */
static bool is_token(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

static enum MHD_Result read_header(void *context, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind, (void)value;
    struct head *head = context;
    head->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    head->encodings += strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    head->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    if (!is_token(name))
        head->has_bad_name = true;
    return MHD_YES;
}

bool request_head_is_endless(const struct request *request)
{
    const char *encoding = request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    return encoding != NULL && strcasecmp(encoding, "chunked") != 0;
}

/* The host without its port; false where it has no such form. */
static bool read_host(const char *value, char ret_host[HOST_MAX_BYTES + 1])
{
    bool is_bracketed = value[0] == '[';
    const char *host = value + is_bracketed;
    size_t len = strcspn(host, is_bracketed ? "]" : ":");
    const char *rest = host + len;
    if (is_bracketed && *rest++ != ']')
        return false;
    if (*rest != '\0' && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")] != '\0'))
        return false;
    if (len == 0 || len > HOST_MAX_BYTES)
        return false;
    memcpy(ret_host, host, len);
    ret_host[len] = '\0';
    return true;
}

static bool is_loopback_name(const char *host)
{
    static const char name[] = "localhost";
    size_t len = strlen(host);
    size_t name_len = strlen(name);
    return len >= name_len && strcasecmp(host + len - name_len, name) == 0 &&
           (len == name_len || host[len - name_len - 1] == '.');
}

/* An address is nobody's name, so that nobody can have it resolved to another one. */
static bool is_address(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static bool is_ours(const char *host, const struct account *account)
{
    if (is_address(host) || is_loopback_name(host) || strcasecmp(host, account->domain) == 0)
        return true;
    for (const char *const *name = account->hosts; name != NULL && *name != NULL; name++) {
        if (strcasecmp(host, *name) == 0)
            return true;
    }
    return false;
}

static void check_host(const struct request *request, const char *version, unsigned int hosts,
                       struct reply *reply)
{
    char host[HOST_MAX_BYTES + 1];
    const char *value = request_header(request, MHD_HTTP_HEADER_HOST);
    if (hosts > 1 || (hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0))
        reply_error(reply, MHD_HTTP_BAD_REQUEST, "One Host is needed.");
    else if (value != NULL && (!read_host(value, host) || !is_ours(host, request->account)))
        reply_error(
            reply, MHD_HTTP_MISDIRECTED_REQUEST,
            "The service does not go by the name in Host: use its address, or start it with --allow-host.");
}

bool request_head_check(const struct request *request, const char *version, struct reply *reply)
{
    struct head head = {0};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, read_header, &head);
    bool has_one_end =
        head.lengths + head.encodings <= 1 && !head.has_bad_name && !request_head_is_endless(request);
    if (has_one_end)
        check_host(request, version, head.hosts, reply);
    else
        reply_error(reply, MHD_HTTP_BAD_REQUEST,
                    "The header does not say in one way where the request ends.");
    return has_one_end;
}
