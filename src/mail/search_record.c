/* SPDX-License-Identifier: MIT */
/*
 * Records looked through for what a search is about.
 */
#include "mail/search_record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/json_reader.h"
#include "mail/search_query.h"

enum {
    PEOPLE_MAX_BYTES = 256 * 1024
};

struct reading {
    struct json_reader reader;
    struct strbuf subject;
    struct strbuf sender;
    struct strbuf people;
    struct strbuf address; /* of one person, whose name is to stand before it */
};

static bool is_key(const struct json_scalar *key, const char *text)
{
    return key->len == strlen(text) && memcmp(key->text, text, key->len) == 0;
}

static bool is_people_key(const struct json_scalar *key)
{
    return is_key(key, "from_address") || is_key(key, "to_addresses") || is_key(key, "cc_addresses") ||
           is_key(key, "bcc_addresses") || is_key(key, "reply_to_addresses");
}

/* Whether the next value begins with this character, which is left where it is. */
static bool is_next(struct json_reader *reader, char c)
{
    if (!json_reader_take(reader, c))
        return false;
    reader->at--;
    return true;
}

/* ---------------------------------------------------------------- values */

static int skip_value(struct json_reader *reader)
{
    struct json_scalar unused;
    return json_reader_take_value(reader, NULL, &unused);
}

/* A string, as far as a NUL; of anything else, nothing. */
static int append_text(struct json_reader *reader, struct strbuf *out)
{
    struct json_scalar text;
    if (!is_next(reader, '"'))
        return skip_value(reader);
    int error = json_reader_take_string(reader, &text);
    if (error == 0)
        strbuf_append(out, text.text, strnlen(text.text, text.len));
    return error;
}

/* Takes the members of an object, each by `take`, which is given its key and has the value before it. */
static int take_members(struct reading *reading, struct strbuf *out,
                        int (*take)(struct reading *, const struct json_scalar *key, struct strbuf *out))
{
    struct json_reader *reader = &reading->reader;
    if (!json_reader_take(reader, '{'))
        return -EBADMSG;
    if (json_reader_take(reader, '}'))
        return 0;
    do {
        struct json_scalar key;
        int error = json_reader_take_string(reader, &key);
        if (error == 0 && !json_reader_take(reader, ':'))
            error = -EBADMSG;
        if (error == 0)
            error = take(reading, &key, out);
        if (error != 0)
            return error;
    } while (json_reader_take(reader, ','));
    return json_reader_take(reader, '}') ? 0 : -EBADMSG;
}

static int take_of_person(struct reading *reading, const struct json_scalar *key, struct strbuf *people)
{
    if (is_key(key, "address"))
        return append_text(&reading->reader, &reading->address);
    if (!is_key(key, "name"))
        return skip_value(&reading->reader);
    size_t len = people->len;
    int error = append_text(&reading->reader, people);
    if (people->len > len)
        strbuf_append_char(people, ' ');
    return error;
}

/* Addresses are objects; some servers give them as text. */
static int append_person(struct reading *reading, struct strbuf *people)
{
    strbuf_clear(&reading->address);
    int error = is_next(&reading->reader, '{') ? take_members(reading, people, take_of_person)
                                               : append_text(&reading->reader, &reading->address);
    if (reading->address.len > 0) {
        strbuf_append(people, reading->address.data, reading->address.len);
        strbuf_append_char(people, '\n');
    }
    return error == 0 && reading->address.error == -ENOMEM ? -ENOMEM : error;
}

static int append_people(struct reading *reading, struct strbuf *people)
{
    struct json_reader *reader = &reading->reader;
    if (!json_reader_take(reader, '['))
        return append_person(reading, people);
    if (json_reader_take(reader, ']'))
        return 0;
    do {
        int error = append_person(reading, people);
        if (error != 0)
            return error;
    } while (json_reader_take(reader, ','));
    return json_reader_take(reader, ']') ? 0 : -EBADMSG;
}

/* ---------------------------------------------------------------- the record */

static int take_of_record(struct reading *reading, const struct json_scalar *key, struct strbuf *people)
{
    if (is_key(key, "subject"))
        return append_text(&reading->reader, &reading->subject);
    if (!is_people_key(key))
        return skip_value(&reading->reader);
    if (!is_key(key, "from_address"))
        return append_people(reading, people);
    int error = append_people(reading, &reading->sender);
    strbuf_append(people, strbuf_str(&reading->sender), reading->sender.len);
    return error;
}

static char *take_text(struct strbuf *buffer)
{
    /* Cut short is better than not found at all. */
    if (buffer->error == -EMSGSIZE)
        buffer->error = 0;
    return buffer->data == NULL && buffer->error == 0 ? strdup("") : strbuf_take(buffer, NULL);
}

static int read_record(struct reading *reading, struct search_record *record)
{
    int error = take_members(reading, &reading->people, take_of_record);
    if (error != 0)
        return error == -ENOMEM ? error : -EBADMSG;
    _cleanup_free_ char *sender = take_text(&reading->sender);
    record->subject = take_text(&reading->subject);
    record->people = take_text(&reading->people);
    record->sender = sender == NULL ? NULL : search_fold(sender);
    return record->subject == NULL || record->people == NULL || record->sender == NULL ? -ENOMEM : 0;
}

int search_record_read(const char *json, size_t len, struct search_record *ret_record)
{
    struct search_record record = {.subject = NULL};
    struct reading reading = {.subject = STRBUF_INIT(len),
                              .sender = STRBUF_INIT(PEOPLE_MAX_BYTES),
                              .people = STRBUF_INIT(PEOPLE_MAX_BYTES),
                              .address = STRBUF_INIT(PEOPLE_MAX_BYTES)};
    json_reader_init(&reading.reader, json, len);
    int error = read_record(&reading, &record);
    json_reader_release(&reading.reader);
    strbuf_release(&reading.subject);
    strbuf_release(&reading.sender);
    strbuf_release(&reading.people);
    strbuf_release(&reading.address);
    if (error != 0) {
        search_record_release(&record);
        return error;
    }
    *ret_record = record;
    return 0;
}

void search_record_release(struct search_record *record)
{
    free(record->subject);
    free(record->sender);
    free(record->people);
    *record = (struct search_record){.subject = NULL};
}
