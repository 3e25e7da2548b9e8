/* SPDX-License-Identifier: MIT */
/*
 * Opens the account: the API key, the state directory, then the local service or a service elsewhere.
 */
#include "mail_account.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "api/api_service.h"
#include "api/base_url.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "mail/reason.h"
#include "service/service.h"
#include "state_dir.h"

enum {
    CA_FILE_MAX_BYTES = 64 * 1024 * 1024
};

#define LOCAL_DOMAIN "inbox.localhost"
#define LOCAL_BASE_URL "http://" LOCAL_DOMAIN

/* ---------------------------------------------------------------- the API key */

/* A key is sent in a header line, so it is one word of printable ASCII. */
static int copy_key(const char *text, char **ret_key)
{
    static const char blanks[] = " \t\r\n";
    const char *start = text + strspn(text, blanks);
    size_t len = 0;
    while (g_ascii_isgraph(start[len]))
        len++;
    if (len == 0 || start[len + strspn(start + len, blanks)] != '\0')
        return -EINVAL;
    *ret_key = g_strndup(start, len);
    return 0;
}

static int run_key_command(const char *command, char **ret_key, char **ret_reason)
{
    FILE *pipe = popen(command, "re");
    if (pipe == NULL)
        return reason_give(ret_reason, -errno, "cannot run the API key command: %s", strerror(errno));
    /* Unbuffered, so that no copy of the key stays in stdio's memory. */
    setvbuf(pipe, NULL, _IONBF, 0);
    char text[SECRET_MAX_BYTES + 1];
    size_t len = fread(text, 1, sizeof(text) - 1, pipe);
    text[len] = '\0';
    int status = pclose(pipe);
    int error = 0;
    if (status != 0)
        error = reason_give(ret_reason, -EACCES, "the API key command failed (%s %d)",
                            WIFEXITED(status) ? "exit status" : "signal",
                            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    else if ((error = copy_key(text, ret_key)) != 0)
        error = reason_give(ret_reason, error, "the API key command did not print one key");
    explicit_bzero(text, sizeof(text));
    return error;
}

/* The command may wait for the user, so it runs with no signal blocked, and signals end this program. */
static int read_key_command(const char *command, char **ret_key, char **ret_reason)
{
    sigset_t none;
    sigset_t before;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    void (*on_pipe)(int) = signal(SIGPIPE, SIG_DFL);
    int error = run_key_command(command, ret_key, ret_reason);
    signal(SIGPIPE, on_pipe);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int read_key_file(const char *path, char **ret_key, char **ret_reason)
{
    _cleanup_secret_ char *line = NULL;
    int error = secret_file_read(path, "the API key file", &line, ret_reason);
    if (error == 0 && (error = copy_key(line, ret_key)) != 0)
        error = reason_give(ret_reason, error, "the API key file %s does not hold one key", path);
    return error;
}

int mail_account_read_key(const struct options *options, char **ret_key, char **ret_reason)
{
    if (options->api_key_file != NULL)
        return read_key_file(options->api_key_file, ret_key, ret_reason);
    if (options->api_key == NULL && options->api_key_command != NULL)
        return read_key_command(options->api_key_command, ret_key, ret_reason);
    if (options->api_key == NULL)
        return reason_give(ret_reason, -EACCES,
                           "no API key: use --api-key-file, INBOXFS_API_KEY or --api-key-command");
    int error = copy_key(options->api_key, ret_key);
    if (error != 0)
        error = reason_give(ret_reason, error, "the API key given is not one word of printable characters");
    return error;
}

/* Returns 0 or -errno, which is logged. */
static int make_service(const struct http_config *config, struct mail_account *account)
{
    int error = api_service_new(config, &account->service);
    return error == 0 ? 0 : complain(error, "cannot send requests to the service: %s", strerror(-error));
}

/* ---------------------------------------------------------------- directories */

/* Logs which variable of the environment a default directory comes from, and how else to name one. */
static void log_place(const char *preferred, const char *alternative)
{
    const char *base = getenv(preferred);
    bool is_set = base != NULL && base[0] != '\0';
    log_error("its place comes from %s, which is %s: set that, or %s", is_set ? preferred : "HOME",
              is_set ? base : g_get_home_dir(), alternative);
}

bool mail_account_is_local(const char *source)
{
    return strcmp(source, "local") == 0 || strncmp(source, "local:", 6) == 0;
}

static bool has_data_dir(const char *source)
{
    return strncmp(source, "local:", 6) == 0 && source[6] != '\0';
}

char *mail_account_data_dir(const char *source)
{
    return has_data_dir(source) ? g_strdup(source + strlen("local:"))
                                : g_build_filename(g_get_user_data_dir(), "inboxfs", NULL);
}

/* Refuses a path below the mount point: the mount would hide the path, and the daemon would wait for itself.
 * Returns 0 or -EDEADLK, which is logged. */
static int check_outside_mount(const struct options *options, const char *what, const char *path)
{
    if (!file_is_below(path, options->mountpoint))
        return 0;
    return complain(-EDEADLK,
                    "%s %s is below the mount point %s, which hides it: choose another place for one of them",
                    what, path, options->mountpoint);
}

static int open_state(const struct options *options, const char *name, const char *key,
                      struct mail_account *account)
{
    _cleanup_free_ char *path = options->state_dir == NULL ? state_dir_default_path(name, key) : NULL;
    const char *state_dir = options->state_dir != NULL ? options->state_dir : path;
    if (path != NULL && key != NULL)
        state_dir_log_other_keys(path);
    int error = check_outside_mount(options, "the state directory", state_dir);
    int fd = error != 0 ? error : state_dir_open(state_dir, &account->lock_fd);
    if (fd < 0) {
        if (fd == -EBUSY && options->state_dir == NULL && mail_account_is_local(options->source))
            log_error("end it, or name another local service, as local:DIR");
        else if (fd == -EBUSY)
            log_error("end it, or give this one its own --state-dir");
        else if (options->state_dir == NULL)
            log_place("XDG_STATE_HOME", "give --state-dir");
        return fd;
    }
    account->state_dir_fd = fd;
    return 0;
}

/* ---------------------------------------------------------------- the local service */

/* Makes the data directory, and opens it as account->data_dir_fd. *ret_path is its absolute path, from which
 * the state directory's name is made. Returns 0 or -errno, which is logged. */
static int open_data_dir(const struct options *options, struct mail_account *account, char **ret_path)
{
    _cleanup_free_ char *path = mail_account_data_dir(options->source);
    int error = check_outside_mount(options, "the data directory", path);
    if (error != 0)
        return error;
    account->data_dir_fd = file_open_dir(AT_FDCWD, path);
    if (account->data_dir_fd >= 0 && (*ret_path = realpath(path, NULL)) != NULL)
        return 0;
    error = account->data_dir_fd < 0 ? account->data_dir_fd : -errno;
    log_error("cannot use the data directory %s: %s", path, strerror(-error));
    if (!has_data_dir(options->source))
        log_place("XDG_DATA_HOME", "name one, as local:DIR");
    return error;
}

/* The service's socket is in the data directory, whose path may be too long for sun_path (108 bytes). So its
 * path begins with the directory's descriptor, which stays open, in /proc. */
static int open_local(const struct options *options, struct mail_account *account)
{
    _cleanup_free_ char *data_dir = NULL;
    int error = open_data_dir(options, account, &data_dir);
    if (error != 0)
        return error;
    account->shown_source = g_strdup_printf("local:%s", data_dir);
    if ((error = open_state(options, data_dir, NULL, account)) != 0)
        return error;

    _cleanup_free_ char *listen = g_strdup_printf("unix:/proc/self/fd/%d/socket", account->data_dir_fd);
    const struct service_door doors[] = {{SERVICE_HTTP, listen}, {0}};
    const struct service_config service_config = {
        .doors = doors,
        .data_dir = data_dir,
        .domain = LOCAL_DOMAIN,
        .is_alone = true,
    };
    _cleanup_free_ char *reason = NULL;
    if ((error = service_start(&service_config, &account->local, &reason)) != 0)
        return complain(error, "cannot start the local service: %s",
                        reason != NULL ? reason : strerror(-error));
    _cleanup_secret_ char *key = NULL;
    if ((error = service_read_api_key(data_dir, &key)) != 0)
        return complain(error, "cannot read the local service's key: %s", strerror(-error));
    const struct http_config config = {
        .base_url = LOCAL_BASE_URL, .unix_socket = listen + strlen("unix:"), .api_key = key};
    return make_service(&config, account);
}

/* ---------------------------------------------------------------- a service elsewhere */

/* Refuses a pipe, which cannot be read again for each connection, and a file without a certificate in PEM.
 * Returns NULL if the path is usable, or the text that says why it is not. */
static const char *why_no_authorities(const char *path)
{
    static const char line_end[] = " CERTIFICATE-----";
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        return strerror(errno);
    if (S_ISDIR(status.st_mode))
        return NULL;
    if (!S_ISREG(status.st_mode))
        return "it is neither a file nor a directory";
    int error = file_read_fd(fd, CA_FILE_MAX_BYTES, &text, &len);
    if (error != 0)
        return strerror(-error);
    return memmem(text, len, line_end, strlen(line_end)) != NULL ? NULL : "it has no certificate in PEM";
}

int mail_account_check_authorities(const struct options *options, const char *url, char **ret_reason)
{
    *ret_reason = NULL;
    bool is_used = options->ca_file != NULL && strncmp(url, "https://", strlen("https://")) == 0;
    const char *why = is_used ? why_no_authorities(options->ca_file) : NULL;
    if (why == NULL)
        return 0;
    return reason_give(ret_reason, -EINVAL,
                       "cannot take the authorities to trust from %s: %s (--ca-file, CURL_CA_BUNDLE, "
                       "SSL_CERT_FILE or SSL_CERT_DIR names it)",
                       options->ca_file, why);
}

static int open_remote(const struct options *options, struct mail_account *account)
{
    _cleanup_free_ char *reason = NULL;
    int error = base_url_check(options->source, options->allows_http, &account->shown_source, &reason);
    if (error != 0) /* the source is not shown, because it may contain a password */
        return complain(error, "cannot use this service: %s%s", reason,
                        strstr(options->source, "://") == NULL ? " (or be local, or local:DIR)" : "");
    _cleanup_secret_ char *key = NULL;
    if ((error = mail_account_check_authorities(options, account->shown_source, &reason)) != 0 ||
        (error = mail_account_read_key(options, &key, &reason)) != 0)
        return complain(error, "%s", reason);
    if ((error = open_state(options, account->shown_source, key, account)) != 0)
        return error;
    const struct http_config config = {
        .base_url = account->shown_source, .api_key = key, .ca_path = options->ca_file};
    return make_service(&config, account);
}

int mail_account_open(const struct options *options, struct mail_account *ret_account)
{
    *ret_account = (struct mail_account){.state_dir_fd = -1, .lock_fd = -1, .data_dir_fd = -1};
    return mail_account_is_local(options->source) ? open_local(options, ret_account)
                                                  : open_remote(options, ret_account);
}

void mail_account_release(struct mail_account *account)
{
    api_service_free(account->service);
    service_stop(account->local);
    free(account->shown_source);
    cleanup_close(&account->data_dir_fd);
    cleanup_close(&account->state_dir_fd);
    cleanup_close(&account->lock_fd);
}
