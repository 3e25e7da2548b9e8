/* SPDX-License-Identifier: MIT */
/*
 * One record by itself.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <stdlib.h>

#include "mail/email_reader.h"
#include "mail/json_reader.h"

static bool is_blank(const char *text, size_t len)
{
    struct json_reader rest;
    json_reader_init(&rest, text, len);
    return json_reader_is_at_end(&rest);
}

int email_record_from_text(const char *text, size_t len, struct email_record *ret_record)
{
    struct email_record record;
    struct email_reader *reader = NULL;
    size_t record_len = 0;
    int error = len > EMAIL_RECORD_MAX_BYTES ? -EMSGSIZE : email_reader_new(&reader);
    if (error == 0)
        error = email_reader_read(reader, text, len, &record, &record_len);
    if (error == 0 && !is_blank(text + record_len, len - record_len))
        error = -EBADMSG;
    if (error == 0)
        error = email_reader_hand_over(reader, &record);
    email_reader_free(reader);
    if (error == 0)
        *ret_record = record;
    return error;
}

void email_record_release(struct email_record *record)
{
    free(record->owned);
    *record = (struct email_record){.key = NULL};
}
