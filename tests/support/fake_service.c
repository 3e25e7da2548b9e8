/* SPDX-License-Identifier: MIT */
/*
 * The service in memory: its script, its record of calls, and its data.
 */
#include "support/fake_service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "support/fake_service_state.h"

enum {
    PATIENCE_S = 20
};

static const char *const call_names[FAKE_CALL_KINDS] = {
    "list_inboxes",  "list_emails", "upsert_inbox",   "upload",  "send",
    "list_outbound", "get_content", "get_attachment", "get_raw", "mark_email"};

void *fake_must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

const char *fake_keep_bytes(struct fake_service *fake, const void *bytes, size_t len)
{
    if (bytes == NULL)
        return NULL;
    struct fake_text *text = fake_must(calloc(1, sizeof(*text)));
    text->bytes = fake_must(calloc(1, len + 1));
    memcpy(text->bytes, bytes, len);
    text->next = fake->texts;
    fake->texts = text;
    return text->bytes;
}

struct fake_inbox *fake_find_inbox_locked(struct fake_service *fake, const char *id)
{
    struct fake_inbox *inbox = fake->inboxes;
    while (inbox != NULL && strcmp(inbox->id, id) != 0)
        inbox = inbox->next;
    return inbox;
}

void fake_put_inbox_locked(struct fake_service *fake, const char *id, json_t *record)
{
    struct fake_inbox *inbox = fake_find_inbox_locked(fake, id);
    if (inbox == NULL) {
        struct fake_inbox **end = &fake->inboxes;
        while (*end != NULL)
            end = &(*end)->next;
        inbox = fake_must(calloc(1, sizeof(*inbox)));
        inbox->id = fake_must(strdup(id));
        *end = inbox;
    }
    json_decref(inbox->record);
    inbox->record = record;
}

/* ---------------------------------------------------------------- creation and end */

struct fake_service *fake_service_new(void)
{
    struct fake_service *fake = fake_must(calloc(1, sizeof(*fake)));
    fake->service.ops = &fake_service_ops;
    pthread_mutex_init(&fake->lock, NULL);
    clock_condition_init(&fake->changed);
    return fake;
}

static void free_email(struct fake_email *email)
{
    free(email->inbox_id);
    free(email->id);
    json_decref(email->record);
    free(email);
}

static void free_inbox(struct fake_inbox *inbox)
{
    free(inbox->id);
    json_decref(inbox->record);
    free(inbox);
}

static void free_calls(struct fake_calls *calls)
{
    free(calls->records);
    free(calls->pushed);
}

static void free_emails(struct fake_email *first)
{
    for (struct fake_email *email = first, *next; email != NULL; email = next) {
        next = email->next;
        free_email(email);
    }
}

static void free_parts(struct fake_part *first)
{
    for (struct fake_part *part = first, *next; part != NULL; part = next) {
        next = part->next;
        free(part->id);
        free(part->attachment_id);
        free(part);
    }
}

void fake_service_free(struct fake_service *fake)
{
    if (fake == NULL)
        return;
    free_emails(fake->emails);
    free_emails(fake->outbound);
    free_parts(fake->parts);
    for (struct fake_inbox *inbox = fake->inboxes, *next; inbox != NULL; inbox = next) {
        next = inbox->next;
        free_inbox(inbox);
    }
    for (struct fake_text *text = fake->texts, *next; text != NULL; text = next) {
        next = text->next;
        free(text->bytes);
        free(text);
    }
    for (struct fake_answer *answer = fake->answers, *next; answer != NULL; answer = next) {
        next = answer->next;
        free(answer->inbox_id);
        json_decref(answer->records);
        free(answer);
    }
    for (size_t i = 0; i < FAKE_CALL_KINDS; i++)
        free_calls(&fake->calls[i]);
    for (unsigned int i = 0; i < fake->sent; i++)
        free(fake->sent_keys[i]);
    free(fake->sent_keys);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

struct mail_service *fake_service_as_service(struct fake_service *fake)
{
    return &fake->service;
}

/* ---------------------------------------------------------------- the script */

static struct fake_outcome keep_outcome_locked(struct fake_service *fake, struct fake_outcome outcome)
{
    if (outcome.detail != NULL)
        outcome.detail = fake_keep_bytes(fake, outcome.detail, strlen(outcome.detail));
    if (outcome.id != NULL)
        outcome.id = fake_keep_bytes(fake, outcome.id, strlen(outcome.id));
    return outcome;
}

void fake_service_push(struct fake_service *fake, enum fake_call call, struct fake_outcome outcome)
{
    struct fake_calls *calls = &fake->calls[call];
    pthread_mutex_lock(&fake->lock);
    calls->pushed = fake_must(realloc(calls->pushed, (calls->pushed_len + 1) * sizeof(*calls->pushed)));
    calls->pushed[calls->pushed_len++] = keep_outcome_locked(fake, outcome);
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_set(struct fake_service *fake, enum fake_call call, struct fake_outcome outcome)
{
    pthread_mutex_lock(&fake->lock);
    fake->calls[call].usual = keep_outcome_locked(fake, outcome);
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_set_reachable(struct fake_service *fake, bool is_reachable)
{
    pthread_mutex_lock(&fake->lock);
    fake->is_unreachable = !is_reachable;
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_set_capabilities(struct fake_service *fake, const struct service_capabilities *capabilities)
{
    pthread_mutex_lock(&fake->lock);
    fake->capabilities = *capabilities;
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_use_etags(struct fake_service *fake)
{
    pthread_mutex_lock(&fake->lock);
    fake->has_etags = true;
    pthread_mutex_unlock(&fake->lock);
}

static void set_gate(struct fake_service *fake, enum fake_call call, bool is_closed, unsigned int may_pass)
{
    pthread_mutex_lock(&fake->lock);
    fake->calls[call].gate_is_closed = is_closed;
    fake->calls[call].may_pass = may_pass;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_close_gate(struct fake_service *fake, enum fake_call call)
{
    set_gate(fake, call, true, 0);
}

void fake_service_open_gate(struct fake_service *fake, enum fake_call call)
{
    set_gate(fake, call, false, 0);
}

void fake_service_let_pass(struct fake_service *fake, enum fake_call call, unsigned int count)
{
    pthread_mutex_lock(&fake->lock);
    fake->calls[call].may_pass += count;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

/* ---------------------------------------------------------------- waiting */

static void wait_or_die_locked(struct fake_service *fake, const struct timespec *until, const char *what,
                               enum fake_call call)
{
    if (pthread_cond_timedwait(&fake->changed, &fake->lock, until) != ETIMEDOUT)
        return;
    fprintf(stderr, "fake service: %s of %s did not come\n", what, call_names[call]);
    abort();
}

static struct timespec patience_end(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

void fake_service_wait_at_gate(struct fake_service *fake, enum fake_call call, unsigned int count)
{
    struct timespec until = patience_end();
    pthread_mutex_lock(&fake->lock);
    while (fake->calls[call].at_gate < count)
        wait_or_die_locked(fake, &until, "arrival", call);
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_wait_count(struct fake_service *fake, enum fake_call call, unsigned int count)
{
    struct timespec until = patience_end();
    pthread_mutex_lock(&fake->lock);
    while (fake->calls[call].ended < count)
        wait_or_die_locked(fake, &until, "end", call);
    pthread_mutex_unlock(&fake->lock);
}

/* ---------------------------------------------------------------- the record of calls */

unsigned int fake_service_count_delivered(struct fake_service *fake)
{
    pthread_mutex_lock(&fake->lock);
    unsigned int delivered = fake->delivered;
    pthread_mutex_unlock(&fake->lock);
    return delivered;
}

unsigned int fake_service_count(struct fake_service *fake, enum fake_call call)
{
    pthread_mutex_lock(&fake->lock);
    unsigned int ended = fake->calls[call].ended;
    pthread_mutex_unlock(&fake->lock);
    return ended;
}

struct fake_record fake_service_get(struct fake_service *fake, enum fake_call call, unsigned int index)
{
    pthread_mutex_lock(&fake->lock);
    if (index >= fake->calls[call].len) {
        fprintf(stderr, "fake service: there was no %s number %u\n", call_names[call], index);
        abort();
    }
    struct fake_record record = fake->calls[call].records[index];
    pthread_mutex_unlock(&fake->lock);
    return record;
}

unsigned int fake_service_most_at_once(struct fake_service *fake, enum fake_call call)
{
    pthread_mutex_lock(&fake->lock);
    unsigned int most = fake->calls[call].most_at_once;
    pthread_mutex_unlock(&fake->lock);
    return most;
}

static bool is_repeated_locked(const struct fake_service *fake, unsigned int index)
{
    for (unsigned int i = 0; i < index; i++)
        if (strcmp(fake->sent_keys[i], fake->sent_keys[index]) == 0)
            return true;
    return false;
}

unsigned int fake_service_count_sent(struct fake_service *fake, bool keys_count)
{
    unsigned int count = 0;
    pthread_mutex_lock(&fake->lock);
    for (unsigned int i = 0; i < fake->sent; i++)
        count += !keys_count || !is_repeated_locked(fake, i);
    pthread_mutex_unlock(&fake->lock);
    return count;
}

/* ---------------------------------------------------------------- data */

static json_t *parse(const char *json)
{
    return fake_must(json_loads(json, JSON_ALLOW_NUL, NULL));
}

/* Returns a copy of the record's `id`; "" if it has none. */
static char *id_of(const json_t *record)
{
    const char *id = json_string_value(json_object_get(record, "id"));
    return fake_must(strdup(id == NULL ? "" : id));
}

void fake_service_add_inbox(struct fake_service *fake, const char *json)
{
    json_t *record = parse(json);
    _cleanup_free_ char *id = id_of(record);
    pthread_mutex_lock(&fake->lock);
    fake_put_inbox_locked(fake, id, record);
    pthread_mutex_unlock(&fake->lock);
}

static void push_email(struct fake_service *fake, struct fake_email **list, const char *inbox_id,
                       const char *json)
{
    struct fake_email *email = fake_must(calloc(1, sizeof(*email)));
    email->record = parse(json);
    email->id = id_of(email->record);
    email->inbox_id = fake_must(strdup(inbox_id));
    pthread_mutex_lock(&fake->lock);
    email->next = *list;
    *list = email;
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_add_email(struct fake_service *fake, const char *inbox_id, const char *json)
{
    push_email(fake, &fake->emails, inbox_id, json);
}

void fake_service_add_outbound(struct fake_service *fake, const char *inbox_id, const char *json)
{
    push_email(fake, &fake->outbound, inbox_id, json);
}

void fake_service_add_simple_email(struct fake_service *fake, const char *inbox_id, const char *id,
                                   const char *subject)
{
    json_t *record = fake_must(json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:n}}", "id", id, "inbox_id", inbox_id,
                                         "subject", subject, "date", "2026-11-20T10:00:00Z", "from_address",
                                         "address", "bob@sender.example", "name"));
    _cleanup_free_ char *json = fake_must(json_dumps(record, 0));
    json_decref(record);
    fake_service_add_email(fake, inbox_id, json);
}

/* Returns the link to the email with this id, which must exist. */
static struct fake_email **find_email_locked(struct fake_service *fake, const char *id)
{
    struct fake_email **at = &fake->emails;
    while (*at != NULL && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    if (*at == NULL) {
        fprintf(stderr, "fake service: there is no email %s\n", id);
        abort();
    }
    return at;
}

void fake_service_replace_email(struct fake_service *fake, const char *id, const char *json)
{
    json_t *record = parse(json);
    pthread_mutex_lock(&fake->lock);
    struct fake_email *email = *find_email_locked(fake, id);
    json_decref(email->record);
    email->record = record;
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_remove_outbound(struct fake_service *fake)
{
    pthread_mutex_lock(&fake->lock);
    free_emails(fake->outbound);
    fake->outbound = NULL;
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_remove_email(struct fake_service *fake, const char *id)
{
    pthread_mutex_lock(&fake->lock);
    struct fake_email **at = find_email_locked(fake, id);
    struct fake_email *email = *at;
    *at = email->next;
    free_email(email);
    pthread_mutex_unlock(&fake->lock);
}

void fake_service_remove_inbox(struct fake_service *fake, const char *id)
{
    pthread_mutex_lock(&fake->lock);
    struct fake_inbox **at = &fake->inboxes;
    while (*at != NULL && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    if (*at != NULL) {
        struct fake_inbox *inbox = *at;
        *at = inbox->next;
        free_inbox(inbox);
    }
    pthread_mutex_unlock(&fake->lock);
}
