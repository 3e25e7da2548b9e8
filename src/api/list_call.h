/* SPDX-License-Identifier: MIT */
/*
 * A GET that answers with a list, whose records are handed on while it arrives. One that cannot be read hides
 * no other, but the call fails in the end.
 */
#ifndef INBOXFS_API_LIST_CALL_H
#define INBOXFS_API_LIST_CALL_H

#include "api/api_call.h"
#include "api/list_reader.h"

struct list_call {
    const char *target;
    const char *if_none_match; /* or NULL */
    int64_t timeout_ms;
    struct list_reader *reader;
    struct cancel *cancel;
};

struct list_answer {
    unsigned int count; /* records, unreadable ones too */
    bool is_no_list;    /* a 2xx whose body is something else */
    bool is_stopped;    /* by whoever the records were handed to */
    char etag[HTTP_ETAG_MAX_BYTES];
};

void list_call(struct api_service *api, const struct list_call *call, struct list_answer *ret_answer,
               struct service_result *ret);

#endif
