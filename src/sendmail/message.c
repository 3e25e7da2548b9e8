/* SPDX-License-Identifier: MIT */
/*
 * The service sends a message to the recipients in its headers, and to no others. So the recipients that a
 * program gives (the envelope, RFC 5321) and those of its headers must agree. A recipient in the envelope
 * alone becomes Bcc. A header that names a recipient outside the envelope is refused, because the program did
 * not ask to send mail there. With -t the headers are the envelope.
 */
#include <ctype.h>
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sendmail/sendmail.h"

/* ---------------------------------------------------------------- reading the message */

struct input_message {
    struct span text;   /* its line ends are LF */
    struct span header; /* its fields, in `text` */
    struct span body;   /* behind the blank line */
};

/* Makes line ends LF. Unless `ignores_dots`, cuts the text off at a line of a single dot. */
static void normalise_lines(struct strbuf *text, bool ignores_dots)
{
    if (text->len == 0)
        return;
    char *to = text->data;
    const char *end = text->data + text->len;
    for (const char *line = text->data; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *text_end = newline != NULL ? newline : end;
        size_t len = (size_t)(text_end - line);
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

/* First characters of a field's name, besides letters and digits. RFC 5322 allows any visible one; but a
 * first line that does not begin like a word, or any line that begins like JSON or a path, is text, as
 * "/bin/sh: not found" or `{"a": 1}`. */
#define BEGINS_FIRST_FIELD "-_."
#define BEGINS_FIELD "-_.!#$%&'*+^`|~"

/* Takes a field off the text. Its name begins with a letter, a digit, or one of `marks`. */
static bool take_field(struct span *text, const char *marks, struct mime_field *ret_field)
{
    return text->len > 0 && (isalnum((unsigned char)*text->bytes) || strchr(marks, *text->bytes) != NULL) &&
           mime_take_field(text, ret_field);
}

/* The headers are the fields at the beginning, after an optional byte order mark and "From " line of a
 * mailbox. A text without fields is a body. */
static void split_message(struct input_message *message)
{
    struct mime_field field;
    struct span rest = message->text;
    message->body = rest;
    if (span_begins_with(rest, "\uFEFF"))
        span_skip(&rest, strlen("\uFEFF"));
    message->header.bytes = rest.bytes;
    bool begins_field = take_field(&rest, BEGINS_FIRST_FIELD, &field); /* "From : a@x" */
    if (!begins_field && (span_begins_with(rest, "From ") || span_begins_with(rest, ">From "))) {
        mime_take_line(&rest);
        message->header.bytes = rest.bytes;
        message->body = rest;
    }
    while (begins_field || take_field(&rest, BEGINS_FIELD, &field)) {
        begins_field = false;
        message->body = rest;
    }
    message->header.len = (size_t)(rest.bytes - message->header.bytes);
    if (span_begins_with(message->body, "\n"))
        span_skip(&message->body, 1);
}

static int take_message(const struct invocation *invocation, struct strbuf *text,
                        struct input_message *ret_message)
{
    if (text->error == -EMSGSIZE)
        return complain(EX_DATAERR, "the message is over %d bytes", MESSAGE_MAX_BYTES);
    if (text->error != 0)
        return complain_of_memory();
    if (memchr(strbuf_str(text), '\0', text->len) != NULL)
        return complain(EX_DATAERR, "the message holds NUL bytes");
    normalise_lines(text, invocation->ignores_dots);
    ret_message->text = (struct span){strbuf_str(text), text->len};
    split_message(ret_message);
    return EX_OK;
}

int message_read(struct strbuf *text)
{
    int error = strbuf_read_to_end(text, STDIN_FILENO);
    return error == 0 || error == -EMSGSIZE
               ? EX_OK
               : complain(EX_TEMPFAIL, "cannot read the message: %s", strerrordesc_np(-error));
}

static bool is_field(const struct mime_field *field, const char *name)
{
    return field->name.len == strlen(name) && strncasecmp(field->name.bytes, name, field->name.len) == 0;
}

/* ---------------------------------------------------------------- the message for the outbox */

/* Appends the field without the blanks before its colon, which RFC 5322 forbids. */
static void append_field(struct strbuf *out, const struct mime_field *field)
{
    strbuf_append(out, field->name.bytes, field->name.len);
    strbuf_append_char(out, ':');
    strbuf_append(out, field->value.bytes, field->value.len);
    if (field->line.bytes[field->line.len - 1] != '\n')
        strbuf_append_char(out, '\n');
}

static void append_quoted(struct strbuf *out, const char *text)
{
    strbuf_append_char(out, '"');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            strbuf_append_char(out, '\\');
        strbuf_append_char(out, (unsigned char)*at < ' ' ? ' ' : *at);
    }
    strbuf_append_char(out, '"');
}

static void append_address(struct strbuf *out, const struct address *address)
{
    if (address->name == NULL) {
        strbuf_append_str(out, address->address);
        return;
    }
    append_quoted(out, address->name);
    strbuf_appendf(out, " <%s>", address->address);
}

/* Writes "NAME: a@x, b@y" of the addresses that `without` lacks (NULL: of all), or nothing if there are none.
 */
static void append_addresses(struct strbuf *out, const char *name, const struct address_list *list,
                             const struct address_list *without)
{
    size_t count = 0;
    for (size_t i = 0; i < list->len; i++) {
        if (without != NULL && address_list_has(without, list->items[i].address))
            continue;
        if (count++ == 0)
            strbuf_appendf(out, "%s: ", name);
        else
            strbuf_append_str(out, ",\n ");
        append_address(out, &list->items[i]);
    }
    if (count > 0)
        strbuf_append_char(out, '\n');
}

/* Returns true if `text` itself names exactly these addresses. */
static bool names_the_same(const char *text, const struct address_list *list)
{
    _cleanup_addresses_ struct address_list named = {0};
    bool is_same = address_list_parse(&named, text, NULL) == 0 && named.len == list->len;
    for (size_t i = 0; i < named.len && is_same; i++)
        is_same = strcmp(named.items[i].address, list->items[i].address) == 0;
    return is_same;
}

/* Appends a To, Cc or Bcc: unchanged if it is a list of addresses; otherwise with the addresses for which its
 * local names stand. */
static int append_recipients(struct strbuf *out, const struct mime_field *field,
                             const struct local_names *names, struct address_list *named)
{
    _cleanup_free_ char *value = g_strndup(field->value.bytes, field->value.len);
    _cleanup_free_ char *name = g_strndup(field->name.bytes, field->name.len);
    _cleanup_addresses_ struct address_list list = {0};
    int status = local_names_resolve(names, value, &list);
    if (status != EX_OK)
        return status;
    if (names_the_same(value, &list))
        append_field(out, field);
    else
        append_addresses(out, name, &list, NULL);
    for (size_t i = 0; i < list.len; i++)
        if (address_list_append(named, list.items[i].address, NULL) != 0)
            return complain_of_memory();
    return EX_OK;
}

/* Returns true if the mount's sender has to stand in for this one. An address of this machine is no inbox, so
 * the service refuses to send from it. */
static bool is_to_be_rewritten(const struct invocation *invocation, const struct local_names *names,
                               const char *address)
{
    return names->mount >= 0 && !local_names_has_inbox(names, address) &&
           (invocation->rewrites_from || local_names_host(names, address) != HOST_OTHER);
}

/* Reads the one address of a From or of -f. Returns false if the text is not one address. */
static bool read_sender(const char *text, struct address_list *list)
{
    if (address_list_parse_at(list, text, NO_DOMAIN, NULL) == 0 && list->len == 1)
        return true;
    address_list_release(list);
    return false;
}

static bool has_domain(const char *address)
{
    return strcmp(strrchr(address, '@') + 1, NO_DOMAIN) != 0;
}

/* Returns true if the From can stay. Cron's "root (Cron Daemon)" is no address, and is replaced, as is
 * mdadm's "root@box": *ret_sender has the address then, if there is one. */
static bool is_usable_from(const struct invocation *invocation, const struct local_names *names,
                           const struct mime_field *field, struct address_list *ret_sender)
{
    _cleanup_free_ char *value = g_strndup(field->value.bytes, field->value.len);
    _cleanup_addresses_ struct address_list several = {0};
    bool is_usable = read_sender(value, ret_sender)
                         ? has_domain(ret_sender->items[0].address) &&
                               !is_to_be_rewritten(invocation, names, ret_sender->items[0].address)
                         : address_list_parse(&several, value, NULL) == 0 && several.len > 1;
    if (is_usable)
        address_list_release(ret_sender);
    return is_usable;
}

/* Appends a Reply-To, so that answers reach the address of the From that is replaced. An address of this
 * machine gets none: no answer could reach it. */
static void append_reply_to(struct strbuf *out, const struct local_names *names, const struct address *from,
                            const char *sender)
{
    if (local_names_host(names, from->address) == HOST_LOCAL ||
        (sender != NULL && address_equals(from->address, sender)))
        return;
    strbuf_append_str(out, "Reply-To: ");
    append_address(out, from);
    strbuf_append_char(out, '\n');
}

/* Appends a From with the address of -f, and with the name of the From that is replaced (`from`, or NULL) or
 * of -F. Without a usable address in -f there is no From: the mount then uses its own sender. */
static void append_from(struct strbuf *out, const struct invocation *invocation,
                        const struct local_names *names, const struct address *from, bool has_reply_to)
{
    _cleanup_addresses_ struct address_list list = {0};
    const char *sender = NULL;
    if (invocation->sender != NULL && read_sender(invocation->sender, &list) &&
        has_domain(list.items[0].address) && !is_to_be_rewritten(invocation, names, list.items[0].address))
        sender = list.items[0].address;
    if (sender != NULL) {
        const char *name = from != NULL && from->name != NULL ? from->name : invocation->name;
        strbuf_append_str(out, "From: ");
        append_quoted(out, name != NULL ? name : "");
        strbuf_appendf(out, " <%s>\n", sender);
    }
    if (from != NULL && !has_reply_to)
        append_reply_to(out, names, from, sender);
}

/* Appends a field that names no recipients, and is not From. */
static int append_other_field(struct strbuf *out, const struct invocation *invocation,
                              const struct mime_field *field)
{
    if (invocation->reads_headers && !invocation->is_from_maildrop &&
        strncasecmp(field->name.bytes, "Resent-", 7) == 0)
        return complain(EX_DATAERR, "a message that is resent (%.*s) cannot be sent by its headers",
                        (int)field->name.len, field->name.bytes);
    if (invocation->is_delegated && is_field(field, "Attach"))
        return complain(EX_DATAERR, "Attach: takes files of the mount's owner: it is not for who sends with "
                                    "another user's rights (sudo, inboxfs-mta)");
    append_field(out, field);
    return EX_OK;
}

static bool is_recipients_field(const struct mime_field *field)
{
    return is_field(field, "To") || is_field(field, "Cc") || is_field(field, "Bcc");
}

static int append_headers(struct strbuf *out, const struct invocation *invocation,
                          const struct local_names *names, const struct input_message *message,
                          struct address_list *named)
{
    _cleanup_addresses_ struct address_list from = {0}; /* of the From that is replaced */
    bool has_from = false;
    bool has_reply_to = false;
    int status = EX_OK;
    struct span rest = message->header;
    struct mime_field field;
    while (status == EX_OK && mime_take_field(&rest, &field)) {
        has_reply_to = has_reply_to || is_field(&field, "Reply-To");
        if (is_recipients_field(&field)) {
            status = append_recipients(out, &field, names, named);
        } else if (!is_field(&field, "From")) {
            status = append_other_field(out, invocation, &field);
        } else if (is_usable_from(invocation, names, &field, &from)) {
            has_from = true;
            append_field(out, &field);
        }
    }
    if (!has_from && status == EX_OK)
        append_from(out, invocation, names, from.len > 0 ? from.items : NULL, has_reply_to);
    return status;
}

/* `named`: the recipients in the headers; `given`: those among the arguments. */
static int check_recipients(const struct invocation *invocation, const struct input_message *message,
                            const struct address_list *named, const struct address_list *given)
{
    if (given->len == 0 && (!invocation->reads_headers || named->len == 0))
        return complain(invocation->reads_headers ? EX_DATAERR : EX_USAGE, "no recipient is named");
    for (size_t i = 0; i < named->len && !invocation->reads_headers; i++) {
        const char *address = named->items[i].address;
        if (address_list_has(given, address))
            continue;
        bool is_alias = strcasestr(message->text.bytes, address) == NULL;
        return complain(EX_DATAERR,
                        "%s stands in the headers and is not among the recipients given; all whom the "
                        "headers name would get it: nothing is sent",
                        is_alias ? "a local name" : address);
    }
    return EX_OK;
}

/* Appends the given recipients that no header names, as Bcc. If the headers name none and one is given, the
 * field is To, as sendmail adds it: only that recipient sees it. */
static void append_given(struct strbuf *out, const struct input_message *message,
                         const struct address_list *given, const struct address_list *named)
{
    bool has_field = false;
    struct span rest = message->header;
    struct mime_field field;
    while (mime_take_field(&rest, &field))
        has_field = has_field || is_recipients_field(&field);
    append_addresses(out, !has_field && given->len == 1 ? "To" : "Bcc", given, named);
}

static int compose_with(const struct invocation *invocation, const struct local_names *names,
                        const struct input_message *message, struct strbuf *out)
{
    _cleanup_addresses_ struct address_list given = {0};
    _cleanup_addresses_ struct address_list named = {0};
    int status = EX_OK;
    for (char **recipient = invocation->recipients; *recipient != NULL && status == EX_OK; recipient++)
        status = local_names_resolve(names, *recipient, &given);
    if (status == EX_OK)
        status = append_headers(out, invocation, names, message, &named);
    if (status == EX_OK)
        status = check_recipients(invocation, message, &named, &given);
    append_given(out, message, &given, &named);
    strbuf_append_char(out, '\n');
    strbuf_append(out, message->body.bytes, message->body.len);
    return status;
}

int message_compose(const struct invocation *invocation, int mount, struct strbuf *text, struct strbuf *out)
{
    struct input_message message;
    int status = take_message(invocation, text, &message);
    if (status != EX_OK)
        return status;
    _cleanup_local_names_ struct local_names names;
    status = local_names_init(&names, invocation, mount);
    if (status == EX_OK)
        status = compose_with(invocation, &names, &message, out);
    if (status != EX_OK || out->error == 0)
        return status;
    return out->error == -EMSGSIZE
               ? complain(EX_DATAERR, "the message and its recipients are over %d bytes", DRAFT_MAX_BYTES)
               : complain_of_memory();
}
