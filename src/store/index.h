/* SPDX-License-Identifier: MIT */
/*
 * The index: what the service has, in memory. It answers every question of the kernel, and the records file
 * (records.h) is what it is loaded from at the start. All other units of the store stand on it: what it
 * holds, its locks, who is told of changes.
 *
 * Inboxes and emails have numbers. An email's is that of its row in the file; numbers grow in the order in
 * which emails became known, which is the order of listings, and there are gaps where emails went before this
 * start. Each inbox finds its emails by file name and by key: what the service calls it, or what stands for
 * that (email_record.h). What is gone keeps its number and its name, so that it gets both back should it
 * return.
 *
 * Two locks. Whoever changes anything holds `write_lock` throughout, and `read_lock` for writing only for the
 * moment in which readers could see half a change. Readers hold `read_lock` for reading; a writer may read
 * without it. Order: write_lock, read_lock; the locks of the file (state_file.h) after write_lock. Memory
 * work alone happens under read_lock; under write_lock records are written to the file and compared with it,
 * too. Nobody is told of anything while a lock is held. So that the time without readers is short, adding is
 * in two steps: the first takes what memory and time it needs, the second cannot fail.
 *
 * Names, ids and keys live as long as the index. Records do not: index_read_email() and index_read_inbox()
 * copy them.
 */
#ifndef INBOXFS_STORE_INDEX_H
#define INBOXFS_STORE_INDEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "store/number_table.h"
#include "store/records.h"
#include "store/store.h"

/* ---------------------------------------------------------------- what it is made of */

/* Short texts that live as long as the arena: no overhead a text but its NUL. */
struct text_arena { /* empty: all zeros */
    struct text_block *blocks;
    size_t used; /* bytes of the first block */
};

enum {
    EMAIL_INBOX_MAX = (1 << 24) - 1, /* numbers of inboxes are far below: INBOXES_MAX */
};

struct email_entry {
    uint64_t text;    /* number of its record's text (records.h) */
    const char *name; /* email_table_keep_texts(): the key follows */
    int64_t date_ms;
    int64_t seen_ms; /* when this text was first seen, or when it went */
    uint32_t json_len;
    uint32_t line_len;   /* in index.jsonl, without the name */
    uint32_t seen_in;    /* the last listing that had it; the writer's alone */
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
    uint64_t changes;     /* emails that were added, changed or removed since the start */
    struct number_table by_name;
    struct number_table by_key;
};

struct email_table;

/* Larger tables for a list: what email_table_prepare() makes and email_list_grow() exchanges. */
struct email_growth {
    uint32_t *order;
    size_t order_capacity;
    struct number_table by_name;
    struct number_table by_key;
};

enum {
    INBOXES_MAX = 1 << 20
};

/* A complete list that lacked something known, which goes when a later list lacks it, too. */
struct list_lack {    /* all zeros: the last complete list lacked nothing */
    uint32_t listing; /* the first that lacked it */
    bool with_held;   /* that one had what is held back, too */
    int64_t at_ms;    /* when that was, monotonic */
};

/* What is remembered from one listing of the inbox to the next; whoever lists has it alone. */
struct listing_memory {
    unsigned int most; /* records that the service listed at once, and refused more; 0: it did not */
    unsigned int complete_syncs; /* by which it is asked for more again now and then */
    bool refuses_held;           /* the service refused to list what it holds back */
    bool with_held;              /* what the answers remembered below are to: whether that was asked for */
    struct list_lack lack;
    unsigned int complete_limit;  /* of the last list that was complete */
    uint64_t changes_at_complete; /* of the inbox, when it showed that list and nothing else */
    uint64_t changes_at_newest;   /* and when it showed the last answer to the question for the newest */
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
    struct listing_memory listings;
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

/* What is kept of an account, in memory and on the disk: records of both indexes, those that went since the
 * start, too. */
struct index_size {
    size_t emails;
    uint64_t bytes; /* of the records of emails and inboxes */
};

enum {
    INDEX_EMAILS_MAX = 3 * 1000 * 1000
};
#define INDEX_BYTES_MAX UINT64_C(4000000000)

struct index {
    struct clock *clock;
    struct store_listener listener;
    struct event_listener events;

    pthread_mutex_t *write_lock; /* its own, or that of its sibling */
    pthread_mutex_t own_lock;
    struct index *sibling; /* the index of the other list in its file; NULL: nobody else uses the file */
    pthread_rwlock_t read_lock;

    struct records records;        /* protected by write_lock, but for reading texts */
    struct inbox_table inboxes;    /* protected by both */
    struct email_table *emails;    /* protected by both */
    int64_t inboxes_changed_ms;    /* protected by both */
    bool shows_held;               /* protected by both: the service tells what it holds back */
    bool inboxes_are_listed;       /* protected by both: GET /inbox has answered in this mount */
    struct list_lack inboxes_lack; /* of the list of inboxes; whoever asks for it has this alone */
    atomic_uint open_indexes;      /* store_index_new(): they know records by the numbers of their texts */
    atomic_uint lost;       /* how often a record was not read, or not taken in: lists have to come whole */
    uint32_t last_listing;  /* protected by write_lock: numbers listings, see index_begin_listing() */
    struct index_size size; /* protected by both: of this index alone */
    struct index_size max;  /* of both together; fixed */
};

/* ---------------------------------------------------------------- life, and what others note */

/* As it was when the program last ran: loaded from `file` (borrowed; waits for the disk), which it uses from
 * then on. On failure it is to be released all the same. A file that turns out to be damaged is left as it
 * is until something is written, or index_repair(). 0 or -ENOMEM. */
int index_open(struct index *index, struct clock *clock, const struct store_listener *listener,
               const struct event_listener *events, struct state_file *file, enum records_list list);
void index_release(struct index *index);

/* From now on these two, both just opened, share one file and its damage: whoever makes it anew writes what
 * both know. They share the lock of `index` for that, which has to outlive the sibling. */
void index_join(struct index *index, struct index *sibling);

/* Makes a file anew that was found to be damaged; what is lost with it is found to be missing from then on
 * (waits for the disk). */
void index_repair(struct index *index);

/* Begins a transaction for changes to the file (records_begin()); when that was made anew, all that is known
 * here and to the sibling is written to it first. With write_lock held. 0 or -errno. */
int index_begin_write_locked(struct index *index);

/* Ends it: with `error` (of what was written) 0 it is committed, else nothing of it happened. 0 or -errno. */
int index_end_write_locked(struct index *index, int error);

/* Writes what is known of an inbox, in a transaction. With write_lock held. 0 or -errno. */
int index_write_inbox_locked(struct index *index, const struct inbox *inbox);

/* The row that an email is in the file. */
struct email_row index_email_row(uint32_t number, const struct email_entry *entry);

/* Takes a record into the size, or one of another length for it (`len_before`). With both locks held. */
static inline void index_count_bytes_locked(struct index *index, size_t len_before, size_t len)
{
    index->size.bytes += len;
    index->size.bytes -= len_before;
}

/* 0: so many emails and bytes more may be kept; else -EDQUOT. With write_lock held. */
int index_check_room_locked(const struct index *index, size_t emails, uint64_t bytes);

/* The size of both indexes. */
struct index_size index_get_size(struct index *index);

/* A number for one listing by the service, by which what it had is told from what it did not. Never 0. */
uint32_t index_begin_listing(struct index *index);

/* What there was is known: mail in inboxes that appear from here on is news. True: for the first time. */
bool index_end_first_sync(struct index *index);

/* The service was asked for what it holds back, and answered: told once, as a change of every inbox. */
void index_note_held_shown(struct index *index);

/* A record could not be read: says so, once, and has the next complete listing bring it back. */
void index_note_lost(struct index *index);

/* After a complete list (waits for the disk): deletes texts that were replaced, unless somebody holds on to
 * them. A new file is on the disk from then on, and uses a log. */
void index_clean(struct index *index);

/* Tell whoever listens. With no lock held. `path` and `id` as in struct event. */
void index_notify_email(const struct index *index, uint32_t email, enum store_change change);
void index_notify_inbox(const struct index *index, uint32_t inbox, enum store_change change);
void index_notify_event(const struct index *index, enum event_kind kind, const char *path, const char *id,
                        const char *error);

/* ---------------------------------------------------------------- questions */

/* Contracts: those of the same names in store.h. */
bool index_find_inbox(struct index *index, const char *name, struct inbox_view *ret);
bool index_get_inbox(struct index *index, uint32_t inbox, struct inbox_view *ret);
/* The inbox of this id; false: there is none, or it is gone. */
bool index_find_inbox_by_id(struct index *index, const char *id, uint32_t *ret_inbox);
bool index_find_email(struct index *index, uint32_t inbox, const char *name, struct email_view *ret);
bool index_find_held(struct index *index, uint32_t inbox, const char *name, struct email_view *ret);
size_t index_list_held(struct index *index, uint32_t inbox, uint64_t position, struct email_view *ret,
                       uint64_t *ret_positions, size_t max);
bool index_shows_held(struct index *index);
bool index_get_email(struct index *index, uint32_t email, struct email_view *ret);
int index_read_email(struct index *index, uint32_t email, char **ret_json, size_t *ret_len);
int index_read_inbox(struct index *index, uint32_t number, char **ret_json, size_t *ret_len);
size_t index_list_inboxes(struct index *index, uint64_t position, struct inbox_view *ret,
                          uint64_t *ret_positions, size_t max);
size_t index_list_emails(struct index *index, uint32_t inbox, uint64_t position, struct email_view *ret,
                         uint64_t *ret_positions, size_t max);
int64_t index_inboxes_changed_ms(struct index *index);

/* How many there are. */
void index_count(struct index *index, size_t *ret_inboxes, size_t *ret_emails);

/* How many emails there are or were since the start, in all inboxes. */
size_t index_email_numbers(struct index *index);

/* The inbox that collects mail that names none. */
bool index_find_inbox_of_no_name(struct index *index, uint32_t *ret_inbox);

int index_find_sender(struct index *index, const char *address, char **ret_address);

/* Whether there is an inbox with this address. */
bool index_has_address(struct index *index, const char *address);

/* What the service calls it; NULL: it has no id, or there is no such email. */
const char *index_email_id(struct index *index, uint32_t email);

/* The email of this id, in `inbox` before others. False: no inbox has it. */
bool index_find_email_by_id(struct index *index, uint32_t inbox, const char *id, struct email_view *ret);

/* Its place; false: no such email. */
bool index_find_place(struct index *index, uint32_t email, uint32_t *ret_inbox, size_t *ret_place);

/* Emails of the inbox of this number at `place` and on, in steps of `step` (1 or -1), those that are gone
 * passed over, at most `max` places looked at: how many there are. */
size_t index_list_places(struct index *index, uint32_t number, size_t place, int step, uint32_t *ret_emails,
                         size_t max);

/* Up to `max` emails that are there, the newest and oldest known of each of the first inboxes: how many. */
size_t index_pick_some(struct index *index, uint32_t *ret_emails, size_t max);

/* ---------------------------------------------------------------- its tables: locks are the caller's */

/* Numbers given so far are below this. */
uint32_t email_table_len(const struct email_table *emails);

/* NULL: no such number. */
struct email_entry *email_table_find(const struct email_table *emails, uint32_t number);

/* Hashed as this table does it; `text` is borrowed. */
struct hashed_text email_table_hash(const struct email_table *emails, const char *text);

/* Numbers, gone or not; NUMBER_NONE. */
uint32_t email_list_find_name(const struct email_table *emails, const struct email_list *list,
                              struct hashed_text name);
uint32_t email_list_find_key(const struct email_table *emails, const struct email_list *list,
                             struct hashed_text key);

/* A copy of a name and, behind it, of a key, that lives as long as the index; NULL without memory. */
const char *email_table_keep_texts(struct email_table *emails, const char *name, const char *key);

/* Makes larger tables for `more` emails in an inbox, with the numbers from `first` on. 0, -ENOMEM, or
 * -EOVERFLOW. */
int email_table_prepare(struct email_table *emails, const struct email_list *list, uint32_t first,
                        uint32_t more, struct email_growth *ret_growth);

/* Gives the list the larger tables; what is in `growth` afterwards is no longer used by anybody and is freed
 * with email_growth_release(), without a lock. */
void email_list_grow(struct email_list *list, struct email_growth *growth);

/* Adds an email, for which its list must have grown, found by these hashes of its key and name. Its number is
 * not below email_table_len(). */
void email_table_add(struct email_table *emails, struct email_list *list, uint32_t number,
                     const struct email_entry *entry, uint32_t key_hash, uint32_t name_hash);

/* Takes an email, as it is, into the sums of its list; or out of them, before it changes. One that is gone
 * counts nowhere. */
void email_list_count_in(struct email_list *list, const struct email_entry *entry);
void email_list_count_out(struct email_list *list, const struct email_entry *entry);

void email_growth_release(struct email_growth *growth);

/* NULL: no such number. */
struct inbox *inbox_table_get(const struct inbox_table *table, uint32_t number);
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
