/* SPDX-License-Identifier: MIT */
/*
 * The servers are started last, so that each client that can connect is served.
 */
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <gmime/gmime.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/reason.h"
#include "service/keys.h"
#include "service/listener.h"
#include "service/search_index.h"
#include "service/server.h"
#include "service/smtp_server.h"
#include "service/validation.h"

enum {
    SMTP_CONNECTIONS_MAX = 64, /* each has a thread */
    SMTP_IDLE_MS = 300 * 1000, /* RFC 5321, section 4.5.3.2.7 */
    LARGE_BLOCK_BYTES = 1024 * 1024,
};

/* A listening socket and its server. One of the two servers is NULL. */
struct open_door {
    int fd;
    char *address; /* with the real port; NULL if nothing listens */
    struct server *http;
    struct smtp_server *smtp; /* SMTP or LMTP */
};

struct service {
    int dir_fd;
    int lock_fd;
    struct service_context context;
    struct outgoing *outgoing[OUTGOING_KINDS]; /* NULL without a relay or webhooks */
    struct search_index index;
    SSL_CTX *tls;            /* NULL without TLS */
    struct open_door *doors; /* in the configuration's order */
    size_t doors_len;
};

void service_stop(struct service *service)
{
    if (service == NULL)
        return;
    /* Messages under way by SMTP and LMTP are finished before requests. */
    for (size_t i = 0; i < service->doors_len; i++)
        smtp_server_free(service->doors[i].smtp);
    for (size_t i = 0; i < service->doors_len; i++)
        server_free(service->doors[i].http);
    for (size_t i = 0; i < service->doors_len; i++)
        listener_close(service->doors[i].fd, service->doors[i].address);
    free(service->doors);
    SSL_CTX_free(service->tls);
    for (size_t kind = 0; kind < OUTGOING_KINDS; kind++)
        outgoing_free(service->outgoing[kind]);
    search_index_stop(&service->index);
    database_free(service->context.database);
    const int fds[] = {service->context.pool_fd, service->dir_fd, service->lock_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    free(service);
}

static void cleanup_service(struct service **service)
{
    service_stop(*service);
}

static int explain_error(char **ret_reason, int error, const char *what, const char *subject)
{
    const char *why = error == -EPROTO    ? "it was written by a newer version"
                      : error == -EUCLEAN ? "it is damaged, or none of this service's"
                                          : strerrordesc_np(-error);
    return reason_give(ret_reason, error, "%s %s: %s", what, subject, why);
}

static int open_directory(struct service *service, const char *data_dir, char **ret_reason)
{
    service->dir_fd = file_open_dir(AT_FDCWD, data_dir);
    if (service->dir_fd < 0)
        return explain_error(ret_reason, service->dir_fd, "cannot open the data directory", data_dir);
    /* Another user who can write there could add a key, and read all mail with it. */
    const char *why = file_why_not_private(service->dir_fd);
    if (why != NULL)
        return reason_give(ret_reason, -EPERM, "the data directory %s: %s", data_dir, why);
    service->lock_fd = openat(service->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (service->lock_fd >= 0 && flock(service->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return reason_give(ret_reason, -EBUSY, "another service is running on %s", data_dir);
    return explain_error(ret_reason, -errno, "cannot lock the data directory", data_dir);
}

static int open_data(struct service *service, const struct service_config *config, char **ret_reason)
{
    const char *data_dir = config->data_dir;
    int error = open_directory(service, data_dir, ret_reason);
    if (error != 0)
        return error;
    struct service_context *context = &service->context;
    error =
        tables_open(service->dir_fd, config->is_alone ? DATABASE_ALONE : DATABASE_SHARED, &context->database);
    if (error != 0)
        return explain_error(ret_reason, error, "cannot open the database in", data_dir);
    context->pool_fd = file_open_dir(service->dir_fd, "pool");
    if (context->pool_fd < 0)
        return explain_error(ret_reason, context->pool_fd, "cannot open the attachment pool in", data_dir);
    error = keys_establish_first(context->database, service->dir_fd);
    return error != 0 ? explain_error(ret_reason, error, "cannot make the API key in", data_dir) : 0;
}

static int open_door(struct service *service, const struct service_door *door, char **ret_reason)
{
    struct open_door *open = &service->doors[service->doors_len++];
    int error = listener_open(door->listen, &open->fd, &open->address);
    bool is_lmtp = door->protocol == SERVICE_LMTP;
    const struct smtp_server_config config = {
        .listen_fd = open->fd,
        .dialect = is_lmtp ? DIALECT_LMTP : DIALECT_SMTP,
        .domain = service->context.domain,
        .database = service->context.database,
        .new_inboxes = is_lmtp                      ? NULL
                       : service->context.has_relay ? service->context.domain
                                                    : "",
        .tls = service->tls,
        .connections_max = SMTP_CONNECTIONS_MAX,
        .idle_ms = SMTP_IDLE_MS,
    };
    if (error == 0)
        error = door->protocol == SERVICE_HTTP ? server_start(open->fd, &service->context, &open->http)
                                               : smtp_server_start(&config, &open->smtp);
    const char *what = error == -EINVAL ? "neither ADDRESS:PORT, with a numeric address, nor unix:PATH:"
                                        : "cannot listen on";
    return error != 0 ? explain_error(ret_reason, error, what, door->listen) : 0;
}

static int start_service(const struct service_config *config, struct service **ret_service, char **ret_reason)
{
    _cleanup_(cleanup_service) struct service *service = g_new0(struct service, 1);
    service->dir_fd = service->lock_fd = service->context.pool_fd = -1;
    size_t doors_len = 0;
    while (config->doors[doors_len].listen != NULL)
        doors_len++;
    service->doors = g_new0(struct open_door, doors_len);
    service->context.domain = config->domain;
    service->context.hosts = config->hosts;
    service->context.daily_limit = config->daily_limit;
    service->context.has_relay = config->relay.url != NULL;
    g_mime_init();
    /* A large message gets a mapping of its own, whose memory returns to the kernel when it is freed. */
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
    if (!validate_is_domain(config->domain))
        return explain_error(ret_reason, -EINVAL, "no address can be on the domain", config->domain);
    int error = open_data(service, config, ret_reason);
    if (error == 0)
        error = relay_new(&config->relay, config->domain, &service->outgoing[OUTGOING_RELAY], ret_reason);
    if (error == 0)
        error = webhook_new(&config->webhook, &service->outgoing[OUTGOING_WEBHOOK], ret_reason);
    for (int kind = 0; kind < OUTGOING_KINDS && error == 0; kind++)
        error = outgoing_start(service->context.database, (enum outgoing_kind)kind, service->outgoing[kind]);
    if (error == 0)
        error = search_index_start(&service->index, service->context.database);
    if (error == 0)
        error = tls_context_new(&config->tls, &service->tls, ret_reason);
    for (size_t i = 0; i < doors_len && error == 0; i++)
        error = open_door(service, &config->doors[i], ret_reason);
    if (error == 0)
        *ret_service = TAKE_PTR(service);
    return error;
}

int service_start(const struct service_config *config, struct service **ret_service, char **ret_reason)
{
    *ret_reason = NULL;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = start_service(config, ret_service, ret_reason);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

const char *service_address(const struct service *service, size_t door)
{
    return service->doors[door].address;
}
