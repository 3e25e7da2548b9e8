/* SPDX-License-Identifier: MIT */
/*
 * status.json: reachability, capabilities, last sync, queue, quota, counters, and the refused and failed
 * requests since the mount began.
 *
 * Each open makes a new text. stat(2) describes the latest text, unless it is old, so that a program that
 * opens the file, asks for the size and reads gets the size of its text. The mtime is the time when the text
 * last changed: tar(1) reports a file whose mtime changes while it is read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "mail/json_writer.h"
#include "tree/node.h"

enum {
    STATUS_MAX_BYTES = 64 * 1024,
    TEXT_LASTS_MS = 1000,
    WORDS_MAX_BYTES = 2048, /* of a path or a reason: even escaped, those of both tallies fit into the text */
};

/* Events of one kind since the mount began: their number, and the last event. */
struct tally {
    int64_t count;
    int64_t time_ms;
    char *path;
    char *error;
};

struct status {
    pthread_mutex_t lock; /* protects all members; taken before the locks of the store and the outbox */
    char *text;           /* the latest text, or NULL */
    size_t len;           /* of `text` */
    int64_t rendered_ms;  /* monotonic time of `text` */
    int64_t changed_ms;   /* realtime of the last change of `text` */
    struct tally refused;
    struct tally failed;
};

static void release_tally(struct tally *tally)
{
    g_free(tally->path);
    g_free(tally->error);
}

void status_count_event(struct tree *tree, const struct event *event)
{
    struct status *status = tree->status;
    bool is_refused = event->kind == EVENT_REFUSED || (event->kind == EVENT_INBOX && event->error != NULL);
    struct tally *tally = is_refused ? &status->refused : &status->failed;
    if (!is_refused && event->kind != EVENT_FAILED)
        return;
    LOCK_GUARD(&status->lock);
    release_tally(tally);
    tally->count++;
    tally->time_ms = event->time_ms;
    tally->path = g_strndup(event->path, WORDS_MAX_BYTES);
    tally->error = g_strndup(event->error, WORDS_MAX_BYTES);
}

static void write_tally(struct json_writer *writer, const char *name, const struct tally *tally)
{
    json_key(writer, name);
    json_begin_object(writer);
    json_member_integer(writer, "count", tally->count);
    json_member_date(writer, "time", tally->time_ms);
    json_member_string(writer, "path", tally->path);
    json_member_string(writer, "error", tally->error);
    json_end_object(writer);
}

/* ---------------------------------------------------------------- the text */

static void write_service(struct json_writer *writer, const struct tree *tree)
{
    static const char *const names[] = {
        [CAPABILITY_UNKNOWN] = "unknown",
        [CAPABILITY_PRESENT] = "present",
        [CAPABILITY_ABSENT] = "absent",
    };
    struct service_capabilities capabilities;
    struct service_counters counters;
    tree->config.service->ops->get_capabilities(tree->config.service, &capabilities);
    tree->config.service->ops->get_counters(tree->config.service, &counters);

    json_key(writer, "capabilities");
    json_begin_object(writer);
    json_member_string(writer, "inbox_list", names[capabilities.inbox_list]);
    json_member_string(writer, "idempotency_key", names[capabilities.idempotency_key]);
    json_member_string(writer, "from_address_text", names[capabilities.from_address_text]);
    json_member_string(writer, "content", names[capabilities.content]);
    json_member_string(writer, "raw", names[capabilities.raw]);
    json_member_string(writer, "outbound", names[capabilities.outbound]);
    json_end_object(writer);

    json_key(writer, "counters");
    json_begin_object(writer);
    json_member_integer(writer, "requests", (int64_t)counters.requests);
    json_member_integer(writer, "failed_requests", (int64_t)counters.failures);
    json_member_integer(writer, "received_bytes", (int64_t)counters.received_bytes);
    json_member_integer(writer, "sent_bytes", (int64_t)counters.sent_bytes);
    json_end_object(writer);
}

/* An empty error is written as null. */
static void write_error(struct json_writer *writer, const char *error)
{
    json_member_string(writer, "error", error[0] == '\0' ? NULL : error);
}

static void write_store(struct json_writer *writer, const struct tree *tree)
{
    struct store_status status;
    store_get_status(tree->store, &status);

    json_member_boolean(writer, "online", status.is_online);
    write_error(writer, status.error);
    json_key(writer, "sync");
    json_begin_object(writer);
    json_member_boolean(writer, "complete", status.has_synced);
    json_member_date(writer, "last", status.last_sync_ms);
    json_member_date(writer, "last_complete", status.last_full_ms);
    json_member_date(writer, "next", status.next_poll_ms);
    json_member_integer(writer, "interval_seconds", tree->config.poll_interval_ms / 1000);
    json_member_integer(writer, "inboxes", (int64_t)status.inboxes);
    json_member_integer(writer, "emails", (int64_t)status.emails);
    write_error(writer, status.sync_error);
    json_key(writer, "kept");
    json_begin_object(writer);
    json_member_integer(writer, "emails", (int64_t)status.kept_emails);
    json_member_integer(writer, "emails_max", (int64_t)status.kept_emails_max);
    json_member_integer(writer, "bytes", (int64_t)status.kept_bytes);
    json_member_integer(writer, "bytes_max", (int64_t)status.kept_bytes_max);
    json_end_object(writer);
    json_end_object(writer);
}

static void write_outbox(struct json_writer *writer, const struct tree *tree)
{
    struct outbox_status status;
    outbox_get_status(tree->outbox, &status);

    json_key(writer, "queue");
    json_begin_object(writer);
    json_member_boolean(writer, "paused", status.is_paused);
    json_member_integer(writer, "queued", (int64_t)status.queued);
    json_member_integer(writer, "uploading", (int64_t)status.uploading);
    json_member_integer(writer, "sent", (int64_t)status.sent);
    json_member_integer(writer, "failed", (int64_t)status.failed);
    json_member_date(writer, "next_attempt", status.next_attempt_ms);
    json_member_string(writer, "unseen_writers", status.unseen);
    write_error(writer, status.error);
    json_end_object(writer);

    json_key(writer, "quota");
    json_begin_object(writer);
    json_member_integer(writer, "sent_today", status.sent_today);
    json_key(writer, "daily_limit");
    if (status.daily_limit < 0)
        json_write_null(writer);
    else
        json_write_integer(writer, status.daily_limit);
    json_end_object(writer);
}

/* Makes a new text, which STATUS_MAX_BYTES have room for. */
static void render_locked(struct tree *tree)
{
    struct status *status = tree->status;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(STATUS_MAX_BYTES);
    struct json_writer writer;
    size_t len;
    json_writer_init(&writer, &out, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "version", INBOXFS_VERSION);
    json_member_string(&writer, "service", tree->config.source);
    json_member_string(&writer, "account", tree->config.account);
    json_member_date(&writer, "started", tree->started_ms);
    write_store(&writer, tree);
    write_outbox(&writer, tree);
    write_tally(&writer, "refused", &status->refused);
    write_tally(&writer, "failed", &status->failed);
    write_service(&writer, tree);
    json_end_object(&writer);
    strbuf_append_char(&out, '\n');

    char *text = strbuf_take(&out, &len);
    if (status->text == NULL || len != status->len || memcmp(text, status->text, len) != 0)
        status->changed_ms = clock_realtime_ms(tree->config.clock);
    free(status->text);
    status->text = text;
    status->len = len;
    status->rendered_ms = clock_monotonic_ms(tree->config.clock);
}

/* ---------------------------------------------------------------- the file */

static int init_status(struct tree *tree, int state_dir_fd)
{
    tree->status = g_new0(struct status, 1);
    pthread_mutex_init(&tree->status->lock, NULL);
    return 0;
}

static void release_status(struct tree *tree)
{
    if (tree->status == NULL)
        return;
    free(tree->status->text);
    release_tally(&tree->status->refused);
    release_tally(&tree->status->failed);
    pthread_mutex_destroy(&tree->status->lock);
    free(tree->status);
}

static int get_status(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_entry *ret)
{
    struct status *status = tree->status;
    LOCK_GUARD(&status->lock);
    bool is_fresh =
        status->text != NULL && clock_monotonic_ms(tree->config.clock) - status->rendered_ms < TEXT_LASTS_MS;
    if (!is_fresh)
        render_locked(tree);
    entry_fill_ms(tree, ino, S_IFREG | 0444, status->len, status->changed_ms, LASTING_NAME, ret);
    return 0;
}

static int open_status(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                       struct tree_handle **ret_handle)
{
    struct status *status = tree->status;
    LOCK_GUARD(&status->lock);
    render_locked(tree);
    return handle_open_text(tree, flags, g_strndup(status->text, status->len), status->len, ret_handle);
}

const struct node_ops status_ops = {
    .init = init_status,
    .release = release_status,
    .state_name = "status.json",
    .get = get_status,
    .open = open_status,
};
