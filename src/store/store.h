/* SPDX-License-Identifier: MIT */
/*
 * The store has the inboxes and emails of the account: in memory, for the requests of the kernel; on the
 * disk, for the next mount. The sync thread keeps them up to date with the service.
 *
 * Inboxes and emails have numbers, given from 0 in order of appearance and never reused while the store
 * lives (inode numbers are made of them). Strings in views remain valid and unchanged until store_free(). A
 * function waits for the network or the disk only if its comment says so.
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

#define NUMBER_NONE UINT32_MAX /* no inbox and no email has this number */

enum {
    STORE_SENT = (1 << 24) - 1 /* the number of the inbox of sent mail, above all others */
};

enum store_change {
    STORE_ADDED,
    STORE_CHANGED,  /* content or times, or an inbox's folder name */
    STORE_REMOVED,  /* complete lists of the service lack the inbox or email */
    STORE_MOVED,    /* an email's is_quarantined changed */
    STORE_RETURNED, /* a removed email is listed again, which is not announced */
};

struct email_view {
    uint32_t number;
    uint32_t inbox;      /* number of its inbox */
    const char *name;    /* file name with ".json", unique in its inbox */
    uint64_t record;     /* number of the record; a changed record has a new number */
    int64_t date_ms;     /* mtime: the record's date or, without one, when it was first seen */
    int64_t seen_ms;     /* ctime: when this content was first seen, or when the email was removed */
    uint32_t json_len;   /* size of the file, as read by store_read_email() */
    uint32_t line_len;   /* bytes of the line in index.jsonl, without the name */
    bool is_gone;        /* the inbox does not hold the email now */
    bool is_quarantined; /* rules or checks of the inbox hold the email back (docs/FILESYSTEM.md) */
};

struct inbox_view {
    uint32_t number;
    const char *name; /* folder name, unique: the address, or made from the id */
    const char *id;
    const char *address;  /* NULL if not known */
    size_t json_len;      /* size of inbox.json, as read by store_read_inbox() */
    int64_t changed_ms;   /* mtime of the folder: when the record, or the set of emails, last changed */
    int64_t record_ms;    /* mtime of inbox.json: when the record last changed */
    size_t emails;        /* number of emails shown */
    size_t quarantined;   /* number of quarantined emails */
    uint64_t jsonl_bytes; /* size of index.jsonl */
};

/* Functions that the store calls for each change, from the thread that made the change, with no lock held.
 * They must not block, nor call store_sync(), store_create_inbox() or store_update_inbox(). Emails that an
 * inbox had before its first listing are reported as one change of the inbox. */
struct store_listener {
    /* `former_name`: the name of the folder that is gone, or has another name now; else NULL. */
    void (*inbox_changed)(void *context, uint32_t inbox, enum store_change change, const char *former_name);
    /* Also for the emails of STORE_SENT; one call reports the whole first list of these. */
    void (*email_changed)(void *context, uint32_t email, enum store_change change);
    /* The result of store_has_content(), store_has_raw() or store_knows_all_mail() changed. */
    void (*abilities_changed)(void *context);
    void *context;
};

struct store_config {
    struct mail_service *service;   /* borrowed */
    struct clock *clock;            /* borrowed */
    int state_dir_fd;               /* borrowed; the cache is its folder "cache" */
    int64_t poll_interval_ms;       /* 0 for no polls */
    bool adopt_state;               /* accept a cache that has no inbox of this key's account */
    uint64_t content_cache_bytes;   /* bound for cached content (store_content.h); 0 turns content off */
    struct store_listener listener; /* functions may be NULL */
    struct event_listener events;   /* `mail`, `inbox`, `refused`, `offline`, `online`; notify may be NULL */
};

/* Opens the cache (waits for the disk). A damaged cache is set aside, and a new one is filled. Return: 0;
 * -ENOMEM; -errno when the folder or the database cannot be opened (a full disk). The caller frees
 * *ret_reason.
 */
int store_open(const struct store_config *config, struct store **ret_store, char **ret_reason);

/* Makes the first request to the service, before the mount answers (waits for the network, 10 s at most).
 * Return: 0; -EHOSTUNREACH when the service cannot be reached (the mount can show the cache); -EACCES when it
 * refuses the key; -ESTALE when the cache has inboxes of another key, and adopt_state is false. On failure
 * the caller frees *ret_reason. */
int store_first_contact(struct store *store, struct cancel *cancel, char **ret_reason);

/* Starts the sync thread (sync.h). Return: 0; -errno when the thread cannot be started. */
int store_start(struct store *store);
/* Cancels requests, wakes threads that wait in store_sync() or for content, and waits for the threads of the
 * store. */
void store_stop(struct store *store);
/* NULL-safe. Call store_stop() first. */
void store_free(struct store *store);

/* Call when the network has changed or the machine woke up. Polls soon, but not before the time that the
 * service asked for; if there are no polls, checks an offline contact. Does not wait. */
void store_network_changed(struct store *store);

/* Each fills in *ret. Returns false if there is no such inbox or email, or it is gone. */
bool store_find_inbox(struct store *store, const char *name, struct inbox_view *ret);
bool store_get_inbox(struct store *store, uint32_t inbox, struct inbox_view *ret);
bool store_find_email(struct store *store, uint32_t inbox, bool is_quarantined, const char *name,
                      struct email_view *ret);
bool store_get_email(struct store *store, uint32_t email, struct email_view *ret); /* also one that is gone */
/* Finds an email by id; looks in `inbox` first. */
bool store_find_email_by_id(struct store *store, uint32_t inbox, const char *id, struct email_view *ret);

/* Returns true once a sync has listed all mail of the account since the cache was made.
 * store_listener.abilities_changed reports the change. */
bool store_knows_all_mail(struct store *store);

/* Returns the service's id of an email, or NULL if it has none. Valid until store_free(). */
const char *store_get_email_id(struct store *store, uint32_t email);

/* Read the JSON of an inbox (from memory) or email (from the disk), with a NUL after it; the caller frees
 * *ret_json. Return: 0; -ENOENT when there is no such inbox or email; -ENOMEM; -EIO when the cache has lost
 * the record or cannot be read: the next complete sync restores the record. */
int store_read_inbox(struct store *store, uint32_t inbox, char **ret_json, size_t *ret_len);
int store_read_email(struct store *store, uint32_t email, char **ret_json, size_t *ret_len);

/* Fills in the next inbox from *position on (0: from the beginning), and moves *position behind it. Returns
 * false at the end. Here and below, positions remain valid while the list changes. */
bool store_next_inbox(struct store *store, uint64_t *position, struct inbox_view *ret);

/* Fills in at most `max` views from `position` on; ret_positions[i] is the position after view i. Lists
 * either the quarantined emails or the others. Returns the number of views, 0 at the end. */
size_t store_list_emails(struct store *store, uint32_t inbox, bool is_quarantined, uint64_t position,
                         struct email_view *ret, uint64_t *ret_positions, size_t max);

/* Returns true once the service has answered a request for quarantined emails. */
bool store_shows_quarantine(struct store *store);

/* The inbox STORE_SENT has all sent mail that the service lists, even if it was sent elsewhere. No function
 * lists or finds this inbox itself. */
bool store_find_sent_by_id(struct store *store, const char *id, struct email_view *ret);
/* Hides an email of STORE_SENT, now or when the service lists it. Waits for the disk. Ignores errors: the
 * email is then shown again. */
void store_hide_sent(struct store *store, const char *id);

/* Opens the index.jsonl of an inbox: one line of compact JSON for each record, in order of date, with the
 * file name as the member `file`. Its lines never change while it is open; new emails are added at its end.
 * Call store_jsonl_free() before store_free(). Return: 0; -ENOENT when there is no such inbox. */
struct store_jsonl;
int store_jsonl_new(struct store *store, uint32_t inbox, struct store_jsonl **ret_file);
void store_jsonl_free(struct store_jsonl *file);
/* Reads at most `len` bytes from `offset` on (waits for the disk); *ret_len is less only at the end. May be
 * called from any thread. Return: 0; -ENOMEM; -EIO as store_read_email(). */
int store_jsonl_read(struct store_jsonl *file, uint64_t offset, char *ret_bytes, size_t len, size_t *ret_len);

/* Returns when the set of inboxes last changed: the mtime of inboxes/. */
int64_t store_inboxes_changed_ms(struct store *store);

/* Lists all mail of one inbox (by folder name); if `inbox_name` is NULL, lists all mail of all inboxes, and
 * then probes the service (store_content.h). Waits for the network. Concurrent callers share a sync that
 * starts after their calls. Return: 0; -ENOENT when there is no such inbox; -EHOSTUNREACH when the service
 * cannot be reached; -EACCES when it refuses the key; -EAGAIN when it is busy; -EINTR when cancelled; -EIO
 * when an answer cannot be used. The caller frees *ret_reason. */
int store_sync(struct store *store, const char *inbox_name, struct cancel *cancel, char **ret_reason);

/* Requests a sync of the newest emails of an inbox, or of all inboxes if `inbox_id` is unknown or NULL. Does
 * not wait. Calls before the sync begins share it; such syncs begin at least a quarter of a second apart. */
void store_request_sync(struct store *store, const char *inbox_id);

/* Reports whether a request of the outbox reached the service. If store_is_offline() contradicts the report,
 * the sync thread checks the service (contact.h). Does not wait. */
void store_report_contact(struct store *store, bool is_reached);
/* Returns true unless the last answers showed that the service works and takes the key. Does not wait. */
bool store_is_offline(struct store *store);

/* Creates an inbox (waits for the network, 5 s), and requests its first sync (for the welcome email). Return:
 * 0; -EINVAL when `address` is no address, or the service refuses it; -EEXIST when the inbox exists; -EACCES
 * when the service refuses the key; -EAGAIN when it is busy; -EHOSTUNREACH when it cannot be reached; -EINTR
 * when cancelled. */
int store_create_inbox(struct store *store, const char *address, struct cancel *cancel, uint32_t *ret_inbox,
                       char **ret_reason);

/* Writes inbox.json to the service (waits for the network): fetches the record, replaces the fields that
 * `text` has, and upserts all fields. Return: 0; -EINVAL when `text` is not JSON, has wrong types, or is
 * refused; -EPERM when the service has no GET /inbox to read the record; -ENOENT when the service no longer
 * has the inbox; the errors of store_create_inbox(). */
int store_update_inbox(struct store *store, uint32_t inbox, const char *text, size_t len,
                       struct cancel *cancel, char **ret_reason);

/* Marks an email as valid, which shows it, or as invalid, which holds it back (waits for the network, 5 s).
 * Return: 0; -EPERM when the service does not change the email, or has no such operation; -ENOENT when it no
 * longer has the email; the errors of store_create_inbox(). */
int store_mark_email(struct store *store, uint32_t email, bool is_valid, struct cancel *cancel,
                     char **ret_reason);

/* Finds the sending address for a message: `address` if an inbox has this address, or if GET /inbox has not
 * answered yet; if `address` is NULL, the address of the only inbox. If the address is unknown, lists the
 * inboxes again, since the inbox may be new (waits for the network, 5 s, while online). The caller frees
 * *ret_address. Return: 0; -EADDRNOTAVAIL when there is no such inbox, or `address` is NULL and there is not
 * exactly one. */
int store_find_sender(struct store *store, const char *address, char **ret_address);

/* Finds the email with a Message-ID (without brackets) in the inbox with the address `from`. Only emails
 * whose content was fetched are found. Waits for the disk. The caller frees *ret_email_id.
 * Return: 0; -ENOENT when there is none; -EXDEV when only other inboxes have it; another -errno when
 * the cache cannot be read. */
int store_find_by_message_id(struct store *store, const char *message_id, const char *from,
                             char **ret_email_id);

/* The emails that a search found, newest first, in all inboxes. */
enum {
    STORE_SEARCH_MAX = 10000 /* emails */
};
struct store_search {
    uint32_t *emails;
    size_t len;
    bool is_truncated;     /* other emails match, or may match */
    bool is_service_asked; /* the service answered; otherwise only the local index was searched */
};

/* Searches the service and the local index for `text` (mail/search_query.h). Waits at most 10 s for both, and
 * returns the hits found by then. The caller releases *ret. Return: 0; -EINTR when cancelled; the errors of
 * search_query_parse(). */
int store_search(struct store *store, const char *text, struct cancel *cancel, struct store_search *ret);
void store_search_release(struct store_search *search);

struct store_status {
    bool is_online;       /* the last answers showed that the service works and takes the key */
    bool has_synced;      /* a complete sync has succeeded in this mount */
    int64_t last_sync_ms; /* realtime of the last answer; 0 if there was none */
    int64_t last_full_ms; /* realtime of the last successful complete sync */
    int64_t next_poll_ms; /* realtime of the next poll, the current time during a poll; 0 for no polls */
    size_t inboxes;
    size_t emails;
    size_t kept_emails; /* emails that count towards kept_emails_max, including those that are gone */
    size_t kept_emails_max;
    uint64_t kept_bytes; /* size of the records of emails and inboxes */
    uint64_t kept_bytes_max;
    char error[256];      /* reason of the last failure, "" while online */
    char sync_error[256]; /* why the last complete sync lacks something; "" if it is complete */
};
void store_get_status(struct store *store, struct store_status *ret);

#endif
