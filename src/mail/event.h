/* SPDX-License-Identifier: MIT */
/*
 * An event is one line of `events` and `events.jsonl` (filesystem contract, "Freshness and events").
 */
#ifndef INBOXFS_MAIL_EVENT_H
#define INBOXFS_MAIL_EVENT_H

#include <stdint.h>

#include "base/strbuf.h"

enum event_kind {
    EVENT_MAIL,     /* an email arrived */
    EVENT_SENT,     /* a message went out */
    EVENT_FAILED,   /* a message or attachment went to failed/ */
    EVENT_REFUSED,  /* a rename into outbox/ or attachments/ failed, and the file stayed in its folder; or the
                       mount refused a mark of an email, or the text of an answer */
    EVENT_UPLOADED, /* a file reached the attachment pool */
    EVENT_INBOX,    /* an inbox appeared, changed, or could not be changed */
    EVENT_UNSEEN,   /* a file was handed in, but the mount does not know how its writer ended */
    EVENT_OFFLINE,  /* the service stopped answering, or refuses the key */
    EVENT_ONLINE,   /* the service answers again */
};

struct event {
    int64_t time_ms; /* since 1970 UTC */
    enum event_kind kind;
    const char *path;  /* relative to the mount point, or NULL */
    const char *id;    /* the service's id, or NULL */
    const char *error; /* a message for the user, or NULL */
};

/* A receiver of events. Any thread may call `notify`, but not with a lock held that the listener could need.
 * `notify` must not block. */
struct event_listener {
    void (*notify)(void *context, const struct event *event);
    void *context;
};

const char *event_kind_name(enum event_kind kind);

/* Appends one line of JSON with its newline. Return: 0 or the buffer's error. */
int event_append_line(const struct event *event, struct strbuf *out);

#endif
