/* SPDX-License-Identifier: MIT */
/*
 * What is known of the account, on the disk: the file that the index in memory (index.h) is loaded from at
 * the start, and that the texts of records are read from.
 *
 * The file has the same tables for each list of records: inboxes, emails (a narrow row with all that the
 * index needs, by the email's number) and texts (by a number of their own, which grows and is never given
 * twice, not even where a power cut took texts back: each start leaves a gap). An email whose record changes
 * gets a new text; the one before is noted as replaced, and deleted when nobody can be reading it any more
 * (records_clean()). Each row carries a hash of what is in it, so that a bit that the disk flipped is found:
 * such a row counts as lost.
 *
 * All of it can be fetched again: commits do not wait for the disk, and a text that the disk does not take is
 * kept in memory instead, so that no email is hidden for want of space.
 *
 * One thread writes at a time, by the caller's lock; texts are read by any.
 */
#ifndef INBOXFS_STORE_RECORDS_H
#define INBOXFS_STORE_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "store/state_file.h"

/* The lists. */
enum records_list {
    RECORDS_RECEIVED,
    RECORDS_SENT,
};

/* How an inbox became known; the higher counts. */
enum inbox_origin {
    INBOX_OF_NO_NAME, /* collects mail that names no inbox */
    INBOX_FROM_MAIL,  /* named by mail */
    INBOX_CREATED,    /* made here */
    INBOX_LISTED,     /* the service lists it */
};

struct inbox_row {
    uint32_t number;
    enum inbox_origin origin;
    bool is_quiet;      /* what it holds was there before this account was first looked at */
    bool is_gone;       /* until the next start */
    int64_t record_ms;  /* when the record changed */
    int64_t changed_ms; /* when the record, or the set of emails, changed */
    const char *id;
    const char *address; /* NULL: none */
    const char *name;    /* of its folder */
    const char *json;
    size_t json_len;
};

struct email_row {
    uint32_t number;
    uint32_t inbox; /* its number */
    uint32_t json_len;
    uint32_t line_len; /* in index.jsonl, without the file name: email_record.h */
    int64_t date_ms;
    int64_t seen_ms; /* when this text was first seen, or when it went */
    bool is_held;    /* the service holds it back: it is not shown with the others */
    bool is_gone;    /* until the next start */
    uint64_t text;   /* number of the text */
    const char *key; /* email_record.h */
    const char *name;
};

/* Numbers of texts that are in memory alone are beyond all others. */
#define RECORDS_IN_MEMORY (UINT64_C(1) << 63)

struct records {
    struct state_file *file; /* borrowed */
    enum records_list list;
    uint64_t next_text;          /* the number of the next one */
    int64_t identity;            /* tells this list from any other that had its file; 0: there is none */
    atomic_bool first_sync_done; /* what the account held at the beginning is known */
    bool has_replaced;           /* there are texts to be deleted */
    bool has_warned;             /* that the disk takes nothing */
    unsigned int generation;     /* of the file, when everything was last written to it */
    struct map in_memory;        /* texts by their number, in hex; protected by the file's lock */
    uint64_t kept;               /* how many ever were in memory */
};

/* Opens or makes the file in `dir_fd` (waits for the disk). 0 or -ENOMEM. */
int records_open_file(struct state_file *file, int dir_fd);

/* Called with each row that is intact, inboxes first, in order of their numbers. Texts are gone after the
 * call. Non-zero (-errno) ends the visit. */
struct records_visitor {
    int (*visit_inbox)(void *context, const struct inbox_row *row);
    int (*visit_email)(void *context, const struct email_row *row);
    void *context;
};

/* Reads all rows. A file that turns out to be damaged is left to records_begin(). 0, -ENOMEM, or what the
 * visitor returned. */
int records_load(struct records *records, struct state_file *file, enum records_list list,
                 const struct records_visitor *visitor);
void records_release(struct records *records);

/* Whether the file is another than the one that everything was written to: then all rows are to be put again.
 * May make the file anew. */
bool records_must_save(struct records *records);
void records_note_saved(struct records *records);

/* What is written between these is in the file together, or not at all. 0 or -errno. */
int records_begin(struct records *records);
int records_commit(struct records *records);
void records_abandon(struct records *records);

/* 0 or -errno. */
int records_put_inbox(struct records *records, const struct inbox_row *row);
int records_put_email(struct records *records, const struct email_row *row);
int records_add_text(struct records *records, uint64_t text, const char *json, size_t len);
/* Takes a text of `len` bytes over from the file that was damaged; -ENOENT: it is lost. */
int records_save_text(struct records *records, uint64_t text, size_t len);
/* The text is no longer an email's. */
int records_note_replaced(struct records *records, uint64_t text);
int records_put_marks(struct records *records);

/* What a number cannot be had for on the disk: 0 and its number, or -ENOMEM. Says so, once. Nor is this
 * number given again, so a reader may have one whose text was freed: -EIO, as of one that was deleted. */
int records_keep_in_memory(struct records *records, const char *json, size_t len, int error,
                           uint64_t *ret_text);

/* The text is shown no more. One that is in memory is freed with the next records_clean(). */
void records_note_unused(struct records *records, uint64_t text);

/* Deletes the texts that were replaced. */
void records_clean(struct records *records);

/* Reads texts one after the other: one whose number is next to that of the text before is a step of SQLite,
 * not a lookup. It holds the lock of the file, so it is to be ended soon, and nothing else of the records may
 * be called until then. */
struct text_reader {
    struct records *records;
    sqlite3_stmt *rows; /* NULL: none is being read */
    bool is_backwards;  /* the numbers fall */
    uint64_t next;      /* the number of the row to come */
    char *copy;         /* of a text that was not read in a row; owned */
};
void text_reader_begin(struct text_reader *reader, struct records *records);
/* `is_backwards`: the numbers to come fall, as far as is known. *ret_json, without a NUL behind it, stays
 * until the next call. 0, -ENOMEM, -EIO as below. */
int text_reader_read(struct text_reader *reader, uint64_t text, size_t len, bool is_backwards,
                     const char **ret_json);
void text_reader_end(struct text_reader *reader);

/* Reads a text of `len` bytes (waits for the disk, mostly for the page cache). The caller frees *ret_json,
 * which has a NUL behind it. 0, -ENOMEM, or -EIO: it cannot be read, is damaged, or was deleted. */
int records_read_text(struct records *records, uint64_t text, size_t len, char **ret_json);

#endif
