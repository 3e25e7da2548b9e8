/* SPDX-License-Identifier: MIT */
/*
 * Hides sent mail. Sent mail is in the inbox INDEX_SENT, which is in no list of inboxes; hidden emails are
 * marked as quarantined there.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/json_writer.h"
#include "store/index_changes.h"
#include "store/store_private.h"

/* Reads the record with this id, or makes one for an email that the service has not listed yet. */
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

/* Ignores errors: the email then appears again. */
void store_hide_sent(struct store *store, const char *id)
{
    struct service_capabilities capabilities;
    struct email_record record = {.key = NULL};
    enum index_put put;
    store->service->ops->get_capabilities(store->service, &capabilities);
    /* If the service has no list of sent mail, no sent mail is shown. */
    if (capabilities.inbox_list == CAPABILITY_ABSENT || capabilities.outbound == CAPABILITY_ABSENT)
        return;
    _cleanup_free_ struct email_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL || make_record(store, id, &record) != 0)
        return;
    record.is_quarantined = true;
    int error;
    do { /* -EAGAIN: another thread took the name */
        error = index_put_email(&store->index, batch, INDEX_SENT, &record, &put);
        if (error == 0)
            error = email_batch_flush(batch, &store->index);
    } while (error == -EAGAIN);
    email_record_release(&record);
    email_batch_release(batch);
}
