/* SPDX-License-Identifier: MIT */
/*
 * Writes an event as a line of JSON with time, event, path and id, and the error if there is one.
 */
#include "mail/event.h"

#include "mail/date.h"
#include "mail/json_writer.h"

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[] = {
        [EVENT_MAIL] = "mail",       [EVENT_SENT] = "sent",         [EVENT_FAILED] = "failed",
        [EVENT_REFUSED] = "refused", [EVENT_UPLOADED] = "uploaded", [EVENT_INBOX] = "inbox",
        [EVENT_UNSEEN] = "unseen",   [EVENT_OFFLINE] = "offline",   [EVENT_ONLINE] = "online",
    };
    return names[kind];
}

int event_append_line(const struct event *event, struct strbuf *out)
{
    struct json_writer writer;
    char time[32];

    date_format(event->time_ms, time);
    json_writer_init(&writer, out, 0);
    json_begin_object(&writer);
    json_member_string(&writer, "time", time);
    json_member_string(&writer, "event", event_kind_name(event->kind));
    json_member_string(&writer, "path", event->path);
    json_member_string(&writer, "id", event->id);
    if (event->error != NULL)
        json_member_string(&writer, "error", event->error);
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}
