/* SPDX-License-Identifier: MIT */
/*
 * Answers: what a user writes, laid over what the email answered gives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/draft_reading.h"
#include "mail/reason.h"

static bool is_json(const char *bytes, size_t len)
{
    size_t blank = 0;
    while (blank < len && strchr(" \t\r\n", bytes[blank]) != NULL)
        blank++;
    return blank < len && bytes[blank] == '{';
}

/* A body alone is read as that of a message, whose charset nothing tells. */
static int read_body(struct draft_reading *reading, const char *bytes, size_t len)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(2 * DRAFT_MAX_BYTES);
    strbuf_append_str(&message, "MIME-Version: 1.0\n\n");
    strbuf_append(&message, bytes, len);
    return message.error != 0 ? message.error : draft_read_mime(reading, message.data, message.len);
}

static int read_text(struct draft_reading *reading, const char *bytes, size_t len)
{
    bool has_type;
    int error = draft_check_header_section(reading, bytes, len, &has_type);
    if (error == 0)
        return draft_read_mime(reading, bytes, len);
    if (error != -EBADMSG || draft_begins_with_header(bytes, len))
        return error;
    free(TAKE_PTR(*reading->ret_reason));
    return read_body(reading, bytes, len);
}

static void take_list(struct address_list *list, struct address_list *missing)
{
    if (list->len > 0)
        return;
    address_list_release(list);
    *list = *missing;
    *missing = (struct address_list){0};
}

static void take_text(char **text, char **missing)
{
    if (*text == NULL)
        *text = TAKE_PTR(*missing);
}

/* Which email is answered is settled: by where the message was put. */
static int check_target(const struct draft_reading *reading, const struct draft_reading *answered)
{
    bool is_other = reading->message_type != NULL &&
                    (strcmp(reading->message_type, answered->message_type) != 0 ||
                     strcmp(reading->existing_email_id, answered->existing_email_id) != 0);
    return is_other ? reason_give(reading->ret_reason, -EBADMSG,
                                  "existing_email_id, message_type: not those of the email answered here")
                    : 0;
}

static int merge(struct draft_reading *reading, struct draft_reading *answered)
{
    int error = check_target(reading, answered);
    if (error != 0)
        return error;
    take_list(&reading->to, &answered->to);
    take_list(&reading->cc, &answered->cc);
    take_text(&reading->from, &answered->from);
    take_text(&reading->subject, &answered->subject);
    take_text(&reading->existing_email_id, &answered->existing_email_id);
    take_text(&reading->message_type, &answered->message_type);
    return 0;
}

int draft_read_answer(struct draft_reading *reading, const char *bytes, size_t len, const char *answered)
{
    _cleanup_(draft_reading_release) struct draft_reading from_email = {.ret_reason = reading->ret_reason};
    reading->is_answer = true;
    int error = draft_read_json(&from_email, answered, strlen(answered));
    if (error == 0)
        error = is_json(bytes, len) ? draft_read_json(reading, bytes, len) : read_text(reading, bytes, len);
    return error != 0 ? error : merge(reading, &from_email);
}
