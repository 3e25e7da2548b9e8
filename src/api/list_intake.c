/* SPDX-License-Identifier: MIT */
/*
 * Records, one by one.
 */
#include "api/list_intake.h"

#include <errno.h>
#include <stdio.h>

#include "mail/email_record.h"

static const char *words_of(int unreadable)
{
    switch (unreadable) {
    case LIST_RECORD_IS_NO_UTF8:
        return "invalid UTF-8";
    case LIST_RECORD_HAS_KEY_TWICE:
        return "a key twice in an object";
    case LIST_RECORD_IS_NO_JSON:
        return "invalid JSON";
    default:
        return "too long, nested too deep, or without what every record has";
    }
}

int list_intake_begin(struct list_intake *intake)
{
    if (intake->stopped_by == 0 && intake->count >= intake->most)
        intake->stopped_by = -EOVERFLOW;
    return intake->stopped_by;
}

int list_intake_note(struct list_intake *intake, int outcome)
{
    intake->count++;
    if (outcome <= 0)
        return intake->stopped_by = outcome;
    if (intake->words[0] == '\0')
        snprintf(intake->words, sizeof(intake->words), "record %u of the list cannot be read: %s",
                 intake->count, words_of(outcome));
    return 0;
}

static int take_record(void *context, const char *text, size_t len)
{
    struct item_intake *intake = context;
    int error = list_intake_begin(&intake->base);
    if (error != 0)
        return error;
    int outcome = text == NULL ? LIST_UNREADABLE : intake->item(intake->context, text, len);
    return list_intake_note(&intake->base, outcome);
}

static int feed(struct list_intake *base, const char *bytes, size_t len)
{
    return record_stream_feed(&((struct item_intake *)base)->stream, bytes, len);
}

static int finish(struct list_intake *base)
{
    return record_stream_finish(&((struct item_intake *)base)->stream);
}

void item_intake_init(struct item_intake *intake, list_item item, size_t most, void *context)
{
    static const struct list_intake_ops ops = {.feed = feed, .finish = finish};
    *intake = (struct item_intake){.base = {.ops = &ops, .most = most}, .item = item, .context = context};
    record_stream_init(&intake->stream, EMAIL_RECORD_MAX_BYTES, take_record, intake);
}

void item_intake_release(struct item_intake *intake)
{
    record_stream_release(&intake->stream);
}
