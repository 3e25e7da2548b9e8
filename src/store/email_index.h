/* SPDX-License-Identifier: MIT */
/*
 * Which emails there are: numbered from 0 in order of appearance over all inboxes (with gaps where some went
 * before this start), and for each inbox in order, by file name and by key. Memory only; what an email says
 * is on the disk. An email that is gone keeps its number and its name, so that it gets both back should it
 * return.
 *
 * Locks are the caller's. Adding is in two steps: email_index_prepare() takes what memory and time it needs
 * and only reads what readers read; the rest is short and cannot fail.
 */
#ifndef INBOXFS_STORE_EMAIL_INDEX_H
#define INBOXFS_STORE_EMAIL_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "store/number_table.h"
#include "store/records.h"
#include "store/text_arena.h"

enum {
    EMAIL_INBOX_MAX = (1 << 24) - 1, /* numbers of inboxes are far below: inbox_table.h */
};

struct email_entry {
    uint64_t text;    /* number of its record's text (records.h) */
    const char *name; /* email_index_keep_texts(): the key follows */
    int64_t date_ms;
    uint32_t json_len;
    uint32_t line_len;   /* in index.jsonl, without the name */
    uint32_t seen_in;    /* the last look that met it; the writer's alone */
    uint32_t inbox : 24; /* at most EMAIL_INBOX_MAX */
    bool is_gone : 1;
    bool is_held : 1; /* the service holds it back: shown apart from the others */
};

/* A text by which emails are looked for: a file name or a key. */
struct hashed_text {
    const char *text; /* borrowed */
    uint32_t hash;
};

/* What the service calls it, or what stands for that (email_record.h). */
static inline const char *email_entry_key(const struct email_entry *entry)
{
    return entry->name + strlen(entry->name) + 1;
}

static inline bool email_entry_is_shown(const struct email_entry *entry)
{
    return !entry->is_gone && !entry->is_held;
}

/* The emails of one inbox. */
struct email_list { /* empty: all zeros */
    uint32_t *order;
    size_t len; /* with those that are gone */
    size_t capacity;
    size_t live;          /* those that are shown */
    size_t held;          /* those that are held back */
    uint64_t index_bytes; /* of index.jsonl: the lines of those that are shown */
    struct number_table by_name;
    struct number_table by_key;
};

struct email_index;

/* Room for more emails: what email_index_prepare() made and email_list_take_room() exchanges. */
struct email_room {
    uint32_t *order;
    size_t order_capacity;
    struct number_table by_name;
    struct number_table by_key;
};

/* NULL without memory. */
struct email_index *email_index_new(void);
void email_index_free(struct email_index *index);
void email_list_release(struct email_list *list);

/* Numbers given so far are below this. */
uint32_t email_index_len(const struct email_index *index);

/* NULL: no such number. */
struct email_entry *email_index_find(const struct email_index *index, uint32_t number);

/* Hashed as this index does it; `text` is borrowed. */
struct hashed_text email_index_hash(const struct email_index *index, const char *text);

/* Numbers, gone or not; NUMBER_NONE. */
uint32_t email_list_find_name(const struct email_index *index, const struct email_list *list,
                              struct hashed_text name);
uint32_t email_list_find_key(const struct email_index *index, const struct email_list *list,
                             struct hashed_text key);

/* A copy of a name and, behind it, of a key, that lives as long as the index; NULL without memory. */
const char *email_index_keep_texts(struct email_index *index, const char *name, const char *key);

/* Makes room for `more` emails in an inbox, with the numbers from `first` on. 0, -ENOMEM, or -EOVERFLOW. */
int email_index_prepare(struct email_index *index, const struct email_list *list, uint32_t first,
                        uint32_t more, struct email_room *ret_room);

/* Puts the list where the room is; what is in the room afterwards is no longer looked at and is freed with
 * email_room_release(), without a lock. */
void email_list_take_room(struct email_list *list, struct email_room *room);

/* Adds an email, for which there must be room, found by these hashes of its key and name. Its number is not
 * below email_index_len(). */
void email_index_add(struct email_index *index, struct email_list *list, uint32_t number,
                     const struct email_entry *entry, uint32_t key_hash, uint32_t name_hash);

/* Takes an email, as it is, into the sums of its list; or out of them, before it changes. One that is gone
 * counts nowhere. */
void email_list_count_in(struct email_list *list, const struct email_entry *entry);
void email_list_count_out(struct email_list *list, const struct email_entry *entry);

/* What its line in index.jsonl takes. */
uint64_t email_entry_line_bytes(const struct email_entry *entry);
void email_room_release(struct email_room *room);

#endif
