/* SPDX-License-Identifier: MIT */
/*
 * Emails, read here or ahead. The stream and the reader belong to one thread at a time: to the pipeline's
 * while it has text to read, else to the one that lists.
 */
#include "api/email_intake.h"

#include <errno.h>

/* ---------------------------------------------------------------- reading */

static int deliver(void *context, int outcome, struct email_record *record)
{
    struct email_intake *intake = context;
    int error = list_intake_begin(&intake->base);
    if (error != 0)
        return error;
    return list_intake_note(&intake->base, outcome == 0 ? intake->sink(intake->context, record) : outcome);
}

/* `record` is NULL unless outcome is 0. */
static int pass_on(struct email_intake *intake, int outcome, struct email_record *record)
{
    if (intake->is_ahead)
        return record_pipeline_add(intake->pipeline, outcome, record, intake->reader);
    return deliver(intake, outcome, record);
}

static int unreadable(int error)
{
    switch (error) {
    case -EILSEQ:
        return LIST_RECORD_IS_NO_UTF8;
    case -EEXIST:
        return LIST_RECORD_HAS_KEY_TWICE;
    case -EBADMSG:
        return LIST_RECORD_IS_NO_JSON;
    default:
        return LIST_UNREADABLE;
    }
}

static int read_record(void *context, const char *text, size_t len)
{
    struct email_intake *intake = context;
    struct email_record record;
    size_t record_len;
    if (text == NULL)
        return pass_on(intake, LIST_UNREADABLE, NULL);
    int error = email_reader_read(intake->reader, text, len, &record, &record_len);
    if (error == -ENOMEM)
        return error;
    return error == 0 ? pass_on(intake, 0, &record) : pass_on(intake, unreadable(error), NULL);
}

static int take_record(void *context, const char *text, size_t len, size_t *ret_len)
{
    struct email_intake *intake = context;
    struct email_record record;
    size_t record_len;
    *ret_len = 0;
    if (email_reader_read(intake->reader, text, len, &record, &record_len) != 0)
        return 0;
    *ret_len = record_len;
    return pass_on(intake, 0, &record);
}

static int parse_ahead(void *context, const char *bytes, size_t len)
{
    struct email_intake *intake = context;
    intake->is_ahead = true;
    return record_stream_feed(&intake->stream, bytes, len);
}

static int parse_here(struct email_intake *intake, const char *bytes, size_t len)
{
    intake->is_ahead = false;
    return record_stream_feed(&intake->stream, bytes, len);
}

/* ---------------------------------------------------------------- the intake */

static void start_pipeline(struct email_intake *intake)
{
    const struct pipeline_config config = {.parse = parse_ahead, .deliver = deliver, .context = intake};
    intake->has_tried = true;
    if (record_pipeline_new(&config, intake->limit, &intake->pipeline) != 0)
        intake->pipeline = NULL; /* then all is read here */
}

static int feed(struct list_intake *base, const char *bytes, size_t len)
{
    struct email_intake *intake = (struct email_intake *)base;
    if (intake->error != 0)
        return intake->error;
    if (!intake->has_tried && intake->fed >= EMAIL_INTAKE_SHORT_BYTES)
        start_pipeline(intake);
    intake->fed += len;
    intake->error = intake->pipeline != NULL ? record_pipeline_feed(intake->pipeline, bytes, len)
                                             : parse_here(intake, bytes, len);
    return intake->error;
}

/* Hands on all that was fed. */
static void settle(struct email_intake *intake)
{
    const char *bytes;
    size_t len;
    if (intake->pipeline == NULL || intake->error != 0)
        return;
    intake->error = record_pipeline_drain(intake->pipeline, &bytes, &len);
    if (intake->error == 0)
        intake->error = parse_here(intake, bytes, len);
}

static void pause_intake(struct list_intake *base)
{
    struct email_intake *intake = (struct email_intake *)base;
    settle(intake);
    intake->sink(intake->context, NULL);
}

static int finish(struct list_intake *base)
{
    struct email_intake *intake = (struct email_intake *)base;
    settle(intake);
    return intake->error != 0 ? intake->error : record_stream_finish(&intake->stream);
}

int email_intake_init(struct email_intake *intake, email_sink sink, size_t most, void *context,
                      struct pipeline_limit *limit)
{
    static const struct list_intake_ops ops = {.feed = feed, .pause = pause_intake, .finish = finish};
    *intake = (struct email_intake){
        .base = {.ops = &ops, .most = most}, .sink = sink, .context = context, .limit = limit};
    record_stream_init(&intake->stream, EMAIL_RECORD_MAX_BYTES, read_record, intake);
    intake->stream.taker = take_record;
    return email_reader_new(&intake->reader);
}

void email_intake_release(struct email_intake *intake)
{
    record_pipeline_free(intake->pipeline);
    email_reader_free(intake->reader);
    record_stream_release(&intake->stream);
}
