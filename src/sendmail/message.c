/* SPDX-License-Identifier: MIT */
/*
 * The service sends a message to the recipients in its header, and to no others. So the recipients that a
 * program gives as arguments and those of the header must agree. A recipient that only the arguments name is
 * added as Bcc. A recipient that only the header names is refused, because the program did not ask to send
 * mail to it. With -t the recipients in the header count as arguments.
 */
#include <ctype.h>
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sendmail/sendmail.h"

struct composition {
    const struct invocation *invocation;
    struct local_names names;
    struct span text;          /* the message that was read; its line ends are LF */
    struct span header;        /* the fields in `text` */
    struct span body;          /* the part of `text` after the blank line */
    struct address_list given; /* recipients that the arguments name */
    struct address_list named; /* recipients that the header names */
    bool has_recipients_field;
    struct strbuf *draft;
};

/* ---------------------------------------------------------------- reading the message */

/* Makes line ends LF. Unless `ignores_dots`, cuts the text off at a line of a single dot. */
static void normalise_lines(struct strbuf *text, bool ignores_dots)
{
    if (text->len == 0)
        return;
    char *to = text->data;
    const char *end = text->data + text->len;
    for (const char *line = text->data; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((newline != NULL ? newline : end) - line);
        if (len > 0 && newline != NULL && line[len - 1] == '\r')
            len--;
        if (!ignores_dots && len == 1 && *line == '.')
            break;
        memmove(to, line, len);
        to += len;
        if (newline != NULL)
            *to++ = '\n';
        line = newline != NULL ? newline + 1 : end;
    }
    strbuf_truncate(text, (size_t)(to - text->data));
}

/* Takes a field off the text. RFC 5322 lets a field's name begin with any visible character; but a line that
 * begins like JSON or a path, as `{"a": 1}` or "/bin/sh: not found", is not taken for a field. */
static bool take_field(struct span *text, struct mime_field *ret_field)
{
    return text->len > 0 &&
           (isalnum((unsigned char)*text->bytes) || strchr("-_.!#$%&'*+^`|~", *text->bytes) != NULL) &&
           mime_take_field(text, ret_field);
}

/* The header consists of the fields at the beginning, after an optional byte order mark and "From " line of a
 * mailbox. A text without fields is a body. */
static void split_message(struct composition *message)
{
    struct mime_field field;
    struct span rest = message->text;
    if (span_begins_with(rest, "\uFEFF"))
        span_skip(&rest, strlen("\uFEFF"));
    message->header = rest;
    /* "From : a@x" is a field, not the line of a mailbox. */
    if (!take_field(&rest, &field) && (span_begins_with(rest, "From ") || span_begins_with(rest, ">From ")))
        mime_take_line(&message->header);
    rest = message->header;
    while (take_field(&rest, &field))
        continue;
    message->header.len -= rest.len;
    if (span_begins_with(rest, "\n"))
        span_skip(&rest, 1);
    message->body = rest;
}

/* ---------------------------------------------------------------- the draft */

/* Appends the field without blanks before its colon, which RFC 5322 forbids. */
static void append_field(struct strbuf *out, const struct mime_field *field)
{
    strbuf_append(out, field->name.bytes, field->name.len);
    strbuf_append_char(out, ':');
    strbuf_append(out, field->value.bytes, field->value.len);
    if (field->line.bytes[field->line.len - 1] != '\n')
        strbuf_append_char(out, '\n');
}

/* Appends `"NAME" <ADDRESS>`; the bare address if `name` is NULL. */
static void append_address(struct strbuf *out, const char *name, const char *address)
{
    if (name == NULL) {
        strbuf_append_str(out, address);
        return;
    }
    strbuf_append_char(out, '"');
    for (; *name != '\0'; name++) {
        if (*name == '"' || *name == '\\')
            strbuf_append_char(out, '\\');
        strbuf_append_char(out, (unsigned char)*name < ' ' ? ' ' : *name);
    }
    strbuf_appendf(out, "\" <%s>", address);
}

/* Appends "NAME: a@x, b@y" with the addresses of `list` that `without` (NULL: empty) does not have. Appends
 * nothing if there are none. */
static void append_addresses(struct strbuf *out, const char *name, const struct address_list *list,
                             const struct address_list *without)
{
    size_t count = 0;
    for (size_t i = 0; i < list->len; i++) {
        const struct address *item = &list->items[i];
        if (without != NULL && recipients_has(without, item->address))
            continue;
        if (count++ == 0)
            strbuf_appendf(out, "%s: ", name);
        else
            strbuf_append_str(out, ",\n ");
        append_address(out, item->name, item->address);
    }
    if (count > 0)
        strbuf_append_char(out, '\n');
}

/* Appends a To, Cc or Bcc with the addresses that replace its local names. Returns a status. */
static int append_recipients(struct composition *message, const struct mime_field *field)
{
    _cleanup_free_ char *value = g_strndup(field->value.bytes, field->value.len);
    _cleanup_free_ char *name = g_strndup(field->name.bytes, field->name.len);
    _cleanup_addresses_ struct address_list resolved = {0};
    int status = local_names_resolve(&message->names, value, &resolved);
    if (status == EX_OK)
        append_addresses(message->draft, name, &resolved, NULL);
    for (size_t i = 0; i < resolved.len && status == EX_OK; i++)
        status = recipients_add(&message->named, &resolved.items[i]);
    return status;
}

/* Returns false if the mount's sender must replace the address: it has no domain; or it is no inbox, so that
 * the service would refuse it, and either it belongs to this machine or --rewrite-from was given. */
static bool is_usable_sender(const struct composition *message, const char *address)
{
    const struct local_names *names = &message->names;
    if (strcmp(strrchr(address, '@') + 1, NO_DOMAIN) == 0)
        return false;
    return names->mount < 0 || local_names_has_inbox(names, address) ||
           (!message->invocation->rewrites_from && local_names_classify(names, address) == HOST_OTHER);
}

/* Reads the one address of a From or of -f. Returns false if the text is not one address. */
static bool parse_sender(const char *text, struct address_list *list)
{
    if (address_list_parse(list, text, NO_DOMAIN, NULL) == 0 && list->len == 1)
        return true;
    address_list_release(list);
    return false;
}

/* Returns true if the From is to be sent unchanged. Cron's "root (Cron Daemon)", which is not an address, and
 * mdadm's "root@box" are replaced; *ret_sender then has the From's address, if there is one. */
static bool is_usable_from(const struct composition *message, const struct mime_field *field,
                           struct address_list *ret_sender)
{
    _cleanup_free_ char *value = g_strndup(field->value.bytes, field->value.len);
    _cleanup_addresses_ struct address_list several = {0};
    bool is_usable = parse_sender(value, ret_sender)
                         ? is_usable_sender(message, ret_sender->items[0].address)
                         : address_list_parse(&several, value, NULL, NULL) == 0 && several.len > 1;
    if (is_usable)
        address_list_release(ret_sender);
    return is_usable;
}

/* Appends a From with the address of -f, and with the name of the replaced From or of -F. Without a usable
 * address in -f, appends no From: the mount then uses its own sender. Unless there is a Reply-To, appends one
 * with the address of the replaced From, if it has one that is known outside of this machine. */
static void append_from(struct composition *message, const struct address_list *replaced, bool has_reply_to)
{
    const struct invocation *invocation = message->invocation;
    const struct address *from = replaced->items; /* NULL without an address */
    _cleanup_addresses_ struct address_list sender = {0};
    bool has_sender = invocation->sender != NULL && parse_sender(invocation->sender, &sender) &&
                      is_usable_sender(message, sender.items[0].address);
    if (has_sender) {
        free(sender.items[0].name);
        sender.items[0].name = g_strdup(from != NULL && from->name != NULL ? from->name : invocation->name);
        append_addresses(message->draft, "From", &sender, NULL);
    }
    if (from != NULL && !has_reply_to && local_names_classify(&message->names, from->address) != HOST_LOCAL &&
        !(has_sender && address_equals(from->address, sender.items[0].address)))
        append_addresses(message->draft, "Reply-To", replaced, NULL);
}

static int append_header(struct composition *message)
{
    const struct invocation *invocation = message->invocation;
    _cleanup_addresses_ struct address_list from = {0}; /* the address of the replaced From */
    bool has_from = false;
    bool has_reply_to = false;
    struct span remaining = message->header;
    struct mime_field field;
    while (mime_take_field(&remaining, &field)) {
        if (span_is(field.name, "To") || span_is(field.name, "Cc") || span_is(field.name, "Bcc")) {
            message->has_recipients_field = true;
            int status = append_recipients(message, &field);
            if (status != EX_OK)
                return status;
            continue;
        }
        if (span_is(field.name, "From")) {
            if (!is_usable_from(message, &field, &from))
                continue;
            has_from = true;
        }
        if (invocation->reads_headers && strncasecmp(field.name.bytes, "Resent-", 7) == 0)
            return complain(EX_DATAERR, "a message that is resent (%.*s) cannot be sent by its headers",
                            (int)field.name.len, field.name.bytes);
        if (invocation->is_delegated && span_is(field.name, "Attach"))
            return complain(EX_DATAERR, "Attach: takes files of the mount's owner: it is not for who sends "
                                        "with another user's rights (sudo, inboxfs-mta)");
        has_reply_to = has_reply_to || span_is(field.name, "Reply-To");
        append_field(message->draft, &field);
    }
    if (!has_from)
        append_from(message, &from, has_reply_to);
    return EX_OK;
}

static int check_recipients(const struct composition *message)
{
    const struct address_list *named = &message->named;
    bool reads_headers = message->invocation->reads_headers;
    if (message->given.len == 0 && (!reads_headers || named->len == 0))
        return complain(reads_headers ? EX_DATAERR : EX_USAGE, "no recipient is named");
    for (size_t i = 0; i < named->len && !reads_headers; i++) {
        const char *address = named->items[i].address;
        if (recipients_has(&message->given, address))
            continue;
        bool is_alias = strcasestr(message->text.bytes, address) == NULL;
        return complain(EX_DATAERR,
                        "%s stands in the headers and is not among the recipients given; all whom the "
                        "headers name would get it: nothing is sent",
                        is_alias ? "a local name" : address);
    }
    return EX_OK;
}

/* Writes the header and the body. The given recipients that the header does not name become Bcc. If the
 * header names nobody, a single given recipient becomes To, as with sendmail: no other can see it. */
static int write_draft(struct composition *message)
{
    int status = EX_OK;
    for (char **recipient = message->invocation->recipients; *recipient != NULL && status == EX_OK;
         recipient++)
        status = local_names_resolve(&message->names, *recipient, &message->given);
    if (status == EX_OK)
        status = append_header(message);
    if (status == EX_OK)
        status = check_recipients(message);
    if (status != EX_OK)
        return status;
    bool is_to = !message->has_recipients_field && message->given.len == 1;
    append_addresses(message->draft, is_to ? "To" : "Bcc", &message->given, &message->named);
    strbuf_append_char(message->draft, '\n');
    strbuf_append(message->draft, message->body.bytes, message->body.len);
    if (message->draft->error != 0)
        return complain(EX_DATAERR, "the message and its recipients are over %d bytes", DRAFT_MAX_BYTES);
    return EX_OK;
}

int message_compose(const struct invocation *invocation, int mount, struct strbuf *text, struct strbuf *draft)
{
    struct span given = invocation->text;
    int error = given.bytes != NULL ? strbuf_append(text, given.bytes, given.len)
                                    : strbuf_read_to_end(text, STDIN_FILENO);
    if (error == -EMSGSIZE)
        return complain(EX_DATAERR, "the message is over %d bytes", MESSAGE_MAX_BYTES);
    if (error != 0)
        return complain(EX_TEMPFAIL, "cannot read the message: %s", strerrordesc_np(-error));
    if (memchr(strbuf_str(text), '\0', text->len) != NULL)
        return complain(EX_DATAERR, "the message holds NUL bytes");
    normalise_lines(text, invocation->ignores_dots);
    struct composition message = {
        .invocation = invocation, .text = {strbuf_str(text), text->len}, .draft = draft};
    split_message(&message);
    int status = local_names_init(&message.names, invocation, mount);
    if (status == EX_OK)
        status = write_draft(&message);
    local_names_release(&message.names);
    address_list_release(&message.given);
    address_list_release(&message.named);
    return status;
}
