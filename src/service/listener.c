/* SPDX-License-Identifier: MIT */
#include "service/listener.h"

#include <errno.h>
#include <glib.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"

enum {
    BACKLOG = 1024, /* while this queue is full, the kernel may cut a client off after connect() */
    PORT_MAX = 65535,
};

static const char unix_prefix[] = "unix:";

static const char *unix_path(const char *text)
{
    size_t len = strlen(unix_prefix);
    return strncmp(text, unix_prefix, len) == 0 ? text + len : NULL;
}

/* ECONNREFUSED means that a killed service left the socket behind. The probe does not wait for a service
 * whose queue is full. */
static void remove_stale_socket(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return;
    _cleanup_close_ int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return;
    if (connect(probe, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED)
        unlink(address->sun_path);
}

static int open_unix(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path[0] == '\0')
        return -EINVAL;
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    remove_stale_socket(&address);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* On Linux the mode of the socket becomes the mode of its name, so other users can never connect. */
    if (fd < 0 || fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, BACKLOG) != 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* getaddrinfo() would read 65616 as 80. */
static bool is_port(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 5 && strspn(text, "0123456789") == len && strtol(text, NULL, 10) <= PORT_MAX;
}

static int resolve_address(const char *text, struct addrinfo **ret_info)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || !is_port(colon + 1))
        return -EINVAL;
    bool is_bracketed = text[0] == '[' && colon[-1] == ']';
    size_t len = (size_t)(colon - text);
    _cleanup_free_ char *host = is_bracketed ? g_strndup(text + 1, len - 2) : g_strndup(text, len);
    const char *name = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    int result = getaddrinfo(name, colon + 1, &hints, ret_info);
    return result == 0 ? 0 : result == EAI_MEMORY ? -ENOMEM : -EINVAL;
}

/* The caller frees the address. */
static char *describe_address(int fd)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(address);
    char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
    getsockname(fd, (struct sockaddr *)&address, &len);
    getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    return g_strdup_printf(address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int open_inet(const char *text, int *ret_fd, char **ret_address)
{
    struct addrinfo *info = NULL;
    int error = resolve_address(text, &info);
    if (error != 0)
        return error;
    _cleanup_close_ int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        error = -errno;
    freeaddrinfo(info);
    if (error != 0)
        return error;
    *ret_address = describe_address(fd);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int listener_open(const char *text, int *ret_fd, char **ret_address)
{
    const char *path = unix_path(text);
    if (path == NULL)
        return open_inet(text, ret_fd, ret_address);
    int error = open_unix(path, ret_fd);
    if (error == 0)
        *ret_address = g_strdup(text);
    return error;
}

void listener_close(int fd, char *address)
{
    if (address == NULL)
        return;
    close(fd);
    if (unix_path(address) != NULL)
        unlink(unix_path(address));
    free(address);
}

bool listener_accepts_other_machines(const char *address)
{
    static const char *const local[] = {unix_prefix, "127.", "[::1]:"};
    for (size_t i = 0; i < ARRAY_LEN(local); i++) {
        if (strncmp(address, local[i], strlen(local[i])) == 0)
            return false;
    }
    return true;
}
