/* SPDX-License-Identifier: MIT */
/*
 * Processes that run an outbox and die at a crash point, and a service that logs the calls of all of them.
 *
 * A process reads the chosen crash point once. So each case runs in a child process, which has not read it
 * yet, and which starts the process that dies.
 */
#ifndef INBOXFS_TESTS_CRASH_FIXTURE_H
#define INBOXFS_TESTS_CRASH_FIXTURE_H

#include "outbox_fixture.h"

#include <signal.h>
#include <sys/wait.h>

/* Logs each call to a file, which survives SIGKILL: "send KEY REQUEST", after a line "repeat" if an earlier
 * request may have been accepted; "upload NAME CONTENT". The id of an upload is its content, so a request
 * shows which contents it binds. */
struct logging_service {
    struct mail_service service; /* must be first: the outbox has a pointer to it */
    struct mail_service_ops ops;
    struct mail_service *inner;
    int log;
};

static inline struct mail_service *inner_of(struct mail_service *service)
{
    return ((struct logging_service *)service)->inner;
}

static inline void note_send(struct mail_service *service, const struct send_request *request,
                             struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    if (request->is_repeat)
        dprintf(((struct logging_service *)service)->log, "repeat\n");
    dprintf(((struct logging_service *)service)->log, "send %s %s\n", request->idempotency_key,
            request->json);
    inner_of(service)->ops->send(inner_of(service), request, cancel, ret_id, ret);
}

static inline void note_upload(struct mail_service *service, const struct upload_request *request,
                               struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    char content[64];
    snprintf(content, sizeof(content), "%.*s", (int)request->len, (const char *)request->bytes);
    dprintf(((struct logging_service *)service)->log, "upload %s %s\n", request->name, content);
    inner_of(service)->ops->upload(inner_of(service), request, cancel, ret_id, ret);
    if (*ret_id != NULL) {
        free(*ret_id);
        *ret_id = strdup(content);
    }
}

static inline void pass_capabilities(struct mail_service *service, struct service_capabilities *ret)
{
    inner_of(service)->ops->get_capabilities(inner_of(service), ret);
}

static inline void pass_list(struct mail_service *service, const struct email_query *query, email_sink sink,
                             void *context, struct cancel *cancel, unsigned int *ret_count,
                             struct service_result *ret)
{
    inner_of(service)->ops->list_emails(inner_of(service), query, sink, context, cancel, ret_count, ret);
}

static inline void note_calls(struct logging_service *logging, struct fixture *fixture)
{
    *logging = (struct logging_service){.inner = fixture->config.service};
    logging->ops = (struct mail_service_ops){.list_emails = pass_list,
                                             .send = note_send,
                                             .upload = note_upload,
                                             .get_capabilities = pass_capabilities};
    logging->service.ops = &logging->ops;
    logging->log = openat(fixture->dir.fd, "calls", O_WRONLY | O_CREAT | O_APPEND, 0600);
    fixture->config.service = &logging->service;
}

/* Returns all calls so far, one per line. The caller frees it. */
static inline char *read_calls(struct fixture *fixture)
{
    char *text = NULL;
    size_t len;
    return file_read_at(fixture->dir.fd, "calls", 1000 * 1000, &text, &len) == 0 ? text : strdup("");
}

static inline size_t count_calls(struct fixture *fixture, const char *beginning)
{
    _cleanup_free_ char *text = read_calls(fixture);
    size_t count = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        count += strncmp(line, beginning, strlen(beginning)) == 0 ? 1 : 0;
    return count;
}

static inline size_t count_sends(struct fixture *fixture, bool *ret_same_key)
{
    _cleanup_free_ char *text = read_calls(fixture);
    const char *key = strstr(text, "send ");
    char beginning[64];
    snprintf(beginning, sizeof(beginning), "send %.36s", key == NULL ? "" : key + strlen("send "));
    size_t count = count_calls(fixture, "send ");
    *ret_same_key = count == count_calls(fixture, beginning);
    return count;
}

/* ---------------------------------------------------------------- processes */

static inline void start_before_crash(struct fixture *fixture, struct logging_service *logging,
                                      const char *point)
{
    char *reason = NULL;
    setenv("INBOXFS_CRASH_AT", point, 1);
    note_calls(logging, fixture);
    if (outbox_open(&fixture->config, &fixture->outbox, &reason) != 0 || outbox_start(fixture->outbox) != 0)
        _exit(2);
}

/* Called if the process did not reach the crash point, or did not process an answer in time. */
static inline void exit_without_crash(struct fixture *fixture)
{
    outbox_stop(fixture->outbox);
    _exit(0);
}

static inline void expect_killed(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static inline void expect_success(pid_t child, const char *what)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s", what);
}

#endif
