/* SPDX-License-Identifier: MIT */
/*
 * Rounds of indexing. Each puts what was noted and what was added since into the index, some emails at a
 * time, resting in between, so that it never gets in the way of anybody who waits. A batch is a transaction:
 * large enough that it is not the transactions that cost, small enough that searches see what was done.
 *
 * What a round need not look at is told by the number of an email's text, for these grow: every text below
 * the number that was the next one when the last round but one began is in the index. (The last one may have
 * missed a change that was made before it and told of after.) The index keeps that for the next start; one
 * that is new, damaged or of other records is compared with every email.
 *
 * One thread at a time.
 */
#ifndef INBOXFS_STORE_SEARCH_ROUND_H
#define INBOXFS_STORE_SEARCH_ROUND_H

#include "store/mirror.h"
#include "store/search_index.h"
#include "store/search_texts.h"

/* How far the index has come. */
struct search_progress {
    struct mirror *mirror;      /* borrowed */
    struct search_index *index; /* borrowed */
    int64_t pass;               /* the emails of this one count */
    uint64_t indexed_end;       /* texts below this number are in the index */
    uint64_t last_end;          /* the next number when the last round began */
    uint32_t walked_to;         /* emails below this number were looked at */
    bool is_verifying;          /* every email has to be met */
};

/* What there is to do in one round. */
struct search_round {
    uint32_t *noted; /* emails that changed */
    size_t noted_len;
    bool is_noted_in_part;          /* there are more: all have to be looked at */
    struct search_text_item *texts; /* taken; those that are left are the caller's again */
    /* Rests as long as the last batch took, if there is time; false: the round is to end. */
    bool (*rest)(void *context, int64_t batch_started_ms);
    bool (*is_over)(void *context); /* the batch is to end, with what it has, and the round */
    void *context;
    uint32_t emails; /* filled in: how many numbers there are */
    uint64_t end;    /* filled in: texts have numbers below this */
};

/* Reads from the index how far it had come. 0 or -errno. */
int search_progress_read(struct search_progress *progress);
/* The index has nothing, or what it has must be compared with every email. */
void search_progress_start_over(struct search_progress *progress);

/* Before the end: takes one batch of the texts, and nothing else. 0 or -errno of the index; what is left is
 * the caller's. */
int search_round_keep_texts(struct search_progress *progress, struct search_text_item **texts);

/* 0; -ECANCELED: ended by `rest` or `is_over`; -errno of the index. */
int search_round_run(struct search_progress *progress, struct search_round *round);

#endif
