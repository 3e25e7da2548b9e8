/* SPDX-License-Identifier: MIT */
/*
 * Reads the records of a long list in a thread of its own, while the thread that lists receives more and
 * hands on what was read before. The order stays, and so does the thread to which records are handed on. What
 * is under way is bounded: PIPELINE_CHUNKS pieces of text and PIPELINE_BATCHES batches of records, besides
 * one record that is longer than a batch.
 */
#ifndef INBOXFS_API_RECORD_PIPELINE_H
#define INBOXFS_API_RECORD_PIPELINE_H

#include <stdatomic.h>
#include <stddef.h>

#include "mail/email_reader.h"

enum {
    PIPELINES_MAX = 2, /* at once, of one service */
    PIPELINE_CHUNKS = 2,
    PIPELINE_CHUNK_BYTES = 256 * 1024,
    PIPELINE_BATCHES = 2,
    PIPELINE_BATCH_RECORDS = 1024,
    PIPELINE_BATCH_BYTES = 512 * 1024, /* of texts; a longer record is a batch by itself */
};

/* How many may run at once; shared by all threads. */
struct pipeline_limit {
    atomic_uint running;
    unsigned int most; /* none where there is one CPU */
};

void pipeline_limit_init(struct pipeline_limit *limit);

struct pipeline_config {
    /* Called in the pipeline's thread, with pieces of the text in order; calls record_pipeline_add() for each
     * record. Non-zero (-errno) is the end. */
    int (*parse)(void *context, const char *bytes, size_t len);
    /* Called in the thread that feeds, for what was added, in order. `record` is NULL unless outcome is 0,
     * and gone after the call. Non-zero (-errno) is the end. */
    int (*deliver)(void *context, int outcome, struct email_record *record);
    void *context;
};

struct record_pipeline;

/* 0, -EBUSY (so many run already), -ENOMEM, or no thread could be started. */
int record_pipeline_new(const struct pipeline_config *config, struct pipeline_limit *limit,
                        struct record_pipeline **ret_pipeline);

/* Ends the thread; what was not delivered is forgotten. NULL-safe. */
void record_pipeline_free(struct record_pipeline *pipeline);

/* Takes a copy. May deliver, and waits while too much is under way. 0, or for good what parse() or deliver()
 * said. */
int record_pipeline_feed(struct record_pipeline *pipeline, const char *bytes, size_t len);

/* Delivers all that the thread was given. What was too little to be given to it comes back in *ret_bytes,
 * until the next call; nobody else parses meanwhile. 0, or as above. */
int record_pipeline_drain(struct record_pipeline *pipeline, const char **ret_bytes, size_t *ret_len);

/* In parse() alone. `record` is the one that `reader` read last, or NULL. 0, or -errno, which parse() is to
 * return. */
int record_pipeline_add(struct record_pipeline *pipeline, int outcome, struct email_record *record,
                        struct email_reader *reader);

#endif
