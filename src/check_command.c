/* SPDX-License-Identifier: MIT */
/*
 * Each function checks some parts, and prints a line about each by report().
 */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "api/api_service.h"
#include "api/base_url.h"
#include "base/character.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/secret_file.h"
#include "fs/session.h"
#include "mail_account.h"
#include "state_dir.h"

enum {
    LINE_MAX_BYTES = 2048,
    SPACE_MIN_BYTES = 50 * 1000 * 1000, /* free space for the largest message and for other files */
    RAW_MAX_BYTES = 64 * 1024,
};

static const char passed[] = "ok";
static const char failed[] = "FAIL";
static const char absent[] = "none"; /* verdict if the service lacks an optional feature */
static const char unknown[] = "?";

struct check {
    const struct options *options;
    char *base; /* the service's URL; NULL for the local service */
    char *key;  /* the API key; NULL if no key could be read */
    bool has_failed;
};

/* Prints a line. Replaces control characters, because strangers choose file names and the service's texts. */
static void report(struct check *check, const char *part, const char *verdict, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void report(struct check *check, const char *part, const char *verdict, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    character_format_plain(line, sizeof(line), format, arguments);
    va_end(arguments);
    printf("%-5s%-10s%s\n", verdict, part, line);
    check->has_failed = fflush(stdout) != 0 || check->has_failed || verdict == failed;
}

/* ---------------------------------------------------------------- source and key */

static void check_source(struct check *check)
{
    _cleanup_free_ char *reason = NULL;
    if (mail_account_is_local(check->options->source)) {
        report(check, "source", passed, "the local service, inside inboxfs");
        return;
    }
    /* A refused source is not shown, because it may contain a password. */
    if (base_url_check(check->options->source, check->options->allows_http, &check->base, &reason) != 0)
        report(check, "source", failed, "cannot be used: %s", reason);
    else
        report(check, "source", passed, "%s", check->base);
}

static void check_key(struct check *check)
{
    const struct options *options = check->options;
    _cleanup_free_ char *reason = NULL;
    if (mail_account_is_local(options->source)) {
        report(check, "key", passed, "none is needed");
        return;
    }
    if (mail_account_read_key(options, &check->key, &reason) != 0)
        report(check, "key", failed, "%s", reason);
    else if (options->api_key_file != NULL)
        report(check, "key", passed, "in the file %s", options->api_key_file);
    else if (options->api_key != NULL)
        report(check, "key", passed, "%s",
               options->is_key_of_environment ? "from INBOXFS_API_KEY" : "in the configuration");
    else
        report(check, "key", passed, "printed by the command of --api-key-command");
}

/* ---------------------------------------------------------------- the service */

static int count_inbox(void *context, struct inbox_record *record)
{
    size_t *count = context;
    (*count)++;
    return 0;
}

/* Keeps the id of the first email that has one, and ends the listing. */
static int keep_first_email_id(void *context, struct email_record *record)
{
    char **id = context;
    if (*id != NULL || record->key[0] == '~') /* "~": the record has no id */
        return 0;
    *id = g_strdup(record->key);
    return 0;
}

/* Reports whether the service answers, whether the connection is encrypted, and whether the service accepts
 * the key. Returns false if further requests are useless. */
static bool check_answer(struct check *check, const struct service_result *result, int64_t took_ms)
{
    const char *detail = result->detail != NULL ? result->detail : "";
    bool is_encrypted = strncmp(check->base, "https://", 8) == 0;
    bool is_well = result->outcome == SERVICE_OK || result->outcome == SERVICE_ABSENT;
    const char *problem =
        result->http_status == 0 ? ""
        : result->is_foreign ? "something on the way answers in the service's place (a proxy, a login page): "
        : !is_well && result->outcome != SERVICE_UNAUTHORIZED ? "the service answers, but not as it should: "
                                                              : NULL;
    if (problem != NULL) {
        report(check, "reach", failed, "%s%s", problem, detail);
        return false;
    }
    report(check, "reach", passed, "the service answers within %" PRId64 " ms", took_ms);
    report(check, "tls", passed, "%s",
           is_encrypted ? "the certificate is valid for this name"
           : check->options->allows_http
               ? "none, as --allow-http allows: whoever is on the way sees key and mail"
               : "none is needed: the service is on this machine");
    if (is_well)
        report(check, "answer", passed, "the service takes the key");
    else
        report(check, "answer", failed, "the service refuses the key: %s", detail);
    return is_well;
}

/* Requests the content of one email: only the answer shows whether the service offers contents. */
static void try_content(struct mail_service *service, const char *email_id)
{
    const struct content_query query = {.email_id = email_id, .max_bytes = CONTENT_MAX_BYTES};
    const struct content_query raw_query = {.email_id = email_id, .max_bytes = RAW_MAX_BYTES};
    _cleanup_close_ int fd = memfd_create("message", MFD_CLOEXEC);
    struct content_folder content = {0};
    struct service_result result;
    uint64_t len;
    service->ops->get_content(service, &query, NULL, &content, &result);
    content_folder_release(&content);
    service_result_release(&result);
    if (fd < 0)
        return;
    service->ops->get_bytes(service, &raw_query, fd, NULL, &len, &result);
    service_result_release(&result);
}

static void check_capabilities(struct check *check, struct mail_service *service, size_t inboxes,
                               const char *email_id)
{
    const struct email_query query = {.limit = 1};
    struct service_capabilities capabilities;
    struct service_result result;
    _cleanup_free_ char *sent_id = NULL;
    unsigned int count = 0;
    char inboxes_text[64];
    service->ops->list_outbound(service, &query, keep_first_email_id, &sent_id, NULL, &count, &result);
    service_result_release(&result);
    if (email_id != NULL)
        try_content(service, email_id);
    service->ops->get_capabilities(service, &capabilities);
    snprintf(inboxes_text, sizeof(inboxes_text), "%zu, listed by the service", inboxes);
    const struct {
        const char *part;
        enum service_capability capability;
        const char *present;
        const char *absent;
    } rows[] = {
        {"inboxes", capabilities.inbox_list, inboxes_text,
         "the service does not list them; their mail names them"},
        {"content", capabilities.content, "bodies, attachments and threads can be read",
         "emails are shown as their records alone"},
        {"raw", capabilities.raw, "messages can be read whole: there are Maildirs",
         "no raw messages, so no Maildirs"},
        {"sent", capabilities.outbound, "the service lists sent mail", "sent/ shows what was sent from here"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].capability == CAPABILITY_PRESENT)
            report(check, rows[i].part, passed, "%s", rows[i].present);
        else if (rows[i].capability == CAPABILITY_ABSENT)
            report(check, rows[i].part, absent, "%s", rows[i].absent);
        else
            report(check, rows[i].part, unknown, "there is no mail, or no answer, to find it out by");
    }
}

static void query_service(struct check *check, struct mail_service *service)
{
    struct service_result result;
    _cleanup_free_ char *email_id = NULL;
    const struct email_query query = {.limit = 1};
    unsigned int count = 0;
    size_t inboxes = 0;
    int64_t start_ms = clock_monotonic_ms(clock_system());
    service->ops->list_inboxes(service, count_inbox, &inboxes, NULL, &result);
    /* A service that has no list of inboxes answers the first request without a check of the key. */
    if (result.outcome == SERVICE_OK || result.outcome == SERVICE_ABSENT) {
        struct service_result listed;
        service->ops->list_emails(service, &query, keep_first_email_id, &email_id, NULL, &count, &listed);
        if (email_id == NULL && result.outcome == SERVICE_ABSENT) {
            service_result_release(&result);
            result = listed;
        } else {
            service_result_release(&listed);
        }
    }
    if (check_answer(check, &result, clock_monotonic_ms(clock_system()) - start_ms))
        check_capabilities(check, service, inboxes, email_id);
    service_result_release(&result);
}

static void check_service(struct check *check)
{
    const struct http_config config = {
        .base_url = check->base, .api_key = check->key, .ca_path = check->options->ca_file};
    struct mail_service *service = NULL;
    _cleanup_free_ char *reason = NULL;
    if (check->base == NULL || check->key == NULL)
        return;
    if (mail_account_check_authorities(check->options, check->base, &reason) != 0) {
        report(check, "tls", failed, "%s", reason);
        return;
    }
    int error = api_service_new(&config, &service);
    if (error != 0)
        report(check, "reach", failed, "%s", strerror(-error));
    else
        query_service(check, service);
    api_service_free(service);
}

/* Does not try to listen at the address, because a running mount of this account may do so. */
static void check_webhooks(struct check *check)
{
    const struct options *options = check->options;
    _cleanup_free_ char *reason = NULL;
    char *secret = NULL;
    if (options->webhook_secret_file == NULL)
        return;
    int error = secret_file_read(options->webhook_secret_file, "the secret of webhooks", &secret, &reason);
    secret_free(secret);
    if (error != 0)
        report(check, "webhooks", failed, "%s", reason);
    else
        report(check, "webhooks", passed, "taken at %s, signed with the secret in %s",
               options->webhook_listen, options->webhook_secret_file);
}

/* ---------------------------------------------------------------- FUSE */

/* Returns true if there is a fusermount3 that mounts for this user: setuid root, unless the user is root. */
static bool can_run_fusermount(void)
{
    _cleanup_free_ char *path = g_find_program_in_path("fusermount3");
    struct stat status;
    return path != NULL && stat(path, &status) == 0 &&
           (geteuid() == 0 || (status.st_uid == 0 && (status.st_mode & S_ISUID) != 0));
}

static void check_fuse(struct check *check)
{
    _cleanup_free_ char *trouble = fs_find_device_problem();
    if (trouble != NULL)
        report(check, "fuse", failed, "%s", trouble);
    else if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) == 0)
        report(check, "fuse", failed, "this container may not mount (it lacks CAP_SYS_ADMIN)");
    else if (!can_run_fusermount())
        report(check, "fuse", failed, "there is no fusermount3 that this user can mount with: install fuse3");
    else
        report(check, "fuse", passed, "this user can mount");
}

/* ---------------------------------------------------------------- the state */

/* Reports whether a directory that does not exist yet could be made. */
static void check_missing_directory(struct check *check, const char *part, const char *path)
{
    _cleanup_free_ char *parent = g_strdup(path);
    while (access(parent, F_OK) != 0 && errno == ENOENT && strcmp(parent, ".") != 0) {
        _cleanup_free_ char *child = parent;
        parent = g_path_get_dirname(child);
    }
    if (access(parent, W_OK | X_OK) != 0)
        report(check, part, failed, "%s cannot be made: %s: %s", path, parent, strerror(errno));
    else
        report(check, part, passed, "%s will be made by the first mount", path);
}

static void check_directory(struct check *check, const char *part, const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct statvfs space = {.f_flag = 0};
    if (fd < 0 && errno == ENOENT) {
        check_missing_directory(check, part, path);
        return;
    }
    const char *why = fd < 0 || fstatvfs(fd, &space) != 0 ? strerror(errno) : file_why_not_private(fd);
    if (why == NULL && (space.f_flag & ST_RDONLY) != 0)
        why = "its file system is read-only";
    if (why != NULL) {
        report(check, part, failed, "%s: %s", path, why);
        return;
    }
    uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    if (free_bytes < SPACE_MIN_BYTES) {
        report(check, part, failed, "%s: only %" PRIu64 " MB are left there", path, free_bytes / 1000000);
        return;
    }
    long holder = state_dir_find_daemon(fd);
    char use[64] = "no mount uses it";
    if (holder > 0)
        snprintf(use, sizeof(use), "the mount of process %ld uses it", holder);
    else if (holder < 0)
        snprintf(use, sizeof(use), "another process uses it");
    report(check, part, passed, "%s: yours, %" PRIu64 " MB left, %s", path, free_bytes / 1000000, use);
}

static void check_state(struct check *check)
{
    const struct options *options = check->options;
    bool is_local = mail_account_is_local(options->source);
    _cleanup_free_ char *data_dir = is_local ? mail_account_data_dir(options->source) : NULL;
    if (is_local)
        check_directory(check, "data", data_dir);
    if (options->state_dir != NULL) {
        check_directory(check, "state", options->state_dir);
        return;
    }
    /* The default directory is named after the data directory's path, or after the URL and the key. */
    _cleanup_free_ char *real_data_dir = is_local ? realpath(data_dir, NULL) : NULL;
    if (is_local ? real_data_dir == NULL : check->base == NULL || check->key == NULL) {
        report(check, "state", unknown, "its default place is named after %s",
               is_local ? "the data directory, which the first mount makes"
                        : "the source and the key, which are needed first");
        return;
    }
    _cleanup_free_ char *path = state_dir_default_path(is_local ? real_data_dir : check->base, check->key);
    check_directory(check, "state", path);
}

int check_command(const struct options *options)
{
    struct check check = {.options = options};
    check_source(&check);
    check_key(&check);
    check_service(&check);
    check_webhooks(&check);
    check_fuse(&check);
    check_state(&check);
    secret_free(check.key);
    free(check.base);
    return check.has_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
