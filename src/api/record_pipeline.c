/* SPDX-License-Identifier: MIT */
/*
 * Two rings: chunks go to the thread, batches come from it. Each side counts what it did with them; a chunk
 * or a batch belongs to one side at a time, which may look at it without the lock.
 */
#include "api/record_pipeline.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"

struct chunk {
    size_t len;
    char bytes[PIPELINE_CHUNK_BYTES];
};

struct item {
    int outcome;
    struct email_record record;
};

struct batch {
    size_t len;
    size_t texts_len;
    struct item items[PIPELINE_BATCH_RECORDS];
    char texts[PIPELINE_BATCH_BYTES];
};

struct record_pipeline {
    struct pipeline_config config;
    struct pipeline_limit *limit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work; /* the thread waits for this */
    pthread_cond_t news; /* the feeder for that */
    size_t given;        /* chunks; protected by lock, like all up to is_ending */
    size_t parsed;       /* of them */
    size_t published;    /* batches */
    size_t delivered;    /* of them */
    int parse_error;     /* sticky */
    bool is_ending;
    int error;          /* the feeder's own; sticky */
    struct batch *open; /* the thread's own: what it adds to */
    struct chunk chunks[PIPELINE_CHUNKS];
    struct batch batches[PIPELINE_BATCHES];
};

void pipeline_limit_init(struct pipeline_limit *limit)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    atomic_init(&limit->running, 0);
    limit->most = cpus > PIPELINES_MAX ? PIPELINES_MAX : cpus > 1 ? (unsigned int)cpus - 1 : 0;
}

/* ---------------------------------------------------------------- the thread */

static const struct chunk *wait_for_chunk(struct record_pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    while (pipeline->parsed == pipeline->given && !pipeline->is_ending)
        pthread_cond_wait(&pipeline->work, &pipeline->lock);
    const struct chunk *chunk =
        pipeline->is_ending ? NULL : &pipeline->chunks[pipeline->parsed % PIPELINE_CHUNKS];
    pthread_mutex_unlock(&pipeline->lock);
    return chunk;
}

static void publish_locked(struct record_pipeline *pipeline)
{
    pipeline->published += pipeline->open != NULL;
    pipeline->open = NULL;
}

/* Signals are given behind the lock: who is woken wants it at once, and would only sleep again. */
static void publish(struct record_pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    publish_locked(pipeline);
    pthread_mutex_unlock(&pipeline->lock);
    pthread_cond_signal(&pipeline->news);
}

static void end_chunk(struct record_pipeline *pipeline, int error)
{
    pthread_mutex_lock(&pipeline->lock);
    publish_locked(pipeline);
    pipeline->parse_error = error;
    pipeline->parsed++;
    pthread_mutex_unlock(&pipeline->lock);
    pthread_cond_signal(&pipeline->news);
}

static void *run(void *argument)
{
    struct record_pipeline *pipeline = argument;
    const struct chunk *chunk;
    int error = 0;
    while ((chunk = wait_for_chunk(pipeline)) != NULL) {
        if (error == 0)
            error = pipeline->config.parse(pipeline->config.context, chunk->bytes, chunk->len);
        end_chunk(pipeline, error);
    }
    return NULL;
}

/* The batch to be added to; NULL: nobody wants more. */
static struct batch *open_batch(struct record_pipeline *pipeline)
{
    if (pipeline->open != NULL)
        return pipeline->open;
    pthread_mutex_lock(&pipeline->lock);
    while (pipeline->published - pipeline->delivered == PIPELINE_BATCHES && !pipeline->is_ending)
        pthread_cond_wait(&pipeline->work, &pipeline->lock);
    if (!pipeline->is_ending) {
        pipeline->open = &pipeline->batches[pipeline->published % PIPELINE_BATCHES];
        pipeline->open->len = pipeline->open->texts_len = 0;
    }
    pthread_mutex_unlock(&pipeline->lock);
    return pipeline->open;
}

/* Makes the record independent of its reader. -EAGAIN: not in this batch. */
static int keep_texts(struct batch *batch, struct email_record *record, struct email_reader *reader)
{
    size_t len = email_reader_copy(reader, record, batch->texts + batch->texts_len,
                                   sizeof(batch->texts) - batch->texts_len);
    batch->texts_len += len;
    if (len > 0)
        return 0;
    return batch->len > 0 ? -EAGAIN : email_reader_hand_over(reader, record);
}

static int add(struct batch *batch, int outcome, struct email_record *record, struct email_reader *reader)
{
    if (batch->len == PIPELINE_BATCH_RECORDS)
        return -EAGAIN;
    int error = record != NULL ? keep_texts(batch, record, reader) : 0;
    if (error != 0)
        return error;
    struct item *item = &batch->items[batch->len++];
    item->outcome = outcome;
    item->record = record != NULL ? *record : (struct email_record){.key = NULL};
    return 0;
}

int record_pipeline_add(struct record_pipeline *pipeline, int outcome, struct email_record *record,
                        struct email_reader *reader)
{
    for (;;) {
        struct batch *batch = open_batch(pipeline);
        int error = batch != NULL ? add(batch, outcome, record, reader) : -ECANCELED;
        if (error != -EAGAIN)
            return error;
        publish(pipeline);
    }
}

/* ---------------------------------------------------------------- the feeder */

static void deliver(struct record_pipeline *pipeline, struct batch *batch)
{
    for (size_t i = 0; i < batch->len; i++) {
        struct item *item = &batch->items[i];
        struct email_record *record = item->outcome == 0 ? &item->record : NULL;
        if (pipeline->error == 0)
            pipeline->error = pipeline->config.deliver(pipeline->config.context, item->outcome, record);
        email_record_release(&item->record);
    }
    pthread_mutex_lock(&pipeline->lock);
    pipeline->delivered++;
    pthread_mutex_unlock(&pipeline->lock);
    pthread_cond_signal(&pipeline->work);
}

/* Delivers what there is, until no more than so many chunks are left to be parsed. */
static void deliver_until(struct record_pipeline *pipeline, size_t most)
{
    for (;;) {
        pthread_mutex_lock(&pipeline->lock);
        while (pipeline->published == pipeline->delivered && pipeline->given - pipeline->parsed > most)
            pthread_cond_wait(&pipeline->news, &pipeline->lock);
        struct batch *batch = pipeline->published != pipeline->delivered
                                  ? &pipeline->batches[pipeline->delivered % PIPELINE_BATCHES]
                                  : NULL;
        int parse_error = pipeline->parse_error;
        pthread_mutex_unlock(&pipeline->lock);
        if (batch != NULL) {
            deliver(pipeline, batch);
            continue;
        }
        /* All that was read before the error was delivered. */
        if (pipeline->error == 0)
            pipeline->error = parse_error;
        return;
    }
}

static struct chunk *chunk_to_fill(struct record_pipeline *pipeline)
{
    return &pipeline->chunks[pipeline->given % PIPELINE_CHUNKS]; /* nobody else changes `given` */
}

static void give_chunk(struct record_pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    pipeline->given++;
    pthread_mutex_unlock(&pipeline->lock);
    pthread_cond_signal(&pipeline->work);
    deliver_until(pipeline, PIPELINE_CHUNKS - 1);
    chunk_to_fill(pipeline)->len = 0;
}

int record_pipeline_feed(struct record_pipeline *pipeline, const char *bytes, size_t len)
{
    while (len > 0 && pipeline->error == 0) {
        struct chunk *chunk = chunk_to_fill(pipeline);
        size_t room = sizeof(chunk->bytes) - chunk->len;
        size_t part = len < room ? len : room;
        memcpy(chunk->bytes + chunk->len, bytes, part);
        chunk->len += part;
        bytes += part;
        len -= part;
        if (part == room)
            give_chunk(pipeline);
    }
    return pipeline->error;
}

int record_pipeline_drain(struct record_pipeline *pipeline, const char **ret_bytes, size_t *ret_len)
{
    struct chunk *chunk = chunk_to_fill(pipeline);
    deliver_until(pipeline, 0);
    *ret_bytes = chunk->bytes;
    *ret_len = chunk->len;
    chunk->len = 0;
    return pipeline->error;
}

/* ---------------------------------------------------------------- beginning and end */

static int start(struct record_pipeline *pipeline)
{
    pthread_mutex_init(&pipeline->lock, NULL);
    pthread_cond_init(&pipeline->work, NULL);
    pthread_cond_init(&pipeline->news, NULL);
    return thread_start(&pipeline->thread, "list-reader", run, pipeline);
}

static void release(struct record_pipeline *pipeline)
{
    pthread_cond_destroy(&pipeline->news);
    pthread_cond_destroy(&pipeline->work);
    pthread_mutex_destroy(&pipeline->lock);
    atomic_fetch_sub(&pipeline->limit->running, 1);
    free(pipeline);
}

int record_pipeline_new(const struct pipeline_config *config, struct pipeline_limit *limit,
                        struct record_pipeline **ret_pipeline)
{
    if (atomic_fetch_add(&limit->running, 1) >= limit->most) {
        atomic_fetch_sub(&limit->running, 1);
        return -EBUSY;
    }
    /* Not zeroed: most of it is not touched until it is needed. */
    struct record_pipeline *pipeline = malloc(sizeof(*pipeline));
    if (pipeline == NULL) {
        atomic_fetch_sub(&limit->running, 1);
        return -ENOMEM;
    }
    memset(pipeline, 0, offsetof(struct record_pipeline, chunks));
    pipeline->chunks[0].len = 0;
    pipeline->config = *config;
    pipeline->limit = limit;
    int error = start(pipeline);
    if (error != 0) {
        release(pipeline);
        return error;
    }
    *ret_pipeline = pipeline;
    return 0;
}

static void forget(struct batch *batch)
{
    for (size_t i = 0; i < batch->len; i++)
        email_record_release(&batch->items[i].record);
}

void record_pipeline_free(struct record_pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->is_ending = true;
    pthread_mutex_unlock(&pipeline->lock);
    pthread_cond_signal(&pipeline->work);
    pthread_join(pipeline->thread, NULL);
    publish_locked(pipeline); /* nobody is left to be locked out */
    for (; pipeline->delivered != pipeline->published; pipeline->delivered++)
        forget(&pipeline->batches[pipeline->delivered % PIPELINE_BATCHES]);
    release(pipeline);
}
