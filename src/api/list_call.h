/* SPDX-License-Identifier: MIT */
/*
 * A GET that answers with a list, whose records are handed on while it arrives. A record that cannot be read
 * is passed over: the others are still delivered, and the call fails in the end.
 */
#ifndef INBOXFS_API_LIST_CALL_H
#define INBOXFS_API_LIST_CALL_H

#include "api/api_call.h"

/* What an item function says of a record that it cannot read. */
enum {
    LIST_UNREADABLE = 1,
    LIST_RECORD_IS_NO_UTF8,
    LIST_RECORD_HAS_KEY_TWICE,
    LIST_RECORD_IS_NO_JSON,
};

/* `text` is that of an object, not known to be valid inside. 0, one of LIST_… (it is passed over), or -errno,
 * which stops the list. */
typedef int (*list_item)(void *context, const char *text, size_t len);

/* Reads the object that `text` begins with, if it is whole and well; *ret_len: how long it is, or 0. An
 * object that was not read comes to the item function. */
typedef int (*list_taker)(void *context, const char *text, size_t len, size_t *ret_len);

struct list_call {
    const char *target;
    const char *if_none_match; /* or NULL */
    int64_t timeout_ms;
    list_item item;
    list_taker take;              /* or NULL */
    void (*pause)(void *context); /* all that has arrived was handed on; may be NULL */
    void *context;
    struct cancel *cancel;
};

struct list_answer {
    unsigned int count; /* records, unreadable ones too */
    bool is_no_list;    /* a 2xx whose body is something else */
    bool is_stopped;    /* by the item function */
    char etag[HTTP_ETAG_MAX_BYTES];
};

void list_call(struct api_service *api, const struct list_call *call, struct list_answer *ret_answer,
               struct service_result *ret);

#endif
