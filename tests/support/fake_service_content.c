/* SPDX-License-Identifier: MIT */
/*
 * The fake service's emails: their content, and marks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "support/fake_service_state.h"

static struct fake_service *fake_of(struct mail_service *service)
{
    return (struct fake_service *)service;
}

/* ---------------------------------------------------------------- the data */

static void set_part(struct fake_service *fake, enum fake_call call, const char *id,
                     const char *attachment_id, const void *bytes, size_t len)
{
    struct fake_part *part = fake_must(calloc(1, sizeof(*part)));
    part->call = call;
    part->id = fake_must(strdup(id));
    part->attachment_id = attachment_id == NULL ? NULL : fake_must(strdup(attachment_id));
    pthread_mutex_lock(&fake->lock);
    part->bytes = fake_keep_bytes(fake, bytes, len);
    part->len = len;
    part->next = fake->parts;
    fake->parts = part;
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_set_content(struct fake_service *fake, const char *id, const char *json)
{
    set_part(fake, FAKE_GET_CONTENT, id, NULL, json, strlen(json));
}

void fake_service_set_bytes(struct fake_service *fake, const char *id, const char *attachment_id,
                            const void *bytes, size_t len)
{
    set_part(fake, attachment_id == NULL ? FAKE_GET_RAW : FAKE_GET_ATTACHMENT, id, attachment_id, bytes, len);
}

static bool is_same(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

/* Returns the part; NULL if it is missing, with a 404 as the outcome. */
static const struct fake_part *find_part_locked(struct fake_service *fake, enum fake_call call,
                                                const char *id, const char *attachment_id,
                                                struct fake_outcome *outcome)
{
    const struct fake_part *part = fake->parts;
    while (part != NULL &&
           (part->call != call || strcmp(part->id, id) != 0 || !is_same(part->attachment_id, attachment_id)))
        part = part->next;
    if (part == NULL && outcome->outcome == SERVICE_OK)
        *outcome = (struct fake_outcome){.outcome = SERVICE_REJECTED,
                                         .http_status = 404,
                                         .error = ENOENT,
                                         .detail = "there is no such email"};
    return outcome->outcome == SERVICE_OK ? part : NULL;
}

/* ---------------------------------------------------------------- calls */

void fake_get_content(struct mail_service *service, const struct content_query *query, struct cancel *cancel,
                      struct content_folder *ret_content, struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {.text = query->email_id};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_GET_CONTENT, &call, cancel);
    const struct fake_part *part = find_part_locked(fake, FAKE_GET_CONTENT, query->email_id, NULL, &outcome);
    if (part != NULL)
        fake->capabilities.content = CAPABILITY_PRESENT;
    if (part != NULL && part->len > query->max_bytes) {
        outcome = (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 200, .error = EFBIG};
        part = NULL;
    }
    if (part != NULL && content_folder_read(part->bytes, part->len, ret_content) != 0)
        abort();
    fake_end_call_locked(fake, FAKE_GET_CONTENT, &outcome, ret);
}

void fake_get_bytes(struct mail_service *service, const struct content_query *query, int fd,
                    struct cancel *cancel, uint64_t *ret_len, struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    enum fake_call kind = query->attachment_id == NULL ? FAKE_GET_RAW : FAKE_GET_ATTACHMENT;
    const struct fake_record call = {.text = query->email_id, .key = query->attachment_id};
    struct fake_outcome outcome = fake_begin_call(fake, kind, &call, cancel);
    const struct fake_part *part =
        find_part_locked(fake, kind, query->email_id, query->attachment_id, &outcome);
    if (part != NULL) {
        if (kind == FAKE_GET_RAW)
            fake->capabilities.raw = CAPABILITY_PRESENT;
        if (part->len > query->max_bytes)
            outcome = (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 200, .error = EFBIG};
        else if (file_pwrite_all(fd, part->bytes, part->len, 0) != 0)
            outcome = (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 200, .error = EIO};
        *ret_len = part->len;
    }
    fake_end_call_locked(fake, kind, &outcome, ret);
}

static struct fake_email *find_email_locked(struct fake_service *fake, const char *id)
{
    struct fake_email *email = fake->emails;
    while (email != NULL && strcmp(email->id, id) != 0)
        email = email->next;
    return email;
}

void fake_mark_email(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
                     struct cancel *cancel, struct email_record *ret_record, struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {
        .text = email_id, .key = is_valid ? "true" : "false", .timeout_ms = timeout_ms};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_MARK, &call, cancel);
    struct fake_email *email = find_email_locked(fake, email_id);
    *ret_record = (struct email_record){.key = NULL};
    if (email == NULL && outcome.outcome == SERVICE_OK)
        outcome = (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 404, .error = ENOENT};
    if (email != NULL && (outcome.outcome == SERVICE_OK || outcome.happens))
        json_object_set_new(email->record, "user_mark_status", json_boolean(is_valid));
    if (email != NULL && outcome.outcome == SERVICE_OK && !outcome.without_id) {
        _cleanup_free_ char *text = fake_must(json_dumps(email->record, JSON_COMPACT));
        if (email_record_from_text(text, strlen(text), ret_record) != 0)
            abort();
    }
    fake_end_call_locked(fake, FAKE_MARK, &outcome, ret);
}
