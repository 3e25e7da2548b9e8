/* SPDX-License-Identifier: MIT */
/*
 * The index has the inboxes and emails of the account in memory. It is loaded from the cache (cache.h) at
 * the start, and answers the functions of store.h. The other units of the store use its tables, its locks,
 * and its listener.
 *
 * The number of an email is that of its row in the cache. Numbers grow in the order in which emails became
 * known, which is the order of listings; emails that were removed before this start leave gaps. Each inbox
 * finds its emails by file name, and by key (the service's id, or a substitute: email_record.h). A removed
 * email remains in memory, so that it gets its old number and name if the service lists it again.
 *
 * Sent mail is in the inbox STORE_SENT. Sent mail that the user hid is marked as quarantined.
 *
 * There are two locks. A writer holds `write_lock` during the whole change, and `read_lock` for writing only
 * while it changes the memory. A reader holds `read_lock` for reading; the holder of `write_lock` need not.
 * Order: write_lock, a turn of the cache, read_lock. No thread waits for the disk under read_lock. No
 * listener is called with a lock held.
 *
 * Names, ids and keys live as long as the index. Records do not, so store_read_email() and
 * store_read_inbox() copy them.
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
#include "store/store.h"

/* ---------------------------------------------------------------- data */

enum {
    INBOXES_MAX = 1 << 20,
    EMAILS_NUMBER_MAX = 1 << 29,
};

struct email_entry {
    struct email_view view; /* record is 0 until the email is shown; name: email_table_add() */
    uint32_t seen_in;       /* the last listing that had the email; protected by write_lock alone */
    uint32_t missing_ms; /* when a complete list first lacked the email (monotonic), or 0; under write_lock */
    uint32_t batch;      /* number of the last batch that had the email; protected by write_lock alone */
};

/* Returns the service's id, or its substitute (email_record.h). */
static inline const char *email_view_key(const struct email_view *email)
{
    return email->name + strlen(email->name) + 1 + sizeof(uint32_t);
}

/* Returns the service's id, or NULL if the record has none. */
static inline const char *email_view_id(const struct email_view *email)
{
    const char *key = email_view_key(email);
    return key[0] == '~' ? NULL : key;
}

static inline bool email_entry_is_shown(const struct email_entry *entry)
{
    return !entry->view.is_gone && !entry->view.is_quarantined;
}

/* All emails, by their numbers. */
struct email_table {
    GStringChunk *names; /* the names and keys */
    GArray *entries;     /* struct email_entry by number; an unused entry has the name NULL */
};

/* The emails of one inbox. */
struct email_list {
    GArray *order;        /* uint32_t: numbers of the emails, also of those that are gone, ascending */
    size_t live;          /* number of emails that are shown */
    size_t quarantined;   /* number of quarantined emails */
    uint64_t jsonl_bytes; /* size of index.jsonl, which has the emails that are shown */
    uint64_t changes;     /* number of emails added, changed or removed since the start */
    GHashTable *by_name;  /* a set of the names, also of emails that are gone */
    GHashTable *by_key;   /* a set of the keys, also of emails that are gone */
};

/* State that lasts from one listing of the inbox to the next. Only the thread that lists the inbox uses the
 * state. */
struct listing_state {
    unsigned int max_listed;     /* the highest limit that the service accepts; 0 if it refused none */
    unsigned int complete_syncs; /* number of complete syncs */
    bool refuses_quarantine;     /* the service refused to list quarantined emails */
    bool with_quarantined;       /* the last lists were requested with quarantined emails */
    /* By enum sync_depth: email_list.changes when the inbox was equal to the last list; UINT64_MAX, which
     * never matches, if another thread changed the inbox during the list. */
    uint64_t changes[2];
};

struct inbox {
    /* A copy of the row in the cache. inbox_table.texts owns the strings, the row owns the JSON. While the
     * inbox is gone, another inbox may get its name. STORE_SENT has no name. */
    struct inbox_row row;
    char *folded_name; /* file_name_fold() of the name */
    bool is_unsaved;   /* the row could not be written to the cache */
    struct email_list emails;
    uint32_t seen_in;    /* the last list of inboxes that had the inbox; protected by write_lock alone */
    uint32_t missing_ms; /* as in struct email_entry, for lists of inboxes */
    struct listing_state listings;
};

struct inbox_table {
    GPtrArray *items;         /* struct inbox by number, owned; NULL if not used */
    struct inbox *of_no_name; /* has the emails that name no inbox; NULL if there never were any */
    struct inbox sent;        /* STORE_SENT, not among the items */
    GHashTable *by_id;        /* all inboxes, also those that are gone, but not of_no_name */
    GHashTable *by_name;      /* by folded_name; without the inboxes that are gone */
    GStringChunk *texts;
};

/* Size of the account in memory and on the disk, including records that were removed since the start. */
struct index_size {
    size_t emails;
    uint64_t bytes; /* size of the records of emails and inboxes */
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
    struct index_size size;         /* protected by both */
    struct index_size max;          /* bounds of `size`; constant */
    uint64_t next_record;           /* the number of the next record; protected by write_lock */
    uint32_t last_listing;          /* the last number from index_begin_listing(); protected by write_lock */
    uint32_t last_batch;            /* number of the last batch; protected by write_lock */
    bool is_first_sync_unsaved;     /* is_first_sync_done is not in the cache; protected by write_lock */
    atomic_bool is_first_sync_done; /* store_knows_all_mail() */
    atomic_bool shows_quarantine;   /* the service lists quarantined emails */
    atomic_bool inboxes_are_listed; /* GET /inbox has answered in this mount */
    atomic_uint open_jsonl_files;   /* number of open index.jsonl files; records are deleted only while 0 */
    atomic_uint lost;               /* number of lost records; if any, the sync requests full answers */
};

/* ---------------------------------------------------------------- lifecycle and reports */

/* Loads the cache (borrowed), or renews a damaged cache. Waits for the disk. Call index_release() also after
 * a failure. Return: 0; -errno of the cache. */
int index_open(struct index *index, struct clock *clock, const struct store_listener *listener,
               const struct event_listener *events, struct cache *cache);
void index_release(struct index *index);

/* If the cache is damaged, tries to replace it by a new one (waits for the disk). Returns true if it did:
 * then records are missing until the next complete lists restore them. */
bool index_renew_cache(struct index *index);

/* Return: 0; -EDQUOT when adding `emails` and `bytes` would exceed the bounds. Call with write_lock held. */
int index_check_room_locked(const struct index *index, size_t emails, uint64_t bytes);

struct index_size index_get_size(struct index *index);

/* Returns a number for a listing, never 0. Each email of the answers gets the number as seen_in. */
uint32_t index_begin_listing(struct index *index);

/* Call when a sync has listed all mail: mail of inboxes that appear later is then announced. Returns true the
 * first time since the cache was made. */
bool index_end_first_sync(struct index *index);

/* Call when a record could not be read: the next complete list restores the record. Logs the first one. */
void index_report_lost_record(struct index *index);

/* Deletes replaced records unless an index.jsonl is open (waits for the disk). */
void index_delete_replaced(struct index *index);

/* Call the listener; the caller holds no lock. `former_name` is as in struct store_listener, `path` and `id`
 * as in struct event. */
void index_notify_email(const struct index *index, uint32_t email, enum store_change change);
void index_notify_inbox(const struct index *index, uint32_t inbox, enum store_change change,
                        const char *former_name);
void index_notify_event(const struct index *index, enum event_kind kind, const char *path, const char *id,
                        const char *error);

/* ---------------------------------------------------------------- queries that store.h lacks */

/* Finds an inbox by id. Returns false if there is none, or it is gone. */
bool index_find_inbox_by_id(struct index *index, const char *id, uint32_t *ret_inbox);

struct index_shown {
    size_t inboxes;
    size_t emails;
};
struct index_shown index_count_shown(struct index *index);

/* Returns the number of the inbox of emails that name no inbox, or NUMBER_NONE if there are none. */
uint32_t index_find_inbox_of_no_name(struct index *index);

/* Like store_find_sender(), but without the network. */
int index_find_sender(struct index *index, const char *address, char **ret_address);

/* Returns true if there is an inbox with this address. */
bool index_has_address(struct index *index, const char *address);

/* Finds the position of an email in its inbox. Returns false if there is no such email. */
bool index_find_position(struct index *index, uint32_t email, uint32_t *ret_inbox, size_t *ret_position);

/* Looks at `max` positions, from `position` on (INDEX_LAST: the last one) in steps of `step` (1 or -1),
 * and lists the emails there that are shown. Returns their number. */
#define INDEX_LAST SIZE_MAX
size_t index_list_from(struct index *index, uint32_t number, size_t position, int step, uint32_t *ret_emails,
                       size_t max);

/* ---------------------------------------------------------------- tables; the caller holds the locks */

/* Returns NULL if no email has the number. The pointer is valid until the table grows. */
struct email_entry *email_table_find(const struct email_table *emails, uint32_t number);

/* Return the number of an email, gone or not, or NUMBER_NONE. */
uint32_t email_list_find_name(const struct email_list *list, const char *name);
uint32_t email_list_find_key(const struct email_list *list, const char *key);

/* Returns the number of an email by its position in the list. */
static inline uint32_t email_list_get(const struct email_list *list, size_t position)
{
    return g_array_index(list->order, uint32_t, position);
}

/* Adds an email, whose entry is zeroed but for its number and name. `number` is at least
 * emails->entries->len, and below EMAILS_NUMBER_MAX. The name and the key are copied, with the number between
 * them: a member of the set of names or keys thus leads to the number. Returns NULL if the list has an email
 * with this name or key. */
struct email_entry *email_table_add(struct email_table *emails, struct email_list *list, uint32_t number,
                                    const char *name, const char *key);

/* Adds an email to the sums of its list (`sign` is 1), or subtracts it before it changes (-1). Ignores an
 * email that is gone. */
void email_list_add_to_sums(struct email_list *list, const struct email_entry *entry, int sign);

/* Return NULL if there is no such inbox. */
struct inbox *inbox_table_get(struct inbox_table *table, uint32_t number);
struct inbox *inbox_table_find_id(const struct inbox_table *table, const char *id);

/* Chooses a safe folder name for `inbox` (NULL if the inbox is new): the address if possible, otherwise a
 * name made from the id. No other inbox has the name, or a name that differs only in case or normalisation.
 * The caller frees the name. */
char *inbox_table_choose_name(const struct inbox_table *table, const struct inbox *inbox, const char *id,
                              const char *address);

/* Adds or updates the inbox with the number of `row` (copied). Return: 0; -EBADMSG when the number is too
 * high, or another inbox has the number or the name. */
int inbox_table_put(struct inbox_table *table, const struct inbox_row *row);

/* Marks an inbox as gone. It keeps its number, and another inbox may get its name. */
void inbox_table_remove(struct inbox_table *table, struct inbox *inbox);

#endif
