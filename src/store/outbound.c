/* SPDX-License-Identifier: MIT */
/*
 * Shows the outbound list to the sync as an inbox, and marks in its records what is hidden.
 */
#include "store/outbound.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/strbuf.h"
#include "mail/json_writer.h"
#include "store/index_changes.h"
#include "store/store_private.h"

/* Marks records as hidden on their way to the sink. */
struct filter {
    struct outbound *outbound;
    email_sink sink;
    void *context;
};

static bool is_hidden(struct index *index, const char *key)
{
    READ_GUARD(&index->read_lock);
    const struct hashed_text hashed = email_table_hash(&index->emails, key);
    uint32_t number = email_list_find_key(&index->emails, &index->inboxes.sent.emails, hashed);
    const struct email_entry *entry = email_table_find(&index->emails, number);
    return entry != NULL && entry->is_held;
}

static int take(void *context, struct email_record *record)
{
    const struct filter *filter = context;
    if (record != NULL)
        record->is_held = is_hidden(filter->outbound->index, record->key);
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

void outbound_init(struct outbound *outbound, struct mail_service *service, struct index *index)
{
    static const struct mail_service_ops ops = {.list_emails = list_as_inbox};
    *outbound = (struct outbound){.as_inbox = {&ops}, .service = service, .index = index};
}

/* ---------------------------------------------------------------- what is hidden */

/* The record of what is known, or of what is to come, in which only the id counts. */
static int make_record(struct store *store, const char *id, struct email_record *ret_record)
{
    struct email_view view;
    _cleanup_free_ char *json = NULL;
    size_t len;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(EMAIL_RECORD_MAX_BYTES);
    struct json_writer writer;
    if (store_find_sent_by_id(store, id, &view) && store_read_email(store, view.number, &json, &len) == 0)
        return email_record_from_text(json, len, ret_record);
    json_writer_init(&writer, &text, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "id", id);
    json_end_object(&writer);
    return text.error != 0 ? text.error : email_record_from_text(text.data, text.len, ret_record);
}

static int hide(struct store *store, struct email_batch *batch, const char *id)
{
    enum index_put put;
    struct email_record record = {.key = NULL};
    int error = make_record(store, id, &record);
    if (error != 0)
        return error;
    record.is_held = true;
    error = index_put_email(&store->index, batch, INDEX_SENT, &record, &put);
    email_record_release(&record);
    return error != 0 ? error : email_batch_flush(batch, &store->index);
}

void store_hide_sent(struct store *store, const char *id)
{
    struct service_capabilities capabilities;
    store->service->ops->get_capabilities(store->service, &capabilities);
    /* A service without the list brings nothing to be hidden. */
    if (capabilities.inbox_list == CAPABILITY_ABSENT || capabilities.outbound == CAPABILITY_ABSENT)
        return;
    struct email_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return; /* it shows once more */
    (void)hide(store, batch, id);
    email_batch_release(batch);
    free(batch);
}
