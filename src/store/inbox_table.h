/* SPDX-License-Identifier: MIT */
/*
 * Which inboxes there are, by number, id and folder name. Memory only. Ids, addresses and names that once
 * were an inbox's stay where they are as long as the table; its JSON does not. Locks are the caller's.
 */
#ifndef INBOXFS_STORE_INBOX_TABLE_H
#define INBOXFS_STORE_INBOX_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "store/email_index.h"

enum {
    INBOXES_MAX = 1 << 20
};

/* What is remembered from one look at the inbox to the next; whoever looks has it alone. */
struct look_memory {
    unsigned int most;  /* records that the service lists at once; 0: no bound is known */
    bool refuses_held;  /* the service does not list what it holds back */
    bool is_reconciled; /* the last complete answer is all that the inbox shows */
};

struct inbox {
    uint32_t number;
    struct inbox_row row; /* the record as it is now; its texts are the table's, but for the JSON */
    char *json;           /* that of `row`, owned */
    const char *name;     /* of its folder; NULL while it is gone */
    char *folded_name;    /* file_name_fold() of it */
    int64_t changed_ms;   /* the record, or the set of emails */
    bool is_gone;
    bool is_quiet; /* what it holds was there before this account was first looked at */
    struct email_list emails;
    uint32_t seen_in; /* the last list of inboxes that had it; the writer's alone */
    struct look_memory looks;
};

struct inbox_table {      /* empty: all zeros */
    struct inbox **items; /* NULL where a number is not used */
    uint32_t len;
    uint32_t capacity;
    struct inbox *of_no_name; /* collects mail that names no inbox; NULL: there was none yet */
    struct map by_id;         /* those that are gone too, not of_no_name */
    struct map by_name;       /* by folded_name; not those that are gone */
    struct text_arena texts;
};

void inbox_table_release(struct inbox_table *table);

/* NULL: no such number. */
struct inbox *inbox_table_get(const struct inbox_table *table, uint32_t number);
struct inbox *inbox_table_find_id(const struct inbox_table *table, const char *id);
struct inbox *inbox_table_find_name(const struct inbox_table *table, const char *name);

/* A harmless folder name that is free, or that of `inbox` already (NULL: a new one): the address where it can
 * be one, else from the id. None differs from another only in case or normalisation. Caller frees; NULL
 * without memory. */
char *inbox_table_choose_name(const struct inbox_table *table, const struct inbox *inbox, const char *id,
                              const char *address);

/* Puts a record (copied) under its number, new or not, with the folder name that is in it (nobody else may
 * have that). 0; -EBADMSG: the number or name is another's; -ENOMEM. */
int inbox_table_put(struct inbox_table *table, const struct inbox_row *row);

/* It keeps its number and loses its name. */
void inbox_table_remove(struct inbox_table *table, struct inbox *inbox);

#endif
