/* SPDX-License-Identifier: MIT */
/*
 * What is known of the account: its inboxes and their emails, in memory for every question the kernel asks,
 * on disk for the next mount, refreshed from the service by a thread of its own.
 *
 * Inboxes and emails have numbers, given in order of appearance from 0, never reused while the store lives
 * (inode numbers are made of them). Strings in views stay valid and unchanged until store_free(). No function
 * here waits for the network or the disk unless it says so.
 */
#ifndef INBOXFS_STORE_STORE_H
#define INBOXFS_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/wait.h"
#include "mail/event.h"
#include "mail/mail_service.h"

struct store;

enum store_change {
    STORE_ADDED,
    STORE_CHANGED,  /* content or times, or an inbox's folder name */
    STORE_REMOVED,  /* gone from the service's complete answer */
    STORE_MOVED,    /* an email: held back from now on, or no longer (email_view.is_held) */
    STORE_RETURNED, /* an email that was gone is there again, and is not announced */
};

struct email_view {
    uint32_t number;
    uint32_t inbox;   /* number of its inbox */
    const char *name; /* file name with ".json", unique in its inbox */
    size_t json_len;  /* bytes of the file: store_read_email() */
    uint64_t text;    /* another number with each other content of the file */
    int64_t date_ms;  /* mtime: the record's date, or when it was first seen where it has none */
    int64_t seen_ms;  /* ctime: when this content was first seen */
    bool is_held;     /* rules or checks of the inbox hold it back: it is listed apart */
};

struct inbox_view {
    uint32_t number;
    const char *name; /* folder name, unique: the address, or made from the id */
    const char *id;
    const char *address;  /* NULL when not known */
    size_t json_len;      /* bytes of inbox.json: store_read_inbox() */
    int64_t changed_ms;   /* when the record, or the set of emails, last changed: mtime of the folder */
    int64_t record_ms;    /* when the record last changed: mtime of inbox.json */
    size_t emails;        /* how many it shows */
    size_t held;          /* how many are held back */
    uint64_t index_bytes; /* size of index.jsonl */
};

/* Called for each change, by the thread that made it, with no lock held. Must not block or call back into
 * store_sync, _create or _update. Emails that an inbox held before it was first listed are reported as one
 * change of the inbox. An email of `change` STORE_REMOVED can still be asked for by number (for its name). */
struct store_listener {
    void (*inbox_changed)(void *context, uint32_t inbox, enum store_change change);
    void (*email_changed)(void *context, uint32_t email, enum store_change change);
    /* Mail that was sent, by its number (store_get_email()); of many at once, when they are first seen, by
     * any. */
    void (*sent_changed)(void *context, uint32_t sent, enum store_change change);
    /* store_has_content(), store_has_raw() or store_knows_all_mail() says something else. */
    void (*abilities_changed)(void *context);
    /* The raw message of this email was fetched ahead of readers: it has `len` bytes, whether it is kept or
     * thrown out again before anybody asks for it. This one may wait for the disk. */
    void (*raw_fetched)(void *context, uint32_t email, uint64_t len);
    void *context;
};

struct store_config {
    struct mail_service *service;   /* borrowed */
    struct clock *clock;            /* borrowed */
    int state_dir_fd;               /* borrowed; the cache is a folder "cache" in it */
    int64_t poll_interval_ms;       /* 0: only when asked */
    bool adopt_state;               /* accept a cache whose inboxes are none of this key's */
    uint64_t content_cache_bytes;   /* bound of what emails hold; 0: emails are shown without it
                                       (store_content.h) */
    struct store_listener listener; /* functions may be NULL */
    struct event_listener events;   /* `mail`, `inbox`, `offline`, `online`; notify may be NULL */
};

/* Opens the cache (waits for the disk). A damaged cache is set aside and filled anew. 0, -ENOMEM, or -errno:
 * the folder or the file cannot be had (a full disk); *ret_reason in words (caller frees). */
int store_open(const struct store_config *config, struct store **ret_store, char **ret_reason);

/* The first look at the service, before the mount answers (waits for the network, bounded to about 10 s).
 * 0; -EHOSTUNREACH: not reachable now, mount from the cache; -EACCES: it refuses the key; -ESTALE: the
 * cache's inboxes are not this key's and adopt_state is false. *ret_reason in words (caller frees) on
 * failure. */
int store_first_contact(struct store *store, struct cancel *cancel, char **ret_reason);

/* Starts the sync (sync.h). Before it, and after store_stop(), nothing changes by itself. */
int store_start(struct store *store);
/* Ends the sync (waits for its thread; a request under way is cancelled). Wakes waiting store_sync() calls.
 */
void store_stop(struct store *store);
/* NULL-safe. After store_stop(). */
void store_free(struct store *store);

/* The way to the service may be another now (a network came, the machine woke up): asks it at once, but not
 * before the time that the service has asked for. */
void store_network_changed(struct store *store);

/* Each fills in *ret and returns true, or returns false: no such, or gone. */
bool store_find_inbox(struct store *store, const char *name, struct inbox_view *ret);
bool store_get_inbox(struct store *store, uint32_t inbox, struct inbox_view *ret);
bool store_find_email(struct store *store, uint32_t inbox, const char *name, struct email_view *ret);
bool store_get_email(struct store *store, uint32_t email, struct email_view *ret); /* removed ones too */
/* The email of this id, in this inbox before others. */
bool store_find_email_by_id(struct store *store, uint32_t inbox, const char *id, struct email_view *ret);

/* Returns true once all mail that there was has been listed, since the cache was made. Before that, mail that
 * is not shown may well exist. store_listener.abilities_changed is called when it becomes true. */
bool store_knows_all_mail(struct store *store);

/* Returns the service's id of an email; NULL: it has none. Valid as long as the store. */
const char *store_get_email_id(struct store *store, uint32_t email);

/* The content of its file, with a NUL behind it; the caller frees it. An email's is read from the cache (page
 * cache or disk). 0, -ENOENT, -ENOMEM; -EIO: the cache has lost it, or cannot be read. A complete sync brings
 * it back. */
int store_read_inbox(struct store *store, uint32_t inbox, char **ret_json, size_t *ret_len);
int store_read_email(struct store *store, uint32_t email, char **ret_json, size_t *ret_len);

/* Lists from `position` (0 at first), at most `max` at a time: the number of views filled in, 0 at the end.
 * *ret_positions[i] is where to go on after view i. Positions stay right while the list grows and shrinks. */
size_t store_list_inboxes(struct store *store, uint64_t position, struct inbox_view *ret,
                          uint64_t *ret_positions, size_t max);
size_t store_list_emails(struct store *store, uint32_t inbox, uint64_t position, struct email_view *ret,
                         uint64_t *ret_positions, size_t max);

/* The same for emails that are held back. store_shows_held() returns true once the service has listed any. */
bool store_shows_held(struct store *store);
bool store_find_held(struct store *store, uint32_t inbox, const char *name, struct email_view *ret);
size_t store_list_held(struct store *store, uint32_t inbox, uint64_t position, struct email_view *ret,
                       uint64_t *ret_positions, size_t max);

/* Mail that was sent from the account, from here or elsewhere, as the service lists it: emails that are in no
 * inbox, to be asked for by number as others are (`inbox` means nothing). */
bool store_find_sent(struct store *store, const char *name, struct email_view *ret);
bool store_find_sent_by_id(struct store *store, const char *id, struct email_view *ret);
/* Shows it no more, whether the service has listed it yet or not. Waits for the disk. */
void store_hide_sent(struct store *store, const char *id);
size_t store_list_sent(struct store *store, uint64_t position, struct email_view *ret,
                       uint64_t *ret_positions, size_t max);

/* index.jsonl of an inbox as it is now: every record a line of compact JSON, in order of date, with its file
 * name in `file`. It stays as it is, and grows at its end by what comes, until store_index_free(), which must
 * come before store_free(). 0, -ENOENT, -ENOMEM. */
struct store_index;
int store_index_new(struct store *store, uint32_t inbox, struct store_index **ret_index);
void store_index_free(struct store_index *open);
/* At most `len` bytes from `offset` on; *ret_len is less at the end alone. From any thread. 0, -ENOMEM, -EIO
 * as above. */
int store_index_read(struct store_index *open, uint64_t offset, char *ret_bytes, size_t len, size_t *ret_len);

/* When the set of inboxes last changed: mtime of inboxes/. */
int64_t store_inboxes_changed_ms(struct store *store);

/* Brings one inbox (by folder name), or with NULL everything, fully up to date (waits for the network). After
 * everything, it is known whether the service has content, unless finding that out takes it half a minute.
 * Callers at the same time share the work, but each gets an answer that was asked for after its call. 0,
 * -ENOENT, -EHOSTUNREACH, -EACCES, -EAGAIN (429), -EINTR (cancelled), -EIO (an answer that cannot be
 * understood). *ret_reason: words (caller frees). */
int store_sync(struct store *store, const char *inbox_name, struct cancel *cancel, char **ret_reason);

/* Has the newest emails of the inbox of this id listed as soon as may be, and does not wait; of all inboxes,
 * after the list of them, where there is none of it, or with NULL. However often it is called, there is one
 * such request at a time, and one to come, a quarter of a second after the one before at the soonest. */
void store_request_sync(struct store *store, const char *inbox_id);

/* The outbox has asked the service, which answered, or could not be reached. If the store knows otherwise,
 * the sync's thread lists one email, which decides (contact.h). Does not wait. */
void store_report_contact(struct store *store, bool is_reached);
/* Returns true unless the last answers showed that the service is there and takes the key. Does not wait. */
bool store_is_offline(struct store *store);

/* Creates an inbox (waits for the network, 5 s). 0 and *ret_inbox, or -EINVAL (no address, or refused),
 * -EEXIST, -EACCES, -EAGAIN, -EHOSTUNREACH, -EINTR. A sync of it (the welcome email) follows by itself. */
int store_create_inbox(struct store *store, const char *address, struct cancel *cancel, uint32_t *ret_inbox,
                       char **ret_reason);

/* Writes inbox.json back (waits for the network): reads the record again, puts `text` over it, upserts every
 * field. 0, -EINVAL (not JSON, wrong types, refused), -EPERM (its settings cannot be read: GET /inbox is
 * absent), -ENOENT (the service knows it no longer), and the errors of store_create_inbox(). */
int store_update_inbox(struct store *store, uint32_t inbox, const char *text, size_t len,
                       struct cancel *cancel, char **ret_reason);

/* Marks an email as valid, which shows it, or as invalid, which holds it back (waits for the network, 5 s).
 * 0: the email is shown or held back now; -EPERM: the service counts it otherwise all the same, or has no
 * such operation; -ENOENT (it knows the email no longer), and the errors of store_create_inbox(). */
int store_mark_email(struct store *store, uint32_t email, bool is_valid, struct cancel *cancel,
                     char **ret_reason);

/* The sending address for a message (an address that is no inbox here may be one that was made elsewhere a
 * moment ago: waits for the network, 5 s, where the service is there): `address` when it is an inbox here or
 * it is not known which inboxes there are (GET /inbox has not answered); NULL: the only inbox. The caller
 * frees *ret_address. 0; -EADDRNOTAVAIL: no such inbox, or none named and there is not exactly one; -ENOMEM.
 */
int store_find_sender(struct store *store, const char *address, char **ret_address);

/* The email that a Message-ID (without brackets) names, in the inbox of this address: an answer from there
 * belongs to it. Those are known whose messages were read here (message_ids.h). Waits for the disk. The
 * caller frees *ret_email_id. 0; -ENOENT: none is known; -EXDEV: it is in other inboxes alone; -ENOMEM;
 * another -errno: what is known cannot be read. */
int store_find_by_message_id(struct store *store, const char *message_id, const char *from,
                             char **ret_email_id);

/* The emails that a search found, newest first, in all inboxes. */
enum {
    STORE_SEARCH_MAX = 10000 /* emails */
};
struct store_search {
    uint32_t *emails;
    size_t len;
    bool is_truncated;     /* there is, or may be, more than was found or may be shown */
    bool is_service_asked; /* false: this is what is known locally */
};

/* Looks for what `text` says (mail/search_query.h), at the service and in the local index (waits for both, 10
 * s at most; past that, for what there is by then). 0, -EINTR, or what search_query_parse()
 * says. */
int store_search(struct store *store, const char *text, struct cancel *cancel, struct store_search *ret);
void store_search_release(struct store_search *search);

struct store_status {
    bool is_online;       /* the last request was answered, and the key accepted */
    bool has_synced;      /* a complete sync has brought all there is in this mount */
    int64_t last_sync_ms; /* realtime of the last successful look, complete or not; 0: never */
    int64_t last_full_ms; /* realtime of the last complete one */
    int64_t next_poll_ms; /* realtime, now while it is under way; 0: only when asked */
    size_t inboxes;
    size_t emails;
    size_t kept_emails; /* what of the account counts towards the bounds */
    size_t kept_emails_max;
    uint64_t kept_bytes; /* of records */
    uint64_t kept_bytes_max;
    char error[256];      /* words of the last failure, "" when online */
    char sync_error[256]; /* what the last look at everything could not bring, "" when it brought all */
};
void store_get_status(struct store *store, struct store_status *ret);

#endif
