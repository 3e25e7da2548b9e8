/* SPDX-License-Identifier: MIT */
/*
 * A draft is read in three steps: the two forms of a message are told apart, each is read into a `struct
 * draft_reading`, and what was read is checked as a whole and written as a request. This file has them in the
 * order in which they need each other: the reading, the JSON form, the RFC 5322 form, answers, and the whole.
 */
#include "mail/draft.h"

#include <ctype.h>
#include <errno.h>
#include <glib.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/file_name.h"
#include "mail/header_text.h"
#include "mail/json_writer.h"
#include "mail/message_id.h"
#include "mail/mime.h"
#include "mail/mime_text.h"
#include "mail/reason.h"
#include "mail/transfer_encoding.h"

struct string_list {
    char **items;
    size_t len;
};

/* A draft while it is being read: what both forms of a message come to, before it is checked as a whole and
 * written as a request. */
struct draft_reading {
    bool is_answer;     /* what is missing will be taken from what it answers */
    bool is_from_email; /* made of an email that is answered, which may name what is no address */
    char *from;
    bool says_to; /* whom it is for, or with nobody in it: that it is for nobody */
    bool says_cc;
    struct address_list to;
    struct address_list cc;
    struct address_list bcc;
    struct address_list reply_to;
    char *subject;    /* NULL: left out, so that the service takes the original's */
    char *plain_text; /* NULL: "" */
    char *html;       /* NULL: none */
    bool alternative_content;
    char *existing_email_id; /* NULL unless message_type is reply or forward */
    char *message_type;      /* NULL: new */
    struct string_list attachment_ids;
    struct string_list attachment_names;
    struct draft_part *parts;
    size_t parts_len;
    struct string_list in_reply_to; /* Message-IDs: the first ones, */
    struct string_list references;  /* and the last ones */
    struct string_list content_ids; /* of the parts; "": none */
    struct mime_texts texts;
    struct string_list not_carried; /* words, as in struct draft */
    const char *message;            /* borrowed, as is the next: where the text begins */
    char **ret_reason;
};

enum {
    REQUEST_MAX_BYTES = 40 * 1000 * 1000,
    NOT_CARRIED_MAX = 32, /* lines of words; what is beyond is "and more" */
};

/* 0 or -ENOMEM. */
static int string_list_append(struct string_list *list, const char *text)
{
    char **items = realloc(list->items, (list->len + 1) * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    list->items = items;
    items[list->len] = strdup(text);
    if (items[list->len] == NULL)
        return -ENOMEM;
    list->len++;
    return 0;
}

static void strings_free(char **items, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free(items[i]);
    free(items);
}

static void parts_free(struct draft_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free(parts[i].name);
        free(parts[i].content_type);
        free(parts[i].bytes);
    }
    free(parts);
}

/* Appends a part; `bytes` is taken over in any case. 0 or -ENOMEM. */
static int draft_append_part(struct draft_reading *reading, const char *name, const char *content_type,
                             char *bytes, size_t len)
{
    struct draft_part *parts = realloc(reading->parts, (reading->parts_len + 1) * sizeof(*parts));
    if (parts == NULL) {
        free(bytes);
        return -ENOMEM;
    }
    reading->parts = parts;
    struct draft_part *part = &parts[reading->parts_len++];
    *part = (struct draft_part){strdup(name), strdup(content_type), bytes, len};
    return part->name == NULL || part->content_type == NULL ? -ENOMEM : 0;
}

/* Releases and empties all of it. */
static void draft_reading_release(struct draft_reading *reading)
{
    free(reading->from);
    address_list_release(&reading->to);
    address_list_release(&reading->cc);
    address_list_release(&reading->bcc);
    address_list_release(&reading->reply_to);
    free(reading->subject);
    free(reading->plain_text);
    free(reading->html);
    free(reading->existing_email_id);
    free(reading->message_type);
    strings_free(reading->attachment_ids.items, reading->attachment_ids.len);
    strings_free(reading->attachment_names.items, reading->attachment_names.len);
    parts_free(reading->parts, reading->parts_len);
    strings_free(reading->in_reply_to.items, reading->in_reply_to.len);
    strings_free(reading->references.items, reading->references.len);
    strings_free(reading->content_ids.items, reading->content_ids.len);
    strings_free(reading->not_carried.items, reading->not_carried.len);
    mime_texts_release(&reading->texts);
    *reading = (struct draft_reading){.ret_reason = reading->ret_reason};
}

/* Notes, once, what of the message the interface has no place for. 0 or -ENOMEM. */
__attribute__((format(printf, 2, 3))) static int note_not_carried(struct draft_reading *reading,
                                                                  const char *format, ...)
{
    struct string_list *list = &reading->not_carried;
    if (list->len > NOT_CARRIED_MAX)
        return 0;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *words = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < list->len; i++)
        if (strcasecmp(list->items[i], words) == 0)
            return 0;
    return string_list_append(list, list->len == NOT_CARRIED_MAX ? "and more" : words);
}

/* Says that there are too many: -EMSGSIZE. */
static int draft_refuse_recipients(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d recipients", DRAFT_RECIPIENTS_MAX);
}

/* How many blanks and line ends the text begins with. */
static size_t blank_len(const char *bytes, size_t len)
{
    size_t blank = 0;
    while (blank < len && strchr(" \t\r\n", bytes[blank]) != NULL)
        blank++;
    return blank;
}

/* ---- the JSON form: the send request of the interface, with its conveniences. Every field and type is
 * checked, for the service would not tell, or only after the message was handed in. */

enum {
    PATH_BYTES = 80 /* of the name of a value, such as "to_addresses[12].name" */
};

static int refuse(const struct draft_reading *reading, const char *path, const char *words)
{
    return reason_give(reading->ret_reason, -EBADMSG, "%s: %s", path, words);
}

static int read_text_field(struct draft_reading *reading, const char *path, const json_t *value, void *target)
{
    char **text = target;
    if (!json_is_string(value))
        return refuse(reading, path, "not a string");
    *text = strdup(json_string_value(value));
    return *text == NULL ? -ENOMEM : 0;
}

/* ---- the JSON form: addresses */

/* `address`: the text that is none, or NULL. */
static int refuse_address(const struct draft_reading *reading, const char *path, const char *address)
{
    if (address == NULL)
        return refuse(reading, path, "not an email address");
    return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address: \"%.80s\"", path, address);
}

/* Names that other interfaces give to the fields, compared by same_field(). */
static const struct {
    const char *name;
    const char *meant;
} other_names[] = {
    {"to", "to_addresses"},
    {"recipient", "to_addresses"},
    {"recipients", "to_addresses"},
    {"to_address", "to_addresses"},
    {"cc", "cc_addresses"},
    {"bcc", "bcc_addresses"},
    {"reply_to", "reply_to_addresses"},
    {"from", "from_address"},
    {"sender", "from_address"},
    {"from_email", "from_address"},
    {"title", "subject"},
    {"body", "plain_text"},
    {"text", "plain_text"},
    {"plain", "plain_text"},
    {"content", "plain_text"},
    {"message", "plain_text"},
    {"body_text", "plain_text"},
    {"text_body", "plain_text"},
    {"html_body", "html"},
    {"body_html", "html"},
    {"attachment", "attachments"},
    {"attach", "attachments"},
    {"files", "attachments"},
    {"in_reply_to", "existing_email_id"},
};

/* Compares without regard to case and to what separates words: Reply-To, replyTo, reply_to. */
static bool same_field(const char *name, const char *other)
{
    for (;;) {
        name += strspn(name, "_- ");
        other += strspn(other, "_- ");
        if (tolower((unsigned char)*name) != tolower((unsigned char)*other))
            return false;
        if (*name == '\0')
            return true;
        name++;
        other++;
    }
}

/* Refuses a field by what it is called: -EBADMSG. `meant` may be NULL. */
static int refuse_field(const struct draft_reading *reading, const char *path, const char *name,
                        const char *meant)
{
    if (meant == NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "%sunknown field \"%.40s\"", path, name);
    return reason_give(reading->ret_reason, -EBADMSG, "%sunknown field \"%.40s\": it is called \"%s\" here",
                       path, name, meant);
}

static int refuse_address_field(const struct draft_reading *reading, const char *path, const char *name)
{
    char prefix[PATH_BYTES + 2];
    snprintf(prefix, sizeof(prefix), "%s: ", path);
    return refuse_field(reading, prefix, name, same_field(name, "email") ? "address" : NULL);
}

static int read_address_object(struct draft_reading *reading, const char *path, const json_t *object,
                               struct address_list *list)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value)
        if (strcmp(key, "address") != 0 && strcmp(key, "name") != 0)
            return refuse_address_field(reading, path, key);

    const char *address = json_string_value(json_object_get(object, "address"));
    const json_t *name = json_object_get(object, "name");
    if (address == NULL || !address_is_valid(address))
        return refuse_address(reading, path, address);
    if (name != NULL && !json_is_null(name) && !json_is_string(name))
        return refuse(reading, path, "the name is not a string");
    int error = address_list_append(list, address, json_string_value(name));
    return error == -EBADMSG ? refuse(reading, path, "the name holds a control character") : error;
}

static int read_address_text(struct draft_reading *reading, const char *path, const char *text,
                             struct address_list *list)
{
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse(list, text, &refused);
    if (error == -EMSGSIZE)
        return draft_refuse_recipients(reading);
    return error == -EBADMSG ? refuse_address(reading, path, refused) : error;
}

static int read_one_address(struct draft_reading *reading, const char *path, const json_t *value,
                            struct address_list *list)
{
    size_t before = list->len;
    if (json_is_object(value))
        return read_address_object(reading, path, value, list);
    if (!json_is_string(value))
        return refuse(reading, path, "neither a string nor an object with address and name");
    int error = read_address_text(reading, path, json_string_value(value), list);
    return error == 0 && list->len != before + 1 ? refuse(reading, path, "not one email address") : error;
}

static void note_given(struct draft_reading *reading, const struct address_list *list)
{
    reading->says_to = reading->says_to || list == &reading->to;
    reading->says_cc = reading->says_cc || list == &reading->cc;
}

/* A string may hold several addresses, like a header; a string in an array holds one. */
static int read_addresses_field(struct draft_reading *reading, const char *field, const json_t *value,
                                void *target)
{
    struct address_list *list = target;
    note_given(reading, list);
    if (json_is_string(value))
        return read_address_text(reading, field, json_string_value(value), list);
    if (json_is_object(value))
        return read_address_object(reading, field, value, list);
    if (!json_is_array(value))
        return refuse(reading, field, "not an array of addresses");

    int error = 0;
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++) {
        char path[PATH_BYTES];
        const json_t *one = json_array_get(value, i);
        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        if (reading->is_from_email && json_is_string(one) && list->unusable == NULL)
            error = (list->unusable = strdup(json_string_value(one))) != NULL ? 0 : -ENOMEM;
        else
            error = read_one_address(reading, path, one, list);
    }
    return error;
}

static int read_from_field(struct draft_reading *reading, const char *field, const json_t *value, void *from)
{
    struct address_list list = {0};
    int error = read_one_address(reading, field, value, &list);
    if (error == 0 && list.items != NULL)
        *(char **)from = TAKE_PTR(list.items[0].address);
    address_list_release(&list);
    return error;
}

/* ---- the JSON form: text */

static int read_subject_field(struct draft_reading *reading, const char *field, const json_t *value,
                              void *subject)
{
    int error = read_text_field(reading, field, value, subject);
    if (error == 0 && !address_name_is_valid(*(char **)subject))
        error = refuse(reading, field, "holds a control character");
    return error;
}

static int read_boolean_field(struct draft_reading *reading, const char *field, const json_t *value,
                              void *target)
{
    if (!json_is_boolean(value))
        return refuse(reading, field, "neither true nor false");
    *(bool *)target = json_is_true(value);
    return 0;
}

static int read_existing_email_id_field(struct draft_reading *reading, const char *field, const json_t *value,
                                        void *id)
{
    int error = read_text_field(reading, field, value, id);
    if (error == 0 && **(char **)id == '\0')
        error = refuse(reading, field, "empty");
    return error;
}

static int read_message_type_field(struct draft_reading *reading, const char *field, const json_t *value,
                                   void *target)
{
    const char *type = json_string_value(value);
    if (type != NULL && strcmp(type, "new") == 0)
        return 0;
    if (type == NULL || (strcmp(type, "reply") != 0 && strcmp(type, "forward") != 0))
        return refuse(reading, field, "not one of \"new\", \"reply\" and \"forward\"");
    return read_text_field(reading, field, value, target);
}

/* ---- the JSON form: attachments */

static bool is_id(const char *text)
{
    return text[0] != '\0';
}

static int read_strings(struct draft_reading *reading, const char *field, const json_t *value,
                        bool (*is_right)(const char *text), const char *words, struct string_list *list)
{
    if (!json_is_array(value))
        return refuse(reading, field, "not an array of strings");
    if (json_array_size(value) > ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "%s: more than %d", field, ATTACHMENTS_MAX);

    int error = 0;
    for (size_t i = 0; i < json_array_size(value) && error == 0; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s[%zu]", field, i);
        error =
            text == NULL || !is_right(text) ? refuse(reading, path, words) : string_list_append(list, text);
    }
    return error;
}

static int read_attachments_field(struct draft_reading *reading, const char *field, const json_t *value,
                                  void *names)
{
    return read_strings(reading, field, value, file_name_is_valid, "not the name of a file in attachments/",
                        names);
}

static int read_attachment_ids_field(struct draft_reading *reading, const char *field, const json_t *value,
                                     void *ids)
{
    return read_strings(reading, field, value, is_id, "not an id", ids);
}

static int refuse_idempotency_key(struct draft_reading *reading, const char *field, const json_t *value,
                                  void *target)
{
    (void)value, (void)target;
    return refuse(reading, field, "is made by the filesystem, and cannot be given");
}

/* ---- the JSON form: the whole */

/* `target`: where the value goes in struct draft_reading. */
static const struct field {
    const char *name;
    int (*read)(struct draft_reading *reading, const char *field, const json_t *value, void *target);
    size_t target;
} fields[] = {
    {"from_address", read_from_field, offsetof(struct draft_reading, from)},
    {"to_addresses", read_addresses_field, offsetof(struct draft_reading, to)},
    {"cc_addresses", read_addresses_field, offsetof(struct draft_reading, cc)},
    {"bcc_addresses", read_addresses_field, offsetof(struct draft_reading, bcc)},
    {"reply_to_addresses", read_addresses_field, offsetof(struct draft_reading, reply_to)},
    {"subject", read_subject_field, offsetof(struct draft_reading, subject)},
    {"plain_text", read_text_field, offsetof(struct draft_reading, plain_text)},
    {"html", read_text_field, offsetof(struct draft_reading, html)},
    {"alternative_content", read_boolean_field, offsetof(struct draft_reading, alternative_content)},
    {"existing_email_id", read_existing_email_id_field, offsetof(struct draft_reading, existing_email_id)},
    {"message_type", read_message_type_field, offsetof(struct draft_reading, message_type)},
    {"attachments", read_attachments_field, offsetof(struct draft_reading, attachment_names)},
    {"attachment_ids", read_attachment_ids_field, offsetof(struct draft_reading, attachment_ids)},
    {"idempotency_key", refuse_idempotency_key, 0},
};

/* The field that somebody means by this name, or NULL. */
static const char *find_meant(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (same_field(name, fields[i].name))
            return fields[i].name;
    for (size_t i = 0; i < ARRAY_LEN(other_names); i++)
        if (same_field(name, other_names[i].name))
            return other_names[i].meant;
    return NULL;
}

static int read_field(struct draft_reading *reading, const char *name, const json_t *value)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        return json_is_null(value) ? 0
                                   : fields[i].read(reading, name, value, (char *)reading + fields[i].target);
    }
    return refuse_field(reading, "", name, find_meant(name));
}

static int check_reply(const struct draft_reading *reading)
{
    if (reading->message_type != NULL && reading->existing_email_id == NULL)
        return refuse(reading, "existing_email_id", "needed for a reply or forward");
    if (reading->message_type == NULL && reading->existing_email_id != NULL)
        return refuse(reading, "existing_email_id", "needs message_type \"reply\" or \"forward\"");
    return 0;
}

/* 0, -EBADMSG, -EMSGSIZE, -ENOMEM; the reason is given. The bytes hold no NUL. */
static int draft_read_json(struct draft_reading *reading, const char *bytes, size_t len)
{
    json_error_t problem;
    _cleanup_json_ json_t *object = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &problem);
    if (object == NULL) {
        bool is_nul = json_error_code(&problem) == json_error_null_character;
        return reason_give(reading->ret_reason, -EBADMSG, "not JSON: line %d, column %d: %s", problem.line,
                           problem.column, is_nul ? "a string holds a NUL character" : problem.text);
    }

    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        int error = read_field(reading, name, value);
        if (error != 0)
            return error;
    }
    return check_reply(reading);
}

/* ---- header sections: any file may be put into the outbox, and mime.h makes something of anything, so the
 * section of the message, and of each of its parts, is held against the grammar of RFC 5322 */

enum {
    HEADER_SECTION_MAX_BYTES = 1000 * 1000,
    HEADER_NAME_MAX_BYTES = 998, /* the longest line of RFC 5322 */
    HEADER_NAME_SHOWN = 80,
};

/* A header that is text. */
static int read_text_header(struct draft_reading *reading, const char *name, const char *raw, void *target)
{
    _cleanup_free_ char *text = NULL;
    int error = header_text_decode(raw, strlen(raw), &text);
    if (error != 0)
        return error;
    if (!address_name_is_valid(text))
        return reason_give(reading->ret_reason, -EBADMSG, "%s: holds a control character", name);
    *(char **)target = TAKE_PTR(text);
    return 0;
}

static int read_attach_header(struct draft_reading *reading, const char *name, const char *raw, void *names)
{
    _cleanup_free_ char *file = NULL;
    int error = read_text_header(reading, name, raw, &file);
    if (error != 0 || file == NULL)
        return error;
    if (!file_name_is_valid(file))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "Attach: \"%.80s\" is not the name of a file in attachments/", file);
    return string_list_append(names, file);
}

static int read_from_header(struct draft_reading *reading, const char *name, const char *raw, void *from)
{
    struct address_list list = {0};
    int error = read_address_text(reading, name, raw, &list);
    if (error == 0 && list.len > 1)
        error = reason_give(reading->ret_reason, -EBADMSG, "From: more than one address");
    if (error == 0 && list.len == 1)
        *(char **)from = TAKE_PTR(list.items[0].address);
    address_list_release(&list);
    return error;
}

static int read_addresses_header(struct draft_reading *reading, const char *name, const char *raw, void *list)
{
    note_given(reading, list);
    return read_address_text(reading, name, raw, list);
}

/* The first ids of In-Reply-To count, since it names one email; in some programs' words the ones behind it
 * are others. Of References the last ones count: it is the thread from its beginning. */
static int read_ids_header(struct draft_reading *reading, const char *name, const char *raw, void *target)
{
    (void)name;
    g_auto(GStrv) ids = message_id_list(raw, strlen(raw));
    struct string_list *list = target;
    int error = ids != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; error == 0 && ids[i] != NULL; i++) {
        bool is_full = list->len == DRAFT_MESSAGE_IDS_MAX;
        if (is_full && list == &reading->in_reply_to)
            break;
        if (is_full) {
            free(list->items[0]);
            memmove(list->items, list->items + 1, --list->len * sizeof(*list->items));
        }
        error = string_list_append(list, ids[i]);
    }
    return error;
}

enum header_trait {
    HEADER_COUNTS = 1,        /* a text that begins with it is a message */
    HEADER_IS_SINGLE = 2,     /* it may not stand twice */
    HEADER_MAKES_MESSAGE = 4, /* one of these has to be there */
};

/* The headers that are understood. `read` is NULL for those that every message gets anew, or that say nothing
 * to whom it is for; `target`: where the value goes in struct draft_reading. */
static const struct header {
    const char *name;
    unsigned int traits;
    int (*read)(struct draft_reading *reading, const char *name, const char *raw, void *target);
    size_t target;
} headers[] = {
    {"To", HEADER_COUNTS | HEADER_MAKES_MESSAGE, read_addresses_header, offsetof(struct draft_reading, to)},
    {"Cc", HEADER_COUNTS | HEADER_MAKES_MESSAGE, read_addresses_header, offsetof(struct draft_reading, cc)},
    {"Bcc", HEADER_COUNTS | HEADER_MAKES_MESSAGE, read_addresses_header, offsetof(struct draft_reading, bcc)},
    {"Subject", HEADER_COUNTS | HEADER_MAKES_MESSAGE | HEADER_IS_SINGLE, read_text_header,
     offsetof(struct draft_reading, subject)},
    {"From", HEADER_COUNTS | HEADER_MAKES_MESSAGE | HEADER_IS_SINGLE, read_from_header,
     offsetof(struct draft_reading, from)},
    {"Reply-To", HEADER_COUNTS, read_addresses_header, offsetof(struct draft_reading, reply_to)},
    {"Attach", HEADER_COUNTS, read_attach_header, offsetof(struct draft_reading, attachment_names)},
    {"In-Reply-To", 0, read_ids_header, offsetof(struct draft_reading, in_reply_to)},
    {"References", 0, read_ids_header, offsetof(struct draft_reading, references)},
    {"MIME-Version", HEADER_COUNTS, NULL, 0},
    {"Content-Type", HEADER_COUNTS | HEADER_IS_SINGLE, NULL, 0},
    {"Content-Transfer-Encoding", HEADER_COUNTS | HEADER_IS_SINGLE, NULL, 0},
    {"Date", 0, NULL, 0},
    {"Message-ID", 0, NULL, 0},
    {"Received", 0, NULL, 0},
    {"Return-Path", 0, NULL, 0},
    {"User-Agent", 0, NULL, 0},
    {"X-Mailer", 0, NULL, 0},
};

/* The header section of a message, or of one of its parts. */
struct header_section {
    struct span header;
    struct span body;
    unsigned int traits; /* of the headers that are there */
    bool seen[ARRAY_LEN(headers)];
};

static const struct header *find_header(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        if (strlen(headers[i].name) == name.len && strncasecmp(headers[i].name, name.bytes, name.len) == 0)
            return &headers[i];
    return NULL;
}

/* In letters of either case. */
static bool has_prefix(struct span name, const char *prefix)
{
    return name.len >= strlen(prefix) && strncasecmp(name.bytes, prefix, strlen(prefix)) == 0;
}

/* No blank stands before the colon, as programs had it before 2001. */
static bool has_header_name(const struct mime_field *field)
{
    return field->name.len <= HEADER_NAME_MAX_BYTES &&
           field->value.bytes == field->name.bytes + field->name.len + 1;
}

/* A carriage return that ends no line ends one to some mail programs. */
static bool has_bare_return(struct span text)
{
    const char *end = text.bytes + text.len;
    for (const char *at = text.bytes; (at = memchr(at, '\r', (size_t)(end - at))) != NULL; at++)
        if (at + 1 == end || at[1] != '\n')
            return true;
    return false;
}

/* In the file that the user wrote, from 1 on. */
static unsigned int line_number(const struct draft_reading *reading, const char *line)
{
    unsigned int number = 1;
    for (const char *c = reading->message; c < line; c++)
        number += *c == '\n';
    return number;
}

static int refuse_header_line(const struct draft_reading *reading, const char *where, const char *line)
{
    return reason_give(reading->ret_reason, -EBADMSG,
                       "%sline %u is neither a header nor the blank line after them",
                       where[0] == '\0' ? "not a message: " : where, line_number(reading, line));
}

static int check_field(struct draft_reading *reading, const char *where, const struct mime_field *field,
                       struct header_section *section)
{
    if (!has_header_name(field) || has_bare_return(field->line))
        return refuse_header_line(reading, where, field->line.bytes);
    const struct header *known = find_header(field->name);
    if (known == NULL)
        return 0;
    bool *is_seen = &section->seen[known - headers];
    if ((known->traits & HEADER_IS_SINGLE) != 0 && *is_seen)
        return reason_give(reading->ret_reason, -EBADMSG, "%s%s: given twice", where, known->name);
    *is_seen = true;
    section->traits |= known->traits;
    return 0;
}

static bool is_ended(const struct header_section *section)
{
    return section->body.bytes != section->header.bytes + section->header.len;
}

/* Reads header lines up to a blank line, or to the end. `where`: begins the words of a refusal, as
 * format_where() has it. 0, -EBADMSG (there is another line among them), -EMSGSIZE. */
static int read_header_section(struct draft_reading *reading, const char *where, struct span entity,
                               struct header_section *ret_section)
{
    struct header_section section = {0};
    struct mime_field field;
    mime_split(entity, &section.header, &section.body);
    if (section.header.len > HEADER_SECTION_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE, "%sthe headers are larger than %d bytes", where,
                           HEADER_SECTION_MAX_BYTES);
    struct span rest = section.header;
    int error = 0;
    while (error == 0 && mime_take_field(&rest, &field))
        error = check_field(reading, where, &field, &section);
    if (error == 0 && !is_ended(&section) && section.body.len > 0)
        error = refuse_header_line(reading, where, section.body.bytes);
    *ret_section = section;
    return error;
}

/* Checks that the bytes begin with a header section that can be a message's: nothing but header lines up to a
 * blank line, one of To, Cc, Bcc, Subject and From among them (of an answer, any that counts). 0, -EBADMSG,
 * -EMSGSIZE. */
static int read_message_header_section(struct draft_reading *reading, struct span message,
                                       struct header_section *ret_section)
{
    int error = read_header_section(reading, "", message, ret_section);
    if (error != 0)
        return error;
    unsigned int needed = reading->is_answer ? HEADER_COUNTS : HEADER_MAKES_MESSAGE;
    if ((ret_section->traits & needed) == 0)
        return reason_give(reading->ret_reason, -EBADMSG,
                           "not a message: no To, Cc, Bcc, Subject or From among its headers");
    /* What ends within its headers may be cut in the middle of an address. */
    return is_ended(ret_section) ? 0
                                 : reason_give(reading->ret_reason, -EBADMSG,
                                               "the message is cut off: no blank line ends its headers");
}

/* Returns true if the first line is one of the headers that count. */
static bool draft_begins_with_header(struct span text)
{
    struct mime_field field;
    if (!mime_take_field(&text, &field) || !has_header_name(&field))
        return false;
    const struct header *header = find_header(field.name);
    return header != NULL && (header->traits & HEADER_COUNTS) != 0;
}

/* Of a header that is not in the table. */
static int read_other_header(struct draft_reading *reading, struct span name)
{
    int shown = (int)(name.len < HEADER_NAME_SHOWN ? name.len : HEADER_NAME_SHOWN);
    if (has_prefix(name, "Content-"))
        return 0;
    /* No standard has such a header. Who writes it means Attach, and the file would be missing. */
    if (has_prefix(name, "Attach"))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "%.*s: no such header; Attach: NAME attaches a file of attachments/", shown,
                           name.bytes);
    return note_not_carried(reading, "the header %.*s", shown, name.bytes);
}

/* Takes over what the message's own headers say. */
static int draft_read_headers(struct draft_reading *reading, struct span section)
{
    struct mime_field field;
    int error = 0;
    while (error == 0 && mime_take_field(&section, &field)) {
        const struct header *header = find_header(field.name);
        if (header == NULL) {
            error = read_other_header(reading, field.name);
        } else if (header->read != NULL) {
            g_autofree char *value = g_strndup(field.value.bytes, field.value.len);
            error = header->read(reading, header->name, value, (char *)reading + header->target);
        }
    }
    return error;
}

/* ---- the parts of the RFC 5322 form. The texts become the bodies, every other leaf an attachment, so that
 * nothing is dropped: signatures and the halves of encrypted parts too. All is decoded strictly, since what
 * cannot be read whole must not be sent in part. */

enum {
    WHERE_BYTES = 16 + MIME_NESTING_MAX * 6,
};

/* Begins the words of a refusal: "" for the whole message, or "part 2.1: ". */
static void format_where(const struct mime_entity *entity, char ret_where[WHERE_BYTES])
{
    ret_where[0] = '\0';
    if (entity->around == NULL)
        return;
    format_where(entity->around, ret_where);
    size_t len = strlen(ret_where);
    if (len == 0)
        snprintf(ret_where, WHERE_BYTES, "part %u: ", entity->number);
    else
        snprintf(ret_where + len - 2, WHERE_BYTES - len + 2, ".%u: ", entity->number);
}

__attribute__((format(printf, 3, 4))) static int
refuse_part(const struct draft_reading *reading, const struct mime_entity *part, const char *format, ...)
{
    char where[WHERE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *words = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    format_where(part, where);
    return reason_give(reading->ret_reason, -EBADMSG, "%s%s", where, words);
}

/* Says in words what mime_decode_text() or transfer_encoding_decode() found. */
static int refuse_content(const struct draft_reading *reading, const struct mime_entity *part, int error,
                          const char *words)
{
    _cleanup_free_ char *charset = NULL;
    struct span encoding = mime_find_field(part->header, "Content-Transfer-Encoding");
    switch (error) {
    case -ENOTSUP:
        while (encoding.len > 0 && g_ascii_isspace(encoding.bytes[encoding.len - 1]))
            encoding.len--;
        while (encoding.len > 0 && g_ascii_isspace(*encoding.bytes))
            encoding = (struct span){encoding.bytes + 1, encoding.len - 1};
        return refuse_part(reading, part, "Content-Transfer-Encoding: \"%.*s\" is not supported",
                           (int)(encoding.len < 40 ? encoding.len : 40), encoding.bytes);
    case -EILSEQ:
        if (mime_read_parameter(part->header, "Content-Type", "charset", &charset) != 0)
            return -ENOMEM;
        return refuse_part(reading, part, "the text cannot be read as the charset it names, \"%.40s\"",
                           charset != NULL ? charset : "");
    case -EBADMSG:
        return refuse_part(reading, part, "%s", words);
    default:
        return error;
    }
}

/* A piece of a message, or a reference to one (RFC 2046 section 5.2): what its Content-Type says besides,
 * such as its place among the pieces, is needed to read it. */
static bool is_incomplete_message(const struct mime_entity *part)
{
    return mime_is_type(part, "message/partial") || mime_is_type(part, "message/external-body");
}

/* Notes what an attachment of the service cannot have. */
static int note_attachment(struct draft_reading *reading, const struct mime_entity *part, const char *name)
{
    if (is_incomplete_message(part))
        return note_not_carried(reading, "what the type of %s, %s, says besides", name, part->type);
    if (!mime_is_type(part, "text/"))
        return 0;
    int is_file = mime_is_file(part);
    if (is_file < 0)
        return is_file;
    if (is_file == 0)
        return note_not_carried(reading, "%s as a text of the message: it is attached, as %s", part->type,
                                name);
    _cleanup_free_ char *charset = NULL;
    int error = mime_read_parameter(part->header, "Content-Type", "charset", &charset);
    if (charset == NULL || strcasecmp(charset, "utf-8") == 0 || strcasecmp(charset, "us-ascii") == 0)
        return error;
    return note_not_carried(reading, "the charset of %s, %.40s", name, charset);
}

static int read_attachment(struct draft_reading *reading, const struct mime_entity *part)
{
    if (reading->parts_len >= ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d attachments", ATTACHMENTS_MAX);
    _cleanup_free_ char *name = NULL;
    const char *words = NULL;
    char *bytes = NULL;
    size_t len = 0;
    int error = mime_name_file(part, reading->parts_len + 1, &name);
    if (error != 0)
        return error;
    error = transfer_encoding_decode(part->header, part->body, true, &bytes, &len, &words);
    if (error != 0)
        return refuse_content(reading, part, error, words);
    char content_id[MIME_CONTENT_ID_SIZE];
    mime_content_id(part->header, content_id);
    error = draft_append_part(reading, name, part->type, bytes, len);
    error = error != 0 ? error : string_list_append(&reading->content_ids, content_id);
    return error != 0 ? error : note_attachment(reading, part, name);
}

static int read_leaf(void *context, const struct mime_entity *leaf, enum mime_role role)
{
    struct draft_reading *reading = context;
    if (leaf->around == NULL && is_incomplete_message(leaf))
        return refuse_part(reading, leaf, "a piece of a message, or a reference to one, cannot be sent");
    if (role == MIME_ATTACHMENT)
        return read_attachment(reading, leaf);
    const char *words = NULL;
    _cleanup_free_ char *text = NULL;
    int error = mime_decode_text(leaf, CHARSET_REFUSE, &text, &words);
    if (error != 0)
        return refuse_content(reading, leaf, error, words);
    return mime_texts_add(&reading->texts, leaf, role, text);
}

/* The header section of a part; that of the message was read before. */
static int begin_entity(void *context, const struct mime_entity *entity)
{
    struct draft_reading *reading = context;
    struct header_section section = {0};
    char where[WHERE_BYTES];
    format_where(entity, where);
    const char *end = entity->body.bytes + entity->body.len;
    struct span text = {entity->header.bytes, (size_t)(end - entity->header.bytes)};
    int error = entity->around == NULL ? 0 : read_header_section(reading, where, text, &section);
    if (error == 0 && mime_is_type(entity, "multipart/signed"))
        error =
            note_not_carried(reading, "multipart/signed: the signature is attached, and cannot be verified");
    if (error == 0 && mime_is_type(entity, "multipart/encrypted"))
        error = note_not_carried(reading, "multipart/encrypted: its parts are attached one by one");
    return error;
}

static int judge_defect(void *context, const struct mime_entity *entity, enum mime_defect defect)
{
    struct draft_reading *reading = context;
    switch (defect) {
    case MIME_NO_PARTS:
        return refuse_part(reading, entity, "a multipart message without its parts");
    case MIME_CUT_OFF:
        return refuse_part(reading, entity,
                           "the message is cut off: the closing boundary \"--%.70s--\" is missing",
                           entity->boundary);
    case MIME_TOO_MANY:
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d parts", MIME_ENTITIES_MAX);
    case MIME_TOO_DEEP:
        return reason_give(reading->ret_reason, -EBADMSG, "parts within parts, more than %d deep",
                           MIME_NESTING_MAX);
    }
    return 0;
}

/* The id behind "cid:" in html; the bytes it takes up there. */
static size_t take_cid(const char *text, char ret_id[MIME_CONTENT_ID_SIZE])
{
    size_t len = strcspn(text, "\"'<>() \t\r\n");
    g_autofree char *id = g_uri_unescape_segment(text, text + len, NULL);
    snprintf(ret_id, MIME_CONTENT_ID_SIZE, "%s", id == NULL || strlen(id) >= MIME_CONTENT_ID_SIZE ? "" : id);
    return len;
}

/* Attachments of the service have no Content-ID, so that pictures in the html do not find theirs. */
static int note_content_ids(struct draft_reading *reading)
{
    if (reading->html == NULL || reading->parts_len == 0)
        return 0;
    GHashTable *parts = g_hash_table_new(g_str_hash, g_str_equal);
    for (size_t i = 0; i < reading->content_ids.len; i++)
        g_hash_table_insert(parts, reading->content_ids.items[i], reading->parts[i].name);
    int error = 0;
    const char *at = reading->html;
    while (error == 0 && (at = strcasestr(at, "cid:")) != NULL) {
        char id[MIME_CONTENT_ID_SIZE];
        at += strlen("cid:");
        at += take_cid(at, id);
        const char *name = id[0] == '\0' ? NULL : g_hash_table_lookup(parts, id);
        if (name != NULL)
            error = note_not_carried(reading, "Content-ID of %s: the html names it as cid:%s", name, id);
    }
    g_hash_table_destroy(parts);
    return error;
}

/* check_whole() refuses a body that has more than it may have; no character has more than four bytes. */
static int read_parts(struct draft_reading *reading, struct span message)
{
    struct mime_visitor visitor = {reading, begin_entity, read_leaf, judge_defect};
    int error = mime_read(message, &visitor);
    if (error == 0)
        error = mime_texts_join(&reading->texts, DRAFT_BODY_MAX_BYTES + 4, &reading->plain_text,
                                &reading->html, &reading->alternative_content);
    return error != 0 ? error : note_content_ids(reading);
}

/* Returns true if another message of an mbox file follows: a blank line, a line "From …", and a header. */
static bool has_second_message(struct span text)
{
    const char *end = text.bytes + text.len;
    for (const char *at = text.bytes; (at = memmem(at, (size_t)(end - at), "\nFrom ", 6)) != NULL; at++) {
        bool is_behind_blank =
            at > text.bytes && (at[-1] == '\n' || (at[-1] == '\r' && at > text.bytes + 1 && at[-2] == '\n'));
        struct span rest = {at + 1, (size_t)(end - at) - 1};
        struct mime_field field;
        mime_take_line(&rest);
        if (is_behind_blank && mime_take_field(&rest, &field))
            return true;
    }
    return false;
}

static int draft_read_mime(struct draft_reading *reading, const char *bytes, size_t len)
{
    struct header_section section = {0};
    struct span message = {bytes, len};
    reading->message = bytes;
    bool has_mbox_line = mime_mbox_line_len(message) > 0;
    if (has_mbox_line)
        mime_take_line(&message);
    if (has_mbox_line && has_second_message(message))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "a mailbox with more than one message; hand in each by itself");
    int error = read_message_header_section(reading, message, &section);
    if (error == 0)
        error = draft_read_headers(reading, section.header);
    return error != 0 ? error : read_parts(reading, message);
}

/* ---- answers: what a user writes, laid over what the email answered gives */

static bool is_json(const char *bytes, size_t len)
{
    size_t blank = blank_len(bytes, len);
    return blank < len && bytes[blank] == '{';
}

/* A body alone is read as that of a message, whose charset nothing tells. */
static int read_answer_body(struct draft_reading *reading, const char *bytes, size_t len)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(2 * DRAFT_MAX_BYTES);
    strbuf_append_str(&message, "MIME-Version: 1.0\n\n");
    strbuf_append(&message, bytes, len);
    return message.error != 0 ? message.error : draft_read_mime(reading, message.data, message.len);
}

static int read_answer_text(struct draft_reading *reading, const char *bytes, size_t len)
{
    struct header_section section = {0};
    struct span text = {bytes, len};
    reading->message = bytes;
    int error = read_message_header_section(reading, text, &section);
    if (error == 0)
        return draft_read_mime(reading, bytes, len);
    if (error != -EBADMSG || draft_begins_with_header(text))
        return error;
    free(TAKE_PTR(*reading->ret_reason));
    return read_answer_body(reading, bytes, len);
}

/* With what is unusable in it: it is the whole list that is needed. */
static void take_list(struct address_list *list, struct address_list *missing)
{
    *list = *missing;
    *missing = (struct address_list){0};
}

static void take_text(char **text, char **missing)
{
    if (*text == NULL)
        *text = TAKE_PTR(*missing);
}

/* Which email is answered is settled: by where the message was put. */
static int check_target(const struct draft_reading *reading, const struct draft_reading *answered)
{
    bool is_other = reading->message_type != NULL && answered->message_type != NULL &&
                    (strcmp(reading->message_type, answered->message_type) != 0 ||
                     strcmp(reading->existing_email_id, answered->existing_email_id) != 0);
    return is_other ? reason_give(reading->ret_reason, -EBADMSG,
                                  "existing_email_id, message_type: not those of the email answered here")
                    : 0;
}

static int take_missing(struct draft_reading *reading, struct draft_reading *answered)
{
    int error = check_target(reading, answered);
    if (error != 0)
        return error;
    if (!reading->says_to)
        take_list(&reading->to, &answered->to);
    if (!reading->says_cc)
        take_list(&reading->cc, &answered->cc);
    take_text(&reading->from, &answered->from);
    take_text(&reading->subject, &answered->subject);
    take_text(&reading->existing_email_id, &answered->existing_email_id);
    take_text(&reading->message_type, &answered->message_type);
    return 0;
}

/* An answer: headers and body, or a body alone; what it does not say is taken from `answered`, a request in
 * JSON. 0 or as above. */
static int draft_read_answer(struct draft_reading *reading, const char *bytes, size_t len,
                             const char *answered)
{
    _cleanup_(draft_reading_release) struct draft_reading from_email = {.is_from_email = true,
                                                                        .ret_reason = reading->ret_reason};
    reading->is_answer = true;
    int error = draft_read_json(&from_email, answered, strlen(answered));
    if (error == 0)
        error = is_json(bytes, len) ? draft_read_json(reading, bytes, len)
                                    : read_answer_text(reading, bytes, len);
    return error != 0 ? error : take_missing(reading, &from_email);
}

/* Some editors begin a file with it. */
static const char byte_order_mark[3] = "\xef\xbb\xbf";

static size_t byte_order_mark_len(const char *bytes, size_t len)
{
    bool has_mark =
        len >= sizeof(byte_order_mark) && memcmp(bytes, byte_order_mark, sizeof(byte_order_mark)) == 0;
    return has_mark ? sizeof(byte_order_mark) : 0;
}

/* An answer goes to all whom the email names for it, or to nobody. */
static int refuse_unusable(struct draft_reading *reading)
{
    const char *to = reading->to.unusable;
    const char *cc = reading->cc.unusable;
    if (to == NULL && cc == NULL)
        return 0;
    return reason_give(
        reading->ret_reason, -EDESTADDRREQ,
        "the email names \"%.80s\", which is not an email address: a %s header has to say where "
        "this goes",
        to != NULL ? to : cc, to != NULL ? "To" : "Cc");
}

static int refuse_nobody(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EDESTADDRREQ, "no recipient: no To, Cc or Bcc");
}

/* Whether a text that begins so can be more than a body: JSON, or what may become the name of a header. */
static bool may_have_fields(const char *bytes, size_t len)
{
    size_t blank = blank_len(bytes, len);
    size_t name_len = 0;
    while (name_len < len && bytes[name_len] > ' ' && bytes[name_len] < 0x7f && bytes[name_len] != ':')
        name_len++;
    return blank == len || bytes[blank] == '{' || name_len == len || (name_len > 0 && bytes[name_len] == ':');
}

int draft_check_beginning(const char *bytes, size_t len, const char *answered, char **ret_reason)
{
    _cleanup_(draft_reading_release) struct draft_reading from_email = {.is_from_email = true,
                                                                        .ret_reason = ret_reason};
    bool may_be_mark = len < sizeof(byte_order_mark) && memcmp(bytes, byte_order_mark, len) == 0;
    size_t mark_len = byte_order_mark_len(bytes, len);
    *ret_reason = NULL;
    if (may_be_mark || may_have_fields(bytes + mark_len, len - mark_len))
        return 0;
    int error = draft_read_json(&from_email, answered, strlen(answered));
    error = error != 0 ? error : refuse_unusable(&from_email);
    bool names_nobody = from_email.to.len + from_email.cc.len == 0;
    return error == 0 && names_nobody ? refuse_nobody(&from_email) : error;
}

/* ---- what both forms have in common, and the request */

void draft_free(struct draft *draft)
{
    if (draft == NULL)
        return;
    free(draft->from);
    free(draft->request);
    strings_free(draft->not_carried, draft->not_carried_len);
    strings_free(draft->attachment_names, draft->attachment_names_len);
    parts_free(draft->parts, draft->parts_len);
    strings_free(draft->message_ids, draft->message_ids_len);
    free(draft);
}

static bool body_is_too_large(const char *body)
{
    return body != NULL && strlen(body) > DRAFT_BODY_MAX_BYTES;
}

/* What holds for a message in either form. */
static int check_whole(struct draft_reading *reading)
{
    size_t recipients = reading->to.len + reading->cc.len + reading->bcc.len;
    int error = refuse_unusable(reading);
    if (error != 0)
        return error;
    if (recipients == 0)
        return refuse_nobody(reading);
    if (recipients + reading->reply_to.len > DRAFT_RECIPIENTS_MAX)
        return draft_refuse_recipients(reading);
    if (body_is_too_large(reading->plain_text) || body_is_too_large(reading->html))
        return reason_give(reading->ret_reason, -EMSGSIZE, "the text is larger than %d bytes",
                           DRAFT_BODY_MAX_BYTES);
    if (reading->attachment_ids.len + reading->attachment_names.len + reading->parts_len > ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d attachments", ATTACHMENTS_MAX);

    size_t bytes = 0;
    for (size_t i = 0; i < reading->parts_len; i++)
        bytes += reading->parts[i].len;
    if (bytes > ATTACHMENTS_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE,
                           "the attachments are larger than %d bytes together", ATTACHMENTS_MAX_BYTES);
    return 0;
}

static void write_addresses_if_any(struct json_writer *writer, const char *key,
                                   const struct address_list *list)
{
    if (list->len > 0)
        address_list_write(list, writer, key);
}

static void write_ids(struct json_writer *writer, const char *const *ids, size_t len)
{
    for (size_t i = 0; i < len; i++)
        json_write_string(writer, ids[i]);
}

static void write_fields(const struct draft_reading *reading, struct json_writer *writer)
{
    address_list_write(&reading->to, writer, "to_addresses");
    write_addresses_if_any(writer, "cc_addresses", &reading->cc);
    write_addresses_if_any(writer, "bcc_addresses", &reading->bcc);
    write_addresses_if_any(writer, "reply_to_addresses", &reading->reply_to);
    if (reading->subject != NULL || reading->message_type == NULL)
        json_member_string(writer, "subject", reading->subject == NULL ? "" : reading->subject);
    json_member_string(writer, "plain_text", reading->plain_text == NULL ? "" : reading->plain_text);
    if (reading->html != NULL && reading->html[0] != '\0') {
        json_member_string(writer, "html", reading->html);
        json_member_boolean(writer, "alternative_content", reading->alternative_content);
    }
    if (reading->message_type != NULL) {
        json_member_string(writer, "existing_email_id", reading->existing_email_id);
        json_member_string(writer, "message_type", reading->message_type);
    }
    if (reading->attachment_ids.len > 0) {
        json_key(writer, "attachment_ids");
        json_begin_array(writer);
        write_ids(writer, (const char *const *)reading->attachment_ids.items, reading->attachment_ids.len);
        json_end_array(writer);
    }
}

static int write_request(const struct draft_reading *reading, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(REQUEST_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    write_fields(reading, &writer);
    json_end_object(&writer);
    if (text.error == -EMSGSIZE)
        return reason_give(reading->ret_reason, -EMSGSIZE, "the message is too large to be sent");
    *ret_request = strbuf_take(&text, NULL);
    return *ret_request == NULL ? -ENOMEM : 0;
}

/* jansson takes a hundred bytes and more for each value, which can be three bytes long. */
static bool has_too_many_values(const char *json, size_t len)
{
    size_t values = 1;
    bool is_quoted = false;
    for (size_t i = 0; i < len && values <= DRAFT_JSON_VALUES_MAX; i++) {
        if (is_quoted && json[i] == '\\')
            i++;
        else if (json[i] == '"')
            is_quoted = !is_quoted;
        else
            values += !is_quoted && json[i] == ',';
    }
    return values > DRAFT_JSON_VALUES_MAX;
}

/* No header begins so. */
static bool is_json_list(const char *bytes, size_t len)
{
    size_t next = len > 0 && bytes[0] == '[' ? 1 + blank_len(bytes + 1, len - 1) : len;
    return next < len && strchr("{[\"", bytes[next]) != NULL;
}

static int read_message(struct draft_reading *reading, const char *bytes, size_t len, const char *answered)
{
    if (len > DRAFT_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE, "the message is larger than %d bytes",
                           DRAFT_MAX_BYTES);
    if (len > 0 && memchr(bytes, '\0', len) != NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message: it holds a NUL byte");
    size_t mark_len = byte_order_mark_len(bytes, len);
    bytes += mark_len;
    len -= mark_len;

    size_t blank = blank_len(bytes, len);
    if (blank == len)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message: it is empty");
    if (bytes[blank] == '{' && has_too_many_values(bytes, len))
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d values", DRAFT_JSON_VALUES_MAX);
    if (answered != NULL)
        return draft_read_answer(reading, bytes, len, answered);
    if (is_json_list(bytes + blank, len - blank))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "a JSON list: a message is one object, and each has a file of its own");
    return bytes[blank] == '{' ? draft_read_json(reading, bytes, len) : draft_read_mime(reading, bytes, len);
}

/* In-Reply-To, then References from the last to the first. */
static int take_message_ids(struct draft_reading *reading, struct draft *draft)
{
    struct string_list *first = &reading->in_reply_to;
    struct string_list *then = &reading->references;
    if (first->len + then->len == 0 || reading->existing_email_id != NULL)
        return 0;
    draft->message_ids = calloc(first->len + then->len, sizeof(*draft->message_ids));
    if (draft->message_ids == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < first->len; i++)
        draft->message_ids[draft->message_ids_len++] = TAKE_PTR(first->items[i]);
    for (size_t i = then->len; i-- > 0;)
        draft->message_ids[draft->message_ids_len++] = TAKE_PTR(then->items[i]);
    return 0;
}

/* Hands over what the draft keeps of what was read. */
static int make_draft(struct draft_reading *reading, struct draft **ret_draft)
{
    struct draft *draft = calloc(1, sizeof(*draft));
    if (draft == NULL)
        return -ENOMEM;
    int error = write_request(reading, &draft->request);
    if (error == 0)
        error = take_message_ids(reading, draft);
    if (error != 0) {
        draft_free(draft);
        return error;
    }
    draft->from = TAKE_PTR(reading->from);
    draft->attachment_names = TAKE_PTR(reading->attachment_names.items);
    draft->attachment_names_len = reading->attachment_names.len;
    reading->attachment_names.len = 0;
    draft->not_carried = TAKE_PTR(reading->not_carried.items);
    draft->not_carried_len = reading->not_carried.len;
    reading->not_carried.len = 0;
    draft->parts = TAKE_PTR(reading->parts);
    draft->parts_len = reading->parts_len;
    reading->parts_len = 0;
    *ret_draft = draft;
    return 0;
}

int draft_parse(const char *bytes, size_t len, const char *answered, struct draft **ret_draft,
                char **ret_reason)
{
    *ret_reason = NULL;
    _cleanup_(draft_reading_release) struct draft_reading reading = {.ret_reason = ret_reason};
    int error = read_message(&reading, bytes, len, answered);
    if (error == 0)
        error = check_whole(&reading);
    return error != 0 ? error : make_draft(&reading, ret_draft);
}

/* Moves the ids that the request has, and these behind them, to its end. 0 or -ENOMEM. */
static int add_attachment_ids(json_t *request, const char *const *ids, size_t len)
{
    json_t *all = json_incref(json_object_get(request, "attachment_ids"));
    json_object_del(request, "attachment_ids");
    if (all == NULL && len > 0)
        all = json_array();
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++)
        error = json_array_append_new(all, json_string(ids[i])) == 0 ? 0 : -ENOMEM;
    if (all != NULL && json_object_set_new(request, "attachment_ids", all) != 0)
        error = -ENOMEM;
    return error;
}

int draft_complete_request(const struct draft *draft, const char *from, const char *replies_to,
                           const char *const *attachment_ids, size_t attachment_ids_len, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * REQUEST_MAX_BYTES);
    _cleanup_json_ json_t *rest = json_loads(draft->request, 0, NULL);
    _cleanup_json_ json_t *request = json_pack("{s:s}", "from_address", from);
    struct json_writer writer;
    /* Both are JSON that was written here. */
    if (rest == NULL || request == NULL || json_object_update(request, rest) != 0)
        return -ENOMEM;
    if (replies_to != NULL && draft->message_ids_len > 0 &&
        (json_object_set_new(request, "existing_email_id", json_string(replies_to)) != 0 ||
         json_object_set_new(request, "message_type", json_string("reply")) != 0))
        return -ENOMEM;
    if (add_attachment_ids(request, attachment_ids, attachment_ids_len) != 0)
        return -ENOMEM;
    json_writer_init(&writer, &text, 0);
    json_value_write(request, &writer);
    *ret_request = strbuf_take(&text, NULL);
    return *ret_request == NULL ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------- the order of sending */

/* Appends them in small letters. */
static void collect_addresses(const json_t *list, GPtrArray *addresses)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *address = json_string_value(json_object_get(json_array_get(list, i), "address"));
        if (address != NULL)
            g_ptr_array_add(addresses, g_ascii_strdown(address, -1));
    }
}

static int compare_addresses(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

int draft_sequence(const char *request, const char *from, char ret_sequence[65])
{
    _cleanup_json_ json_t *root = json_loads(request, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(root))
        return -EBADMSG;
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
    collect_addresses(json_object_get(root, "to_addresses"), lines);
    collect_addresses(json_object_get(root, "cc_addresses"), lines);
    collect_addresses(json_object_get(root, "bcc_addresses"), lines);
    g_ptr_array_sort(lines, compare_addresses);
    g_ptr_array_insert(lines, 0, g_ascii_strdown(from, -1));
    g_ptr_array_add(lines, g_strdup(""));
    g_ptr_array_add(lines, NULL);
    g_autofree char *text = g_strjoinv("\n", (char **)lines->pdata);
    hash_sha256(text, strlen(text), ret_sequence);
    return 0;
}
