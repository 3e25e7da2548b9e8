/* SPDX-License-Identifier: MIT */
/*
 * Shows the outbound list to the sync as an inbox, and marks in its records what is hidden.
 */
#include "store/outbound.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/json_writer.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/old_log.h"

/* Nobody sees it. */
static const char inbox_id[] = "sent";

/* Where records go, and what is done to them before. */
struct filter {
    struct outbound *outbound;
    email_sink sink;
    void *context;
};

static bool is_hidden(struct outbound *outbound, const char *key)
{
    struct index *index = &outbound->index;
    bool is_held = false;
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = inbox_table_get(&index->inboxes, outbound->inbox);
    const struct email_entry *entry =
        email_table_find(index->emails, email_list_find_key(index->emails, &inbox->emails,
                                                            email_table_hash(index->emails, key)));
    if (entry != NULL)
        is_held = entry->is_held;
    pthread_rwlock_unlock(&index->read_lock);
    return is_held;
}

static int take(void *context, struct email_record *record)
{
    const struct filter *filter = context;
    if (record != NULL)
        record->is_held = is_hidden(filter->outbound, record->key);
    return filter->sink(filter->context, record);
}

static void list_as_inbox(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret)
{
    struct outbound *outbound = (struct outbound *)service;
    struct email_query everything = *query;
    everything.inbox_id = NULL;
    everything.with_invalid = false;
    struct filter filter = {outbound, sink, context};
    outbound->service->ops->list_outbound(outbound->service, &everything, take, &filter, cancel, ret_count,
                                          ret);
}

static int make_inbox(struct outbound *outbound)
{
    struct inbox_record record = {.id = NULL};
    int error = inbox_record_from_id(inbox_id, &record);
    if (error == 0)
        error = index_put_inbox(&outbound->index, &record, INBOX_CREATED, 0, &outbound->inbox);
    inbox_record_release(&record);
    return error;
}

void outbound_release(struct outbound *outbound)
{
    index_release(&outbound->index);
}

/* The record of what is known, or of what is to come, in which only the id counts. */
static int make_record(struct outbound *outbound, const char *id, struct email_record *ret_record)
{
    struct email_view view;
    _cleanup_free_ char *json = NULL;
    size_t len;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(EMAIL_RECORD_MAX_BYTES);
    struct json_writer writer;
    if (index_find_email_by_id(&outbound->index, outbound->inbox, id, &view) &&
        index_read_email(&outbound->index, view.number, &json, &len) == 0)
        return email_record_from_text(json, len, ret_record);
    json_writer_init(&writer, &text, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "id", id);
    json_end_object(&writer);
    return text.error != 0 ? text.error : email_record_from_text(text.data, text.len, ret_record);
}

int outbound_hide(struct outbound *outbound, const char *id)
{
    enum index_put put;
    struct email_record record = {.key = NULL};
    _cleanup_free_ struct email_batch *batch = calloc(1, sizeof(*batch));
    int error = batch == NULL ? -ENOMEM : make_record(outbound, id, &record);
    if (error == 0) {
        record.is_held = true;
        error = index_put_email(&outbound->index, batch, outbound->inbox, &record, &put);
    }
    if (error == 0)
        error = email_batch_flush(batch, &outbound->index);
    if (batch != NULL)
        email_batch_release(batch);
    email_record_release(&record);
    return error;
}

/* ---------------------------------------------------------------- opened and released */

enum {
    OLD_EMAIL = 3,
    OLD_IS_HELD = 1,
};

/* How version 0.1 wrote an email down; then its JSON, key and name, each with a NUL. */
struct old_email {
    uint32_t inbox;
    uint32_t json_len;
    int64_t date_ms;
    int64_t seen_ms;
    uint32_t key_len;
    uint32_t name_len;
    uint32_t line_len;
    uint32_t flags;
};

/* Only what is hidden is not fetched again. */
static int take_old_frame(void *context, unsigned int kind, const void *payload, size_t len)
{
    const struct old_email *old = payload;
    const char *key = (const char *)(old + 1) + (len < sizeof(*old) ? 0 : old->json_len) + 1;
    if (kind != OLD_EMAIL || len < sizeof(*old) || (old->flags & OLD_IS_HELD) == 0 ||
        (uint64_t)old->json_len + old->key_len + 2 > len - sizeof(*old) ||
        strnlen(key, old->key_len + 1) != old->key_len)
        return 0;
    return outbound_hide(context, key);
}

/* What does not get on the disk now is tried again the next time. */
static void hide_old(struct outbound *outbound, int dir_fd)
{
    static const char name[] = "sent/records";
    int error = old_log_visit(dir_fd, name, take_old_frame, outbound);
    bool is_kept = error == 0 && !outbound->index.records.has_warned;
    if (!is_kept && error != -EBADMSG)
        return;
    unlinkat(dir_fd, name, 0);
    unlinkat(dir_fd, "sent", AT_REMOVEDIR);
}

int outbound_open(struct outbound *outbound, struct mail_service *service,
                  const struct store_listener *listener, struct index *received, int dir_fd)
{
    static const struct mail_service_ops ops = {.list_emails = list_as_inbox};
    static const struct event_listener nobody = {.notify = NULL};
    *outbound = (struct outbound){.as_inbox = {&ops}, .service = service};
    int error = index_open(&outbound->index, received->clock, listener, &nobody, received->records.file,
                           RECORDS_SENT);
    if (error != 0)
        return error;
    index_join(received, &outbound->index);
    error = make_inbox(outbound);
    if (error == 0)
        hide_old(outbound, dir_fd);
    return error;
}
