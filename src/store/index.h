/* SPDX-License-Identifier: MIT */
/*
 * The index: what the service has, in memory. It answers every question of the kernel (store.h), and is
 * loaded from the cache (cache.h) at the start. All other units of the store stand on it: what it holds, its
 * locks, its listeners.
 *
 * Inboxes and emails have numbers. An email's is that of its row in the cache; numbers grow in the order in
 * which emails became known, which is the order of listings, and there are gaps where emails went before this
 * start. Each inbox finds its emails by file name and by key: the service's id, or what stands for that
 * (email_record.h). An email that is gone keeps its number and its name in memory, so that it gets both back
 * should it return.
 *
 * Mail that was sent is in an inbox of its own, number INDEX_SENT, which is in none of the lists of inboxes.
 * Sent mail that the user hid is held back there.
 *
 * Two locks. A thread that changes anything holds `write_lock` throughout, and `read_lock` for writing only
 * for the moment in which readers could see half a change. Readers hold `read_lock` for reading; a writer may
 * read without it. Order: write_lock, a turn of the cache, read_lock. Memory work alone happens under
 * read_lock; under write_lock records are written to the cache and compared with it, too. No listener is
 * called with a lock held.
 *
 * Names, ids and keys live as long as the index. Records do not: store_read_email() and store_read_inbox()
 * copy them.
 */
#ifndef INBOXFS_STORE_INDEX_H
#define INBOXFS_STORE_INDEX_H

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "store/cache.h"
#include "store/number_table.h"
#include "store/store.h"

/* ---------------------------------------------------------------- what it is made of */

enum {
    INBOXES_MAX = 1 << 20,
    INDEX_SENT = (1 << 24) - 1, /* the number of the inbox of sent mail, beyond all others */
    EMAILS_NUMBER_MAX = 1 << 29,
};

struct email_entry {
    uint64_t text;    /* number of its record (cache.h) */
    const char *name; /* email_table_add_texts(): the key follows */
    int64_t date_ms;
    int64_t seen_ms; /* when this record was first seen, or when the email went */
    uint32_t json_len;
    uint32_t line_len; /* in index.jsonl, without the name */
    uint32_t seen_in;  /* the last listing that had it; the writer's alone, as is the next */
    uint32_t
        missing_ms; /* when a complete list lacked it first, and no list had it since, monotonic; 0: none */
    uint32_t inbox : 24; /* at most INDEX_SENT */
    bool is_gone : 1;
    bool is_held : 1; /* the service holds it back: shown apart from the others */
};

/* The service's id of it, or what stands for that (email_record.h). */
static inline const char *email_entry_key(const struct email_entry *entry)
{
    return entry->name + strlen(entry->name) + 1;
}

/* The service's id; NULL: the record has none. */
static inline const char *email_entry_id(const struct email_entry *entry)
{
    const char *key = email_entry_key(entry);
    return key[0] == '~' ? NULL : key;
}

static inline bool email_entry_is_shown(const struct email_entry *entry)
{
    return !entry->is_gone && !entry->is_held;
}

/* All emails, by their numbers. */
struct email_table {
    uint64_t seed;               /* of hashes */
    GStringChunk *texts;         /* names and keys */
    struct email_entry *entries; /* its name is NULL where a number is not used */
    uint32_t len;                /* numbers given so far are below this */
    uint32_t capacity;
};

/* The emails of one inbox. */
struct email_list { /* empty: all zeros */
    uint32_t *order;
    size_t len; /* with those that are gone */
    size_t capacity;
    size_t live;          /* those that are shown */
    size_t held;          /* those that are held back */
    uint64_t index_bytes; /* of index.jsonl: the lines of those that are shown */
    uint64_t changes;     /* emails that were added, changed or removed since the start */
    struct number_table by_name;
    struct number_table by_key;
};

/* A text by which emails are looked for: a file name or a key. */
struct hashed_text {
    const char *text; /* borrowed */
    uint32_t hash;
};

/* What is remembered from one listing of the inbox to the next; whoever lists has it alone. */
struct listing_state {
    unsigned int max_listed; /* records that the service listed at once, and refused more; 0: it did not */
    unsigned int complete_syncs;  /* by which it is asked for more again now and then */
    bool refuses_held;            /* the service refused to list what it holds back */
    bool with_held;               /* what the answers remembered below are to: whether that was asked for */
    unsigned int complete_limit;  /* of the last list that was complete */
    uint64_t changes_at_complete; /* of the inbox, when it showed that list and nothing else */
    uint64_t changes_at_newest;   /* and when it showed the last answer to the question for the newest */
};

struct inbox {
    struct inbox_row
        row;           /* as it is now, and as the cache gets it. Its texts are the table's, but for the
                          JSON, which is owned. Its name is nobody's while it is gone; INDEX_SENT has none */
    char *folded_name; /* file_name_fold() of the name */
    bool is_unsaved;   /* the cache did not take the row */
    struct email_list emails;
    uint32_t seen_in; /* as of emails, in lists of inboxes; the writer's alone, as is the next */
    uint32_t missing_ms;
    struct listing_state listings;
};

struct inbox_table {
    struct inbox **items; /* NULL where a number is not used */
    uint32_t len;
    uint32_t capacity;
    struct inbox *of_no_name; /* collects mail that names no inbox; NULL: there was none yet */
    struct inbox sent;        /* INDEX_SENT, not among the items */
    GHashTable *by_id;        /* those that are gone too, not of_no_name */
    GHashTable *by_name;      /* by folded_name; not those that are gone */
    GStringChunk *texts;
};

/* What is kept of an account, in memory and on the disk: records of emails and inboxes, those that went since
 * the start, too. */
struct index_size {
    size_t emails;
    uint64_t bytes; /* of the records of emails and inboxes */
};

enum {
    INDEX_EMAILS_MAX = 3 * 1000 * 1000
};
#define INDEX_BYTES_MAX UINT64_C(4000000000)

struct index {
    struct cache *cache; /* borrowed */
    struct clock *clock;
    struct store_listener listener;
    struct event_listener events;

    pthread_mutex_t write_lock;
    pthread_rwlock_t read_lock;

    struct inbox_table inboxes;     /* protected by both */
    struct email_table emails;      /* protected by both */
    int64_t inboxes_changed_ms;     /* protected by both */
    bool shows_held;                /* protected by both: the service tells what it holds back */
    bool inboxes_are_listed;        /* protected by both: GET /inbox has answered in this mount */
    struct index_size size;         /* protected by both */
    struct index_size max;          /* fixed */
    uint64_t next_text;             /* the number of the next record; protected by write_lock */
    uint32_t last_listing;          /* protected by write_lock: numbers listings, see index_begin_listing() */
    bool is_first_sync_unsaved;     /* the cache does not know it; protected by write_lock */
    atomic_bool is_first_sync_done; /* what the account held when it was first looked at is known */
    atomic_uint open_indexes;       /* store_index_new(): they know records by their numbers */
    atomic_uint lost; /* how often a record was not read, or not taken in: lists have to come whole */
};

/* ---------------------------------------------------------------- life, and what others note */

/* Loads what the cache has (borrowed; waits for the disk), and has a damaged one made anew. On failure it is
 * to be released all the same. 0 or -errno. */
int index_open(struct index *index, struct clock *clock, const struct store_listener *listener,
               const struct event_listener *events, struct cache *cache);
void index_release(struct index *index);

/* Makes a cache anew that was found to be damaged (waits for the disk). The records of emails are found to be
 * missing from then on, and come back with the next complete lists. Returns true if there was damage, and is
 * a new cache. */
bool index_renew_cache(struct index *index);

/* Takes a record into the size, or one of another length for it (`len_before`). With both locks held. */
static inline void index_count_bytes_locked(struct index *index, size_t len_before, size_t len)
{
    index->size.bytes += len;
    index->size.bytes -= len_before;
}

/* Returns 0 if the index may keep `emails` and `bytes` more, else -EDQUOT. With write_lock held. */
int index_check_room_locked(const struct index *index, size_t emails, uint64_t bytes);

struct index_size index_get_size(struct index *index);

/* Returns a number for one listing by the service. An email that the listing had keeps it in seen_in. Never
 * 0. */
uint32_t index_begin_listing(struct index *index);

/* Called when all mail that the account held is known: mail in inboxes that appear from then on is new.
 * Returns true the first time. */
bool index_end_first_sync(struct index *index);

/* The service was asked for what it holds back, and answered: the listener hears of it once, as a change of
 * every inbox. */
void index_note_held_shown(struct index *index);

/* A record could not be read: logs that once, and has the next complete listing bring it back. */
void index_note_lost(struct index *index);

/* Deletes records that were replaced, unless somebody has an index.jsonl open (waits for the disk). */
void index_clean(struct index *index);

/* Call the listener. With no lock held. `path` and `id` as in struct event. */
void index_notify_email(const struct index *index, uint32_t email, bool is_sent, enum store_change change);
void index_notify_inbox(const struct index *index, uint32_t inbox, enum store_change change);
void index_notify_event(const struct index *index, enum event_kind kind, const char *path, const char *id,
                        const char *error);

/* ---------------------------------------------------------------- questions, beside those of store.h */

/* The inbox of this id; false: there is none, or it is gone. */
bool index_find_inbox_by_id(struct index *index, const char *id, uint32_t *ret_inbox);

/* How many there are. */
void index_count(struct index *index, size_t *ret_inboxes, size_t *ret_emails);

/* Returns the number of the inbox that collects mail that names none; NUMBER_NONE: there is no such mail. */
uint32_t index_find_inbox_of_no_name(struct index *index);

int index_find_sender(struct index *index, const char *address, char **ret_address);

/* Returns true if there is an inbox with this address. */
bool index_has_address(struct index *index, const char *address);

/* The position of an email in its inbox; false: no such email. */
bool index_find_place(struct index *index, uint32_t email, uint32_t *ret_inbox, size_t *ret_place);

/* Emails of the inbox of this number at `place` and on, in steps of `step` (1 or -1), those that are gone
 * passed over, at most `max` places looked at: how many there are. */
size_t index_list_places(struct index *index, uint32_t number, size_t place, int step, uint32_t *ret_emails,
                         size_t max);

/* Up to `max` emails that are there, the newest and oldest known of each of the first inboxes: how many. */
size_t index_pick_some(struct index *index, uint32_t *ret_emails, size_t max);

/* ---------------------------------------------------------------- its tables: locks are the caller's */

/* NULL: no such number. The pointer is good until the table grows. */
struct email_entry *email_table_find(const struct email_table *emails, uint32_t number);

/* Hashed as this table does it; `text` is borrowed. */
struct hashed_text email_table_hash(const struct email_table *emails, const char *text);

/* Numbers, gone or not; NUMBER_NONE. */
uint32_t email_list_find_name(const struct email_table *emails, const struct email_list *list,
                              struct hashed_text name);
uint32_t email_list_find_key(const struct email_table *emails, const struct email_list *list,
                             struct hashed_text key);

/* Copies a name and, behind it, a key; the copy lives as long as the index. */
const char *email_table_add_texts(struct email_table *emails, const char *name, const char *key);

/* Makes room for `more` emails in an inbox, with the numbers from `first` on. 0, -ENOMEM, or -EOVERFLOW. */
int email_table_reserve(struct email_table *emails, struct email_list *list, uint32_t first, uint32_t more);

/* Adds an email, for which there must be room, found by these hashes of its key and name. Its number is not
 * below emails->len. */
void email_table_add(struct email_table *emails, struct email_list *list, uint32_t number,
                     const struct email_entry *entry, uint32_t key_hash, uint32_t name_hash);

/* Takes an email, as it is, into the sums of its list; or out of them, before it changes. One that is gone
 * counts nowhere. */
void email_list_count_in(struct email_list *list, const struct email_entry *entry);
void email_list_count_out(struct email_list *list, const struct email_entry *entry);

/* NULL: no such number. */
struct inbox *inbox_table_get(struct inbox_table *table, uint32_t number);
struct inbox *inbox_table_find_id(const struct inbox_table *table, const char *id);

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
