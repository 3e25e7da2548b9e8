/* SPDX-License-Identifier: MIT */
/*
 * Prints the status on standard output, and logs errors. A process that reads from a hanging mount cannot be
 * killed, so each mount is read by a child process.
 */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/mountinfo.h"

enum {
    LINE_MAX_BYTES = 2048,
    ANSWER_TIMEOUT_S = 5, /* the daemon answers from memory, so a mount that takes longer does not work */
    /* Results of show_mount() that are greater than any errno. */
    OFFLINE = 254,   /* the status was shown; the service does not answer, or refuses the key */
    UNWRITTEN = 255, /* standard output cannot be written */
};

#define ANOTHER_USERS "the inboxfs mount is another user's"

/* Prints a line. Replaces control characters, because the service chooses parts of the text. */
static void print_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print_line(const char *name, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    character_format_plain(line, sizeof(line), format, arguments);
    va_end(arguments);
    printf("%-10s%s\n", name, line);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static int64_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Writes how far `date` is from now, in the past or future, as "3 min"; "" if `date` is not a time. */
static void describe_time(const char *date, time_t now, char ret_words[32])
{
    g_autoptr(GDateTime) then = g_date_time_new_from_iso8601(date, NULL);
    ret_words[0] = '\0';
    if (then == NULL)
        return;
    int64_t seconds = llabs((long long)(now - g_date_time_to_unix(then)));
    if (seconds < 120)
        snprintf(ret_words, 32, "%" PRId64 " s", seconds);
    else if (seconds < 120 * 60)
        snprintf(ret_words, 32, "%" PRId64 " min", seconds / 60);
    else if (seconds < 48 * 60 * 60)
        snprintf(ret_words, 32, "%" PRId64 " h", seconds / 3600);
    else
        snprintf(ret_words, 32, "%" PRId64 " days", seconds / 86400);
}

/* ---------------------------------------------------------------- the screen */

/* Shows the error of this part of the status, unless the whole status has the same error. */
static void show_error(const json_t *part, const json_t *status)
{
    const char *error = text_of(part, "error");
    if (error[0] != '\0' && strcmp(error, text_of(status, "error")) != 0)
        print_line("", "%s", error);
}

static void show_service(const json_t *status, time_t now)
{
    const json_t *sync = json_object_get(status, "sync");
    char age[32];
    char wait[32];
    describe_time(text_of(sync, "last"), now, age);
    describe_time(text_of(sync, "next"), now, wait);
    const char *last = age[0] != '\0' ? age : "never";
    const char *ago = age[0] != '\0' ? " ago" : "";
    const char *in = wait[0] != '\0' ? "in " : "";
    const char *next = wait[0] != '\0' ? wait : "when told to";
    if (json_is_true(json_object_get(status, "online")))
        print_line("online", "asked %s%s, next: %s%s", last, ago, in, next);
    else
        print_line("OFFLINE", "last answer: %s%s, next try: %s%s: %s", last, ago, in, next,
                   text_of(status, "error"));
    show_error(sync, status);
    print_line("mail", "%" PRId64 " emails in %" PRId64 " inboxes%s", number_of(sync, "emails"),
               number_of(sync, "inboxes"),
               json_is_true(json_object_get(sync, "complete")) ? "" : "; not all are listed yet");
}

static void show_outbox(const json_t *status, time_t now)
{
    const json_t *queue = json_object_get(status, "queue");
    const json_t *quota = json_object_get(status, "quota");
    const json_t *limit = json_object_get(quota, "daily_limit");
    char wait[32];
    describe_time(text_of(queue, "next_attempt"), now, wait);
    print_line("outbox", "%" PRId64 " waiting, %" PRId64 " uploading%s%s%s", number_of(queue, "queued"),
               number_of(queue, "uploading"),
               json_is_true(json_object_get(queue, "paused")) ? ", paused" : "",
               wait[0] != '\0' ? ", next attempt in " : "", wait);
    show_error(queue, status);
    if (text_of(queue, "unseen_writers")[0] != '\0')
        print_line("", "%s", text_of(queue, "unseen_writers"));
    print_line("sent", "%" PRId64 ", and %" PRId64 " in failed/", number_of(queue, "sent"),
               number_of(queue, "failed"));
    if (json_is_integer(limit))
        print_line("today", "%" PRId64 " sent, of %" PRId64, number_of(quota, "sent_today"),
                   (int64_t)json_integer_value(limit));
    else
        print_line("today", "%" PRId64 " sent", number_of(quota, "sent_today"));
}

/* Shows how many events of this name happened since the mount began, unless none did. */
static void show_tally(const json_t *status, const char *name, time_t now)
{
    const json_t *tally = json_object_get(status, name);
    char age[32];
    describe_time(text_of(tally, "time"), now, age);
    if (number_of(tally, "count") > 0)
        print_line(name, "%" PRId64 " since the mount began; the last %s ago, %s: %s",
                   number_of(tally, "count"), age, text_of(tally, "path"), text_of(tally, "error"));
}

static void show_status(const char *path, const json_t *status)
{
    time_t now = time(NULL);
    char age[32];
    describe_time(text_of(status, "started"), now, age);
    print_line("mount", "%s", path);
    if (text_of(status, "account")[0] != '\0')
        print_line("account", "%s", text_of(status, "account"));
    print_line("source", "%s", text_of(status, "service"));
    print_line("running", "%s, inboxfs %s", age, text_of(status, "version"));
    show_service(status, now);
    show_outbox(status, now);
    show_tally(status, "refused", now);
    show_tally(status, "failed", now);
}

/* Prints status.json as one line, with the mount point first (null if the path is not UTF-8). */
static void show_as_json(const char *path, const json_t *status)
{
    json_auto_t *line = json_object();
    json_t *text = json_string(path);
    json_object_set_new(line, "mountpoint", text != NULL ? text : json_null());
    json_object_update(line, (json_t *)status);
    if (json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) == 0)
        putchar('\n');
}

/* ---------------------------------------------------------------- finding the mounts */

struct status_request {
    bool is_json;
    bool is_first; /* no mount was shown before */
};

static void log_mount_error(const char *path, int error)
{
    if (error == -EACCES)
        log_error("%s", ANOTHER_USERS);
    else if (error == -UNWRITTEN)
        log_error("cannot write to standard output");
    else if (error == -ENOTCONN || error == -ECONNABORTED)
        log_error("%s is a dead mount: its inboxfs was killed; mount again, or inboxfs umount %s", path,
                  path);
    else if (error == -ETIMEDOUT)
        log_error("%s does not answer: its inboxfs hangs, or is stopped", path);
    else if (error == -ENOENT || error == -EBADMSG)
        log_error("%s: no inboxfs is mounted there", path);
    else
        log_error("%s: %s", path, strerror(-error));
}

/* Shows a mount, after an empty line unless it is the first. Returns 0, -OFFLINE, or -errno if the mount does
 * not work or cannot be entered. Logs nothing. */
static int show_mount(const char *path, const struct status_request *request)
{
    _cleanup_close_ int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = root < 0 ? -1 : openat(root, "status.json", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    json_auto_t *status = json_loadfd(fd, 0, NULL);
    if (!json_is_string(json_object_get(status, "service")))
        return -EBADMSG;
    if (!request->is_json && !request->is_first)
        putchar('\n');
    (request->is_json ? show_as_json : show_status)(path, status);
    return json_is_true(json_object_get(status, "online")) ? 0 : -OFFLINE;
}

/* Calls show_mount() in a child process, and returns its result; -UNWRITTEN; or -ETIMEDOUT if the mount does
 * not answer in time. SIGKILL ends the child only when the daemon answers, so nothing waits for it. */
static int show_in_child(const char *path, const struct status_request *request)
{
    int end = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int error = show_mount(path, request);
        exit(fflush(stdout) != 0 ? UNWRITTEN : -error);
    }
    _cleanup_close_ int fd = pidfd_open(pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (fd < 0)
        return -errno;
    if (poll(&ended, 1, ANSWER_TIMEOUT_S * 1000) != 1) {
        kill(pid, SIGKILL);
        return -ETIMEDOUT;
    }
    if (waitpid(pid, &end, 0) == pid && WIFSIGNALED(end) && WTERMSIG(end) == SIGPIPE)
        raise(SIGPIPE); /* the reader has ended, as `| head` does */
    return WIFEXITED(end) ? -WEXITSTATUS(end) : -ECHILD;
}

static int show_all(struct status_request *request)
{
    _cleanup_mountinfo_ struct mount *mounts = mountinfo_list(MOUNTINFO_INBOXFS);
    bool has_failed = false;
    bool is_denied = false;
    if (mounts == NULL)
        return complain(EXIT_FAILURE, "cannot read /proc/self/mountinfo");
    for (const struct mount *mount = mounts; mount->path != NULL; mount++) {
        int error = show_in_child(mount->path, request);
        if (error == 0 || error == -OFFLINE) {
            request->is_first = false;
            has_failed |= error != 0;
        } else if (error == -EACCES) {
            is_denied = true;
        } else if (mountinfo_find(MOUNTINFO_INBOXFS, mount->path, NULL)) { /* the mount still exists */
            log_mount_error(mount->path, error);
            has_failed = true;
        }
    }
    if (request->is_first && !has_failed)
        log_error("%s", is_denied ? ANOTHER_USERS : "no inboxfs is mounted");
    return has_failed || request->is_first ? EXIT_FAILURE : EXIT_SUCCESS;
}

int status_command(int argc, char **argv)
{
    struct status_request request = {.is_first = true};
    if (argc > 1 && strcmp(argv[1], "--json") == 0) {
        request.is_json = true;
        argc--;
        argv++;
    }
    if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
        return complain(EXIT_USAGE, "usage: inboxfs status [--json] [MOUNTPOINT]");
    if (argc == 1)
        return show_all(&request);
    int error = show_in_child(argv[1], &request);
    if (error != 0 && error != -OFFLINE)
        log_mount_error(argv[1], error);
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
