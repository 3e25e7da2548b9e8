/* SPDX-License-Identifier: MIT */
/*
 * What takes the text of a list apart while it arrives. A record that cannot be read is passed over: the
 * others are still handed on, and what was wrong with the first is remembered.
 */
#ifndef INBOXFS_API_LIST_INTAKE_H
#define INBOXFS_API_LIST_INTAKE_H

#include "api/record_stream.h"

enum {
    LIST_WORDS_MAX_BYTES = 160
};

/* What can be said of a record instead of 0, or of -errno, which stops the list. */
enum {
    LIST_UNREADABLE = 1,
    LIST_RECORD_IS_NO_UTF8,
    LIST_RECORD_HAS_KEY_TWICE,
    LIST_RECORD_IS_NO_JSON,
};

struct list_intake {
    const struct list_intake_ops *ops;
    unsigned int count;               /* records, unreadable ones too */
    size_t most;                      /* records; the next one stops the list */
    int stopped_by;                   /* -errno of whoever the records are handed to; 0: it goes on */
    char words[LIST_WORDS_MAX_BYTES]; /* of the first record that cannot be read; "": none */
};

/* All are called from the thread that lists. */
struct list_intake_ops {
    /* 0, or for good: as record_stream_feed(). */
    int (*feed)(struct list_intake *intake, const char *bytes, size_t len);
    /* Before more is waited for: hands on what has not been yet. NULL: there is nothing to do. */
    void (*pause)(struct list_intake *intake);
    /* After the last byte, however it came to be the last: as pause. As record_stream_finish(). */
    int (*finish)(struct list_intake *intake);
};

/* Before a record is handed on. 0, or -errno: no more are taken. */
int list_intake_begin(struct list_intake *intake);

/* Counts a record by what became of it. 0, or -errno: the list is not read on. */
int list_intake_note(struct list_intake *intake, int outcome);

/* ---------------------------------------------------------------- short lists, of anything */

/* `text` is that of an object, not known to be valid inside. 0, LIST_… or -errno. */
typedef int (*list_item)(void *context, const char *text, size_t len);

struct item_intake {
    struct list_intake base; /* first */
    struct record_stream stream;
    list_item item;
    void *context;
};

void item_intake_init(struct item_intake *intake, list_item item, size_t most, void *context);
void item_intake_release(struct item_intake *intake);

#endif
